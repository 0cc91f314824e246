# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are not there: a folder with files of /proc, /sys and /etc, and a system that says what it is told to."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Answer
from ansible_collections.mooncake.pd.plugins.module_utils.host import rtnetlink
from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.host.system import System, User

# all that can be told to a module
PARAMS: dict[str, Any] = {
    "user": "mooncake",
    "unit": "mooncake-pd-preflight.service",
    "unit_properties": {},
    "units": [],
    "paths": [],
    "names": [],
    "source": "",
    "peers": [],
    "peer_timeout": 0.5,
    "settings": {},
}


class Told(System):
    """Commands answer by the name of their program; what is not told is not there."""

    def __init__(self, commands: Mapping[str, Answer | Callable[[Sequence[str]], Answer]] | None = None) -> None:
        self.commands = dict(commands or {})
        self.asked: list[list[str]] = []
        self.users: dict[str, User] = {}
        self.resolves: dict[str, tuple[str, list[str]]] = {}
        self.told_links: list[rtnetlink.Link] = []
        self.told_addresses: list[rtnetlink.Address] = []

    def run(self, argv: Sequence[str], seconds: float) -> Answer:
        self.asked.append(list(argv))
        answer = self.commands.get(os.path.basename(argv[0]))
        if answer is None:
            return Answer(None, why="cannot be started: No such file or directory")
        return answer if isinstance(answer, Answer) else answer(argv)

    def uname(self) -> os.uname_result:
        return os.uname_result(("Linux", "p1", "4.19.90-2107.6.0.0192.8.oe1.bclinux.aarch64", "#1 SMP", "aarch64"))

    def user(self, name: str) -> User | None:
        return self.users.get(name)

    def resolve(self, name: str) -> tuple[str, list[str]]:
        if name not in self.resolves:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.resolves[name]

    def links(self) -> list[rtnetlink.Link]:
        return self.told_links

    def addresses(self) -> list[rtnetlink.Address]:
        return self.told_addresses

    def default_routes(self) -> list[rtnetlink.Route]:
        return []


class Broken(System):
    """Nothing can be asked."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("uname", "page_size", "now", "monotonic", "user_name"):  # these cannot fail
            return object.__getattribute__(self, name)
        if name in vars(System):
            return _refuse
        return object.__getattribute__(self, name)


def _refuse(*arguments: Any, **more: Any) -> Any:
    if arguments and isinstance(arguments[0], list):  # a command
        return Answer(None, why="cannot be started: No such file or directory")
    raise PermissionError(1, "Operation not permitted")


def tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def look(root: Path, files: Mapping[str, str | bytes] | None = None, system: System | None = None) -> Look:
    return Look(str(tree(root, files or {})), system or Told())


def what(unknowns: Sequence[Mapping[str, str]]) -> set[str]:
    return {entry["what"] for entry in unknowns}


def nulls(value: Any, path: str = "") -> Iterator[str]:
    """Dotted paths of everything that is null."""
    if value is None:
        yield path
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from nulls(inner, f"{path}.{key}" if path else str(key))


def covered(path: str, unknowns: Sequence[Mapping[str, str]]) -> bool:
    return any(path == entry or path.startswith(f"{entry}.") for entry in what(unknowns))


@contextmanager
def listener(address: str = "127.0.0.1") -> Iterator[int]:
    with socket.create_server((address, 0)) as server:
        yield server.getsockname()[1]
