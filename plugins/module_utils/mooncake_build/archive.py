# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive: equal for equal content, whoever packs it and when."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from ansible_collections.mooncake.pd.plugins.module_utils.mooncake_build import manifest as manifests


def name_of(version: str, key: str, digest: str) -> str:
    return f"mooncake-{version}-{key}-{digest[:12]}.tar.gz"


def pack(tree: str, manifest: Mapping[str, Any], path: str) -> None:
    """Replaces the file at once when all is in it."""
    temporary = f"{path}.new"
    with open(temporary, "wb") as raw:
        # the name and the time of gzip's header would differ otherwise
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
            _write(tree, manifest, packed)
        raw.flush()
        os.fchmod(raw.fileno(), 0o644)  # it is fetched by who logs in
        os.fsync(raw.fileno())
    os.replace(temporary, path)


def _write(tree: str, manifest: Mapping[str, Any], packed: gzip.GzipFile) -> None:
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        content = manifests.text(manifest).encode()
        first = _member(manifests.PATH, "0644", len(content))
        archive.addfile(first, io.BytesIO(content))
        for entry in manifest["files"]:
            if "target" in entry:
                link = _member(entry["path"], "0777", 0)
                link.type, link.linkname = tarfile.SYMTYPE, entry["target"]
                archive.addfile(link)
                continue
            with open(os.path.join(tree, entry["path"]), "rb") as source:
                archive.addfile(_member(entry["path"], entry["mode"], entry["size"]), source)


def _member(path: str, mode: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.mode, member.mtime, member.size = int(mode, 8), 0, size
    return member


@contextmanager
def opened(path: str) -> Iterator[tuple[dict[str, Any], Iterator[tuple[str, IO[bytes]]]]]:
    """The manifest, and the files (not the links) in the order of the archive."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            first = archive.next()
            content = archive.extractfile(first) if first and first.name == manifests.PATH else None
            if content is None:
                raise manifests.ManifestError(
                    f"{path} is not of mooncake_build: it does not begin with {manifests.PATH}"
                )
            manifest = manifests.parse(content.read().decode("utf-8", "replace"), f"{manifests.PATH} of {path}")
            yield manifest, _files(archive)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
        raise manifests.ManifestError(f"{path} is no whole archive: {error}") from error


def _files(archive: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    for member in archive:
        content = archive.extractfile(member) if member.isreg() else None
        if content is not None and member.name != manifests.PATH:
            yield member.name, content
