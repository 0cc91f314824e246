# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: store_proof
short_description: Prove that a KV pool keeps what is put into it
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Runs a client of Mooncake's store that brings no memory of its own, and puts objects into the pool, fetches them, or
    removes them. Put on one host and fetched on another they prove the master, the segments, and the way between hosts.
  - The content follows from O(token), so the host that fetches knows every byte without being told.
  - Fails with what is wrong and what to do. RV(finding) tells the kinds apart.
  - Objects that were put stay until O(step=remove) removes them or the pool needs the room, so nothing is lost when
    they are forgotten.
  - In check mode nothing is done.
options:
  step:
    description: V(put) puts the objects, V(get) fetches and compares them, V(remove) removes them.
    type: str
    choices: [put, get, remove]
    required: true
  path:
    description: Python environment in which Mooncake is installed.
    type: path
    required: true
  address:
    description: Address of this host, by which others of the pool reach it.
    type: str
    required: true
  store:
    description: How a client gets in, as in C(pd_cluster.store).
    type: dict
    required: true
    suboptions:
      server_address:
        description: Where the master is, V(192.0.2.10:17051) or V(etcd://192.0.2.11:2379).
        type: str
        required: true
      metadata_server:
        description: Where clients find each other.
        type: str
        default: P2PHANDSHAKE
      protocol:
        description: Transport of the pool. That of NPUs belongs to a process that has one, so it cannot be tried here.
        type: str
        choices: [tcp, rdma]
        required: true
      devices:
        description: RDMA devices. Empty for those that Mooncake finds.
        type: list
        elements: str
        default: []
      environment:
        description: Environment of every client, such as C(MC_STORE_CLUSTER_ID).
        type: dict
        default: {}
      fallback:
        description: Pattern of lines that tell of another transport. Empty for none.
        type: str
        default: ""
      nodes:
        description: Part of C(pd_cluster.store) that the proof does not look at.
        type: list
        elements: dict
      bytes:
        description: Part of C(pd_cluster.store) that the proof does not look at.
        type: int
      sides:
        description: Part of C(pd_cluster.store) that the proof does not look at.
        type: list
        elements: str
  token:
    description: Name of this proof, the same on all hosts and new in every run.
    type: str
    required: true
  sizes:
    description: Bytes of each object.
    type: list
    elements: int
    default: [4096, 1048576, 16777216]
  environment:
    description: More environment of the client, such as C(LD_LIBRARY_PATH).
    type: dict
    default: {}
  user:
    description: User that the client runs as. Empty for the one that Ansible is here.
    type: str
    default: ""
  timeout:
    description: Seconds that the client may take.
    type: int
    default: 60
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
notes:
  - O(user) needs root (C(become)).
  - The first object warms connections up, so its figures are of no use.
seealso:
  - module: mooncake.pd.kv_proof
  - module: mooncake.pd.transfer_bench
"""

EXAMPLES = r"""
- name: Put objects into the pool
  mooncake.pd.store_proof:
    step: put
    path: /opt/mooncake-pd/engine
    address: "{{ pd_host.address }}"
    store: "{{ pd_cluster.store }}"
    token: "{{ proof_token }}"
  when: inventory_hostname == 'p1'

- name: Fetch them on another host
  mooncake.pd.store_proof:
    step: get
    path: /opt/mooncake-pd/engine
    address: "{{ pd_host.address }}"
    store: "{{ pd_cluster.store }}"
    token: "{{ proof_token }}"
  when: inventory_hostname == 'd1'
  register: fetched
"""

RETURN = r"""
objects:
  description: One entry for each object that was put or fetched.
  returned: always
  type: list
  elements: dict
  contains:
    step:
      description: V(put) or V(get).
      type: str
    size:
      description: Bytes.
      type: int
    seconds:
      description: How long it took, with copying it out of and into memory of Python.
      type: float
    bandwidth:
      description: Bytes a second. V(null) when it took no time that could be measured.
      type: int
  sample:
    - {step: get, size: 16777216, seconds: 0.0141, bandwidth: 1189873900}
finding:
  description: >-
    What is wrong, V(no-mooncake), V(no-master), V(version-skew), V(setup-failed), V(fallback), V(no-space),
    V(put-failed), V(missing), V(wrong-value), V(not-removed), V(unfinished), V(timeout) or V(crashed). Empty when
    nothing is.
  returned: always
  type: str
  sample: no-space
"""

import socket
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import client_program, store_client, store_proof

CONNECT_SECONDS = 3.0


def unreachable(server_address: str) -> str:
    """Why nobody can connect there; empty when somebody can, or where the address is not that of the master."""
    place = store_proof.host_and_port(server_address)
    if place is None:
        return ""
    try:
        socket.create_connection(place, CONNECT_SECONDS).close()
    except OSError as error:
        return str(error)
    return ""


def command(params: Dict[str, Any], wish: Dict[str, Any]) -> List[str]:
    return client_program.command(params["path"], params["user"], params["timeout"], store_client, wish)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": ["put", "get", "remove"], "required": True},
            "path": {"type": "path", "required": True},
            "address": {"type": "str", "required": True},
            "store": {
                "type": "dict",
                "required": True,
                "options": {
                    "server_address": {"type": "str", "required": True},
                    "metadata_server": {"type": "str", "default": "P2PHANDSHAKE"},
                    "protocol": {"type": "str", "choices": ["tcp", "rdma"], "required": True},
                    "devices": {"type": "list", "elements": "str", "default": []},
                    "environment": {"type": "dict", "default": {}},
                    "fallback": {"type": "str", "default": ""},
                    "nodes": {"type": "list", "elements": "dict"},
                    "bytes": {"type": "int"},
                    "sides": {"type": "list", "elements": "str"},
                },
            },
            "token": {"type": "str", "required": True, "no_log": False},
            "sizes": {"type": "list", "elements": "int", "default": [4096, 1048576, 16777216]},
            "environment": {"type": "dict", "default": {}},
            "user": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    params, store = module.params, module.params["store"]
    if module.check_mode:
        module.exit_json(changed=False, objects=[], finding="")
    why = unreachable(store["server_address"])
    if why:
        finding = store_proof.no_master(store["server_address"], why)
        module.fail_json(msg=finding.text, finding=finding.id, objects=[])
    wish = {
        **{name: store[name] for name in ("server_address", "metadata_server", "protocol", "devices", "fallback")},
        **{name: params[name] for name in ("address", "token", "sizes")},
        "steps": [params["step"]],
    }
    code, out, log = module.run_command(
        command(params, wish),
        environ_update={**params["environment"], **store["environment"], **client_program.ONCE},
        handle_exceptions=True,
    )
    records = store_proof.said(out)
    findings = list(store_proof.judge(code, records, log, wish))
    objects = store_proof.figures(records)
    if findings:
        text = "\n".join(finding.text for finding in findings)
        module.fail_json(msg=text, finding=findings[0].id, objects=objects)
    # what is put is removed again, and what is there was not the operator's
    module.exit_json(changed=False, objects=objects, finding="")


if __name__ == "__main__":
    main()
