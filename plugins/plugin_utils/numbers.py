# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers in text, as programs read them out of variables and options."""

from __future__ import annotations

import re


def whole(text: str) -> int | None:
    """The number that a text is for a program in C or Python; other alphabets' digits and endless ones are none."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None
