# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a topology by its path, for whoever is not given what the inventory plugin has read already."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.controller_files import FilesError
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan, plan_of


def plan_of_file(path: str, load: Callable[[str], Any]) -> Plan:
    """load: the YAML of a file. FilesError without a file, PlanError as build_plan()."""
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise FilesError(f"topology: there is no file {path}. Mend: name a topology.yml.")
    return plan_of(load(path), Path(path).read_text(encoding="utf-8"), path)
