# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong after the look at the hosts; and a restart of the 32 ranks of decode, which live together."""

from __future__ import annotations

DECODE = {"npu3": range(16), "npu4": range(16, 32)}
LOG = "/var/log/mooncake-pd"


def starts(scenario):
    """unit -> how often it was started, by the marks in its log."""
    return {
        unit: int(scenario.hosts[host].run(f"grep -c '^--- mooncake-pd start' {LOG}/mooncake-pd-d1-{rank}.log").stdout)
        for host, ranks in DECODE.items()
        for rank in ranks
        for unit in [f"mooncake-pd-d1-{rank}.service"]
    }


def said(scenario, host="npu3"):
    return scenario.hosts[host].check_output(f"cat {LOG}/mooncake-pd-d1-group.log").splitlines()


def test_a_roll_starts_every_rank_once(scenario):
    before, seen = starts(scenario), len(said(scenario))
    play = scenario.play("roll", "-e", "roll_restart=true", "-e", "roll_only=d1", "-e", "roll_downtime=true")
    assert play.rc == 0, play.output
    assert starts(scenario) == {unit: count + 1 for unit, count in before.items()}
    assert not [line for line in said(scenario)[seen:] if "anew" in line or "stopped:" in line]


def test_port_taken_after_preflight_is_named_at_the_start(scenario):
    """The port is one of the second rank's group, and the process that takes it came when nobody looked."""
    npu1 = scenario.hosts["npu1"]
    scenario.stop("mooncake-pd-p1-*.service")
    npu1.check_output("systemd-run --unit=dashboard python3 -m http.server 22011 --bind 10.90.78.11")
    try:
        play = scenario.play("start")
        assert play.rc != 0
        assert "p1-1: kv port 10.90.78.11:22011" in play.text
        assert "dashboard.service" in play.text
        # not even the rank whose ports are free
        assert not npu1.service("mooncake-pd-p1-0.service").is_running
    finally:
        npu1.run("systemctl stop dashboard.service")
        scenario.stop("mooncake-pd-p1-*.service")
    mended = scenario.play("site")
    assert mended.rc == 0, mended.output
