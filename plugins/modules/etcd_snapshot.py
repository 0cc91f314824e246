# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_snapshot
short_description: Save a snapshot of etcd, or look whether one is whole
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Saves the database of the first endpoint that is healthy. The file is there only when it is whole, that is when it
    agrees with the SHA-256 that the member sends behind it. C(etcdctl snapshot restore) and C(etcdutl snapshot restore)
    take it.
options:
  endpoints:
    description: URLs of the members, such as V(http://192.0.2.11:2379). Required for O(state=saved).
    type: list
    elements: str
    required: false
    default: []
  path:
    description: The file. It is written anew, with mode 0600.
    type: path
    required: true
  state:
    description: V(saved) writes it, V(verified) only looks at one that is there, and asks nobody.
    type: str
    choices: [saved, verified]
    default: saved
extends_documentation_fragment: mooncake.pd.etcd
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
"""

EXAMPLES = r"""
- name: Save a snapshot
  mooncake.pd.etcd_snapshot:
    endpoints: "{{ pd_cluster.etcd.endpoints }}"
    path: /var/backups/etcd.snapshot
"""

RETURN = r"""
size:
  description: Bytes of the snapshot.
  returned: always, but not for O(state=saved) in check mode
  type: int
endpoint:
  description: The member that it is of.
  returned: for O(state=saved)
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils import etcd_snapshot
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_api import EtcdError
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_cluster import ask
from ansible_collections.mooncake.pd.plugins.module_utils.etcd_options import ARGUMENTS, TOGETHER, connect


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **ARGUMENTS,
            "endpoints": {"type": "list", "elements": "str", "default": []},
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["saved", "verified"], "default": "saved"},
        },
        required_if=[("state", "saved", ("endpoints",))],
        required_together=TOGETHER,
        supports_check_mode=True,
    )
    params = module.params
    path: str = params["path"]
    try:
        if params["state"] == "verified":
            module.exit_json(changed=False, size=etcd_snapshot.verify(path))
        asked = [ask(endpoint, connect(params)) for endpoint in params["endpoints"]]
        healthy = [one.endpoint for one in asked if one.healthy]
        if not healthy:
            told = "; ".join(f"{one.endpoint}: {one.why or one.unhealthy}" for one in asked)
            module.fail_json(msg=f"Nothing was saved, as no member is healthy: {told}")
        if module.check_mode:
            module.exit_json(changed=True, endpoint=healthy[0])
        size = etcd_snapshot.save(connect(params)(healthy[0]), path)
        module.exit_json(changed=True, endpoint=healthy[0], size=size)
    except (EtcdError, etcd_snapshot.BrokenSnapshot, OSError) as error:
        module.fail_json(msg=f"{error}. Mend: take another snapshot or another file.")


if __name__ == "__main__":
    main()
