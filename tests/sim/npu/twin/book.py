# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hccn_tool answers, written out once for a state: a Python for each of a host's hundred questions is too slow.

The tool looks into the book first and asks the twin where the book is older than the state, or has no such page:
whatever hangs, and pings where some addresses do not answer.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from pathlib import Path
from typing import Any

from . import hccn, state

FOLDER = "/var/lib/mooncake-pd-twin/book"
_ADDRESS = "ADDRESS"

TOOL = f"""\
#!/bin/sh
book={FOLDER}
if [ -z "${{{state.HOST_VARIABLE}:-}}" ] && [ "$book/ready" -nt {state.HOST_FILE} ]; then
  page=$book/$2$3
  if [ $# -eq 4 ] && [ "$1$4" = -i-g ] && [ -f "$page" ]; then exec cat "$page"; fi
  if [ $# -eq 4 ] && [ "$1$4" = -i-g ] && [ -f "$page.refused" ]; then cat "$page.refused"; exit 1; fi
  if [ $# -eq 6 ] && [ "$1$4$5" = -i-gaddress ] && [ -f "$page" ]; then exec sed "s/{_ADDRESS}/$6/" "$page"; fi
fi
exec "$0-twin" "$@"
"""


def write(root: Path, told: dict[str, Any]) -> None:
    """For the state that stands below this root now."""
    folder = root / FOLDER.lstrip("/")
    if folder.exists():
        shutil.rmtree(folder)
    host = hccn.Host(told)
    if host.faults.get("hccn_tool"):
        return
    folder.mkdir(parents=True)
    asked = {**dict.fromkeys(hccn.QUESTIONS, ()), **dict.fromkeys(hccn.PINGS, ("address", _ADDRESS))}
    for chip in range(host.chips):
        for command, words in asked.items():
            _write_page(folder / f"{chip}{command}", host, ["-i", str(chip), command, "-g", *words])
    (folder / "ready").touch()


def _write_page(path: Path, host: hccn.Host, argv: list[str]) -> None:
    chip, command = argv[1], argv[2]
    if command in hccn.PINGS and (host.faults.get("unreachable") or host.faults.get("silent")):
        return
    if command.lstrip("-") in host.faults.get("hanging", {}).get(chip, []):
        return
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            print(hccn.answer(host, argv))
    except SystemExit:
        path = path.with_name(f"{path.name}.refused")
    path.write_text(said.getvalue().lstrip("\n"))


def main() -> None:
    write(Path("/"), state.host())


if __name__ == "__main__":
    main()
