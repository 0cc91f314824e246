# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources, images and the collection itself, each as one file."""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.jobs import without_user
from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.run import CollectError, run

# this file lies in plugins/plugin_utils/bundle of the collection
HOME = Path(__file__).resolve().parents[3]
_PACK = HOME / "roles/mooncake/files/source.py"


def source(request: Mapping[str, Any], how: Mapping[str, Any], work: Path, dest: Path) -> dict[str, dict[str, str]]:
    """A source tree with its submodules, as an archive that the role mooncake takes."""
    place, version = request["from"], request["version"]
    if how["git"]:
        place = str(work / how["name"])
        mend = "see what git says; mooncake_submodule_mirrors names other addresses"
        run(["git", "clone", "--quiet", "--no-checkout", request["from"], place], mend, environment=how["environment"])
        run(["git", "checkout", "--quiet", "--detach", version], mend, environment=how["environment"], cwd=Path(place))
        modules = ["submodule", "--quiet", "update", "--init", "--recursive"]
        run(["git", *modules], mend, environment=how["environment"], cwd=Path(place))
    tree = {
        "name": how["name"],
        "from": place,
        # what was checked out is that version
        "version": "" if how["git"] else version,
        "version_given": how["version_given"] and not how["git"],
        "needs": how["needs"],
    }
    mend = "see what it says"
    told = json.loads(run([sys.executable, _PACK], mend, stdin=json.dumps({"trees": [tree], "pack": str(work)})))
    if told["problems"]:
        raise CollectError("; ".join(told["problems"]))
    archive = Path(told["trees"][how["name"]]["archive"])
    name = f"{how['name']}.tar.gz"
    (dest / name).write_bytes(archive.read_bytes())
    return {name: {"version": version, "from": without_user(request["from"])}}


def image(request: Mapping[str, Any], how: Mapping[str, Any], dest: Path) -> dict[str, dict[str, str]]:
    runtime, name = how["runtime"], request["image"]
    other = {"x86_64": "amd64", "aarch64": "arm64"}.get(request["architecture"], request["architecture"])
    mend = f"see what {runtime} says; bundle_image: false leaves the image out"
    platform = [f"--platform=linux/{other}"]
    run([runtime, "pull", "--quiet", *platform, name], mend)
    run([runtime, "save", "--output", dest / "image.tar", name], mend)
    return {"image.tar": {"version": name.rpartition(":")[2], "from": name}}


def collection(dest: Path) -> dict[str, dict[str, str]]:
    """What ansible-galaxy collection install takes; an installed collection is packed as it lies."""
    if (HOME / "galaxy.yml").exists():
        galaxy = [sys.executable, "-m", "ansible", "galaxy", "collection", "build"]
        run([*galaxy, "--output-path", dest, HOME], "see what ansible-galaxy says")
    else:
        told = json.loads((HOME / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]
        listed = json.loads((HOME / "FILES.json").read_text(encoding="utf-8"))["files"]
        names = ["MANIFEST.json", "FILES.json", *(entry["name"] for entry in listed if entry["ftype"] == "file")]
        with tarfile.open(dest / f"{told['namespace']}-{told['name']}-{told['version']}.tar.gz", "w:gz") as archive:
            for name in names:
                archive.add(HOME / name, name)
    (built,) = dest.glob("*.tar.gz")
    return {built.name: {"version": built.name.removesuffix(".tar.gz").split("-")[2], "from": "this collection"}}


def contents(folder: Path) -> str:
    """What tells one build of the collection from another: names and checksums of its files, no times."""
    (built,) = folder.glob("*.tar.gz")
    with tarfile.open(built) as packed:
        member = packed.extractfile("FILES.json")
        listed = json.load(member)["files"] if member else []
    text = json.dumps(sorted([entry["name"], entry["chksum_sha256"]] for entry in listed if entry["ftype"] == "file"))
    return hashlib.sha256(text.encode()).hexdigest()
