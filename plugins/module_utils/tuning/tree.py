# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files below a root: the root of the host, or that of a test."""

from __future__ import annotations

import errno
import glob
import os
import tempfile
from dataclasses import dataclass
from typing import Optional

_READ_ONLY = "it lies on a file system that is mounted read-only here (a container?)"
# Files of /proc and /sys are written in one piece; no value is as long as this.
_LIMIT = 1 << 20


@dataclass
class Tree:
    root: str = "/"

    def at(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def exists(self, path: str) -> bool:
        return os.path.exists(self.at(path))

    def listing(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.at(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def matching(self, pattern: str) -> list[str]:
        found = sorted(glob.glob(self.at(pattern)))
        return ["/" + os.path.relpath(path, self.root) for path in found]

    def read(self, path: str) -> Optional[str]:
        """None when there is none. Bytes that are no text survive a read and a put."""
        try:
            with open(self.at(path), encoding="utf-8", errors="surrogateescape", newline="") as source:
                return source.read(_LIMIT)
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            return None

    def refusal(self, path: str) -> Optional[str]:
        """Why a value cannot be written here, found out without writing."""
        full = self.at(path)
        try:
            if os.statvfs(full).f_flag & os.ST_RDONLY:
                return _READ_ONLY
            if not os.stat(full).st_mode & 0o222:
                return "this kernel lets nobody write it"
            os.close(os.open(full, os.O_WRONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            return "this kernel does not have it"
        except OSError as error:
            return f"it may not be written: {(error.strerror or str(error)).lower()}"
        return None

    def set(self, path: str, value: str) -> Optional[str]:
        """Write a value of the kernel; None when it took it, else what it said."""
        try:
            handle = os.open(self.at(path), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        except OSError as error:
            return error.strerror or str(error)
        try:
            os.write(handle, (value + "\n").encode())
        except OSError as error:
            meaning = {errno.EINVAL: "the kernel takes no such value", errno.ENOMEM: "there is no memory for it"}
            return meaning.get(error.errno or 0) or error.strerror or str(error)
        finally:
            os.close(handle)
        return None

    def put(self, path: str, text: Optional[str], mode: int = 0o644) -> None:
        """A whole file at once, or none."""
        full = self.at(path)
        if text is None:
            if os.path.lexists(full):
                os.unlink(full)
            return
        if os.path.islink(full):
            full = os.path.realpath(full)
        if os.path.exists(full):
            mode = os.stat(full).st_mode & 0o7777
        folder = os.path.dirname(full)
        os.makedirs(folder, mode=0o755, exist_ok=True)
        handle, fresh = tempfile.mkstemp(dir=folder, prefix=".mooncake-pd-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as target:
                target.write(text)
                target.flush()
                os.fsync(target.fileno())
            os.chmod(fresh, mode)
            os.replace(fresh, full)
        except OSError:
            os.unlink(fresh)
            raise
