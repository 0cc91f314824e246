# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_info
short_description: Tell whether etcd is healthy, who is in it and who leads
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Asks every endpoint for its state, its list of members and its alarms, and reads a key through the quorum.
  - It is healthy when every endpoint answers and can read, all belong to one cluster, all name the same leader, there
    is no alarm, every member has started, and with O(members) the members are those.
  - Takes etcd 3.4 and newer, by the JSON form of its API. It only reads.
options:
  members:
    description: Names that the members are to have. Without it they may be any.
    type: list
    elements: str
    default: []
  quota:
    description: >-
      Bytes of its database beyond which a member takes no writes (C(--quota-backend-bytes)), for releases before 3.6,
      which do not tell it.
    type: int
    default: 0
  without:
    description: Name of a member that is about to restart. RV(can_lose) tells whether the others are a quorum then.
    type: str
extends_documentation_fragment: mooncake.pd.etcd
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
seealso:
  - module: mooncake.pd.etcd_member
"""

EXAMPLES = r"""
- name: Wait until etcd is as planned
  mooncake.pd.etcd_info:
    endpoints: "{{ pd_cluster.etcd.endpoints }}"
    members: "{{ pd_cluster.etcd.members | map(attribute='name') }}"
  register: seen
  until: seen.healthy
  retries: 30
  delay: 1
"""

RETURN = r"""
healthy:
  description: Whether nothing is wrong.
  returned: always
  type: bool
problems:
  description: What is wrong, a sentence each.
  returned: always
  type: list
  elements: str
answering:
  description: Endpoints that answered.
  returned: always
  type: list
  elements: str
cluster_id:
  description: Id of the cluster; V(null) when nobody answered or there are several.
  returned: always
  type: str
leader:
  description: Name of the leader that all healthy members name, empty when there is none.
  returned: always
  type: str
quorum:
  description: Members that have to be there for a write.
  returned: always
  type: int
can_lose:
  description: Whether the healthy members without O(without) are a quorum.
  returned: when O(without) is given
  type: bool
alarms:
  description: Alarms that are raised, such as C(NOSPACE of a).
  returned: always
  type: list
  elements: str
members:
  description: The members as the cluster lists them, and what they said themselves.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: Its id, hexadecimal.
      type: str
    name:
      description: Its name, empty as long as it has not started.
      type: str
    peer_urls:
      description: Where other members reach it.
      type: list
      elements: str
    client_urls:
      description: Where clients reach it.
      type: list
      elements: str
    learner:
      description: Whether it has no vote yet.
      type: bool
    leader:
      description: Whether it leads.
      type: bool
    healthy:
      description: Whether it answers and can read through the quorum.
      type: bool
    why:
      description: Why it is not healthy.
      type: str
    version:
      description: Its release.
      type: str
    db_size:
      description: Bytes of its database.
      type: int
    db_size_in_use:
      description: Bytes of it that hold something.
      type: int
    db_quota:
      description: Bytes beyond which it takes no writes; V(null) when neither it nor O(quota) tells.
      type: int
    raft_term:
      description: Number of the election that its leader won.
      type: int
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.etcd_cluster import Cluster, ask
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_options import ARGUMENTS, TOGETHER, connect


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **ARGUMENTS,
            "members": {"type": "list", "elements": "str", "default": []},
            "quota": {"type": "int", "default": 0},
            "without": {"type": "str"},
        },
        required_together=TOGETHER,
        supports_check_mode=True,
    )
    params = module.params
    seen = Cluster.of([ask(endpoint, connect(params)) for endpoint in params["endpoints"]])
    problems = seen.problems(params["members"])
    more = {"can_lose": seen.can_lose(params["without"])} if params["without"] else {}
    leader = next((member.name for member in seen.members if seen.leader and member.id == seen.leader), "")
    module.exit_json(
        changed=False,
        healthy=not problems,
        problems=problems,
        answering=[one.endpoint for one in seen.asked if not one.why],
        cluster_id=seen.id,
        leader=leader,
        quorum=seen.quorum,
        alarms=seen.alarms,
        members=[member.as_dict(seen.leader, params["quota"]) for member in seen.members],
        **more,
    )


if __name__ == "__main__":
    main()
