# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: roll_plan
short_description: Put the instances that have to restart into waves
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Says in which order the instances of a cluster are taken out of the router, restarted and put back, so that enough
    of each kind serve at any time; or fails with everything that speaks against it, before anything is touched.
  - Runs on the controller only, contacts no host and changes nothing there. It needs what others found out, that is
    C(instance_running) of every engine host, O(health) and O(out).
  - An instance is taken with all its hosts and ranks. What an earlier run left comes first, that is what is out of the
    router, down, or runs in part; then a canary of each kind that runs something else than planned; then the rest, in
    waves of both kinds, as a decode that is out beside a prefill takes nothing more away. So a run that was interrupted
    is resumed by running it again.
  - Compares the plan with the last passport of M(mooncake.pd.passport). A change on which prefill and decode have to
    agree, made on both sides, must not let old and new instances meet. The instances then go in two halves, and the
    second half is taken out in the moment in which the first one is put back. Without a passport, and for what is not
    known, it is taken to be such a change.
options:
  health:
    description:
      - What M(mooncake.pd.vllm_info) returned as RV(mooncake.pd.vllm_info#module:instances) of all instances.
      - By default what a task on the router's host has registered as C(roll_engines).
    type: list
    elements: dict
  out:
    description:
      - Names of instances that the routers have taken out already.
      - By default RV(mooncake.pd.router_worker#module:out) of what a task on the router's host has registered as
        C(roll_routers).
    type: list
    elements: str
  only:
    description:
      - Instances that may be rolled, by name or by kind (V(prefill), V(decode)). A list, or text with commas. By
        default all.
    type: raw
  restart:
    description:
      - Restart also what runs as planned.
      - What runs when that begins is noted in O(passports) as C(restart.json), to be removed after the last wave, see
        RV(note). A run that was interrupted is so resumed by the same one, also when C(--limit) leaves out a host that
        is lost; what has been restarted since is not restarted again. Remove the file to begin anew.
    type: bool
    default: false
  batch:
    description:
      - How many instances of one kind may be out at once, as a number, or as a percentage of the planned ones such as
        V(25%), rounded down to at least 1. Instances that share a host are not taken together, and never so many that
        O(min_healthy) would not be kept.
    type: str
    default: "1"
  canary:
    description: Most instances of a kind in the first wave that has it; V(0) is no canary.
    type: int
    default: 1
  min_healthy:
    description: How many instances go on serving, each as a number or as a percentage of the planned ones, rounded up.
    type: dict
    suboptions:
      prefill:
        description: Of prefill.
        type: str
        default: "1"
      decode:
        description: Of decode.
        type: str
        default: "1"
  downtime:
    description:
      - Accept that nothing is served for a while. Whatever cannot be rolled within O(min_healthy), or with old and new
        apart, becomes one wave then.
    type: bool
    default: false
  mix:
    description:
      - Let old and new instances serve together, although a change of the plan, or the lack of a passport, speaks
        against it. Changes that clients or routers would see are refused all the same.
    type: bool
    default: false
  left_out:
    description:
      - Engine hosts that C(--limit) leaves out. By default those of group C(engine) that the play of this task does not
        have; none when it has no engine host at all, such as a play on C(localhost).
    type: list
    elements: str
  passports:
    description: Folder with the passports. By default C(passport/<name of the cluster>) in the current folder.
    type: path
attributes:
  action:
    description: Runs as an action plugin on the controller.
    support: full
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
    details: It changes nothing on hosts, and in check mode notes nothing.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - >-
    Run it once. Each engine host needs the fact C(instance_running), a list of C({name, instance, active, outdated,
    installed, invocation_id}) with one entry for each of its planned processes. A host without it counts as unknown,
    and unknown instances are not rolled.
  - An instance counts as one that serves when it is healthy and not in O(out).
  - >-
    Rules of RV(refusals): C(setting-invalid), C(only-unknown), C(state-unknown), C(health-unknown), C(limit-splits),
    C(no-partner), C(min-healthy), C(coherence-halves), C(coherence-partial) and C(coherence-refused).
seealso:
  - module: mooncake.pd.passport
  - module: mooncake.pd.units
"""

EXAMPLES = r"""
- name: Plan the waves
  mooncake.pd.roll_plan:
    health: "{{ seen.instances }}"
    out: "{{ routers.out }}"
    batch: 25%
    min_healthy:
      prefill: 50%
      decode: "2"
  register: roll
  run_once: true

- name: Plan a restart of two instances
  mooncake.pd.roll_plan:
    health: "{{ seen.instances }}"
    only: p1,d2
    restart: true
  run_once: true
"""

RETURN = r"""
instances:
  description: The variable C(pd_instances), which only the router's host has.
  returned: success
  type: list
  elements: dict
out:
  description: Instances that were out of the routers before.
  returned: success
  type: list
  elements: str
note:
  description:
    - The file that notes what ran when the restart began, to be removed after the last wave. None without O(restart).
  returned: success
  type: str
waves:
  description: The waves in their order. Without any there is nothing to do.
  returned: success
  type: list
  elements: dict
  contains:
    number:
      description: Place of the wave, from 1 on.
      type: int
    name:
      description: Its instances, to be shown.
      type: str
    instances:
      description: Instances that are taken out, proven and put back, prefill first.
      type: list
      elements: str
    restart:
      description: Those of them that have to be stopped and started. The others run as planned already.
      type: list
      elements: str
    kinds:
      description: Kinds of the instances.
      type: list
      elements: str
    hosts:
      description: All hosts of the instances.
      type: list
      elements: str
    canary:
      description: Whether it is the first of its kind to run what is planned.
      type: bool
    returns:
      description: Whether it is a canary that can get back what it ran before. All of it runs, and not all as planned.
      type: bool
    downtime:
      description: Whether nothing is served while it is out.
      type: bool
    hold:
      description: Whether it stays out when it is proven, until the next wave puts it back.
      type: bool
    swap:
      description: Whether RV(waves[].back) goes in in the moment in which this wave is taken out.
      type: bool
    back:
      description: Instances of the wave before that are put back then.
      type: list
      elements: str
    partners:
      description: Instances that its proof may use as the other side; its own are among them.
      type: list
      elements: str
    min_healthy:
      description: How many of each kind have to go on serving.
      type: dict
      contains:
        prefill:
          description: Of prefill.
          type: int
        decode:
          description: Of decode.
          type: int
    serving:
      description: How many of each kind serve while the wave is out.
      type: dict
      contains:
        prefill:
          description: Of prefill.
          type: int
        decode:
          description: Of decode.
          type: int
    why:
      description: By instance, why it is in a wave.
      type: dict
  sample:
    - number: 1
      name: p1
      instances: [p1]
      restart: [p1]
      kinds: [prefill]
      hosts: [npu1]
      canary: true
      returns: true
      downtime: false
      hold: false
      swap: false
      back: []
      partners: [p1, p2, d1, d2]
      min_healthy: {prefill: 1, decode: 1}
      serving: {prefill: 1, decode: 2}
      why: {p1: runs something else than planned}
summary:
  description: What is about to happen, in a sentence.
  returned: success
  type: str
notes:
  description: What is worth knowing, a sentence each, such as which instances are left as they are.
  returned: always
  type: list
  elements: str
coherence:
  description: What changes between the last passport and the plan, for instances that run something else than planned.
  returned: always
  type: dict
  contains:
    verdict:
      description:
        - V(none) when all run what is planned, V(free) when old and new may serve together, V(together) when they must
          not meet, V(refuse) when clients or routers would see the change.
      type: str
    against:
      description: Path of the passport, none without one.
      type: str
    unproven:
      description: Instances that run something else than planned and of which the passport does not tell.
      type: list
      elements: str
    changes:
      description: What changes, the worst first.
      type: list
      elements: dict
      contains:
        fact:
          description: What changes, such as C(engine.version), C(args.--block-size) or C(env.PYTHONHASHSEED).
          type: str
        kinds:
          description: Kinds of the instances.
          type: list
          elements: str
        instances:
          description: Instances for which it changes like this.
          type: list
          elements: str
        before:
          description: Value in the passport, none when it was not given.
          type: raw
        after:
          description: Value in the plan, none when it is not given.
          type: raw
        cls:
          description: V(free), V(together) or V(refuse), see RV(coherence.verdict).
          type: str
        known:
          description: Whether something is known about it. What is not known is V(together).
          type: bool
        why:
          description: Why it is of that class.
          type: str
        source:
          description: Where that is known from.
          type: str
ratio:
  description: Prefill against decode.
  returned: success
  type: dict
  contains:
    text:
      description: The sentence.
      type: str
      sample: P:D is 2 prefill to 2 decode, 1:1 (workers 2 to 2).
    now:
      description: Planned instances of each kind, and their C(workers).
      type: dict
    before:
      description: The same of the last passport, none without one.
      type: dict
    warnings:
      description: What looks like a mistake, a sentence each.
      type: list
      elements: str
refusals:
  description: Everything that speaks against rolling. RV(ignore:msg) has it as text.
  returned: failure
  type: list
  elements: dict
  contains:
    rule:
      description: Its id.
      type: str
    where:
      description: Instance, kind, option or fact that it is about.
      type: str
    message:
      description: What is wrong.
      type: str
    fix:
      description: The way out.
      type: str
"""
