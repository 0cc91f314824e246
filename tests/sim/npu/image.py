# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a container image of the twin, as a file for `podman load` or `docker load`: without registry and runtime.

It holds an environment made by environment.py, under the same path, and what a container needs beside it. The rest,
Python and its libraries, is the host's: the container needs the host's /usr as a mount (`--volume=/usr:/usr:ro`).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
FOLDERS = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var", "var/log")
LINKS = {name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")}
FILES = {"etc/passwd": "root:x:0:0:root:/root:/bin/bash\n", "etc/group": "root:x:0:\n"}


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = "root"
    return entry


def _add(archive: tarfile.TarFile, name: str, data: bytes = b"", **values: object) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    for key, value in values.items():
        setattr(entry, key, value)
    archive.addfile(entry, io.BytesIO(data))


def layer(environment: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in FOLDERS:
            _add(archive, name, type=tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)
        for name, target in LINKS.items():
            _add(archive, name, type=tarfile.SYMTYPE, linkname=target, mode=0o777)
        for name, text in FILES.items():
            _add(archive, name, text.encode())
        archive.add(environment, str(environment).lstrip("/"), filter=_plain)
    return buffer.getvalue()


def image(environment: Path, name: str) -> bytes:
    """In the form of `docker save`."""
    content = layer(environment)
    digest = hashlib.sha256(content).hexdigest()
    configuration = json.dumps(
        {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {
                "Env": [f"PATH={environment}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                # as images have it: nothing that serves
                "Cmd": ["/bin/bash"],
                "WorkingDir": "/root",
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        },
        sort_keys=True,
    ).encode()
    described = f"{hashlib.sha256(configuration).hexdigest()}.json"
    manifest = json.dumps([{"Config": described, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file, data in ((described, configuration), (f"{digest}/layer.tar", content), ("manifest.json", manifest)):
            _add(archive, file, data)
    return buffer.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", type=Path, required=True, help="made by environment.py --path")
    parser.add_argument("--name", required=True, help="of the image, such as localhost/vllm-ascend:v0.23.0")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    args.output.write_bytes(image(args.environment.absolute(), args.name))


if __name__ == "__main__":
    main()
