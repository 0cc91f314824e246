# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine in a container is to the host, to systemd and to an operator what one without a container is."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from twin_hosts import ROOT

ENGINES = [("npu1", "mooncake-pd-p1"), ("npu2", "mooncake-pd-d1")]
IMAGE = "localhost/vllm-ascend-twin:0.23.0"
OTHER = "localhost/vllm-ascend-twin:0.11.0"


def engine_pid(host, unit):
    """The program itself: the process in the part of the unit's group that is the container."""
    groups = host.check_output(f"find /sys/fs/cgroup/system.slice/{unit}.service -name cgroup.procs | xargs grep -H .")
    return next(int(line.rpartition(":")[2]) for line in groups.splitlines() if "libpod-payload" in line)


def log(host, unit):
    return host.file(f"/var/log/mooncake-pd/{unit}.log").content_string


def wait_for(question, seconds=15.0):
    end = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.parametrize(("name", "unit"), ENGINES)
def test_the_unit_is_the_containers(scenario, name, unit):
    host = scenario.hosts[name]
    assert host.service(unit).is_running
    assert host.service(unit).is_enabled
    assert host.check_output("podman ps --format '{{.Names}} {{.Image}}'") == f"{unit} {IMAGE}"
    main = host.check_output(f"systemctl show --value -p MainPID {unit}")
    assert host.check_output(f"cat /proc/{main}/comm") == "conmon"
    pid = engine_pid(host, unit)
    assert f"{unit}.service" in host.check_output(f"cat /proc/{pid}/cgroup")


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("npu1", "mooncake-pd-p1", {8100, 22000, 22001}),
        ("npu2", "mooncake-pd-d1", {8200}),
    ],
)
def test_planned_ports_are_the_units(scenario, name, unit, expected):
    found = scenario.listening(name, unit)
    assert expected <= {port for ports in found.values() for port in ports}


def test_the_log_is_the_units_file_and_begins_with_the_mark_of_the_start(scenario):
    host = scenario.hosts["npu1"]
    invocation = host.check_output("systemctl show --value -p InvocationID mooncake-pd-p1")
    last = log(host, "mooncake-pd-p1").rpartition("--- mooncake-pd start ")[2]
    assert last.startswith(f"unit=mooncake-pd-p1.service invocation={invocation} ")
    assert "Application startup complete." in last
    assert f"Started server process [{engine_pid(host, 'mooncake-pd-p1')}]" in last


def test_limits_and_environment_are_those_that_were_asked_for(scenario):
    host = scenario.hosts["npu1"]
    pid = engine_pid(host, "mooncake-pd-p1")
    limits = host.check_output(f"cat /proc/{pid}/limits")
    assert re.search(r"Max open files +16384 +16384 ", limits)
    assert re.search(r"Max locked memory +1048576 +1048576 ", limits)
    environment = host.check_output(f"tr '\\0' '\\n' < /proc/{pid}/environ").splitlines()
    # of CANN's set_env.sh, which has an empty entry at the end
    assert "LD_LIBRARY_PATH=/usr/local/Ascend/ascend-toolkit/9.1.0/lib64" in environment
    assert "HCCL_IF_IP=10.90.84.11" in environment


def test_a_killed_engine_comes_back_and_leaves_no_second_container(scenario):
    host = scenario.hosts["npu2"]
    before = engine_pid(host, "mooncake-pd-d1")
    host.check_output(f"kill -9 {before}")
    wait_for(lambda: host.check_output("systemctl show --value -p SubState mooncake-pd-d1") == "auto-restart")
    assert "137" in host.check_output("systemctl show --value -p ExecMainStatus mooncake-pd-d1")
    host.check_output("systemctl restart mooncake-pd-d1")
    wait_for(lambda: host.run("curl -sf -m 2 http://10.90.84.12:8200/health").rc == 0)
    assert engine_pid(host, "mooncake-pd-d1") != before
    assert host.check_output("podman ps -aq").count("\n") == 0


def test_a_stop_drains_and_leaves_nothing(scenario):
    host = scenario.hosts["npu1"]
    host.check_output("systemctl stop mooncake-pd-p1")
    assert host.check_output("systemctl show --value -p Result mooncake-pd-p1") == "success"
    assert host.check_output("podman ps -aq") == ""
    last = log(host, "mooncake-pd-p1").rpartition("--- mooncake-pd start ")[2]
    assert "start mode=drain" in last
    assert "Application shutdown complete." in last
    assert scenario.listening("npu1", "mooncake-pd-p1") == {}


def test_a_start_removes_its_own_leftover_and_no_other_container(scenario):
    host = scenario.hosts["npu1"]
    made = "podman create --pull=never --ulimit=nofile=1024:1024 --ulimit=nproc=1024:1024"
    own = host.check_output(f"{made} --label=mooncake-pd.unit=mooncake-pd-p1.service {IMAGE} true")
    foreign = host.check_output(f"{made} --name=somebody {IMAGE} true")
    host.check_output("systemctl start mooncake-pd-p1")
    left = host.check_output("podman ps -aq --no-trunc").split()
    host.check_output("podman rm somebody")
    assert own not in left
    assert foreign in left
    assert len(left) == 2
    wait_for(lambda: host.run("curl -sf -m 2 http://10.90.84.11:8100/health").rc == 0)


def test_an_image_of_another_release_is_refused_before_anything_runs(scenario, tmp_path):
    archive = tmp_path / "image.tar"
    subprocess.run(
        [
            sys.executable,
            ROOT / "tests" / "sim" / "npu" / "image.py",
            "--environment=/var/cache/mooncake-pd/twin/0.11.0",
            f"--name={OTHER}",
            f"--output={archive}",
        ],
        check=True,
    )
    done = scenario.play(
        "prepare", "-e", f"engine_image={OTHER}", "-e", f"engine_image_archive={archive}", "-l", "npu1,localhost"
    )
    assert done.rc != 0
    assert (
        f"The image {OTHER} on npu1 does not hold the planned vllm_ascend 0.23.0: vllm is 0.11.0, 0.23.0 is wanted"
        in done.text
    )


def test_an_image_that_is_not_there_is_told_with_the_ways_to_bring_it(scenario):
    done = scenario.play(
        "prepare", "-e", "engine_image=localhost/gone:1", "-e", "engine_image_archive=", "-l", "npu1,localhost"
    )
    assert done.rc != 0
    assert "npu1 has no image localhost/gone:1" in done.text
    assert "engine_image_archive" in done.text
    assert "set engine_container_pull to missing" in done.text
