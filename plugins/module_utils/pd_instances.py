# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prefill and decode instances as modules are told of them: the elements of pd_instances.

Note that this module util is **PRIVATE** to the collection.
"""

from __future__ import annotations

from typing import Any, Dict, List

PREFILL, DECODE = "prefill", "decode"

INSTANCE_OPTIONS: Dict[str, Any] = {
    "type": "list",
    "elements": "dict",
    "required": True,
    "options": {
        "name": {"type": "str", "required": True},
        "kind": {"type": "str", "choices": [PREFILL, DECODE], "required": True},
        "hosts": {"type": "list", "elements": "str"},
        "api_urls": {"type": "list", "elements": "str", "required": True},
        "bootstrap_urls": {"type": "list", "elements": "str"},
        "shape": {"type": "dict"},
    },
}


def problems_of(instances: List[Dict[str, Any]]) -> List[str]:
    """What is wrong with them beyond types."""
    names = [instance["name"] for instance in instances]
    twice = sorted({name for name in names if names.count(name) > 1})
    problems = [f"instances: {name} is named {names.count(name)} times" for name in twice]
    return problems + [f"instances: {item['name']} has no api_urls" for item in instances if not item["api_urls"]]
