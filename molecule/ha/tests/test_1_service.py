# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool, its masters and etcd as an operator finds them after site.yml, and what is refused before that."""

from __future__ import annotations

import json
import random
import re
import ssl
import urllib.request

import pytest
from parts import ADDRESSES, MASTERS, MEMBERS, UNIT, ask, counter, keys, segments, until

HITS = "vllm:external_prefix_cache_hits_total"


def refused(url: str, **options) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(**options))
    try:
        opener.open(url, timeout=3)
    except OSError:
        return True
    return False


def test_the_pool_has_the_memory_of_all_and_gives_one_what_another_put(play):
    assert segments() == {"mo-a", "mo-p1", "mo-d1"}
    text = play("smoke")
    put = re.search(r"mo-p1 put 16 MiB into the KV pool with \d+ MB/s", text)
    got = re.search(r"The KV pool gave mo-d1 what mo-p1 had put, over tcp: 16 MiB with \d+ MB/s", text)
    assert (bool(put), bool(got)) == (True, True), text
    print(put[0], got[0])


def test_decode_fetches_from_the_pool_what_prefill_computed():
    """Asked directly, without the router's word that prefill has it."""
    draw = random.Random()
    prompt = " ".join(draw.choices(["river", "candle", "bridge", "island", "forest"], k=300))
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    before = keys()
    by_prefill = ask("mo-p1", 8100, "v1/completions", body, 60)
    # the put goes on behind the answer
    until(lambda: len([key for key in keys() - before if not key.startswith("lab/")]) >= 2)
    hits = counter("mo-d1", 8200, HITS)
    by_decode = ask("mo-d1", 8200, "v1/completions", body, 60)
    text = r'"text":"[^"]*"'
    assert re.search(text, by_decode)[0] == re.search(text, by_prefill)[0]
    assert counter("mo-d1", 8200, HITS) - hits >= 256


def test_members_of_etcd_talk_to_nobody_without_a_certificate(scenario):
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    for host in MEMBERS:
        peers = f"{ADDRESSES[host]}:2380/members"
        assert refused(f"http://{peers}")
        assert refused(f"https://{peers}", context=blind)
    told = json.loads(ask("mo-a", 2379, "v3/cluster/member/list", {}))["members"]
    assert {one["name"]: one["peerURLs"] for one in told} == {
        host: [f"https://{ADDRESSES[host]}:2380"] for host in MEMBERS
    }


@pytest.mark.parametrize(
    ("address", "rule"),
    [("127.0.0.1", "address-loopback"), ("0.0.0.0", "address-invalid"), ("mo-a", "address-invalid")],
)
def test_an_address_that_others_cannot_reach_is_refused_by_the_plan(play, other_inventory, address, rule):
    other_inventory.topology(lambda topology: topology["hosts"]["mo-a"].update(address=address))
    text = play("site", rc=1, other=other_inventory)
    assert f"hosts.mo-a.address: [{rule}]" in text


def test_an_address_that_is_not_the_hosts_own_is_refused_by_preflight(scenario, play, other_inventory):
    wrong = {"address": "10.90.95.99", "vars": {"ansible_host": ADDRESSES["mo-a"]}}
    other_inventory.topology(lambda topology: topology["hosts"]["mo-a"].update(wrong))
    before = {host: scenario.started(host, UNIT) for host in MASTERS}
    text = play("site", rc=2, other=other_inventory)
    assert "10.90.95.99, on which etcd, master" in text
    assert "is not an address of this host" in text
    assert not re.search(r"changed=[1-9]", text)
    assert {host: scenario.started(host, UNIT) for host in MASTERS} == before
