# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import readiness
from ansible_collections.mooncake.pd.plugins.module_utils.readiness import Expected, First
from ansible_collections.mooncake.pd.plugins.module_utils.sockets import LISTEN, Row
from ansible_collections.mooncake.pd.plugins.module_utils.systemd import Unit

FIRST = First("aa", 40, 0)


def unit(**changes: Any) -> Unit:
    running: dict[str, Any] = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running"}
    return Unit("u", **running | {"MainPID": 40, "InvocationID": "aa"} | changes)


@pytest.mark.parametrize(
    ("first", "now", "text"),
    [
        (None, unit(), None),
        (FIRST, unit(), None),
        (None, unit(NRestarts=4), None),
        (None, unit(ActiveState="activating", SubState="start-pre", MainPID=0), None),
        (First("aa", 0, 0), unit(), None),
        (FIRST, unit(ActiveState="reloading", SubState="reload"), None),
        (None, unit(LoadState="not-found", ActiveState="inactive"), "does not exist"),
        (None, unit(LoadState="masked", ActiveState="inactive"), "masked"),
        (None, unit(ActiveState="failed", Result="exit-code", ExecMainCode=1, ExecMainStatus=1), "exit status 1"),
        (
            None,
            unit(ActiveState="inactive", Result="signal", ExecMainCode=2, ExecMainStatus=9),
            "died: killed by SIG",
        ),
        (None, unit(ActiveState="inactive", ExecMainCode=1), "ended: exit status 0"),
        (None, unit(ActiveState="inactive"), "nobody started it"),
        (None, unit(ActiveState="activating", SubState="auto-restart", Result="exit-code"), "about to start it again"),
        (FIRST, unit(ActiveState="deactivating", SubState="stop-sigterm"), "being stopped"),
        (FIRST, unit(ActiveState="deactivating", ExecMainCode=1, ExecMainStatus=2), "ended: exit status 2"),
        (FIRST, unit(SubState="exited", MainPID=0, ExecMainCode=1), "main process ended"),
        (FIRST, unit(NRestarts=1, InvocationID="bb"), "started it again (1 times"),
        (FIRST, unit(InvocationID="bb"), "was restarted"),
        (FIRST, unit(MainPID=41), "changed from 40 to 41"),
    ],
)
def test_death(first: First | None, now: Unit, text: str | None) -> None:
    reason = readiness.death(first, now)
    if text is None:
        assert reason is None
    else:
        assert reason is not None
        assert text in reason


def expected(**changes: Any) -> Expected:
    return Expected.of({"name": "p1", "unit": "u", **changes})


def test_lines_of_all_api_servers_and_of_no_worker() -> None:
    wanted = expected(
        lines=[
            {"pattern": r"startup complete\.", "count": 2, "text": "startup complete"},
            {"pattern": "listening on path"},
        ]
    )
    counts = [0, 0]
    readiness.count(
        wanted,
        counts,
        [
            "(ApiServer_0 pid=1) INFO:     Application startup complete.",
            "(Worker_DP0 pid=3) INFO:     Application startup complete.",
            "(Worker_DP0 pid=3) INFO KVCacheSendingThread started listening on path: tcp://10.0.0.1:1",
        ],
    )
    assert counts == [1, 1]
    assert readiness.lines_missing(wanted, counts, True, "/log") == ['log 1/2 "startup complete"']
    assert readiness.lines_missing(wanted, [0, 1], False, "/log")[1] == "no mark of this start in /log"
    assert readiness.lines_missing(wanted, [2, 1], False, "/log") == []


def ports(rows: list[Row], mine: set[int] | None, last: int = 100, address: str = "10.0.0.5") -> list[str]:
    wanted = expected(ports=[{"purpose": "kv", "address": address, "first": 100, "last": last}])
    return readiness.ports_missing(readiness.port_states(wanted.ports, rows, mine, {9: "pid 77 (x)"}))


def test_ports_are_served_by_the_units_own_sockets() -> None:
    mine, foreign = Row("10.0.0.5", 100, LISTEN, 1), Row("10.0.0.5", 100, LISTEN, 9)
    assert ports([mine], {1}) == []
    assert ports([mine], None) == []
    assert ports([], None) == ["kv port 100 on 10.0.0.5 not open"]
    assert ports([Row("10.0.0.5", 100, "ESTABLISHED", 1)], {1}) == ["kv port 100 on 10.0.0.5 not open"]
    assert ports([foreign], {1}) == ["kv port 100 on 10.0.0.5 held by pid 77 (x)"]
    assert ports([mine, foreign], {1}) == ["kv port 100 on 10.0.0.5 held by pid 77 (x)"]
    hidden = Row("10.0.0.5", 100, LISTEN, 8)
    assert ports([hidden], {1}) == ["kv port 100 on 10.0.0.5 held by a process that cannot be seen"]
    assert ports([Row("127.0.0.1", 100, LISTEN, 1)], {1}) == ["kv port 100 on 10.0.0.5 open on 127.0.0.1 only"]
    assert ports([mine], {1}, address="0.0.0.0") == ["kv port 100 on 0.0.0.0 open on 10.0.0.5 only"]
    assert ports([Row("::", 100, LISTEN, 1)], {1}, address="0.0.0.0") == []


def test_every_port_of_a_range_is_wanted() -> None:
    rows = [Row("0.0.0.0", port, LISTEN, 1) for port in (100, 101, 104)]
    assert ports(rows, {1}, 105) == ["kv ports 102-103, 105 on 10.0.0.5 not open"]


@pytest.mark.parametrize(
    ("wanted", "body", "text"),
    [
        ({"service_ready": True}, {"service_ready": True, "role": "leader"}, None),
        ({"service_ready": True}, {"service_ready": False}, "service_ready is False and not True"),
        ({"service_ready": True}, {"service_ready": 1}, "service_ready is 1"),
        ({"service_ready": True}, {}, "service_ready is None"),
        ({"a": {"b": 1}}, {"a": {"b": 1}}, None),
        ({"a": 1}, [1], "no JSON object"),
        ({}, [1], None),
    ],
)
def test_json(wanted: dict[str, Any], body: Any, text: str | None) -> None:
    wrong = readiness.json_missing(wanted, body)
    assert wrong is None if text is None else text in (wrong or "")
