# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts of a play need, as their variables tell it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.jobs import Job, NeedError, jobs_of, platform_of


def of_hosts(hosts: Iterable[str], hostvars: Any) -> tuple[dict[str, list[Job]], dict[str, dict[str, Any]], list[str]]:
    """Jobs and platform by host, and all problems. The variables are raw, for what a task has set is no template."""
    jobs: dict[str, list[Job]] = {}
    platforms: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for host in hosts:
        variables = hostvars.raw_get(host)
        try:
            platforms[host] = _platform(host, variables)
            jobs[host] = jobs_of(_plain(variables.get("bundle_needs") or []), platforms[host], host)
        except NeedError as error:
            problems += str(error).splitlines()
    return jobs, platforms, problems


def _platform(host: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    told = _plain(variables.get("bundle_platform") or {})
    if told.get("pythons"):
        if not told["family"]:
            raise NeedError(
                f"{host}: {told['distribution'] or 'its distribution'} is none that is known. "
                "Mend: describe the host with bundle_target, family (Debian or RedHat) among it."
            )
        return dict(told)
    if told:
        return platform_of(told, host)
    raise NeedError(
        f"{host}: it did not answer, so nobody knows what fits it. Mend: let it be reached, or describe it with "
        "bundle_target (distribution, release, architecture, python)."
    )


def _plain(value: Any) -> Any:
    """Without what Ansible attaches to values."""
    return json.loads(json.dumps(value))


def together(jobs: Mapping[str, Iterable[Job]]) -> dict[str, tuple[Job, list[str]]]:
    """Each job once, with the hosts that need it."""
    found: dict[str, tuple[Job, list[str]]] = {}
    for host, own in jobs.items():
        for job in own:
            found.setdefault(job.key, (job, []))[1].append(host)
    return found
