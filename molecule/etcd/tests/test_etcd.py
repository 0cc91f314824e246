# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""etcd loses a leader, a member and its own history, and is restarted under load. In this order."""

from __future__ import annotations

import base64
import itertools
import json
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

UNIT = "mooncake-pd-etcd"
DATA = "/var/lib/mooncake-pd-etcd"
ADDRESSES = {"mo-a": "10.90.90.11", "mo-b": "10.90.90.12", "mo-c": "10.90.90.13"}
QUOTA = f"etcd_quota={1 << 30}"
SMALL = f"etcd_quota={4 << 20}"
SECRETS = Path("/var/cache/mooncake-pd/labs/molecule-etcd/secrets")


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Client:
    """A client with a certificate of a member, which goes to the next endpoint when one does not answer."""

    def __init__(self, certificate: str | None = "mo-a") -> None:
        context = ssl.create_default_context(cafile=SECRETS / "ca.crt")
        if certificate:
            context.load_cert_chain(SECRETS / f"{certificate}.crt", SECRETS / f"{certificate}.key")
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
        self.opener = urllib.request.build_opener(*handlers)

    def ask(self, host: str, path: str, scheme: str = "https", **body) -> dict:
        request = urllib.request.Request(
            f"{scheme}://{ADDRESSES[host]}:2379/v3/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with self.opener.open(request, timeout=3) as answer:
            return json.loads(answer.read())

    def put(self, key: str, value: str, within: float = 5) -> bool:
        """Mooncake's client gives up after five seconds."""
        until = time.monotonic() + within
        for host in itertools.cycle(ADDRESSES):
            try:
                self.ask(host, "kv/put", key=coded(key), value=coded(value))
                return True
            except OSError:
                if time.monotonic() > until:
                    return False
                time.sleep(0.05)
        raise AssertionError

    def get(self, key: str, host: str = "mo-a") -> str | None:
        found = self.ask(host, "kv/range", key=coded(key)).get("kvs", [])
        return base64.b64decode(found[0]["value"]).decode() if found else None

    def fill(self, *keys: str) -> None:
        """Writes to these keys, again and again, until etcd takes no more."""

        def write() -> None:
            for key in itertools.islice(itertools.cycle(keys), 50):
                self.ask("mo-a", "kv/put", key=coded(key), value=coded("x" * 500_000))

        with pytest.raises(urllib.error.HTTPError) as refusal:
            write()
        assert "database space exceeded" in refusal.value.read().decode()

    def compact(self) -> None:
        """Frees what is older than now; auto-compaction would after an hour."""
        revision = self.ask("mo-a", "kv/range", key=coded("kept"))["header"]["revision"]
        self.ask("mo-a", "kv/compaction", revision=revision, physical=True)

    def leader(self) -> str:
        for _try in range(100):
            seen = set()
            for host in ADDRESSES:
                try:
                    status = self.ask(host, "maintenance/status")
                except OSError:
                    continue
                if status.get("leader") == status["header"]["member_id"]:
                    seen.add(host)
            if len(seen) == 1:
                return seen.pop()
            time.sleep(0.1)
        raise AssertionError("no leader")

    def members(self) -> dict[str, str]:
        return {one["name"]: one["ID"] for one in self.ask("mo-a", "cluster/member/list")["members"]}


@pytest.fixture(scope="module")
def client():
    return Client()


@pytest.fixture
def writer(client):
    """Puts without a break until the test ends, and counts those that fail."""
    failed: list[str] = []
    done: list[str] = []
    stop = threading.Event()

    def work() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            (done if client.put("written", str(number)) else failed).append(str(number))

    thread = threading.Thread(target=work)
    thread.start()

    def result() -> tuple[int, list[str]]:
        stop.set()
        thread.join()
        return len(done), failed

    yield result
    stop.set()
    thread.join()


def refused(ask) -> bool:
    try:
        ask()
    except OSError:
        return True
    return False


def play(scenario, name: str, *options: str, rc: int = 0):
    run = scenario.play(name, *options)
    assert run.rc == rc, run.output
    return run


def status(scenario, folder: Path) -> dict:
    """It ends with 2, as nothing but etcd runs."""
    play(scenario, "status", "-e", f"status_dest={folder}", rc=2)
    return json.loads((folder / "status.json").read_text())


def quotas(scenario) -> list[int]:
    """With which they run, and not what their units say."""
    found = []
    for name, host in scenario.hosts.items():
        metrics = host.check_output(f"curl -sf http://{ADDRESSES[name]}:2381/metrics")
        found.append(int(float(re.search(r"^etcd_server_quota_backend_bytes (\S+)$", metrics, re.M)[1])))
    return found


def started(scenario) -> dict[str, float]:
    return {name: scenario.started(name, UNIT) for name in ADDRESSES}


def test_three_members_are_one_cluster_and_run_as_their_own_user(scenario, client):
    assert set(client.members()) == set(ADDRESSES)
    client.leader()
    for name, host in scenario.hosts.items():
        assert scenario.listening(name, UNIT) == {ADDRESSES[name]: {2379, 2380, 2381}}
        assert host.check_output(f"ps -o user= -p $(systemctl show --value -p MainPID {UNIT}) | head -c8") == "mooncake"
        assert host.check_output(f"stat -c '%U %a' {DATA}") == "mooncake-etcd 700"
        assert host.run("runuser -u nobody -- cat /etc/mooncake-pd-etcd/key.pem").rc != 0
        assert host.check_output("systemctl is-enabled etcd.service || true") == "masked"


def test_who_has_no_certificate_is_refused(client):
    assert client.put("kept", "yes")
    assert refused(lambda: Client(None).ask("mo-a", "kv/range", key=coded("kept")))
    assert refused(lambda: Client(None).ask("mo-a", "kv/range", scheme="http", key=coded("kept")))
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    peers = f"{ADDRESSES['mo-a']}:2380/members"
    assert refused(lambda: urllib.request.urlopen(f"https://{peers}", context=blind, timeout=3))
    assert refused(lambda: urllib.request.urlopen(f"http://{peers}", timeout=3))
    blind.load_cert_chain(SECRETS / "mo-b.crt", SECRETS / "mo-b.key")
    # a certificate of a member is taken from its own address only, and this is not its host
    assert refused(lambda: urllib.request.urlopen(f"https://{peers}", context=blind, timeout=3))
    urls = [url for one in client.ask("mo-a", "cluster/member/list")["members"] for url in one["peerURLs"]]
    assert sorted(urls) == [f"https://{address}:2380" for address in ADDRESSES.values()]


def test_a_leader_that_is_killed_comes_back(scenario, client):
    leader = client.leader()
    scenario.hosts[leader].check_output(f"systemctl kill -s KILL {UNIT}")
    assert client.put("after the leader", "yes", within=10)
    for _try in range(100):
        if scenario.hosts[leader].run(f"curl -sf http://{ADDRESSES[leader]}:2381/health").rc == 0:
            break
        time.sleep(0.1)
    assert scenario.hosts[leader].service(UNIT).is_running
    assert client.get("after the leader", leader) == "yes"


def test_check_mode_tells_a_change_and_makes_none(scenario):
    before = started(scenario)
    text = play(scenario, "etcd", "-e", QUOTA, "--check").text
    # the file of each and its restart
    assert text.count("changed=2") == 3
    assert started(scenario) == before


def test_a_change_is_applied_one_after_the_other_and_no_put_fails(scenario, writer):
    before = started(scenario)
    play(scenario, "etcd", "-e", QUOTA)
    puts, failed = writer()
    after = started(scenario)
    assert all(after[name] > before[name] for name in ADDRESSES)
    assert (failed, puts > 100) == ([], True)
    assert "changed=0" in play(scenario, "etcd", "-e", QUOTA).text


def test_a_full_etcd_takes_writes_again(scenario, client, tmp_path):
    """Full of old versions: defragment. Full of what is needed: more quota."""
    play(scenario, "etcd", "-e", SMALL)
    client.fill("again")
    assert "alarm NOSPACE of mo-" in " ".join(each["what"] for each in status(scenario, tmp_path)["problems"])
    client.compact()
    play(scenario, "etcd_defragment", "-e", SMALL)
    assert client.put("kept", "yes")
    client.fill(*map(str, range(50)))
    play(scenario, "etcd", "-e", QUOTA)
    assert client.put("kept", "yes")


def test_no_restart_that_would_cost_the_quorum(scenario, client):
    """One is down, so none of the others may restart. What it had is lost after that, for the next test."""
    host = scenario.hosts["mo-c"]
    host.check_output(f"systemctl stop {UNIT}")
    before = scenario.started("mo-a", UNIT), scenario.started("mo-b", UNIT)
    text = play(scenario, "etcd", "--limit", "mo-a,mo-b", rc=2).text
    assert "mo-a has to restart, but without it there is no quorum" in text
    assert (scenario.started("mo-a", UNIT), scenario.started("mo-b", UNIT)) == before
    assert client.get("kept") == "yes"
    host.check_output(f"rm -r {DATA}/member")


def test_a_member_that_lost_its_data_is_replaced(scenario, client):
    before = client.members()
    # and what the test before could not do
    play(scenario, "etcd")
    after = client.members()
    assert set(after) == set(ADDRESSES)
    assert [name for name in ADDRESSES if after[name] != before[name]] == ["mo-c"]
    assert all(quota == 2 << 30 for quota in quotas(scenario))
    assert client.get("kept", "mo-c") == "yes"


def test_back_to_a_snapshot(scenario, client, tmp_path):
    play(scenario, "etcd_backup", "-e", f"etcd_backup_dir={tmp_path}")
    (snapshot,) = tmp_path.iterdir()
    assert client.put("kept", "no")
    told = play(scenario, "etcd_restore", "-e", f"etcd_snapshot={snapshot}", rc=2).text
    assert "confirm it with -e etcd_confirm=molecule-etcd" in told
    torn = tmp_path / "torn"
    torn.write_bytes(snapshot.read_bytes()[:-512])
    told = play(scenario, "etcd_restore", "-e", f"etcd_snapshot={torn} etcd_confirm=molecule-etcd", rc=2).text
    assert "its hash is another one" in told
    assert client.get("kept") == "no"
    options = f"etcd_snapshot={snapshot} etcd_confirm=molecule-etcd {QUOTA}"
    play(scenario, "etcd_restore", "-e", options)
    assert all(quota == 1 << 30 for quota in quotas(scenario))
    assert client.get("kept", "mo-b") == "yes"
    for host in scenario.hosts.values():
        assert host.check_output(f"ls -d {DATA}/before-*/member | wc -l") == "1"
        assert host.check_output(f"ls {DATA}").split()[-1] == "member"


def test_an_address_that_is_everybodys_own_is_refused(scenario, tmp_path):
    topology = yaml.safe_load((scenario.inventory / "topology.yml").read_text())
    topology["hosts"]["mo-c"]["address"] = "127.0.0.1"
    (tmp_path / "topology.yml").write_text(yaml.safe_dump(topology))
    run = scenario.play("etcd", inventory=tmp_path / "topology.yml")
    assert run.rc != 0
    assert "hosts.mo-c.address: [address-loopback]" in run.text


def test_status_tells_who_leads_and_how_full_it_is(scenario, client, tmp_path):
    content = status(scenario, tmp_path)
    members = [one for one in content["services"] if one["kind"] == "etcd"]
    assert [(one["host"], one["health"]) for one in members] == [(name, "healthy") for name in ADDRESSES]
    assert [one["host"] for one in members if one["role"] == "leader"] == [client.leader()]
    assert all(0 < one["db_size"] < one["db_quota"] for one in members)
    assert [each for each in content["problems"] if each["name"] == "etcd"] == []


def test_another_authority(scenario, tmp_path):
    """As the role's README has it."""
    for host in scenario.hosts.values():
        host.check_output(f"systemctl stop {UNIT}")
    SECRETS.rename(tmp_path / "old")
    told = play(scenario, "etcd", rc=2).text
    assert "ca.crt" in told
    for host in scenario.hosts.values():
        host.check_output("rm /etc/mooncake-pd-etcd/ca.pem")
    play(scenario, "etcd")
    assert (SECRETS / "ca.crt").read_bytes() != (tmp_path / "old/ca.crt").read_bytes()
    assert Client().get("kept") == "yes"
