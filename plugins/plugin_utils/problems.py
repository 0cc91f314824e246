# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a topology: one Problem a finding, all of them in one report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath


@dataclass(frozen=True)
class Problem:
    rule: str
    where: str
    message: str
    fix: str
    severity: str = "error"
    line: int | None = None

    def text(self, source: str) -> str:
        place = PurePath(source).name + (f":{self.line}" if self.line else "")
        return f"{place} {self.where}: [{self.rule}] {self.message} Mend: {self.fix}"

    def as_dict(self) -> dict[str, str]:
        return {"rule": self.rule, "where": self.where, "message": self.message, "fix": self.fix}


@dataclass(frozen=True)
class Waived:
    """A problem that the operator has accepted."""

    problem: Problem
    reason: str

    def text(self, source: str) -> str:
        return f"{self.problem.text(source)} Waived: {self.reason}"

    def as_dict(self) -> dict[str, str]:
        return {**self.problem.as_dict(), "reason": self.reason}


class PlanError(Exception):
    """The topology cannot be planned; the text is the whole report."""

    def __init__(self, source: str, problems: Iterable[Problem], waived: Iterable[Waived] = ()) -> None:
        self.problems = tuple(problems)
        count = sum(problem.severity == "error" for problem in self.problems)
        head = f"{source} cannot be planned, {count} problem{'s' if count != 1 else ''}:"
        lines = [f"{_mark(problem)}{problem.text(source)}" for problem in self.problems]
        lines += [f"waived: {item.text(source)}" for item in waived]
        super().__init__("\n".join([head, *(f"  {line}" for line in lines)]))


def _mark(problem: Problem) -> str:
    return "" if problem.severity == "error" else f"{problem.severity}: "


def below(place: str, where: str | None) -> bool:
    """Whether a key is the one that is named, or stands inside of it."""
    return where is None or place == where or place.startswith((f"{where}.", f"{where}["))


@dataclass
class Report:
    """Collects problems and finds the line of each in the file."""

    source: str
    lines: Mapping[str, int] = field(default_factory=dict)
    found: list[Problem] = field(default_factory=list)
    waived: list[Waived] = field(default_factory=list)
    _known: set[Problem] = field(default_factory=set)

    def error(self, rule: str, where: str, message: str, fix: str) -> None:
        self.add(rule, "error", where, message, fix)

    def warning(self, rule: str, where: str, message: str, fix: str) -> None:
        self.add(rule, "warning", where, message, fix)

    def add(self, rule: str, severity: str, where: str, message: str, fix: str) -> None:
        problem = Problem(rule, where, message, fix, severity, self.line(where))
        if problem not in self._known:
            self._known.add(problem)
            self.found.append(problem)

    def waive(self, rule: str, where: str | None, reason: str) -> int:
        """Take what was found by a rule, at a place or below it, out of what has to be mended; returns how many."""
        accepted: list[Problem] = []
        kept: list[Problem] = []
        for problem in self.found:
            (accepted if problem.rule == rule and below(problem.where, where) else kept).append(problem)
        self.found = kept
        self.waived += [Waived(problem, reason) for problem in accepted]
        return len(accepted)

    def line(self, where: str) -> int | None:
        """The line of a key, or of the nearest entry around it when the key itself is not in the file."""
        while where and where not in self.lines:
            where = where[: max(where.rfind("."), where.rfind("["), 0)]
        return self.lines.get(where)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self._sorted() if problem.severity == "warning")

    def raise_errors(self) -> None:
        """Raise everything that was found, as soon as one of it is an error."""
        if any(problem.severity == "error" for problem in self.found):
            raise PlanError(self.source, self._sorted(), self.waived)

    def _sorted(self) -> list[Problem]:
        return sorted(self.found, key=lambda p: (p.severity, p.line or 0, p.where, p.rule, p.message))
