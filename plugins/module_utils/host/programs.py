# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs and libraries: where they are, and which version they say they are."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, NamedTuple, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look
from ansible_collections.mooncake.pd.plugins.module_utils.jobs import Late, in_parallel

SECONDS = 2.0  # for one program
_ALL_SECONDS = 5.0
_WORKERS = 4
_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_LIBRARIES = ("/usr/local/lib64", "/usr/local/lib", "/usr/lib64", "/lib64", "/usr/lib", "/lib")
_NUMBER = r"v?(\d+(?:\.\d+)+[\w.~-]*|\d+)"
_GLIBCXX = re.compile(rb"GLIBCXX_(\d+(?:\.\d+)+)\0")


class Tool(NamedTuple):
    asked: tuple[tuple[str, ...], ...] = (("--version",),)  # the ways to ask for the version, in turn
    pattern: str = r"(?m)^\D*?" + _NUMBER
    folders: tuple[str, ...] = ()  # where it is besides the usual places


_NONE = Tool(asked=())  # it has no option that tells a version in all its releases
_MPI = ("/usr/lib64/openmpi/bin", "/usr/lib64/mpich/bin", "/usr/local/openmpi/bin", "/usr/local/mpich/bin")
_INTEL_MPI = "Intel(R) MPI"
_MPI_VERSION = "|".join(
    start + _NUMBER
    for start in (
        r"Open MPI\)? ",
        r"(?:MPICH version|Version:)\s+",
        re.escape(_INTEL_MPI) + r" Library (?:for .*Version )?",  # of mpirun after the comma, of mpicc at once
    )
)
TOOLS = {
    # gcc (Debian 12.2.0-14) 12.2.0: the last word of the first line
    "gcc": Tool(pattern=r"\A.*\) " + _NUMBER),
    "g++": Tool(pattern=r"\A.*\) " + _NUMBER),
    "cmake": Tool(),
    "make": Tool(),
    "ninja": Tool(),
    "git": Tool(),
    "patch": Tool(),
    "go": Tool((("version",),), r"go version go" + _NUMBER, ("/usr/local/go/bin",)),
    # --version is that of the compiler behind it
    "mpicc": Tool((("--showme:version",), ("-v",)), _MPI_VERSION, _MPI),
    "mpirun": Tool(pattern=_MPI_VERSION, folders=_MPI),
    "pkg-config": Tool(),
    "numactl": _NONE,
    "ibv_devinfo": _NONE,
    "ib_write_bw": _NONE,
    "rping": _NONE,
    "ss": Tool((("-V",),), r"iproute2-(?:ss)?" + _NUMBER),
    "docker": Tool(),
    "podman": Tool(),
    "containerd": Tool(pattern=r"\s" + _NUMBER + r"(?:\s|$)"),
    "chronyd": Tool(pattern=r"version " + _NUMBER),
    "ntpd": Tool(pattern=r"ntpd (?:ntpsec-)?" + _NUMBER),
    "systemd-run": Tool(),
}
_FLAVOURED = ("mpicc", "mpirun")
_SONAMES = {"jemalloc": "libjemalloc.so.2", "libibverbs": "libibverbs.so.1", "libnuma": "libnuma.so.1"}


def parse_version(text: str, pattern: str) -> Optional[str]:
    match = re.search(pattern, text)
    return next((group for group in match.groups() if group), None) if match else None


def flavour(text: str) -> Optional[str]:
    if "Open MPI" in text or "OpenRTE" in text:
        return "openmpi"
    if _INTEL_MPI in text:
        return "intel"
    return "mpich" if "HYDRA" in text or "MPICH" in text else None


def find(look: Look, name: str, folders: Sequence[str] = ()) -> Optional[str]:
    for folder in (*_FOLDERS, *folders):
        path = f"{folder}/{name}"
        if os.path.isfile(look.at(path)) and os.access(look.at(path), os.X_OK):
            return path
    return None


def ask(look: Look, name: str, path: str, tool: Tool) -> dict[str, Any]:
    found: dict[str, Any] = {"path": path, "version": None}
    said, why = "", ""
    for words in tool.asked:
        answer = look.run([look.at(path), *words], SECONDS)
        version = parse_version(answer.text, tool.pattern)
        said, why = answer.text, f"{path} {answer.why}." if answer.why else ""
        if why:
            break
        if version:
            found["version"] = version
            break
    if name in _FLAVOURED:
        found["flavour"] = flavour(said)
        if found["flavour"] is None:
            look.unknown(f"tools.{name}.flavour", why or "It says neither Open MPI nor MPICH nor Intel MPI.", said)
    if tool.asked and found["version"] is None:
        command = " ".join((name, *tool.asked[-1]))
        look.unknown(f"tools.{name}.version", why or f"`{command}` tells none that is understood.", said)
    return found


def tools(look: Look) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The tools and the Python interpreters."""
    if not any(look.exists(folder) for folder in _FOLDERS):
        look.unknown("tools", "There is none of the folders of programs.")
        look.unknown("pythons", "There is none of the folders of programs.")
    places = {name: find(look, name, tool.folders) for name, tool in TOOLS.items()}
    interpreters = pythons(look)

    def tool_job(name: str, path: str) -> Callable[[], Any]:
        return lambda: ask(look, name, path, TOOLS[name])

    def python_job(path: str) -> Callable[[], Any]:
        return lambda: _python(look, path)

    present = {name: path for name, path in places.items() if path}
    jobs = [tool_job(name, path) for name, path in present.items()]
    answers = in_parallel([*jobs, *(python_job(path) for path in interpreters)], _WORKERS, _ALL_SECONDS)
    found: dict[str, Any] = dict.fromkeys(places)
    for (name, path), answer in zip(present.items(), answers):
        found[name] = answer
        if isinstance(answer, Exception):
            found[name] = {"path": path, "version": None, **({"flavour": None} if name in _FLAVOURED else {})}
            look.unknown(f"tools.{name}", _why(answer))
    versions = []
    for path, answer in zip(interpreters, answers[len(present) :]):
        failed = isinstance(answer, Exception)
        if failed:
            look.unknown("pythons", f"{path}: {_why(answer)}")
        versions.append({"path": path, "version": None if failed else answer})
    return found, versions


def _why(error: Exception) -> str:
    if isinstance(error, Late):
        return "The time for all programs was over before it was asked, or before it answered."
    return f"It could not be asked: {error}."


def pythons(look: Look) -> list[str]:
    """Interpreters in the usual places, each once; the name with the version goes before python3."""
    found: dict[str, str] = {}
    for folder in _FOLDERS:
        names = look.listing(folder) if look.exists(folder) else []
        for name in sorted((n for n in names if re.fullmatch(r"python3(\.\d+)?", n)), key=len, reverse=True):
            path = f"{folder}/{name}"
            if os.path.isfile(look.at(path)):
                found.setdefault(os.path.realpath(look.at(path)), path)
    return list(found.values())


def _python(look: Look, path: str) -> Optional[str]:
    answer = look.run([look.at(path), "-I", "-V"], SECONDS)
    version = parse_version(answer.text, r"Python " + _NUMBER)
    if version is None:
        look.unknown("pythons", f"{path} {answer.failure or 'does not tell its version'}.", answer.text)
    return version


def library_folders(look: Look) -> list[str]:
    """The loader's own places and those of /etc/ld.so.conf.d, as the loader's cache has them."""
    found = list(_LIBRARIES)
    machine = look.system.uname().machine
    found += [f"/usr/lib/{machine}-linux-gnu", f"/lib/{machine}-linux-gnu"]
    folder = "/etc/ld.so.conf.d"
    for name in look.listing(folder) if look.exists(folder) else []:
        if name.endswith(".conf"):
            found += re.findall(r"^\s*(/\S+)", look.read(f"{folder}/{name}"), re.MULTILINE)
    return [path for path in dict.fromkeys(found) if look.exists(path)]


def library(look: Look, folders: Sequence[str], soname: str) -> Optional[str]:
    return next((f"{folder}/{soname}" for folder in folders if look.exists(f"{folder}/{soname}")), None)


def libraries(look: Look) -> dict[str, Optional[str]]:
    folders = library_folders(look)
    if not folders:
        look.unknown("libraries", "There is none of the folders of libraries.")
    return {name: library(look, folders, soname) for name, soname in _SONAMES.items()}


def libc(look: Look) -> dict[str, Any]:
    text = look.sane("libc", "", look.system.libc) or ""
    name, _blank, version = text.partition(" ")
    if not name:
        look.unknown("libc.name", "The C library does not tell its name (it is no glibc).")
        look.unknown("libc.version", "The C library does not tell its version (it is no glibc).")
    folders = library_folders(look)
    if not folders:
        look.unknown("libc.libstdcxx", "There is none of the folders of libraries.")
    path = library(look, folders, "libstdc++.so.6")
    newest = newest_glibcxx(look.bytes(path, 64 << 20)) if path else None
    if path and newest is None:
        look.unknown("libc.libstdcxx.newest", f"{path} names no version GLIBCXX_*.")
    return {
        "name": name or None,
        "version": version or None,
        "libstdcxx": {"path": path, "newest": newest} if path else None,
    }


def newest_glibcxx(library_: bytes) -> Optional[str]:
    """The highest version of its symbols, as `strings` would show them."""
    versions = {match.decode() for match in _GLIBCXX.findall(library_)}
    return max(versions, key=lambda text: [int(part) for part in text.split(".")], default=None)
