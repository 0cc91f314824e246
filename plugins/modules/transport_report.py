# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: transport_report
short_description: Judge transfers between hosts, show them, and write them for scripts
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Takes what M(mooncake.pd.transfer_offer) and M(mooncake.pd.transfer_proof) returned on the hosts of the play, and
    compares what each host wrote with what its peer says has arrived.
  - Shows one line for each pair and protocol, and each finding once with its way out. Writes C(transport.json).
  - Fails when a pair is not proven, and when there is no pair at all. What a host did not tell is not proven.
  - Runs on the controller, once for all hosts. In check mode it does nothing.
options:
  cluster:
    description: Name of the cluster, for the folder.
    type: str
    required: true
  protocols:
    description: Transports that were to be proven, in their order.
    type: list
    elements: str
    required: true
  peers:
    description: Variable with the names of the hosts that a host was to prove transfers with.
    type: str
    default: __transport_peers
  offered:
    description: Variable in which the result of M(mooncake.pd.transfer_offer) was registered, for its message.
    type: str
    default: __transport_offered
  proven:
    description: Variable in which the result of M(mooncake.pd.transfer_proof) was registered.
    type: str
    default: __transport_proven
  witness:
    description: Variable in which the result of M(mooncake.pd.transfer_offer) was registered that ended the offers.
    type: str
    default: __transport_witness
  dest:
    description: Folder on the controller. By default C(transport/CLUSTER) in the current folder.
    type: path
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
"""

EXAMPLES = r"""
- name: Judge
  mooncake.pd.transport_report:
    cluster: "{{ pd_cluster.name }}"
    protocols: [tcp, rdma]
  run_once: true
"""

RETURN = r"""
rows:
  description: One for each pair and protocol.
  returned: not in check mode
  type: list
  elements: dict
  contains:
    pair:
      description:
        - The host that read and wrote, and the host whose memory it was. The latter is C(?) when the former was lost
          before it knew its peers.
      type: str
      sample: d1-p1
    source:
      description: The first of them.
      type: str
    peer:
      description: The second. Empty for C(?).
      type: str
    protocol:
      description: Transport that was to be proven.
      type: str
    proven:
      description: Whether reading, writing and both checksums were right over that transport.
      type: bool
    rule:
      description:
        - "What is wrong, empty when nothing is: a rule of M(mooncake.pd.transfer_proof), or C(died), C(checksum-write)
          (other bytes have arrived than were written), C(unknown) (the peer did not tell)."
      type: str
    problem:
      description: The same as a sentence.
      type: str
    host:
      description: The host that it is wrong on. Empty when it is the way between the two.
      type: str
    mend:
      description: What to do about it.
      type: str
    segment:
      description: Address and port at which the peer's engine answered, or its name at the metadata server.
      type: str
    registered:
      description: Bytes of memory that the peer's engine has registered, as it tells its peers.
      type: int
    installed:
      description: Transport that the peer's engine has installed, as it tells its peers, with its devices.
      type: str
    read:
      description: Bytes a second of one transfer, connection included. No measure of the network; that is the baseline.
      type: float
    write:
      description: The same for writing, on a connection that is there.
      type: float
findings:
  description: "Each thing that is wrong once: C(rule), C(problem), C(mend), C(hosts), C(steps) (pairs and protocols)."
  returned: not in check mode
  type: list
  elements: dict
files:
  description: Files that were written.
  returned: not in check mode
  type: list
  elements: dict
"""
