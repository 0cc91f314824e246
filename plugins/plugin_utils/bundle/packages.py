# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of a distribution with all that they need down to the C library, for no host is known to have any of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ansible_collections.mooncake.pd.plugins.plugin_utils.bundle.run import CollectError, run

# dpkg's and rpm's names of what uname tells
DEB_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def apt_conf(root: Path, architecture: str, sources: Path | None) -> str:
    """An apt that has nothing installed, with lists and archives in `root`. Keys and pins are the machine's."""
    own = DEB_ARCHITECTURES.get(architecture, architecture)
    lines = [
        f'Dir::State "{root}/state";',
        f'Dir::State::status "{root}/status";',
        f'Dir::Cache "{root}/cache";',
        f'APT::Architecture "{own}";',
        "#clear APT::Architectures;",
        f'APT::Architectures {{ "{own}"; }};',
        'APT::Install-Recommends "false";',
        'Acquire::Languages "none";',
        'Acquire::ForceHash "SHA256";',
        # root would hand over to a user who may not read the bundle
        'APT::Sandbox::User "root";',
    ]
    if sources:
        lines += [f'Dir::Etc::SourceList "{sources}";', f'Dir::Etc::SourceParts "{root}/none";']
    return "\n".join(lines) + "\n"


def uris(text: str) -> dict[str, str]:
    """File and address of what apt-get --print-uris would fetch."""
    return {name: address for address, name in re.findall(r"^'([^']+)' (\S+\.deb) ", text, re.MULTILINE)}


def index(stanzas: Mapping[str, tuple[str, int, str]]) -> str:
    """Packages: of each file what it says of itself, its size and its SHA256."""
    return "".join(
        f"{control.strip()}\nFilename: ./{name}\nSize: {size}\nSHA256: {checksum}\n\n"
        for name, (control, size, checksum) in sorted(stanzas.items())
    )


def release(packages: str) -> str:
    """The date is none: the same packages give the same bytes."""
    checksum = hashlib.sha256(packages.encode()).hexdigest()
    return f"Suite: mooncake-pd\nDate: {formatdate(0)}\nSHA256:\n {checksum} {len(packages.encode())} Packages\n"


def own_release() -> str:
    """Distribution and release of this machine."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return ""
    told = dict(line.partition("=")[::2] for line in text.splitlines())
    return "-".join(told.get(name, "").strip("\"'").lower() for name in ("ID", "VERSION_ID"))


def collect(
    request: Mapping[str, Any], how: Mapping[str, Any], sources: str, work: Path, dest: Path
) -> dict[str, dict[str, str]]:
    wanted = f"{how['distribution']}-{how['release']}"
    if not sources and own_release() != wanted:
        raise CollectError(
            f"this machine ({own_release() or 'of no known distribution'}) has no package sources of {wanted}. "
            "Mend: put those of a host into a file and name it in bundle_package_sources, or collect on such a machine"
        )
    if how["family"] == "Debian":
        return _debs(request["names"], how["architecture"], sources, work, dest)
    return _rpms(request["names"], how, sources, dest)


def _debs(names: Iterable[str], architecture: str, sources: str, work: Path, dest: Path) -> dict[str, dict[str, str]]:
    for folder in ("state/lists/partial", "cache/archives/partial", "none"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    given = None
    if sources:
        # apt tells the format by the ending
        text = Path(sources).read_text(encoding="utf-8")
        given = work / ("given.sources" if re.search(r"^Types:", text, re.MULTILINE) else "given.list")
        given.write_text(text, encoding="utf-8")
    configuration = work / "apt.conf"
    configuration.write_text(apt_conf(work, architecture, given), encoding="utf-8")
    apt = ["apt-get", "-qq", "-y", f"--config-file={configuration}"]
    mend = "see what apt says; bundle_package_sources names other package sources. It takes a machine with apt-get"
    environment = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    run([*apt, "update"], mend, environment=environment)
    addresses = uris(run([*apt, "--print-uris", "install", *names], mend, environment=environment))
    run([*apt, "--download-only", "install", *names], mend, environment=environment)
    stanzas, known = {}, {}
    for deb in sorted((work / "cache/archives").glob("*.deb")):
        control = run(["dpkg-deb", "--field", deb], mend)
        content = deb.read_bytes()
        stanzas[deb.name] = (control, len(content), hashlib.sha256(content).hexdigest())
        known[deb.name] = {"version": unquote(deb.name.split("_")[1]), "from": addresses.get(deb.name, "apt")}
        deb.rename(dest / deb.name)
    packages = index(stanzas)
    (dest / "Packages").write_text(packages, encoding="utf-8")
    (dest / "Release").write_text(release(packages), encoding="utf-8")
    return known


def rpm_commands(names: Iterable[str], how: Mapping[str, Any], sources: str, dest: Path) -> list[list[str]]:
    """dnf-download(8) of dnf-plugins-core and createrepo_c(8). Written from these pages; not run."""
    given = [f"--setopt=reposdir={Path(sources).parent}"] if sources else []
    target = [f"--releasever={how['release']}", f"--forcearch={how['architecture']}"]
    download = ["download", "--resolve", "--alldeps", f"--downloaddir={dest}"]
    return [
        ["dnf", "-y", "-q", *given, *target, "--setopt=install_weak_deps=False", *download, *names],
        ["createrepo_c", "--quiet", str(dest)],
    ]


def _rpms(names: Iterable[str], how: Mapping[str, Any], sources: str, dest: Path) -> dict[str, dict[str, str]]:
    for command in rpm_commands(names, how, sources, dest):
        run(command, "see what it says; dnf with dnf-plugins-core and createrepo_c have to be on this machine")
    return {path.name: {"version": path.name.rsplit(".", 2)[0], "from": "dnf"} for path in dest.glob("*.rpm")}
