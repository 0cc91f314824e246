# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: baseline_report
short_description: Compare measurements between hosts with the last good ones, and archive them
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Takes what M(mooncake.pd.transfer_bench) and M(mooncake.pd.hccn_info) returned on the hosts of the play, and
    compares it with C(last-good.json) of the cluster.
  - Writes each pair to O(dest)C(/DATE/PAIR.json). Figures that are good become the last good ones; the first run makes
    the baseline. One that is worse or was not measured leaves the last good one as it is.
  - Figures of other sizes (settings) are not compared, they begin anew.
  - Fails when a pair was not measured, and with O(strict) when one is worse. A tool that is optional and not there is
    no failure.
  - Runs on the controller, once for all hosts. In check mode it does nothing.
options:
  cluster:
    description: Name of the cluster, for the folder.
    type: str
    required: true
  peer:
    description: Variable with the name of the host that a host measured against. Hosts without it are left out.
    type: str
    default: __baseline_peer
  target:
    description: Variable in which the result of M(mooncake.pd.transfer_target) was registered, for its message.
    type: str
    default: __baseline_target
  measured:
    description: Variable in which the result of M(mooncake.pd.transfer_bench) was registered.
    type: str
    default: __baseline_measured
  pinged:
    description: Variable in which the result of M(mooncake.pd.hccn_info) was registered.
    type: str
    default: __baseline_pinged
  dest:
    description: Folder on the controller. By default C(baseline/CLUSTER) in the current folder.
    type: path
  bandwidth_drop:
    description: Percent below the last good bandwidth from which on it is worse.
    type: float
    default: 20
  latency_rise:
    description: Percent above the last good latency from which on it is worse.
    type: float
    default: 50
  accept:
    description: Make this run the last good one where it is worse, too.
    type: bool
    default: false
  strict:
    description: Fail when a pair is worse than the last good run.
    type: bool
    default: false
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
"""

EXAMPLES = r"""
- name: Compare and archive
  mooncake.pd.baseline_report:
    cluster: "{{ pd_cluster.name }}"
    strict: true
  run_once: true
"""

RETURN = r"""
rows:
  description: One for each tool between two hosts.
  returned: when something was to be measured
  type: list
  elements: dict
  contains:
    pair:
      description: The host that read, and the host that was read from.
      type: str
      sample: d1-p1
    plane:
      description: Network or transport.
      type: str
    tool:
      description: Program that measured.
      type: str
    bandwidth:
      description: Bytes a second.
      type: float
    latency:
      description: Seconds.
      type: float
    last_bandwidth:
      description: That of the last good run.
      type: float
    last_latency:
      description: That of the last good run.
      type: float
    state:
      description: V(good), V(worse), V(new), V(changed), V(not measured) or V(not there).
      type: str
    why:
      description: What is worse, or why it was not measured.
      type: str
files:
  description: Files that were written.
  returned: when something was to be measured
  type: list
  elements: dict
first:
  description: Whether there was no last good run.
  returned: when something was to be measured
  type: bool
"""
