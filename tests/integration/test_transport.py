# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Transfers are proven between real hosts, what is wrong is told by its name, and nothing is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Lab, Play, Runner

ENGINES = ("it-p1", "it-d1")
PAIRS = {"it-p1-it-d1", "it-d1-it-p1"}


@pytest.fixture(scope="module")
def prove(hosts: Lab, play: Runner, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run the playbook; the report is in `.home`."""
    prepared = play("playbooks/prepare.yml")
    assert prepared.rc == 0, prepared.stdout
    home = tmp_path_factory.mktemp("transport")

    def run(cmdline: str = "", **settings: Any) -> Play:
        return play("playbooks/transport.yml", cmdline=cmdline, extravars={"transport_dest": str(home), **settings})

    run.home = home  # type: ignore[attr-defined]
    return run


def left(hosts: Lab) -> list[str]:
    """Units, programs and files of a proof that are still there."""
    script = (
        "systemctl list-units --all --plain --no-legend 'mooncake-pd-transport-*'; "
        "pgrep -af mooncake-pd-transport | grep -v pgrep; ls /run | grep transport; "
        "ss -Hltn 'sport >= 18500 and sport <= 18563'"
    )
    return [line for host in ENGINES for line in hosts.shell(host, script, check=False).splitlines()]


def rows(done: Play) -> dict[tuple[str, str], dict[str, Any]]:
    told = done.result("mooncake.pd.transport_report")["rows"]
    return {(row["pair"], row["protocol"]): row for row in told}


def report(home: Path) -> dict[str, Any]:
    return json.loads((home / "transport.json").read_text())


def test_check_mode_moves_nothing_and_says_so(prove: Any, hosts: Lab) -> None:
    done = prove("--check")
    assert done.rc == 0, done.stdout
    assert "NOT PROVEN: check mode moves nothing" in done.stdout
    assert done.changes() == []
    assert list(prove.home.iterdir()) == []


def test_every_pair_is_proven_in_both_directions(prove: Any, hosts: Lab) -> None:
    done = prove()
    assert done.rc == 0, done.stdout
    assert "tcp 2 of 2 pairs proven" in done.stdout
    told = rows(done)
    assert set(told) == {(pair, "tcp") for pair in PAIRS}
    for row in told.values():
        assert (row["rule"], row["installed"]) == ("", "tcp")
        assert 1e6 < row["read"] < 1e12
        assert 1e6 < row["write"] < 1e12
        print(row["pair"], row["read"], row["write"])
    assert done.changes() == []
    assert report(prove.home)["proven"]
    assert left(hosts) == []


def test_step_that_falls_back_is_not_proven(prove: Any, hosts: Lab) -> None:
    """These hosts have no RDMA device; the engine takes TCP and answers 0 to everything."""
    done = prove(transport_protocols=["tcp", "rdma"])
    assert done.rc == 2
    assert "tcp 2 of 2 pairs proven, rdma 0 of 2 pairs proven" in done.message
    told = rows(done)
    assert {told[pair, "tcp"]["rule"] for pair in PAIRS} == {""}
    assert {told[pair, "rdma"]["rule"] for pair in PAIRS} == {"fallback"}
    assert "ERROR [fallback] it-p1, it-d1: rdma is planned, the engine has installed tcp" in done.stdout
    assert report(prove.home)["proven"] is False
    assert left(hosts) == []


def test_way_that_is_closed(prove: Any, hosts: Lab) -> None:
    hosts.exec("it-d1", "ip", "route", "add", "unreachable", hosts.exec("it-p1", "hostname", "-I").split()[0])
    try:
        done = prove(transport_timeout=5)
    finally:
        hosts.exec("it-d1", "ip", "route", "del", "unreachable", hosts.exec("it-p1", "hostname", "-I").split()[0])
    assert done.rc == 2
    told = rows(done)
    assert {row["rule"] for row in told.values()} == {"address"}
    assert "nobody answers at" in told["it-p1-it-d1", "tcp"]["problem"]
    assert "firewall" in told["it-d1-it-p1", "tcp"]["mend"]
    assert left(hosts) == []


# as soon as it offers its memory
KILLER = """
until grep -q offered /run/mooncake-pd-transport-tcp.out 2>/dev/null; do sleep 0.02; done
systemctl kill --signal=KILL mooncake-pd-transport-tcp
"""


def test_target_that_dies_in_the_middle(prove: Any, hosts: Lab) -> None:
    hosts.exec("it-d1", "systemd-run", "--quiet", "--collect", "--unit=transport-killer", "sh", "-c", KILLER)
    done = prove()
    assert done.rc == 2
    told = rows(done)
    assert told["it-p1-it-d1", "tcp"]["rule"] == "died"
    assert "the engine ended in the middle" in told["it-p1-it-d1", "tcp"]["problem"]
    # the other direction does not need it
    assert told["it-d1-it-p1", "tcp"]["rule"] == ""
    assert left(hosts) == []


def test_run_without_a_pair_is_no_success(prove: Any, hosts: Lab) -> None:
    done = prove("--limit it-p1,localhost")
    assert done.rc == 2
    assert "no pair of a prefill and a decode host in this run, so nothing is proven" in done.message


def test_baseline_proves_first_when_asked(prove: Any, hosts: Lab, play: Runner, tmp_path: Path) -> None:
    quick = {"baseline_rounds": 1, "baseline_duration": 1, "baseline_threads": 1, "baseline_dest": str(tmp_path)}
    done = play(
        "playbooks/baseline.yml", extravars={**quick, "baseline_prove": True, "transport_dest": str(prove.home)}
    )
    assert done.rc == 0, done.stdout
    measured = {row["pair"]: row for row in done.result("mooncake.pd.baseline_report")["rows"]}
    for (pair, _protocol), row in rows(done).items():
        assert row["rule"] == ""
        print(pair, "proof", row["read"], row["write"], "bench", measured[pair]["bandwidth"])
