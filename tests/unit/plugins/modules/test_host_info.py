# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.modules import host_info
from ansible_collections.mooncake.pd.tests.unit.plugins.module_utils import host_trees as trees
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight import healthy_host

RETURNED = yaml.safe_load(host_info.RETURN)["host"]
FREE = ("settings", "sysctl", "limits.environment", "governor")  # dicts with any keys
NAMED = ("units", "tools")  # dicts by a name
TYPES: dict[str, Any] = {
    "int": int,
    "float": (int, float),
    "str": str,
    "path": str,
    "bool": bool,
    "dict": dict,
    "list": list,
}


def odd(value: Any, documented: dict[str, Any], path: str) -> Iterator[str]:
    """What is not as the documentation says."""
    if value is None:
        return
    kind = documented["type"]
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        yield f"{path} is no {kind}"
    elif kind == "list":
        for inner in value:
            yield from odd(inner, {**documented, "type": documented["elements"]}, path)
    elif kind == "dict" and path in NAMED:
        for inner in value.values():
            yield from odd(inner, documented, f"{path}.*")
    elif kind == "dict" and path not in FREE:
        contains = documented["contains"]
        optional = {"flavour"} if path == "tools.*" else set()
        yield from (f"{path}.{key} is not documented" for key in value.keys() - contains.keys())
        yield from (f"{path}.{key} is not there" for key in contains.keys() - value.keys() - optional)
        for key in value.keys() & contains.keys():
            yield from odd(value[key], contains[key], f"{path}.{key}" if path else key)


def test_facts_of_this_machine_are_as_documented(run_module: Callable[..., dict[str, Any]]) -> None:
    answer = run_module(
        host_info,
        check=True,
        units=["no-such-unit.service"],
        paths=[{"path": "/tmp/x", "purpose": "scratch"}],
        names=[{"name": "localhost", "address": "127.0.0.1"}],
        peers=[{"name": "me", "address": "127.0.0.1", "ports": {"x": 1}}],
        peer_timeout=0.5,
        settings={"a": {"b": None}},
    )
    assert (answer["failed"], answer["changed"]) == (False, False)
    assert list(odd(answer["host"], RETURNED, "")) == []
    assert answer["host"]["settings"] == {"a": {"b": None}}
    assert answer["host"]["paths"][0]["purpose"] == "scratch"
    assert answer["host"]["peers"][0]["ports"][0]["state"] == "closed"


def test_names_of_planned_peers_say_nothing_to_the_module(run_module: Callable[..., dict[str, Any]]) -> None:
    assert "action plugin" in run_module(host_info, planned_peers=["d1"])["msg"]


def test_a_port_that_is_no_number_is_refused(run_module: Callable[..., dict[str, Any]]) -> None:
    peers = [{"name": "d1", "address": "127.0.0.1", "ports": {"api": "8200", "kv": "auto"}}]
    answer = run_module(host_info, peers=peers)
    assert answer["msg"] == "peers: the ports of d1 are not all numbers: {'api': '8200', 'kv': 'auto'}"


@pytest.mark.parametrize(
    "facts",
    [
        healthy_host.host(),
        healthy_host.host(units={"u": healthy_host.unit()}),
    ],
    ids=["healthy", "with a unit"],
)
def test_healthy_facts_are_as_documented(facts: dict[str, Any]) -> None:
    assert list(odd(facts, RETURNED, "")) == []


def test_the_comparison_with_the_documentation_finds_what_is_odd() -> None:
    facts = healthy_host.host(cpus="320")
    facts["memory"]["swap"] = facts["memory"].pop("swap_total")
    facts["interfaces"][0]["up"] = 1
    facts["tools"]["gcc"]["extra"] = 1
    assert set(odd(facts, RETURNED, "")) == {
        "cpus is no int",
        "memory.swap is not documented",
        "memory.swap_total is not there",
        "interfaces.up is no bool",
        "tools.*.extra is not documented",
    }


def test_all_is_handed_on(run_module: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def gather(look: Look, params: dict[str, Any]) -> dict[str, Any]:
        seen.update(params)
        return {"root": look.root}

    monkeypatch.setattr(host_info, "gather", gather)
    assert run_module(host_info)["host"] == {"root": "/"}
    assert seen.keys() == trees.PARAMS.keys()
    assert (seen["user"], seen["unit"], seen["peer_timeout"]) == ("nobody", "mooncake-pd-preflight.service", 2)
    documented = yaml.safe_load(host_info.DOCUMENTATION)["options"]
    assert documented.keys() - {"planned_peers"} == seen.keys()  # which become peers on the controller
