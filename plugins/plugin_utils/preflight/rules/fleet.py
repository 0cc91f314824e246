# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In what engine hosts should not differ from each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Fleet
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.odd import odd_ones
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, fleet_rule

_OWN = "mooncake.pd"
_SLOWEST = "The slowest member of a group sets the pace of all, and measurements of one host do not hold for another."
_STEP = 8 << 30  # firmware keeps a different few MiB back on every host


@dataclass(frozen=True)
class Same:
    rule: str
    what: str
    path: str
    fix: str
    why: str = _SLOWEST
    severity: str = "notice"
    seen: Callable[[Any], Any] = lambda value: value


_SAME = (
    Same(
        "machine-differs",
        "architecture",
        "host.kernel.machine",
        "use hosts of one architecture.",
        "Artefacts that are built once do not run on the other, and nobody has tried KV between them.",
        "warning",
    ),
    Same("os-differs", "system", "host.os.pretty", "bring the hosts to one release."),
    Same("kernel-differs", "kernel", "host.kernel.release", "bring the hosts to one kernel."),
    Same("cpus-differ", "number of CPUs", "host.cpus", "look for CPUs that are offline (lscpu)."),
    Same(
        "memory-differs",
        "memory",
        "host.memory.total",
        "look for modules that failed (dmidecode -t memory).",
        seen=lambda total: f"about {round(total / _STEP) * 8} GiB",
    ),
    Same(
        "page-size-differs",
        "size of kernel pages",
        "host.kernel.page_size",
        "boot the same kernel everywhere.",
        "Sizes that are rounded to pages differ between both ends of a transfer.",
        "warning",
    ),
    Same(
        "glibc-differs",
        "glibc",
        "host.libc.version",
        "bring the hosts to one release.",
        "An artefact that is built once may not load on the older one.",
    ),
    Same(
        "timezone-differs",
        "time zone",
        "host.clock.timezone",
        "timedatectl set-timezone the same on all hosts.",
        "Log lines of one moment carry different times.",
    ),
)


def _check(same: Same) -> Callable[[Fleet], Iterator[Found]]:
    def check(fleet: Fleet) -> Iterator[Found]:
        def value(host: Any) -> Any:
            fact = host.fact(same.path)
            return None if fact is None else same.seen(fact)

        for odd in odd_ones(fleet.engines, value):
            what = f"{same.what} is {odd.value}; {odd.like_it} other(s) have {odd.usual}"
            yield Found(host=odd.host, what=what, fix=same.fix)

    return check


for _same in _SAME:
    fleet_rule(
        _same.rule,
        family="host",
        severity=_same.severity,
        about=f"engine hosts have the same {_same.what}",
        why=_same.why,
        source=_OWN,
    )(_check(_same))
