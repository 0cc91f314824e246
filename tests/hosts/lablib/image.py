# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the hosts' image from the machine's own package source. No container registry is asked."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .machine import HERE, LabError, Machine, tail

REPOSITORY = "localhost/mooncake-pd-host"
LABEL = "mooncake-pd.image"
CHANGES = ('CMD ["/usr/bin/python3", "-IS", "/usr/local/sbin/lab-init"]', "STOPSIGNAL SIGRTMIN+3")
PARTS = ("lab-init", "lab-packages", "lab-setup")

PACKAGES = [
    "systemd",
    "systemd-sysv",
    "dbus",
    "libpam-systemd",
    "python3",
    "python3-apt",
    "openssh-server",
    "iproute2",
    "iputils-ping",
    "procps",
    "kmod",
    "netbase",
    "sudo",
    "ca-certificates",
    "curl",
    "logrotate",
]
# Roles install these for real; they and what they need lie in the image, as hosts have no way out.
LATER = [
    *["haproxy", "iptables", "libibverbs1", "librdmacm1", "libnuma1", "python3-venv"],
    *["cmake", "g++", "make", "ninja-build", "patch", "libzstd-dev"],  # a build of Mooncake
    *["crun", "podman"],  # an engine in a container
]
# No consoles, no devices and no clock of their own; timers would work in the middle of a test.
MASKED = [
    "getty.target",
    "getty@.service",
    "console-getty.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "systemd-timesyncd.service",
    "systemd-resolved.service",
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-networkd-wait-online.service",
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "modprobe@.service",
    "systemd-modules-load.service",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "sys-kernel-config.mount",
    "sys-fs-fuse-connections.mount",
    "dev-hugepages.mount",
    "proc-sys-fs-binfmt_misc.automount",
    "proc-sys-fs-binfmt_misc.mount",
]

# Suffixes of a distribution's own suites; anything else with the codename in it is a third party's.
POCKETS = ("", "-updates", "-security")
KEYRINGS = ("debian-archive-", "ubuntu-archive-", "debian-")


def os_release(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key: value.strip().strip("\"'") for key, _eq, value in pairs}


def _own_keyring(signed_by: str) -> bool:
    """The distribution's keyring, an embedded key, or none named (then apt's trusted ones hold)."""
    value = signed_by.strip()
    return not value or value.startswith("-----BEGIN") or os.path.basename(value.split()[0]).startswith(KEYRINGS)


def _usable(uri: str) -> bool:
    return uri.startswith(("http://", "https://", "mirror+http"))


def one_line_sources(text: str, suite: str) -> list[str]:
    """The lines of a sources.list that are the distribution's own for this suite."""
    kept = []
    for line in text.splitlines():
        match = re.match(
            r"\s*deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>[^#]+)", line
        )
        if match is None or not _usable(match["uri"]) or "main" not in match["components"].split():
            continue
        signed = re.search(r"signed-by=(\S+)", match["options"] or "", re.I)
        if match["suite"] in {suite + pocket for pocket in POCKETS} and _own_keyring(signed[1] if signed else ""):
            kept.append(line.strip())
    return kept


def deb822_sources(text: str, suite: str) -> list[str]:
    """The same for a file of stanzas. A stanza keeps only the suites that are wanted."""
    kept = []
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, list[str]] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith("#") or not line.strip():
                continue
            if line[0] in " \t":
                fields.setdefault(name, []).append(line)
            elif ":" in line:
                name, _colon, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = [value.strip()]
        value = {key: "\n".join(lines).strip() for key, lines in fields.items()}
        suites = [word for word in value.get("suites", "").split() if word in {suite + pocket for pocket in POCKETS}]
        uris = [word for word in value.get("uris", "").split() if _usable(word)]
        if (
            not suites
            or not uris
            or "deb" not in value.get("types", "").split()
            or "main" not in value.get("components", "").split()
            or value.get("enabled", "yes").lower() in ("no", "false")
            or not _own_keyring(value.get("signed-by", ""))
        ):
            continue
        value.update({"types": "deb", "suites": " ".join(suites), "uris": " ".join(uris)})
        kept.append("\n".join(f"{key.title()}: {text}" for key, text in value.items()))
    return kept


def recipe(suite: str, sources: Sequence[str], parts: dict[str, str]) -> str:
    """Twelve hex digits that change when the image would be another one."""
    digest = hashlib.sha256()
    for piece in (
        *mmdebstrap_args(suite, "", [], ""),
        *CHANGES,
        *sources,
        *(f"{name}\0{text}" for name, text in sorted(parts.items())),
    ):
        digest.update(piece.encode() + b"\0")
    return digest.hexdigest()[:12]


def mmdebstrap_args(suite: str, target: str, mirrors: Sequence[str], parts: str) -> list[str]:
    inside = "/usr/local/sbin"
    return [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        "--include=" + ",".join(PACKAGES),
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=APT::Install-Recommends "false"',
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=force-unsafe-io",
        "--skip=output/dev",
        "--skip=cleanup/apt",
        *(f"--customize-hook=copy-in '{parts}/{name}' {inside}" for name in PARTS),
        f'--customize-hook=chroot "$1" {inside}/lab-packages {" ".join(LATER)}',
        f'--customize-hook=chroot "$1" {inside}/lab-setup {" ".join(MASKED)}',
        f'--customize-hook=rm "$1"{inside}/lab-setup "$1"{inside}/lab-packages',
        suite,
        target,
        *mirrors,
    ]


class Image:
    def __init__(self, machine: Machine, suite: str | None = None) -> None:
        self.machine = machine
        release = os_release(Path("/etc/os-release").read_text(encoding="utf-8"))
        here = release.get("VERSION_CODENAME", "")
        self.suite = suite or here
        self.family = release.get("ID", "")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.suite):
            raise LabError(
                f"no suite to build hosts from ({self.suite!r}): /etc/os-release names no codename; give --suite"
            )
        lines: list[str] = []
        stanzas: list[str] = []
        if self.suite == here:
            for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.list"))]:
                if path.is_file():
                    lines += one_line_sources(path.read_text(encoding="utf-8"), self.suite)
            for path in sorted(Path("/etc/apt/sources.list.d").glob("*.sources")):
                stanzas += deb822_sources(path.read_text(encoding="utf-8"), self.suite)
        self.lines, self.stanzas = lines, stanzas
        self.parts = {name: (HERE / "image" / name).read_text(encoding="utf-8") for name in PARTS}
        self.name = f"{REPOSITORY}:{self.suite}-{recipe(self.suite, [*lines, *stanzas], self.parts)}"

    def exists(self) -> bool:
        return self.machine.pod("image", "exists", self.name, check=False).returncode == 0

    def build(self, force: bool = False) -> bool:
        """True when an image was built."""
        machine = self.machine
        if not force and self.exists():
            return False
        with machine.lock("image", f"building {self.name}"):
            if not force and self.exists():
                return False
            if not self.lines and not self.stanzas and self.family != "debian":
                raise LabError(
                    f"no package source for {self.suite}: this machine's apt sources name none of its distribution's"
                    " own for that suite; build the suite of the machine, or add its source to /etc/apt"
                )
            machine.say(f"building {self.name} (about half a minute)")
            work = Path(tempfile.mkdtemp(prefix="image-", dir=machine.cache))
            try:
                self._build(work)
            finally:
                machine.sudo("rm", "-rf", str(work), check=False)
                shutil.rmtree(work, ignore_errors=True)
        self.remove_old()
        return True

    def _build(self, work: Path) -> None:
        machine = self.machine
        work.chmod(0o755)
        mirrors = []
        for name, entries, gap in (("machine.list", self.lines, "\n"), ("machine.sources", self.stanzas, "\n\n")):
            if entries:
                (work / name).write_text(gap.join(entries) + "\n", encoding="utf-8")
                mirrors.append(str(work / name))
        parts = work / "parts"
        parts.mkdir()
        for name, text in self.parts.items():
            (parts / name).write_text(text, encoding="utf-8")
            (parts / name).chmod(0o755)
        tar = work / "root.tar"
        env = {"TMPDIR": str(work), "LC_ALL": "C.UTF-8", "PATH": machine.path}
        for scheme in ("http", "https"):
            proxy = machine.run(
                ["apt-config", "shell", "PROXY", f"Acquire::{scheme}::Proxy"], why="asking apt for its proxy"
            ).stdout
            found = re.search(r"PROXY='(.+)'", proxy)
            given = os.environ.get(f"{scheme}_proxy") or (found[1] if found else "")
            if given:
                env[f"{scheme}_proxy"] = given
        done = machine.run(
            machine.as_root(mmdebstrap_args(self.suite, str(tar), mirrors, str(parts)), env),
            check=False,
            why="building the image",
        )
        if done.returncode != 0:
            log = machine.labs / "image.log"
            machine.write(log, done.stdout + done.stderr)
            raise LabError(
                f"mmdebstrap {self.suite} failed: {tail(done.stderr, 3)}; look whether the package source is reachable,"
                f" the whole output is in {log}"
            )
        machine.say("packages unpacked; taking the image into podman's store")
        changes = [*CHANGES, f"LABEL {LABEL}={self.suite}"]
        machine.pod(
            "import",
            "--quiet",
            *(word for change in changes for word in ("--change", change)),
            str(tar),
            self.name,
            why="podman import",
        )

    def remove_old(self) -> None:
        """Images of an earlier recipe for this suite, unless hosts still run from them."""
        for image in self.machine.pod_json("images", "--filter", f"label={LABEL}={self.suite}", "--format", "json"):
            for name in image.get("Names") or [image["Id"]]:
                if name != self.name and (name == image["Id"] or name.startswith(REPOSITORY + ":")):
                    gone = self.machine.pod("rmi", name, check=False).returncode == 0
                    self.machine.say(f"{'removed' if gone else 'kept, hosts use it:'} {name}")
