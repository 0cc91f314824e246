# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the Mooncake of a host and try it. Reads only; standard library of Python 3.9.

Standard input: JSON {path, version, packages: names that are right, prove: [engine, store, master]}. Standard output:
JSON {installed: {name: version}, wheel_problems, proof_problems, foreign, python, base_python, glibc}.

wheel_problems is about what pip installs, proof_problems about what the dynamic loader needs from the host.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from typing import Any

# All variants install the same package folder and overwrite one another without pip noticing.
VARIANTS = ("mooncake-transfer-engine", "mooncake-transfer-engine-non-cuda", "mooncake-transfer-engine-npu")

# What the libraries of the 0.3.13.post1 wheels ask of the host (readelf), and where it comes from.
ADVICE = (
    (r"libibverbs|librdmacm", "libibverbs1 and librdmacm1 on Debian, libibverbs and librdmacm on RedHat"),
    (r"libnuma", "libnuma1 on Debian, numactl-libs on RedHat"),
    (r"libcurl", "libcurl4 on Debian, libcurl on RedHat"),
    (
        r"libascendcl|libllm_datadist|libmetadef|libhccl",
        "CANN: put its library folders (see its set_env.sh) into mooncake_environment.LD_LIBRARY_PATH; "
        "a host that only runs the master needs none, there set mooncake_prove to [master]",
    ),
    (
        r"libcudart|libcuda\.",
        "CUDA: plan the variant for this hardware (mooncake_flavour). The -non-cuda wheels 0.3.12.post1 and 0.3.13 "
        "ask for it by mistake (Mooncake issue 3314), 0.3.11.post1 and 0.3.13.post1 do not",
    ),
    (r"GLIBC", "this wheel was built for a newer distribution: plan another Mooncake version or upgrade the host"),
)

INSIDE = r"""
import importlib.metadata, importlib.util, json, os, sys
versions = {}
for name in json.load(sys.stdin):
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
spec = importlib.util.find_spec("mooncake")
folder = list(spec.submodule_search_locations or [""])[0] if spec else ""
json.dump({"python": "%d.%d" % sys.version_info[:2], "versions": versions, "folder": folder}, sys.stdout)
"""


def run(argv: list[str], text: str = "") -> tuple[int, str, str]:
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        return 127, "", f"{argv[0]} cannot be run: {error.strerror}"
    return done.returncode, done.stdout, done.stderr


def missing_libraries(ldd_output: str) -> list[str]:
    """Names that `ldd` could not resolve, and symbol versions that the host's libraries lack."""
    names = re.findall(r"(?m)^\s*(\S+) => not found", ldd_output)
    versions = re.findall(r"version `([^']+)' not found", ldd_output)
    return sorted(set(names)) + sorted(set(versions))


def with_advice(missing: list[str]) -> list[str]:
    """One sentence for all that have the same way out."""
    groups: dict[str, list[str]] = {}
    for name in missing:
        advice = next((text for pattern, text in ADVICE if re.search(pattern, name)), "")
        groups.setdefault(advice, []).append(name)
    return [f"missing {', '.join(names)}" + (f" ({advice})" if advice else "") for advice, names in groups.items()]


def explain(what: str, binary: str, output: str) -> list[str]:
    """Why a proof failed: every missing library where that is the cause, else the last line of output."""
    listed, complaints = run(["ldd", binary])[1:]
    missing = missing_libraries(listed + complaints)
    if not missing:
        missing = missing_libraries(output) or sorted(set(re.findall(r"(lib[^\s'\"]+): cannot open shared", output)))
    if missing:
        return [f"{what}: {text}" for text in with_advice(missing)]
    return [f"{what}: {(output.strip().splitlines() or ['ended without a word'])[-1]}"]


def prove(what: str, python: str, folder: str) -> list[str]:
    if what == "master":
        # The binary, not the console script of the same name: that one is only a wrapper.
        binary = os.path.join(folder, "mooncake_master")
        argv, title = [binary, "--version"], "mooncake_master --version"
    else:
        # Not isolated (-I): this must see the environment that the engine will see, PYTHONPATH of CANN included.
        binary = os.path.join(folder, f"{what}.so")
        argv, title = [python, "-c", f"import mooncake.{what}"], f"import mooncake.{what}"
    code, out, err = run(argv)
    return explain(title, binary, out + err) if code else []


def wheel_problems(installed: dict[str, str], packages: list[str], version: str) -> list[str]:
    right = [name for name in installed if name in packages]
    wrong = [name for name in installed if name not in packages]
    problems = [f"{name} is {installed[name]}, {version} is wanted" for name in right if installed[name] != version]
    if not right:
        problems.append(f"{' or '.join(packages)} is not installed, {version} is wanted")
    if wrong or len(right) > 1:
        together = ", ".join(sorted(installed))
        problems.append(f"variants that overwrite one another must not be there: {together}")
    return problems


def probe(asked: dict[str, Any]) -> dict[str, Any]:
    path = asked["path"]
    found: dict[str, Any] = {
        "installed": {},
        "wheel_problems": [],
        "proof_problems": [],
        "foreign": None,
        "python": None,
        "base_python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "glibc": platform.libc_ver()[1],
    }
    python = next((p for p in (f"{path}/bin/python", f"{path}/bin/python3") if os.path.lexists(p)), None)
    if python is None:
        found["wheel_problems"].append(f"there is no Python in {path}/bin")
        return found
    if not os.path.exists(f"{path}/pyvenv.cfg"):
        # building an environment over it would replace its Python
        found["foreign"] = f"{path} has a Python but is no virtual environment (no pyvenv.cfg)"
    code, out, err = run([python, "-I", "-c", INSIDE], json.dumps(VARIANTS))
    if code != 0:
        found["foreign"] = f"{python} ended with code {code}: {(err.strip().splitlines() or ['no output'])[-1]}"
        found["wheel_problems"].append(found["foreign"])
        return found
    answer = json.loads(out)
    found["python"], installed = answer["python"], answer["versions"]
    found["installed"] = installed

    found["wheel_problems"] = wheel_problems(installed, asked["packages"], asked["version"])
    if not found["wheel_problems"]:
        for what in asked["prove"]:
            found["proof_problems"] += prove(what, python, answer["folder"])
    return found


if __name__ == "__main__":
    json.dump(probe(json.load(sys.stdin)), sys.stdout)
