# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A systemctl whose units are JSON files in a folder; what else it is told stands in calls.txt there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> None:
    folder, argv = Path(os.environ["FAKE_UNITS"]), sys.argv[1:]
    if argv == ["show", "--property=SystemState"]:
        print(f"SystemState={'stopping' if (folder / 'stopping').exists() else 'running'}")
        return
    names = argv[argv.index("--") + 1 :]
    if argv[0] != "show":
        with (folder / "calls.txt").open("a") as calls:
            calls.write(" ".join(argv) + "\n")
        return
    blocks = []
    for name in names:
        shown = json.loads((folder / f"{name}.json").read_text())
        blocks.append("\n".join(f"{key}={value}" for key, value in shown.items()))
    print("\n\n".join(blocks))


main()
