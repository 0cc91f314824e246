# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong after the look at the hosts."""

from __future__ import annotations


def test_port_taken_after_preflight_ends_the_start_with_the_cause(scenario):
    """The port is one of the second rank's group, and the process that takes it came when nobody looked."""
    npu1 = scenario.hosts["npu1"]
    scenario.stop("mooncake-pd-p1-*.service")
    npu1.check_output("systemd-run --unit=dashboard python3 -m http.server 22011 --bind 10.90.78.11")
    try:
        play = scenario.play("start")
        assert play.rc != 0
        assert "p1-1 (mooncake-pd-p1-1.service) is not ready" in play.text
        assert "Address already in use (addr='tcp://10.90.78.11:22011')" in play.text
        assert play.seconds < 50  # instance_ready_timeout is 60
    finally:
        npu1.run("systemctl stop dashboard.service")
        scenario.stop("mooncake-pd-p1-*.service")
    mended = scenario.play("site")
    assert mended.rc == 0, mended.output
