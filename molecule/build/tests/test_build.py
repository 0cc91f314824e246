# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mooncake as build.yml leaves it on two hosts, and what the next run makes of faults."""

from __future__ import annotations

import json
import shutil
import threading
import time

import pytest
from twin_hosts import ROOT, Play, Scenario

PATH = "/opt/mooncake-pd/engine"
SITE = f"{PATH}/lib/python3.11/site-packages"
COMPILED = "/var/tmp/compiled"
HOLD = "/var/tmp/hold"
BUILDER = ("--limit", "build1,localhost")


def manifest(scenario: Scenario, host: str) -> dict:
    return json.loads(scenario.hosts[host].check_output(f"cat {PATH}/share/mooncake-pd/mooncake.json"))


def compiled(scenario: Scenario) -> int:
    return len(scenario.hosts["build1"].check_output(f"cat {COMPILED}").splitlines())


def options(**more: object) -> str:
    return json.dumps({"mooncake_options": {"USE_ASCEND_DIRECT": True, "MOONCAKE_SIM_HOLD": HOLD, **more}})


def test_one_result_on_both_hosts(scenario):
    first, second = (manifest(scenario, host) for host in ("build1", "build2"))
    assert first == second
    assert first["options"]["USE_ASCEND_DIRECT"] == "ON"
    assert first["cann"]["version"] == "8.5.1"


def test_only_the_first_host_has_compiled(scenario):
    assert compiled(scenario) > 0
    assert not scenario.hosts["build2"].file(COMPILED).exists
    assert not scenario.hosts["build2"].exists("g++")


@pytest.mark.parametrize("host", ["build1", "build2"])
def test_it_works_and_nobody_else_may_replace_it(scenario, host):
    run = scenario.hosts[host].check_output
    assert "0.3.12.post1" in run(f"{PATH}/bin/mooncake_master --version")
    run(f"{PATH}/bin/python -c 'import mooncake.engine, mooncake.store'")
    assert run(f"find {PATH} -perm -o+w ! -type l") == ""


def test_next_run_has_compiled_nothing(scenario):
    """There were two runs by now, and what is compiled again is compiled with the same words."""
    lines = scenario.hosts["build1"].check_output(f"cat {COMPILED}").splitlines()
    assert len(set(lines)) == len(lines)


def test_library_that_went_away_is_named_with_its_way_out(scenario):
    libraries = "/usr/local/Ascend/cann-8.5.1/x86_64-linux/lib64"
    host = scenario.hosts["build2"]
    host.check_output(f"mkdir -p /var/tmp/away && mv {libraries}/libllm_datadist.so /var/tmp/away/")
    try:
        play = scenario.play("build", "--limit", "build2,localhost")
    finally:
        host.check_output(f"mv /var/tmp/away/libllm_datadist.so {libraries}/")
    assert play.rc != 0
    assert "missing libllm_datadist.so (CANN: put its library folders" in play.text


def test_failed_build_names_cause_and_way_out(scenario, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT / "tests/sim/mooncake/source", source)
    with (source / "mooncake-store/src/master.cpp").open("a") as program:
        program.write("#error the coroutine header requires -fcoroutines\n")
    play = scenario.play("build", "-e", json.dumps({"mooncake_source": str(source)}))
    assert play.rc != 0
    assert "The compiler is too old: GCC 11 or newer is needed." in play.text
    # nobody was given anything else
    assert manifest(scenario, "build1") == manifest(scenario, "build2")


def test_interrupted_build_is_finished_by_the_next_run(scenario):
    host = scenario.hosts["build1"]
    host.check_output(f"touch {HOLD}; : > {COMPILED}")
    words = (*BUILDER, "-e", options(BUILD_EXAMPLES=True))
    plays: list[Play] = []
    thread = threading.Thread(target=lambda: plays.append(scenario.play("build", *words)), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while host.run("pgrep -f '[h]old.cmake'").rc and time.monotonic() < deadline:
            time.sleep(0.2)
        # the module; the process between them is its own
        host.check_output("kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $(pgrep -ox cmake)))")
        time.sleep(1)
        assert host.run("pgrep -x 'cmake|ninja'").rc != 0
    finally:
        host.check_output(f"rm {HOLD}")
        thread.join(60)
    assert plays[0].rc != 0
    half = compiled(scenario)
    play = scenario.play("build", *words)
    assert play.rc == 0, play.output
    # what was compiled is not compiled again
    assert 0 < half < compiled(scenario)
    assert manifest(scenario, "build1")["options"]["BUILD_EXAMPLES"] == "ON"
