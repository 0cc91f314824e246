# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers with a suffix, as Mooncake and vLLM read them."""

from __future__ import annotations

import re
from typing import Any

_SUFFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*([kmgtp]?)i?b?", re.IGNORECASE)
_COUNT = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)([kKmMgGtT]?)")


def size(value: Any) -> int | None:
    """Bytes of 4GB, 512 MiB, 5TB or a number; None when it is none.

    All steps are 1024, as of global_segment_size (mooncake-wheel/mooncake/mooncake_config.py@3b5a594).
    """
    if isinstance(value, (bool, float)):
        return None
    found = _SIZE.fullmatch(str(value).strip())
    return int(float(found[1]) * 1024 ** _SUFFIXES[found[2].lower()]) if found and float(found[1]) > 0 else None


def count(value: Any) -> int | None:
    """What --max-model-len and --kv-cache-memory-bytes mean: 64M is 2**26 and 64m is 64,000,000
    (vllm/utils/argparse_utils.py@v0.32.0). None when it is no number, auto for instance."""
    found = _COUNT.fullmatch(str(value).strip())
    if not found:
        return None
    base = 1024 if found[2].isupper() else 1000
    return int(float(found[1]) * base ** _SUFFIXES[found[2].lower()])
