# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hccn_info
short_description: Tell the network of the Ascend NPUs of a host, and ping the NPUs of other hosts
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Asks C(hccn_tool) for link, health, addresses, TLS switch and more of every NPU, all of them at once.
  - Pings NPUs of other hosts, those of O(ping) or those of the hosts in O(ping_peers).
  - What cannot be found out is named in RV(hccn.unknown) with the reason. It never counts as good.
  - Only reads. A tool that hangs costs O(timeout) once and is killed. The ping of a dead peer hangs as well.
options:
  chips:
    description:
      - How many NPUs there are, or a list of their numbers as C(hccn_tool -i) counts.
      - By default those that have a C(/dev/davinciN).
    type: raw
  queries:
    description: What to ask; an empty list asks nothing.
    type: list
    elements: str
    choices: [link, net_health, lldp, netdetect, gateway, ip, vnic, tls, speed, mtu]
    default: [link, net_health, lldp, netdetect, gateway, ip, vnic, tls, speed, mtu]
  timeout:
    description:
      - Seconds for all of it. What was not answered then is unknown.
      - With O(ping_peers) no less than the pings need when every peer is dead, 6 for each O(concurrency) of them.
    type: float
    default: 10
  concurrency:
    description: How many C(hccn_tool) run at once.
    type: int
    default: 32
  ping:
    description: NPUs of other hosts to ping.
    type: list
    elements: dict
    default: []
    suboptions:
      chip:
        description: Own NPU that pings.
        type: int
        required: true
      address:
        description: Address of the other NPU.
        type: str
        required: true
      plane:
        description: Network that is tried, V(roce) by C(-ping) or V(hccs) by C(-hccs_ping).
        type: str
        choices: [roce, hccs]
        required: true
      peer:
        description: Host of the other NPU.
        type: str
        default: ""
  ping_peers:
    description:
      - Hosts whose NPUs are pinged. Their addresses are taken from what this module told of them before, see
        O(register). A host of which nothing is known is named in RV(hccn.unknown).
      - With empty O(queries) the result has what was told of this host before, too.
    type: list
    elements: str
    default: []
  register:
    description: Variable in which the result of this module was registered on all hosts, with the addresses asked.
    type: str
    default: __preflight_hccn
  matrix:
    description:
      - With V(rail) a NPU pings the one with its number on each peer.
      - With V(full) it pings every one.
    type: str
    choices: [rail, full]
    default: rail
  plane:
    description:
      - Network between the hosts for O(ping_peers). V(hccs) takes the virtual addresses (vnic), V(roce) those of the
        ports.
      - V(auto) takes V(hccs) where the peer has virtual addresses, as A3 has, else V(roce).
    type: str
    choices: [auto, roce, hccs]
    default: auto
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Run as root (C(become)). C(hccn_tool) refuses others.
  - C(hccn_tool) is looked for in C(PATH), C(/usr/local/bin), C(/usr/local/sbin) and
    C(/usr/local/Ascend/driver/tools).
"""

EXAMPLES = r"""
- name: Look at the network of 16 NPUs
  mooncake.pd.hccn_info:
    chips: 16
  become: true
  register: look

- name: Ping the NPUs of two hosts, each from the NPU with the same number
  mooncake.pd.hccn_info:
    queries: []
    ping_peers: [p2, d1]
    register: look
  become: true
  register: pinged

- name: Ping one NPU
  mooncake.pd.hccn_info:
    queries: []
    ping:
      - {chip: 0, address: 198.51.100.80, plane: roce, peer: d1}
  become: true
"""

RETURN = r"""
hccn:
  description: The network of the NPUs.
  returned: always
  type: dict
  contains:
    tool:
      description: Path of C(hccn_tool); null when there is none.
      type: str
    chips:
      description:
        - One entry for each NPU when something was asked. What was not asked is null; an empty text says that the tool
          answered and has none.
      type: list
      elements: dict
      contains:
        id:
          description: Number of the NPU.
          type: int
        link:
          description: V(UP) or V(DOWN), of the RoCE port.
          type: str
        net_health:
          description: Whether the netdetect address answers, V(Success), V(Init), V(Fault), V(Receive timeout) or more.
          type: str
        lldp:
          description:
            - C(port) and C(switch) at the other end of the cable; empty when the switch tells nothing.
            - C(switch) is null when it gives no name.
          type: dict
          sample: {port: "400GE1/1/5:1", switch: leaf-1}
        netdetect:
          description: Address that the health is tried with.
          type: str
        gateway:
          description: Default gateway.
          type: str
        address:
          description: IP address of the RoCE port.
          type: str
        netmask:
          description: Its mask.
          type: str
        tls:
          description: TLS switch, 0 or 1.
          type: int
        vnic:
          description: Virtual address on the network of a superpod; empty where the generation has none.
          type: str
        speed:
          description: Speed of the port in Mb/s; 0 when the link is down and the tool knows none.
          type: int
        mtu:
          description: MTU of the port.
          type: int
    pings:
      description: The pings that were asked.
      type: list
      elements: dict
      contains:
        chip:
          description: Own NPU.
          type: int
        address:
          description: Address that was tried.
          type: str
        plane:
          description: V(roce) or V(hccs).
          type: str
        peer:
          description: Host of the address.
          type: str
        ok:
          description:
            - Whether every packet came back. False also when the ping hung while the tool answered otherwise; null when
              nothing is known.
          type: bool
        loss:
          description: Lost packets in percent; null where the tool does not tell it.
          type: float
        time:
          description: Time of the middle one of the packets in milliseconds; null where the tool does not tell it.
          type: float
    unknown:
      description:
        - What could not be found out. C(what) is the path of the fact below RV(hccn), or of what it is a part of, with
          C(*) for several NPUs; C(why) is the reason, C(raw) what was there instead.
      type: list
      elements: dict
"""

from typing import Any, Optional

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import hccn_tool, npu_host
from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Answer, Runner
from ansible_collections.mooncake.pd.plugins.module_utils.unknown_entries import Unknown, spans

TOOL_FOLDERS = npu_host.TOOL_FOLDERS
DEV = "/dev"
# Seconds after which a ping counts as lost. Three packets of a healthy peer take less than one millisecond each.
PATIENCE = 5.0
_QUERIES = list(hccn_tool.QUESTIONS)


class Look:
    def __init__(self, chips: list[int], queries: list[str], pings: list[dict[str, Any]]) -> None:
        self.chips = {number: {"id": number, **dict.fromkeys(hccn_tool.FACTS)} for number in chips if queries}
        self.queries = queries
        self.pings = [{**ping, "ok": None, "loss": None, "time": None} for ping in pings]
        self.unknown = Unknown()
        # (fact, why) -> NPUs, and the text of the first
        self.failed: dict[tuple[str, str], list[int]] = {}
        self.texts: dict[tuple[str, str], str] = {}

    def without_tool(self, why: str) -> None:
        self.unknown.add("tool", why)
        for what in ("chips", "pings"):
            if getattr(self, what):
                self.unknown.add(what, "there is no hccn_tool")

    def ask(self, tool: str, runner: Runner) -> None:
        asked = [(chip, query) for query in self.queries for chip in self.chips]
        commands = [hccn_tool.question(tool, chip, query) for chip, query in asked]
        if self.pings and not asked:
            # tells a tool that hangs from a peer that is dead
            commands.append(hccn_tool.question(tool, self.pings[0]["chip"], "link"))
        first = len(commands)
        commands += [hccn_tool.ping(tool, ping["chip"], ping["plane"], ping["address"]) for ping in self.pings]
        answers = runner.run(commands)
        self._read_queries(asked, answers)
        works = any(answer.code is not None for answer in answers)
        for ping, answer in zip(self.pings, answers[first:]):
            self._read_ping(ping, answer, works)
        self._tell()

    def _read_queries(self, asked: list[tuple[int, str]], answers: list[Answer]) -> None:
        refused: dict[str, set[int]] = {query: set() for query in self.queries}
        for (chip, query), answer in zip(asked, answers):
            facts, reader = hccn_tool.QUESTIONS[query]
            why = _ended(answer)
            if not why:
                try:
                    self.chips[chip].update(reader(answer.text))
                except hccn_tool.NotUnderstood:
                    why = "hccn_tool's answer is not understood"
            elif answer.code is not None:
                refused[query].add(chip)
            if why:
                for fact in facts:
                    self._fail(fact, why, chip, answer.text)
        if {"vnic", "ip"} <= set(self.queries):
            self._no_vnic(refused)
        for chip, known in self.chips.items():
            if known["speed"] == 0 and known["link"] != "DOWN":
                known["speed"] = None
                self._fail("speed", "hccn_tool does not know it, though the link is not down", chip, "")

    def _no_vnic(self, refused: dict[str, set[int]]) -> None:
        """A2 has no virtual addresses: the tool refuses the question on every NPU, and no other one."""
        others = set().union(*(refused[query] for query in self.queries if query != "vnic"))
        if refused["vnic"] != set(self.chips) or others == set(self.chips):
            return
        if all(known["address"] is None for known in self.chips.values()):
            return
        for known in self.chips.values():
            known["vnic"] = ""
        self.failed = {key: chips for key, chips in self.failed.items() if key[0] != "vnic"}

    def _fail(self, fact: str, why: str, chip: int, text: str) -> None:
        self.failed.setdefault((fact, why), []).append(chip)
        self.texts.setdefault((fact, why), text)

    def _read_ping(self, ping: dict[str, Any], answer: Answer, works: bool) -> None:
        why = _ended(answer)
        if answer.code is None and works and answer.seconds >= PATIENCE:
            ping["ok"] = False
            return
        if not why:
            try:
                ping.update(hccn_tool.read_ping(answer.text))
                return
            except hccn_tool.NotUnderstood:
                why = "hccn_tool's answer is not understood"
        about = f"ping of {ping['peer'] or ping['address']} on {ping['plane']}"
        self._fail(about, why, ping["chip"], answer.text)

    def _tell(self) -> None:
        for (fact, why), chips in self.failed.items():
            raw = self.texts[fact, why]
            if fact not in hccn_tool.FACTS:
                self.unknown.add("pings", f"{fact} from {spans(chips)}: {why}", raw)
            elif len(chips) == 1:
                self.unknown.add(f"chips.{chips[0]}.{fact}", why, raw)
            else:
                self.unknown.add(f"chips.*.{fact}", f"of {spans(chips)}: {why}", raw)


def _ended(answer: Answer) -> str:
    """Why an answer is none; empty when it is one. Without the NPU's number: equal reasons are told once."""
    if answer.code is None:
        # rounded: reasons of many NPUs are told together
        return answer.why if answer.seconds == 0 else f"no answer in {max(1, round(answer.seconds))} s"
    refused = hccn_tool.refusal(answer.text)
    if refused:
        return f"hccn_tool says: {refused}"
    return f"hccn_tool {answer.failure}" if answer.failure else ""


def numbers(told: Any) -> Optional[list[int]]:
    """The NPUs that are meant by the option; None when it makes no sense."""
    try:
        if isinstance(told, (list, tuple)):
            found = sorted({int(str(one)) for one in told})
        else:
            found = list(range(int(str(told))))
            if not found:
                return None
    except ValueError:
        return None
    return found if all(0 <= one < 1024 for one in found) else None


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "chips": {"type": "raw"},
            "queries": {"type": "list", "elements": "str", "choices": _QUERIES, "default": _QUERIES},
            "timeout": {"type": "float", "default": 10},
            "concurrency": {"type": "int", "default": 32},
            "ping": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "chip": {"type": "int", "required": True},
                    "address": {"type": "str", "required": True},
                    "plane": {"type": "str", "choices": sorted(hccn_tool.PINGS, reverse=True), "required": True},
                    "peer": {"type": "str", "default": ""},
                },
            },
            # the action plugin turns these into `ping`
            "ping_peers": {"type": "list", "elements": "str", "default": []},
            "register": {"type": "str", "default": "__preflight_hccn"},
            "matrix": {"type": "str", "choices": ["rail", "full"], "default": "rail"},
            "plane": {"type": "str", "choices": ["auto", "roce", "hccs"], "default": "auto"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if params["ping_peers"]:
        module.fail_json(msg="ping_peers needs the action plugin of this module, which was not run")
    runner = Runner(params["timeout"], params["concurrency"])
    known: Optional[list[int]] = npu_host.chips(DEV) if params["chips"] is None else numbers(params["chips"])
    if known is None:
        module.fail_json(msg=f"chips: {params['chips']!r} is neither a number of NPUs nor a list of their numbers")
        return
    look = Look(known, params["queries"], params["ping"])
    if params["queries"] and not known:
        look.unknown.add("chips", f"there is no {DEV}/davinciN, and `chips` does not say which NPUs there are")
    tool = npu_host.tool("hccn_tool", TOOL_FOLDERS)
    if tool:
        look.ask(tool, runner)
    else:
        look.without_tool(f"hccn_tool is neither in PATH nor in {', '.join(TOOL_FOLDERS)}")
    module.exit_json(
        changed=False,
        hccn={
            "tool": tool,
            "chips": list(look.chips.values()),
            "pings": look.pings,
            "unknown": look.unknown.entries,
        },
    )


if __name__ == "__main__":
    main()
