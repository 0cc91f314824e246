# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How both ends of a transfer run; see ARGUMENTS of module_utils/transfer_bench_units.py."""

    DOCUMENTATION = r"""
options:
  ports:
    description: First and last port to choose from. Both ends listen, also the one that only asks.
    type: list
    elements: int
    default: [18500, 18563]
  claims:
    description: Ports of this host's plan, with C(first) and C(last). None of them is taken.
    type: list
    elements: dict
    default: []
  user:
    description: User that the units run as.
    type: str
    default: nobody
  environment:
    description: Environment of the units, such as C(LD_LIBRARY_PATH).
    type: dict
    default: {}
"""
