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
    the kernel and C(/proc) are only asked who stands in the way.
  - A port that another process has bound in the same way and does not listen on yet counts as taken, although a bind
    succeeds, since only one of the two will be able to listen.
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

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import port_court, published_ports

_STATES = {port_court.FREE: "free", port_court.OWN: "own", port_court.TAKEN: "taken"}


def entry(ruling: port_court.Ruling) -> dict[str, Any]:
    return {
        "purpose": ruling.purpose,
        "address": ruling.address,
        "port": ruling.port,
        "where": ruling.where,
        "state": _STATES.get(ruling.verdict, "unusable"),
        "owners": [owner.as_dict() for owner in ruling.owners],
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "groups": {"type": "list", "elements": "dict", "required": True, "options": port_court.GROUP},
        },
        supports_check_mode=True,
    )
    asked = module.params["groups"]
    heard = port_court.Court(published=lambda: published_ports.read()[0]).hear(asked)
    groups = [
        {"name": group["name"], "unit": group["unit"], "ports": [entry(ruling) for ruling in rulings if ruling.probed]}
        for group, rulings in zip(asked, heard)
    ]
    problems = [ruling.problem for rulings in heard for ruling in rulings if ruling.said]
    if problems:
        module.fail_json(msg="\n".join(problems), groups=groups, problems=problems)
    module.exit_json(changed=False, groups=groups, problems=[])


if __name__ == "__main__":
    main()
