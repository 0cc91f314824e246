# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of instances: units taken apart, so that they can be compared."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.facts import facts_of, options
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.planned import instances_of, services_of
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, cpu, plan

CLUSTER = {
    "name": "lab",
    "engine": {"kind": "vllm_cpu", "version": "0.32.0"},
    "mooncake": {"version": "0.3.13"},
    "model": {"path": "/m", "served_name": "m"},
    "connector": {"name": "MooncakeConnector", "protocol": "tcp", "transfer": "pull"},
    "router": {"kind": "vllm_router", "contract": "mooncake", "port": 8000},
    "environment": {"SHARED": "1", "MOONCAKE_PD_ENGINE": "vllm_cpu 0.32.0"},
}


def unit(*words: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    argv = ["vllm", "serve", "/m", "--served-model-name", "m", *words]
    return {"unit": {"argv": argv, "environment": environment or {}}}


def own(*processes: dict[str, Any]) -> dict[str, Any]:
    found = facts_of(CLUSTER, processes)
    return {name: value for name, value in found.items() if name.startswith(("args.", "env.", "transfer."))}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--a", "1", "--b=2"], [("--a", ["1"]), ("--b", ["2"])]),
        (["--switch", "--no-other", "--last"], [("--switch", []), ("--other", [False]), ("--last", [])]),
        (["--sizes", "1", "2", "-4"], [("--sizes", ["1", "2", "-4"])]),
        (["--with_underscores", "x", "-q", "fp8"], [("--with-underscores", ["x"]), ("--quantization", ["fp8"])]),
        (["--compilation-config.mode", "3"], [("--compilation-config.mode", ["3"])]),
        (["stray"], []),
    ],
)
def test_options(words: list[str], found: list[tuple[str, list[Any]]]) -> None:
    assert list(options(words)) == found


def test_what_a_unit_says() -> None:
    found = own(unit("--a", "1", "--sizes", "1", "2", "--on", environment={"X": "y"}))
    assert found == {"args.--a": "1", "args.--on": True, "args.--sizes": ["1", "2"], "env.SHARED": "1", "env.X": "y"}


def test_json_is_taken_apart() -> None:
    found = own(
        unit("--additional-config", '{"a": {"b": 1}, "c": []}', "--kv-transfer-config", '{"kv_role": "kv_both"}')
    )
    assert found["args.--additional-config.a.b"] == 1
    assert found["args.--additional-config.c"] == []
    assert found["transfer.kv_role"] == "kv_both"
    assert own(unit("--x", "{no json"))["args.--x"] == "{no json"


def test_the_last_of_an_option_that_is_given_twice_is_not_hidden() -> None:
    """Which one wins is the engine's to say; what changes has to show in any case."""
    assert own(unit("--a", "1", "--a", "2"))["args.--a"] == ["1", "2"]


def test_ranks_that_differ_are_a_list() -> None:
    found = own(*(unit("--port", port, "--same", "x") for port in ("1", "2", "2")))
    assert found["args.--port"] == ["1", "2"]
    assert found["args.--same"] == "x"


def test_what_the_cluster_says_is_told_once() -> None:
    found = facts_of(CLUSTER, [unit()])
    assert found["model.served_name"] == "m"
    assert found["router.contract"] == "mooncake"
    assert not any(name.startswith(("args.--served", "env.MOONCAKE_PD_")) for name in found)


def test_secrets_are_not_kept_but_show_when_they_change() -> None:
    one, other = (own(unit("--api-token", value, environment={"HF_TOKEN": value})) for value in ("tiger", "lion"))
    assert "tiger" not in str(one)
    assert one["env.HF_TOKEN"].startswith("*** (sha256 ")
    assert one["env.HF_TOKEN"] != other["env.HF_TOKEN"]
    assert one["args.--api-token"] != other["args.--api-token"]


@pytest.mark.parametrize(
    ("backend", "store"), [({}, True), ({"backend": "Mooncake"}, True), ({"backend": "memcache"}, False)]
)
def test_a_pool_in_a_store(backend: dict[str, str], store: bool) -> None:
    raw = ascend()
    raw["connector"]["also"] = [{"name": "AscendStoreConnector", "extra_config": backend}]
    raw["engine_environment"] = {"MOONCAKE_CONFIG_PATH": "/srv/mooncake.json"}
    assert {item["facts"]["store"] for item in planned(raw)} == {store}
    assert {item["facts"]["store"] for item in planned(ascend())} == {False}


def planned(raw: dict[str, Any]) -> list[dict[str, Any]]:
    built = plan(raw)
    hosts = {name: built.hostvars(name)["pd_host"] for name in built.topology.hosts}
    return instances_of(built.cluster(), built.instances(), hosts)


def test_instances_have_all_their_processes() -> None:
    one, other = planned(ascend())
    assert [process["name"] for process in one["processes"]] == ["p1-0", "p1-1"]
    assert (one["hosts"], one["addresses"]) == (["npu1"], {"npu1": "192.0.2.31"})
    assert [process["unit"] for process in other["processes"]][-1] == "mooncake-pd-d1-3.service"
    assert other["facts"]["args.--data-parallel-rank"] == ["0", "1", "2", "3"]
    assert len({process["digest"] for item in (one, other) for process in item["processes"]}) == 6


@pytest.mark.parametrize(
    "change",
    [
        {"engine_args": ["--seed", "2"]},
        {"engine_environment": {"SHARED_BY_ALL": "x"}},
        {"drain_timeout": 21},
        {"mooncake": {"version": "0.3.13"}},
    ],
)
def test_a_digest_changes_with_its_unit(change: dict[str, Any]) -> None:
    before, after = (
        [process["digest"] for item in planned(raw) for process in item["processes"]]
        for raw in (cpu(), {**cpu(), **change})
    )
    assert not set(before) & set(after)
    assert before == [process["digest"] for item in planned(cpu()) for process in item["processes"]]


def test_services() -> None:
    built = plan(cpu())
    hosts = {name: built.hostvars(name)["pd_host"] for name in built.topology.hosts}
    found = {service["name"]: service for service in services_of(built.cluster(), hosts)}
    assert list(found) == ["master", "router-a", "router-b", "router"]
    assert (found["router-a"]["kind"], found["router-a"]["address"]) == ("router", "192.0.2.10")
