# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the restart of a Mooncake master would cost, and when it must not be.

All texts go on where "The master on HOST" began. Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.store_master import STANDBY, flags

# where the others look for one that leads
PLACE = ("rpc_address", "rpc_port", "metrics_port")
_UNITS = ("Bytes", "KB", "MB", "GB", "TB")


def cost(facts: Mapping[str, Any]) -> str:
    """What is lost when it restarts."""
    if not facts["running"]:
        return "does not run, so that costs nothing."
    if facts["role"] == STANDBY:
        return "stands by and holds nothing, so that costs nothing."
    if not facts["in_use"]:
        return "is used by nobody, so that costs nothing."
    if facts["key_count"] is None or facts["clients"] is None:
        held = f"does not say what it holds ({facts['error'] or 'no metrics'})"
    else:
        held = f"holds {facts['key_count']} keys ({size(facts['bytes'] or 0)}; clients: {facts['clients']})"
    lost = "the pool begins empty, and prompts are computed again. Clients come back by themselves."
    return f"{held}, and loses all of it: {lost}"


def size(count: float) -> str:
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.2f} {_UNITS[unit]}"


def refusal(facts: Mapping[str, Any], running: Sequence[str], planned: Sequence[str], release: Optional[str]) -> str:
    """Why it cannot restart with the planned command and release, whatever is confirmed; "" when it can."""
    if not facts["running"]:
        return ""
    if facts["in_use"] and facts["clients"] != 0 and release and differs(facts["release"], release):
        return (
            f"runs Mooncake {facts['release']} and has clients ({facts['clients']}); with {release} it would not "
            "understand them (RPC call failed: invalid rpc arg). Mend: stop.yml, then start.yml, so that all change "
            "together."
        )
    old, new = flags(running), flags(planned)
    moved = [
        f"{name} {old[name]} -> {new[name]}" for name in PLACE if name in old and old[name] != new.get(name, old[name])
    ]
    if moved and old.get("enable_ha") == new.get("enable_ha") == "true":
        return (
            f"is to move ({', '.join(moved)}), and the masters restart one after the other: the first would wait for a "
            "leader in the new place while the old one leads in its own. Mend: stop.yml, then start.yml; or end all "
            "masters alone (systemctl stop mooncake-pd-master.service on each), then master.yml: the pool begins empty "
            "in either case."
        )
    return ""


def differs(runs: Optional[str], planned: str) -> bool:
    """Of two releases, where it is known what runs; 0.3.11-rc1 is 0.3.11.rc1."""
    return runs is not None and runs.replace("-", ".") != planned.replace("-", ".")


def misled(facts: Mapping[str, Any], leaders: Mapping[str, Any]) -> str:
    """Why one that stands by does so for nobody of the plan; "" when it does not. Nothing else would end that."""
    # without etcd it keeps the name of the last leader, and is a candidate most of the time
    follows = facts["leader"] if facts["role"] == STANDBY and facts["state"] == STANDBY else None
    if not leaders or not follows or follows in leaders:
        return ""
    return (
        f"stands by for {follows}, which is none of the planned masters ({', '.join(leaders)}). Mend: end that one, on "
        "its host: systemctl disable --now mooncake-pd-master.service; another leads some seconds later, and the pool "
        "begins empty. Then run this again."
    )
