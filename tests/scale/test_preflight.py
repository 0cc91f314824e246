# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the cost of preflight grows with the hosts, and that its report stays readable.

Seconds are measured by preflight.py; here only what does not depend on the machine decides.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from ansible_collections.mooncake.pd.tests.scale import preflight
from ansible_collections.mooncake.pd.tests.scale.plan import timed

READABLE = 130  # lines
PROPORTIONAL = 10.0  # for five times the hosts; the square would be 25, caches of the processor cost something


@cache
def judged(hosts: int, faults: bool) -> tuple[float, dict[str, Any]]:
    made = preflight.fleet(hosts, faults)
    seconds, result = timed(lambda: preflight.judged(made), 2)
    return seconds, result


def test_a_healthy_fleet_gives_nothing():
    """Also what rules over all hosts compare is as it should be."""
    _seconds, result = judged(preflight.MANY, False)
    assert result["document"]["groups"] == []


@pytest.mark.parametrize("faults", [False, True])
def test_judging_grows_with_the_hosts(faults):
    (few, _few), (many, _many) = judged(preflight.FEW, faults), judged(preflight.MANY, faults)
    assert many / few < PROPORTIONAL


def test_every_fault_is_found_and_the_report_stays_readable():
    _seconds, result = judged(preflight.MANY, True)
    summary = result["document"]["summary"]
    assert summary["errors"] > 0.99 * preflight.MANY
    assert {group["rule"] for group in result["document"]["groups"]} == {
        "limits-memlock",
        "model-missing",
        "shm-full",
        "host-unknown",
    }
    assert len(result["lines"]) < READABLE


@pytest.mark.parametrize(("faults", "said"), [(False, "nothing was changed"), (True, "Preflight found")])
def test_ansible_judges_recorded_facts_and_asks_no_host(faults, said):
    _seconds, printed = preflight.playbook(preflight.fleet(12, faults))
    assert said in printed
    assert "UNREACHABLE" not in printed
