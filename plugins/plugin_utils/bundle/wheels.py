# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels for another Python than the one at hand, with pip."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.run import CollectError, run

# pip asks the Python that it runs with what a requirement's markers (python_version < "3.12", platform_machine == ...)
# mean, also where --python-version and --platform name another one (pypa/pip issue 11664). So it is told.
_PIP = """
import json, sys
from pip._vendor.packaging import markers
own, target = markers.default_environment, json.loads(sys.argv.pop(1))
markers.default_environment = lambda: {**own(), **target}
from pip._internal.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
# the two that PEP 600 gives older names; pip takes either
_ALIASES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_OLDEST = {"x86_64": 5}  # PEP 600: glibc 2.5; every other architecture begins with 2.17
# what pip install takes and pip download as well, with a value or without
_VALUED = {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", "--proxy"}
_VALUED |= {"--cert", "--client-cert", "--timeout", "--retries"}
_PLAIN = {"--no-index", "--pre", "--prefer-binary"}
_SHARDS = 4
_MEND = (
    "look at what pip says; where an index is missing, name it in the role's pip arguments or in pip's own settings. "
    "A package without a wheel for that platform has to be built there: put its wheel into a folder and name it with "
    "bundle_pip_args: [--find-links=FOLDER]"
)


def tags(architecture: str, glibc: str) -> Iterator[str]:
    """Platform tags of wheels that run there, best first."""
    newest = int(glibc.split(".")[1])
    for minor in range(newest, _OLDEST.get(architecture, 17) - 1, -1):
        yield f"manylinux_2_{minor}_{architecture}"
        if minor in _ALIASES:
            yield f"{_ALIASES[minor]}_{architecture}"
    yield f"linux_{architecture}"


def arguments(words: Sequence[str]) -> list[str]:
    """Of a role's arguments for pip install, those that tell where packages come from."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        name, given, _value = word.partition("=")
        if name in _VALUED:
            kept += [word] if given else [word, next(rest, "")]
        elif word in _PLAIN:
            kept.append(word)
    return kept


def markers(python: str, architecture: str) -> dict[str, str]:
    full = python if python.count(".") > 1 else f"{python}.0"
    return {
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": full,
        "implementation_version": full,
        "platform_machine": architecture,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def command(how: Mapping[str, Any], more: Sequence[str], dest: Path, links: Iterable[Path]) -> list[str]:
    """pip download, up to the requirements."""
    minor = ".".join(how["python"].split(".")[:2])
    return [
        sys.executable,
        "-c",
        _PIP,
        json.dumps(markers(how["python"], how["architecture"])),
        *("download", "--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar=off"),
        *("--only-binary=:all:", "--implementation=cp", f"--python-version={how['python']}"),
        f"--abi=cp{minor.replace('.', '')}",
        *(f"--platform={tag}" for tag in tags(how["architecture"], how["glibc"])),
        *arguments([*how["arguments"], *more]),
        *(f"--find-links={link}" for link in links),
        f"--dest={dest}",
    ]


def shards(requirements: Sequence[str], dependencies: bool) -> list[list[str]]:
    """What is fetched at the same time: a lock is complete, so its lines have nothing to do with each other."""
    count = 1 if dependencies else min(_SHARDS, len(requirements))
    return [list(requirements[number::count]) for number in range(count)]


def sources(log: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Where pip found the files that it has fetched, as its log tells it."""
    wanted, found = set(names), {}
    for line in log:
        match = re.search(r"Found link (\S+?),?\s", line)
        if match:
            address = match.group(1).partition("#")[0]
            name = unquote(address.rpartition("/")[2])
            if name in wanted:
                found[name] = address
    return found


def version(name: str) -> str:
    return name.split("-")[1] if name.endswith(".whl") else ""


def collect(
    request: Mapping[str, Any],
    how: Mapping[str, Any],
    work: Path,
    dest: Path,
    *,
    more: Sequence[str] = (),
    before: Path | None = None,
) -> dict[str, dict[str, str]]:
    """Fill `dest`; returns what is known of each file besides its content. What `before` has is taken."""
    if importlib.util.find_spec("pip") is None:
        raise CollectError(
            f"{sys.executable} has no pip, and wheels are collected with it. "
            "Mend: install it (python3-pip), or run Ansible from an environment of its own"
        )
    constraints = work / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in request["constraints"]), encoding="utf-8")
    for name, environment in request["build"].items():
        wanted = next(line for line in request["requirements"] if line.startswith(f"{name}=="))
        _build(wanted, environment, [*how["arguments"], *more], work)
    pip = command(how, more, dest, [work, *([before] if before else [])])

    def fetch(number: int, lines: Sequence[str]) -> None:
        file = work / f"requirements-{number}.txt"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        only = [] if request["dependencies"] else ["--no-deps"]
        log = [f"--log={work / f'pip-{number}.log'}"]
        run([*pip, *only, *log, f"--constraint={constraints}", f"--requirement={file}"], _MEND)

    parts = shards(request["requirements"], request["dependencies"])
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(fetch, range(len(parts)), parts))
    names = [path.name for path in dest.iterdir()]
    found: dict[str, str] = {}
    for log in work.glob("pip-*.log"):
        with log.open(encoding="utf-8", errors="replace") as lines:
            found.update(sources(lines, names))
    return {name: {"version": version(name), "from": found.get(name, "pip")} for name in names}


def _build(wanted: str, environment: Mapping[str, str], more: Sequence[str], work: Path) -> None:
    """A package that is published with other demands than the planned ones, built here to fit all platforms."""
    name = wanted.partition("==")[0]
    where = arguments(more)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", f"--no-binary={name}", f"--wheel-dir={work}", *where]
    run([*pip, wanted], f"{name} has to be built on this machine: look at what pip says", environment=environment)
