# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How supervisors hear each other, over real connections of this machine."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pd_group.links import Hub, Uplink
from pd_group.model import HOLD, LONGEST, ORDERS, STATES, UP, Clocks, Member, Order, Report, Told, Wire

WIRE = Wire("lab", "d1")
TEXT = st.text(max_size=20)
TIME = st.floats(0, 1e9)
MEMBER = st.builds(Member, TEXT, st.sampled_from(STATES), TEXT, TIME, TIME, TEXT)
ORDER = st.builds(Order, st.sampled_from(ORDERS), TEXT, TEXT, TEXT)


@given(st.builds(Report, TEXT, TEXT, TIME, st.lists(MEMBER, max_size=3), st.booleans()), st.lists(ORDER, max_size=3))
def test_messages_come_back_as_they_were(report, orders):
    assert WIRE.read_report(WIRE.report(report)) == report
    for leaves in (True, False):
        assert WIRE.read_orders(WIRE.orders(orders, leaves)) == Told(orders, leaves)


DELAY = st.one_of(st.floats(0, 0.2), st.floats(0, 30))


@given(st.floats(-1e-4, 1e-4), st.floats(-1e6, 1e6), st.lists(DELAY, min_size=10, max_size=60))
def test_a_moment_of_another_clock_is_found_once_and_stays(drift, apart, delays):
    def there(moment: float) -> float:
        return (moment - apart) * (1 + drift)

    clocks, now, found = Clocks(), 1e7, set()
    for number, delay in enumerate([0.0, *delays, 0.0]):
        now += 86400 if number > len(delays) // 2 else 1.5
        began = 1e7 + 4 if number > 2 else 1e7
        told = Report("npu4", "b", there(now), [Member("u", UP, str(began), there(began), there(1e7 - 2))])
        here = clocks.here(told, now + delay)
        assert here.now == now + delay
        assert here.members[0].ended == pytest.approx(1e7 - 2, abs=0.1)
        found.add(here.members[0].start)
    assert len(found) == 2
    assert min(found) == pytest.approx(1e7, abs=0.1)


def test_a_clock_that_stood_still_is_followed_and_a_boot_is_another_clock():
    clocks = Clocks()

    def start(now: float, apart: float, boot: str = "b") -> float:
        told = Report("npu4", boot, now - apart, [Member("u", UP, "r", now - apart - 1)])
        return clocks.here(told, now).members[0].start

    assert start(100.0, 10.0) == pytest.approx(99.0, abs=0.1)
    # the machine was suspended for a minute
    for number in range(40):
        start(200.0 + number, 70.0)
    assert start(300.0, 70.0) == pytest.approx(299.0, abs=0.1)
    assert start(400.0, 390.0, "c") == pytest.approx(399.0, abs=0.1)


def test_what_happened_long_ago_is_not_said_to_be_sooner_than_it_may_have_been():
    clocks, month = Clocks(), 30 * 86400.0
    (one,) = clocks.here(Report("npu4", "b", 2 * month, [Member("u", UP, "r", month, month)]), 2 * month).members
    assert (one.start - month, month - one.ended) == (pytest.approx(259.2), pytest.approx(259.2))


@given(st.binary(max_size=60))
def test_noise_is_no_message(noise):
    assert WIRE.read_report(noise) is None
    assert WIRE.read_orders(noise) is None


@pytest.mark.parametrize("other", [Wire("other", "d1"), Wire("lab", "d2")])
def test_messages_of_another_group_are_none(other):
    assert WIRE.read_report(other.report(Report("npu4", "b", 1.0, []))) is None
    assert WIRE.read_orders(other.orders([])) is None


@pytest.mark.parametrize("row", [["u", "dancing", "r", 0, 0, ""], ["u"], None, ["u", "up", "r", "x", 0, ""]])
def test_a_member_that_makes_no_sense_is_none(row):
    line = WIRE.report(Report("npu4", "b", 1.0, [Member("u", UP)])).replace(b'["u","up","",0.0,0.0,""]', b"%ROW%")
    assert b"%ROW%" in line
    assert WIRE.read_report(line.replace(b"%ROW%", json.dumps(row).encode())) is None


@pytest.fixture
def hub():
    made = Hub(WIRE, ("127.0.0.1", 0), {"npu4": "127.0.0.1", "npu5": "127.0.0.9"})
    yield made
    made.listener.close()


def port(hub: Hub) -> int:
    return hub.listener.getsockname()[1]


def told(hub: Hub, seconds: float = 2.0) -> list[Report]:
    found: list[Report] = []
    until = time.monotonic() + seconds
    while not found and time.monotonic() < until:
        found += hub.hear(0.05)
    return found


def report(host: str = "npu4", boot: str = "b", ahead: float = 0.0) -> Report:
    now = time.monotonic() + ahead
    return Report(host, boot, now, [Member("u", UP, "r", now - 10, 0.0, "")])


def test_a_report_arrives_in_the_time_of_the_head_and_orders_come_back(hub):
    link = Uplink(WIRE, ("127.0.0.1", port(hub)), "127.0.0.1")
    link.tell(report(ahead=5000.0))
    (heard,) = told(hub)
    assert heard.host == "npu4"
    assert abs(heard.members[0].start - (time.monotonic() - 10)) < 1
    # what has not happened has no time
    assert heard.members[0].ended == 0.0
    hub.tell("npu4", [Order(HOLD, "u", "r", "x")])
    assert link.hear(2.0) == [Order(HOLD, "u", "r", "x")]
    assert time.monotonic() - link.contact < 2
    assert not link.left


def test_a_goodbye_counts_until_the_other_is_heard_again(hub):
    link = Uplink(WIRE, ("127.0.0.1", port(hub)), "127.0.0.1")
    link.tell(report()._replace(leaves=True))
    link.tell(report())
    heard = told(hub)
    heard += told(hub) if len(heard) < 2 else []
    assert [one.leaves for one in heard] == [True, False]
    for leaves in (True, False):
        hub.tell("npu4", [], leaves)
        assert link.hear(2.0) == []
        assert link.left is leaves


def test_a_goodbye_is_read_although_the_connection_is_over(hub):
    link = Uplink(WIRE, ("127.0.0.1", port(hub)), "127.0.0.1")
    link.tell(report())
    assert told(hub)
    # what nobody has read resets a connection that is closed
    hub.tell("npu4", [])
    assert link.lines
    link.tell(report()._replace(leaves=True))
    link.lines.close()
    hub.tell("npu4", [])
    hub.tell("npu4", [])
    assert [one.leaves for one in told(hub)] == [True]
    hub.hear(0.1)
    assert hub.hosts == {}

    link = Uplink(WIRE, ("127.0.0.1", port(hub)), "127.0.0.1")
    link.tell(report())
    assert told(hub)
    link.tell(report())
    hub.tell("npu4", [], True)
    hub.hosts["npu4"].close()
    link.tell(report())
    link.tell(report())
    link.hear(1.0)
    assert link.left
    link.hear(1.0)
    assert link.lines is None


def test_times_of_a_host_stay_when_it_connects_again(hub):
    made, found = report(), set()
    for late in (0.0, 0.0, 0.3):
        link = Uplink(WIRE, ("127.0.0.1", port(hub)), "127.0.0.1")
        link.tell(made._replace(now=time.monotonic() - late))
        (heard,) = told(hub)
        assert heard.members[0].start == pytest.approx(made.members[0].start, abs=0.2)
        assert time.monotonic() - heard.now < 0.2
        found.add(tuple(heard.members))
    assert len(found) == 1


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        Wire("other", "d1").report(report()),
        WIRE.report(report("npu9")),
        # it comes from another address than the plan has
        WIRE.report(report("npu5")),
        b"x" * (LONGEST + 100),
    ],
)
def test_whoever_is_none_of_the_group_is_not_heard(hub, line):
    with socket.create_connection(("127.0.0.1", port(hub))) as stranger:
        stranger.settimeout(0.01)
        sent, ended = 0, False
        until = time.monotonic() + 5
        while not ended and time.monotonic() < until:
            with contextlib.suppress(TimeoutError, BlockingIOError):
                sent += stranger.send(line[sent:]) if sent < len(line) else 0
            assert hub.hear(0.01) == []
            try:
                ended = stranger.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
    assert ended


def test_a_host_that_connects_again_is_heard_on_its_new_connection(hub):
    first = Uplink(WIRE, ("127.0.0.1", port(hub)), "127.0.0.1")
    first.tell(report())
    assert told(hub)
    second = Uplink(WIRE, ("127.0.0.1", port(hub)), "127.0.0.1")
    second.tell(report(boot="c"))
    assert told(hub)
    hub.tell("npu4", [])
    second.hear(2.0)
    assert second.contact > 0
    first.hear(0.2)
    assert first.contact < 0


def test_nobody_listens_and_it_goes_on_trying():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = unused.getsockname()[1]
    link = Uplink(WIRE, ("127.0.0.1", nobody), "127.0.0.1")
    link.tell(report())
    assert link.hear(0.0) == []
    assert link.contact == float("-inf")
