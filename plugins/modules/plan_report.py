# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_report
short_description: Show the plan of a topology and write it as JSON and as a page
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Plans a topology as the inventory plugin P(mooncake.pd.topology#inventory) does, shows hosts, processes, ports,
    start order, warnings, waivers and chosen ports as a table, and writes C(plan.json) and C(plan.html).
  - Runs on the controller only and contacts no host.
  - C(plan.html) is one file without anything to load, to look at, to print and to send. C(plan.json) is the same plan
    for scripts.
  - Neither has a date in it, so a plan that is the same is the same file.
options:
  topology:
    description:
      - The topology file. By default the one that the inventory was made from, which is C(pd_cluster.source) of the
        first host in group C(pd). Hosts in that group that it does not name are an error then, because they come
        from a second topology.
    type: path
  dest:
    description:
      - Folder for C(plan.json) and C(plan.html), made when it is missing. By default C(plan/<name of the cluster>) in
        the current folder.
      - Refused are a folder that C(-i) names and all folders in it, because Ansible would read C(plan.json) there as an
        inventory. Where C(-i) names a file, its folder itself is refused too, and C(group_vars) and C(host_vars) in it.
      - Files that are written get mode 0640 and the group that new files in the folder get, for instance that of a
        folder with the setgid bit. A link in place of a file is replaced, not followed.
    type: path
  apart:
    description:
      - With more hosts than this the table shows hosts that differ in names and addresses only as one. C(plan.html) and
        C(plan.json) have every host.
    type: int
    default: 32
attributes:
  action:
    description: Runs as an action plugin on the controller.
    support: full
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Shows the table before and after, or C(plan.json) where the table is the same.
    support: full
    details: Of C(plan.json).
notes:
  - Run it once, on C(localhost); it says the same for every host.
  - Values of environment variables stand readable in C(plan.json), as they do in the unit files. That is why not
    everybody may read what is written.
  - >-
    C(plan.json) has the keys C(schema) (now 1; it goes up when a key is renamed, removed or means something else),
    C(cluster) (the variable C(pd_cluster), without the findings), C(hosts) (by name, the variable C(pd_host), and
    C(chips), the NPUs of the host if the topology tells), C(start_order), C(warnings), C(waived) and C(choices).
  - >-
    C(start_order) is a list of C({wave, name, members}), C(members) of C({name, hosts, processes}). A wave is proven
    ready before the next begins.
  - >-
    C(warnings) are a list of C({rule, where, message, fix, line}), C(waived) of C({rule, where, message, fix, reason}),
    C(choices) of C({where, value, why}).
seealso:
  - plugin: mooncake.pd.topology
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Show the plan
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Show the plan of the inventory and write it to plan/NAME
      mooncake.pd.plan_report:

    - name: Show the plan of a file
      mooncake.pd.plan_report:
        topology: inventories/mine/topology.yml
        dest: /srv/plan/mine
"""

RETURN = r"""
table:
  description: The table as it was shown.
  returned: success
  type: str
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
  sample:
    - {path: /home/ops/plan/sandbox/plan.json, changed: true}
    - {path: /home/ops/plan/sandbox/plan.html, changed: true}
summary:
  description: How many there are of each.
  returned: success
  type: dict
  contains:
    hosts:
      description: Hosts of the topology.
      type: int
    processes:
      description: Processes on all hosts.
      type: int
    prefill:
      description: Prefill instances.
      type: int
    decode:
      description: Decode instances.
      type: int
    devices:
      description: NPUs that are used.
      type: int
    warnings:
      description: Warnings.
      type: int
    waived:
      description: Findings that the topology waives.
      type: int
    choices:
      description: Ports that the plan chose.
      type: int
"""
