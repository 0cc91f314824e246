# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drill
short_description: Lose a unit on purpose, and measure from outside what that costs
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - On the host of O(strike) it waits, loses the unit, and sees that it runs again.
  - With O(probes) or O(pool) it asks again and again while that happens, on the same or on another host, and measures
    for how long nobody was served. That is the time between two good answers, by one clock.
  - One task runs it on both hosts at the same time.
  - It only measures. M(mooncake.pd.drill_report) compares with limits.
  - In check mode nothing is done.
options:
  strike:
    description: What is lost on this host.
    type: dict
    suboptions:
      unit:
        description: Its systemd unit.
        type: str
        required: true
      how:
        description:
          - V(kill) sends C(SIGKILL) to all of its processes; systemd starts it again.
          - V(stop) stops it for O(strike.hold). A timer of systemd starts it again should this module not get to it.
          - V(restart) restarts it, as an operator would.
        type: str
        choices: [kill, stop, restart]
        required: true
      after:
        description: Seconds before that, in which the probes see that all is well.
        type: float
        default: 5
      hold:
        description: Seconds for which it stays stopped.
        type: float
        default: 15
      patience:
        description: Seconds in which systemd has to have started it again. Then it is done here.
        type: float
        default: 30
  probes:
    description: What is asked again and again.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Its name in the result.
        type: str
        required: true
      kind:
        description:
          - V(masters) is well when one of O(probes.urls) serves as the leader.
          - V(etcd) is well when all of O(probes.urls) read through the quorum.
          - V(tcp) is well when C(host:port) can be connected to.
          - V(completion) is well when a short request is answered.
        type: str
        choices: [masters, etcd, tcp, completion]
        required: true
      urls:
        description: Whom to ask.
        type: list
        elements: str
        required: true
      interval:
        description: Seconds between two questions.
        type: float
        default: 0.2
      model:
        description: For V(completion), the served name of the model.
        type: str
        default: ""
      timeout:
        description: For V(completion), seconds after which nobody waits any longer.
        type: float
        default: 60
  key:
    description: For V(completion), the key that the router asks for. Empty for none.
    type: str
    default: ""
  pool:
    description: A client of the KV pool that uses it meanwhile.
    type: dict
    suboptions:
      mode:
        description:
          - V(watch) puts objects, uses the pool until the end, and then looks which of the objects are still there.
          - V(fill) puts objects until the master evicts.
        type: str
        choices: [watch, fill]
        default: watch
      path:
        description: Python environment in which Mooncake is installed.
        type: path
        required: true
      address:
        description: Address of this host.
        type: str
        required: true
      store:
        description: How a client gets in, as in C(pd_cluster.store).
        type: dict
        required: true
      token:
        description: Name of this drill, new in every run. What is put has it in its key.
        type: str
        required: true
      objects:
        description: For V(watch), how many objects are put before.
        type: int
        default: 64
      size:
        description: Bytes of an object.
        type: int
        default: 1048576
      most:
        description: For V(fill), bytes after which it gives up.
        type: int
        default: 0
      evictions:
        description: For V(fill), how many keys the master has to have evicted.
        type: int
        default: 1
      metrics:
        description: For V(fill), where the masters tell what they evicted, without a path.
        type: list
        elements: str
        default: []
      environment:
        description: More environment of the client, such as C(LD_LIBRARY_PATH).
        type: dict
        default: {}
      user:
        description: User that the client runs as. Empty for the one that Ansible is here.
        type: str
        default: ""
  least:
    description: Seconds for which is watched at least.
    type: float
    default: 30
  settle:
    description: Seconds for which all has to have been well again.
    type: float
    default: 5
  timeout:
    description: Seconds after which it ends though something is not well.
    type: float
    default: 180
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - O(strike) and O(pool.user) need root (C(become)).
seealso:
  - module: mooncake.pd.drill_plan
  - module: mooncake.pd.drill_report
"""

EXAMPLES = r"""
- name: Lose the master on its host, and watch from the other one
  mooncake.pd.drill:
    strike: "{{ {'unit': 'mooncake-pd-master.service', 'how': 'kill'} if inventory_hostname == 'm1' else omit }}"
    probes: "{{ [] if inventory_hostname == 'm1' else __probes }}"
  become: true
  vars:
    __probes:
      - name: leader
        kind: masters
        urls: [http://192.0.2.11:9003/health, http://192.0.2.12:9003/health]
"""

RETURN = r"""
strike:
  description: What was lost here; V(null) where nothing was.
  returned: always
  type: dict
  contains:
    unit:
      description: The unit.
      type: str
    at:
      description: When it was lost, in seconds since the epoch by the clock of this host.
      type: float
    how:
      description: The way.
      type: str
    lost:
      description: Whether another start of it runs now.
      type: bool
    by:
      description: What started it again, V(itself) (its own C(Restart)) or V(the drill).
      type: str
    runs:
      description: Whether systemd says that it runs.
      type: bool
    seconds:
      description: From the moment at which it was lost until systemd said so.
      type: float
  sample:
    {unit: mooncake-pd-master.service, at: 1790000000.0, how: kill, lost: true, by: itself, runs: true, seconds: 2.3}
watched:
  description: What the probes and the client of the pool saw.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Its name; that of the client is V(pool).
      type: str
    asked:
      description: How often it was asked.
      type: int
    failed:
      description: How many of these were not answered well.
      type: int
    since:
      description: When the first answer came, as RV(strike.at) is told. V(null) without any.
      type: float
    before:
      description: Whether it was well in the beginning. Otherwise nothing was measured.
      type: bool
    recovered:
      description: Whether it was well in the end.
      type: bool
    outage:
      description: The longest time from one good answer to the next in which somebody was not served, in seconds.
      type: float
    answers:
      description: Different good answers in their order, such as who leads.
      type: list
      elements: str
    reasons:
      description: Different reasons why not.
      type: list
      elements: str
pool:
  description: >-
    What the client of the pool told; V(null) where there was none. C(kept) objects put until C(kept_at), C(there) of
    them in the end, C(filled) with C(put), C(refused), C(failed) and C(bytes), C(evicted) by the master meanwhile,
    C(removed) and C(stuck) objects of its own, and C(error).
  returned: always
  type: dict
seconds:
  description: How long it watched.
  returned: always
  type: float
"""

import threading
import time
from typing import Any, Dict, List, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import (
    client_program,
    drill_client,
    drill_probes,
    drill_strike,
    store_master,
)
from ansible_collections.mooncake.pd.plugins.module_utils.drill_pool import FILL, Pool
from ansible_collections.mooncake.pd.plugins.module_utils.drill_track import Track, ask_until
from ansible_collections.mooncake.pd.plugins.module_utils.systemd import SystemdError
from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import samples

# mooncake-store/src/master_metric_manager.cpp@v0.3.11, and 0.3.13.post1 as tried
_EVICTED = "master_evicted_key_count"
_LOOK = 0.25
_ANSWER = 10.0  # seconds in which probes of services answer, of several after each other too
_PUTTING = 60.0  # seconds for the objects that are put before


def command(pool: Dict[str, Any], timeout: float) -> List[str]:
    """Long before its time is over, its input ends."""
    store = pool["store"]
    wish = {
        **{name: store[name] for name in ("server_address", "metadata_server", "protocol", "devices")},
        **{name: pool[name] for name in ("mode", "address", "token", "objects", "size", "most")},
        "interval": 0.2,
    }
    return client_program.command(pool["path"], pool["user"], int(timeout + _PUTTING) + 60, drill_client, wish)


def evicted(urls: List[str]) -> Optional[int]:
    """By the masters that answer; one that stands by has evicted nothing."""
    counted = None
    for url in urls:
        metrics, why = store_master.ask(url, "/metrics", 2)
        if not why:
            counted = (counted or 0) + sum(int(v) for name, _labels, v in samples(metrics or "") if name == _EVICTED)
    return counted


class Watch:
    def __init__(self, params: Dict[str, Any]) -> None:
        self.params = params
        self.stop = threading.Event()
        self.tracks = [Track(probe["name"], probe["kind"] == drill_probes.COMPLETION) for probe in params["probes"]]
        self.pool: Optional[Pool] = None
        self._evicted: Optional[int] = None
        self._count: Optional[int] = None
        self.threads: List[threading.Thread] = []

    def begin(self) -> None:
        for probe, track in zip(self.params["probes"], self.tracks):
            ask = drill_probes.probe(probe, self.params["key"])
            arguments = (track, ask, probe["interval"], self.stop, time.monotonic)
            self.threads.append(threading.Thread(target=ask_until, args=arguments, daemon=True))
        for thread in self.threads:
            thread.start()
        pool = self.params["pool"]
        if pool:
            if pool["mode"] == FILL:
                self._evicted = evicted(pool["metrics"])
            track = Track("pool")
            environment = {**pool["environment"], **pool["store"].get("environment", {})}
            self.pool = Pool(command(pool, self.params["timeout"]), environment, track)
            if pool["mode"] != FILL:
                self.tracks.append(track)

    def until_all_is_well(self, begun: float) -> None:
        while True:
            now = time.monotonic()
            well = all(track.settled(now, self.params["settle"]) for track in self.tracks)
            if now - begun >= self.params["timeout"]:
                return
            if now - begun >= self.params["least"] and well and self._filled():
                return
            time.sleep(_LOOK)

    def _filled(self) -> bool:
        """The one that fills has done what it can."""
        pool = self.params["pool"]
        if not self.pool or pool["mode"] != FILL or not self.pool.lives:
            return True
        self._count = evicted(pool["metrics"])
        enough = None not in (self._count, self._evicted) and self._count - self._evicted >= pool["evictions"]  # type: ignore[operator]
        return enough or "filled" in self.pool.told

    def end(self) -> None:
        if self.pool:
            now = time.monotonic()
            if self.params["pool"]["mode"] == FILL:
                self._count = evicted(self.params["pool"]["metrics"])
            if self.pool.track in self.tracks:
                self.pool.track.close(now)
            # that is well beyond what it has put; over a slow network thousands of objects take their time
            self.pool.end(120)
        self.stop.set()
        # what was asked a moment ago is answered in its own time; a busy host is no outage
        until = time.monotonic() + max([_ANSWER, *[p["timeout"] for p in self.params["probes"] if p["model"]]])
        for thread in self.threads:
            thread.join(max(until - time.monotonic(), 0))
        for track in self.tracks:
            track.close(time.monotonic())

    def pool_result(self) -> Optional[Dict[str, Any]]:
        if not self.pool:
            return None
        both = self._count is not None and self._evicted is not None
        return {**self.pool.result(), "evicted": self._count - self._evicted if both else None}  # type: ignore[operator]


def strike(module: AnsibleModule, wish: Dict[str, Any], told: Dict[str, Any]) -> None:
    time.sleep(wish["after"])
    try:
        told["strike"] = drill_strike.strike(
            module.run_command, wish["unit"], wish["how"], wish["hold"], wish["patience"]
        )
    except (drill_strike.StrikeError, SystemdError) as error:
        told["error"] = str(error)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "strike": {
                "type": "dict",
                "options": {
                    "unit": {"type": "str", "required": True},
                    "how": {"type": "str", "choices": list(drill_strike.WAYS), "required": True},
                    "after": {"type": "float", "default": 5},
                    "hold": {"type": "float", "default": 15},
                    "patience": {"type": "float", "default": 30},
                },
            },
            "probes": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "kind": {"type": "str", "choices": list(drill_probes.KINDS), "required": True},
                    "urls": {"type": "list", "elements": "str", "required": True},
                    "interval": {"type": "float", "default": 0.2},
                    "model": {"type": "str", "default": ""},
                    "timeout": {"type": "float", "default": 60},
                },
            },
            "key": {"type": "str", "default": "", "no_log": True},
            "pool": {
                "type": "dict",
                "options": {
                    "mode": {"type": "str", "choices": ["watch", "fill"], "default": "watch"},
                    "path": {"type": "path", "required": True},
                    "address": {"type": "str", "required": True},
                    "store": {"type": "dict", "required": True},
                    "token": {"type": "str", "required": True, "no_log": False},
                    "objects": {"type": "int", "default": 64},
                    "size": {"type": "int", "default": 1048576},
                    "most": {"type": "int", "default": 0},
                    "evictions": {"type": "int", "default": 1},
                    "metrics": {"type": "list", "elements": "str", "default": []},
                    "environment": {"type": "dict", "default": {}},
                    "user": {"type": "str", "default": ""},
                },
            },
            "least": {"type": "float", "default": 30},
            "settle": {"type": "float", "default": 5},
            "timeout": {"type": "float", "default": 180},
        },
        supports_check_mode=True,
    )
    params = module.params
    if module.check_mode:
        module.exit_json(changed=False, strike=None, watched=[], pool=None, seconds=0.0)
    begun = time.monotonic()
    told: Dict[str, Any] = {"strike": None}
    watch = Watch(params)
    thread = None
    if params["strike"]:
        thread = threading.Thread(target=strike, args=(module, params["strike"], told))
    if params["probes"] or params["pool"]:
        watch.begin()
        if watch.pool and params["strike"]:
            # one host does both, so it can wait until the objects are there
            watch.pool.begun.wait(_PUTTING)
    if thread:
        thread.start()
    try:
        if params["probes"] or params["pool"]:
            watch.until_all_is_well(begun)
    finally:
        if thread:
            thread.join()
        watch.end()
    result = {
        "changed": bool(params["strike"]) or bool(params["pool"]),
        "strike": told["strike"],
        "watched": [track.summary(time.time() - time.monotonic()) for track in watch.tracks],
        "pool": watch.pool_result(),
        "seconds": round(time.monotonic() - begun, 3),
    }
    if "error" in told:
        module.fail_json(msg=told["error"], **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
