# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import http.server
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import watch
from ansible_collections.mooncake.pd.plugins.module_utils.readiness import Expected
from ansible_collections.mooncake.pd.plugins.module_utils.watch import FAILED, READY, WAITING, Watcher

A, B = "a" * 32, "b" * 32
GROUP = "/system.slice/mooncake-pd-p1.service"
LINE = "(APIServer pid=40) INFO:     Application startup complete."


class Host:
    """A host made of files: /proc, the log folder, /run/mooncake-pd, and a systemctl that answers from a dict."""

    def __init__(self, root: Path) -> None:
        self.proc, self.logs, self.run_dir = root / "proc", root / "log", root / "run"
        for folder in (self.proc / "net", self.logs, self.run_dir / "mooncake-pd-p1"):
            folder.mkdir(parents=True)
        self.sockets: list[str] = []
        self.tcp()
        self.unit = {
            "Id": "mooncake-pd-p1.service",
            "LoadState": "loaded",
            "ActiveState": "active",
            "SubState": "running",
            "Result": "success",
            "MainPID": "40",
            "NRestarts": "0",
            "InvocationID": A,
            "ControlGroup": GROUP,
        }
        self.process(40)
        self.log = self.logs / "mooncake-pd-p1.log"
        self.log.write_text("")
        self.start(A)
        self.now = 1000.0
        self.shows = 0
        self.script: list[tuple[float, Callable[[], object]]] = []

    def process(self, pid: int, group: str = GROUP, inodes: tuple[int, ...] = ()) -> None:
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "cgroup").write_text(f"0::{group}\n")
        (folder / "cmdline").write_bytes(b"prog\0")
        (folder / "status").write_text("Uid:\t0\t0\t0\t0\n")
        for inode in inodes:
            self.give(pid, inode)

    def give(self, pid: int, inode: int) -> None:
        os.symlink(f"socket:[{inode}]", self.proc / str(pid) / "fd" / str(inode))

    def listen(self, port: int, inode: int, address: str = "00000000") -> None:
        self.sockets.append(f" 0: {address}:{port:04X} 00000000:0000 0A 0:0 0:0 0 0 0 {inode} 1\n")
        self.tcp()

    def tcp(self) -> None:
        (self.proc / "net" / "tcp").write_text("sl\n" + "".join(self.sockets))

    def start(self, invocation: str) -> None:
        self.say(f"--- mooncake-pd start unit=mooncake-pd-p1.service invocation={invocation} digest=0123456789ab")

    def say(self, *lines: str) -> None:
        with self.log.open("a") as log:
            log.writelines(line + "\n" for line in lines)

    def die(self, **changes: str) -> None:
        (self.proc / "40").rename(self.proc / "gone")
        died = {"ActiveState": "failed", "SubState": "failed", "Result": "exit-code", "MainPID": "0"}
        self.unit.update({**died, "ExecMainCode": "1", "ExecMainStatus": "1", **changes})

    def run(self, command: list[str]) -> tuple[int, str, str]:
        if command[0] == "journalctl":
            return 0, "from the journal\n", ""
        self.shows += 1
        return 0, "".join(f"{key}={value}\n" for key, value in self.unit.items()), ""

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        self.script.append((1000.0 + seconds, action))

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for due, action in list(self.script):
            if due <= self.now:
                self.script.remove((due, action))
                action()

    def watcher(self, seen: dict[str, Any] | None = None, fatal: tuple[str, ...] = (), **wanted: Any) -> Watcher:
        process = {"name": "p1", "unit": "mooncake-pd-p1.service", "lines": [{"pattern": "startup complete"}], **wanted}
        return Watcher(
            [Expected.of(process)],
            self.run,
            log_dir=str(self.logs),
            fatal_patterns=[re.compile(pattern) for pattern in fatal],
            seen=seen,
            proc=str(self.proc),
            run_dir=str(self.run_dir),
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    @property
    def waited(self) -> float:
        return self.now - 1000.0


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def port(number: int, address: str = "127.0.0.1") -> dict[str, Any]:
    return {"purpose": "api", "address": address, "first": number, "last": number}


def test_ready_when_the_line_of_this_start_is_there(host: Host) -> None:
    host.log.write_text(LINE + "\n")  # of an earlier start
    host.start(A)
    host.at(3, lambda: host.say(LINE))
    watcher = host.watcher()
    assert watcher.wait(60, 0.5) == READY
    assert host.waited == 3
    (result,) = watcher.results()
    assert (result["ready"], result["seconds"], result["main_pid"], result["invocation_id"]) == (True, 3.0, 40, A)


def test_systemctl_is_asked_rarely(host: Host) -> None:
    host.at(30, lambda: host.say(LINE))
    host.watcher().wait(60, 0.5)
    assert host.shows <= 30 / 5 + 2


def test_dead_process_ends_the_wait_at_once_with_the_first_cause(host: Host) -> None:
    def crash() -> None:
        host.say("(EngineCore_DP0 pid=41) KeyError: 'rope'", "RuntimeError: Engine core initialization failed.")
        host.say("RuntimeError: See root cause above")
        host.die()

    host.at(10, crash)
    watcher = host.watcher()
    assert watcher.wait(600, 0.5) == FAILED
    assert host.waited <= 11
    text = watcher.failure_text()
    assert "p1 (mooncake-pd-p1.service) is not ready: it died: exit status 1, result exit-code." in text
    assert "First cause in EngineCore_DP0 pid=41: (EngineCore_DP0 pid=41) KeyError: 'rope'" in text
    assert f"From {host.log}:" in text
    assert "> (EngineCore_DP0 pid=41) KeyError: 'rope'" in text


def test_death_without_a_word_shows_the_last_lines_and_the_way_on(host: Host) -> None:
    host.say(*(f"line {number}" for number in range(20)))
    host.die(Result="oom-kill", ExecMainCode="2", ExecMainStatus="9")
    watcher = host.watcher()
    assert watcher.wait(600, 0.5) == FAILED
    text = watcher.failure_text()
    assert "killed by SIGKILL, result oom-kill" in text
    assert "What to do: The kernel killed it for memory" in text
    assert "  line 19" in text
    assert "  line 9\n" not in text
    host.unit["Result"] = "exit-code"
    watcher = host.watcher()
    watcher.wait(600, 0.5)
    assert "The log names no cause" in watcher.failure_text()


def test_death_without_a_word_names_who_has_the_port(host: Host) -> None:
    """mooncake_master 0.3.13.post1 with a busy RPC port: exit status 1, and not a line about it."""
    host.say("I1130 18:45:07.420173 22671 master_service.cpp:2619] Task cleanup thread stopped")
    host.listen(17051, 5)
    host.process(77, "/system.slice/other.service", (5,))
    host.die()
    watcher = host.watcher(ports=[port(17051)])
    assert watcher.wait(600, 0.5) == FAILED
    assert "What to do: api port 17051 on 127.0.0.1 held by pid 77 (prog" in watcher.failure_text()


def test_crash_before_the_first_look_counts(host: Host) -> None:
    host.die(ActiveState="inactive", SubState="dead")
    assert host.watcher().wait(600, 0.5) == FAILED
    assert host.waited < 1


def test_clean_exit_and_never_started_are_no_endless_wait(host: Host) -> None:
    host.die(ActiveState="inactive", SubState="dead", Result="success", ExecMainStatus="0")
    assert host.watcher().wait(600, 0.5) == FAILED
    host.unit.update(ExecMainCode="0", InvocationID="")
    watcher = host.watcher()
    assert watcher.wait(600, 0.5) == FAILED
    assert "nobody started it" in watcher.failure_text()


def test_restart_by_systemd_is_a_death_and_its_log_is_that_of_the_first_start(host: Host) -> None:
    def restart() -> None:
        host.say("OSError: [Errno 98] Address already in use")
        host.die(ActiveState="active", SubState="running", MainPID="50", NRestarts="1", InvocationID=B)
        host.process(50)
        host.start(B)
        host.say(LINE)

    host.at(5, restart)
    watcher = host.watcher()
    assert watcher.wait(600, 0.5) == FAILED
    text = watcher.failure_text()
    assert "systemd started it again (1 times by now)" in text
    assert "First cause: OSError: [Errno 98] Address already in use" in text


def test_death_between_two_slices_is_noticed(host: Host) -> None:
    first = host.watcher()
    assert first.wait(10, 0.5) == WAITING
    seen = json.loads(json.dumps(first.seen()))
    host.die(ActiveState="active", SubState="running", MainPID="50", InvocationID=B)
    host.process(50)
    host.start(B)
    host.say(LINE)
    second = host.watcher(seen)
    assert second.waited == 10
    assert second.wait(10, 0.5) == FAILED
    assert "restarted while we waited" in second.failure_text()
    assert host.watcher().wait(10, 0.5) == READY  # without that memory it would pass


def test_fatal_line_of_a_living_process_ends_the_wait(host: Host) -> None:
    host.at(4, lambda: host.say("x", "zmq.error.ZMQError: Address already in use (addr='tcp://10.0.0.1:36001')"))
    watcher = host.watcher()
    assert watcher.wait(600, 0.5) == FAILED
    assert host.waited <= 5
    text = watcher.failure_text()
    assert "it lives, but its log says that it has failed for good" in text
    assert "What to do: Another process" in text


def test_cause_that_follows_a_pointing_line_is_still_found(host: Host) -> None:
    host.at(4, lambda: host.say("(EngineCore_DP0 pid=41) ERROR EngineCore failed to start."))
    host.at(4.3, lambda: host.say("(EngineCore_DP0 pid=41) ERROR ValueError: no such quantization"))
    watcher = host.watcher()
    assert watcher.wait(600, 0.5) == FAILED
    assert "no such quantization" in str(watcher.results()[0]["cause"])


def test_fatal_pattern_of_the_operator(host: Host) -> None:
    host.say("INFO licence expired")
    assert host.watcher(fatal=("licence expired",)).wait(600, 0.5) == FAILED
    assert host.watcher().wait(1, 0.5) == WAITING


def test_timeout_tells_all_that_is_missing(host: Host) -> None:
    host.listen(8100, 9)
    host.process(77, "/system.slice/nginx.service", (9,))
    watcher = host.watcher(
        lines=[{"pattern": "startup complete", "count": 2}],
        ports=[port(8100), port(8998)],
        health={"url": "http://127.0.0.1:1/health"},
    )
    host.say(LINE)
    assert watcher.wait(20, 0.5) == WAITING
    text = watcher.timeout_text(20)
    assert 'log 1/2 "startup complete"' in text
    assert "api port 8100 on 127.0.0.1 held by pid 77 (prog), user root, unit nginx.service" in text
    assert "api port 8998 on 127.0.0.1 not open" in text
    assert "health http://127.0.0.1:1/health: connection refused" in text
    assert "alive (pid 40)" in text
    (progress,) = watcher.progress()
    assert (progress["name"], progress["seconds"]) == ("p1", 20)


def test_ports_must_belong_to_the_unit(host: Host) -> None:
    host.say(LINE)
    host.listen(8100, 5)
    host.process(77, "/system.slice/other.service", (5,))
    watcher = host.watcher(ports=[port(8100)])
    assert watcher.wait(2, 0.5) == WAITING
    host.process(41, GROUP + "/worker", (5,))  # a worker of ours has it open as well
    assert watcher.wait(2, 0.5) == READY


def test_main_process_counts_where_control_groups_cannot_be_seen(host: Host) -> None:
    host.say(LINE)
    (host.proc / "40" / "cgroup").write_text("0::/\n")
    host.listen(8100, 5)
    host.give(40, 5)
    assert host.watcher(ports=[port(8100)]).wait(2, 0.5) == READY


def test_port_behind_a_v6only_listener_is_not_served(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.say(LINE)
    (host.proc / "net" / "tcp6").write_text(f"sl\n 0: {'0' * 32}:1FA4 x 0A 0:0 0:0 0 0 0 5 1\n")
    host.give(40, 5)
    watcher = host.watcher(ports=[port(8100)])
    monkeypatch.setattr("ansible_collections.mooncake.pd.plugins.module_utils.sockets.probe", lambda *_: "free")
    assert watcher.wait(1, 0.5) == WAITING
    assert "open for IPv6 only" in watcher.timeout_text(1)
    monkeypatch.setattr("ansible_collections.mooncake.pd.plugins.module_utils.sockets.probe", lambda *_: "taken")
    assert watcher.wait(1, 0.5) == READY


def test_activating_unit_is_not_ready(host: Host) -> None:
    host.say(LINE)
    host.unit.update(ActiveState="activating", SubState="start")
    watcher = host.watcher()
    assert watcher.wait(2, 0.5) == WAITING
    assert "the unit is activating (start)" in watcher.timeout_text(2)


def test_ready_process_that_dies_while_others_are_awaited(host: Host) -> None:
    host.say(LINE)
    watcher = host.watcher()
    watcher.watched += host.watcher(lines=[{"pattern": "never"}]).watched
    host.at(5, host.die)
    assert watcher.wait(60, 0.5) == FAILED
    assert host.waited <= 6


def test_alive_to_the_last(host: Host) -> None:
    watcher = host.watcher()
    watcher.look()
    host.say(LINE)
    host.unit.update(ActiveState="failed", Result="signal", MainPID="0")  # /proc does not show it yet
    assert watcher.wait(60, 0.5) == FAILED


def test_proof_outlives_a_rotated_log(host: Host) -> None:
    host.say(LINE)
    first = host.watcher()
    assert first.wait(5, 0.5) == READY
    first.keep_proof()
    host.log.write_text("much later\nOSError: [Errno 98] Address already in use\n")
    assert host.watcher().wait(5, 0.5) == READY
    assert host.watcher(lines=[{"pattern": "something else"}]).wait(5, 0.5) != READY
    host.unit["InvocationID"] = B  # the next start has to prove itself
    assert host.watcher().wait(5, 0.5) != READY


def test_no_proof_without_the_units_own_folder(host: Host) -> None:
    host.say(LINE)
    (host.run_dir / "mooncake-pd-p1").rmdir()
    watcher = host.watcher()
    assert watcher.wait(5, 0.5) == READY
    watcher.keep_proof()
    assert list(host.run_dir.iterdir()) == []


def test_proof_does_not_go_through_a_link(host: Host, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (host.run_dir / "mooncake-pd-p1" / "ready").symlink_to(victim)
    host.say(LINE)
    watcher = host.watcher()
    assert watcher.wait(5, 0.5) == READY
    watcher.keep_proof()
    assert victim.read_text() == "precious"
    host.log.write_text("much later\n")
    assert host.watcher().wait(5, 0.5) == READY


def test_proof_that_cannot_be_kept_does_not_spoil_the_wait(host: Host) -> None:
    (host.run_dir / "mooncake-pd-p1" / "ready").mkdir()
    host.say(LINE)
    watcher = host.watcher()
    assert watcher.wait(5, 0.5) == READY
    watcher.keep_proof()


def test_rotated_away_mark_is_told(host: Host) -> None:
    host.log.write_text("much later\n")
    watcher = host.watcher()
    assert watcher.wait(1, 0.5) == WAITING
    assert f"no mark of this start in {host.log}" in watcher.timeout_text(1)


def test_unit_without_a_file_is_read_from_the_journal(host: Host) -> None:
    host.log.unlink()
    host.unit["ActiveState"] = "failed"
    watcher = host.watcher()
    watcher.wait(1, 0.5)
    assert "From journalctl -u mooncake-pd-p1.service:\n  from the journal" in watcher.failure_text()


# ---- health ----------------------------------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = {
            "/ok": (200, b'{"service_ready": true}'),
            "/no": (200, b'{"service_ready": false}'),
            "/text": (200, b"fine"),
            "/leader": (200, b'{"role": "leader", "service_ready": true}'),
            "/standby": (200, b'{"role": "standby", "leader_address": "10.0.0.1:17051"}'),
            "/foreign": (200, b'{"role": "standby", "leader_address": "10.0.0.9:17051"}'),
            "/candidate": (200, b'{"role": "standby", "leader_address": null}'),
        }.get(self.path, (503, b""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()


def test_health(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    ready = {"service_ready": True}
    assert watch.ask_health(f"{server}/ok", {}) == (None, None)
    assert watch.ask_health(f"{server}/ok", ready) == (None, None)
    assert watch.ask_health(f"{server}/text", {}) == (None, None)
    assert watch.ask_health(f"{server}/no", ready) == (f"{server}/no: service_ready is False and not True", None)
    assert watch.ask_health(f"{server}/text", ready) == (f"{server}/text: the answer is no JSON", None)
    assert watch.ask_health(f"{server}/busy", {}) == (f"{server}/busy answered 503", None)


def test_health_of_a_socket_that_accepts_and_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/health"
        began = time.monotonic()
        assert watch.ask_health(url, {}, timeout=0.2) == (f"{url}: no answer in time", None)
        assert time.monotonic() - began < 2


def test_health_is_part_of_ready(host: Host, server: str) -> None:
    host.say(LINE)
    assert host.watcher(health={"url": f"{server}/busy"}).wait(1, 0.5) == WAITING
    assert host.watcher(health={"url": f"{server}/ok", "json": {"service_ready": True}}).wait(1, 0.5) == READY


MASTER = [
    {"name": "leader", "json": {"role": "leader", "service_ready": True}},
    {
        "name": "standby",
        "json": {"role": "standby", "leader_address": ["10.0.0.1:17051", "10.0.0.2:17051"]},
        "without": ["rpc"],
    },
]


def state(host: Host, url: str) -> tuple[str, str | None, list[str]]:
    ports = [{"purpose": "rpc", "address": "0.0.0.0", "first": 17051, "last": 17051}]
    watcher = host.watcher(lines=[], ports=ports, health={"url": url, "states": MASTER})
    verdict = watcher.wait(1, 0.5)
    (told,) = watcher.results()
    return verdict, told["state"], told["missing"]


def test_a_standby_is_ready_without_the_port_of_the_leader(host: Host, server: str) -> None:
    assert state(host, f"{server}/standby") == (READY, "standby", [])


def test_a_leader_is_ready_with_its_port(host: Host, server: str) -> None:
    assert state(host, f"{server}/leader") == (WAITING, None, ["rpc port 17051 on 0.0.0.0 not open"])
    host.listen(17051, 5)
    host.give(40, 5)
    assert state(host, f"{server}/leader") == (READY, "leader", [])


@pytest.mark.parametrize(("path", "seen"), [("foreign", "'10.0.0.9:17051'"), ("candidate", "None")])
def test_who_follows_no_leader_of_the_plan_is_not_ready(host: Host, server: str, path: str, seen: str) -> None:
    verdict, name, missing = state(host, f"{server}/{path}")
    assert (verdict, name) == (WAITING, None)
    assert missing == [
        f"health {server}/{path}: no leader, role is 'standby' and not 'leader'; no standby, leader_address is {seen} "
        "and not '10.0.0.1:17051' or '10.0.0.2:17051'"
    ]


# ---- limits and hugepages as they really are

LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units\n"
    "Max open files            {nofile:<20} {nofile:<20} files\n"
    "Max locked memory         {memlock:<20} {memlock:<20} bytes\n"
)


def limited(host: Host, pid: int, memlock: object = "unlimited", nofile: object = 1048576) -> None:
    (host.proc / str(pid) / "limits").write_text(LIMITS.format(memlock=memlock, nofile=nofile))


def first_process(host: Host, memlock: object = "unlimited", capabilities: str = "000001ffffffffff") -> None:
    host.process(1, "/init.scope")
    limited(host, 1, memlock)
    (host.proc / "1" / "status").write_text(f"Uid:\t0\t0\t0\t0\nCapEff:\t{capabilities}\n")


def test_limits_that_did_not_take_effect_end_the_wait_at_once(host: Host) -> None:
    """What test hosts do: infinity is asked for, systemd says infinity, the process has 8 MiB."""
    limited(host, 40, 8388608)
    first_process(host, 8388608, "00000000a80425fb")
    host.unit.update(LimitMEMLOCK="infinity", LimitMEMLOCKSoft="infinity")
    host.at(5, lambda: host.say(LINE))
    watcher = host.watcher(limits={"memlock": "infinity", "nofile": 1048576})
    assert watcher.wait(60, 0.5) == FAILED
    assert host.waited < 2
    text = watcher.failure_text()
    assert (
        "its limits did not take effect: memlock infinity is wanted, and process 40 (?) has 8M.\n"
        "What to do: `systemctl show` says LimitMEMLOCK=infinity all the same: process 1 has 8M at most and may not"
        " raise it (no CAP_SYS_RESOURCE)"
    ) in text
    assert "--ulimit memlock=-1" in text
    assert "nofile" not in text


def test_limits_of_a_drop_in(host: Host) -> None:
    limited(host, 40, 65536)
    first_process(host)
    host.unit.update(LimitMEMLOCK="65536", LimitMEMLOCKSoft="65536", DropInPaths="/etc/x.conf")
    watcher = host.watcher(limits={"memlock": "1M"})
    assert watcher.wait(60, 0.5) == FAILED
    assert "systemd itself has LimitMEMLOCK=65536 for the unit: a drop-in lowers it (/etc/x.conf)" in (
        watcher.failure_text()
    )


def test_limits_of_a_process_that_runs_since_before(host: Host) -> None:
    limited(host, 40, nofile=1024)
    first_process(host)
    host.unit.update(LimitNOFILE="1048576", LimitNOFILESoft="1048576")
    watcher = host.watcher(limits={"nofile": "1048576"})
    assert watcher.wait(60, 0.5) == FAILED
    assert "Restart the unit" in watcher.failure_text()


def test_limits_of_a_child_are_seen_as_soon_as_there_is_one(host: Host) -> None:
    limited(host, 40)

    def fork() -> None:
        host.process(41)
        limited(host, 41, nofile=1024)
        (host.proc / "40" / "task" / "40").mkdir(parents=True)
        (host.proc / "40" / "task" / "40" / "children").write_text("41 ")

    host.at(3, fork)
    host.at(30, lambda: host.say(LINE))
    watcher = host.watcher(limits={"nofile": "1024:1048576", "memlock": "infinity"})
    assert watcher.wait(60, 0.5) == FAILED
    assert host.waited < 5
    assert "nofile 1024:1048576 is wanted, and process 41 (?) has 1024" in watcher.failure_text()


def test_limits_of_every_process_count_in_the_end(host: Host) -> None:
    limited(host, 40)
    host.process(55, GROUP + "/payload")
    limited(host, 55, 4096)
    host.say(LINE)
    assert host.watcher(limits={"memlock": "infinity"}).wait(60, 0.5) == FAILED
    limited(host, 55)
    assert host.watcher(limits={"memlock": "infinity"}).wait(60, 0.5) == READY


def test_soft_limit_counts_too(host: Host) -> None:
    (host.proc / "40" / "limits").write_text(
        "Max open files            1024                 1048576              files\n"
    )
    first_process(host)
    host.say(LINE)
    assert host.watcher(limits={"nofile": 1048576}).wait(60, 0.5) == FAILED
    assert host.watcher(limits={"nofile": "1024:1048576"}).wait(60, 0.5) == READY


def test_more_than_wanted_is_enough(host: Host) -> None:
    limited(host, 40, 16 << 20)
    host.say(LINE)
    assert host.watcher(limits={"memlock": "8M", "nofile": 4096}).wait(60, 0.5) == READY


def test_hugepages_are_those_of_the_processes(host: Host) -> None:
    (host.proc / "40" / "status").write_text("Uid:\t0\t0\t0\t0\nHugetlbPages:\t    4096 kB\n")
    host.say(LINE)
    watcher = host.watcher(hugepages=4 << 20)
    assert watcher.wait(60, 0.5) == READY
    assert watcher.results()[0]["hugepages"] == 4 << 20
    watcher = host.watcher(hugepages=8 << 20)
    assert watcher.wait(60, 0.5) == FAILED
    assert "8388608 bytes of hugepages are planned, and its processes have 4194304" in watcher.failure_text()
