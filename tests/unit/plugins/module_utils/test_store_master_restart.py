# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.store_master_restart import cost, misled, refusal, size

HA = ["mooncake_master", "--rpc_address=10.0.0.1", "--rpc_port=17051", "--metrics_port=9003", "--enable_ha=true"]
LEADERS = {"10.0.0.1:17051": "http://10.0.0.1:9003", "10.0.0.2:17051": "http://10.0.0.2:9003"}


def facts(**more: Any) -> dict[str, Any]:
    """Of one that leads and is used."""
    return {
        "running": True,
        "error": "",
        "role": "leader",
        "state": "serving",
        "leader": "10.0.0.1:17051",
        "clients": 2,
        "key_count": 14,
        "bytes": 3 << 30,
        "in_use": True,
        "release": "0.3.11-rc1",
        **more,
    }


def stands_by(**more: Any) -> dict[str, Any]:
    return facts(role="standby", state="standby", clients=0, key_count=0, in_use=False, **more)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (facts(running=False, in_use=False), "does not run, so that costs nothing."),
        (stands_by(), "stands by and holds nothing, so that costs nothing."),
        (facts(clients=0, key_count=0, in_use=False), "is used by nobody, so that costs nothing."),
        (facts(), "holds 14 keys (3.00 GB; clients: 2), and loses all of it"),
        (facts(bytes=None), "holds 14 keys (0.00 Bytes; clients: 2), and"),
        (facts(clients=None), "does not say what it holds (no metrics), and loses all of it"),
        (facts(key_count=None, error="HTTP 503"), "does not say what it holds (HTTP 503), and loses"),
    ],
)
def test_what_a_restart_costs(seen: dict[str, Any], said: str) -> None:
    assert cost(seen).startswith(said)


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0.00 Bytes"), (1023, "1023.00 Bytes"), (1536, "1.50 KB"), (5 << 50, "5120.00 TB")]
)
def test_sizes(count: int, said: str) -> None:
    assert size(count) == said


@pytest.mark.parametrize(
    ("seen", "release", "refused"),
    [
        (facts(), "0.3.11.rc1", False),
        (facts(), "0.3.13", True),
        (facts(clients=None), "0.3.13", True),  # it may have some
        (facts(clients=0), "0.3.13", False),  # keys alone are lost, and nobody misunderstands
        (facts(release=None), "0.3.13", False),
        (stands_by(), "0.3.13", False),
        (facts(running=False, in_use=False), "0.3.13", False),
        (facts(), None, False),
    ],
)
def test_another_release_while_there_are_clients(seen: dict[str, Any], release: str | None, refused: bool) -> None:
    said = refusal(seen, HA, HA, release)
    assert ("runs Mooncake 0.3.11-rc1 and has clients" in said) is refused
    assert bool(said) is refused


@pytest.mark.parametrize("flag", ["--rpc_address=10.0.0.9", "--rpc_port=17052", "--metrics_port=9004"])
def test_masters_that_stand_by_for_each_other_cannot_move_one_by_one(flag: str) -> None:
    name = flag.partition("=")[0]
    planned = [flag if one.startswith(f"{name}=") else one for one in HA]
    for seen in (facts(), stands_by()):
        assert f"is to move ({name[2:]} " in refusal(seen, HA, planned, None)
    # what does not run, runs alone, or is not asked about may
    assert refusal(facts(running=False, in_use=False), [], planned, None) == ""
    assert refusal(facts(), HA[:-1], planned[:-1], None) == ""
    assert refusal(facts(), HA, [], None) == ""
    assert refusal(facts(), HA, HA, None) == ""
    assert refusal(facts(), HA[:-1], HA, None) == ""


def test_whom_one_that_stands_by_follows() -> None:
    assert "10.0.0.9:17051, which is none of" in misled(stands_by(leader="10.0.0.9:17051"), LEADERS)
    assert misled(stands_by(leader="10.0.0.2:17051"), LEADERS) == ""
    assert misled(stands_by(leader=None), LEADERS) == ""
    assert misled(stands_by(leader="10.0.0.9:17051"), {}) == ""
    # it leads, or remembers who led while etcd is away
    assert misled(facts(leader="10.0.0.9:17051"), LEADERS) == ""
    assert misled(facts(role="standby", state="candidate", leader="10.0.0.9:17051"), LEADERS) == ""
