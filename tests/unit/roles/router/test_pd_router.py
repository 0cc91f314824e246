# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pd_router.py against stand-ins for the instances and for vllm-router: real processes, signals and sockets."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.tests.sim.router.harness import (
    PD_ROUTER,
    Cluster,
    Sampler,
    Unit,
    free_ports,
    get_json,
    request,
    wait_until,
)


@pytest.fixture(scope="module")
def pd_router() -> ModuleType:
    return load()


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pd_router", PD_ROUTER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Any]:
    made: list[Cluster] = []

    def make(prefill: int, decode: int = 1) -> Cluster:
        made.append(Cluster(tmp_path, prefill, decode))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()
        print(cluster.logs())


# -- the command ------------------------------------------------------------------------------------------------------


def test_parse_command_takes_out_prefill_groups(pd_router: ModuleType) -> None:
    command = ["vllm-router", "--host", "127.0.0.1", "--port", "18001", "--prefill", "http://10.0.0.1:8100", "8998"]
    command += ["--prefill", "http://10.0.0.2:8100", "--decode", "http://10.0.0.3:8200", "--policy", "round_robin"]
    rest, prefills, own = pd_router.parse_command(command)
    assert rest == [*command[:5], "--decode", "http://10.0.0.3:8200", "--policy", "round_robin"]
    assert prefills == {"http://10.0.0.1:8100": "http://10.0.0.1:8998", "http://10.0.0.2:8100": "http://10.0.0.2:8998"}
    assert own == "http://127.0.0.1:18001"


def test_parse_command_keeps_ipv6_brackets(pd_router: ModuleType) -> None:
    _program, prefills, _rest = pd_router.parse_command(["r", "--prefill", "http://[fd00::1]:8100", "8998"])
    assert prefills == {"http://[fd00::1]:8100": "http://[fd00::1]:8998"}


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["r"], "no --prefill"),
        (["r", "--prefill", "--decode"], "without a URL"),
        (["r", "--prefill", "http://p:1", "none"], "bootstrap port"),
    ],
)
def test_parse_command_refuses(pd_router: ModuleType, command: list[str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        pd_router.parse_command(command)


words = st.lists(st.sampled_from(["--policy", "round_robin", "--host", "h", "--decode", "http://d:1", "7"]), max_size=6)
ports = st.lists(st.integers(1, 65535), min_size=1, max_size=5, unique=True)


@given(before=words, after=words, prefill_ports=ports)
def test_parse_command_loses_no_word(before: list[str], after: list[str], prefill_ports: list[int]) -> None:
    groups = [w for port in prefill_ports for w in ("--prefill", f"http://p:{port}", "99")]
    rest, prefills, _bare = load().parse_command(["r", *before, *groups, "--end", *after])
    assert rest == ["r", *before, "--end", *after]
    assert list(prefills) == [f"http://p:{port}" for port in prefill_ports]


# -- exec -------------------------------------------------------------------------------------------------------------


def exec_unit(cluster: Cluster, tmp_path: Path) -> Unit:
    script = tmp_path / "show.py"
    script.write_text("import json, os, sys, time\nprint(json.dumps([os.getpid(), sys.argv[1:]]))\ntime.sleep(60)\n")
    argv = [sys.executable, str(PD_ROUTER), "exec", "--", sys.executable, str(script), "--port", "1"]
    for p in cluster.prefill:
        argv += ["--prefill", p.url, str(p.bootstrap_port)]
    unit = Unit(tmp_path, "router-x", argv, respawn=False)
    cluster.units.append(unit)
    return unit.start()


def test_exec_leaves_out_a_dead_prefill(make_cluster: Any, tmp_path: Path, pd_router: ModuleType) -> None:
    cluster = make_cluster(2)
    alive, dead = cluster.prefill
    alive.start()
    unit = exec_unit(cluster, tmp_path)
    wait_until(lambda: "[" in unit.text().partition("}\n")[2], "the command runs")
    pid, args = json.loads(unit.text().splitlines()[-1])
    assert args == ["--port", "1", "--prefill", alive.url, str(alive.bootstrap_port)]
    record = json.loads((unit.runtime / "members.json").read_text())
    assert record == {
        "pid": pid,
        "start": pd_router.start_time(pid),
        "url": "http://127.0.0.1:1",
        "planned": {p.url: f"http://127.0.0.1:{p.bootstrap_port}" for p in (alive, dead)},
        "members": {alive.url: alive.engines()},
    }
    assert f"starting without {dead.url}" in unit.text()


def test_exec_waits_with_one_line_until_a_prefill_answers(make_cluster: Any, tmp_path: Path) -> None:
    cluster = make_cluster(1)
    unit = exec_unit(cluster, tmp_path)
    time.sleep(2.5)
    assert unit.text().count("\n") == 1
    assert unit.text().startswith("waiting: no bootstrap server answers")
    assert not (unit.runtime / "members.json").exists()
    cluster.prefill[0].start()
    wait_until(lambda: "starting with" in unit.text(), "exec goes on")
    assert unit.starts == 1


def test_exec_takes_no_bootstrap_without_workers_for_an_answer(make_cluster: Any, tmp_path: Path) -> None:
    cluster = make_cluster(1)
    cluster.prefill[0].start(ranks=0)
    unit = exec_unit(cluster, tmp_path)
    time.sleep(1.0)
    assert "waiting" in unit.text()


def test_exec_ends_on_sigterm_while_it_waits(make_cluster: Any, tmp_path: Path) -> None:
    unit = exec_unit(make_cluster(1), tmp_path)
    wait_until(lambda: "waiting" in unit.text(), "exec waits")
    unit.stop(timeout=2)
    assert unit.process.returncode == -signal.SIGTERM  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("env", "command", "code", "text"),
    [
        ({}, ["r", "--prefill", "http://127.0.0.1:1", "1"], 2, "RUNTIME_DIRECTORY is not set"),
        ({"RUNTIME_DIRECTORY": "/nonexistent"}, ["r"], 2, "the command has no --prefill"),
    ],
)
def test_exec_refuses(env: dict[str, str], command: list[str], code: int, text: str) -> None:
    argv = [sys.executable, str(PD_ROUTER), "exec", "--", *command]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == code
    assert text in done.stderr


def test_exec_says_that_the_router_is_missing(make_cluster: Any, tmp_path: Path) -> None:
    cluster = make_cluster(1)
    cluster.prefill[0].start()
    argv = [sys.executable, str(PD_ROUTER), "exec", "--", "/nonexistent/vllm-router"]
    argv += ["--prefill", cluster.prefill[0].url, str(cluster.prefill[0].bootstrap_port)]
    env = {"RUNTIME_DIRECTORY": str(tmp_path)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 127
    assert "cannot run /nonexistent/vllm-router: No such file" in done.stdout


# -- watch ------------------------------------------------------------------------------------------------------------


def test_restarted_prefill_is_taken_out_and_comes_back_without_a_gap(make_cluster: Any) -> None:
    cluster = make_cluster(2).start()
    cluster.watch()
    first = cluster.prefill[0]
    sampler = Sampler(cluster)
    sampler.start()
    first.kill()
    wait_until(lambda: cluster.said(f"took out {first.url}") == 2, "taken out of both while it is away", 5)
    first.start(health_delay=1.0)
    starts = [router.starts for router in cluster.routers]
    time.sleep(0.7)
    assert [router.starts for router in cluster.routers] == starts, "no restart before /health is 200"
    wait_until(cluster.current, "both routers have the new id")
    time.sleep(1.0)
    assert [router.starts for router in cluster.routers] == [2, 2]
    assert sampler.end().none_ready == 0.0
    assert sampler.looks > 50
    assert not cluster.said("SIGKILL")


def test_only_prefill_restarts_both_routers_at_once(make_cluster: Any) -> None:
    cluster = make_cluster(1).start()
    cluster.watch()
    only = cluster.prefill[0]
    only.kill()
    wait_until(lambda: cluster.said("took out") == 2, "taken out")
    assert cluster.ready() == [False, False]
    time.sleep(0.5)
    only.start()
    began = time.monotonic()
    wait_until(cluster.current, "both routers have the new id")
    assert time.monotonic() - began < 3, "they did not wait for each other"
    assert [router.starts for router in cluster.routers] == [2, 2]


def test_restart_too_fast_to_be_seen_away(make_cluster: Any) -> None:
    """Between two looks the prefill is gone and back: the other engine id alone has to be enough."""
    cluster = make_cluster(2).start()
    cluster.watch(interval=2.0)
    first = cluster.prefill[0]
    first.kill()
    first.start()
    wait_until(lambda: cluster.said(f"took out {first.url}: engine ids were") == 2, "taken out for its id")
    wait_until(cluster.current, "both routers have the new id")


def test_prefill_that_restarts_again_while_routers_restart(make_cluster: Any) -> None:
    cluster = make_cluster(2).start()
    cluster.watch()
    first = cluster.prefill[0]
    sampler = Sampler(cluster)
    sampler.start()
    first.kill()
    first.start()
    wait_until(lambda: cluster.routers[0].starts == 2, "router-a restarts")
    first.kill()
    first.start()
    wait_until(cluster.current, "both routers have the last id")
    time.sleep(1.0)
    assert cluster.current()
    assert sampler.end().none_ready == 0.0
    assert all(router.starts <= 3 for router in cluster.routers)


def test_prefill_that_never_returns_restarts_nothing(make_cluster: Any) -> None:
    cluster = make_cluster(2).start()
    cluster.watch()
    cluster.prefill[0].kill()
    wait_until(lambda: cluster.said("took out") == 2, "taken out")
    time.sleep(2.0)
    assert [router.starts for router in cluster.routers] == [1, 1]
    assert cluster.ready() == [True, True]
    assert cluster.said("took out") == 2, "said once"


def test_new_watcher_takes_over(make_cluster: Any) -> None:
    cluster = make_cluster(2).start()
    watcher = cluster.watch()
    first = cluster.prefill[0]
    first.kill()
    wait_until(lambda: cluster.said("took out") == 2, "taken out")
    watcher.stop(signal.SIGKILL)
    first.start()
    time.sleep(0.5)
    assert [router.starts for router in cluster.routers] == [1, 1]
    watcher = cluster.watch()
    wait_until(lambda: cluster.routers[0].starts == 2, "router-a restarts")
    watcher.stop(signal.SIGKILL)
    time.sleep(1.0)
    cluster.watch()
    wait_until(cluster.current, "both routers have the new id")
    assert [router.starts for router in cluster.routers] == [2, 2]


def test_own_removal_is_known_to_a_new_watcher_even_with_the_same_id(make_cluster: Any) -> None:
    """A prefill given up while it was away may come back with the id it had: only a router restart takes it in."""
    cluster = make_cluster(2).start()
    first = cluster.prefill[0]
    first.kill()
    first.start(engine_id="pinned")
    watcher = cluster.watch()
    wait_until(cluster.current, "the pinned id is known")
    first.kill()
    wait_until(lambda: cluster.said(f"took out {first.url}: neither") == 2, "taken out")
    watcher.stop(signal.SIGKILL)
    starts = [router.starts for router in cluster.routers]
    first.start(engine_id="pinned")
    cluster.watch()
    wait_until(lambda: [router.starts for router in cluster.routers] == [n + 1 for n in starts], "both restart")
    wait_until(cluster.current, "it is a member again")
    time.sleep(1.0)
    assert [router.starts for router in cluster.routers] == [n + 1 for n in starts]


def test_removal_by_an_operator_is_not_undone(make_cluster: Any) -> None:
    cluster = make_cluster(2).start()
    cluster.watch()
    first = cluster.prefill[0]
    for port in cluster.ports:
        request(port, f"/remove_worker?url={first.url}", method="POST")
    time.sleep(1.5)
    assert [router.starts for router in cluster.routers] == [1, 1]
    first.kill()
    first.start()
    wait_until(cluster.current, "after its restart it is taken in")


def test_left_out_prefill_is_taken_in_one_router_after_the_other(make_cluster: Any) -> None:
    cluster = make_cluster(2)
    cluster.prefill[1].start()
    cluster.decode[0].start()
    for router in cluster.routers:
        router.start()
    wait_until(lambda: cluster.ready() == [True, True], "ready with one prefill")
    cluster.watch()
    sampler = Sampler(cluster)
    sampler.start()
    cluster.prefill[0].start()
    wait_until(cluster.current, "both routers have both")
    assert sampler.end().none_ready == 0.0


def test_router_that_waits_for_a_dead_bootstrap_is_started_without_it(make_cluster: Any) -> None:
    """A prefill that dies between `exec` and the router's own look would block that router for minutes."""
    cluster = make_cluster(2)
    for prefill in cluster.prefill:
        prefill.start()
    cluster.routers[0].start()
    wait_until(lambda: len(cluster.members(cluster.routers[0])) == 2, "started with both")
    cluster.prefill[0].kill()
    cluster.decode[0].start()
    time.sleep(1.0)
    assert cluster.ready()[0] is False, "the stand-in waits for the bootstrap, as the real one"
    cluster.watch()
    wait_until(lambda: cluster.ready()[0], "it is ready without the dead one", 5)
    assert list(cluster.members(cluster.routers[0])) == [cluster.prefill[1].url]


def test_ranks_that_register_later_are_taken_in(make_cluster: Any) -> None:
    cluster = make_cluster(2).start()
    cluster.watch()
    first = cluster.prefill[0]
    first.kill()
    first.start(ranks=2)
    wait_until(cluster.current, "both ranks are known")
    assert len(cluster.members(cluster.routers[0])[first.url]) == 2


def test_request_that_does_not_end_is_cut_after_the_drain_timeout(make_cluster: Any) -> None:
    cluster = make_cluster(2).start()
    cluster.watch(drain_timeout=6.0)
    holder = threading.Thread(target=request, args=(cluster.ports[0], "/hold?seconds=60"), kwargs={"timeout": 60})
    holder.daemon = True
    holder.start()
    sampler = Sampler(cluster)
    sampler.start()
    time.sleep(0.2)
    first = cluster.prefill[0]
    first.kill()
    first.start()
    wait_until(lambda: cluster.routers[0].starts == 2, "router-a is cut", 15)
    assert cluster.said("router-a: SIGKILL, requests did not end within the drain timeout of 6 s") == 1
    wait_until(cluster.current, "both routers have the new id")
    assert cluster.said("router-b: SIGKILL") == 0
    assert sampler.end().none_ready == 0.0


def test_restart_by_hand_at_the_same_time(make_cluster: Any) -> None:
    """router-b is down by hand when the prefill is back: the watcher leaves router-a alone until b is ready."""
    cluster = make_cluster(2).start()
    cluster.watch()
    first, b = cluster.prefill[0], cluster.routers[1]
    first.kill()
    wait_until(lambda: cluster.said("took out") == 2, "taken out")
    b.delay = 3.0
    os.kill(b.pid, signal.SIGTERM)
    first.start()
    sampler = Sampler(cluster)
    sampler.start()
    time.sleep(2.0)
    assert cluster.routers[0].starts == 1
    assert cluster.said("router-a: restart to take in") == 1
    wait_until(cluster.current, "both routers have the new id")
    assert [router.starts for router in cluster.routers] == [2, 2]
    assert sampler.end().none_ready == 0.0


def test_other_process_with_the_recorded_pid_is_never_signalled(make_cluster: Any, tmp_path: Path) -> None:
    cluster = make_cluster(1)
    cluster.prefill[0].start()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as innocent:
        for router in cluster.routers:
            router.runtime.mkdir()
            record = {"pid": innocent.pid, "start": "1", "url": f"http://127.0.0.1:{free_ports(1)[0]}"}
            record |= {"planned": {cluster.prefill[0].url: f"http://127.0.0.1:{cluster.prefill[0].bootstrap_port}"}}
            record |= {"members": {cluster.prefill[0].url: {"0": "old"}}}
            (router.runtime / "members.json").write_text(json.dumps(record))
        cluster.watch()
        time.sleep(1.5)
        assert innocent.poll() is None
        innocent.kill()


def test_signal_goes_only_to_the_process_that_was_recorded(pd_router: ModuleType, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        router = pd_router.Router(tmp_path)
        router.process = (process.pid, "1")
        assert not router.send(signal.SIGKILL)
        assert process.poll() is None
        router.process = (process.pid, pd_router.start_time(process.pid))
        assert router.send(signal.SIGKILL)
        assert process.wait(5) == -signal.SIGKILL
        assert not router.send(signal.SIGKILL)


def test_removal_is_kept_when_the_runtime_folder_has_vanished(
    pd_router: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pd_router, "ask", lambda *args, **more: (200, b""))
    router = pd_router.Router(tmp_path / "router-a")
    router.process = (4242, "7")
    assert router.remove("http://p1:8100", 1.0)
    assert router.remove("http://p2:8100", 1.0)
    assert router.removed == ["http://p1:8100", "http://p2:8100"]
    assert capsys.readouterr().out.count("router-a: cannot note the removal of") == 1


def test_prefill_without_bootstrap_but_healthy_is_told_and_kept(pd_router: ModuleType, make_cluster: Any) -> None:
    cluster = make_cluster(1)
    only = cluster.prefill[0]
    only.start()
    prefill = pd_router.Prefill(only.url, f"http://127.0.0.1:{free_ports(1)[0]}")
    for second in range(12):
        prefill.look([{"0": "x"}], float(second), 1.0)
    assert prefill.deaf
    assert not prefill.lost


def test_silent_prefill_is_given_up_only_after_a_while(pd_router: ModuleType, monkeypatch: Any) -> None:
    prefill = pd_router.Prefill("http://10.0.0.1:1", "http://10.0.0.1:2")
    monkeypatch.setattr(pd_router, "ask", lambda *_, **__: (None, b""))
    lost = []
    for second in range(12):
        prefill.look([{"0": "x"}], float(second), 1.0)
        lost.append(prefill.lost)
    assert lost == [False] * 10 + [True] * 2


def test_stand_in_router_keeps_the_first_id(make_cluster: Any) -> None:
    """The defect all this is for, shown without the watcher."""
    cluster = make_cluster(1).start()
    old = cluster.prefill[0].engines()
    cluster.prefill[0].kill()
    cluster.prefill[0].start()
    wait_until(lambda: cluster.ready() == [True, True], "taken back by the health check")
    assert get_json(cluster.ports[0], "/stand-in")["engines"] == {cluster.prefill[0].url: old}
    assert cluster.prefill[0].engines() != old


# -- wait -------------------------------------------------------------------------------------------------------------


def run_wait(cluster: Cluster, timeout: float) -> tuple[int, str]:
    argv = [sys.executable, str(PD_ROUTER), "wait", "--settle", "0.5", "--timeout", str(timeout)]
    argv += [str(router.runtime) for router in cluster.routers]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout


def test_wait_ends_when_the_routers_are_current(make_cluster: Any) -> None:
    cluster = make_cluster(2).start()
    assert run_wait(cluster, 5)[0] == 0
    first = cluster.prefill[0]
    first.kill()
    first.start()
    code, text = run_wait(cluster, 1.5)
    assert code == 1, "without a watcher nobody takes it in"
    assert f"router-a has to restart to take in {first.url}" in text
    cluster.watch()
    assert run_wait(cluster, 20)[0] == 0
    assert cluster.current()


def test_wait_says_which_router_is_missing(make_cluster: Any) -> None:
    cluster = make_cluster(1).start()
    cluster.routers[1].stop()
    code, text = run_wait(cluster, 1)
    assert code == 1
    assert "router-b does not run" in text
    assert "router-a" not in text.splitlines()[-1]
