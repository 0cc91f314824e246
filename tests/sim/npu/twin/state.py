# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which releases this host pretends to have, and what is wrong with it. Two JSON files, read anew at each use."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RELEASE_VARIABLE = "MOONCAKE_PD_TWIN_RELEASE"
HOST_VARIABLE = "MOONCAKE_PD_TWIN_STATE"
FAULT_VARIABLE = "MOONCAKE_PD_TWIN_FAULT"
HOST_FILE = "/etc/mooncake-pd-twin/state.json"

CHIPS = {"A2": 8, "A3": 16, "A5": 8}
_STAGES = {"dev": -2, "rc": -1, "": 0, "post": 1}


def version_key(text: str) -> tuple[tuple[int, ...], int, int]:
    """Order of release names: 0.11.0rc1 < 0.11.0 < 0.11.0.post1."""
    match = re.match(r"v?(\d+(?:\.\d+)*)\.?(dev|rc|post)?(\d*)", text)
    if not match:
        raise ValueError(f"{text!r} is no release")
    numbers = tuple(int(part) for part in match[1].split("."))
    return (*numbers, 0, 0, 0)[:4], _STAGES[match[2] or ""], int(match[3] or 0)


def since(release: str, first: str) -> bool:
    return version_key(release) >= version_key(first)


@dataclass(frozen=True)
class Release:
    """What is installed beside the launcher."""

    vllm_ascend: str
    vllm: str
    mooncake: str
    generation: str
    chips: int

    @staticmethod
    def of(data: dict[str, Any]) -> Release:
        ascend = str(data.get("vllm_ascend", "0.23.0"))
        generation = str(data.get("generation", "A3"))
        return Release(
            vllm_ascend=ascend,
            vllm=str(data.get("vllm") or re.match(r"\d+(\.\d+)*", ascend)[0]),  # type: ignore[index]
            mooncake=str(data.get("mooncake", "0.3.11.post1")),
            generation=generation,
            chips=int(data.get("chips") or CHIPS[generation]),
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    if not isinstance(data, dict):
        raise ValueError(f"{path} holds no JSON object")
    return data


def release() -> Release:
    return Release.of(_read(Path(os.environ.get(RELEASE_VARIABLE) or Path(sys.prefix, "twin.json"))))


def host() -> dict[str, Any]:
    """The host's state: generation, chips, address_prefix, faults of the tools, engine_faults, engine settings."""
    return _read(Path(os.environ.get(HOST_VARIABLE) or HOST_FILE))


def engine_faults(*names: str) -> dict[str, str]:
    """Faults of this process: the variable's and those that the host's state names for "*" or one of `names`.

    "slow:3;die-after-ready:5" -> {"slow": "3", "die-after-ready": "5"}
    """
    told = host().get("engine_faults", {})
    texts = [os.environ.get(FAULT_VARIABLE, ""), *(str(told.get(name, "")) for name in ("*", *names))]
    faults = {}
    for entry in filter(None, ";".join(texts).split(";")):
        name, _colon, value = entry.strip().partition(":")
        if name not in ENGINE_FAULTS:
            raise ValueError(f"{name!r} is no fault of the twin, there are {', '.join(sorted(ENGINE_FAULTS))}")
        faults[name] = value
    return faults


# name -> what it does; the README's table is checked against it
ENGINE_FAULTS = {
    "slow": "start takes that many seconds longer",
    "hang": "start stops for good before any port is open",
    "never-join": "a rank or headless process never greets its group",
    "fatal": "prints the text as an error and ends with code 1 while starting",
    "fatal-line": "prints the text as an error while starting and hangs",
    "oom": "NPU out of memory while starting",
    "exit": "ends with that code while starting, without a word",
    "killed": "kills itself with SIGKILL while starting",
    "die-after-ready": "the engine dies that many seconds after it was ready",
    "no-kv-ports": "says that its KV threads listen, but nothing listens",
    "health-503": "GET /health answers 503",
    "wrong-kv": "prefill hands out other KV than it computed",
    "kv-hang": "prefill's KV ports accept and never answer",
    "ignore-kv": "decode computes the prompt itself and says nothing",
    "no-push": "layerwise prefill answers but pushes nothing",
    "empty-answer": "completions are empty, with status 200",
    "abort-hangs": "after SIGTERM without drain a client of an aborted request waits for ever, and the process for it",
    "ignore-sigterm": "SIGTERM does nothing",
}
