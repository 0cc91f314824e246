# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Odd one out: a host whose value is not that of its peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host


@dataclass(frozen=True)
class Odd:
    host: str
    value: Hashable
    usual: Hashable
    like_it: int  # hosts that have the usual value


def odd_ones(hosts: Iterable[Host], value: Callable[[Host], Hashable]) -> list[Odd]:
    """Hosts that differ from what most have; of two halves, those that come later. Unknown values take no part."""
    values = {host.name: found for host in hosts if (found := value(host)) is not None}
    if len(set(values.values())) < 2:
        return []
    # most_common() keeps the order in which values were first seen among equals
    usual, like_it = Counter(values.values()).most_common(1)[0]
    return [Odd(name, own, usual, like_it) for name, own in values.items() if own != usual]
