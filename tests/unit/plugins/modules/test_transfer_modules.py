# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""transfer_target and transfer_bench with systemd put in place; tests/integration has the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import sockets, systemd
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_bench_units as units
from ansible_collections.mooncake.pd.plugins.modules import transfer_bench, transfer_target

from .conftest import RunModule

LISTENS = "RPC using P2P handshake, listening on 192.0.2.21:18502\n"
COMPLETED = "Test completed: duration 2.00, batch count {}, throughput 0.01 GB/s\n"
BW = " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n 8 1 9.0 8.0 0.1\n"
LAT = " #bytes #iterations t_min[usec] t_typical[usec]\n 8 1 1.0 2.0\n"


class Machine:
    """What systemd-run and systemctl would do, and what was asked of them."""

    def __init__(self, path: Path) -> None:
        self.runs: list[list[str]] = []
        self.states: dict[str, systemd.Unit] = {}
        self.logs = {"tcp": LISTENS, "rdma": LISTENS}
        self.answers: list[tuple[int, str]] = []
        self.path = path
        self.devices: list[tuple[str, int | None]] = []

    def run_command(self, argv: list[str], **_more: Any) -> tuple[int, str, str]:
        self.runs.append(argv)
        name = next((word[7:] for word in argv if word.startswith("--unit=")), "")
        if argv[0] == "systemd-run" and "--wait" in argv:
            code, text = self.answers.pop(0)
            return code, "", text
        if argv[0] == "systemd-run":
            short = name[len(units.PREFIX) + 1 : -len(".service")]
            Path(units.log(short)).write_text(self.logs.get(short, ""))
            alive = self.logs.get(short) != "dead\n"
            state = "active" if alive else "failed"
            self.states[name] = systemd.Unit(name, LoadState="loaded", ActiveState=state)
        if argv[:2] == ["systemctl", "stop"]:
            for stopped in argv[3:]:
                self.states.pop(stopped, None)
        return 0, "", ""

    def started(self) -> dict[str, list[str]]:
        named = {next((w for w in run if w.startswith("--unit=")), ""): run for run in self.runs}
        return {name[len("--unit=") :]: run for name, run in named.items() if name}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(AnsibleModule, "run_command", made.run_command)
    monkeypatch.setattr(systemd, "show", lambda run, names: {n: made.states.get(n, systemd.Unit(n)) for n in names})
    monkeypatch.setattr(sockets, "probe", lambda address, port: sockets.FREE)
    monkeypatch.setattr(transfer_target, "listens", lambda segment: True)
    monkeypatch.setattr(transfer_target, "SETTLE", 0)
    monkeypatch.setattr(units, "LOGS", str(tmp_path))
    monkeypatch.setattr(units, "SEARCHED", str(tmp_path))
    monkeypatch.setattr(units, "active_devices", lambda wanted=(): made.devices)
    binary = tmp_path / "lib/python3.11/site-packages/mooncake/transfer_engine_bench"
    binary.parent.mkdir(parents=True)
    binary.touch(mode=0o755)
    return made


def tools(machine: Machine) -> None:
    for name in ("ib_write_bw", "ib_write_lat"):
        (machine.path / name).touch(mode=0o755)


def start(run_module: RunModule, machine: Machine, *planes: str, **more: Any) -> dict[str, Any]:
    answer = run_module(
        transfer_target, planes=list(planes or ["tcp"]), path=str(machine.path), address="192.0.2.21", **more
    )
    assert (answer["failed"], answer["changed"]) == (False, True)
    return answer["target"]["planes"]


def test_target_ends_by_itself_and_takes_no_planned_port(run_module: RunModule, machine: Machine) -> None:
    planes = start(run_module, machine, claims=[{"first": 18500, "last": 18510, "purpose": "api"}], runtime=77)
    assert planes == {"tcp": {"problem": "", "optional": False, "segment": "192.0.2.21:18502"}}
    (argv,) = machine.started().values()
    assert {"--unit=mooncake-pd-baseline-tcp.service", "--property=RuntimeMaxSec=77", "--collect"} <= set(argv)
    assert {"--property=User=nobody", "--setenv=MC_MIN_RPC_PORT=18511", "--setenv=MC_MAX_RPC_PORT=18514"} <= set(argv)


def test_ports_of_the_plan_win_over_the_environment(run_module: RunModule, machine: Machine) -> None:
    start(run_module, machine, environment={"MC_MIN_RPC_PORT": "15000", "LD_LIBRARY_PATH": "/opt/cann"})
    (argv,) = machine.started().values()
    assert "--setenv=MC_MIN_RPC_PORT=15000" not in argv
    assert "--setenv=LD_LIBRARY_PATH=/opt/cann" in argv


def test_targets_that_cannot_be_started(
    run_module: RunModule, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no RDMA device" in start(run_module, machine, "rdma")["rdma"]["problem"]
    machine.logs["tcp"] = "dead\n"
    assert start(run_module, machine)["tcp"]["problem"] == "the target ended: dead"
    machine.logs["tcp"] = "I am busy\n"
    assert "does not listen after 0 s: I am busy" in start(run_module, machine, timeout=0)["tcp"]["problem"]
    monkeypatch.setattr(sockets, "probe", lambda address, port: sockets.TAKEN)
    assert "18500-18563 too few" in start(run_module, machine)["tcp"]["problem"]
    (machine.path / "lib/python3.11/site-packages/mooncake/transfer_engine_bench").unlink()
    assert "holds no transfer_engine_bench" in start(run_module, machine)["tcp"]["problem"]


def test_servers_of_perftest(run_module: RunModule, machine: Machine) -> None:
    told = start(run_module, machine, "perftest")["perftest"]
    assert (told["problem"], told["optional"]) == ("there is no RDMA device with an active port", True)
    machine.devices = [("mlx5_0", 3)]
    told = start(run_module, machine, "perftest")["perftest"]
    assert (told["problem"], told["optional"]) == ("ib_write_bw and ib_write_lat of perftest are not installed", True)
    tools(machine)
    planes = start(run_module, machine, "rdma", "perftest")
    assert planes["perftest"]["servers"] == {"ib_write_bw": 18504, "ib_write_lat": 18505}
    started = machine.started()
    assert "--device_name=mlx5_0" in started["mooncake-pd-baseline-rdma.service"]
    assert {"--ib-dev=mlx5_0", "--gid-index=3"} <= set(started["mooncake-pd-baseline-ib_write_lat.service"])


def test_stop_ends_all_of_it(run_module: RunModule, machine: Machine) -> None:
    machine.devices = [("mlx5_0", 3)]
    tools(machine)
    start(run_module, machine, "tcp", "rdma", "perftest")
    assert run_module(transfer_target, check=True, state="stopped")["changed"]
    assert len(machine.states) == 4
    answer = run_module(transfer_target, state="stopped")
    assert (answer["changed"], len(answer["stopped"]), machine.states) == (True, 4, {})
    assert list(machine.path.glob("*.log")) == []
    assert not run_module(transfer_target, state="stopped")["changed"]


def test_check_mode_starts_and_measures_nothing(run_module: RunModule, machine: Machine) -> None:
    answer = run_module(transfer_target, check=True, path="/x", address="192.0.2.21")
    assert answer["target"]["planes"] == {}
    answer = run_module(transfer_bench, check=True, peer="d1", path="/x", address="192.0.2.11")
    assert answer["bench"]["results"] == []
    assert machine.runs == []


TARGET = {"address": "192.0.2.21", "planes": {"tcp": {"problem": "", "optional": False, "segment": "192.0.2.21:18502"}}}


def bench(run_module: RunModule, machine: Machine, target: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    answer = run_module(transfer_bench, peer="d1", target=target, path=str(machine.path), address="192.0.2.11", **more)
    assert (answer["failed"], answer["changed"], answer["bench"]["peer"]) == (False, False, "d1")
    return answer["bench"]["results"]


def test_best_of_the_rounds(run_module: RunModule, machine: Machine) -> None:
    machine.answers = [(0, COMPLETED.format(count)) for count in (10, 1000, 40, 4000, 20, 2000)]
    (result,) = bench(run_module, machine, TARGET)
    assert result["bandwidth"] == 40 * 16 * (1 << 20) / 2
    assert result["latency"] == 2 / 4000
    assert result["settings"] == {"block": 1 << 20, "batch": 16, "threads": 4, "duration": 2, "rounds": 3}
    assert result["problem"] == ""
    assert all({"--wait", "--pipe", "--property=RuntimeMaxSec=32"} <= set(run) for run in machine.runs)


@pytest.mark.parametrize("answer", [(1, "E0102 03:04:05.1  7 x.cpp:1] FAILED\n" + COMPLETED.format(5)), (0, "odd")])
def test_a_run_that_failed_gives_no_figure(run_module: RunModule, machine: Machine, answer: tuple[int, str]) -> None:
    machine.answers = [(0, COMPLETED.format(10)), answer]
    (result,) = bench(run_module, machine, TARGET)
    assert (result["bandwidth"], result["latency"]) == (None, None)
    assert f"it ended with {answer[0]}" in result["problem"]


def test_what_the_peer_lacks(run_module: RunModule, machine: Machine) -> None:
    (result,) = bench(run_module, machine, {})
    assert result["problem"] == "d1 has started no target"
    planes = {"perftest": {"problem": "no tools", "optional": True}, "rdma": {"problem": "dead", "optional": False}}
    results = bench(run_module, machine, {"address": "192.0.2.21", "planes": planes})
    assert [(r["tool"], r["problem"], r["optional"]) for r in results] == [
        ("perftest", "on d1: no tools", True),
        ("transfer_engine_bench", "on d1: dead", False),
    ]


def test_perftest_between_two_hosts(run_module: RunModule, machine: Machine) -> None:
    servers = {"ib_write_bw": 18504, "ib_write_lat": 18505}
    target = {"address": "192.0.2.21", "planes": {"perftest": {"problem": "", "optional": True, "servers": servers}}}
    for lack in ("no RDMA device", "is not installed"):
        results = bench(run_module, machine, target)
        assert all(lack in r["problem"] and r["optional"] for r in results)
        machine.devices = [("mlx5_1", 5)]
    tools(machine)
    machine.answers = [(0, BW), (0, LAT)]
    results = bench(run_module, machine, target)
    assert [(r["tool"], r["bandwidth"], r["latency"]) for r in results] == [
        ("ib_write_bw", 1e9, None),
        ("ib_write_lat", None, 2e-6),
    ]
    assert machine.runs[-1][-1] == "192.0.2.21"
    assert {"--ib-dev=mlx5_1", "--gid-index=5", "--port=18505"} <= set(machine.runs[-1])
    machine.answers = [(1, "Couldn't connect"), (0, LAT)]
    failed, _good = bench(run_module, machine, target)
    assert (failed["problem"], failed["optional"]) == ("it ended with 1: Couldn't connect", False)
