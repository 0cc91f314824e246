# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked: the options of the filter and of the report, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import sizes
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import Faults, shown
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.pool import Load
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.watermark import Watermark, watermark
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import version_key

OPTIONS = "options"
TOKENS = "write the tokens of a typical sequence, such as 32768."
SIZE = "write it as Mooncake does: 4GB, 512MB, 5TB (steps of 1024)."
_RATES = ("tokens_per_second", "requests_per_second")


def read_load(options: Mapping[str, Any], faults: Faults) -> Load:
    length = options.get("length")
    rates = {name: _positive(options, name, faults) for name in _RATES}
    if all(rate is not None for rate in rates.values()):
        message = "is given beside tokens_per_second, and they say the same."
        faults.add(OPTIONS, "requests_per_second", "rate-twice", message, "give one of them.")
    return Load(None if length is None else faults.number(OPTIONS, "length", length, fix=TOKENS), **rates)


def read_size(options: Mapping[str, Any], name: str, faults: Faults) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    found = sizes.size(value)
    if found is None:
        message = f"is {shown(value)}, no number of bytes above 0."
        faults.add(OPTIONS, name, "size", message, SIZE)
    return found


def read_watermark(options: Mapping[str, Any], release: str | None, faults: Faults) -> Watermark:
    if release is not None:
        try:
            version_key(release)
        except ValueError:
            message = f"is {shown(release)}, no version."
            faults.add(OPTIONS, "mooncake_version", "version", message, "write it as 0.3.13.post1.")
            release = None
    high = _positive(options, "watermark", faults, most=1)
    evicted = _positive(options, "eviction_ratio", faults, most=1)
    # of the plan only, where the master is started with it
    return watermark(high, evicted, release, options.get("lease_ms"))


def read_choice(options: Mapping[str, Any], name: str, choices: tuple[str, ...], faults: Faults) -> str:
    return one_of(OPTIONS, name, options.get(name) or choices[0], choices, faults)


def one_of(source: str, where: str, value: Any, choices: tuple[str, ...], faults: Faults) -> str:
    if value in choices:
        return str(value)
    message = f"is {shown(value)}, which is not known here."
    faults.add(source, where, "choice", message, f"choose one of {', '.join(choices)}.")
    return choices[0]


def _positive(options: Mapping[str, Any], name: str, faults: Faults, most: float | None = None) -> float | None:
    value = options.get(name)
    if value is None:
        return None
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= (most or float("inf"))
    if not fits or value == float("inf"):
        upper = f" and at most {most:g}" if most else ""
        fix = "write a share such as 0.9." if most else "leave it out when nobody knows it."
        faults.add(OPTIONS, name, "number", f"has to be a number above 0{upper}, not {shown(value)}.", fix)
        return None
    return float(value)
