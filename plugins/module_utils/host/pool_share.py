# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a unit has brought into a KV pool: its unit file says it, or names the mooncake.json that does."""

from __future__ import annotations

import json
import re
from typing import Optional

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look

# of a node (mooncake_client), and of an engine's process in whatever way it is told, environment or mount
_SEGMENT = re.compile(r"--global_segment_size=(\d+)")
_CONFIG = re.compile(r"(/[\w./-]+/mooncake-[0-9a-f]{16}\.json)\b")
_SIZES = ("global_segment_size", "local_buffer_size")


def of_unit(look: Look, fragment: Optional[str]) -> Optional[int]:
    """Bytes of a worker; None where there are none, or where it cannot be told."""
    try:
        text = look.read(fragment) if fragment else ""
        segment, config = _SEGMENT.search(text), _CONFIG.search(text)
        if segment:
            return int(segment.group(1))
        if config:
            told = json.loads(look.read(config.group(1)))
            return sum(int(told[name]) for name in _SIZES)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
