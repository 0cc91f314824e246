# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role set is there, measured where it counts; it outlives a reboot, and goes with `absent`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from twin_hosts import ROOT, Play

VALUES = {
    "vm.max_map_count": "16777216",
    "vm.swappiness": "0",
    "net.core.somaxconn": "4096",
    "net.ipv4.tcp_rmem": "4096 131072 8388608",
    "net.ipv4.ip_local_reserved_ports": "40100,50000-50010",
}
UNIT = "mooncake-pd-limits"
SHM = "df --block-size=1M --output=size /dev/shm | tail -1"


@pytest.fixture(scope="module")
def host(scenario):
    return scenario.hosts["mo-one"]


@pytest.fixture(scope="module")
def play(scenario):
    def run(name: str, *options: str) -> Play:
        book = Path(__file__).parents[1] / f"{name}.yml"
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_FORCE_COLOR": "0"}
        done = subprocess.run(
            ["ansible-playbook", book, "-i", scenario.inventory, *options],
            cwd=ROOT,
            env=environment | {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Play(done.returncode, 0.0, done.stdout + done.stderr)

    return run


def values(host) -> dict[str, str]:
    # one line each: a test host's copies of keys keep the rest of a longer value that was written over
    paths = [f"/proc/sys/{key.replace('.', '/')}" for key in VALUES]
    text = host.check_output(f"for key in {' '.join(paths)}; do head -n 1 $key; done")
    return dict(zip(VALUES, (" ".join(line.split()) for line in [*text.split("\n"), ""]), strict=False))


def limits(host, pid: str) -> dict[str, list[str]]:
    text = host.check_output(f"cat /proc/{pid}/limits")
    return {line[:26].strip(): line[26:].split()[:2] for line in text.splitlines()[1:]}


def test_values_are_there(host):
    assert values(host) == VALUES
    assert host.check_output(SHM).strip() == "512"


@pytest.mark.parametrize(("user", "option", "limit"), [("mooncake", "-l", "4096"), ("mooncake", "-n", "2048")])
def test_a_login_has_its_limits(host, user, option, limit):
    assert host.check_output(f"su -s /bin/bash - {user} -c 'ulimit -H {option}'") == limit


def test_what_the_host_withholds_is_in_no_file(host):
    assert "ansible" not in host.check_output("cat /etc/security/limits.d/90-mooncake-pd.conf")
    assert "vm.mooncake" not in host.check_output("cat /etc/sysctl.d/95-mooncake-pd.conf")
    assert not host.file("/etc/tmpfiles.d/mooncake-pd-host.conf").exists


def test_limits_that_do_not_take_effect_are_told_at_once(host, play):
    """systemd accepts infinity, shows infinity, and the process has 8 MiB."""
    run = play("limits")
    assert run.rc == 2
    pid = host.check_output(f"systemctl show --value -p MainPID {UNIT}")
    assert host.check_output(f"systemctl show --value -p LimitMEMLOCK {UNIT}") == "infinity"
    assert limits(host, pid)["Max locked memory"] == ["8388608", "8388608"]
    for part in (
        f"limits ({UNIT}.service) is not ready: its limits did not take effect:",
        f"memlock infinity is wanted, and process {pid} (sh) has 8M",
        f"nofile 1048576 is wanted, and process {pid} (sh) has 20000",
        "`systemctl show` says LimitMEMLOCK=infinity all the same: process 1 has 8M at most",
        "--ulimit memlock=-1",
    ):
        assert part in run.text


def test_limits_of_a_drop_in_are_told_as_such(host, play):
    folder = f"/etc/systemd/system/{UNIT}.service.d"
    host.check_output(f"mkdir {folder} && printf '[Service]\\nLimitMEMLOCK=64K\\n' > {folder}/low.conf")
    host.check_output(f"systemctl daemon-reload && systemctl stop {UNIT}")
    text = play("limits", "-e", json.dumps({"limits_wanted": {"memlock": "4M", "nofile": 4096}})).text
    host.check_output(f"rm -r {folder} && systemctl daemon-reload && systemctl stop {UNIT}")
    assert f"a drop-in lowers it ({folder}/low.conf)" in text
    assert "memlock 4M is wanted" in text


def test_limits_that_a_host_can_give_are_those_of_the_process_and_its_child(host, play):
    run = play("limits", "-e", json.dumps({"limits_wanted": {"memlock": "4M", "nofile": 4096}}))
    assert run.rc == 0, run.output
    pid = host.check_output(f"systemctl show --value -p MainPID {UNIT}")
    child = host.check_output(f"cat /proc/{pid}/task/{pid}/children").split()[0]
    for one in (pid, child):
        assert limits(host, one)["Max locked memory"] == ["4194304", "4194304"]
        assert limits(host, one)["Max open files"] == ["4096", "4096"]
    host.check_output(f"systemctl stop {UNIT}")


def test_logs_are_rotated_and_trimmed(host):
    folder = "/var/lib/mooncake-pd/ascend/log/run/plog"
    old = f"{folder}/plog-%s_20260101.log"
    host.check_output(
        f"runuser -u mooncake -- sh -c 'mkdir -p {folder} && cd {folder} && for n in 1 2 3; do"
        ' fallocate -l 60M plog-${n}_20260101.log && touch -d "$((9 - n)) days ago" plog-${n}_20260101.log; done\''
    )
    host.check_output("sed -i s/10G/100M/ /etc/mooncake-pd-logs.json")
    host.check_output("fallocate -l 600M /var/log/mooncake-pd/big.log && systemctl start mooncake-pd-logs.service")
    assert [host.file(old % number).exists for number in (1, 2, 3)] == [False, False, True]
    assert host.file("/var/log/mooncake-pd/big.log").size == 0
    assert host.service("mooncake-pd-logs.timer").is_running
    host.check_output("rm /var/log/mooncake-pd/big.log* && sed -i s/100M/10G/ /etc/mooncake-pd-logs.json")


def test_a_reboot_brings_everything_back(scenario, host, play):
    environment = {**os.environ, "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}"}
    subprocess.run([ROOT / "tests/hosts/lab", "reboot", scenario.lab, "mo-one"], check=True, env=environment)
    assert values(host) == VALUES
    assert host.check_output(SHM).strip() == "512"
    assert host.service("mooncake-pd-logs.timer").is_running
    text = play("converge").text
    assert "changed=0" in text
    for withheld in (
        "vm.mooncake: this kernel does not have it",
        "hugepages of 2MB: it lies on a file system that is mounted read-only here",
        "transparent_hugepages: it lies on",
        "no cpufreq",
        "limits: ansible - memlock unlimited: process 1 has 8192 at most",
    ):
        assert withheld in text


def test_absent_puts_everything_back(host, play):
    host.check_output("sysctl -q -w vm.swappiness=17")
    run = play("converge", "-e", "host_state=absent")
    assert run.rc == 0, run.output
    assert "vm.swappiness: it is 17 and was 0 when mooncake.pd had set it" in run.text
    assert values(host) == {
        "vm.max_map_count": "65530",
        "vm.swappiness": "17",
        "net.core.somaxconn": "4096",
        "net.ipv4.tcp_rmem": "4096 131072 33554432",
        "net.ipv4.ip_local_reserved_ports": "",
    }
    assert host.check_output(SHM).strip() == "1024"
    assert "/dev/shm" not in host.file("/etc/fstab").content_string
    left = host.check_output("find /etc /usr/local /var/lib -name '*mooncake*' | sort").split()
    assert left == [
        "/etc/systemd/system/mooncake-pd-limits.service",
        "/etc/systemd/system/multi-user.target.wants/mooncake-pd-limits.service",
        "/var/lib/mooncake-pd",
    ]
