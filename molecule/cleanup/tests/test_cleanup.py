# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A prefill and the master are killed beside a decode that goes on: exactly what they left goes. In this order."""

from __future__ import annotations

import json

import pytest

P1, D1, MASTER = "mooncake-pd-p1", "mooncake-pd-d1", "mooncake-pd-master"
KINDS = ("/dev/shm/psm_", "/dev/shm/sem.mp-", "/tmp/vllm_dist_")
FOREIGN = "/dev/shm/psm_0badcafe"
BODY = json.dumps({"model": "tiny", "prompt": "the same as before", "max_tokens": 8, "temperature": 0})
ASK = f"curl -sS -m 30 -H 'Content-Type: application/json' -d '{BODY}' http://10.90.83.11:8200/v1/completions"


@pytest.fixture(scope="module")
def host(scenario):
    return scenario.hosts["mo-one"]


def files(host) -> dict[str, float]:
    """What lies where leftovers lie, but for systemd's own and a cache; with the time it was made."""
    listed = host.check_output(
        "find /dev/shm /tmp -mindepth 1 \\( -name 'systemd-private-*' -o -name '.*-unix' -o -name 'torchinductor_*'"
        " -o -name 'ansible*' \\) -prune -o -printf '%C@ %p\\n'"
    )
    rows = [line.split(" ", 1) for line in listed.splitlines()]
    return {path: float(when) for when, path in rows}


def show(host, unit: str, what: str) -> str:
    return host.check_output(f"systemctl show --value -p {what} {unit}")


def answer(host) -> str:
    return json.loads(host.check_output(ASK))["choices"][0]["text"]


@pytest.fixture(scope="module")
def before(host):
    """The files of the prefill and those of the decode, which was started after the prefill was ready."""
    began = float(host.check_output(f'date +%s -d "$(systemctl show --value -p ExecMainStartTimestamp {D1})"'))
    made = files(host)
    prefill = {path for path, when in made.items() if when < began}
    bound = {line.split()[4] for line in host.check_output("ss -Hxl").splitlines()}
    sockets = set(host.check_output("find /tmp -maxdepth 1 -type s").splitlines())
    decode = set(made) - prefill
    return {"prefill": prefill, "closed": (decode & sockets) - bound, "decode": decode, "text": answer(host)}


def clean(scenario, *options: str) -> str:
    play = scenario.play("cleanup", *options)
    assert play.rc == 0, play.output
    return play.text


def test_engines_have_what_they_would_leave(before):
    count = {
        side: {kind: sum(kind in path for path in before[side]) for kind in KINDS} for side in ("prefill", "decode")
    }
    assert count["prefill"] == {"/dev/shm/psm_": 2, "/dev/shm/sem.mp-": 1, "/tmp/vllm_dist_": 1}
    assert count["decode"] == {"/dev/shm/psm_": 0, "/dev/shm/sem.mp-": 1, "/tmp/vllm_dist_": 1}
    assert len(before["decode"] - before["closed"]) > 2
    # of its start: nobody is bound to it any more, and yet it is nothing that a dead one left
    assert len(before["closed"]) == 1


def test_nothing_goes_while_all_runs(scenario, host, before):
    text = clean(scenario)
    assert "changed=0" in text
    assert set(files(host)) == before["prefill"] | before["decode"]


def test_processes_that_outlived_their_unit_are_told_and_keep_theirs(scenario, host, before):
    host.check_output(
        f"mkdir -p /run/systemd/system/{P1}.service.d"
        f" && printf '[Service]\\nKillMode=process\\n' > /run/systemd/system/{P1}.service.d/kill.conf"
        " && systemctl daemon-reload"
    )
    host.check_output(f"kill -9 {show(host, P1, 'MainPID')}; systemctl kill -s KILL {MASTER}; sleep 0.5")
    host.check_output(f"systemctl stop {P1} {MASTER}; touch {FOREIGN}")
    there = set(files(host))
    text = clean(scenario, "--check")
    assert "outlived its unit: VLLM::EngineCore" in text
    assert "would remove: /tmp/" in text
    assert set(files(host)) == there
    clean(scenario)
    after = set(files(host))
    assert before["decode"] | {FOREIGN} <= after
    assert {path for path in before["prefill"] if path.startswith(KINDS)} <= after
    assert "VLLM::EngineCore" in host.check_output(f"ps -o args= $(cat {group(host)})")


def group(host) -> str:
    return host.check_output(f"find /sys/fs/cgroup -path '*/{P1}.service/cgroup.procs' | head -1")


def test_exactly_what_the_killed_left_goes_while_the_other_answers(scenario, host, before):
    host.check_output(f"systemctl kill -s KILL {P1}; sleep 0.5")
    assert before["prefill"] & set(files(host))
    text = clean(scenario, "--diff")
    assert "-/dev/shm/psm_" in text
    assert set(files(host)) == before["decode"] | {FOREIGN}
    assert answer(host) == before["text"]
    assert host.service(D1).is_running


def test_the_second_time_nothing_is_left(scenario):
    text = clean(scenario)
    assert "changed=0" in text
    assert f"kept: {FOREIGN} - belongs to root" in text


def test_a_process_that_left_its_group_is_ended_when_asked(scenario, host):
    variables = f"MOONCAKE_PD_DIGEST=0 INVOCATION_ID=0 RUNTIME_DIRECTORY=/run/mooncake-pd/{P1}"
    host.check_output(f"systemd-run --quiet --uid=mooncake --unit=strayed env {variables} sleep 600; sleep 0.5")
    assert "changed=0" in clean(scenario)
    assert host.service("strayed").is_running
    clean(scenario, "-e", "cleanup_kill_orphans=true")
    assert not host.service("strayed").is_running
    assert answer(host)
