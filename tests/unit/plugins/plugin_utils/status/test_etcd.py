# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.status.document import document
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.text import text

from .clusters import Cluster, process, unit

MEMBERS = ("control", "npu1", "npu2")
QUOTA = 2 << 30


def url(host: str) -> str:
    return f"http://{host}:2379"


def member(host: str, **more: Any) -> dict[str, Any]:
    return {"name": host, "leader": host == "npu1", "healthy": True, "db_size": 12 << 20, "db_quota": QUOTA, **more}


def told(*members: dict[str, Any], problems: tuple[str, ...] = (), ill: str = "", **more: Any) -> dict[str, Any]:
    """The status of a cluster with etcd on three hosts."""
    cluster = Cluster()
    asked: dict[str, Any] = {"control": {name: {"ok": True, "why": ""} for name in ("router", "master")}}
    for host in MEMBERS:
        cluster.plans[host]["processes"].append(process("etcd", "etcd"))
        cluster.units[host]["units"].append(unit("mooncake-pd-etcd.service"))
        asked.setdefault(host, {})["etcd"] = {"ok": host != ill, "why": "HTTP 503" if host == ill else ""}
    if ill:
        cluster.units[ill]["units"][-1].update(active_state="inactive", running=False)
    seen = cluster.seen(**{"asked": asked, "etcd": {"members": members, "problems": problems}, **more})
    seen.cluster["etcd"] = {"members": [{"name": host, "client_url": url(host)} for host in MEMBERS]}
    return document(seen)


def rules(content: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    return [(each["rule"], each["host"], each["severity"]) for each in content["problems"]]


def test_who_leads_and_how_full_it_is() -> None:
    content = told(*map(member, MEMBERS))
    assert (content["ok"], content["problems"]) == (True, [])
    found = {one["host"]: one for one in content["services"] if one["kind"] == "etcd"}
    assert {host: one["role"] for host, one in found.items()} == {
        **{"control": "follower", "npu1": "leader", "npu2": "follower"}
    }
    assert (found["npu1"]["db_size"], found["npu1"]["db_quota"]) == (12 << 20, QUOTA)
    assert {one["role"] for one in content["services"] if one["kind"] != "etcd"} == {None}
    (line,) = (line for line in text(content).splitlines() if "leader" in line)
    assert "active, leader" in line
    assert "12 MiB of 2 GiB" in line


def test_a_member_that_is_down_is_told_once() -> None:
    down = member("npu2", healthy=False, db_size=None, db_quota=None)
    content = told(member("control"), member("npu1"), down, problems=(f"{url('npu2')}: refused",), ill="npu2")
    assert rules(content) == [("stopped", "npu2", "error")]
    (one,) = (one for one in content["services"] if one["kind"] == "etcd" and one["host"] == "npu2")
    assert (one["ok"], one["role"], one["db_size"]) == (False, None, None)


@pytest.mark.parametrize(
    ("what", "fix"),
    [
        ("alarm NOSPACE of npu1", "etcd_defragment.yml"),
        ("they do not have one leader: nobody", "etcd.yml"),
        (f"{url('npu9')}: refused", "etcd.yml"),
    ],
)
def test_what_is_wrong_with_all_of_it(what: str, fix: str) -> None:
    content = told(*map(member, MEMBERS), problems=(what,))
    (problem,) = content["problems"]
    assert (content["ok"], problem["rule"], problem["what"]) == (False, "etcd", f"etcd: {what}")
    assert fix in problem["fix"]


def test_nearly_full_is_worth_knowing() -> None:
    content = told(member("control", db_size=int(QUOTA * 0.8) + 1), member("npu1", db_size=int(QUOTA * 0.79)))
    assert (content["ok"], rules(content)) == (True, [("etcd-nearly-full", "control", "notice")])
    assert "1.6 GiB of 2 GiB" in content["problems"][0]["what"]


@pytest.mark.parametrize("quota", [None, -1])
def test_without_a_quota_only_the_size_is_told(quota: int | None) -> None:
    content = told(*(member(host, db_quota=quota) for host in MEMBERS))
    assert content["ok"]
    assert "12 MiB\n" in text(content).replace("  1h", "\n")


def test_nobody_could_ask() -> None:
    content = told(etcd=None, etcd_unknown="no certificate")
    assert (content["ok"], rules(content)) == (False, [("not-asked", None, "error")])
    assert "no certificate" in content["problems"][0]["what"]
