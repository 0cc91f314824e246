# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_member
short_description: Add a member to etcd or remove one, as long as the others are a quorum
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Changes the list of members by a member that is healthy. The process of a member is not touched.
  - Refuses what would cost the quorum, a second member that has not started yet, and a name or an address that is
    another member's.
options:
  name:
    description: Name of the member; for O(state=absent) also its id, as one that never started has no name.
    type: str
    required: true
  peer_url:
    description: Where other members reach it. Required for O(state=present).
    type: str
  lost:
    description: >-
      The data of this member is gone. One that has started before is removed and added anew then, for it would vote
      twice.
    type: bool
    default: false
  state:
    description: Whether it is a member.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment: mooncake.pd.etcd
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
seealso:
  - module: mooncake.pd.etcd_info
"""

EXAMPLES = r"""
- name: Make a host a member before etcd starts there
  mooncake.pd.etcd_member:
    endpoints: "{{ pd_cluster.etcd.endpoints }}"
    name: d
    peer_url: https://192.0.2.14:2380
  register: joined

- name: Remove a member whose host is gone
  mooncake.pd.etcd_member:
    endpoints: "{{ pd_cluster.etcd.endpoints }}"
    name: c
    state: absent
"""

RETURN = r"""
removed:
  description: Names, or ids without a name, of what was removed; in check mode, would be.
  returned: always
  type: list
  elements: str
added:
  description: Whether it was added; in check mode, would be.
  returned: always
  type: bool
initial_cluster:
  description: What C(--initial-cluster) of the member has to be when it starts for the first time.
  returned: for O(state=present)
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import etcd_change
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_api import EtcdError
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_change import Change, Refused
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_cluster import Cluster, ask
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_options import ARGUMENTS, TOGETHER, connect


def change(params: dict[str, Any], cluster: Cluster, wanted: Change) -> None:
    leaving = wanted.remove.id if wanted.remove else ""
    healthy = [one for one in cluster.asked if one.healthy and one.id != leaving]
    member = connect(params)(healthy[0].endpoint)
    if wanted.remove:
        member.call("/v3/cluster/member/remove", {"ID": str(int(leaving, 16))})
    if wanted.add:
        member.call("/v3/cluster/member/add", {"peerURLs": [wanted.add]})


def listing(cluster: Cluster) -> str:
    return "".join(f"{member.name or member.id} {' '.join(member.peer_urls)}\n" for member in cluster.members)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **ARGUMENTS,
            "name": {"type": "str", "required": True},
            "peer_url": {"type": "str"},
            "lost": {"type": "bool", "default": False},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ("peer_url",))],
        required_together=TOGETHER,
        supports_check_mode=True,
    )
    params = module.params
    name, url = params["name"], params["peer_url"]
    cluster = Cluster.of([ask(endpoint, connect(params)) for endpoint in params["endpoints"]])
    try:
        if params["state"] == "present":
            wanted = etcd_change.present(cluster, name, url, params["lost"])
        else:
            wanted = etcd_change.absent(cluster, name)
        if wanted and not module.check_mode:
            change(params, cluster, wanted)
    except Refused as error:
        module.fail_json(msg=f"Nothing was changed: {error}")
    except EtcdError as error:
        module.fail_json(msg=f"etcd refused it: {error}")
    stay = [member for member in cluster.members if member != wanted.remove]
    result: dict[str, Any] = {}
    after = "".join(line for line in listing(cluster).splitlines(True) if not _is(line, wanted))
    if params["state"] == "present":
        result["initial_cluster"] = etcd_change.initial_cluster(stay, name, url)
        after += f"{name} {url}\n" if wanted.add else ""
    module.exit_json(
        changed=bool(wanted),
        removed=[wanted.remove.name or wanted.remove.id] if wanted.remove else [],
        added=bool(wanted.add),
        diff={"before": listing(cluster), "after": after},
        **result,
    )


def _is(line: str, wanted: Change) -> bool:
    return wanted.remove is not None and line.split(maxsplit=1)[0] in (wanted.remove.name, wanted.remove.id)


if __name__ == "__main__":
    main()
