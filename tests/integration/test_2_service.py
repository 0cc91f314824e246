# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real service: brought up, proven, left alone by the second run, and hurt."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import pytest

from .conftest import INVENTORY, Lab, Play, Runner

URL = "http://10.90.75.10:8080"


def ask(hosts: Lab, prompt: str, limit: int = 20) -> dict[str, Any]:
    """Ask through the router with a time limit; the answer is judged by its text, not by its status."""
    body = json.dumps({"model": "tiny", "prompt": prompt, "max_tokens": 8, "temperature": 0})
    out = hosts.exec(
        "it-control", "curl", "-sS", "-m", str(limit), "-H", "Content-Type: application/json", "-d", body,
        f"{URL}/v1/completions", check=False,
    )  # fmt: skip
    try:
        return {"text": json.loads(out)["choices"][0]["text"]}
    except (ValueError, KeyError, IndexError):
        return {"error": out}


def healthy(hosts: Lab) -> bool:
    """Whether decode's own API answers."""
    script = "curl -s -o /dev/null -w '%{http_code}' http://10.90.75.21:8210/health"
    return hosts.shell("it-d1", script, check=False) == "200"


def wait_until(what: str, true: Any, seconds: float) -> float:
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        if true():
            return time.monotonic() - started
        time.sleep(0.5)
    raise AssertionError(f"after {seconds} s still not true: {what}")


@pytest.fixture(scope="module")
def first(hosts: Lab, play: Runner) -> Play:
    return play("site.yml")


def test_first_run_ends_with_a_proof(first: Play) -> None:
    assert first.rc == 0, first.stdout
    proof = first.result("mooncake.pd.kv_proof")
    assert proof["by_source"]["external_kv_transfer"] == proof["prompt_tokens"] > 0
    assert proof["by_source"].get("local_compute", 0) == 0
    assert proof["matches_prefill"] is True
    assert proof["answer"]
    assert "curl" in first.stdout


def test_prefill_is_proven_ready_before_decode_starts(first: Play, hosts: Lab) -> None:
    """By the journals of two hosts, which share this machine's clock."""
    ready = hosts.shell("it-p1", "journalctl -o short-unix | grep 'proven ready' | tail -n 1")
    assert "p1" in ready
    started = int(hosts.property("it-d1", "mooncake-pd-d1.service", "ExecMainStartTimestampMonotonic"))
    now = hosts.shell("it-d1", "cut -d' ' -f1 /proc/uptime; date +%s.%N").split()
    decode_start = float(now[1]) - float(now[0]) + started / 1e6
    assert float(ready.split()[0]) < decode_start


def test_second_run_changes_nothing_and_is_quick(first: Play, play: Runner) -> None:
    second = play("site.yml")
    assert second.rc == 0, second.stdout
    assert second.changes() == []
    print(f"first run {first.seconds:.1f} s, second {second.seconds:.1f} s")
    assert second.seconds < first.seconds / 2


def test_check_mode_on_the_running_service(first: Play, play: Runner, hosts: Lab) -> None:
    before = [hosts.property(h, u, "InvocationID") for h, u in UNITS]
    done = play("site.yml", cmdline="--check --diff")
    assert done.rc == 0, done.stdout
    assert done.changes() == []
    assert [hosts.property(h, u, "InvocationID") for h, u in UNITS] == before


UNITS = [
    ("it-control", "mooncake-pd-master.service"),
    ("it-p1", "mooncake-pd-p1.service"),
    ("it-d1", "mooncake-pd-d1.service"),
    ("it-control", "mooncake-pd-router-a.service"),
    ("it-control", "mooncake-pd-router-b.service"),
    ("it-control", "mooncake-pd-router.service"),
]


def test_transport_is_known_after_the_log_was_rotated_away(first: Play, hosts: Lab, play: Runner) -> None:
    for _round in range(2):
        hosts.shell("it-p1", "logger -s rotate 2>>/var/log/mooncake-pd/mooncake-pd-p1.log")
        hosts.exec("it-p1", "logrotate", "--force", "/etc/logrotate.d/mooncake-pd")
    kept = hosts.shell("it-p1", "cd /var/log/mooncake-pd; grep -l 'mooncake-pd start' *.log *.log.1", check=False)
    assert kept == ""
    done = play("playbooks/smoke.yml")
    assert done.rc == 0, done.stdout
    again = play("site.yml")
    assert again.rc == 0, again.stdout
    assert again.changes() == []


def test_restarted_prefill_leaves_no_request_hanging(first: Play, hosts: Lab) -> None:
    """The engine id dies with the process; routers that remember it make every other request hang."""
    assert ask(hosts, "before the restart").get("text")
    hosts.exec("it-p1", "systemctl", "kill", "-s", "KILL", "mooncake-pd-p1.service")
    wait_until("prefill answers again", lambda: ask(hosts, "is it back", limit=5).get("text"), 180)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: ask(hosts, f"{n} after the restart"), range(16)))
    assert [a for a in answers if not a.get("text")] == []


def test_smoke_fails_when_decode_runs_without_the_connector(first: Play, hosts: Lab, play: Runner) -> None:
    unit = "/etc/systemd/system/mooncake-pd-d1.service"
    hosts.shell(
        "it-d1",
        f"cp -a {unit} /root/unit.kept && "
        f"""sed -i -E '/^ExecStart=/ s/ "?--kv-transfer-config"? ("([^"\\\\]|\\\\.)*"|[^ ]+)//' {unit} && """
        f"! grep -q kv-transfer-config {unit} && systemctl daemon-reload && systemctl restart mooncake-pd-d1.service",
    )
    try:
        wait_until("decode answers", lambda: healthy(hosts), 180)
        wait_until("the path answers", lambda: ask(hosts, "is it back", limit=10).get("text"), 60)
        done = play("playbooks/smoke.yml")
        assert done.rc != 0
        assert "transport" in done.message or "KV" in done.message
        only_proof = play("playbooks/smoke.yml", cmdline="--limit router")
        assert only_proof.rc != 0
        assert "prompt tokens" in only_proof.message
        assert "decode d1 computed" in only_proof.message
    finally:
        hosts.shell("it-d1", f"mv /root/unit.kept {unit} && systemctl daemon-reload")
    mended = play("site.yml", extravars={"roll_downtime": True})
    assert mended.rc == 0, mended.stdout


def test_killed_prefill_ends_the_wait_within_three_seconds(first: Play, hosts: Lab, play: Runner) -> None:
    hosts.exec("it-p1", "systemctl", "stop", "mooncake-pd-p1.service")
    death: list[float] = []

    def kill() -> None:
        time.sleep(5)
        hosts.exec("it-p1", "systemctl", "kill", "-s", "KILL", "mooncake-pd-p1.service")
        death[0] = time.time()

    def kill_while_waiting(event: dict[str, Any]) -> None:
        waits = event["event"] == "playbook_on_task_start" and "are ready" in event["event_data"]["task"]
        if waits and not death:
            death.append(0.0)
            Thread(target=kill).start()

    done = play("site.yml", on_event=kill_while_waiting)
    ended = time.time()
    assert done.rc != 0
    assert [host for host, _t, _m in done.failures] == ["it-p1"]
    print(f"the play ended {ended - death[0]:.1f} s after the death")
    assert ended - death[0] < 3
    assert "p1" in done.message
    assert "signal" in done.message.lower() or "kill" in done.message.lower()


def test_engine_that_cannot_start_is_told_by_its_first_cause(first: Play, hosts: Lab, play: Runner, tmp_path) -> None:
    shutil.copytree(INVENTORY, tmp_path / "inventory")
    path = tmp_path / "inventory" / "topology.yml"
    longer = "bootstrap_port: 8990, args: [--max-model-len, '999999']"
    path.write_text(path.read_text().replace("bootstrap_port: 8990", longer))
    # what does not serve may be restarted
    wait_until("prefill is back", lambda: ask(hosts, "is it back", limit=5).get("text"), 180)
    refused = play("site.yml", inventory=tmp_path / "inventory")
    assert refused.rc != 0
    # the only prefill is not restarted by the way
    assert "p1" in refused.message
    assert "roll_downtime" in refused.message
    assert ask(hosts, "still there").get("text")
    done = play("playbooks/roll.yml", inventory=tmp_path / "inventory", extravars={"roll_downtime": True})
    assert done.rc != 0
    assert "is greater than the derived max_model_len" in done.message
    mended = play("playbooks/roll.yml", extravars={"roll_downtime": True})
    assert mended.rc == 0, mended.stdout


def test_everything_comes_back_after_a_reboot_of_all_hosts(first: Play, hosts: Lab, play: Runner) -> None:
    for host in ("it-control", "it-d1", "it-p1"):
        hosts.tool("reboot", "integration", host)
    seconds = wait_until("the service answers", lambda: ask(hosts, "is it back", limit=10).get("text"), 240)
    restarts = {unit: int(hosts.property(host, unit, "NRestarts")) for host, unit in UNITS}
    print(f"answers {seconds:.0f} s after the reboot; restarts {restarts}")
    assert all(count <= 1 for count in restarts.values()), restarts
    done = play("site.yml")
    assert done.rc == 0, done.stdout
    assert done.changes() == []


def test_stop_and_start_by_hand(first: Play, hosts: Lab) -> None:
    hosts.exec("it-d1", "systemctl", "stop", "mooncake-pd-d1.service")
    refused = ask(hosts, "nobody decodes", limit=10)
    assert "error" in refused
    assert refused["error"]
    hosts.exec("it-d1", "systemctl", "start", "mooncake-pd-d1.service")
    wait_until("decode is back", lambda: ask(hosts, "is it back", limit=5).get("text"), 180)


def test_admin_endpoints_stay_inside(first: Play, hosts: Lab) -> None:
    for path in ("workers", "remove_worker?url=http://10.90.75.11:8110", "flush_cache", "metrics", "add_worker"):
        post = f"curl -s -o /dev/null -w '%{{http_code}}' -X POST '{URL}/{path}'"
        code = hosts.shell("it-control", post, check=False)
        assert code in ("403", "404", "405"), path
