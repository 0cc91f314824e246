# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With the twin's hccn_tool, run as a program, and with small scripts where time counts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.modules import hccn_info

from .conftest import RunModule
from .npu_tools import NpuHost, of_this_host

Facts = dict[str, Any]
SLACK = 15.0  # seconds: others may be at work beside us
Look = Callable[..., Facts]

# as fast as a program can be; one question never ends
QUICK = """#!/bin/sh
case "$3" in
{hang}) sleep 300 & wait ;;
-ping) echo "3 packets transmitted, 3 received, 0.00% packet loss" ;;
*) echo "link status: UP" ;;
esac
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NpuHost:
    host = NpuHost(tmp_path, monkeypatch)
    monkeypatch.setattr(hccn_info, "TOOL_FOLDERS", ())
    monkeypatch.setattr(hccn_info, "DEV", str(host.root / "dev"))
    monkeypatch.setattr(hccn_info, "PATIENCE", 0.5)
    return host


@pytest.fixture
def look(run_module: RunModule) -> Look:
    def run(**params: Any) -> Facts:
        answer = run_module(hccn_info, **params)
        assert (answer["failed"], answer["changed"]) == (False, False), answer
        return dict(answer["hccn"])

    return run


def ping(chip: int, address: str, plane: str = "roce", peer: str = "d1") -> Facts:
    return {"chip": chip, "address": address, "plane": plane, "peer": peer}


def reasons(hccn: Facts) -> list[tuple[str, str]]:
    return [(entry["what"], entry["why"]) for entry in hccn["unknown"]]


def test_16_healthy_chips(host: NpuHost, look: Look) -> None:
    host.tell("hccn_tool", generation="A3", address_prefix="198.18.4")
    begun = time.monotonic()
    hccn = look(chips=16, timeout=30)
    assert time.monotonic() - begun < 60  # alone it takes two to three
    assert hccn["unknown"] == hccn["pings"] == []
    assert hccn["tool"] == str(host.bin / "hccn_tool")
    assert hccn["chips"][5] == {
        "id": 5,
        "link": "UP",
        "net_health": "Success",
        "lldp": {"port": "200GE2/0/3:2", "switch": "leaf-2"},
        "netdetect": "198.18.4.1",
        "gateway": "198.18.4.1",
        "address": "198.18.4.15",
        "netmask": "255.255.255.0",
        "tls": 0,
        "vnic": "198.18.4.115",
        "speed": 200000,
        "mtu": 4200,
    }
    assert [chip["id"] for chip in hccn["chips"]] == list(range(16))


def test_a2_has_no_virtual_addresses(host: NpuHost, look: Look) -> None:
    host.tell("hccn_tool", generation="A2")
    hccn = look(chips=8, queries=["ip", "vnic"], timeout=30)
    assert {chip["vnic"] for chip in hccn["chips"]} == {""}
    assert hccn["unknown"] == []


def test_virtual_addresses_that_only_some_refuse_are_unknown(host: NpuHost, look: Look) -> None:
    host.tell("hccn_tool", generation="A3", faults={"failing": {"1": ["vnic"], "2": ["vnic"]}})
    hccn = look(chips=4, queries=["ip", "vnic"], timeout=30)
    assert [chip["vnic"] is None for chip in hccn["chips"]] == [False, True, True, False]
    assert reasons(hccn) == [("chips.*.vnic", "of 1-2: hccn_tool says: Command execute failed!")]


def test_a_tool_that_refuses_everything_proves_nothing(host: NpuHost, look: Look) -> None:
    host.script("hccn_tool", "#!/bin/sh\necho 'Command execute failed!'\n")
    hccn = look(chips=2, queries=["ip", "vnic"])
    assert [chip["vnic"] for chip in hccn["chips"]] == [None, None]
    assert dict(reasons(hccn)) == {
        f"chips.*.{fact}": "of 0-1: hccn_tool says: Command execute failed!" for fact in ("address", "netmask", "vnic")
    }


def test_a_refusal_proves_nothing_where_the_address_is_not_known_either(host: NpuHost, look: Look) -> None:
    script = '#!/bin/sh\n[ "$3" = -ip ] && sleep 300\n[ "$3" = -vnic ] && echo "Command execute failed!"\n'
    host.script("hccn_tool", script)
    hccn = look(chips=2, queries=["ip", "vnic"], timeout=2)
    assert [chip["vnic"] for chip in hccn["chips"]] == [None, None]


def test_faults(host: NpuHost, look: Look) -> None:
    faults = {
        "link": {"3": "DOWN"},
        "net_health": {"4": "Receive timeout"},
        "lldp": {"5": ""},
        "tls": {"6": 1},
        "ip": {"7": ""},
        "gateway": {"7": ""},
        "netdetect": {"7": ""},
        "mtu": {"7": 1500},
    }
    host.tell("hccn_tool", generation="A3", faults=faults)
    chips = look(chips=[3, 4, 5, 6, 7], timeout=30)["chips"]
    assert [chip["id"] for chip in chips] == [3, 4, 5, 6, 7]
    assert (chips[0]["link"], chips[0]["lldp"]) == ("DOWN", {})
    assert chips[1]["net_health"] == "Receive timeout"
    assert chips[2]["lldp"] == {}
    assert chips[3]["tls"] == 1
    last = chips[4]
    assert [last[fact] for fact in ("address", "netmask", "gateway", "netdetect", "mtu")] == ["", "", "", "", 1500]


def test_failures_with_code_0_and_a_question_that_hangs(host: NpuHost, look: Look) -> None:
    faults = {"failing-with-0": {"1": ["tls"]}, "hanging": {"2": ["tls"]}, "failing": {"0": ["link"]}}
    host.tell("hccn_tool", generation="A3", faults=faults)
    begun = time.monotonic()
    hccn = look(chips=3, queries=["tls", "link"], timeout=4)
    assert time.monotonic() - begun < 4 + SLACK
    assert [chip["tls"] for chip in hccn["chips"]] == [0, None, None]
    assert sorted(reasons(hccn)) == [
        ("chips.0.link", "hccn_tool says: Command execute failed!"),
        ("chips.1.tls", "hccn_tool says: Cmd executed failed"),
        ("chips.2.tls", "no answer in 4 s"),
    ]
    assert of_this_host("hccn_tool -i") == []


def test_what_was_not_asked_is_null_and_not_unknown(host: NpuHost, look: Look) -> None:
    host.tell("hccn_tool", generation="A3")
    hccn = look(chips=1, queries=["link"], timeout=30)
    assert hccn["unknown"] == []
    assert {name for name, value in hccn["chips"][0].items() if value is not None} == {"id", "link"}


@pytest.mark.parametrize(("link", "speed", "unknown"), [("DOWN", 0, 0), ("UP", None, 1)])
def test_speed_of_a_port(host: NpuHost, look: Look, link: str, speed: int | None, unknown: int) -> None:
    host.script(
        "hccn_tool",
        f'#!/bin/sh\n[ "$3" = -speed ] && echo "Speed: Unknown!" || echo "link status: {link}"\n',
    )
    hccn = look(chips=1, queries=["link", "speed"])
    assert hccn["chips"][0]["speed"] == speed
    assert len(hccn["unknown"]) == unknown


@pytest.mark.parametrize("fault", ["failed", "missing", "exit:2"])
def test_a_tool_that_fails(host: NpuHost, look: Look, fault: str) -> None:
    host.tell("hccn_tool", generation="A3", faults={"hccn_tool": fault})
    hccn = look(chips=2, queries=["link", "tls"], timeout=30)
    assert [entry["what"] for entry in hccn["unknown"]] == ["chips.*.link", "chips.*.tls"]
    assert [chip["link"] for chip in hccn["chips"]] == [None, None]


def test_no_tool(host: NpuHost, look: Look) -> None:
    hccn = look(chips=2, ping=[ping(0, "198.18.1.10")])
    assert hccn["tool"] is None
    assert [what for what, _why in reasons(hccn)] == ["tool", "chips", "pings"]
    assert [chip["link"] for chip in hccn["chips"]] == [None, None]
    assert hccn["pings"][0]["ok"] is None


def test_every_question_hangs(host: NpuHost, look: Look) -> None:
    host.script("hccn_tool", "#!/bin/sh\n# hccn-that-hangs\nsleep 300 &\nwait\n")
    begun = time.monotonic()
    hccn = look(chips=16, timeout=2, ping=[ping(0, "198.18.1.10")])
    assert time.monotonic() - begun < 2 + SLACK
    assert of_this_host(str(host.bin)) == []
    assert {tuple(chip.values())[1:] for chip in hccn["chips"]} == {(None,) * 11}
    told = reasons(hccn)
    # on a busy machine some wait longer than others and are told apart
    assert len({re.sub(r"\.[0-9]+\.", ".*.", what) for what, _why in told}) == 12
    # nor does it start all of them in time
    assert all("no answer in" in why or "the time was over" in why for what, why in told if what != "pings")
    # it is not known whether the peer is dead or the tool
    assert hccn["pings"][0]["ok"] is None
    assert told[-1][0] == "pings"


def test_one_kind_of_question_hangs(host: NpuHost, look: Look) -> None:
    host.script("hccn_tool", QUICK.format(hang="-tls"))
    begun = time.monotonic()
    hccn = look(chips=16, queries=["tls", "link"], timeout=2, concurrency=8)
    assert time.monotonic() - begun < 2 + SLACK
    assert [chip["link"] for chip in hccn["chips"]] == ["UP"] * 16
    assert {what for what, _why in reasons(hccn)} == {"chips.*.tls"}


def test_pings(host: NpuHost, look: Look) -> None:
    faults = {"unreachable": ["198.18.1.13"]}
    host.tell("hccn_tool", generation="A3", faults=faults)
    told = [
        ping(0, "198.18.1.10"),
        ping(3, "198.18.1.13"),
        ping(0, "198.18.1.110", "hccs"),
        ping(3, "198.18.1.13", "hccs"),
    ]
    hccn = look(queries=[], ping=told, timeout=30)
    assert hccn["chips"] == hccn["unknown"] == []
    assert [{k: p[k] for k in told[0]} for p in hccn["pings"]] == told
    assert [(p["ok"], p["loss"], p["time"]) for p in hccn["pings"]] == [
        (True, 0.0, 0.072),
        (False, 100.0, None),
        (True, None, None),
        (False, None, None),
    ]


def test_the_ping_of_a_dead_peer_hangs_and_is_lost(host: NpuHost, look: Look) -> None:
    host.tell("hccn_tool", generation="A3", faults={"silent": ["198.18.1.10"]})
    begun = time.monotonic()
    hccn = look(queries=[], ping=[ping(0, "198.18.1.10"), ping(1, "198.18.1.11")], timeout=4)
    assert time.monotonic() - begun < 4 + SLACK
    assert [p["ok"] for p in hccn["pings"]] == [False, True]
    assert hccn["unknown"] == []
    assert of_this_host("hccn_tool -i") == []


@pytest.mark.parametrize(("hang", "ok"), [("-ping", False), ("*", None)])
def test_a_dead_peer_is_told_from_a_tool_that_hangs(host: NpuHost, look: Look, hang: str, ok: bool | None) -> None:
    host.script("hccn_tool", QUICK.format(hang=hang))
    hccn = look(queries=[], ping=[ping(0, "198.18.1.10")], timeout=2)
    assert hccn["pings"][0]["ok"] is ok
    assert bool(hccn["unknown"]) == (ok is None)


def test_a_ping_that_had_too_little_time_is_unknown(host: NpuHost, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hccn_info, "PATIENCE", 5.0)
    host.script("hccn_tool", QUICK.format(hang="-ping"))
    hccn = look(queries=[], ping=[ping(chip, "198.18.1.10") for chip in range(4)], timeout=1)
    assert [p["ok"] for p in hccn["pings"]] == [None] * 4
    assert reasons(hccn) == [("pings", "ping of d1 on roce from 0-3: no answer in 1 s")]


def test_a_ping_that_is_refused_is_unknown(host: NpuHost, look: Look) -> None:
    host.tell("hccn_tool", generation="A2")
    hccn = look(queries=[], ping=[ping(0, "198.18.1.110", "hccs", peer="")], timeout=30)
    assert hccn["pings"][0]["ok"] is None
    told = [("pings", "ping of 198.18.1.110 on hccs from 0: hccn_tool says: Command execute failed!")]
    assert reasons(hccn) == told


def test_dead_peers_do_not_keep_others_from_being_pinged(host: NpuHost, look: Look) -> None:
    host.script("hccn_tool", '#!/bin/sh\n[ "$6" = 198.18.1.10 ] && sleep 300\necho "0.00% packet loss"\n')
    pings = [ping(0, "198.18.1.10")] * 8 + [ping(0, "198.18.1.11")] * 8
    hccn = look(queries=[], ping=pings, timeout=3, concurrency=4)
    assert [p["ok"] for p in hccn["pings"]] == [False] * 8 + [True] * 8


def test_chips_by_their_device_nodes(host: NpuHost, look: Look) -> None:
    host.script("hccn_tool", QUICK.format(hang="never"))
    assert reasons(look(queries=["link"]))[0][0] == "chips"
    host.chips(3)
    assert [chip["id"] for chip in look(queries=["link"])["chips"]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("told", "known"),
    [(2, [0, 1]), ("2", [0, 1]), ([4, "2", 4], [2, 4]), ([], []), (0, None), (-1, None), ([-1], None), ("x", None)],
)
def test_which_chips(told: Any, known: list[int] | None) -> None:
    assert hccn_info.numbers(told) == known


def test_refusals(host: NpuHost, run_module: RunModule) -> None:
    answer = run_module(hccn_info, chips="many")
    assert answer["failed"]
    assert "chips: 'many'" in answer["msg"]
    assert "action plugin" in run_module(hccn_info, chips=1, ping_peers=["d1"])["msg"]


def test_in_check_mode(host: NpuHost, run_module: RunModule) -> None:
    host.script("hccn_tool", QUICK.format(hang="never"))
    assert run_module(hccn_info, check=True, chips=1, queries=["link"])["hccn"]["chips"][0]["link"] == "UP"
