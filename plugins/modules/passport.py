# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: passport
short_description: Keep what was proven of a cluster, and compare a plan with it
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - A passport says what a cluster was when it was last proven, that is its instances with hosts, addresses and the
    digest of every planned unit, the facts on which prefill and decode have to agree, the topology file, and the proof.
  - Rolls read from it what they change, and scaling reads what is no longer planned and has to be stopped.
  - Runs on the controller only and contacts no host.
options:
  state:
    description:
      - V(proven) keeps the plan as the newest passport, unless it is what the newest one says already. Call it after
        a proof. What M(mooncake.pd.roll_plan) has noted of a restart is removed when all of it was restarted.
      - V(latest) returns the newest passport.
      - V(compare) compares the plan with the newest passport.
    type: str
    required: true
    choices: [proven, latest, compare]
  dest:
    description:
      - Folder with the passports. By default C(passport/<name of the cluster>) in the current folder. One that C(-i)
        names, or in it, is refused, because Ansible would read the files as an inventory.
    type: path
  keep:
    description: With O(state=proven), how many passports are kept. Older ones are removed, other files never.
    type: int
    default: 10
  proof:
    description:
      - With O(state=proven), what the proof returned. It is kept as it is, without secrets.
      - By default what the role smoke has registered as C(smoke_result) on the router's host.
    type: dict
  stale:
    description:
      - With O(state=proven), instances that still run what they ran before. What the last passport says of them stays;
        of one that it does not know nothing is said. The topology that it holds stays, too.
      - By default those of which C(instance_running) of the engine hosts does not say that all of their processes run
        as planned; none when no host has said anything.
    type: list
    elements: str
  removed:
    description:
      - With O(state=proven), whether what has left the plan was removed from its hosts. Else the passport goes on
        naming it, so that C(state=compare) can tell it.
    type: bool
    default: false
attributes:
  action:
    description: Runs as an action plugin on the controller.
    support: full
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
    details: Of the facts, hosts and digests.
notes:
  - Run it once; it says the same for every host.
  - >-
    Values of variables, options and keys whose names look like a secret are not kept, only eight digits of their
    digest, so that a change shows. In the text of the topology they are C(***); what Ansible Vault has encrypted stays
    encrypted. Files get mode 0640.
  - Files are called C(<number>_<time>.json). The one with the highest number is the newest.
seealso:
  - module: mooncake.pd.roll_plan
"""

EXAMPLES = r"""
- name: Keep what was proven
  mooncake.pd.passport:
    state: proven
    proof: "{{ smoke }}"
  run_once: true

- name: See what is no longer planned
  mooncake.pd.passport:
    state: compare
  register: passport
  run_once: true

- name: Show it
  ansible.builtin.debug:
    msg: "{{ passport.comparison.removed | map(attribute='name') | list }}"
  when: passport.comparison is not none
"""

RETURN = r"""
file:
  description: Path of the newest passport, none without one. In check mode the one that would be written.
  returned: success
  type: str
  sample: /home/ops/passport/npu/0003_2026-11-30T093512Z.json
passport:
  description: The newest passport, none without one.
  returned: success
  type: dict
  contains:
    schema:
      description: Now 1. It goes up when a key is renamed, removed or means something else.
      type: int
    cluster:
      description: Name of the cluster.
      type: str
    written:
      description: When it was first proven like this, UTC.
      type: str
    versions:
      description: Planned releases, as C(engine) and C(mooncake). What each instance ran stands in its facts.
      type: dict
    router:
      description: The front door, as C(kind), C(contract) and C(url).
      type: dict
    instances:
      description: Its instances.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the instance.
          type: str
        kind:
          description: V(prefill) or V(decode).
          type: str
        hosts:
          description: Its hosts, each with C(name) and C(address).
          type: list
          elements: dict
        shape:
          description: Its sizes, as in C(pd_instances).
          type: dict
        api_urls:
          description: Its APIs.
          type: list
          elements: str
        bootstrap_urls:
          description: Where decode asks for it.
          type: list
          elements: str
        processes:
          description: Its processes, each with C(name), C(host), C(unit) and C(digest) of the planned unit.
          type: list
          elements: dict
        facts:
          description: What was planned for it, by name, such as C(engine.version) or C(args.--block-size).
          type: dict
    processes:
      description: Routers and master, as the processes of an instance, and C(kind) and C(address).
      type: list
      elements: dict
    topology:
      description: The file, as C(source), its path, C(text), and C(complete), whether no secret was taken out of it.
      type: dict
    proof:
      description: What the proof returned.
      type: dict
removed:
  description: Old passports that were removed.
  returned: O(state=proven)
  type: list
  elements: str
comparison:
  description: How the plan differs from the newest passport. None without one.
  returned: O(state=compare)
  type: dict
  contains:
    added:
      description: Instances that are only in the plan, as in RV(passport.instances).
      type: list
      elements: dict
    removed:
      description: Instances that are only in the passport. Their hosts may not be in the inventory any more.
      type: list
      elements: dict
    leaving:
      description: The same instances as elements of C(pd_instances), for M(mooncake.pd.router_worker).
      type: list
      elements: dict
    added_hosts:
      description: Hosts of RV(comparison.added), with what of it is there.
      type: list
      elements: dict
      contains: &hosts
        name:
          description: Name of the host.
          type: str
        address:
          description: Its address.
          type: str
        instances:
          description: Names of the instances that it has a part of.
          type: list
          elements: str
        units:
          description: Units of these on this host, with those of their supervisors.
          type: list
          elements: str
        supervisors:
          description: Those of RV(comparison.added_hosts[].units) that are supervisors.
          type: list
          elements: str
        bootstrap_urls:
          description: Where decode asks for these instances, for M(mooncake.pd.kv_drained).
          type: list
          elements: str
    removed_hosts:
      description: Hosts of RV(comparison.removed), in the same form, by the passport.
      type: list
      elements: dict
      contains: *hosts
    turned:
      description:
        - Instances in RV(comparison.added) of which RV(comparison.removed) has one of the same name, each with C(name),
          C(kind), and C(before), the kind that was proven. Their units have the same names, so one has to be removed
          before the other is added.
      type: list
      elements: dict
    changed:
      description: Instances in both whose units or facts differ, each with C(name), C(kind) and C(changes).
      type: list
      elements: dict
    moved:
      description: Instances that are planned on other hosts, each with C(name), C(kind), C(before) and C(after).
      type: list
      elements: dict
    unchanged:
      description: Names of all others.
      type: list
      elements: str
    verdict:
      description: The worst class of the changes, V(none), V(free), V(together) or V(refuse).
      type: str
    ratio:
      description: Prefill against decode, as C(text), C(now), C(before) and C(warnings).
      type: dict
"""
