# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""npu-smi and hccn_tool: layouts, faults, refusals. Run as programs, since that is how they are used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twin import hccn

MODULES = {"npu-smi": "npu_smi", "hccn_tool": "hccn"}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(tool: str, *words: str, **told: Any) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "state.json"
        file.write_text(json.dumps(told))
        return subprocess.run(
            [sys.executable, "-c", f"from twin.{MODULES[tool]} import main; main()", *words],
            cwd=Path(__file__).parents[2] / "sim" / "npu",
            env={**os.environ, "MOONCAKE_PD_TWIN_STATE": str(file)},
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )

    return call


def rows(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]


def test_a2_overview(run: Run) -> None:
    done = run("npu-smi", "info", generation="A2")
    assert done.returncode == 0
    assert len({len(line) for line in done.stdout.splitlines()}) == 1, done.stdout
    cells = [row for row in rows(done.stdout) if len(row) == 3 and row[1] == "OK"]
    assert [row[0].split() for row in cells] == [[str(i), "910B3"] for i in range(8)]
    assert done.stdout.count("No running processes found in NPU") == 8


def test_a3_overview_has_two_chips_on_a_card(run: Run) -> None:
    done = run("npu-smi", "info", generation="A3")
    assert len({len(line) for line in done.stdout.splitlines()}) == 1, done.stdout
    chips = [row[0].split() for row in rows(done.stdout) if len(row) == 3 and row[1].startswith("0000:")]
    assert chips == [[str(phy % 2), str(phy)] for phy in range(16)]


def test_wide_layout_of_26(run: Run) -> None:
    done = run("npu-smi", "info", npu_smi="26.0.0")
    assert "Process id in container" in done.stdout
    assert len({len(line) for line in done.stdout.splitlines()}) == 1, done.stdout


def test_a5_overview(run: Run) -> None:
    done = run("npu-smi", "info", generation="A5")
    assert done.stdout.count("Ascend950DT") == 8


def test_health_and_foreign_process(run: Run) -> None:
    faults = {"health": {"5": "Alarm"}, "processes": [{"chip": 5, "pid": 4711, "name": "python3", "memory": 40000}]}
    done = run("npu-smi", "info", generation="A3", faults=faults)
    table = rows(done.stdout)
    assert ["2       1", "4711", "python3", "40000"] in table
    assert sum("Alarm" in row for row in table) == 1
    assert re.search(r"43155\s*/ 65536", done.stdout)
    health = run("npu-smi", "info", "-t", "health", "-i", "2", "-c", "1", generation="A3", faults=faults)
    assert re.search(r"Health Status\s+: Alarm", health.stdout)


def test_list_and_map(run: Run) -> None:
    done = run("npu-smi", "info", "-l", generation="A3")
    assert re.search(r"Total Count\s+: 8", done.stdout)
    assert len(re.findall(r"Chip Count\s+: 2", done.stdout)) == 8
    lines = run("npu-smi", "info", "-m", generation="A3").stdout.splitlines()
    assert lines[0].split("  ")[0].strip() == "NPU ID"
    assert [line.split()[:4] for line in lines[1:3]] == [["0", "0", "0", "0"], ["0", "1", "1", "1"]]


@pytest.mark.parametrize("kind", ["board", "health", "usages", "common", "memory"])
def test_questions_about_a_card(run: Run, kind: str) -> None:
    done = run("npu-smi", "info", "-t", kind, "-i", "0", generation="A2")
    assert done.returncode == 0
    assert all(" : " in line for line in done.stdout.splitlines() if line.strip())


def test_super_pod(run: Run) -> None:
    ids = []
    for place in ("0", "1"):
        done = run("npu-smi", "info", "-t", "spod-info", "-i", "7", "-c", place, generation="A3", super_pod=3)
        assert re.search(r"Super Pod ID\s+: 3", done.stdout)
        ids.append(re.search(r"SDID\s+: (\d+)", done.stdout)[1])  # type: ignore[index]
    assert ids[0] != ids[1]
    assert run("npu-smi", "info", "-t", "spod-info", "-i", "0", "-c", "0", generation="A2").returncode == 1


@pytest.mark.parametrize(
    "words",
    [
        ["inform"],
        ["info", "-x"],
        ["info", "-t", "nothing", "-i", "0"],
        ["info", "-t", "health"],
        ["info", "-t", "health", "-i", "8"],
        ["info", "-t", "health", "-i", "0", "-c", "2"],
    ],
)
def test_npu_smi_refuses(run: Run, words: list[str]) -> None:
    done = run("npu-smi", *words)
    assert done.returncode != 0
    assert done.stdout + done.stderr


def test_tools_that_do_not_work(run: Run) -> None:
    assert "ret is -8020" in run("npu-smi", "info", faults={"npu-smi": "dcmi-8020"}).stdout
    missing = run("hccn_tool", "-i", "0", "-link", "-g", faults={"hccn_tool": "missing"})
    assert missing.returncode == 127
    assert "command not found" in missing.stderr
    layout = run("npu-smi", "info", faults={"npu-smi": "unknown-layout"})
    assert layout.returncode == 0
    assert "|" not in layout.stdout
    assert run("npu-smi", "-v", faults={"npu-smi": "hang:0.1"}).returncode == 0
    wrong = run("npu-smi", "info", faults={"npu-smi": "explode"})
    assert wrong.returncode != 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-link", "-g"], "link status: UP\n"),
        (["-net_health", "-g"], "net health status: Success\n"),
        (["-netdetect", "-g"], "netdetect address: 198.18.0.1\n"),
        (["-gateway", "-g"], "default gateway:198.18.0.1, Iface:eth3\n"),
        (["-ip", "-g"], "ipaddr:198.18.0.13\nnetmask:255.255.255.0\n"),
        (["-vnic", "-g"], "ipaddr:198.18.0.113\nnetmask:255.255.255.0\n"),
        (["-hccs_ping", "-g", "address", "198.18.1.1"], "This pkt ping success\n"),
    ],
)
def test_hccn_answers(run: Run, words: list[str], expected: str) -> None:
    done = run("hccn_tool", "-i", "3", *words)
    assert (done.returncode, done.stdout) == (0, expected)


def test_hccn_faults(run: Run) -> None:
    faults = {"link": {"3": "DOWN"}, "tls": {"3": 1}, "unreachable": ["198.18.1.1"], "failing": {"4": ["tls"]}}
    assert run("hccn_tool", "-i", "3", "-link", "-g", faults=faults).stdout == "link status: DOWN\n"
    assert run("hccn_tool", "-i", "3", "-net_health", "-g", faults=faults).stdout == "net health status: Fault\n"
    assert run("hccn_tool", "-i", "3", "-lldp", "-g", faults=faults).stdout == ""
    assert run("hccn_tool", "-i", "2", "-link", "-g", faults=faults).stdout == "link status: UP\n"
    switches = [
        re.findall(r"switch\[(\d)\]", run("hccn_tool", "-i", i, "-tls", "-g", faults=faults).stdout) for i in "23"
    ]
    assert switches == [["0"], ["1"]]
    assert run("hccn_tool", "-i", "4", "-tls", "-g", faults=faults).stdout == "Command execute failed!\n"
    ping = run("hccn_tool", "-i", "0", "-ping", "-g", "address", "198.18.1.1", faults=faults).stdout
    assert ping.endswith("3 packets transmitted, 0 received, 100.00% packet loss\n")
    ping = run("hccn_tool", "-i", "0", "-ping", "-g", "address", "198.18.1.2", "pkt", "5", faults=faults).stdout
    assert ping.endswith("5 packets transmitted, 5 received, 0.00% packet loss\n")
    hccs = run("hccn_tool", "-i", "0", "-hccs_ping", "-g", "address", "198.18.1.1", faults=faults).stdout
    assert "success" not in hccs


def test_without_cables(run: Run) -> None:
    assert run("hccn_tool", "-i", "0", "-link", "-g", roce=False).stdout == "link status: DOWN\n"
    assert run("hccn_tool", "-i", "0", "-net_health", "-g", roce=False).stdout == "net health status: Init\n"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-i", "0", "-link"],
        ["-i", "0", "-link", "-s"],
        ["-i", "16", "-link", "-g"],
        ["-i", "x", "-link", "-g"],
        ["-i", "0", "-unknown", "-g"],
        ["-i", "0", "-link", "-g", "more"],
        ["-i", "0", "-ping", "-g"],
        ["-i", "0", "-ping", "-g", "198.18.0.1"],
    ],
)
def test_hccn_refuses(run: Run, words: list[str]) -> None:
    done = run("hccn_tool", *words)
    assert done.returncode != 0
    assert done.stdout


def test_a2_has_no_virtual_addresses(run: Run) -> None:
    assert run("hccn_tool", "-i", "0", "-vnic", "-g", generation="A2").returncode != 0
    assert run("hccn_tool", "-i", "8", "-link", "-g", generation="A2").returncode != 0


def test_hccn_conf() -> None:
    text = hccn.conf({"generation": "A2", "address_prefix": "198.18.5", "faults": {"ip": {"3": ""}, "tls": {"1": 1}}})
    assert "address_0=198.18.5.10\n" in text
    assert "address_7=198.18.5.17\n" in text
    assert "address_3=" not in text
    assert "tls_enable_1=1\n" in text
    assert "address_8" not in text


def test_mtu_and_use_of_the_cores(run: Run) -> None:
    faults = {"mtu": {"3": 1500}, "aicore": {"3": 40}}
    assert run("hccn_tool", "-i", "3", "-mtu", "-g", faults=faults).stdout == "mtu:1500\n"
    table = rows(run("npu-smi", "info", generation="A3", faults=faults).stdout)
    assert [row[2].split()[0] for row in table if len(row) == 3 and row[0].split() == ["1", "3"]] == ["40"]


def test_failure_with_code_0(run: Run) -> None:
    done = run("hccn_tool", "-i", "3", "-tls", "-g", faults={"failing-with-0": {"3": ["tls"]}})
    assert (done.returncode, done.stdout) == (0, "Cmd executed failed\n")


@pytest.mark.parametrize(
    ("words", "faults"),
    [
        (("-ping", "-g", "address", "198.18.1.10"), {"silent": ["198.18.1.10"]}),
        (("-tls", "-g"), {"hanging": {"3": ["tls"]}}),
    ],
)
def test_what_never_answers(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], faults: dict[str, Any]) -> None:
    def sleep(seconds: float) -> None:
        raise TimeoutError

    monkeypatch.setattr(hccn.time, "sleep", sleep)
    with pytest.raises(TimeoutError):
        hccn.answer(hccn.Host({"faults": faults}), ["-i", "3", *words])
