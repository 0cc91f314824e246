# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the master beside this file."""

from __future__ import annotations

import os
import sys


def main() -> None:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mooncake_master")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
