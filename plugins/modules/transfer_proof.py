# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: transfer_proof
short_description: Read and write memory of other hosts with Mooncake, and compare checksums
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Asks each peer on which M(mooncake.pd.transfer_offer) has offered memory for its descriptor, over the network, and
    compares transport and registered memory with what was offered. What is not registered is not touched.
  - Then a transfer engine of the installed Mooncake reads from each peer, writes to it and reads back what it wrote.
    What is moved is random and new; checksums tell whether it arrived.
  - One engine for each protocol, as a transient systemd unit with a limit of time, so nothing is left behind when
    Ansible ends.
  - Does not fail when something is not proven; RV(proof.results) says why, for a report over all pairs of hosts.
  - In check mode nothing is moved.
options:
  peers:
    description: Hosts to prove transfers with. What they have offered is taken from the variable O(register) of each.
    type: list
    elements: str
    required: true
  register:
    description: Variable in which the result of M(mooncake.pd.transfer_offer) was registered on all hosts.
    type: str
    default: __transport_offered
  name:
    description: Name of this host, as the peers have it among their C(sources).
    type: str
    required: true
  offers:
    description: RV(mooncake.pd.transfer_offer#module:offer) by host, this one included; filled in from O(register).
    type: dict
    default: {}
  protocols:
    description: Transports to prove, one after the other.
    type: list
    elements: str
    choices: [tcp, rdma, ascend]
    default: [tcp]
  path:
    description: Python environment or prefix in which Mooncake is installed, or that Python itself.
    type: path
    required: true
  address:
    description: Address of this host.
    type: str
    required: true
  metadata:
    description: As for M(mooncake.pd.transfer_offer).
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
    description: Bytes of each transfer, the same as offered.
    type: int
    default: 4194304
  timeout:
    description: Seconds of each transfer (5 at least), and until a peer has to answer.
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
  - Whether what was written has arrived is told by the peer, when its offer is stopped.
"""

EXAMPLES = r"""
- name: Read and write memory of the decode hosts
  mooncake.pd.transfer_proof:
    name: "{{ inventory_hostname }}"
    peers: [d1, d2]
    register: offered
    protocols: [tcp, rdma]
    path: /opt/mooncake-pd/engine
    address: "{{ pd_host.address }}"
  become: true
  register: proven
"""

RETURN = r"""
proof:
  description: What was proven.
  returned: always
  type: dict
  contains:
    results:
      description: One entry for each peer and protocol.
      type: list
      elements: dict
      contains:
        peer:
          description: The other host.
          type: str
        protocol:
          description: V(tcp), V(rdma) or V(ascend).
          type: str
        rule:
          description:
            - "What is wrong, empty when nothing is: one of those of M(mooncake.pd.transfer_offer), or C(lost) (the peer
              offered nothing), C(read), C(write), C(checksum-read), C(checksum-back), C(timeout)."
          type: str
        problem:
          description: The same as a sentence.
          type: str
        host:
          description: The host that it is wrong on. Empty when it is the way between the two.
          type: str
        installed:
          description: Transport that the peer's engine told over the network.
          type: str
        segment:
          description: Address and port at which the peer's engine answers, or its name at the metadata server.
          type: str
        registered:
          description: Bytes of memory that the peer's engine told over the network as registered.
          type: int
        bytes:
          description: Bytes of each transfer.
          type: int
        read:
          description: Seconds that reading took. V(null) when it was not done.
          type: float
        write:
          description: Seconds that writing took. V(null) when it was not done.
          type: float
        written:
          description: SHA-256 of what was written, to compare with what the peer tells.
          type: str
"""

from functools import partial
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import transfer_bench, transfer_segment
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_bench_units as units
from ansible_collections.mooncake.pd.plugins.module_utils import transfer_proof_units as proof
from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Late, in_parallel
from ansible_collections.mooncake.pd.plugins.module_utils.transfer_worker import Trouble

Result = Dict[str, Any]
_AT_ONCE = 16
# An engine with its libraries comes up, and goes; and it waits a minute for the handshake of a peer that hangs
# (transfer_metadata_plugin.cpp@3b5a594), whatever MC_TRANSFER_TIMEOUT says.
_AROUND = 60
_HANDSHAKE = 65


class Proof:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params: Dict[str, Any] = module.params

    def step(self, protocol: str) -> List[Result]:
        found = {peer: self._blank(peer, protocol) for peer in self.params["peers"]}
        # of two ends that are asked for RDMA and both have TCP, each would be blamed on the other
        own = self._offer(self.params["name"], protocol)
        if own["rule"] in ("fallback", "device", "engine", "mooncake"):
            for result in found.values():
                blame(result, own["rule"], own["problem"], self.params["name"])
        offers = {peer: self._offer(peer, protocol) for peer in found}
        for peer, offered in offers.items():
            found[peer].update({key: offered[key] for key in ("segment", "installed") if key in offered})
            if offered["problem"]:
                blame(found[peer], offered["rule"], offered["problem"], peer)
            elif self.params["name"] not in offered["slots"]:
                blame(found[peer], "lost", f"{peer} does not expect {self.params['name']}: run both in one run")
        self._look(protocol, offers, found)
        ready = [peer for peer, result in found.items() if not result["rule"]]
        if ready:
            self._move(protocol, {peer: offers[peer] for peer in ready}, found)
        return list(found.values())

    def _blank(self, peer: str, protocol: str) -> Result:
        told: Result = {"peer": peer, "protocol": protocol, "rule": "", "problem": "", "host": ""}
        seen: Result = {"segment": "", "installed": "", "registered": 0}
        return {**told, **seen, "bytes": self.params["size"], "read": None, "write": None, "written": ""}

    def _offer(self, host: str, protocol: str) -> Dict[str, Any]:
        told = (self.params["offers"].get(host) or {}).get("protocols", {}).get(protocol)
        return told or {"rule": "lost", "problem": "nothing was offered, for the run ended there before"}

    def _look(self, protocol: str, offers: Mapping[str, Dict[str, Any]], found: Dict[str, Result]) -> None:
        """The way to the peer, and what it really has, before any memory is touched."""
        asked = [peer for peer, result in found.items() if not result["rule"]]
        seconds = float(self.params["timeout"])

        def ask(peer: str) -> str:
            descriptor = transfer_segment.describe(offers[peer]["segment"], self.params["metadata"], seconds)
            found[peer].update(installed=descriptor.installed, registered=descriptor.registered)
            transfer_segment.check(descriptor, protocol, offers[peer])
            return ""

        turns = -(-len(asked) // _AT_ONCE)
        answers = in_parallel([partial(ask, peer) for peer in asked], _AT_ONCE, 2 * seconds * max(1, turns))
        for peer, answer in zip(asked, answers):
            if isinstance(answer, Trouble):
                blame(found[peer], answer.rule, str(answer))
            elif isinstance(answer, Late):
                blame(found[peer], "address", f"nobody answers at {offers[peer]['segment']} within {seconds:g} s")
            elif isinstance(answer, Exception):
                raise answer

    def _move(self, protocol: str, offers: Mapping[str, Dict[str, Any]], found: Dict[str, Result]) -> None:
        rule, lack = proof.lack(self.params)
        ports: Optional[range] = None
        if not lack:
            ports = units.free_ports(self.params, transfer_bench.PORTS, self.params["claims"])
            rule, lack = ("", "") if ports else ("ports", units.no_ports(self.params))
        if lack or not ports:
            for peer in offers:
                blame(found[peer], rule, lack, self.params["name"])
            return
        peers = [
            {
                "name": peer,
                "segment": told["segment"],
                "address": told["address"],
                "slot": told["slots"][self.params["name"]],
            }
            for peer, told in offers.items()
        ]
        text = proof.specification(self.params, protocol, "prove", peers=peers, patience=self.params["timeout"])
        code, out, err = self._run(protocol, text, ports)
        said = proof.by_peer(err)
        events = list(proof.events(out))
        begun = [event["peer"] for event in events if event["event"] == "begun"]
        moved = {event["peer"]: event for event in events if event["event"] == "proved"}
        failed = next((event for event in events if event["event"] == "failed"), None)
        for peer, told in offers.items():
            complaint = transfer_bench.complaint(said.get(peer) or said.get("", ""))
            if peer in moved:
                judge(found[peer], moved[peer], told["digest"], complaint)
            elif failed:
                blame(found[peer], failed["rule"], f"{failed['problem']} ({complaint})", self.params["name"])
            elif peer in begun:
                blame(found[peer], "timeout", f"the engine here ended with {code} in the middle: {complaint}")
            else:
                blame(found[peer], "timeout", f"the engine here ended with {code} before its turn: {complaint}")

    def _run(self, protocol: str, text: str, ports: range) -> Tuple[Optional[int], str, str]:
        argv = units.words(
            proof.PROOF,
            proof.command(str(proof.python(self.params["path"]))),
            self.params,
            environment=proof.environment(self.params, protocol, ports),
            # reads, writes and reads back, each with its limit
            seconds=_AROUND + (_HANDSHAKE + 3 * max(5, self.params["timeout"])) * len(self.params["peers"]),
            wait=True,
            prefix=proof.PREFIX,
        )
        code, out, err = self.module.run_command(argv, data=text)
        return code, out, err


def blame(result: Result, rule: str, problem: str, host: str = "") -> None:
    """The first thing that is wrong stands; what comes after follows from it."""
    if not result["rule"]:
        result.update(rule=rule, problem=problem, host=host)


def judge(result: Result, moved: Mapping[str, Any], offered: str, said: str) -> None:
    if moved["hangs"]:
        blame(
            result, "timeout", f"reading answers {moved['read']['code']} after {moved['read']['seconds']:.0f} s: {said}"
        )
        return
    read, write, back = moved["read"], moved["write"], moved["back"]
    result.update(read=read["seconds"] if read["code"] == 0 else None)
    result.update(write=write["seconds"] if write["code"] == 0 else None, written=write["digest"])
    if read["code"]:
        blame(result, "read", f"reading answers {read['code']}: {said}")
    elif read["digest"] != offered:
        blame(result, "checksum-read", "reading answers success, and other bytes have arrived than were offered")
    if write["code"]:
        blame(result, "write", f"writing answers {write['code']}: {said}")
    elif back["code"]:
        blame(result, "read", f"reading back what was written answers {back['code']}: {said}")
    elif back["digest"] != write["digest"]:
        blame(result, "checksum-back", "writing answers success, and other bytes than those are read back")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **proof.ARGUMENTS,
            "path": {"type": "path", "required": True},
            "address": {"type": "str", "required": True},
            "peers": {"type": "list", "elements": "str", "required": True},
            "register": {"type": "str", "default": "__transport_offered"},
            "name": {"type": "str", "required": True},
            "offers": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    results: List[Result] = []
    if not module.check_mode:
        proving = Proof(module)
        for protocol in module.params["protocols"]:
            results += proving.step(protocol)
    module.exit_json(changed=False, proof={"results": results})


if __name__ == "__main__":
    main()
