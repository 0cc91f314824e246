# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pd_router.py against stand-ins for the instances and for vllm-router: real processes, signals and sockets."""

from __future__ import annotations

import json
import os
import signal
import socketserver
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
    STAND_IN_LAYERWISE,
    Cluster,
    Sampler,
    Unit,
    free_ports,
    get_json,
    load_pd_router,
    request,
    wait_until,
)


@pytest.fixture(scope="module")
def pd_router() -> ModuleType:
    return load_pd_router()


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


P1, P2, D1, D2 = "http://10.0.0.1:8100", "http://10.0.0.2:8100", "http://10.0.0.3:8200", "http://10.0.0.4:8200"


def test_parse_command_takes_out_the_workers(pd_router: ModuleType) -> None:
    command = ["vllm-router", "--host", "127.0.0.1", "--port", "18001", "--prefill", P1, "8998"]
    command += ["--prefill", P2, "--decode", D1, "--policy", "round_robin", "--prometheus-port", "19001"]
    parsed = pd_router.parse_command(command)
    assert parsed.rest == [*command[:5], "--policy", "round_robin", "--prometheus-port", "19001"]
    assert parsed.workers == {
        P1: ("prefill", "http://10.0.0.1:8998"),
        P2: ("prefill", "http://10.0.0.2:8998"),
        D1: ("decode", ""),
    }
    assert (parsed.url, parsed.readiness) == ("http://127.0.0.1:18001", "/readiness")
    assert parsed.metrics == "http://127.0.0.1:19001"
    assert parsed.argv({P2: {"0": "x"}, D1: {}})[9:] == ["--prefill", P2, "8998", "--decode", D1]


def test_parse_command_keeps_ipv6_brackets(pd_router: ModuleType) -> None:
    parsed = pd_router.parse_command(["r", "--prefill", "http://[fd00::1]:8100", "8998"])
    assert parsed.workers == {"http://[fd00::1]:8100": ("prefill", "http://[fd00::1]:8998")}


def test_parse_command_without_bootstraps(pd_router: ModuleType) -> None:
    command = ["r", "--kv-connector", "nixl", "--prefill", P1, "--decode", D1]
    parsed = pd_router.parse_command(command)
    assert parsed.workers == {P1: ("prefill", ""), D1: ("decode", "")}
    assert parsed.argv({url: {} for url in parsed.workers}) == command


def test_parse_command_of_the_layerwise_proxy(pd_router: ModuleType) -> None:
    program = ["python3", "proxy.py", "--host", "10.0.0.9", "--port", "18001"]
    members = ["--prefiller-hosts", "10.0.0.1", "fd00::2", "--prefiller-ports", "8100", "8100"]
    members += ["--decoder-hosts", "10.0.0.3", "10.0.0.3", "--decoder-ports", "8200", "8201"]
    parsed = pd_router.parse_command([*program, *members])
    prefills, decodes = (P1, "http://[fd00::2]:8100"), (D1, "http://10.0.0.3:8201")
    assert parsed.workers == {**dict.fromkeys(prefills, ("prefill", "")), **dict.fromkeys(decodes, ("decode", ""))}
    assert (parsed.url, parsed.readiness, parsed.metrics) == ("http://10.0.0.9:18001", "/healthcheck", "")
    assert parsed.argv({url: {} for url in parsed.workers}) == [*program, *members]
    assert parsed.argv({prefills[1]: {}, D1: {}})[6:] == [
        *("--prefiller-hosts", "fd00::2", "--prefiller-ports", "8100"),
        *("--decoder-hosts", "10.0.0.3", "--decoder-ports", "8200"),
    ]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["r"], "no --prefill"),
        (["r", "--prefill", "--decode"], "without a URL"),
        (["r", "--prefill", "http://p:1", "none"], "bootstrap port"),
        (["r", "--prefill", "http://p:1", "1", "--decode"], "--decode without a URL"),
        (["p", "--prefiller-hosts", "a", "b", "--prefiller-ports", "1"], "have to name as many"),
    ],
)
def test_parse_command_refuses(pd_router: ModuleType, command: list[str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        pd_router.parse_command(command)


words = st.lists(st.sampled_from(["--policy", "round_robin", "--host", "h", "--x", "http://d:1", "7"]), max_size=6)
ports = st.lists(st.integers(1, 65535), min_size=1, max_size=5, unique=True)


@given(before=words, after=words, prefill_ports=ports)
def test_parse_command_loses_no_word(before: list[str], after: list[str], prefill_ports: list[int]) -> None:
    groups = [w for port in prefill_ports for w in ("--prefill", f"http://p:{port}", "99")]
    parsed = load_pd_router().parse_command(["r", *before, *groups, "--end", *after])
    assert parsed.rest == ["r", *before, "--end", *after]
    assert list(parsed.workers) == [f"http://p:{port}" for port in prefill_ports]


# -- exec -------------------------------------------------------------------------------------------------------------


def exec_unit(cluster: Cluster, tmp_path: Path) -> Unit:
    script = tmp_path / "show.py"
    script.write_text("import json, os, sys, time\nprint(json.dumps([os.getpid(), sys.argv[1:]]))\ntime.sleep(60)\n")
    argv = [sys.executable, str(PD_ROUTER), "exec", "--out", str(cluster.out_file), "--", sys.executable, str(script)]
    argv += ["--port", "1", "--prometheus-port", "2"]
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
    assert args == ["--port", "1", "--prometheus-port", "2", "--prefill", alive.url, str(alive.bootstrap_port)]
    record = json.loads((unit.runtime / "members.json").read_text())
    assert record == {
        "pid": pid,
        "start": pd_router.start_time(pid),
        "url": "http://127.0.0.1:1",
        "readiness": "/readiness",
        "metrics": "http://127.0.0.1:2",
        "removable": True,
        "workers": {
            p.url: {"kind": "prefill", "bootstrap": f"http://127.0.0.1:{p.bootstrap_port}"} for p in (alive, dead)
        },
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
    wait_until(lambda: "waiting" in unit.text(), "exec waits")


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


def test_exec_leaves_out_what_is_out(make_cluster: Any, tmp_path: Path) -> None:
    cluster = make_cluster(2)
    for prefill in cluster.prefill:
        prefill.start()
    cluster.put_out(*cluster.prefill)
    unit = exec_unit(cluster, tmp_path)
    wait_until(lambda: "waiting: every prefill is out" in unit.text(), "it waits")
    cluster.put_out(cluster.prefill[1])
    wait_until(lambda: "[" in unit.text().partition("}\n")[2], "the command runs")
    args = json.loads(unit.text().splitlines()[-1])[1]
    assert args[4:] == ["--prefill", cluster.prefill[0].url, str(cluster.prefill[0].bootstrap_port)]
    assert f"starting without {cluster.prefill[1].url}: it is out" in unit.text()


def test_exec_starts_although_it_cannot_read_who_is_out(make_cluster: Any, tmp_path: Path) -> None:
    cluster = make_cluster(1)
    cluster.prefill[0].start()
    cluster.out_file.write_text("{")
    unit = exec_unit(cluster, tmp_path)
    wait_until(lambda: "starting with" in unit.text(), "it starts")
    assert unit.text().count("cannot read who is out") == 1


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
    wait_until(cluster.current, "both routers have the new id")
    assert not cluster.said("waits for"), "they did not wait for each other"
    assert [router.starts for router in cluster.routers] == [2, 2]


def test_restart_too_fast_to_be_seen_away(make_cluster: Any) -> None:
    """Between two looks the prefill is gone and back: the other engine id alone has to be enough."""
    cluster = make_cluster(2).start()
    watcher = cluster.watch()
    first = cluster.prefill[0]
    os.kill(watcher.pid, signal.SIGSTOP)
    first.kill()
    first.start()
    os.kill(watcher.pid, signal.SIGCONT)
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
    wait_until(lambda: len(cluster.members(cluster.routers[0])) == 3, "started with both")
    cluster.prefill[0].kill()
    cluster.decode[0].start()
    time.sleep(1.0)
    assert cluster.ready()[0] is False, "the stand-in waits for the bootstrap, as the real one"
    cluster.watch()
    wait_until(lambda: cluster.ready()[0], "it is ready without the dead one", 5)
    assert set(cluster.members(cluster.routers[0])) == {cluster.prefill[1].url, cluster.decode[0].url}


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
            record |= {"readiness": "/readiness", "removable": True}
            bootstrap = f"http://127.0.0.1:{cluster.prefill[0].bootstrap_port}"
            record |= {"workers": {cluster.prefill[0].url: {"kind": "prefill", "bootstrap": bootstrap}}}
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
    prefill = pd_router.Instance(only.url, f"http://127.0.0.1:{free_ports(1)[0]}")
    for second in range(12):
        prefill.look([{"0": "x"}], float(second), 1.0)
    assert prefill.deaf
    assert not prefill.lost


def test_silent_prefill_is_given_up_only_after_a_while(pd_router: ModuleType, monkeypatch: Any) -> None:
    prefill = pd_router.Instance("http://10.0.0.1:1", "http://10.0.0.1:2")
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


# -- out --------------------------------------------------------------------------------------------------------------


def test_what_is_out_stays_out_until_it_is_back(make_cluster: Any) -> None:
    cluster = make_cluster(2, 2).start()
    cluster.watch()
    sampler = Sampler(cluster)
    sampler.start()
    cluster.put_out(cluster.decode[0])
    wait_until(lambda: cluster.workers() == [{"p1", "p2", "d2"}] * 2, "taken out")
    assert [router.starts for router in cluster.routers] == [1, 1], "without a restart"
    # a restart of the routers for another reason
    cluster.prefill[0].kill()
    cluster.prefill[0].start()
    wait_until(lambda: [router.starts for router in cluster.routers] == [2, 2], "both restart")
    wait_until(lambda: cluster.workers() == [{"p1", "p2", "d2"}] * 2, "still out")
    os.kill(cluster.routers[1].pid, signal.SIGKILL)
    wait_until(lambda: cluster.routers[1].starts == 3 and cluster.ready()[1], "one more start")
    assert cluster.workers() == [{"p1", "p2", "d2"}] * 2
    cluster.put_out()
    wait_until(lambda: cluster.workers() == [{"p1", "p2", "d1", "d2"}] * 2, "taken in")
    assert [router.starts for router in cluster.routers] == [3, 4], "each restarted once for it"
    assert sampler.end().none_ready == 0.0


def test_what_is_back_is_taken_in_when_it_is_healthy(make_cluster: Any) -> None:
    cluster = make_cluster(1, 2).start()
    cluster.watch()
    cluster.put_out(cluster.decode[0])
    wait_until(lambda: cluster.said("took out") == 2, "taken out")
    cluster.decode[0].kill()
    cluster.put_out()
    time.sleep(1.0)
    assert [router.starts for router in cluster.routers] == [1, 1]
    cluster.decode[0].start()
    wait_until(lambda: cluster.workers() == [{"p1", "d1", "d2"}] * 2, "taken in")


def test_file_that_cannot_be_read_changes_nothing(make_cluster: Any) -> None:
    cluster = make_cluster(1, 2).start()
    cluster.watch()
    cluster.put_out(cluster.decode[0])
    wait_until(lambda: cluster.said("took out") == 2, "taken out")
    cluster.out_file.write_text("nonsense")
    wait_until(lambda: cluster.said("cannot read who is out"), "said")
    time.sleep(1.0)
    assert cluster.said("cannot read who is out") == 1
    assert [router.starts for router in cluster.routers] == [1, 1]
    assert cluster.workers() == [{"p1", "d2"}] * 2


def test_the_last_ones_leave_by_the_restart_that_brings_others(make_cluster: Any) -> None:
    cluster = make_cluster(2, 2).start()
    cluster.watch()
    cluster.put_out(cluster.prefill[0], cluster.decode[0])
    wait_until(lambda: cluster.workers() == [{"p2", "d2"}] * 2, "the first half is out")
    sampler = Sampler(cluster)
    sampler.start()
    cluster.put_out(cluster.prefill[1], cluster.decode[1])
    wait_until(lambda: cluster.workers() == [{"p1", "d1"}] * 2, "the halves have changed")
    assert sampler.end().none_ready == 0.0


def test_the_last_one_leaves_when_it_must(make_cluster: Any) -> None:
    cluster = make_cluster(1, 1).start()
    cluster.watch()
    cluster.put_out(cluster.decode[0])
    wait_until(lambda: cluster.ready() == [False, False], "nothing is served")
    cluster.put_out()
    wait_until(cluster.current, "served again")


def test_members_of_the_layerwise_proxy_change_by_restarts(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 2, 2, STAND_IN_LAYERWISE)
    try:
        cluster.start()
        cluster.watch()
        sampler = Sampler(cluster)
        sampler.start()
        cluster.put_out(cluster.prefill[0], cluster.decode[1])
        wait_until(lambda: cluster.workers() == [{"p2", "d1"}] * 2, "left out")
        cluster.put_out()
        wait_until(lambda: cluster.workers() == [{"p1", "p2", "d1", "d2"}] * 2, "taken in")
        assert run_wait(cluster, 10)[0] == 0
        assert [router.starts for router in cluster.routers] == [3, 3]
        assert sampler.end().none_ready == 0.0
    finally:
        cluster.stop()
        print(cluster.logs())


class AdminSocket:
    """HAProxy's, with a weight and sessions for each router."""

    def __init__(self, path: Path) -> None:
        self.weights = {"router-a": 1, "router-b": 0}
        self.sessions = {"router-a": 0, "router-b": 0}
        self.commands: list[str] = []
        self._server = socketserver.ThreadingUnixStreamServer(str(path), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        admin = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for command in self.rfile.readline().decode().strip().split(";"):
                    self.wfile.write(admin.answer(command).encode())

        return Handler

    def answer(self, command: str) -> str:
        words = command.split()
        if words[:2] == ["set", "weight"]:
            self.commands.append(command)
            self.weights[words[2].partition("/")[2]] = int(words[3] == "100%")
            return "\n"
        rows = [f"pd_routers,{name},{self.sessions[name]},{self.weights[name]}," for name in self.weights]
        return "\n".join(["# pxname,svname,scur,uweight,", *rows, "", ""])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[AdminSocket]:
    socket = AdminSocket(tmp_path / "admin.sock")
    yield socket
    socket.close()


def test_router_ends_only_when_haproxy_has_nothing_for_it(
    make_cluster: Any, admin: AdminSocket, tmp_path: Path
) -> None:
    cluster = make_cluster(1, 2).start()
    admin.sessions["router-a"] = 1
    cluster.watch(haproxy=str(tmp_path / "admin.sock"), drain_timeout=60.0)
    wait_until(lambda: admin.weights["router-b"] == 1, "what an earlier watcher left is set right")
    assert admin.weights["router-a"] == 1
    cluster.put_out(cluster.decode[0])
    wait_until(lambda: cluster.said("took out") == 2, "taken out")
    cluster.put_out()
    wait_until(lambda: admin.weights["router-a"] == 0, "nothing new for router-a")
    time.sleep(1.0)
    assert [router.starts for router in cluster.routers] == [1, 1], "it still has a request"
    assert admin.weights == {"router-a": 0, "router-b": 1}
    admin.sessions["router-a"] = 0
    wait_until(lambda: cluster.workers() == [{"p1", "d1", "d2"}] * 2, "both have restarted")
    wait_until(lambda: admin.weights == {"router-a": 1, "router-b": 1}, "both have their share")
    assert admin.commands == [
        "set weight pd_routers/router-b 100%",
        *["set weight pd_routers/router-a 0%"] * admin.commands.count("set weight pd_routers/router-a 0%"),
        "set weight pd_routers/router-a 100%",
        "set weight pd_routers/router-b 0%",
        "set weight pd_routers/router-b 100%",
    ]


def test_router_that_stays_busy_is_told_to_end_in_time(make_cluster: Any, admin: AdminSocket, tmp_path: Path) -> None:
    cluster = make_cluster(1, 2).start()
    admin.sessions["router-a"] = 1
    cluster.watch(haproxy=str(tmp_path / "admin.sock"), drain_timeout=6.0)
    cluster.put_out(cluster.decode[0])
    wait_until(lambda: cluster.said("took out") == 2, "taken out")
    cluster.put_out()
    wait_until(lambda: cluster.workers() == [{"p1", "d1", "d2"}] * 2, "both have restarted", 20)


# -- wait -------------------------------------------------------------------------------------------------------------


def run_wait(cluster: Cluster, timeout: float) -> tuple[int, str]:
    argv = [sys.executable, str(PD_ROUTER), "wait", "--settle", "0.5", "--timeout", str(timeout)]
    argv += ["--out", str(cluster.out_file)]
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
