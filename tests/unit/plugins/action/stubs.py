# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an action plugin is given by Ansible, as far as ours look at it."""

from __future__ import annotations

from typing import Any


class Task:
    diff = False

    def __init__(self, action: str, args: dict[str, Any], check: bool) -> None:
        self.action, self.args, self.check_mode = f"mooncake.pd.{action}", args, check


class Hostvars(dict[str, Any]):
    """Values are to be read raw; a template of all hosts would be slow."""

    raw_get = dict.__getitem__

    def __getitem__(self, name: str) -> Any:
        raise AssertionError("templated")
