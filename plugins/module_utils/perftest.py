# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ib_write_bw and ib_write_lat of perftest: how they are called, and what they say."""

from __future__ import annotations

import re
from typing import Optional, Sequence

BANDWIDTH, LATENCY = "ib_write_bw", "ib_write_lat"
TOOLS = (BANDWIDTH, LATENCY)
# Both sides have to be called with the same sizes.
_SIZES = {BANDWIDTH: ["--size=1048576", "--iters=2000", "--report_gbits"], LATENCY: ["--size=8", "--iters=1000"]}


def command(tool: str, path: str, *, device: str, port: int, gid_index: Optional[int], server: str = "") -> list[str]:
    """`server` is the address of the other side; the server itself has none."""
    options = [path, f"--ib-dev={device}", f"--port={port}", "--CPU-freq", *_SIZES[tool]]
    if gid_index is not None:
        options.append(f"--gid-index={gid_index}")
    return [*options, server] if server else options


def serve(options: Sequence[str]) -> list[str]:
    """Servers of perftest end after their first client; this one goes on for the next."""
    return ["/bin/sh", "-c", 'while :; do "$@"; sleep 0.2; done', "sh", *options]


def settings(tool: str) -> dict[str, str]:
    return {"options": " ".join(_SIZES[tool])}


def parse(tool: str, text: str) -> Optional[float]:
    """Bytes a second, or seconds; None when the text does not tell it."""
    header: list[str] = []
    for line in text.splitlines():
        if line.strip().startswith("#bytes"):
            header = _columns(line)
            continue
        values = line.split()
        if header and len(values) >= len(header) and values[0].isdigit():
            row = dict(zip(header, values))
            if tool == BANDWIDTH:
                rate = _number(row.get("BW average[Gb/sec]"))
                return rate * 1e9 / 8 if rate is not None else None
            micros = _number(row.get("t_typical[usec]"))
            return micros / 1e6 if micros is not None else None
    return None


def _columns(line: str) -> list[str]:
    """Names with a space in them: '#bytes', '#iterations', 'BW peak[Gb/sec]', 'BW average[Gb/sec]' ..."""
    return re.findall(r"#\w+|BW \w+\[[^\]]+\]|99(?:\.9)?% \w+\[[^\]]+\]|[\w%]+\[[^\]]+\]|\S+", line)


def _number(text: Optional[str]) -> Optional[float]:
    try:
        return float(text) if text else None
    except ValueError:
        return None
