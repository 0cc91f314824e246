# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A source tree: what identifies it, and whether all of it is there."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import IO, Callable, NamedTuple, Optional

Git = Callable[[Sequence[str]], Optional[str]]  # output of git with these arguments; None when it fails

YALANTINGLIBS = "extern/yalantinglibs"
PYBIND11 = "extern/pybind11"
_SKIPPED = {".git", "__pycache__"}
_CMAKE_FILES = re.compile(r"(?:^CMakeLists\.txt|\.cmake)\Z")
_CHUNK = 1 << 20


class Identity(NamedTuple):
    text: str  # commit:… or tree:…
    commit: Optional[str]


def git_arguments(path: str, *arguments: str) -> list[str]:
    """Reads only, also of a tree that somebody else owns, and starts nothing that the tree's settings name."""
    return [
        *("-c", "safe.directory=*", "-c", "core.fsmonitor=false", "--no-optional-locks", "-C", path),
        *arguments,
    ]


def identity(path: str, git: Git) -> Identity:
    commit = _clean_commit(path, git) if os.path.lexists(os.path.join(path, ".git")) else None
    return Identity(f"commit:{commit}", commit) if commit else Identity(f"tree:{tree_hash(path)}", None)


def _clean_commit(path: str, git: Git) -> Optional[str]:
    if git(git_arguments(path, "status", "--porcelain", "--ignore-submodules=none")) != "":
        return None
    commit = (git(git_arguments(path, "rev-parse", "HEAD")) or "").strip()
    return commit if re.match(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z", commit) else None


def _entries(path: str) -> Iterator[str]:
    """Paths of files and links below the folder, in a fixed order."""
    for folder, folders, files in os.walk(path):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and name not in links)
        for name in sorted((*files, *links)):
            if name not in _SKIPPED:
                yield os.path.relpath(os.path.join(folder, name), path)


def tree_hash(path: str) -> str:
    """Over names, contents, link targets and the executable bit; not over times and owners."""
    whole = hashlib.sha256()
    for name in _entries(path):
        full = os.path.join(path, name)
        if os.path.islink(full):
            line = f"l {name}\0{os.readlink(full)}"
        else:
            kind = "x" if os.stat(full).st_mode & 0o100 else "f"
            line = f"{kind} {name}\0{file_hash(full)}"
        whole.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return whole.hexdigest()


def file_hash(path: str) -> str:
    with open(path, "rb") as source:
        return stream_hash(source)


def stream_hash(stream: IO[bytes]) -> str:
    content = hashlib.sha256()
    for chunk in iter(lambda: stream.read(_CHUNK), b""):
        content.update(chunk)
    return content.hexdigest()


def submodules(gitmodules: str) -> list[str]:
    return re.findall(r"(?m)^\s*path\s*=\s*(\S+)\s*$", gitmodules)


def empty_submodules(path: str) -> list[str]:
    """Without yalantinglibs, which may come from elsewhere."""
    names = [PYBIND11]
    listed = os.path.join(path, ".gitmodules")
    if os.path.isfile(listed):
        with open(listed, encoding="utf-8", errors="replace") as source:
            names += submodules(source.read())
    empty = []
    for name in dict.fromkeys(names):
        folder = os.path.join(path, name)
        if name != YALANTINGLIBS and not (os.path.isdir(folder) and os.listdir(folder)):
            empty.append(name)
    return empty


def has_cmake(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "CMakeLists.txt"))


def cmake_files(path: str) -> str:
    """The text of the tree's own CMake files."""
    texts = []
    for name in _entries(path):
        inner = name.startswith("extern/") or "/tests/" in name or "/benchmarks/" in name
        if not inner and _CMAKE_FILES.search(os.path.basename(name)):
            with open(os.path.join(path, name), encoding="utf-8", errors="replace") as source:
                texts.append(source.read())
    return "\n".join(texts)
