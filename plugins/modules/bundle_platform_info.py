# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_platform_info
short_description: Tell which wheels and packages fit a host
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Tells distribution, architecture, C library and the versions of Pythons, as a bundle needs to know them.
  - It reads C(/etc/os-release) and asks each Python for its version.
options:
  pythons:
    description:
      - Paths of Pythons. One that is not there yet is known by its name, as C(/usr/bin/python3.11).
      - One that is not there and whose name tells no version is left out of the answer.
    type: list
    elements: path
    required: true
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
seealso:
  - module: mooncake.pd.bundle_check
"""

EXAMPLES = r"""
- name: Learn what fits this host
  mooncake.pd.bundle_platform_info:
    pythons: [/usr/bin/python3]
  register: told
"""

RETURN = r"""
platform:
  description: What fits the host.
  returned: always
  type: dict
  contains:
    distribution:
      description: C(ID) of C(/etc/os-release).
      type: str
      sample: openeuler
    release:
      description: C(VERSION_ID) of it.
      type: str
      sample: "24.03"
    family:
      description: V(Debian), V(RedHat), or empty for another.
      type: str
    architecture:
      description: As C(uname -m) tells it.
      type: str
      sample: aarch64
    glibc:
      description: Version of the C library; empty when no Python could be asked.
      type: str
      sample: "2.38"
    pythons:
      description: Version by path.
      type: dict
      sample: {/usr/bin/python3: 3.11.6}
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.module_utils.bundle import platforms


def _release() -> str:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as source:
                return source.read()
    return ""


def main() -> None:
    module = AnsibleModule(
        argument_spec={"pythons": {"type": "list", "elements": "path", "required": True}},
        supports_check_mode=True,
    )
    pythons: dict[str, str] = {}
    libc: list[str] = []
    for path in module.params["pythons"]:
        code, out, _err = module.run_command([path, "-c", platforms.ASK]) if os.path.exists(path) else (1, "", "")
        told = out.split() if code == 0 else []
        version = told[0] if told else platforms.version_in(path)
        if version:
            pythons[path] = version
        libc += told[1:]
    found = platforms.platform(platforms.os_release(_release()), os.uname().machine, pythons, libc)
    module.exit_json(changed=False, platform=found)


if __name__ == "__main__":
    main()
