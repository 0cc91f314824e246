# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: etcd_certificates
short_description: Make and renew the certificates of etcd's members on the controller
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Keeps C(ca.crt) and C(ca.key), an authority of the cluster's own, and C(NAME.crt) and C(NAME.key) of each member in
    a folder of the controller. The folder gets mode 0700, the files 0600. No host is contacted.
  - A certificate is made anew when it is missing, ends soon, is of another authority or for another address. A key that
    is there is kept, so keys may be encrypted with C(ansible-vault encrypt) afterwards; they are decrypted when needed.
  - An authority is made only where there is none. One half of it without the other is an error.
options:
  path:
    description: The folder; an absolute path.
    type: path
    required: true
  cluster:
    description: Name of the cluster, for the name of its authority.
    type: str
    required: true
  members:
    description: Address of each member by its name. The certificate is for this address only.
    type: dict
    required: true
  days:
    description: How long certificates of members last. The authority lasts ten years.
    type: int
    default: 365
  renew_days:
    description: A certificate that ends within these days is made anew.
    type: int
    default: 60
  used_authority:
    description: Text of the authority's certificate that members run with. That of O(path) has to be the same.
    type: str
    default: ""
attributes:
  action:
    description: Runs as an action plugin on the controller.
    support: full
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Says what is made anew, and why; no text of a key.
    support: full
"""

EXAMPLES = r"""
- name: Make the certificates of etcd
  mooncake.pd.etcd_certificates:
    path: "{{ inventory_dir }}/.secrets/lab/etcd"
    cluster: lab
    members: {a: 192.0.2.11, b: 192.0.2.12, c: 192.0.2.13}
  run_once: true
"""

RETURN = r"""
files:
  description: Names of the files that were written; in check mode, would be.
  returned: always
  type: list
  elements: str
ends:
  description: When the certificate of each member ends.
  returned: always
  type: dict
"""
