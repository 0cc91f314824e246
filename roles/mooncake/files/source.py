# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at source trees on the controller, and pack them. Standard library of Python 3.9; git where a tree is a clone.

Standard input: JSON {trees: [{name, from: folder or archive, version, version_given, needs: paths}], pack: folder or
""}. Standard output: JSON {problems, trees: {name: {digest, strip, archive}}}. With `pack`, a folder of source lies
there afterwards as <name>-<digest>.tar.gz; an archive is used as it is.

Of a clone, what git tracks counts, with the submodules and with changes that are not committed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from typing import Any, Optional

NOT_SOURCE = {".git", "__pycache__"}


def git(folder: str, *words: str) -> tuple[int, str]:
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout or done.stderr).strip("\n")


def files_of(folder: str) -> tuple[list[str], list[str]]:
    """Paths below the folder, sorted, and what stands in the way."""
    if os.path.lexists(os.path.join(folder, ".git")):
        code, text = git(folder, "ls-files", "--recurse-submodules", "-z")
        if code:
            return [], [f"git cannot list {folder}: {text}"]
        listed = [name for name in text.split("\0") if name]
        # a file that was deleted without git rm is listed and not there
        return sorted(
            name
            for name in listed
            if not os.path.isdir(os.path.join(folder, name)) and os.path.lexists(os.path.join(folder, name))
        ), []
    found = []
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_SOURCE]
        links = [name for name in folders if os.path.islink(os.path.join(top, name))]
        found += [os.path.relpath(os.path.join(top, name), folder) for name in names + links]
    return sorted(found), []


def digest_of(folder: str, names: list[str]) -> str:
    total = hashlib.sha256()
    for name in names:
        path = os.path.join(folder, name)
        if os.path.islink(path):
            content, kind = os.readlink(path).encode(), "l"
        else:
            with open(path, "rb") as source:
                content = source.read()
            kind = "x" if os.stat(path).st_mode & 0o100 else "f"
        total.update(f"{kind} {name} {hashlib.sha256(content).hexdigest()}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def other_commit(tree: dict[str, Any]) -> Optional[str]:
    """A clone is built as it lies; that it lies at another release than planned would show only in the service."""
    folder, version = tree["from"], tree["version"]
    if not version or not os.path.lexists(os.path.join(folder, ".git")):
        return None
    code, wanted = git(folder, "rev-parse", "--verify", "--quiet", f"{version}^{{commit}}")
    if code:
        return f"{folder} knows no {version}: git -C {folder} fetch --tags" if tree["version_given"] else None
    head = git(folder, "rev-parse", "HEAD")[1]
    if head == wanted:
        return None
    return (
        f"{folder} is at {git(folder, 'describe', '--tags', '--always')[1]}, planned is {version}: "
        f"git -C {folder} checkout --recurse-submodules {version}, or give the version that is meant"
    )


def missing(name: str, where: str, needs: list[str], names: list[str]) -> list[str]:
    there = set(names)
    lacking = [path for path in needs if path not in there]
    if not lacking:
        return []
    return [
        f"{where} is no complete source tree of {name}, it lacks {', '.join(lacking)}: take a clone with submodules "
        "(git submodule update --init --recursive); the archives that GitHub makes of a tag have none"
    ]


def look_at_folder(tree: dict[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    folder = tree["from"]
    names, problems = files_of(folder)
    if not problems:
        problems = missing(tree["name"], folder, tree["needs"], names)
    other = other_commit(tree)
    if other:
        problems.append(other)
    digest = "" if problems else digest_of(folder, names)
    return {"digest": digest, "strip": 0, "archive": ""}, names, problems


def look_at_archive(tree: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    path = tree["from"]
    try:
        with tarfile.open(path) as archive:
            given = archive.getnames()
    except (tarfile.TarError, OSError, EOFError) as error:
        return {}, [f"{path} is no archive that tar reads: {error}"]
    names = [name[2:] if name.startswith("./") else name for name in given]
    tops = {name.split("/")[0] for name in names if name not in ("", ".")}
    # one folder around everything, as archives of a release have
    around = len(tops) == 1
    inner = [name.partition("/")[2] for name in names] if around else names
    # tar counts the dot as a part of a name
    strip = around and 1 + any(name.startswith("./") for name in given)
    total = hashlib.sha256()
    with open(path, "rb") as source:
        for block in iter(lambda: source.read(1 << 20), b""):
            total.update(block)
    return {"digest": total.hexdigest(), "strip": int(strip), "archive": path}, missing(
        tree["name"], path, tree["needs"], inner
    )


def pack(folder: str, names: list[str], target: str) -> None:
    """The same tree gives the same bytes."""
    unfinished = f"{target}.{os.getpid()}"
    with (
        open(unfinished, "wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, 0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in names:
            info = archive.gettarinfo(os.path.join(folder, name), name)
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            # the time is what make and ninja compare with; one for all is older than anything they make
            info.mtime = 1
            info.mode = 0o755 if info.mode & 0o100 else 0o644
            if info.isreg():
                with open(os.path.join(folder, name), "rb") as source:
                    archive.addfile(info, source)
            else:
                archive.addfile(info)
    os.replace(unfinished, target)


def look(asked: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"problems": [], "trees": {}}
    for asked_tree in asked["trees"]:
        tree = {**asked_tree, "from": os.path.abspath(os.path.expanduser(asked_tree["from"]))}
        if os.path.isdir(tree["from"]):
            found, names, problems = look_at_folder(tree)
            if asked["pack"] and not problems:
                os.makedirs(asked["pack"], exist_ok=True)
                found["archive"] = os.path.join(asked["pack"], f"{tree['name']}-{found['digest'][:12]}.tar.gz")
                if not os.path.exists(found["archive"]):
                    pack(tree["from"], names, found["archive"])
        elif os.path.isfile(tree["from"]):
            found, problems = look_at_archive(tree)
        else:
            found, problems = (
                {},
                [f"there is no {tree['from']} on the controller, where {tree['name']} is to come from"],
            )
        answer["trees"][tree["name"]] = found
        answer["problems"] += problems
    return answer


if __name__ == "__main__":
    json.dump(look(json.load(sys.stdin)), sys.stdout)
