# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out commands on the machine, tells what happens, and ends with one clear line when something is wrong."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
DEFAULT_CACHE = "/var/cache/mooncake-pd"
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"


class LabError(Exception):
    """What is wrong, why, and the way out: one line."""


class Progress:
    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.begin = time.monotonic()

    def __call__(self, text: str) -> None:
        if not self.quiet:
            print(f"[{time.monotonic() - self.begin:6.1f}s] {text}", flush=True)


def tail(text: str, lines: int = 1) -> str:
    """The last lines that say something, on one line."""
    said = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(said[-lines:])


class Machine:
    """This machine. Only what needs it runs as root: through sudo when the caller is not."""

    def __init__(self, say: Progress) -> None:
        self.say = say
        self.root = os.geteuid() == 0
        self.path = os.environ.get("PATH", "/usr/bin:/bin") + ":" + SYSTEM_PATH
        self.cache = Path(os.environ.get("MOONCAKE_PD_CACHE") or DEFAULT_CACHE)
        self.labs = self.cache / "labs"
        self._asked = False

    # -- commands
    def which(self, name: str) -> str | None:
        return shutil.which(name, path=self.path)

    def as_root(self, argv: Sequence[str], env: dict[str, str] | None = None) -> list[str]:
        settings = [f"{key}={value}" for key, value in (env or {}).items()]
        command = ["env", *settings, *argv] if settings else list(argv)
        if self.root:
            return command
        if not self.which("sudo"):
            raise LabError("the hosts need root: you are not root and there is no sudo; run as root, or install sudo")
        sudo = ["sudo"] if sys.stdin.isatty() else ["sudo", "-n"]
        if not self._asked:  # once, before commands run side by side; a password is asked for only on a terminal
            self._asked = True
            ask = [*sudo, "-v"] if sys.stdin.isatty() else [*sudo, "true"]
            if (
                subprocess.run(ask, check=False, stderr=None if sys.stdin.isatty() else subprocess.DEVNULL).returncode
                != 0
            ):
                raise LabError(
                    "the hosts need root and sudo lets you not through (or wants a password);"
                    " run as root, or `sudo -v` first"
                )
        return [*sudo, *command]

    def podman(self, *args: str) -> list[str]:
        env = {"CONTAINERS_CONF": str(HERE / "containers.conf"), "NETAVARK_FW": "iptables"}
        return self.as_root(["podman", *args], env)

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = True,
        feed: bytes | None = None,
        timeout: float | None = None,
        why: str = "",
    ) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PATH": self.path, "LC_ALL": "C.UTF-8"}
        try:
            done = subprocess.run(
                list(argv),
                input=feed,
                stdin=subprocess.DEVNULL if feed is None else None,
                capture_output=True,
                env=environ,
                timeout=timeout,
                check=False,
            )
        except FileNotFoundError:
            raise LabError(
                f"{argv[0]} is missing on this machine{why and ': ' + why}; `lab packages` installs it"
            ) from None
        except subprocess.TimeoutExpired:
            raise LabError(
                f"{short(argv)} gave no answer in {timeout:.0f} s{why and ': ' + why}; look at the machine's load"
            ) from None
        result = subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )
        if check and result.returncode != 0:
            said = tail(result.stderr) or tail(result.stdout) or f"exit code {result.returncode}"
            raise LabError(f"{why or short(argv)} failed: {said}")
        return result

    def sudo(self, *argv: str, check: bool = True, why: str = "") -> subprocess.CompletedProcess[str]:
        return self.run(self.as_root(argv), check=check, why=why)

    def pod(
        self, *args: str, check: bool = True, feed: bytes | None = None, timeout: float | None = 300, why: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return self.run(self.podman(*args), check=check, feed=feed, timeout=timeout, why=why)

    def pod_json(self, *args: str) -> list[Any]:
        return json.loads(self.pod(*args).stdout or "[]") or []

    def ip_json(self, *args: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run(["ip", "-json", "-4", *args]).stdout or "[]")
        return found

    # -- files
    def open_cache(self) -> None:
        """The cache belongs to the caller, wherever it lies."""
        if not self.labs.is_dir():
            try:
                self.labs.mkdir(parents=True)
            except PermissionError:
                user = getpass.getuser()
                for folder in (self.cache, self.labs):
                    if not folder.is_dir():
                        self.sudo("install", "-d", "-o", user, str(folder), why=f"making {folder}")
            except OSError as error:
                raise LabError(
                    f"no cache folder {self.labs}: {error.strerror}; set MOONCAKE_PD_CACHE to another one"
                ) from None
        if not os.access(self.labs, os.W_OK | os.X_OK):
            raise LabError(
                f"{self.labs} belongs to another user: run as that user, set MOONCAKE_PD_CACHE to a folder of your own,"
                f" or `sudo chown -R {getpass.getuser()} {self.labs}`"
            )

    @contextmanager
    def lock(self, name: str, doing: str) -> Iterator[None]:
        """One at a time; tells whom it waits for."""
        self.open_cache()
        with open(self.labs / f"{name}.lock", "a+", encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                self.say(f"waiting for another call ({handle.read().strip() or 'unknown'})")
                fcntl.flock(handle, fcntl.LOCK_EX)
            handle.seek(0)
            handle.truncate()
            handle.write(f"pid {os.getpid()}: {doing}")
            handle.flush()
            try:
                yield
            finally:
                handle.truncate(0)

    def write(self, path: Path, text: str, mode: int = 0o644) -> bool:
        """Replace a file in one step; tell whether it is another one now."""
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        new.write_text(text, encoding="utf-8")
        new.chmod(mode)
        new.replace(path)
        return True


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8").strip()


def short(argv: Sequence[str]) -> str:
    """A command as a person would name it."""
    words = [
        word
        for word in argv
        if word not in ("sudo", "-n", "env") and not word.startswith(("CONTAINERS_CONF=", "NETAVARK_FW="))
    ]
    text = " ".join(words)
    return f"`{text if len(text) <= 100 else text[:97] + '...'}`"
