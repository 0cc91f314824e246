# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: transfer_offer
short_description: Offer memory that other hosts prove transfers with, and tell what arrived
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Starts a transfer engine of the installed Mooncake for each protocol, registers memory filled with random bytes,
    and asks the engine for its descriptor, as a peer would, for what it really installed.
  - Each is a transient systemd unit that ends by itself after O(runtime). Its ports lie in no claim of the plan and
    are bound for a moment before, so it takes none that is in use.
  - With O(state=stopped) the units end, and tell the checksum of what each peer has written. The owner of the memory
    is the witness, not the peer that wrote.
  - Does not fail when an offer cannot be made; RV(offer.protocols) says why, for a report over all hosts.
options:
  state:
    description: V(stopped) ends all units that this module starts and takes their files away.
    type: str
    choices: [started, stopped]
    default: started
  protocols:
    description:
      - Transports to offer memory over. V(tcp) is forced (C(MC_FORCE_TCP)), the others are what the engine finds.
    type: list
    elements: str
    choices: [tcp, rdma, ascend]
    default: [tcp]
  path:
    description: Python environment or prefix in which Mooncake is installed, or that Python itself.
    type: path
  address:
    description: Address of this host that others connect to.
    type: str
  sources:
    description: Names of the hosts that will write. Each has a place of its own in the memory.
    type: list
    elements: str
    default: []
  metadata:
    description:
      - How engines find each other. V(P2PHANDSHAKE) is what the connectors of vLLM and vLLM-Ascend use.
      - A store may have C(http://HOST:PORT/metadata) or C(etcd://HOST:PORT).
    type: str
    default: P2PHANDSHAKE
  devices:
    description: RDMA devices to use. Empty for what the engine finds.
    type: list
    elements: str
    default: []
  npu:
    description: Number of the NPU, among those that O(environment) makes visible, for V(ascend).
    type: int
    default: 0
  size:
    description: Bytes of each transfer.
    type: int
    default: 4194304
  environment:
    description:
      - Environment of the engines, such as C(LD_LIBRARY_PATH). What it makes of the transport is what is proven.
    type: dict
    default: {}
  runtime:
    description: Seconds after which the units end by themselves.
    type: int
    default: 600
  timeout:
    description: Seconds until an engine has to offer its memory, and of each transfer (5 at least).
    type: int
    default: 15
extends_documentation_fragment: mooncake.pd.transfer
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Run as root (C(become)).
  - Not seen on NPUs yet. V(ascend) allocates memory of the NPU with CANN's C(aclrtMalloc).
"""

EXAMPLES = r"""
- name: Offer memory
  mooncake.pd.transfer_offer:
    protocols: [tcp, rdma]
    path: /opt/mooncake-pd/engine
    address: "{{ pd_host.address }}"
    sources: [p1, p2]
    claims: "{{ pd_host.processes | map(attribute='claims.ports') | flatten }}"
  become: true
  register: offered

- name: Take it back, and learn what arrived
  mooncake.pd.transfer_offer:
    state: stopped
  become: true
  register: witness
"""

RETURN = r"""
offer:
  description: What was started.
  returned: when O(state) is V(started)
  type: dict
  contains:
    address:
      description: Address of this host.
      type: str
    protocols:
      description:
        - "Each protocol with C(rule) and C(problem) (empty when memory is offered), else C(segment), C(address),
          C(length) and C(size) (bytes), C(digest) (SHA-256 of what is to be read), C(slots) (address by source),
          C(installed) (the transport that the engine told)."
        - "Rules are C(mooncake), C(ports), C(metadata), C(engine), C(device), C(memory), C(address), C(stranger),
          C(unregistered) and C(fallback)."
      type: dict
      sample: {tcp: {rule: fallback, problem: "rdma is planned, the engine has installed tcp"}}
witness:
  description: What each unit told at its end, by protocol.
  returned: when O(state) is V(stopped)
  type: dict
  contains:
    PROTOCOL:
      description: "C(received) (SHA-256 by source), C(ended) (empty, or how the engine ended instead)."
      type: dict
stopped:
  description: Units that were there and are not any more.
  returned: when O(state) is V(stopped)
  type: list
  elements: str
"""

import time
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import systemd, transfer_bench, transfer_segment
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_bench_units as units
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_proof_units as proof
from ansible_collections.mooncake.pd.plugins.module_utils.transfer_worker import Trouble

# to tell the checksums of what arrived
_LAST_WORDS = 20


class Offers:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: Dict[str, Any] = module.params

    def start(self) -> Dict[str, Any]:
        """All at once; they come up while the others are waited for."""
        rule, lack = proof.lack(self.params)
        if lack:
            return {protocol: problem(rule, lack) for protocol in self.params["protocols"]}
        try:
            transfer_segment.reachable(self.params["metadata"])
        except Trouble as trouble:
            return {protocol: problem(trouble.rule, str(trouble)) for protocol in self.params["protocols"]}
        taken: List[Dict[str, int]] = list(self.params["claims"])
        failed: Dict[str, Dict[str, Any]] = {}
        for protocol in self.params["protocols"]:
            ports = units.free_ports(self.params, transfer_bench.PORTS, taken)
            if not ports:
                failed[protocol] = problem("ports", units.no_ports(self.params))
                continue
            taken.append({"first": ports[0], "last": ports[-1]})
            why = self._run(protocol, ports)
            if why:
                failed[protocol] = problem("engine", why)
        until = time.monotonic() + self.params["timeout"]
        return {name: failed.get(name) or self._offered(name, until) for name in self.params["protocols"]}

    def _run(self, protocol: str, ports: range) -> str:
        units.forget(self.module.run_command, [proof.unit(protocol)])
        for kind in ("out", "log"):  # systemd would write over what an earlier run left
            proof.write(f"{protocol}.{kind}", "")
        text = proof.specification(self.params, protocol, "offer", sources=self.params["sources"])
        argv = units.words(
            protocol,
            proof.command(str(proof.python(self.params["path"]))),
            self.params,
            environment=proof.environment(self.params, protocol, ports),
            seconds=self.params["runtime"],
            wait=False,
            prefix=proof.PREFIX,
            properties={
                "StandardInput": f"file:{proof.write(f'{protocol}.json', text)}",
                "StandardOutput": f"file:{proof.path(f'{protocol}.out')}",
                "StandardError": f"file:{proof.path(f'{protocol}.log')}",
                "TimeoutStopSec": str(_LAST_WORDS),
            },
        )
        return units.begin(self.module.run_command, argv)

    def _offered(self, protocol: str, until: float) -> Dict[str, Any]:
        name = proof.unit(protocol)
        while True:
            running = systemd.show(self.module.run_command, [name])[name].running
            for event in proof.events(units.read(proof.path(f"{protocol}.out"))):
                if event["event"] == "offered":
                    return self._judged(protocol, event)
                said = transfer_bench.complaint(units.read(proof.path(f"{protocol}.log")))
                return problem(event["rule"], f"{event['problem']} ({said})")
            said = transfer_bench.complaint(units.read(proof.path(f"{protocol}.log")))
            if not running:
                return problem("engine", f"the engine ended before it offered its memory: {said}")
            if time.monotonic() > until:
                return problem("engine", f"no memory is offered after {self.params['timeout']} s: {said}")
            time.sleep(0.05)

    def _judged(self, protocol: str, offered: Dict[str, Any]) -> Dict[str, Any]:
        told = {key: offered[key] for key in ("segment", "address", "length", "size", "digest", "slots")}
        seen: Dict[str, Any] = {}
        seconds = float(self.params["timeout"])
        try:
            descriptor = transfer_segment.describe(told["segment"], self.params["metadata"], seconds)
            seen.update(segment=told["segment"], installed=descriptor.installed)
            transfer_segment.check(descriptor, protocol, told)
        except Trouble as trouble:
            return {**problem(trouble.rule, str(trouble)), **seen}
        return {"rule": "", "problem": "", **told, **seen}


def problem(rule: str, text: str) -> Dict[str, Any]:
    return {"rule": rule, "problem": text}


def stop(module: AnsibleModule) -> Dict[str, Any]:
    names = {protocol: proof.unit(protocol) for protocol in proof.PROTOCOLS}
    before = units.end(module.run_command, [*names.values(), proof.unit(proof.PROOF)], module.check_mode)
    found = units.there(before)
    if module.check_mode:
        return {"stopped": found, "witness": {}}
    witness = {}
    for protocol, name in names.items():
        told = list(proof.events(units.read(proof.path(f"{protocol}.out"))))
        if not told or told[0]["event"] != "offered":
            continue
        received: Dict[str, str] = next((event["digests"] for event in told if event["event"] == "received"), {})
        said = transfer_bench.complaint(units.read(proof.path(f"{protocol}.log")))
        how = "hangs and had to be killed" if before[name].running else "ended in the middle"
        witness[protocol] = {
            "received": received,
            "ended": "" if received and before[name].running else f"{how}: {said}",
        }
    proof.remove_files()
    return {"stopped": found, "witness": witness}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **proof.ARGUMENTS,
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "sources": {"type": "list", "elements": "str", "default": []},
            "runtime": {"type": "int", "default": 600},
        },
        required_if=[("state", "started", ["path", "address"])],
        supports_check_mode=True,
    )
    try:
        if module.params["state"] == "stopped":
            told = stop(module)
            module.exit_json(changed=bool(told["stopped"]), **told)
        protocols = {} if module.check_mode else Offers(module).start()
    except systemd.SystemdError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, offer={"address": module.params["address"], "protocols": protocols})


if __name__ == "__main__":
    main()
