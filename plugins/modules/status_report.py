# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: status_report
short_description: Tell how a service is, on one screen and as JSON
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Puts together what was seen of all hosts, engines and routers, and compares it with the plan in C(pd_host),
    C(pd_cluster) and C(pd_instances).
  - Shows a line for each instance and each service beside them, then what is wrong with the way out, and writes
    C(status.json).
  - Fails when something is down, not as planned or unknown. What C(--limit) leaves out is told and not judged.
  - Runs on the controller, once for all hosts. The playbook C(status.yml) has the tasks that look before it.
options:
  units:
    description: Name under which the result of M(mooncake.pd.units_info) was registered on each host.
    type: str
    default: __status_units
  running:
    description:
      - Name of the fact with what differs from the plan on a host, as the role C(mooncake.pd.instance) sets it in its
        C(compare.yml).
    type: str
    default: instance_running
  uncompared:
    description: Name of the fact with the reason why a host could not be compared.
    type: str
    default: __status_uncompared
  asked:
    description:
      - Name under which the answers of the health addresses of services were registered, of M(ansible.builtin.uri) in a
        loop over processes of the plan.
    type: str
    default: __status_asked
  engines:
    description: Name under which the result of M(mooncake.pd.vllm_info) was registered on one host.
    type: str
    default: __status_engines
  routers:
    description: Name under which the result of M(mooncake.pd.router_worker) was registered on the router's host.
    type: str
    default: __status_routers
  etcd:
    description: Name under which the result of M(mooncake.pd.etcd_info) was registered on the members of etcd.
    type: str
    default: __etcd_asked
  dest:
    description:
      - Folder on the controller for C(status.json), made when it is missing. By default C(status/<name of the cluster>)
        in the current folder. It must not lie in the inventory.
    type: path
  format:
    description: V(json) shows no table and returns the document as RV(status).
    type: str
    choices: [text, json]
    default: text
  every:
    description: Whether every instance has a line of its own; else, with many, those that are well are shown as one.
    type: bool
    default: false
attributes:
  action:
    description: Runs as an action plugin on the controller.
    support: full
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
    details: Shows everything, and writes no file.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Use it with C(run_once). It says the same for every host.
  - >-
    C(status.json) has the keys C(schema) (now 1; it goes up when a key is renamed, removed or means something else),
    C(cluster), C(topology), C(seen) and C(now) (when, as text and in seconds since the epoch), C(ok), C(summary),
    C(instances), C(services), C(left_out) (hosts) and C(problems).
  - >-
    Each of C(instances) has C(name), C(kind), C(hosts), C(ok), C(planned) and C(up) (units), C(health) (V(healthy),
    V(not healthy), V(down), V(unknown)), C(in_router) (V(yes), V(out) when it was taken out, V(no), a part as in
    V(1 of 2), V(unknown), or null), C(version), C(running) and C(waiting) (requests), C(kv_usage) (0 to 1),
    C(external_tokens) and C(local_tokens) (of prompts since its start), C(since) (seconds since the epoch),
    C(restarts), C(memory) (bytes), C(plan) (V(as planned), V(other arguments), V(not installed), V(not running),
    V(unknown)), C(units) and C(servers). What is not known is null.
  - >-
    Each of C(services) has C(name), C(kind), C(host), C(unit), C(ok), C(state), C(health), C(role) (V(leader) or
    V(follower) of a member of etcd, V(leader) or V(standby) of one of several masters, else null), C(db_size) and
    C(db_quota) (bytes of the database of a member of etcd, and beyond which it takes no writes, else null), C(why),
    C(since), C(restarts), C(memory) and C(plan); each of C(problems) has C(rule), C(severity) (V(error) or V(notice)),
    C(name), C(host), C(what) and C(fix).
seealso:
  - module: mooncake.pd.units_info
  - module: mooncake.pd.vllm_info
  - module: mooncake.pd.router_worker
"""

EXAMPLES = r"""
- name: Tell how the service is
  mooncake.pd.status_report:
  run_once: true

- name: Hand it to a script
  mooncake.pd.status_report:
    format: json
  register: told
  run_once: true
"""

RETURN = r"""
summary:
  description: How many there are of each.
  returned: success
  type: dict
  contains:
    hosts:
      description: Hosts of the topology.
      type: int
    looked_at:
      description: Hosts whose units were seen.
      type: int
    instances:
      description: Instances of the topology.
      type: int
    judged:
      description: Those that C(--limit) leaves no host out of.
      type: int
    as_planned:
      description: Those that are as planned and healthy.
      type: int
    errors:
      description: What makes the status a bad one.
      type: int
    notices:
      description: What is worth knowing.
      type: int
files:
  description: What was written, or would be in check mode.
  returned: success
  type: list
  elements: dict
  sample:
    - {path: /home/ops/status/sandbox/status.json, changed: true}
status:
  description: The document that C(status.json) holds.
  returned: always, with O(format=json)
  type: dict
"""
