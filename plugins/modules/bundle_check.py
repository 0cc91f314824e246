# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_check
short_description: Look whether a bundle is whole and has what the hosts need
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Checks size and SHA256 of every file of a bundle, and compares its requests with what the hosts of the play need
    (C(bundle_needs) and C(bundle_platform)). All problems are told at once, with the command that collects what lacks.
  - Runs on the controller, once for all hosts, and changes nothing.
options:
  path:
    description: Folder of the bundle.
    type: path
    required: true
  command:
    description: What to tell people to run on the connected machine.
    type: str
    default: ansible-playbook playbooks/bundle.yml -i INVENTORY
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: none
  action:
    description: Indicates this has a corresponding action plugin so some parts of the options can be executed on the
      controller.
    support: full
seealso:
  - module: mooncake.pd.bundle_collect
  - module: mooncake.pd.bundle_store
"""

EXAMPLES = r"""
- name: Check the bundle
  mooncake.pd.bundle_check:
    path: /srv/bundle
  run_once: true
  register: checked
"""

RETURN = r"""
hosts:
  description: By host, what is for it.
  returned: success
  type: dict
  contains:
    files:
      description: SHA256 of what has to be copied, by path below the bundle.
      type: dict
    wheels:
      description: Folders of wheels below the bundle.
      type: list
      elements: str
    packages:
      description: Folder of packages below the bundle; empty for none.
      type: str
    family:
      description: V(Debian) or V(RedHat).
      type: str
    controller_files:
      description: Paths on the controller of sources and the image, by name.
      type: dict
"""
