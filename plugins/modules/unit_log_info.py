# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: unit_log_info
short_description: Find lines in what units logged since their last start
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Searches the lines of the current (or last) start of each unit, in its log file including the last rotated one, or
    in the journal. Colours are removed, carriage returns count as line ends.
  - Also reports the known signatures of failures and of degraded service, with what to do about them.
options:
  units:
    description: Names of the units.
    type: list
    elements: str
    required: true
  log_dir:
    description:
      - Folder of the log files, as in M(mooncake.pd.units). Units without a file there are read from the journal.
    type: path
  patterns:
    description: Regular expressions (Python) by name.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
"""

EXAMPLES = r"""
- name: See which transport Mooncake really uses
  mooncake.pd.unit_log_info:
    units: [mooncake-pd-p1.service]
    log_dir: /var/log/mooncake-pd
    patterns:
      tcp: "TcpTransport: listen on port"
      rdma: "RdmaTransport"
  register: transport
"""

RETURN = r"""
units:
  description: What was found, in the order of the names.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the unit.
      type: str
    log:
      description: Where the lines come from.
      type: str
    found:
      description: Whether the beginning of this start is still in the log. If not, nothing was searched.
      type: bool
    invocation_id:
      description:
        - The start the lines belong to; empty when systemd has forgotten it (then it is the last one in the log).
      type: str
    active_state:
      description: State of the unit.
      type: str
    matches:
      description: For each pattern the last 20 lines that match.
      type: dict
    notes:
      description:
        - The lines that M(mooncake.pd.wait_ready) noted of this start, by their name in
          O(mooncake.pd.wait_ready#module:notes). They are there also when RV(units[].found) is false.
      type: dict
      sample: {transport: "TcpTransport: listen on port 15123"}
    counts:
      description: For each pattern the number of lines that match.
      type: dict
    known:
      description:
        - Known signatures in these lines with kind (V(fatal) or V(degraded)), name, count, last line and advice.
      type: list
      elements: dict
"""

import os
import re
from collections import deque
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import notes, signatures, systemd
from ansible_collections.mooncake.pd.plugins.module_utils.unit_log import everything, open_log, stem

_KEPT = 20
RUN_DIR = notes.RUN_DIR


def examine(module: AnsibleModule, unit: systemd.Unit, patterns: dict[str, re.Pattern[str]]) -> dict[str, Any]:
    log = open_log(module.params["log_dir"], unit.name, unit.InvocationID or None, module.run_command)
    matches: dict[str, deque[str]] = {name: deque(maxlen=_KEPT) for name in patterns}
    counts = dict.fromkeys(patterns, 0)
    known = signatures.Known()
    for line in everything(log):
        known.feed(line)
        for name, pattern in patterns.items():
            if pattern.search(line):
                matches[name].append(line)
                counts[name] += 1
    return {
        "name": unit.name,
        "log": log.where,
        "found": log.found,
        "invocation_id": unit.InvocationID,
        "active_state": unit.ActiveState,
        "matches": {name: list(lines) for name, lines in matches.items()},
        "counts": counts,
        "notes": notes.read_lines(os.path.join(RUN_DIR, stem(unit.name)), unit.InvocationID),
        "known": known.entries,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "required": True},
            "log_dir": {"type": "path"},
            "patterns": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    patterns: dict[str, re.Pattern[str]] = {}
    problems = []
    for name, pattern in module.params["patterns"].items():
        try:
            patterns[name] = re.compile(str(pattern))
        except re.error as error:
            problems.append(f"patterns.{name}: {pattern!r} is no regular expression: {error}")
    if problems:
        module.fail_json(msg="\n".join(problems))
    try:
        units = systemd.show(module.run_command, module.params["units"])
    except systemd.SystemdError as error:
        module.fail_json(msg=f"{error}. This module needs a host that was booted with systemd.")
    answers = [examine(module, units[name], patterns) for name in module.params["units"]]
    module.exit_json(changed=False, units=answers)


if __name__ == "__main__":
    main()
