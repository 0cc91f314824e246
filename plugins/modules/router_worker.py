# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: router_worker
short_description: Take instances out of the routers and put them back, without losing a request
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Runs on the router host, as root. With O(state=drained) it returns when no router sends anything to the instances
    any more and nothing runs in them; only then may they be stopped. With O(state=present) it returns when every router
    sends to them again.
  - What is taken out stays out, also when a router or the host restarts, until it is put back. The names stand in
    C(/var/lib/mooncake-pd-host/router-out.json). A name that is no longer among O(instances) is dropped from it.
  - The routers of the role C(mooncake.pd.router) are changed by its watcher only, one after the other where one has to
    restart (to add a worker, always; to take one out, with C(ascend_layerwise)). This module writes the file and looks
    until it is proven. Without a running watcher nothing is changed.
  - That nothing runs is told by the instance itself (C(vllm:num_requests_running), C(vllm:num_requests_waiting)) and by
    the routers' gauges for it, in two looks that lie O(settle) apart. A server that refuses connections runs nothing;
    one that does not answer may run anything.
  - After a failure an instance that was taken out stays out.
attributes:
  check_mode:
    description: Can run in check mode, and predicts what would change without waiting for it.
    support: full
  diff_mode:
    description: Shows which names are out, before and after.
    support: full
options:
  kind:
    description:
      - What the routers are. C(vllm_router) and C(ascend_layerwise) are those that the role C(mooncake.pd.router) runs.
      - C(ascend_pull) is vLLM-Ascend's C(load_balance_proxy_server_example.py), which that role does not run. While
        there is traffic, such a proxy only isolates what is removed. Releases such as v0.23.0 end an isolation only
        when no request runs at all, so under steady traffic O(state=present) fails with them.
    type: str
    choices: [vllm_router, ascend_layerwise, ascend_pull]
    required: true
  routers:
    description: All routers of the service, as in C(pd_cluster.router.backends).
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the router. For the role's own routers its unit is C(mooncake-pd-NAME.service).
        type: str
        required: true
      address:
        description: Address on which it listens.
        type: str
        required: true
      port:
        description: Port on which it listens.
        type: int
        required: true
  instances:
    description: All prefill and decode instances of the service, as in C(pd_instances).
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the instance.
        type: str
        required: true
      kind:
        description: What the instance does.
        type: str
        choices: [prefill, decode]
        required: true
      hosts:
        description: Hosts of the instance. Not used.
        type: list
        elements: str
      api_urls:
        description: URLs of its API servers, spelled as the routers know them.
        type: list
        elements: str
        required: true
      bootstrap_urls:
        description:
          - URLs of its bootstrap servers, where it has any.
          - Such an instance is healthy only when they tell its engine ids.
        type: list
        elements: str
      shape:
        description: Sizes of the instance. Not used.
        type: dict
  names:
    description: Names of the instances to act on. Needed with O(state=drained); otherwise the default is all.
    type: list
    elements: str
  back:
    description:
      - With O(state=drained), names of the instances to put back in the same moment in which O(names) leave.
      - A router that would be left without any of a kind goes from the old members straight to the new ones, by one
        restart.
    type: list
    elements: str
    default: []
  state:
    description:
      - C(drained) takes O(names) out of all routers, and waits until nothing runs in them.
      - C(present) puts O(names) back, and waits until all routers send to them.
      - C(listed) only tells.
    type: str
    choices: [present, drained, listed]
    default: present
  healthy_only:
    description:
      - With O(state=present), whether those of O(names) that are not healthy are left as they are, and told in
        RV(left_out).
      - Otherwise one that is not healthy is an error, and nothing is changed.
    type: bool
    default: false
  min_healthy:
    description:
      - With O(state=drained), how many healthy instances of a kind every router must keep, or nothing is changed.
      - What is taken out may go below that when it serves nothing anyway.
    type: dict
    default: {}
    suboptions:
      prefill:
        description: Prefill instances. With V(0) the service may stop.
        type: int
        default: 1
      decode:
        description: Decode instances. With V(0) the service may stop.
        type: int
        default: 1
  drain_timeout:
    description: With O(state=drained), seconds until nothing runs in the instances any more.
    type: int
    default: 600
  settle:
    description: Seconds between the two looks that both have to find nothing running.
    type: float
    default: 1
  kv_timeout:
    description:
      - With O(state=drained), seconds for which blocks in a prefill are waited for although nothing runs there.
      - A decode may still fetch them, or a client has gone and nobody ever will. The default is after how long vLLM's
        MooncakeConnector frees them by itself (C(VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT)).
    type: int
    default: 480
  ready_timeout:
    description:
      - Seconds until all routers have changed.
      - A router that restarts lets its running requests end, one router after the other, so this may take twice their
        drain timeout.
    type: int
    default: 900
"""

EXAMPLES = r"""
- name: Take a decode out, and wait until it has nothing to do
  mooncake.pd.router_worker:
    kind: "{{ pd_cluster.router.kind }}"
    routers: "{{ pd_cluster.router.backends }}"
    instances: "{{ pd_instances }}"
    names: [d1]
    state: drained

- name: Put it back when it is healthy
  mooncake.pd.router_worker:
    kind: "{{ pd_cluster.router.kind }}"
    routers: "{{ pd_cluster.router.backends }}"
    instances: "{{ pd_instances }}"
    names: [d1]

- name: Change one half of the service for the other
  mooncake.pd.router_worker:
    kind: "{{ pd_cluster.router.kind }}"
    routers: "{{ pd_cluster.router.backends }}"
    instances: "{{ pd_instances }}"
    names: [p2, d2]
    back: [p1, d1]
    state: drained

- name: Put back whatever is healthy
  mooncake.pd.router_worker:
    kind: "{{ pd_cluster.router.kind }}"
    routers: "{{ pd_cluster.router.backends }}"
    instances: "{{ pd_instances }}"
    healthy_only: true

- name: See who serves
  mooncake.pd.router_worker:
    kind: "{{ pd_cluster.router.kind }}"
    routers: "{{ pd_cluster.router.backends }}"
    instances: "{{ pd_instances }}"
    state: listed
  register: rotation
"""

RETURN = r"""
routers:
  description: The routers after the module, in check mode as they are.
  returned: always, also in a failure; empty when they were not looked at
  type: list
  elements: dict
  contains:
    name:
      description: Name of the router.
      type: str
    url:
      description: Where it listens.
      type: str
    ready:
      description: Whether it says that it can serve.
      type: bool
    restarted:
      description: Whether it was restarted meanwhile; in check mode, whether it would be.
      type: bool
    workers:
      description:
        - API servers that it sends to. Empty when it does not run, or waits for an instance.
        - A proxy of kind C(ascend_pull) names those that it only isolates too.
      type: list
      elements: dict
      contains:
        url:
          description: URL of the API server.
          type: str
        instance:
          description: Name of its instance; V(null) when it is not among O(instances).
          type: str
        kind:
          description: C(prefill) or C(decode).
          type: str
        healthy:
          description: Whether the router holds it for healthy; V(null) when it does not look.
          type: bool
  sample:
    - name: router-a
      url: http://127.0.0.1:18001
      ready: true
      restarted: false
      workers:
        - {url: "http://10.0.0.11:8100", instance: p1, kind: prefill, healthy: true}
        - {url: "http://10.0.0.22:8200", instance: d2, kind: decode, healthy: true}
out:
  description: Names of the instances that are out; in check mode, that would be.
  returned: always, also in a failure
  type: list
  elements: str
  sample: [d1]
drained:
  description: Instances that were proven to run nothing. Empty in check mode.
  returned: always, also in a failure
  type: list
  elements: dict
  contains:
    name:
      description: Name of the instance.
      type: str
    seconds:
      description: Seconds from the moment in which no router had it any more to the proof.
      type: float
    kv_waited_out:
      description: Whether it still held blocks after O(kv_timeout) in which nothing ran.
      type: bool
  sample:
    - {name: d1, seconds: 3.1, kv_waited_out: false}
left_out:
  description: With O(healthy_only), those that were left as they are.
  returned: always, also in a failure
  type: list
  elements: dict
  contains:
    name:
      description: Name of the instance.
      type: str
    why:
      description: What is wrong with it.
      type: str
  sample:
    - {name: d1, why: "http://10.0.0.21:8200/health answered 503"}
"""

import time
from typing import Any, Dict, List, Optional, Sequence

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import router_out, vllm_look
from ansible_collections.mooncake.pd.plugins.module_utils.pd_instances import INSTANCE_OPTIONS, problems_of
from ansible_collections.mooncake.pd.plugins.module_utils.router_look import Seen
from ansible_collections.mooncake.pd.plugins.module_utils.router_rotation import (
    SETTLE,
    START,
    Pulling,
    Rotation,
    RotationError,
    Watched,
)
from ansible_collections.mooncake.pd.plugins.module_utils.router_rules import Drain, held, too_few, under_way, unwell
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_api import ApiError, Client

OUT = router_out.FILE
ANSWER_TIMEOUT = 10.0  # seconds for one answer of a router or an API server
INTERVAL = 0.5  # seconds between looks

Facts = Dict[str, Any]


class RouterWorker:
    """One run of the module: look at everything, complain about everything, then change, then prove."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        params = module.params
        self.instances: List[Facts] = [
            {**instance, "api_urls": [url.rstrip("/") for url in instance["api_urls"]]}
            for instance in params["instances"]
        ]
        self.by_name: Dict[str, Facts] = {instance["name"]: instance for instance in self.instances}
        every = list(self.by_name)
        self.names: List[str] = every if params["names"] is None else list(dict.fromkeys(params["names"]))
        self.back: List[str] = list(dict.fromkeys(params["back"]))
        self.client = Client(ANSWER_TIMEOUT)
        self.rotation = self._rotation()
        self.before: router_out.Out = {}
        self.after: router_out.Out = {}
        self.seen: List[Seen] = []
        self.first: List[Seen] = []
        self.restarts: Dict[str, bool] = {}
        self.sick: Dict[str, str] = {}
        self.left_out: List[str] = []
        self.drained: List[Drain] = []
        self.changed = False

    def _rotation(self) -> Rotation:
        params = self.module.params
        common = (self.client, params["routers"], self.instances)
        if params["kind"] == "ascend_pull":
            return Pulling(self._prompts, OUT, *common)
        return Watched(self.module.run_command, OUT, params["kind"] == "vllm_router", *common)

    def _prompts(self, instances: Sequence[Facts]) -> Dict[str, Optional[int]]:
        found: Dict[str, Optional[int]] = {}
        for facts in vllm_look.look(self.client, instances):
            counts = [server["prompt_tokens"] for server in facts["servers"]]
            found[facts["name"]] = sum(sum(count.values()) for count in counts if count) if any(counts) else None
        return found

    def instances_of(self, names: Sequence[str]) -> List[Facts]:
        return [self.by_name[name] for name in names]

    # ---- before ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Everything that can be wrong before anything changes."""
        problems = problems_of(self.instances)
        problems += [
            f"{option}: {name} is no instance (there are {', '.join(self.by_name)})"
            for option, names in (("names", self.names), ("back", self.back))
            for name in names
            if name not in self.by_name
        ]
        problems += [f"{name} is in names and in back" for name in self.names if name in self.back]
        if self.module.params["state"] == "drained" and not self.names:
            problems.append("names: is empty, so nothing would be drained")
        if self.back and self.module.params["state"] != "drained":
            problems.append("back: goes with state drained only")
        if problems:
            self.fail("Nothing was changed.", problems)
        try:
            self.before = router_out.read(OUT)
        except router_out.OutError as error:
            problems.append(str(error))
        self.after = {name: urls for name, urls in self.before.items() if name in self.by_name}
        self.first = self.seen = self.rotation.look()
        problems += [f"{seen.problem}. {START}" for seen in self.seen if seen.problem]
        problems += [] if self.module.params["state"] == "listed" else self.rotation.problems()
        if problems:
            self.fail("Nothing was changed.", problems)

    def look_at_instances(self) -> None:
        for instance, facts in zip(self.instances, vllm_look.look(self.client, self.instances)):
            why = unwell(instance, facts)
            if why:
                self.sick[instance["name"]] = why

    def plan(self, leave: Sequence[str], come: Sequence[str]) -> None:
        """Who is out afterwards, and what that needs."""
        kept = {name for name in self.before if name not in come} | set(leave)
        # with the URLs of now: they may have changed since
        self.after = {name: list(its["api_urls"]) for name, its in self.by_name.items() if name in kept}
        leaving, coming = self.instances_of(leave), self.instances_of(come)
        self.restarts = {seen.name: self.rotation.restarts(seen, leaving, coming) for seen in self.seen}
        still = [seen for seen in self.seen if any(seen.has(url) for its in leaving for url in its["api_urls"])]
        # an isolated worker stays in the list of its proxy
        changes = isinstance(self.rotation, Watched) and still
        lacking = [seen for seen in self.seen if any(not seen.has(url) for its in coming for url in its["api_urls"])]
        self.changed = bool(self.after != self.before or changes or lacking)

    # ---- states ----------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        params = self.module.params
        self.look_at_instances()
        self.plan(self.names, self.back)
        idle = {**self.sick, **dict.fromkeys(self.before, "it is out already")}
        problems = [f"back: {name} cannot serve: {self.sick[name]}" for name in self.back if name in self.sick]
        few = too_few(self.instances, idle, self.seen, (self.names, self.back), params["min_healthy"])
        if few:
            problems += [
                *few,
                "Mend: wait until more are healthy, take out fewer, or set min_healthy to 0 to let the service stop.",
            ]
        if problems:
            self.changed, self.after = False, self.before
            self.fail("Nothing was changed.", problems)
        if self.module.check_mode:
            return
        try:
            self.rotation.take_out(self.after, self.instances_of(self.names), params["ready_timeout"])
            if self.back:
                self.rotation.take_in(self.after, self.instances_of(self.back), params["ready_timeout"], SETTLE)
        except (RotationError, ApiError) as error:
            self.stays_out(f"The routers did not take {', '.join(self.names)} out", str(error))
        self.wait_idle()

    def wait_idle(self) -> None:
        params = self.module.params
        began = time.monotonic()
        self.drained = [
            Drain(its, began, params["settle"], params["kv_timeout"]) for its in self.instances_of(self.names)
        ]
        while True:
            self.seen = self.rotation.look()
            unknown = [seen.problem for seen in self.seen if seen.problem]
            open_ones = [drain for drain in self.drained if not drain.done]
            looked = vllm_look.look(self.client, [drain.instance for drain in open_ones])
            now = time.monotonic()
            for drain, facts in zip(open_ones, looked):
                drain.see(
                    now, unknown + under_way(drain.instance, facts, self.seen) + self.returned(drain), held(facts)
                )
            open_ones = [drain for drain in self.drained if not drain.done]
            if not open_ones:
                return
            # blocks have a time of their own, which begins when nothing runs any more
            late = [drain for drain in open_ones if not drain.patient] if now - began >= params["drain_timeout"] else []
            if late:
                texts = "; ".join(text for drain in late for text in drain.texts)
                names = ", ".join(drain.instance["name"] for drain in late)
                self.stays_out(f"{names} is not proven idle after {params['drain_timeout']} s", texts)
            time.sleep(INTERVAL)

    def returned(self, drain: Drain) -> List[str]:
        """A router that started just when the file was written may have it for a moment."""
        if not isinstance(self.rotation, Watched):
            return []
        return [
            f"{seen.name} has {url} again" for seen in self.seen for url in drain.instance["api_urls"] if seen.has(url)
        ]

    def put_back(self) -> None:
        params = self.module.params
        self.look_at_instances()
        sick = [name for name in self.names if name in self.sick]
        if sick and not params["healthy_only"]:
            texts = [f"{name} cannot serve: {self.sick[name]}" for name in sick]
            self.fail(
                "Nothing was changed.", [*texts, "Mend: make it healthy, or set healthy_only to put back only who is."]
            )
        self.left_out = sick
        come = [name for name in self.names if name not in sick]
        self.plan([], come)
        if self.module.check_mode:
            return
        try:
            settle = SETTLE if self.changed else 0
            self.rotation.take_in(self.after, self.instances_of(come), params["ready_timeout"], settle)
        except (RotationError, ApiError) as error:
            self.fail(
                "Not all routers have everybody back:",
                [str(error), "Mend: see the logs of the routers and of their watcher, then run this again."],
            )

    # ---- telling ---------------------------------------------------------------------------------------------------

    def answer(self) -> Facts:
        names = {url: instance["name"] for instance in self.instances for url in instance["api_urls"]}
        processes = {seen.name: seen.process for seen in self.first}
        pretend = self.module.check_mode
        out, was = self.after, list(self.before)
        return {
            "changed": self.changed,
            "routers": [
                seen.facts(
                    names, self.restarts.get(seen.name, False) if pretend else processes[seen.name] != seen.process
                )
                for seen in self.seen
            ],
            "out": list(out),
            "drained": [drain.facts() for drain in self.drained if drain.done],
            "left_out": [{"name": name, "why": self.sick[name]} for name in self.left_out],
            "diff": {
                "before": "".join(f"{name} is out\n" for name in was),
                "after": "".join(f"{name} is out\n" for name in out),
            },
        }

    def stays_out(self, what: str, texts: str) -> None:
        self.fail(
            f"{what}:",
            [
                texts,
                f"{', '.join(self.names)} stays out. Mend: run this again when that is settled, or put it back with"
                " state present.",
            ],
        )

    def fail(self, what: str, texts: Sequence[str]) -> None:
        if self.changed and not self.module.check_mode:
            self.seen = self.rotation.look()
            self.after = router_out.read(OUT)
        self.module.fail_json(msg="\n".join([what, *texts]), **self.answer())

    def run(self) -> None:
        self.begin()
        state = self.module.params["state"]
        if state == "listed":
            self.after = self.before
        elif state == "drained":
            self.drain()
        else:
            self.put_back()
        if self.changed and not self.module.check_mode:
            self.seen = self.rotation.look()
        self.module.exit_json(**self.answer())


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "choices": ["vllm_router", "ascend_layerwise", "ascend_pull"], "required": True},
            "routers": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "address": {"type": "str", "required": True},
                    "port": {"type": "int", "required": True},
                },
            },
            "instances": INSTANCE_OPTIONS,
            "names": {"type": "list", "elements": "str"},
            "back": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "drained", "listed"], "default": "present"},
            "healthy_only": {"type": "bool", "default": False},
            "min_healthy": {
                "type": "dict",
                "default": {},
                "options": {"prefill": {"type": "int", "default": 1}, "decode": {"type": "int", "default": 1}},
            },
            "drain_timeout": {"type": "int", "default": 600},
            "settle": {"type": "float", "default": 1},
            "kv_timeout": {"type": "int", "default": 480},
            "ready_timeout": {"type": "int", "default": 900},
        },
        required_if=[("state", "drained", ["names"])],
        supports_check_mode=True,
    )
    try:
        RouterWorker(module).run()
    except OSError as error:
        module.fail_json(msg=f"The file of what is out cannot be written: {error}")


if __name__ == "__main__":
    main()
