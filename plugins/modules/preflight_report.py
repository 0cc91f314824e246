# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_report
short_description: Judge what was seen of all hosts against the plan, and report every problem
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Takes the facts that M(mooncake.pd.host_info), M(mooncake.pd.port_info), M(mooncake.pd.npu_info),
    M(mooncake.pd.hccn_info) and M(mooncake.pd.rdma_info) returned for all hosts, and the plan in C(pd_host) and
    C(pd_cluster), and applies the rules of preflight to them.
  - Shows one report, grouped by what there is to do and the worst first, and writes it to files.
  - Fails when there is an error that the topology does not waive. What is unknown is reported and never taken for good.
  - Runs on the controller, once for all hosts.
options:
  results:
    description:
      - Under which names the results of the modules were registered. Of several the later one counts, for it knows
        more. A result without facts is reported as unknown, with its message; a host where one of them was
        unreachable, or that has none, as absent.
    type: dict
    default: {}
    suboptions:
      told:
        description:
          - Results that are findings when they failed, such as those of M(ansible.builtin.assert). Each line of the
            message is one.
        type: list
        elements: str
        default: []
      host:
        description: Of M(mooncake.pd.host_info).
        type: list
        elements: str
        default: []
      ports:
        description: Of M(mooncake.pd.port_info).
        type: list
        elements: str
        default: []
      npu:
        description: Of M(mooncake.pd.npu_info).
        type: list
        elements: str
        default: []
      hccn:
        description: Of M(mooncake.pd.hccn_info).
        type: list
        elements: str
        default: []
      rdma:
        description: Of M(mooncake.pd.rdma_info).
        type: list
        elements: str
        default: []
  families:
    description: Families of rules that are applied. With C(--tags) only those among the tags.
    type: list
    elements: str
    choices: [host, network, ports, npu, rdma]
    default: [host, network, ports, npu, rdma]
  facts:
    description: A C(facts.json) that this module wrote. It is judged in place of the registered results.
    type: path
  dest:
    description:
      - Folder on the controller for the report, made when it is missing. By default C(preflight/<name of the cluster>)
        in the current folder. It must not lie in the inventory.
    type: path
attributes:
  action:
    description: Runs as an action plugin on the controller.
    support: full
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
    details: Judges and shows everything, and writes no file.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Use it with C(run_once). It says the same for every host.
  - >-
    C(preflight.json) has the keys C(schema) (now 1; it goes up when a key is renamed, removed or means something
    else), C(cluster), C(topology), C(seen) (when the last host was looked at), C(summary), C(groups) (findings with one
    way out, worst first), C(hosts), C(absent), C(waived) and C(rules).
  - C(facts.json) has the keys C(schema) (now 1), C(cluster), C(families), C(absent) and C(hosts), by host
    what the modules returned. Values of environment variables can be in it, so files get mode 0640.
  - C(junit.xml) has a test case for each rule; C(preflight.html) is one file without anything to load.
seealso:
  - module: mooncake.pd.plan_report
"""

EXAMPLES = r"""
- name: Report every problem of every host
  mooncake.pd.preflight_report:
    results:
      host: [look_at_host]
      ports: [look_at_ports]
  run_once: true

- name: Judge once more what an earlier run has seen
  mooncake.pd.preflight_report:
    facts: preflight/npu/facts.json
  run_once: true
"""

RETURN = r"""
summary:
  description: Counts. After a failure they stand in C(preflight.json).
  returned: success
  type: dict
  contains:
    hosts:
      description: Hosts of the plan.
      type: int
    looked_at:
      description: Hosts that were looked at.
      type: int
    absent:
      description: Hosts that were not.
      type: int
    errors:
      description: Findings that end the play.
      type: int
    warnings:
      description: Findings that are risky.
      type: int
    notices:
      description: Findings that are worth knowing.
      type: int
    waived:
      description: Findings that the topology accepts.
      type: int
    families:
      description: Families that were judged.
      type: list
      elements: str
files:
  description: What was written, or would be in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Absolute path of the file.
      type: str
    changed:
      description: Whether its content is another one than before.
      type: bool
"""
