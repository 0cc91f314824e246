# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of a run as an action plugin sees them, of a planned topology."""

from __future__ import annotations

from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan


class Hostvars(dict[str, Any]):
    """Values are to be read raw; a template of all hosts would be slow."""

    raw_get = dict.__getitem__

    def __getitem__(self, name: str) -> Any:
        raise AssertionError("templated")


def variables(
    built: Plan, running: dict[str, Any] | None = None, play: tuple[str, ...] = ("localhost",)
) -> dict[str, Any]:
    """running: instance_running by host."""
    groups = built.groups()
    hosts = {}
    for name in groups["pd"]:
        own = {**built.hostvars(name), "pd_cluster": built.cluster()}
        if name in groups["router"]:
            own["pd_instances"] = built.instances()
        if running and name in running:
            own["instance_running"] = running[name]
        hosts[name] = own
    return {"hostvars": Hostvars(hosts), "groups": groups, "ansible_play_hosts_all": list(play)}
