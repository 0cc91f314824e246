# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_store
short_description: Bring the files of a bundle to a host
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Compares a folder of the host with what is wanted, by checksum, and copies what is missing. What is there and no
    longer wanted goes.
  - A file gets its name only after its checksum was found right, so what a run that was interrupted has brought is
    used by the next one.
  - Small files travel together. A file that has not changed since it was checked is not read again.
  - Then it writes settings for apt or dnf into the folder that know these packages only, and lets apt read them. The
    host's own settings stay as they are.
options:
  bundle:
    description: Folder of the bundle on the controller.
    type: path
    required: true
  path:
    description: Folder on the host. It belongs to the bundle.
    type: path
    required: true
  files:
    description: Name below O(bundle) and SHA256 of each file that is wanted.
    type: dict
    required: true
  packages:
    description: Folder of packages among them, empty for none.
    type: str
    default: ""
  family:
    description: Whose packages they are. V(RedHat) is written from documentation and has not been run.
    type: str
    choices: [Debian, RedHat, ""]
    default: ""
  state:
    description:
      - Only V(present) is for playbooks; the others are the steps that it takes on the host.
    type: str
    choices: [present, look, take]
    default: present
  arrived:
    description: Of the step V(take), the files that have arrived, by name; the empty name is an archive with several.
    type: dict
    default: {}
  packed:
    description: Of the step V(take), name and SHA256 of what is in that archive.
    type: dict
    default: {}
  complete:
    description: Of the step V(take), whether it is the last one.
    type: bool
    default: false
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
  action:
    description: Indicates this has a corresponding action plugin so some parts of the options can be executed on the
      controller.
    support: full
seealso:
  - module: mooncake.pd.bundle_check
"""

EXAMPLES = r"""
- name: Bring what this host needs
  mooncake.pd.bundle_store:
    bundle: /srv/bundle
    path: /var/cache/mooncake-pd/bundle
    files: "{{ checked.hosts[inventory_hostname].files }}"
    packages: "{{ checked.hosts[inventory_hostname].packages }}"
    family: Debian
"""

RETURN = r"""
missing:
  description: What had to come; in check mode, what would have to.
  returned: always
  type: list
  elements: str
strange:
  description: What was there and not wanted.
  returned: always
  type: list
  elements: str
ready:
  description: Whether everything is there and the package manager knows it.
  returned: always
  type: bool
"""

import hashlib
import json
import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.bundle import sources
from ansible_collections.mooncake.pd.plugins.module_utils.bundle.store import (
    Store,
    StoreError,
    differences,
    free,
    inside,
)


def look(store: Store, wanted: dict[str, str], stamp: str) -> dict[str, Any]:
    missing, strange = differences(store.files(), wanted)
    ready = not missing and not strange and store.stamp == stamp
    return {"missing": missing, "strange": strange, "ready": ready, "free": free(store.path)}


def take(module: AnsibleModule, store: Store) -> None:
    os.makedirs(store.path, mode=0o755, exist_ok=True)
    store.unready()
    for name, source in module.params["arrived"].items():
        if name:
            store.take(name, source, module.params["files"][name])
        else:
            store.take_archive(source, module.params["packed"])


def complete(module: AnsibleModule, store: Store, texts: dict[str, str], stamp: str) -> None:
    missing, strange = differences(store.files(), module.params["files"])
    if missing:
        raise StoreError(f"{', '.join(missing)} did not arrive")
    store.remove(strange)
    for name, text in texts.items():
        store.text(name, text)
    if "apt/apt.conf" in texts:
        for folder in ("none", "lists/partial"):
            os.makedirs(os.path.join(store.path, "apt", folder), mode=0o755, exist_ok=True)
        module.run_command(
            [module.get_bin_path("apt-get", required=True), "-qq", "update"],
            environ_update={"APT_CONFIG": os.path.join(store.path, "apt/apt.conf")},
            check_rc=True,
        )
    store.ready(stamp)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "bundle": {"type": "path", "required": True},
            "path": {"type": "path", "required": True},
            "files": {"type": "dict", "required": True},
            "packages": {"type": "str", "default": ""},
            "family": {"type": "str", "choices": ["Debian", "RedHat", ""], "default": ""},
            "state": {"type": "str", "choices": ["present", "look", "take"], "default": "present"},
            "arrived": {"type": "dict", "default": {}},
            "packed": {"type": "dict", "default": {}},
            "complete": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    wanted: dict[str, str] = module.params["files"]
    store = Store(module.params["path"])
    texts = sources.texts(module.params["family"], store.path, module.params["packages"])
    stamp = hashlib.sha256(json.dumps([wanted, texts], sort_keys=True).encode()).hexdigest()
    try:
        inside(wanted)
        if module.params["state"] == "look" or module.check_mode:
            module.exit_json(changed=False, **look(store, wanted, stamp))
        take(module, store)
        if module.params["complete"]:
            complete(module, store, texts, stamp)
    except (StoreError, OSError) as error:
        module.fail_json(msg=f"{store.path}: {error}. Mend: run again; what has arrived whole is kept.")
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
