# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.report.table import WIDTH
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.document import document
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.seen import LEFT_OUT
from ansible_collections.mooncake.pd.plugins.plugin_utils.status.text import MOST_PROBLEMS, MOST_ROWS, lines, text

from .clusters import Cluster, process, unit

GOLDEN = Path(__file__).parent / "golden"


def shown(cluster: Cluster, every: bool = False, **more: Any) -> str:
    return text(document(cluster.seen(**more)), every)


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text()


def test_all_is_well() -> None:
    assert shown(Cluster()) == golden("well")


def test_what_is_wrong_has_a_way_out() -> None:
    cluster = Cluster(2, 2)
    cluster.end("npu4", advice="Give it more memory.")
    cluster.running["npu1"][0]["outdated"] = True
    cluster.unit("npu2").update(restarts=1)
    cluster.routers["out"] = ["d1"]
    cluster.units["npu2"]["strays"] = [unit("mooncake-pd-p9.service")]
    assert shown(cluster) == golden("wrong")


def test_many_that_look_alike_are_one_line() -> None:
    cluster = Cluster(40, 40, hosts=2)
    cluster.sicken("d7", "HTTP 503")
    absent = cluster.lose("npu4", "no route to it")
    assert shown(cluster, absent=absent) == golden("many")


def test_every_instance_on_demand() -> None:
    assert shown(Cluster(20, 20), every=True).count("  1h 5m   as planned") == 40 + 5
    assert shown(Cluster(20, 20)).count("20 as planned") == 2


def test_bad_ones_that_look_alike_are_one_line_and_one_problem() -> None:
    cluster = Cluster(40, 40)
    for number in range(1, 41):
        cluster.running[f"npu{number}"][0]["outdated"] = True
    told = shown(cluster)
    assert "40 other arguments" in told
    assert "    and 37 more: p[4-40]\n" in told
    assert told.count("Mend: roll.yml") == 1


def test_more_rows_than_a_screen_has() -> None:
    cluster = Cluster(40, 1)
    for number, engine in enumerate(cluster.engines):
        engine["servers"][0]["version"] = f"0.{number}"
    told = shown(cluster)
    assert f"and {41 - MOST_ROWS} more: see status.json, or all with -e status_all=true" in told
    assert "more" not in shown(cluster, every=True)


def test_more_problems_than_a_screen_has() -> None:
    cluster = Cluster(40, 1)
    for number in range(1, 41):
        cluster.end(f"npu{number}", advice=f"Cause {chr(64 + number)}.")
    told = shown(cluster)
    assert told.count("Mend:") == MOST_PROBLEMS
    assert f"and {41 - MOST_PROBLEMS} more groups: see status.json" in told


def test_what_limit_left_out() -> None:
    cluster = Cluster(1, 3)
    absent = {host: LEFT_OUT for name in ("npu2", "npu3", "npu4", "control") for host in cluster.lose(name, "")}
    told = shown(cluster, absent=absent, routers=None, asked={})
    assert told == golden("limit")


def test_tokens_that_decode_computed_itself() -> None:
    cluster = Cluster()
    cluster.engines[1]["servers"][0]["prompt_tokens"] = {"external_kv_transfer": 12_345_678, "local_compute": 11}
    assert "12M (11 own)" in shown(cluster)
    cluster.engines[1]["servers"][0]["prompt_tokens"] = None
    assert "KV IN" not in shown(cluster)


def test_nothing_of_a_host_reaches_the_terminal_raw() -> None:
    cluster = Cluster()
    cluster.sicken("d1", "bad \x1b[31m answer\n and more")
    told = shown(cluster)
    assert "\x1b" not in told
    assert r"bad \x1b[31m answer and more" in told


def test_problems_fit_into_a_terminal() -> None:
    cluster = Cluster()
    cluster.end("npu1", exit_text="word " * 60, advice="advice " * 60)
    content = document(cluster.seen())
    assert all(len(line.text) <= WIDTH for line in lines(content)[8:])
    assert {line.style for line in lines(content)} == {"title", "good", "bad", "plain", "dim"}


def test_supervisors_are_shown_when_something_is_wrong_with_them() -> None:
    cluster = Cluster(hosts=2)
    for host in ("npu3", "npu4"):
        cluster.plans[host]["processes"].append({**process("d1-group", "supervisor"), "supervises": "d1"})
        cluster.units[host]["units"].append(unit("mooncake-pd-d1-group.service"))
    content = document(cluster.seen())
    assert (content["ok"], [one["health"] for one in content["services"] if one["kind"] == "supervisor"]) == (
        True,
        [None, None],
    )
    assert "d1-group" not in shown(cluster)
    cluster.unit("npu4", -1).update(active_state="failed", running=False)
    told = shown(cluster)
    assert "mooncake-pd-d1-group.service on npu4 failed" in told
    assert [line.split()[:3] for line in told.splitlines() if " supervisor " in line] == [
        ["d1-group", "supervisor", "npu4"]
    ]
