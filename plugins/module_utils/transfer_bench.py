# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mooncake's transfer_engine_bench: how it is called, and what it says."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from typing import Callable, Iterable, Mapping, Optional, Sequence

# Where the wheel puts the program. The script of that name in bin is a wrapper that leaves it behind when it is ended.
_PLACES = ("lib/python3*/site-packages/mooncake", "lib64/python3*/site-packages/mooncake")
_NAME = "transfer_engine_bench"

# transfer_engine_impl.cpp@v0.3.6 and later: the port of --local_server_name is not taken, one of a range is
_LISTENS = re.compile(r"RPC using P2P handshake, listening on (\S+:\d+)")
_COMPLETED = re.compile(r"Test completed: duration ([\d.]+), batch count (\d+), throughput")
# names of the range up to 0.3.10, and from 0.3.11 on (config.cpp)
_RANGE = (("MC_MIN_PRC_PORT", "MC_MAX_PRC_PORT"), ("MC_MIN_RPC_PORT", "MC_MAX_RPC_PORT"))
# glog puts severity, time, thread and place before what it says
_PREFIX = re.compile(r"^[IWEF]\d{4} [\d:.]+\s+\d+ \S+\] ?")
# notes and warnings, and what every engine complains of once, before it knows itself
_BENIGN = re.compile(r"^[IW]\d{4} |^WARNING: Logging before|.*Local segment descriptor not found$")
# An engine takes one port for its handshake and, for TCP, one for the data; more make its drawing shorter.
PORTS = 4


@dataclass(frozen=True)
class Sizes:
    """What a measurement moves. Each thread has its own blocks of the buffer."""

    block: int
    batch: int
    threads: int

    @property
    def buffer(self) -> int:
        whole = self.block * self.batch * self.threads
        return -(-whole // (1 << 20)) * (1 << 20)

    def as_dict(self) -> dict[str, int]:
        return {"block": self.block, "batch": self.batch, "threads": self.threads}


LATENCY = Sizes(block=4096, batch=1, threads=1)


def program(path: str) -> Optional[str]:
    """The program of the Mooncake that is installed in an environment; or the path is that of the program itself."""
    if os.path.isfile(path):
        return path if os.access(path, os.X_OK) else None
    found = [name for place in _PLACES for name in glob.glob(os.path.join(path, place, _NAME))]
    return next((name for name in sorted(found) if os.access(name, os.X_OK)), None)


def target_command(binary: str, address: str, protocol: str, devices: Sequence[str], buffer: int) -> list[str]:
    return [*_common(binary, "target", address, protocol, devices), f"--buffer_size={buffer}"]


def initiator_command(
    binary: str, address: str, protocol: str, devices: Sequence[str], *, segment: str, sizes: Sizes, duration: int
) -> list[str]:
    return [
        *_common(binary, "initiator", address, protocol, devices),
        f"--buffer_size={sizes.buffer}",
        f"--segment_id={segment}",
        "--operation=read",
        f"--block_size={sizes.block}",
        f"--batch_size={sizes.batch}",
        f"--threads={sizes.threads}",
        f"--duration={duration}",
    ]


def _common(binary: str, mode: str, address: str, protocol: str, devices: Sequence[str]) -> list[str]:
    command = [binary, f"--mode={mode}", "--metadata_server=P2PHANDSHAKE", f"--local_server_name={address}"]
    command.append(f"--protocol={protocol}")
    return [*command, f"--device_name={','.join(devices)}"] if devices else command


def port_environment(first: int, last: int) -> dict[str, str]:
    return {name: str(port) for names in _RANGE for name, port in zip(names, (first, last))}


def parse_listening(text: str) -> Optional[str]:
    """The segment id of a target, once it has said so."""
    found = _LISTENS.findall(text)
    return str(found[-1]) if found else None


def parse_completed(text: str, sizes: Sizes) -> Optional[tuple[float, float]]:
    """Bytes a second, and seconds a batch. The program's own figure has two digits only."""
    match = _COMPLETED.search(text)
    if not match or not float(match[1]) or not int(match[2]):
        return None
    duration, batches = float(match[1]), int(match[2])
    return batches * sizes.batch * sizes.block / duration, duration * sizes.threads / batches


def complaint(text: str) -> str:
    """What is worth showing of a failure: lines that are no mere notes, else the last ones."""
    lines = [line for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not _BENIGN.match(line)] or lines
    plain = dict.fromkeys(_PREFIX.sub("", line) for line in told)
    return " | ".join(list(plain)[-3:])[-1000:] or "it ended without a word"


def choose_ports(
    first: int, last: int, count: int, claims: Iterable[Mapping[str, int]], free: Callable[[int], bool]
) -> Optional[range]:
    """The first consecutive ports that no process of the plan claims and that are free."""
    planned = [(claim["first"], claim["last"]) for claim in claims]
    run = 0
    for port in range(first, last + 1):
        run = 0 if any(low <= port <= high for low, high in planned) or not free(port) else run + 1
        if run == count:
            return range(port - count + 1, port + 1)
    return None
