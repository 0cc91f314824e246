# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drill_plan
short_description: Decide who loses what in a drill, or say what speaks against it
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Takes what the hosts of the play registered, and refuses a drill whose loss would not be survived, such as that of
    the only master, of a member of etcd without which there is no quorum, or of a node of the KV pool that the others
    have no room for. All that speaks against it is told at once.
  - Shows what will be done, what it costs, and who watches.
  - Runs on the controller, once for all hosts. It changes nothing.
options:
  drill:
    description:
      - V(master) kills the master that leads.
      - V(etcd) stops a member of etcd for O(hold).
      - V(store) restarts a node of the KV pool.
      - V(fill) fills the KV pool until the master evicts.
    type: str
    choices: [master, etcd, store, fill]
    required: true
  confirm:
    description: Whether it is really to be done. Otherwise, and in check mode, it is only shown.
    type: bool
    default: false
  host:
    description: For V(etcd) and V(store), who loses it. By default the member that leads, and the first node.
    type: str
    default: ""
  objects:
    description: How many objects are put into the pool before, to see which of them are lost.
    type: int
    default: 64
  size:
    description: Bytes of an object.
    type: int
    default: 1048576
  most:
    description: For V(fill), bytes that may be put.
    type: int
    default: 68719476736
  hold:
    description: For V(etcd), seconds for which the member is stopped.
    type: float
    default: 15
  router_url:
    description: Where clients ask. Empty when there is no router.
    type: str
    default: ""
  limits:
    description: What it may cost.
    type: dict
    suboptions:
      leader:
        description: Seconds without a master that serves.
        type: float
        default: 30
      etcd:
        description: Seconds in which not all of the other members of etcd serve.
        type: float
        default: 5
      back:
        description: Seconds until what was lost answers again.
        type: float
        default: 60
      pool:
        description: Seconds without the KV pool. With V(store) C(client_ttl) of the master is added.
        type: float
        default: 45
      requests:
        description: Requests of clients that may fail.
        type: int
        default: 0
      lost:
        description: >-
          Share of the objects that may be lost. Below 0 it is 1 for V(master), 0 for V(etcd), for V(store) the share
          of the node and 0.2.
        type: float
        default: -1
      refused:
        description: For V(fill), share of the puts that may find no room.
        type: float
        default: 0.2
  reached:
    description: Variable with any result of a host that was reached.
    type: str
    default: __drill_tool
  master:
    description: Variable in which the result of M(mooncake.pd.master_info) was registered.
    type: str
    default: __drill_master
  etcd:
    description: Variable in which the result of M(mooncake.pd.etcd_info) was registered.
    type: str
    default: __etcd_asked
  tool:
    description: Variable with the result of M(ansible.builtin.stat) of the Python that has Mooncake.
    type: str
    default: __drill_tool
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
seealso:
  - module: mooncake.pd.drill
  - module: mooncake.pd.drill_report
"""

EXAMPLES = r"""
- name: Plan the loss of the master
  mooncake.pd.drill_plan:
    drill: master
    confirm: "{{ drill_confirm | default(false) }}"
  run_once: true
  register: planned
"""

RETURN = r"""
go:
  description: Whether it is to be done.
  returned: when nothing speaks against it
  type: bool
drill:
  description: >-
    C(name), C(target), C(watcher), C(hosts) (both), C(unit), C(strike), C(probes) and C(pool) as M(mooncake.pd.drill)
    takes them, C(limits), C(least), C(timeout), C(costs), C(unwatched).
  returned: when nothing speaks against it
  type: dict
refusals:
  description: What speaks against it, with C(rule), C(what) and C(fix).
  returned: when something does
  type: list
  elements: dict
"""
