# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.modules import etcd_info, etcd_member, etcd_snapshot, etcd_space

from .conftest import Answer, RunModule
from .fake_etcd import DATABASE, FakeEtcd


@pytest.fixture
def etcd() -> Iterator[FakeEtcd]:
    it = FakeEtcd("a", "b", "c")
    yield it
    it.close()


def look(run_module: RunModule, etcd: FakeEtcd, **params: Any) -> Answer:
    answer = run_module(etcd_info, endpoints=etcd.urls, **params)
    assert (answer["failed"], answer["changed"]) == (False, False)
    return answer


def test_a_healthy_cluster(run_module: RunModule, etcd: FakeEtcd) -> None:
    seen = look(run_module, etcd, members=["a", "b", "c"], without="a")
    assert (seen["healthy"], seen["problems"], seen["leader"], seen["quorum"]) == (True, [], "a", 2)
    assert (seen["cluster_id"], seen["can_lose"], seen["answering"]) == ("1f", True, etcd.urls)
    assert seen["members"][1] == {
        **{"id": "b", "name": "b", "peer_urls": ["http://b:2380"], "client_urls": [etcd.url("b")], "learner": False},
        **{"leader": False, "healthy": True, "why": "", "version": "3.4.23", "db_size": 2048},
        **{"db_size_in_use": 2048, "db_quota": None, "raft_term": 4},
    }
    assert look(run_module, etcd, quota=4096)["members"][1]["db_quota"] == 4096


def test_one_that_is_down_is_told_and_the_others_may_not_restart(run_module: RunModule, etcd: FakeEtcd) -> None:
    etcd.its["c"].down = True
    seen = look(run_module, etcd, without="a")
    assert (seen["healthy"], seen["can_lose"]) == (False, False)
    assert seen["problems"] == [f"{etcd.url('c')}: gone"]
    assert [(one["name"], one["healthy"], one["why"]) for one in seen["members"]][2] == ("c", False, "gone")
    assert look(run_module, etcd, without="c")["can_lose"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda etcd: setattr(etcd.its["b"], "leader", 0), "they do not have one leader"),
        (lambda etcd: setattr(etcd.its["b"], "leader", 11), "they do not have one leader"),
        (lambda etcd: setattr(etcd.its["b"], "cluster", 5), "the members belong to 2 clusters"),
        (lambda etcd: setattr(etcd.its["b"], "read_error", "etcdserver: request timed out"), "request timed out"),
        (lambda etcd: etcd.its["b"].alarms.append("NOSPACE"), "alarm NOSPACE of b"),
        (lambda etcd: etcd.unstarted.append("http://d:2380"), "http://d:2380 was added and has never started"),
        (lambda etcd: etcd.listed.pop("c"), "c is no member"),
        (lambda etcd: etcd.listed.update(x=77), "x is a member and not one of those that are wanted"),
    ],
)
def test_what_is_wrong_is_told(run_module: RunModule, etcd: FakeEtcd, change: Any, told: str) -> None:
    change(etcd)
    seen = look(run_module, etcd, members=["a", "b", "c"])
    assert not seen["healthy"]
    assert told in "; ".join(seen["problems"])


@pytest.mark.parametrize("error", ["etcdserver: user name is empty", "etcdserver: permission denied"])
def test_who_may_not_read_has_been_answered(run_module: RunModule, etcd: FakeEtcd, error: str) -> None:
    for it in etcd.its.values():
        it.read_error = error
    assert look(run_module, etcd)["healthy"]


def test_nobody_answers(run_module: RunModule, etcd: FakeEtcd) -> None:
    answer = run_module(etcd_info, endpoints=["http://127.0.0.1:1", etcd.url("a") + "/old"], members=["a"])
    assert (answer["healthy"], answer["members"], answer["cluster_id"], answer["leader"]) == (False, [], None, "")
    assert "before 3.4" in answer["problems"][1]
    assert answer["quorum"] == 0


def test_tls_without_a_file_is_told(run_module: RunModule) -> None:
    answer = run_module(etcd_info, endpoints=["https://127.0.0.1:1"], ca_file="/nowhere")
    assert "the certificates cannot be used" in answer["problems"][0]


def member(run_module: RunModule, etcd: FakeEtcd, name: str = "d", **params: Any) -> Answer:
    if params.get("state") != "absent":
        params = {"peer_url": f"http://{name}:2380", **params}
    return run_module(etcd_member, endpoints=etcd.urls, name=name, **params)


JOINED = "a=http://a:2380,b=http://b:2380,c=http://c:2380,d=http://d:2380"


def test_a_member_comes(run_module: RunModule, etcd: FakeEtcd) -> None:
    answer = member(run_module, etcd)
    assert (answer["changed"], answer["added"], answer["removed"]) == (True, True, [])
    assert answer["initial_cluster"] == JOINED
    assert etcd.calls == [("/v3/cluster/member/add", {"peerURLs": ["http://d:2380"]})]
    etcd.unstarted.append("http://d:2380")
    again = member(run_module, etcd, lost=True)
    assert (again["changed"], again["initial_cluster"], len(etcd.calls)) == (False, JOINED, 1)


def test_one_that_lost_its_data_is_removed_first(run_module: RunModule, etcd: FakeEtcd) -> None:
    etcd.its["c"].down = True
    assert not member(run_module, etcd, "c")["changed"]
    answer = member(run_module, etcd, "c", lost=True)
    assert (answer["changed"], answer["removed"], answer["added"]) == (True, ["c"], True)
    assert answer["initial_cluster"] == "a=http://a:2380,b=http://b:2380,c=http://c:2380"
    assert [path.rpartition("/")[2] for path, _body in etcd.calls] == ["remove", "add"]
    assert etcd.calls[0][1] == {"ID": "12"}


def test_check_mode_calls_nothing(run_module: RunModule, etcd: FakeEtcd) -> None:
    answer = member(run_module, etcd, check=True)
    assert (answer["changed"], etcd.calls) == (True, [])
    assert answer["diff"]["after"].endswith("d http://d:2380\n")
    assert member(run_module, etcd, "c", state="absent", check=True)["removed"] == ["c"]
    assert etcd.calls == []


@pytest.mark.parametrize("name", ["c", "13"])
def test_a_member_goes_and_what_is_gone_stays_gone(run_module: RunModule, etcd: FakeEtcd, name: str) -> None:
    etcd.listed["c"] = 0x13
    etcd.its["c"].id = 0x13
    answer = member(run_module, etcd, name, state="absent")
    assert (answer["changed"], answer["removed"]) == (True, ["c"])
    assert etcd.calls == [("/v3/cluster/member/remove", {"ID": str(0x13)})]
    assert not member(run_module, etcd, "x", state="absent")["changed"]


@pytest.mark.parametrize(
    ("change", "params", "told"),
    [
        (
            lambda etcd: setattr(etcd.its["b"], "down", True),
            {"name": "c", "state": "absent"},
            "there would be no quorum",
        ),
        (lambda etcd: etcd.unstarted.append("http://e:2380"), {}, "http://e:2380 was added and has never started"),
        (lambda _etcd: None, {"name": "c", "peer_url": "http://x:2380"}, "c is a member at http://c:2380"),
        (lambda _etcd: None, {"peer_url": "http://c:2380"}, "http://c:2380 is the member c, not d"),
        (lambda etcd: [setattr(it, "read_error", "timed out") for it in etcd.its.values()], {}, "no member can change"),
    ],
)
def test_what_would_be_wrong_is_refused(
    run_module: RunModule, etcd: FakeEtcd, change: Any, params: dict[str, Any], told: str
) -> None:
    change(etcd)
    answer = member(run_module, etcd, **params)
    assert (answer["failed"], etcd.calls) == (True, [])
    assert told in answer["msg"]
    assert "Mend:" in answer["msg"]


def test_what_etcd_says_is_told(run_module: RunModule, etcd: FakeEtcd) -> None:
    etcd.refusal = "etcdserver: unhealthy cluster"
    assert member(run_module, etcd)["msg"] == "etcd refused it: etcdserver: unhealthy cluster"


def test_a_snapshot_is_there_when_it_is_whole(run_module: RunModule, etcd: FakeEtcd, tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    etcd.its["a"].down = True
    assert run_module(etcd_snapshot, endpoints=etcd.urls, path=str(path), check=True)["changed"]
    assert not path.exists()
    answer = run_module(etcd_snapshot, endpoints=etcd.urls, path=str(path))
    assert (answer["changed"], answer["endpoint"], answer["size"]) == (True, etcd.url("b"), len(DATABASE) + 32)
    assert path.read_bytes()[:-32] == DATABASE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run_module(etcd_snapshot, path=str(path), state="verified")["size"] == answer["size"]


def test_a_broken_snapshot_is_none(run_module: RunModule, etcd: FakeEtcd, tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    etcd.piece = DATABASE[:-1] + b"x"
    answer = run_module(etcd_snapshot, endpoints=etcd.urls, path=str(path))
    assert (answer["failed"], os.listdir(tmp_path)) == (True, [])
    assert "its hash is another one" in answer["msg"]
    for text in (b"", b"x" * 600):
        path.write_bytes(text)
        told = run_module(etcd_snapshot, path=str(path), state="verified")
        assert "is no database" in told["msg"]
    for it in etcd.its.values():
        it.down = True
    assert "no member is healthy" in run_module(etcd_snapshot, endpoints=etcd.urls, path=str(path))["msg"]


QUOTA = 4096


def space(run_module: RunModule, etcd: FakeEtcd, **params: Any) -> Answer:
    return run_module(etcd_space, endpoints=etcd.urls, quota=QUOTA, **params)


def test_space_is_given_back_and_the_alarm_with_the_last_that_was_full(run_module: RunModule, etcd: FakeEtcd) -> None:
    for name in "ab":
        etcd.its[name].size = QUOTA
        etcd.its[name].alarms.append("NOSPACE")
    foretold = space(run_module, etcd, defragment="a", check=True)
    assert (foretold["changed"], foretold["size_after"], etcd.calls) == (True, 2048, [])
    first = space(run_module, etcd, defragment="a")
    assert (first["changed"], first["defragmented"], first["size_before"], first["size_after"]) == (
        *(True,) * 2,
        QUOTA,
        2048,
    )
    assert (first["disarmed"], first["alarms"]) == ([], ["NOSPACE of a", "NOSPACE of b"])
    last = space(run_module, etcd, defragment="b")
    assert (last["disarmed"], last["alarms"]) == (["a", "b"], [])
    calls = len(etcd.calls)
    again = space(run_module, etcd, defragment="b")
    assert (again["changed"], again["defragmented"], len(etcd.calls)) == (False, False, calls)


@pytest.mark.parametrize(("quota", "disarmed"), [(4096, []), (4310, []), (4320, ["a"]), (0, ["a"]), (-1, ["a"])])
def test_the_alarm_goes_when_there_is_more_quota(
    run_module: RunModule, etcd: FakeEtcd, quota: int, disarmed: list[str]
) -> None:
    etcd.its["a"].size = 4096
    etcd.its["a"].alarms.append("NOSPACE")
    etcd.its["b"].alarms.append("CORRUPT")
    foretold = run_module(etcd_space, endpoints=etcd.urls, quota=quota, check=True)
    answer = run_module(etcd_space, endpoints=etcd.urls, quota=quota)
    assert foretold["disarmed"] == answer["disarmed"] == disarmed
    assert answer["changed"] == bool(disarmed)
    assert answer["alarms"] == [*([] if disarmed else ["NOSPACE of a"]), "CORRUPT of b"]


@pytest.mark.parametrize(("room", "disarmed"), [(1, []), (3 << 19, []), ((3 << 19) + 1, ["a"])])
def test_the_alarm_stays_where_the_next_request_would_raise_it_again(
    run_module: RunModule, etcd: FakeEtcd, room: int, disarmed: list[str]
) -> None:
    quota = 2 << 30
    etcd.its["a"].size = quota - room
    etcd.its["a"].alarms.append("NOSPACE")
    answer = run_module(etcd_space, endpoints=etcd.urls, quota=quota)
    assert (answer["disarmed"], answer["changed"]) == (disarmed, bool(disarmed))


def test_little_that_is_free_stays(run_module: RunModule, etcd: FakeEtcd) -> None:
    etcd.its["a"].size = 2500
    assert not space(run_module, etcd, defragment="a")["changed"]
    assert space(run_module, etcd, defragment="a", min_free=15)["size_after"] == 2048


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda etcd: setattr(etcd.its["c"], "down", True), "without a there is no quorum, as c is not healthy"),
        (lambda etcd: setattr(etcd.its["a"], "down", True), "a is not healthy: gone"),
        (lambda etcd: etcd.listed.pop("a"), "a is no member of etcd"),
        (lambda etcd: [setattr(it, "down", True) for it in etcd.its.values()], "/a: gone; http"),
        (lambda etcd: setattr(etcd, "refusal", "etcdserver: too busy"), "etcd refused it: etcdserver: too busy"),
    ],
)
def test_a_member_that_may_not_be_silent_is_not_defragmented(
    run_module: RunModule, etcd: FakeEtcd, change: Any, told: str
) -> None:
    etcd.its["a"].size = QUOTA
    change(etcd)
    answer = space(run_module, etcd, defragment="a")
    assert answer["failed"]
    assert told in answer["msg"]
    assert "Mend:" in answer["msg"]
