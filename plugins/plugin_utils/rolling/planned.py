# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as comparisons take it: every instance with its processes, their digests and its facts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.facts import facts_of


def instances_of(
    cluster: Mapping[str, Any], instances: Iterable[Mapping[str, Any]], hosts: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """cluster, instances and hosts: pd_cluster, pd_instances and every pd_host."""
    own: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for host, planned in hosts.items():
        for process in planned["processes"]:
            own.setdefault(process["instance"], []).append((host, process))
    return [
        {
            **{key: item[key] for key in ("name", "kind", "shape", "api_urls", "bootstrap_urls")},
            "hosts": list(item["hosts"]),
            "addresses": {host: hosts[host]["address"] for host in item["hosts"]},
            "processes": [_process(cluster, host, process) for host, process in own.get(item["name"], ())],
            "facts": facts_of(cluster, (process for _host, process in own.get(item["name"], ()))),
        }
        for item in instances
    ]


def services_of(cluster: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The processes that belong to no instance: routers and master."""
    return [
        {"kind": process["kind"], "address": planned["address"], **_process(cluster, host, process)}
        for host, planned in hosts.items()
        for process in planned["processes"]
        if process["instance"] is None
    ]


def _process(cluster: Mapping[str, Any], host: str, process: Mapping[str, Any]) -> dict[str, str]:
    unit = process["unit"]
    # engines get what their kind has in common once, not with every unit
    shared = cluster.get("environment", {}) if process["instance"] else {}
    content = [unit["argv"], {**shared, **unit["environment"]}, unit["timeout_stop"]]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {
        "name": process["name"],
        "host": host,
        "unit": unit["name"],
        "digest": hashlib.sha256(text.encode()).hexdigest(),
    }
