# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drill_report
short_description: Compare what a drill showed with what it may cost
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Takes what M(mooncake.pd.drill) returned on the hosts, shows one line for each measure, and writes it for scripts.
  - Fails when a limit is broken, and when something was not seen. What is unknown is not good.
  - Runs on the controller, once for all hosts. In check mode it does nothing.
options:
  cluster:
    description: Name of the cluster, for the folder.
    type: str
    required: true
  drill:
    description: What was planned, as M(mooncake.pd.drill_plan) returned it.
    type: dict
    required: true
  seen:
    description: Variable in which the result of M(mooncake.pd.drill) was registered.
    type: str
    default: __drill_seen
  ready:
    description: Variable in which the host that lost something registered the result of M(mooncake.pd.wait_ready).
    type: str
    default: __drill_ready
  dest:
    description: Folder on the controller, for a file C(DRILL.json). By default C(drill/CLUSTER) in the current folder.
    type: path
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
"""

EXAMPLES = r"""
- name: Judge
  mooncake.pd.drill_report:
    cluster: "{{ pd_cluster.name }}"
    drill: "{{ planned.drill }}"
  run_once: true
"""

RETURN = r"""
rows:
  description: One for each measure.
  returned: not in check mode
  type: list
  elements: dict
  contains:
    measure:
      description: What was measured.
      type: str
    seen:
      description: What was seen.
      type: str
    limit:
      description: What it may be.
      type: str
    verdict:
      description: V(good), V(BROKEN) or V(UNKNOWN).
      type: str
    why:
      description: The reasons, when it is not good.
      type: str
  sample:
    - {measure: a master serves again, seen: 10.3 s, limit: 30 s, verdict: good, why: ""}
good:
  description: Whether all of them are good.
  returned: not in check mode
  type: bool
files:
  description: Files that were written.
  returned: not in check mode
  type: list
  elements: dict
"""
