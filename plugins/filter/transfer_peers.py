# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whom a host proves transfers with."""

from __future__ import annotations

DOCUMENTATION = r"""
name: transfer_peers
short_description: Whom a host proves transfers with
version_added: "0.1.0"
author:
  - mooncake.pd contributors (@mooncake-pd)
description:
  - Names of the hosts of the other side. Who is in whose list is so for both.
  - A host on which both sides run is its own peer, too.
positional: _input, decode
options:
  _input:
    description: Names of the prefill hosts.
    type: list
    elements: str
    required: true
  decode:
    description: Names of the decode hosts.
    type: list
    elements: str
    required: true
  host:
    description: Name of the host.
    type: str
    required: true
  pairs:
    description:
      - V(all), or V(sample), with which every host has a partner and the longer side takes turns with the shorter.
    type: str
    choices: [all, sample]
    default: all
"""

EXAMPLES = r"""
# [p1, p2]
peers: "{{ ['p1', 'p2'] | mooncake.pd.transfer_peers(['d1'], host='d1') }}"
"""

RETURN = r"""
_value:
  description: Names of the peers.
  type: list
  elements: str
"""

from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.mooncake.pd.plugins.plugin_utils import transport


def transfer_peers(prefill: Any, decode: Any, host: str, pairs: str = transport.ALL) -> list[str]:
    if pairs not in (transport.ALL, transport.SAMPLE):
        raise AnsibleFilterError(f"transfer_peers: pairs is {pairs!r}. Mend: all or sample.")
    return transport.peers(list(prefill), list(decode), str(host), pairs)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"transfer_peers": transfer_peers}
