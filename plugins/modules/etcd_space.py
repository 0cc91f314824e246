# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_space
short_description: Give back space that etcd does not use, and take back its alarm when there is space
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Beyond its quota a member raises the alarm C(NOSPACE), and all of them take no writes until somebody takes it back.
    What counts is the file of the database, which keeps its size when keys are deleted and old versions are compacted.
  - Defragments the file of one member, when enough of it is free and the others are a quorum, for the member answers
    nobody meanwhile. Takes back the alarm as soon as the files of all members leave room below the quota for the
    largest request (1.5 MiB, or a twentieth of a small quota); with less, the next request would raise it again.
options:
  defragment:
    description: Name of the member whose file is to be made smaller. Without it only alarms are looked at.
    type: str
  min_free:
    description: Percent of the file that have to be free, or it is left as it is.
    type: int
    default: 20
  quota:
    description: >-
      Bytes beyond which members take no writes (C(--quota-backend-bytes)). V(0) is etcd's own default of 2 GiB, and a
      negative number no quota, as for etcd.
    type: int
    default: 0
  defragment_timeout:
    description: Seconds that the defragmentation may take; O(timeout) is for everything else.
    type: int
    default: 300
extends_documentation_fragment: mooncake.pd.etcd
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
    details: Tells no alarm that would only be taken back after the defragmentation.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
seealso:
  - module: mooncake.pd.etcd_info
"""

EXAMPLES = r"""
- name: Give back space, one member after the other
  mooncake.pd.etcd_space:
    endpoints: "{{ pd_cluster.etcd.endpoints }}"
    defragment: "{{ inventory_hostname }}"
    quota: 2147483648
  throttle: 1
"""

RETURN = r"""
defragmented:
  description: Whether the file was made smaller; in check mode, would be.
  returned: always
  type: bool
size_before:
  description: Bytes of the file; V(null) without O(defragment).
  returned: always
  type: int
size_after:
  description: Bytes of the file afterwards; in check mode what is in use of it.
  returned: always
  type: int
disarmed:
  description: Members whose alarm was taken back; in check mode, would be.
  returned: always
  type: list
  elements: str
alarms:
  description: Alarms that are still raised, such as C(NOSPACE of a).
  returned: always
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import etcd_space
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_api import EtcdError
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_cluster import Cluster, Known, ask
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_options import ARGUMENTS, TOGETHER, connect


class Space:
    def __init__(self, params: dict[str, Any], check_mode: bool) -> None:
        self.params = params
        self.check_mode = check_mode
        self.name: str = params["defragment"] or ""

    def seen(self) -> Cluster:
        return Cluster.of([ask(endpoint, connect(self.params)) for endpoint in self.params["endpoints"]])

    def run(self) -> dict[str, Any]:
        cluster = self.seen()
        before = sizes(cluster.member(self.name))
        member = etcd_space.to_defragment(cluster, self.name, self.params["min_free"]) if self.name else None
        after = before
        if member and self.check_mode:
            after = before[1], before[1]
        elif member and member.asked:
            patient = {**self.params, "timeout": self.params["defragment_timeout"]}
            connect(patient)(member.asked.endpoint).call("/v3/maintenance/defragment")
            cluster = self.seen()
            after = sizes(cluster.member(self.name))
        disarmed = self.disarm(cluster)
        if disarmed and not self.check_mode:
            cluster = self.seen()
        return {
            "changed": bool(member or disarmed),
            "defragmented": bool(member),
            "size_before": before[0],
            "size_after": after[0],
            "disarmed": disarmed,
            "alarms": cluster.alarms,
            "diff": {"before": told(self.name, before[0], disarmed), "after": told(self.name, after[0], [])},
        }

    def disarm(self, cluster: Cluster) -> list[str]:
        members = etcd_space.to_disarm(cluster, self.params["quota"])
        healthy = [one.endpoint for one in cluster.asked if one.healthy]
        if members and healthy and not self.check_mode:
            to = connect(self.params)(healthy[0])
            for member in members:
                etcd_space.disarm(to.call, member)
        return [member.name for member in members] if healthy else []


def sizes(member: Known | None) -> tuple[int | None, int | None]:
    """Of the file, and of what is in use of it."""
    if member is None:
        return None, None
    told = member.as_dict("", 0)
    return told["db_size"], told["db_size_in_use"]


def told(name: str, size: int | None, alarms: list[str]) -> str:
    lines = [f"{name}: {size} bytes"] if name else []
    return "".join(f"{line}\n" for line in [*lines, *(f"{etcd_space.NOSPACE} of {one}" for one in alarms)])


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **ARGUMENTS,
            "defragment": {"type": "str"},
            "min_free": {"type": "int", "default": 20},
            "quota": {"type": "int", "default": 0},
            "defragment_timeout": {"type": "int", "default": 300},
        },
        required_together=TOGETHER,
        supports_check_mode=True,
    )
    try:
        result = Space(module.params, module.check_mode).run()
    except etcd_space.Refused as error:
        module.fail_json(msg=f"Nothing was changed: {error}")
    except EtcdError as error:
        module.fail_json(msg=f"etcd refused it: {error}. Mend: look into the log of the member.")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
