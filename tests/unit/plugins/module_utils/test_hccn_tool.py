# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import hccn_tool

LLDP = """Chassis ID TLV
        MAC: 00:00:5e:00:53:0a
Port ID TLV
        Ifname: 200GE3/0/7:1
Time to Live TLV
        120
{name}System Description TLV
        A switch

        of two lines
Management Address TLV
        IPv4: 203.0.113.250
End of LLDPDU TLV
"""
TLS = (
    "dev_id:4, tls switch[1](0:disable, 1:enable), tls preconfigured[1](0:non-preset, 1:preset),"
    " tls alarm time threshold[60]days\n"
)


def read(question: str, text: str) -> dict[str, Any]:
    return hccn_tool.QUESTIONS[question][1](text)


@pytest.mark.parametrize(
    ("question", "text", "facts"),
    [
        ("link", "link status: UP\n", {"link": "UP"}),
        ("link", "link status: DOWN", {"link": "DOWN"}),
        ("net_health", "net health status: Receive timeout\n", {"net_health": "Receive timeout"}),
        ("net_health", "net health status: Detect ip set \n", {"net_health": "Detect ip set"}),
        ("lldp", "", {"lldp": {}}),
        ("lldp", "\n", {"lldp": {}}),
        (
            "lldp",
            LLDP.format(name="System Name TLV\n        leaf 7\n"),
            {"lldp": {"port": "200GE3/0/7:1", "switch": "leaf 7"}},
        ),
        ("lldp", LLDP.format(name=""), {"lldp": {"port": "200GE3/0/7:1", "switch": "203.0.113.250"}}),
        ("lldp", "Port ID TLV\n\tIfname: 1/1\n", {"lldp": {"port": "1/1", "switch": None}}),
        ("netdetect", "netdetect address: 203.0.113.1\n", {"netdetect": "203.0.113.1"}),
        ("netdetect", "netdetect address: \n", {"netdetect": ""}),
        ("netdetect", "netdetect address: 0.0.0.0\n", {"netdetect": ""}),
        ("gateway", "default gateway:203.0.113.1, Iface:eth4\n", {"gateway": "203.0.113.1"}),
        ("gateway", "default gateway:, Iface:eth4\n", {"gateway": ""}),
        ("gateway", "", {"gateway": ""}),
        ("ip", "ipaddr:203.0.113.14\nnetmask:255.255.254.0\n", {"address": "203.0.113.14", "netmask": "255.255.254.0"}),
        ("ip", "", {"address": "", "netmask": ""}),
        ("vnic", "ipaddr:192.0.2.104\nnetmask:255.255.0.0\n", {"vnic": "192.0.2.104"}),
        ("vnic", "", {"vnic": ""}),
        ("tls", TLS, {"tls": 1}),
        ("tls", TLS.replace("switch[1]", "switch[0]"), {"tls": 0}),
        ("speed", "Speed: 400000 Mb/s\n", {"speed": 400000}),
        ("speed", "Speed: 400000Mb/s\n", {"speed": 400000}),
        ("speed", "Speed: Unknown!\n", {"speed": 0}),
        ("mtu", "mtu:4200\n", {"mtu": 4200}),
        ("mtu", "mtu 1500\n", {"mtu": 1500}),
    ],
)
def test_answers(question: str, text: str, facts: dict[str, Any]) -> None:
    assert read(question, text) == facts


@pytest.mark.parametrize("question", sorted(set(hccn_tool.QUESTIONS)))
@pytest.mark.parametrize("text", ["something else", "link status: MAYBE", "tls switch[2]", "Speed: fast"])
def test_what_is_not_understood(question: str, text: str) -> None:
    with pytest.raises(hccn_tool.NotUnderstood):
        read(question, text)


@pytest.mark.parametrize("question", ["link", "net_health", "tls", "speed", "mtu"])
def test_an_empty_text_is_no_answer_where_there_has_to_be_one(question: str) -> None:
    with pytest.raises(hccn_tool.NotUnderstood):
        read(question, "")


def test_every_fact_has_one_question() -> None:
    assert len(hccn_tool.FACTS) == len(set(hccn_tool.FACTS)) == 11


@pytest.mark.parametrize(
    "text",
    [
        "Command execute failed!",
        "Cmd executed failed",
        "x\nCmd execute failed!\ny",
        "Input parameter error! device id is invalid",
        "hccn_tool: error while loading shared libraries: libdrvdsmi_host.so: cannot open",
    ],
)
def test_failures_that_may_end_with_0(text: str) -> None:
    assert hccn_tool.refusal(text)


@pytest.mark.parametrize("text", ["", "link status: DOWN", "Cmd executed successfully!", "net health status: Fault"])
def test_bad_news_is_no_failure(text: str) -> None:
    assert hccn_tool.refusal(text) is None


PING = "device 4 PING 203.0.113.24\n{rows}{sent} packets transmitted, {back} received, {loss}% packet loss\n"
ROWS = "recv seq=0,time=0.912000ms\nrecv seq=1,time=0.081000ms\nrecv seq=2,time=0.079000ms\n"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (PING.format(rows=ROWS, sent=3, back=3, loss="0.00"), {"ok": True, "loss": 0.0, "time": 0.081}),
        (PING.format(rows="", sent=3, back=0, loss="100.00"), {"ok": False, "loss": 100.0, "time": None}),
        (PING.format(rows=ROWS[:54], sent=3, back=2, loss="33.33"), {"ok": False, "loss": 33.33, "time": 0.4965}),
        ("This pkt ping success\n", {"ok": True, "loss": None, "time": None}),
        ("This pkt ping fail\n", {"ok": False, "loss": None, "time": None}),
        ("This pkt ping success\nThis pkt ping fail\n", {"ok": False, "loss": 50.0, "time": None}),
    ],
)
def test_pings(text: str, facts: dict[str, Any]) -> None:
    assert hccn_tool.read_ping(text) == facts


def test_ping_that_is_not_understood() -> None:
    with pytest.raises(hccn_tool.NotUnderstood):
        hccn_tool.read_ping("device 4 PING 203.0.113.24\n")
