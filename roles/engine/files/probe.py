# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the vLLM environment of a host with the plan. Reads only; standard library of Python 3.9.

Standard input: JSON {mode: venv|installed|command, path, packages: {name: version}, lock: text of a requirements file,
optional: {name: version} of packages that need not be there, modules: {name: sha256}}.
Standard output: JSON {state, problems, python, base_python, running}.

state is "absent" (nothing there), "foreign" (something that is no such environment), "incomplete" or "complete".
running are the processes that were started from path, as far as they can be seen.
Importing vLLM costs seconds of CPU time, package metadata some hundredths: so only metadata is read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any

# Runs inside the environment that is looked at, where other packages are in sight than here.
INSIDE = r"""
import hashlib, importlib.metadata, importlib.util, json, sys
asked = json.load(sys.stdin)
versions, digests = {}, {}
for name in asked["packages"]:
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        versions[name] = None
for name in asked["modules"]:
    spec = importlib.util.find_spec(name)
    if spec and spec.origin:
        with open(spec.origin, "rb") as stream:
            digests[name] = hashlib.sha256(stream.read()).hexdigest()
json.dump({"python": "%d.%d" % sys.version_info[:2], "versions": versions, "digests": digests}, sys.stdout)
"""


def locked(text: str) -> dict[str, str]:
    """name -> version of the lines `name==version`."""
    return dict(re.findall(r"(?m)^([A-Za-z0-9._-]+)==(\S+)", text))


def same_version(found: str, wanted: str) -> bool:
    """A plan says 0.32.0 and means every build of it (0.32.0+cpu, 0.32.0+empty); with a build it means that one."""
    return found == wanted or ("+" not in wanted and found.partition("+")[0] == wanted)


def interpreter_of(script: str) -> str | None:
    """The Python behind a console script, also in pip's form for long paths (#!/bin/sh, then '''exec' "python")."""
    with open(script, "rb") as stream:
        head = stream.read(4096).decode("utf-8", "replace").splitlines()
    if not head or not head[0].startswith("#!"):
        return None
    words = head[0][2:].split()
    if words and os.path.basename(words[0]).startswith("python"):
        return words[0]
    found = re.match(r"'''exec' \"?([^\" ]+)", head[1]) if len(head) > 1 else None
    return found.group(1) if found else None


class Unusable(Exception):
    """The place holds nothing that could be compared. Arguments: state, what is there instead."""


def find_command(mode: str, path: str) -> str:
    """The engine's command. Only a container has it where its PATH leads to."""
    if mode == "command":
        return shutil.which("vllm") or "vllm"
    return os.path.join(path, "bin", "vllm")


def find_python(mode: str, path: str) -> str:
    """The Python whose packages are the engine's."""
    if mode == "venv":
        python = os.path.join(path, "bin", "python")
        if not os.path.lexists(python):
            raise Unusable("absent", f"{path} holds no virtual environment")
        if not os.path.isfile(os.path.join(path, "pyvenv.cfg")):
            raise Unusable("foreign", f"{path} has a Python but is no virtual environment (no pyvenv.cfg)")
        return python
    command = find_command(mode, path)
    if not os.path.isfile(command):
        where = "is not in PATH" if mode == "command" else "does not exist"
        raise Unusable("absent", f"{command} {where}")
    if not os.access(command, os.X_OK):
        raise Unusable("foreign", f"{command} is not executable")
    behind = interpreter_of(command)
    if behind is None:
        raise Unusable("foreign", f"{command} does not say in its first lines which Python runs it")
    return behind


def ask(python: str, packages: list[str], modules: list[str]) -> dict[str, Any]:
    question = json.dumps({"packages": packages, "modules": modules})
    argv = [python, "-I", "-c", INSIDE]
    try:
        answer = subprocess.run(argv, input=question, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unusable("foreign", f"{python} cannot be run: {error.strerror}") from error
    if answer.returncode != 0:
        last = (answer.stderr.strip().splitlines() or ["no output"])[-1]
        raise Unusable("foreign", f"{python} ended with code {answer.returncode}: {last}")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def differences(found: dict[str, Any], packages: dict[str, str], modules: dict[str, str]) -> list[str]:
    problems = []
    for name, version in packages.items():
        have = found["versions"][name]
        if have is None:
            problems.append(f"{name} is not installed, {version} is wanted")
        elif not same_version(have, version):
            problems.append(f"{name} is {have}, {version} is wanted")
    for name, digest in modules.items():
        if found["digests"].get(name) != digest:
            problems.append(f"module {name} is not the one of this collection")
    return problems


def running(path: str, proc: str = "/proc") -> list[str]:
    """Processes whose program is a file under path, as they were called."""
    found = []
    for pid in sorted(filter(str.isdigit, os.listdir(proc)), key=int):
        try:
            with open(f"{proc}/{pid}/cmdline", "rb") as stream:
                words = stream.read(4096).decode("utf-8", "replace").split("\0")
        except OSError:  # gone meanwhile
            continue
        if words[0].startswith(path.rstrip("/") + "/"):
            found.append(f"pid {pid}: {' '.join(words[:3]).strip()}")
    return found


def probe(asked: dict[str, Any]) -> dict[str, Any]:
    packages = {**locked(asked.get("lock", "")), **asked.get("packages", {})}
    modules = asked.get("modules", {})
    optional = asked.get("optional", {})
    command = find_command(asked["mode"], asked["path"])
    python = None
    try:
        found = ask(find_python(asked["mode"], asked["path"]), [*packages, *optional], list(modules))
    except Unusable as error:
        state, problem = error.args
        problems = [problem]
    else:
        python = found["python"]
        there = {name: version for name, version in optional.items() if found["versions"][name] is not None}
        problems = differences(found, {**packages, **there}, modules)
        if not problems and not os.access(command, os.X_OK):
            problems = [f"{command} is missing or not executable"]
        state = "incomplete" if problems else "complete"
    base_python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    told = {"state": state, "problems": problems, "python": python, "base_python": base_python}
    return {**told, "running": running(asked["path"]) if asked["mode"] == "venv" else []}


if __name__ == "__main__":
    json.dump(probe(json.load(sys.stdin)), sys.stdout)
