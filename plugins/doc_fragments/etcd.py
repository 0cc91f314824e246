# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How modules are told to reach etcd; see module_utils/etcd_options.py."""

    DOCUMENTATION = r"""
options:
  endpoints:
    description: URLs of the members, such as V(http://192.0.2.11:2379).
    type: list
    elements: str
    required: true
  ca_file:
    description: Certificate of the authority that the members' certificates are proven by, for C(https).
    type: path
  cert_file:
    description: Certificate to show.
    type: path
  key_file:
    description: Key of O(cert_file).
    type: path
  user:
    description: User of etcd, where it asks for one.
    type: str
  password:
    description: Password of O(user).
    type: str
  timeout:
    description: Seconds to wait for each answer.
    type: int
    default: 5
"""
