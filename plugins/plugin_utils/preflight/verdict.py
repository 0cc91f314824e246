# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the judge says of a fleet. The report of preflight is made of it and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    rule: str  # ends with -unknown where something could not be found out
    family: str
    severity: str  # one of registry.SEVERITIES
    host: str | None  # None: the fleet as a whole
    what: str
    evidence: str
    fix: str
    about: str
    why: str
    source: str
    where: str = ""  # of what is unknown: the path of the fact


@dataclass(frozen=True)
class Waived:
    finding: Finding
    reason: str


@dataclass(frozen=True)
class Verdict:
    cluster: str
    topology: str  # path
    families: tuple[str, ...]  # that were judged
    hosts: Mapping[str, tuple[str, ...]]  # host of the plan -> families that were looked at there
    kinds: Mapping[str, tuple[str, ...]]  # host of the plan -> prefill, decode, master, router, frontend
    seen: float | None = None  # when the last host was looked at, by the clock of the controller
    absent: Mapping[str, str] = field(default_factory=dict)  # host -> why it was not looked at
    findings: tuple[Finding, ...] = ()
    waived: tuple[Waived, ...] = ()
    rules: tuple[tuple[str, str, str], ...] = ()  # id, family, about of those that were asked, with or without a find
