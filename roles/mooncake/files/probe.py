# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the Mooncake of a host and try it. Reads only; standard library of Python 3.9.

Standard input: JSON {mode: wheel | source | installed, path, version, installed_version: "" or the user's word for it,
packages: names that are right, prove: [engine, store, master]}. Standard output: JSON {installed: {name: version},
manifest: {version, digest} | null, told: the master's word, version_problems, proof_problems, foreign, python,
base_python, glibc, running}.

version_problems is about what is installed, proof_problems about whether it works in this environment. running are the
processes of path, as far as they can be seen, where something there may have to be replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from typing import Any, Optional

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

# Not isolated (-I): this must see what the service will see, PYTHONPATH of CANN included, where source builds have
# installed themselves (Mooncake's CMake takes the first entry of sys.path with "packages" in it).
INSIDE = r"""
import importlib.metadata, importlib.util, json, os, sys
sys.path[:] = [entry for entry in sys.path if entry]
versions = {}
for name in json.load(sys.stdin):
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
spec = importlib.util.find_spec("mooncake")
folder = list(spec.submodule_search_locations or [""])[0] if spec else ""
seen = {}
for entry in sys.path:
    other = os.path.join(entry, "mooncake")
    if any(name.startswith(("engine.", "store.")) for name in (os.listdir(other) if os.path.isdir(other) else ())):
        seen.setdefault(os.path.realpath(other), other)
python = "%d.%d" % sys.version_info[:2]
json.dump({"python": python, "versions": versions, "folder": folder, "folders": list(seen.values())}, sys.stdout)
"""

MANIFEST = "share/mooncake-pd/mooncake.json"
VERSION = re.compile(r"\b\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)?")
# programs beside the extensions, and what needs them
PART = {"mooncake_master": "master", "mooncake_client": "store", "store": "store"}


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


def prove(what: str, python: str, folder: str, master: str) -> list[str]:
    if what == "master":
        argv, title, binary = [master, "--version"], "mooncake_master --version", master
    else:
        argv, title = [python, "-s", "-c", f"import mooncake.{what}"], f"import mooncake.{what}"
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        binary = os.path.join(
            folder, next((n for n in names if n.startswith(f"{what}.") and n.endswith(".so")), f"{what}.so")
        )
    code, out, err = run(argv)
    return explain(title, binary, out + err) if code else []


def is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as source:
            return source.read(4) == b"\x7fELF"
    except OSError:
        return False


def unresolved(paths: list[str], wanted: list[str]) -> list[str]:
    """Libraries that the loader does not find for a file of the package; only parts that are asked for count."""
    missing: dict[str, list[str]] = {}
    for path in sorted(set(paths)):
        part = PART.get(os.path.basename(path).split(".")[0], "engine")
        if part in wanted and is_elf(path):
            _code, out, err = run(["ldd", path])
            for name in missing_libraries(out + err):
                missing.setdefault(name, []).append(os.path.basename(path))
    return [f"{text}, asked for by {', '.join(missing[name])}" for name in missing for text in with_advice([name])]


def writable_by_all(paths: list[str]) -> list[str]:
    """What everyone may replace, the service would run (Mooncake's `make install` leaves its package so)."""
    found = []
    for path in paths:
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if mode & 0o002 and not stat.S_ISLNK(mode):
            found.append(path)
    if not found:
        return []
    parents = [path for path in found if os.path.dirname(path) not in found]
    return [f"everyone may write to {', '.join(parents[:3])}: chmod -R o-w {' '.join(parents[:3])}"]


def below(folder: str) -> list[str]:
    return [folder] + [os.path.join(top, name) for top, folders, names in os.walk(folder) for name in folders + names]


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


def manifest_of(path: str) -> Optional[dict[str, Any]]:
    try:
        with open(os.path.join(path, MANIFEST), encoding="utf-8") as source:
            read = json.load(source)
    except (OSError, ValueError):
        return None
    return read if isinstance(read, dict) and isinstance(read.get("files"), list) else None


def not_whole(path: str, manifest: dict[str, Any]) -> list[str]:
    """Files that are not as they were installed."""
    wrong = []
    for entry in manifest["files"]:
        place = os.path.join(path, entry["path"])
        try:
            if "target" in entry:
                right = os.readlink(place) == entry["target"]
            else:
                with open(place, "rb") as source:
                    right = hashlib.sha256(source.read()).hexdigest() == entry["sha256"]
        except OSError:
            right = False
        if not right:
            wrong.append(entry["path"])
    return wrong


def source_problems(
    path: str, manifest: Optional[dict[str, Any]], installed: dict[str, str], version: str
) -> list[str]:
    if manifest is None:
        problems = [f"{path} holds no build from source, {version} is wanted"]
    else:
        wrong = not_whole(path, manifest)
        problems = (
            [f"the build is of {manifest['version']}, {version} is wanted"] if manifest["version"] != version else []
        )
        problems += [f"{len(wrong)} files are not as installed: {', '.join(wrong[:3])}"] if wrong else []
    if installed:
        problems.append(
            f"{', '.join(sorted(installed))} lies in the same place: pip uninstall {' '.join(sorted(installed))}"
        )
    return problems


def installed_problems(
    asked: dict[str, Any], found: dict[str, Any], manifest: Optional[dict[str, Any]], folder: str
) -> list[str]:
    """Of a Mooncake that others installed: its metadata, our manifest, its master, or the user say what it is."""
    if found["installed"]:
        problems = wheel_problems(found["installed"], asked["packages"], asked["version"])
        if manifest is not None:
            problems.append("a build from source and a package lie in the same place")
        return problems
    if not folder:
        return ["its Python finds no package mooncake", *wheel_problems({}, asked["packages"], asked["version"])]
    if manifest is not None:
        return source_problems(asked["path"], manifest, {}, asked["version"])
    told, word = found["told"], asked["installed_version"]
    if told and word and not same_release(told, word):
        return [f"mooncake_installed_version says {word}, the master there says {told}"]
    if not (told or word):
        return [
            f"nothing says which version the Mooncake in {folder} is: it has no package metadata, and "
            "mooncake_master --version tells none. If you know it, set mooncake_installed_version"
        ]
    version = word or told
    return [] if same_release(version, asked["version"]) else [f"it is {version}, {asked['version']} is wanted"]


def same_release(one: str, other: str) -> bool:
    return one.lstrip("v").replace("-", ".") == other.lstrip("v").replace("-", ".")


def master_of(path: str, folder: str) -> str:
    """The binary, not the console script of the same name: that one is only a wrapper."""
    beside = os.path.join(folder, "mooncake_master")
    if os.path.lexists(beside):
        return beside
    places = [os.path.join(path, "bin", "mooncake_master"), shutil.which("mooncake_master")]
    return next((place for place in places if place and os.path.exists(place)), beside)


def told_by(master: str) -> Optional[str]:
    """What the master says (0.3.11 and newer do, mooncake-store/src/master.cpp)."""
    code, out, _err = run([master, "--version"])
    match = VERSION.search(out) if code == 0 else None
    return match.group() if match else None


def proof_problems(
    asked: dict[str, Any], answer: dict[str, Any], python: str, found: dict[str, Any], files: list[str]
) -> list[str]:
    folder, master = answer["folder"], master_of(asked["path"], answer["folder"])
    problems = [text for what in asked["prove"] for text in prove(what, python, folder, master)]
    own = below(folder) if folder else []
    if not problems:
        # an import that works says nothing of what is loaded later
        problems = unresolved([path for path in own + files if not os.path.islink(path)], asked["prove"])
    if "master" in asked["prove"] and found["told"] and not same_release(found["told"], asked["version"]):
        problems.append(f"{master} is {found['told']}, {asked['version']} is wanted")
    if len(answer["folders"]) > 1:
        used, *hidden = answer["folders"]
        problems.append(
            f"mooncake lies in {len(answer['folders'])} places, {used} hides {', '.join(hidden)}: "
            "remove what is not meant"
        )
    return problems + writable_by_all(own + files)


def running(path: str, proc: str = "/proc") -> list[str]:
    """Processes that run or have loaded a file under path, as they were called. An engine may call itself otherwise."""
    below_it = path.rstrip("/") + "/"
    found = []
    for pid in sorted(filter(str.isdigit, os.listdir(proc)), key=int):
        words = content(f"{proc}/{pid}/cmdline").split("\0")
        if words[0].startswith(below_it) or f" {below_it}" in content(f"{proc}/{pid}/maps"):
            found.append(f"pid {pid}: {' '.join(words[:3]).strip()}")
    return found


def content(path: str) -> str:
    """Of a file of /proc; empty when the process is gone or is somebody else's."""
    try:
        with open(path, "rb") as source:
            return source.read().decode("utf-8", "replace")
    except OSError:
        return ""


def probe(asked: dict[str, Any]) -> dict[str, Any]:
    path = asked["path"]
    manifest = manifest_of(path)
    found: dict[str, Any] = {
        "installed": {},
        "manifest": manifest and {"version": manifest["version"], "digest": manifest["digest"]},
        "told": None,
        "version_problems": [],
        "proof_problems": [],
        "foreign": None,
        "python": None,
        "base_python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "glibc": platform.libc_ver()[1],
        "running": [],
    }
    python = next((p for p in (f"{path}/bin/python", f"{path}/bin/python3") if os.path.lexists(p)), None)
    if python is None:
        found["version_problems"].append(f"there is no Python in {path}/bin")
        return found
    if not os.path.exists(f"{path}/pyvenv.cfg"):
        # building an environment over it would replace its Python
        found["foreign"] = f"{path} has a Python but is no virtual environment (no pyvenv.cfg)"
    code, out, err = run([python, "-s", "-c", INSIDE], json.dumps(VARIANTS))
    if code != 0:
        found["foreign"] = f"{python} ended with code {code}: {(err.strip().splitlines() or ['no output'])[-1]}"
        found["version_problems"].append(found["foreign"])
        return found
    answer = json.loads(out)
    found["python"], found["installed"] = answer["python"], answer["versions"]
    found["told"] = told_by(master_of(path, answer["folder"])) if answer["folder"] else None

    if asked["mode"] == "wheel":
        found["version_problems"] = wheel_problems(found["installed"], asked["packages"], asked["version"])
        if manifest is not None:
            found["version_problems"].append("a build from source lies in the same place")
    elif asked["mode"] == "source":
        found["version_problems"] = source_problems(path, manifest, found["installed"], asked["version"])
    else:
        found["version_problems"] = installed_problems(asked, found, manifest, answer["folder"])
    # a wheel of the right version stays; of a build its digest decides, which is not known here
    if asked["mode"] == "source" or (asked["mode"] == "wheel" and found["version_problems"]):
        found["running"] = running(path)
    if not found["version_problems"]:
        files = [os.path.join(path, entry["path"]) for entry in manifest["files"]] if manifest else []
        found["proof_problems"] = proof_problems(asked, answer, python, found, files)
    return found


if __name__ == "__main__":
    json.dump(probe(json.load(sys.stdin)), sys.stdout)
