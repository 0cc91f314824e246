# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many compilers may run at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Optional


def available(meminfo: str, limits: Iterable[str] = ()) -> Optional[int]:
    """Bytes; limits: texts of memory.max of the control groups around."""
    match = re.search(r"(?m)^MemAvailable:\s+(\d+) kB", meminfo)
    told = [int(match[1]) * 1024] if match else []
    return min(told + [int(text) for text in limits if text.strip().isdigit()], default=None)


def jobs(memory: Optional[int], cpus: int, per_job: int) -> int:
    """One at least, and one when nobody knows the memory."""
    return max(1, min(cpus, (memory or 0) // max(1, per_job)))
