# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle_collect
short_description: Collect what the hosts of an inventory need into one folder, for a site without a network
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Takes what each of O(hosts) needs from its variables C(bundle_needs) and C(bundle_platform), and fills a folder with
    it. These are wheels for the hosts' Pythons, packages of their distribution with all that they need, sources with
    submodules, images, this collection, and the wheels of ansible-core for a controller.
  - C(manifest.json) tells of each file what it is for, where it is from, version, size and SHA256; C(SHA256SUMS) is for
    C(sha256sum -c).
  - Each request has a folder of its own, which gets its name when it is whole. What an earlier run has brought is not
    asked for again, a file that is missing or damaged is replaced, and what is no longer needed goes. What a package
    manager or pip cannot find is told for all requests at once, and what came is kept.
  - RPM packages are collected as C(dnf-download(8)) and C(createrepo_c(8)) tell, which has not been run.
  - Runs on the controller, once for all hosts.
options:
  path:
    description: Folder to fill. It has to be empty, new, or a bundle.
    type: path
    required: true
  hosts:
    description: Hosts whose variables are read.
    type: list
    elements: str
    required: true
  controller:
    description:
      - Describes the controller at the closed site (distribution, release, architecture, python).
      - Without it, one like this.
    type: dict
    default: {}
  pip_args:
    description: More arguments for C(pip download), such as C(--find-links=FOLDER) with wheels of your own.
    type: list
    elements: str
    default: []
  package_sources:
    description:
      - File with the package sources of the hosts, as in C(/etc/apt) or C(/etc/yum.repos.d). Keys and folders that it
        names are those of this machine.
      - Without it, those of this machine, which then has to be of the same distribution and release.
    type: path
    default: ""
  refresh:
    description: Ask again for what may have become newer, packages, images and dependencies that no lock pins.
    type: bool
    default: false
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
  - module: mooncake.pd.bundle_check
"""

EXAMPLES = r"""
- name: Collect what all hosts need
  mooncake.pd.bundle_collect:
    path: /srv/bundle
    hosts: "{{ groups['pd'] }}"
  run_once: true
  delegate_to: localhost
"""

RETURN = r"""
path:
  description: The folder.
  returned: always
  type: str
collected:
  description: What was asked for and came; in check mode, what would be asked for.
  returned: always
  type: list
  elements: str
mended:
  description: Files that were missing or damaged.
  returned: always
  type: list
  elements: str
removed:
  description: Folders that nothing needs any more.
  returned: always
  type: list
  elements: str
count:
  description: Number of files.
  returned: always
  type: int
size:
  description: Bytes of all files.
  returned: always
  type: int
"""
