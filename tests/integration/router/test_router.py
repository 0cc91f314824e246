# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What clients meet: HAProxy as configured by the role, two vllm-router processes, stand-ins for the instances."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.mooncake.pd.tests.sim.router.harness import Load, get_json, request, wait_until
from ansible_collections.mooncake.pd.tests.sim.router.rotation import Rotation

INSIDE = ["/workers", "/list_workers", "/add_worker?url=x", "/remove_worker?url=x", "/flush_cache", "/metrics"]
INSIDE += ["/v1/metaserver", "/readiness", "/liveness", "/", "/v1/models/", "//v1/models", "/V1/models", "/v1%2fmodels"]
INSIDE += ["/v1/models/../../workers", "/v1/models;/workers", "/health/../workers", "/v1/embeddings", "/get_loads"]


def error_of(body: bytes) -> str:
    code: str = json.loads(body)["error"]["code"]
    return code


def test_only_the_api_passes(make_service: Any) -> None:
    service = make_service(1, 1).start()
    assert service.ask()[0] == 200
    assert service.ask("/v1/chat/completions", body={"model": "tiny", "messages": []})[0] == 200
    assert json.loads(service.ask("/v1/models", body=None)[1])["data"][0]["id"] == "tiny"
    for path in INSIDE:
        for method in ("GET", "POST", "DELETE"):
            status, body, kind = request(service.port, path, method=method)
            assert (status, error_of(body), kind) == (404, "not_found", "application/json"), f"{method} {path}"
    with socket.create_connection(("127.0.0.1", service.port)) as raw:
        raw.sendall(b"GET http://127.0.0.1/workers HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert raw.recv(4096).startswith(b"HTTP/1.1 404")
    assert len(get_json(service.cluster.ports[0], "/list_workers")["urls"]) == 2


def test_answers_are_streamed(make_service: Any) -> None:
    service = make_service(1, 1).start()
    service.cluster.decode[0].kill()
    service.cluster.decode[0].start(token_seconds=0.3)
    wait_until(lambda: service.ask()[0] == 200, "decode is back")
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    body = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 8, "stream": True})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    began = time.monotonic()
    assert b"t0" in answer.readline()
    first = time.monotonic() - began
    assert b"[DONE]" in answer.read()
    assert first < 0.3
    assert time.monotonic() - began > 2.0


def test_keys(make_service: Any, tmp_path: Path) -> None:
    service = make_service(1, 1, router_api_keys=["sk-first", "sk-second=="]).start()
    wrong = [
        None,
        "Bearer nope",
        "Bearer",
        "sk-first",
        "Basic sk-first",
        "Bearer sk-firstx",
        "Bearer SK-FIRST",
        "Bearer ",
    ]
    for value in wrong:
        status, body, kind = service.ask(headers={"Authorization": value} if value is not None else {})
        assert (status, error_of(body), kind) == (401, "invalid_api_key", "application/json"), value
    for value in ("Bearer sk-first", "bearer sk-second=="):
        assert service.ask(headers={"Authorization": value})[0] == 200, value
    assert service.ask("/v1/models", body=None)[0] == 401
    assert request(service.port, "/health")[0] == 200, "without a key"
    assert request(service.port, "/workers", headers={"Authorization": "Bearer sk-first"})[0] == 404
    seen = get_json(service.cluster.decode[0].port, "/stand-in")["last_headers"]
    assert "sk-" not in json.dumps(seen)
    for path in (service.config, tmp_path / "haproxy-keys", tmp_path / "haproxy.log", tmp_path / "router-a.log"):
        assert "sk-first" not in path.read_text(), path


def test_no_router_is_told_in_json(make_service: Any) -> None:
    service = make_service(1, 1).start()
    for router in service.cluster.routers:
        router.stop()
    status, body, kind = service.ask()
    assert (status, error_of(body), kind) == (503, "no_router", "application/json")
    wait_until(lambda: request(service.port, "/health")[0] == 503, "HAProxy sees it", 3)
    assert json.loads(request(service.port, "/health")[1])["routers_up"] == 0


def test_plain_text_of_the_routers_does_not_reach_clients(make_service: Any) -> None:
    service = make_service(1, 1).start()
    only = service.cluster.prefill[0]
    only.kill()
    seen = set()
    end = time.monotonic() + 5
    while time.monotonic() < end:
        status, body, kind = service.ask()
        assert status in (500, 503)
        assert kind == "application/json"
        assert str(only.port).encode() not in body
        seen.add((status, error_of(body)))
        time.sleep(0.05)
    assert (500, "backend_failed") in seen, "before anyone noticed"
    assert (503, "no_router") in seen, "after"


def test_error_of_the_engine_is_retried_and_passed_on(make_service: Any) -> None:
    service = make_service(1, 2, router_retry_buffer=65536).start()

    def tries(size: int) -> int:
        def prefilled() -> int:
            served: int = get_json(service.cluster.prefill[0].port, "/stand-in")["served"]
            return served

        before = prefilled()
        body = {"model": "tiny", "prompt": "error 500", "max_tokens": 1, "user": "x" * size}
        status, answer, _headers = service.ask(body=body)
        assert status == 500
        assert b"fails as asked" in answer
        return prefilled() - before

    assert tries(10) == 3, "once and two retries"
    assert tries(50_000) == 3, "it fits in the buffer"
    assert tries(200_000) == 1, "it does not"


def test_big_request_passes(make_service: Any) -> None:
    service = make_service(1, 1).start()
    body = {"model": "tiny", "prompt": "x" * 3_000_000, "max_tokens": 1}
    assert service.ask(body=body)[0] == 200


def test_big_request_survives_a_router_that_is_down(make_service: Any) -> None:
    """No connection is another case than no answer: nothing was sent yet, so size does not matter."""
    service = make_service(1, 1).start()
    service.cluster.routers[0].stop()
    body = {"model": "tiny", "prompt": "x" * 1_000_000, "max_tokens": 1}
    assert [service.ask(body=body)[0] for _time in range(4)] == [200] * 4


def hung_only_in_flight(load: Load, service: Any, killed: float) -> bool:
    """A prefill killed between its answer and the pull leaves that request hanging, whatever the router knows."""
    hung = [at for at, seconds, verdict in load.results if verdict == "hung" or seconds > 5]
    asked = sum(get_json(decode.port, "/stand-in")["hung"] for decode in service.cluster.decode)
    return all(at <= killed for at in hung) and len(hung) <= 4 and asked <= 4


def test_client_that_goes_away_cancels_its_request(make_service: Any) -> None:
    service = make_service(1, 1).start()
    service.cluster.decode[0].kill()
    service.cluster.decode[0].start(token_seconds=1.0)
    wait_until(lambda: service.ask(timeout=10)[0] == 200, "decode is back")
    service.cluster.watcher.stop(signal.SIGKILL)
    service.cluster.prefill[0].kill()
    service.cluster.prefill[0].start()
    wait_until(lambda: service.cluster.ready() == [True, True], "stale, so that a request hangs")
    assert service.ask(timeout=2.0)[0] == -1
    wait_until(lambda: get_json(service.cluster.decode[0].port, "/stand-in")["running"] == 0, "decode is free", 2)


def test_restart_of_a_prefill_under_load(make_service: Any) -> None:
    service = make_service(2, 2).start()
    first = service.cluster.prefill[0]
    load = Load(service.port, clients=4, timeout=15.0)
    time.sleep(2)
    first.kill()
    killed = load.now()
    time.sleep(6)
    back = load.now()
    first.start(health_delay=1.0)
    wait_until(service.cluster.current, "both routers have the new id", 30)
    done = load.now()
    time.sleep(3)
    load.end()
    print("2P2D, one prefill killed and restarted:", load.summary(), f"back {back:.1f} s, taken in {done:.1f} s")
    count = load.count()
    assert count["ok"] > 200
    assert count["truncated"] == 0
    assert hung_only_in_flight(load, service, killed)
    assert not [verdict for verdict in count if "EMPTY" in verdict or "text/plain" in verdict]
    assert set(load.count(since=back)) == {"ok"}, "coming back costs nothing"
    after = get_json(first.port, "/stand-in")["served"]
    assert after > 20, "the restarted prefill works again"


def test_quick_restart_of_a_prefill_under_load(make_service: Any) -> None:
    """Gone and back at once, healthy at once: nothing hangs longer than it takes to see it."""
    service = make_service(2, 2).start()
    first = service.cluster.prefill[0]
    load = Load(service.port, clients=4, timeout=60.0)
    time.sleep(2)
    away = load.now()
    first.kill()
    first.start()
    wait_until(service.cluster.current, "both routers have the new id", 60)
    taken_in = load.now()
    wait_until(lambda: sum(get_json(d.port, "/stand-in")["running"] for d in service.cluster.decode) < 5, "no hang", 60)
    time.sleep(2)
    load.end()
    print(f"2P2D, restart within a second at {away:.1f} s:", load.summary(), f"taken in {taken_in:.1f} s")
    stale = [at for at, seconds, verdict in load.results if verdict != "ok" or seconds > 5]
    assert all(at < away + 3.0 for at in stale), "only requests sent before it was seen suffer"
    assert set(load.count(since=away + 3.0)) == {"ok"}


def test_restart_of_the_only_prefill_under_load(make_service: Any) -> None:
    service = make_service(1, 1).start()
    only = service.cluster.prefill[0]
    load = Load(service.port, clients=2, timeout=15.0)
    time.sleep(2)
    only.kill()
    killed = load.now()
    time.sleep(5)
    back = load.now()
    only.start(health_delay=1.0)
    wait_until(service.cluster.current, "both routers have the new id", 30)
    wait_until(lambda: service.ask()[0] == 200, "served again", 5)
    again = load.now()
    time.sleep(3)
    load.end()
    print("1P1D, the only prefill killed and restarted:", load.summary(), f"back {back:.1f} s, served {again:.1f} s")
    count = load.count()
    assert count["truncated"] == 0
    assert hung_only_in_flight(load, service, killed)
    assert not [verdict for verdict in count if "EMPTY" in verdict or "text/plain" in verdict]
    first = min(at for at, _took, verdict in load.results if at > back and verdict == "ok")
    assert first - back < 8, "one router is enough, the other may still drain"
    assert set(load.count(since=again + 1)) == {"ok"}


def listed(service: Any) -> list[set[str]]:
    """Names that each real router sends to."""
    names = {row["api_urls"][0]: row["name"] for row in service.cluster.rows()}
    return [{names[its["url"]] for its in get_json(port, "/workers")["workers"]} for port in service.cluster.ports]


def healthy(port: int) -> bool:
    return request(port, "/health")[0] == 200


def serves(port: int) -> bool:
    return bool(get_json(port, "/stand-in")["served"])


def test_roll_without_loss(make_service: Any, run_module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decode and then a prefill leave, restart and come back while everybody asks."""
    service = make_service(2, 2).start()
    cluster = service.cluster
    rotation = Rotation(cluster, run_module, monkeypatch)
    load = Load(service.port, clients=4, timeout=30.0)
    time.sleep(1)
    for instance in (cluster.decode[0], cluster.prefill[0]):
        began = load.now()
        answer = rotation.run("drained", instance.name, settle=1)
        assert not answer["failed"], answer["msg"]
        out = load.now()
        others = {"p1", "p2", "d1", "d2"} - {instance.name}
        assert listed(service) == [others] * 2
        served = get_json(instance.port, "/stand-in")["served"]
        assert served > 0
        # a router that restarts meanwhile does not bring it back
        starts = cluster.routers[0].starts
        os.kill(cluster.routers[0].pid, signal.SIGTERM)
        wait_until(partial(restarted, service, 0, starts + 1), "router-a is ready again", 30)
        assert listed(service) == [others] * 2
        assert get_json(instance.port, "/stand-in")["served"] == served, "nothing was sent there"
        instance.kill()
        instance.start(health_delay=0.5)
        wait_until(partial(healthy, instance.port), "it is healthy")
        back = load.now()
        answer = rotation.run("present", instance.name)
        assert not answer["failed"], answer["msg"]
        print(f"{instance.name}: out after {out - began:.1f} s, back after {load.now() - back:.1f} s")
        wait_until(partial(serves, instance.port), "it serves again", 30)
    time.sleep(1)
    load.end()
    print("a decode and a prefill rolled:", load.summary())
    assert load.count()["ok"] > 100
    assert set(load.count()) == {"ok"}


def test_halves_change_places_without_loss(make_service: Any, run_module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service = make_service(2, 2).start()
    rotation = Rotation(service.cluster, run_module, monkeypatch)
    load = Load(service.port, clients=4, timeout=30.0)
    assert not rotation.run("drained", "p1", "d1", settle=1)["failed"]
    answer = rotation.run("drained", "p2", "d2", back=["p1", "d1"], settle=1)
    assert not answer["failed"], answer["msg"]
    assert listed(service) == [{"p1", "d1"}] * 2
    time.sleep(1)
    load.end()
    print("one half for the other:", load.summary())
    assert set(load.count()) == {"ok"}


def test_without_the_watcher_requests_hang(make_service: Any) -> None:
    """The defect the watcher is for, with the real router."""
    service = make_service(1, 1).start()
    assert service.cluster.watcher is not None
    service.cluster.watcher.stop(signal.SIGKILL)
    service.cluster.prefill[0].kill()
    service.cluster.prefill[0].start()
    wait_until(lambda: service.cluster.ready() == [True, True], "taken back by the health check")
    assert service.ask(timeout=3.0)[0] == -1
    assert get_json(service.cluster.decode[0].port, "/stand-in")["hung"] >= 1


def restarted(service: Any, index: int, starts: int) -> bool:
    return bool(service.cluster.routers[index].starts == starts and service.cluster.ready()[index])


def test_routers_restart_one_after_the_other_without_loss(make_service: Any) -> None:
    service = make_service(2, 2).start()
    load = Load(service.port, clients=4, timeout=15.0)
    for round_ in range(3):
        for index, router in enumerate(service.cluster.routers):
            time.sleep(2)
            os.kill(router.pid, signal.SIGTERM)
            wait_until(partial(restarted, service, index, 2 + round_), "it is ready again")
    load.end()
    print("six router restarts:", load.summary())
    assert set(load.count()) == {"ok"}


def test_killed_router_and_killed_decode(make_service: Any) -> None:
    service = make_service(2, 2).start()
    load = Load(service.port, clients=4, timeout=15.0)
    time.sleep(2)
    os.kill(service.cluster.routers[0].pid, signal.SIGKILL)
    time.sleep(5)
    router, since = load.count(), load.now()
    service.cluster.decode[0].kill()
    time.sleep(5)
    load.end()
    print("SIGKILL of a router:", dict(router), "then of a decode:", dict(load.count(since=since)), load.summary())
    # a stream that has begun cannot be sent again
    assert sum(router.values()) - router["ok"] <= 4
    assert load.count()["hung"] == 0
    assert not [verdict for verdict in load.count() if "EMPTY" in verdict or "text/plain" in verdict]


def test_reload_under_load_loses_nothing(make_service: Any) -> None:
    service = make_service(1, 1).start()
    load = Load(service.port, clients=4, timeout=15.0)
    for limit in (3000, 2000, 1000):
        time.sleep(1.5)
        service.config.write_text(service.config.read_text().replace("maxconn ", f"maxconn {limit} # ", 1))
        subprocess.run([service.haproxy_path, "-c", "-q", "-f", str(service.config)], check=True)
        os.kill(service.haproxy.pid, signal.SIGUSR2)
    time.sleep(2)
    load.end()
    print("three reloads:", load.summary())
    assert set(load.count()) == {"ok"}


def test_admin_socket_drains_a_router(make_service: Any, tmp_path: Path) -> None:
    service = make_service(1, 1).start()
    assert (tmp_path / "admin.sock").stat().st_mode & 0o777 == 0o660
    with socket.socket(socket.AF_UNIX) as admin:
        admin.connect(str(tmp_path / "admin.sock"))
        admin.sendall(b"set server pd_routers/router-a state drain\n")
        admin.recv(100)
    before = service.cluster.routers[0].text().count("v1/completions")
    assert [service.ask()[0] for _time in range(4)] == [200] * 4
    assert service.cluster.routers[0].text().count("v1/completions") == before


def test_tls(make_service: Any, tmp_path: Path) -> None:
    pem = tmp_path / "tls.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=pd.test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(pem), "-out", "-"]
    certificate = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    pem.write_text(certificate + pem.read_text())
    service = make_service(1, 1, router_tls_certificate=str(pem))
    service.cluster.start()
    service.haproxy.start()
    context = ssl.create_default_context(cadata=certificate)
    wait_until(lambda: request(service.port, "/health")[0] != 0, "HAProxy listens")
    time.sleep(1.5)
    connection = http.client.HTTPSConnection("127.0.0.1", service.port, timeout=5, context=context)
    connection.request("GET", "/v1/models")
    assert connection.getresponse().status == 200
    assert request(service.port, "/v1/models")[0] in (-1, 400), "nothing without TLS"


@pytest.mark.parametrize("setting", [{"router_allowed_paths": ["/workers"]}, {"router_api_keys": ["a b"]}])
def test_bad_settings_are_refused(make_service: Any, setting: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=f"{next(iter(setting))}.*Mend"):
        make_service(1, 1, **setting)
