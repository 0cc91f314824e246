# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: port_group
short_description: Prove that planned ports can be bound, and name who holds the others
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Binds every planned address and port for a moment, with C(SO_REUSEADDR) as the servers do. This is the truth;
    C(/proc) is only asked who stands in the way.
  - A port that the unit's own processes hold is V(own) and no problem.
  - Names all owners of a taken port with process, user, unit and container. Nothing is ever stopped.
  - Fails with all problems at once.
options:
  groups:
    description: The processes of this host and the ports they claim.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the process.
        type: str
        required: true
      unit:
        description: Its systemd unit.
        type: str
        required: true
      ports:
        description: Its claims.
        type: list
        elements: dict
        default: []
        suboptions:
          purpose:
            description: What the port is for.
            type: str
            required: true
          address:
            description: IP address it is bound on, V(0.0.0.0) for all.
            type: str
            required: true
          first:
            description: First port.
            type: int
            required: true
          last:
            description: Last port, inclusive.
            type: int
            required: true
          where:
            description: Place in the topology, for the message.
            type: str
            default: ""
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Run as root (C(become)); otherwise processes of other users stay unknown.
"""

EXAMPLES = r"""
- name: Prove that the ports of this host are free
  mooncake.pd.port_group:
    groups: "{{ pd_host.processes | map(attribute='claims') }}"
  become: true

- name: Collect the problems for a report of the whole cluster
  mooncake.pd.port_group:
    groups: "{{ pd_host.processes | map(attribute='claims') }}"
  become: true
  register: ports
  failed_when: false
"""

RETURN = r"""
groups:
  description: The groups, each with one entry per port that was probed.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the process.
      type: str
    unit:
      description: Its unit.
      type: str
    ports:
      description: The ports.
      type: list
      elements: dict
      contains:
        purpose:
          description: What the port is for.
          type: str
        address:
          description: The planned address.
          type: str
        port:
          description: The port.
          type: int
        where:
          description: Place in the topology.
          type: str
        state:
          description:
            - V(free), V(own), V(taken), or V(unusable) (the address is not on this host, no permission, no such
              port).
          type: str
        owners:
          description:
            - Every process that holds the port and can be seen (pid, command, user, unit, container, and login, whether
              it belongs to a user's login or user manager).
          type: list
          elements: dict
problems:
  description: One text for each port that cannot be used.
  returned: always
  type: list
  elements: str
  sample:
    - >-
      p1: api port 10.90.73.11:8100 (prefill[0].api_port) is taken by pid 4242 (nginx -g daemon off;), user root, unit
      nginx.service. Stop that service or plan another port.
"""

import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import procs, sockets

# Stopping one of these takes more down than a port: the way into the host, other containers, the host itself.
_NEVER_STOP = re.compile(
    r"(?:sshd?|user|docker|containerd|crio|kubelet|dbus|dbus-broker|systemd-[\w-]+)(?:@.*)?\.service"
)


class Ports:
    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self.problems: list[str] = []

    def examine(self, group: dict[str, Any]) -> dict[str, Any]:
        entries = []
        for claim in group["ports"]:
            if not 1 <= claim["first"] <= claim["last"] <= 65535:
                self._problem(group, claim, claim["first"], f"is no port range ({claim['first']}-{claim['last']})")
                continue
            for port in range(claim["first"], claim["last"] + 1):
                entries.append(self._entry(group, claim, port))
        return {"name": group["name"], "unit": group["unit"], "ports": entries}

    def _entry(self, group: dict[str, Any], claim: dict[str, Any], port: int) -> dict[str, Any]:
        state = "free"
        owners: list[procs.Process] = []
        answer = sockets.probe(claim["address"], port, self.proc)
        if answer == sockets.TAKEN:
            owners, state, problem = self._taken(group, claim["address"], port)
            if problem:
                self._problem(group, claim, port, problem)
        elif answer != sockets.FREE:
            state = "unusable"
            self._problem(group, claim, port, self._unusable(answer, claim["address"], port))
        return {
            "purpose": claim["purpose"],
            "address": claim["address"],
            "port": port,
            "where": claim["where"],
            "state": state,
            "owners": [owner.as_dict() for owner in owners],
        }

    @staticmethod
    def _unusable(answer: str, address: str, port: int) -> str:
        if answer == sockets.NO_ADDRESS:
            return (
                f"cannot be used: {address} is not an address of this host. Compare hosts.<name>.address in the"
                " topology with `ip -brief address`."
            )
        if answer == sockets.NO_PERMISSION:
            return "may not be bound by this user. Run this as root (become), or plan a port from 1024 on."
        return f"cannot be used: {address}:{port} is no IP address and port that can be bound here."

    def _problem(self, group: dict[str, Any], claim: dict[str, Any], port: int, text: str) -> None:
        where = f" ({claim['where']})" if claim["where"] else ""
        self.problems.append(f"{group['name']}: {claim['purpose']} port {claim['address']}:{port}{where} {text}")

    def _taken(self, group: dict[str, Any], address: str, port: int) -> tuple[list[procs.Process], str, str]:
        rows, bad = sockets.tables(self.proc, {port})
        rows = sockets.conflicting(rows, address, port)
        found, hidden = sockets.holders((row.inode for row in rows), procs.pids(self.proc), self.proc)
        pids = sorted({pid for holders in found.values() for pid in holders})
        owners = [procs.describe(pid, self.proc) for pid in pids]
        if owners and all(owner.unit == group["unit"] and not owner.container for owner in owners):
            return owners, "own", ""
        return owners, "taken", self._explain(group["unit"], owners, rows, hidden, bad)

    def _explain(self, unit: str, owners: list[procs.Process], rows: list[sockets.Row], hidden: int, bad: int) -> str:
        listening = any(row.state == sockets.LISTEN for row in rows)
        states = ", ".join(sorted({row.state for row in rows}))
        if owners:
            text = "is taken by " + " and ".join(str(owner) for owner in owners)
            if not listening:
                text += f", as the source port of a connection of its own ({states})"
            return f"{text}. {self._way_out(unit, owners, listening)}"
        if hidden:
            return f"is taken, and {hidden} processes may not be asked whether they hold it. Run this as root (become)."
        if rows and all(row.inode == 0 for row in rows):
            return (
                f"is taken by a connection without a process ({states}): a client used it as its source port and is"
                " gone. Wait a minute, and reserve the port (net.ipv4.ip_local_reserved_ports) so that the kernel does"
                " not hand it out."
            )
        if rows:
            return (
                f"is taken by a socket ({states}) that no process of this host has open: the kernel itself (NFS, a"
                " tunnel), or a process of another PID namespace, such as the machine that runs this container. Look"
                " there, or plan another port."
            )
        unread = f" {bad} rows of /proc/net/tcp could not be read." if bad else ""
        return (
            "is taken, and no socket in /proc/net/tcp says by whom: a process has bound it and does not listen yet, or"
            f" never will.{unread} Look for a program that is starting or hangs (`ss --bound-inactive`, iproute2 6.8),"
            " or plan another port."
        )

    @staticmethod
    def _way_out(unit: str, owners: list[procs.Process], listening: bool) -> str:
        if not listening:
            return (
                "Reserve the port (net.ipv4.ip_local_reserved_ports), so that the kernel does not hand it out again,"
                " and wait for that connection to end or restart its program."
            )
        foreign = [owner for owner in owners if owner.unit != unit or owner.container]
        containers = sorted({owner.container for owner in foreign if owner.container})
        if containers:
            return f"Stop the container ({', '.join(containers)}) or plan another port."
        units = {owner.unit or "" for owner in foreign}
        stop = units.pop() if len(units) == 1 else ""
        login = any(owner.login for owner in foreign)
        if stop.endswith(".service") and not login and not _NEVER_STOP.fullmatch(stop):
            return f"Stop it (systemctl stop {stop}) or plan another port."
        pids = ", ".join(str(owner.pid) for owner in foreign)
        return f"Stop that process (pid {pids}) if it is a leftover, or plan another port."


def main() -> None:
    claim = {
        "purpose": {"type": "str", "required": True},
        "address": {"type": "str", "required": True},
        "first": {"type": "int", "required": True},
        "last": {"type": "int", "required": True},
        "where": {"type": "str", "default": ""},
    }
    module = AnsibleModule(
        argument_spec={
            "groups": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "unit": {"type": "str", "required": True},
                    "ports": {"type": "list", "elements": "dict", "default": [], "options": claim},
                },
            }
        },
        supports_check_mode=True,
    )
    ports = Ports()
    groups = [ports.examine(group) for group in module.params["groups"]]
    if ports.problems:
        module.fail_json(msg="\n".join(ports.problems), groups=groups, problems=ports.problems)
    module.exit_json(changed=False, groups=groups, problems=[])


if __name__ == "__main__":
    main()
