# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: port_info
short_description: Tell which planned ports can be bound, who holds the others, and what else touches them
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Binds every planned address and port for a moment, with C(SO_REUSEADDR) as the servers do, and finds out what stands
    in the way of each that cannot be bound - a listener, a client that uses the port as its source, a connection in
    TIME-WAIT, a process that has bound it and does not listen, the kernel.
  - Also looks at what a bind does not show - ports that container runtimes publish, NAT rules and ipvs services that
    catch connections to this host, the ports from which the kernel takes source ports, how full the ranges are from
    which processes draw ports at random, and whether this is the network namespace of the host.
  - Only looks, and only fails when its options are wrong. M(mooncake.pd.port_group) is the module that fails when a
    port is taken.
  - What could not be found out stands in RV(ports.unknown). It is never told as fine.
options:
  groups:
    description: The processes of this host and the ports they claim.
    type: list
    elements: dict
    default: []
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
  pools:
    description: Ranges of ports from which processes of this host draw at random. They are not probed.
    type: list
    elements: dict
    default: []
    suboptions:
      purpose:
        description: What the ports are for.
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
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - Run as root (C(become)). Otherwise processes of other users, NAT rules and containers stay unknown.
  - Where the kernel does not list bound sockets that do not listen (before 6.8), they are found by a duplicate of each
    socket that stands in no table, which is closed at once (C(pidfd_getfd), kernel 5.6 or newer).
  - Looking at containers asks the sockets of docker and podman for the list of running containers, no more.
seealso:
  - module: mooncake.pd.port_group
"""

EXAMPLES = r"""
- name: Look at the planned ports of this host
  mooncake.pd.port_info:
    groups: "{{ pd_host.processes | map(attribute='claims') }}"
    pools: "{{ pd_host.pools }}"
  become: true
  register: looked

- name: Show what is not simply free
  ansible.builtin.debug:
    msg: "{{ looked.ports.court | map(attribute='text') }}"

- name: See whether something catches connections to port 8100
  ansible.builtin.debug:
    msg: "{{ looked.ports.redirections | selectattr('first', '<=', 8100) | selectattr('last', '>=', 8100) }}"
"""

RETURN = r"""
ports:
  description: What was found.
  returned: always
  type: dict
  contains:
    court:
      description: Every planned port that is not simply free.
      type: list
      elements: dict
      contains:
        process:
          description: Name of the process that claims it.
          type: str
        unit:
          description: Unit of that process.
          type: str
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
        verdict:
          description:
            - V(own) (the unit's own processes hold it), V(taken), V(no-address) (the address is not on this host),
              V(no-permission) or V(invalid).
          type: str
        cause:
          description:
            - What holds the port. V(listener), V(client) (a connection that uses it as its source port),
              V(time-wait) (a connection without a process), V(bound) (bound, and not listening), V(kernel) (a socket
              that no process here has open) or V(hidden) (it was not found out).
            - Null when the port is not held by a socket.
          type: str
        states:
          description: TCP states of the sockets that hold it.
          type: list
          elements: str
        owners:
          description: Every process that has one of these sockets open (pid, command, user, unit, container, login).
          type: list
          elements: dict
        remote:
          description: The other end of the connection, for V(client) and V(time-wait).
          type: str
        published_by:
          description: The container for which a process of its runtime holds the port.
          type: str
        text:
          description: What is wrong, in one sentence. Empty for V(own).
          type: str
        fix:
          description: What to do about it.
          type: str
    probed:
      description: How many planned ports were probed.
      type: int
    free:
      description: How many of them are free.
      type: int
    own:
      description: How many of them the units' own processes hold.
      type: int
    namespace:
      description: The network namespace in which this looked; C(same_as_init) tells whether it is the one of process 1.
      type: dict
      sample: {same_as_init: true}
    ephemeral:
      description: First and last port of C(net.ipv4.ip_local_port_range), from which the kernel takes source ports.
      type: list
      elements: int
      sample: [32768, 60999]
    reserved:
      description: Ranges of C(net.ipv4.ip_local_reserved_ports), which it leaves out.
      type: list
      elements: list
      sample: [[36000, 36015], [50051, 50051]]
    reserved_raw:
      description: The value itself.
      type: str
      sample: 36000-36015,50051
    sockets:
      description:
        - Numbers of TCP sockets of this namespace by state. C(time_wait_ephemeral) is the number of different source
          ports that a TIME-WAIT occupies within RV(ports.ephemeral).
      type: dict
      sample: {listen: 31, established: 48, time_wait: 6, other: 1, time_wait_ephemeral: 4}
    pools:
      description:
        - Each range of O(pools), with the number of its ports on which something listens, and at most 10 ports on which
          processes listen that belong to none of the units.
      type: list
      elements: dict
      sample:
        - purpose: transfer-rpc
          first: 15000
          last: 17000
          listeners: 1
          foreign: [{port: 15021, address: 0.0.0.0, owner: "pid 4242 (nc -l 15021), user root, in no systemd unit"}]
    published:
      description:
        - TCP ports that containers publish (runtime, container, address, port, to). A runtime that sleeps behind a
          socket of systemd is not asked, for that would start it.
      type: list
      elements: dict
      sample: [{runtime: docker, container: web, address: 0.0.0.0, port: 8080, to: "80"}]
    redirections:
      description:
        - Other NAT rules and ipvs services that catch TCP connections to addresses of this host. C(address) is null
          where the rule names none, and V(::) where it is for IPv6 only.
      type: list
      elements: dict
      sample:
        - by: iptables
          chain: PREROUTING
          address: null
          first: 8100
          last: 8100
          to: 192.0.2.20:80
          kubernetes: false
    nodeports:
      description: Whether kube-proxy has set this host up for NodePorts.
      type: bool
    unknown:
      description:
        - What could not be found out. C(what) is a path in RV(ports), C(why) one sentence, C(raw) what a tool said.
      type: list
      elements: dict
      sample: [{what: redirections, why: iptables-save gave no answer in 10.0 s., raw: ""}]
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import port_court, port_facts


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "groups": {"type": "list", "elements": "dict", "default": [], "options": port_court.GROUP},
            "pools": {"type": "list", "elements": "dict", "default": [], "options": port_court.POOL},
        },
        supports_check_mode=True,
    )
    facts = port_facts.gather(module.params["groups"], module.params["pools"])
    module.exit_json(changed=False, ports=facts)


if __name__ == "__main__":
    main()
