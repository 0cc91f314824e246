# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What operators lose days to, told within seconds; and the same command puts all of it right afterwards."""

from __future__ import annotations

import pytest

DECODE = ("mooncake-pd-d1-0.service", "mooncake-pd-d1-1.service")


@pytest.fixture(autouse=True)
def whole_again(scenario):
    yield
    scenario.fault("npu4", "")
    scenario.hosts["npu4"].run("systemctl stop dashboard.service")
    scenario.stop(*DECODE)
    mended = scenario.play("start")
    assert mended.rc == 0, mended.output


def test_port_taken_inside_the_group_is_found_before_anything_is_touched(scenario):
    scenario.stop(*DECODE)
    npu4 = scenario.hosts["npu4"]
    npu4.check_output("systemd-run --unit=dashboard python3 -m http.server 19220 --bind 10.90.77.14")
    before = npu4.check_output("ls -lR --time-style=full-iso /etc/systemd/system /var/log/mooncake-pd")
    play = scenario.play("site")
    assert play.rc != 0
    assert "d1-1: kv port 10.90.77.14:19220 (decode[0].kv_port) is taken by pid" in play.text
    assert "user root, unit dashboard.service" in play.text
    assert "Mend: stop it (systemctl stop dashboard.service) or plan another port." in play.text
    assert "Preflight found 1 error (port-taken); nothing was changed." in play.text
    assert npu4.check_output("ls -lR --time-style=full-iso /etc/systemd/system /var/log/mooncake-pd") == before
    assert not npu4.service(DECODE[1]).is_running


def test_rank_that_dies_ends_the_wait_on_all_hosts_with_the_cause(scenario):
    scenario.stop(*DECODE)
    scenario.fault("npu4", "fatal:EI0006 Getting socket times out")
    play = scenario.play("start")
    assert play.rc != 0
    assert "d1-1 (mooncake-pd-d1-1.service) is not ready: it died: exit status 1" in play.text
    assert "First cause: EI0006 Getting socket times out" in play.text
    assert "stopped waiting: npu4 failed (see there)" in play.text
    assert play.seconds < 50  # instance_ready_timeout is 60


def test_part_of_a_group_is_not_started(scenario):
    scenario.stop(*DECODE)
    play = scenario.play("start", "--limit", "npu3")
    assert play.rc != 0
    assert "d1 on npu3 can only start together with npu4, which this run leaves out." in play.text
    assert not scenario.hosts["npu3"].service(DECODE[0]).is_running


def test_peer_that_never_joins_is_told_by_what_is_missing(scenario):
    scenario.stop(*DECODE)
    scenario.fault("npu4", "never-join")
    play = scenario.play("start", "-e", "instance_ready_timeout=10")
    assert play.rc != 0
    assert "Not ready after 10 s. d1-0 (mooncake-pd-d1-0.service): alive" in play.text
    assert 'still missing: log 0/1 "Application startup complete."' in play.text
    assert "health http://10.90.77.13:8004/health: connection refused" in play.text
    assert "Last lines of /var/log/mooncake-pd/mooncake-pd-d1-0.log:" in play.text


def test_second_host_of_a_group_dies_and_the_group_comes_back(scenario):
    """What one host loses ends the other; systemd starts both again, and they find each other."""
    npu3, npu4 = scenario.hosts["npu3"], scenario.hosts["npu4"]
    npu4.check_output("systemctl kill --signal=KILL mooncake-pd-d1-1")
    ask = "curl -s -o /dev/null -w '%{http_code}' -m 2 http://10.90.77.13:8004/health"
    npu3.check_output(f"for i in $(seq 60); do [ $({ask}) = 200 ] || break; sleep 0.5; done; [ $({ask}) != 200 ]")
    npu3.check_output(f"for i in $(seq 120); do [ $({ask}) = 200 ] && exit; sleep 0.5; done; exit 1")
    smoke = scenario.play("smoke")
    assert smoke.rc == 0, smoke.output
