# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of `lab`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import plan
from .image import Image
from .labs import Labs
from .machine import LabError, Machine, Progress
from .onehost import OneHost

# package -> what shows that it is there
PACKAGES = {
    "podman": ("podman",),
    "runc": ("runc",),
    "netavark": ("/usr/lib/podman/netavark", "/usr/libexec/podman/netavark"),
    "iptables": ("iptables", "iptables-save"),
    "mmdebstrap": ("mmdebstrap",),
    "openssh-client": ("ssh", "ssh-keygen"),
    "iproute2": ("ip",),
}


def missing_packages(machine: Machine) -> list[str]:
    def there(package: str) -> bool:
        probes = PACKAGES[package]
        if probes[0].startswith("/"):
            return any(os.path.exists(path) for path in probes)
        return all(machine.which(name) for name in probes)

    return [package for package in PACKAGES if not there(package)]


def install_packages(machine: Machine) -> None:
    missing = missing_packages(machine)
    if not missing:
        machine.say(f"all there, nothing changed: {' '.join(PACKAGES)}")
        return
    if not machine.which("apt-get"):
        raise LabError(f"{', '.join(missing)} missing, and this machine has no apt to install them; do it by hand")
    machine.say(f"installing {' '.join(missing)}")
    install = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-qq",
        "install",
        "-y",
        "--no-install-recommends",
        *missing,
    ]
    if machine.sudo(*install, check=False).returncode != 0:
        machine.say("not found as it stands; reading the package lists anew")
        machine.sudo("apt-get", "-qq", "update", why="apt-get update")
        machine.sudo(*install, why=f"installing {' '.join(missing)}")
    left = missing_packages(machine)
    if left:
        raise LabError(
            f"{', '.join(left)} still missing after the installation; look at `apt-get install {' '.join(left)}`"
        )
    machine.say("installed")


def read_inventory(machine: Machine, path: str) -> tuple[plan.Host, ...]:
    """As the caller, never as root: plugins and configuration are the caller's."""
    if not os.path.exists(path):
        raise LabError(f"--inventory {path}: there is no such file or folder; name an inventory")
    beside = Path(sys.executable).parent / "ansible-inventory"
    tool = shutil.which("ansible-inventory") or (str(beside) if beside.exists() else "")
    if not tool:
        raise LabError(
            "ansible-inventory is not on PATH; put the environment that has Ansible there, or give --host NAME=ADDRESS"
        )
    done = machine.run([tool, "-i", path, "--list"], check=False, why="reading the inventory")
    try:
        if done.returncode != 0:
            raise ValueError
        listing: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        sys.stderr.write(done.stderr)
        raise LabError(f"ansible-inventory cannot read {path} (its words are above); mend the inventory") from None
    return plan.inventory_hosts(listing)


def check_mounts(paths: Sequence[str]) -> list[str]:
    kept = []
    for path in paths:
        if not os.path.isabs(path) or ":" in path or os.path.normpath(path) == "/":
            raise LabError(f"--mount {path}: it is to be an absolute path without a colon, and not the whole machine")
        if not os.path.exists(path):
            raise LabError(f"--mount {path}: does not exist on this machine; make it first")
        kept.append(os.path.normpath(path))
    return sorted(set(kept))


def show(labs: list[dict[str, Any]]) -> None:
    if not labs:
        print("no labs")
    for lab in labs:
        print(f"{lab['name']}  {lab['subnet']}")
        for host in lab["hosts"]:
            print(f"  {host['name']:20} {host['address']:15} {host['state']}{'' if host['joined'] else ', cut off'}")


def parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--quiet", action="store_true", help="say nothing but errors")
    top = argparse.ArgumentParser(prog="lab", description="Several real Linux hosts on this machine, for tests.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str, *fields: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text, parents=[common])
        for field in fields:
            sub.add_argument(field)
        return sub

    verb("packages", "install what this machine lacks (apt)")
    image = verb("image", "build the hosts' image; does nothing when it is there")
    image.add_argument("--suite", help="Debian or Ubuntu suite (default: this machine's own)")
    image.add_argument("--force", action="store_true", help="build even so")
    up = verb("up", "make a lab what it is to be", "name")
    up.add_argument("--inventory", metavar="DIR", help="hosts and addresses as `ansible-inventory --list` gives them")
    up.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME=ADDRESS",
        help="a host (repeatable), instead of an inventory",
    )
    up.add_argument(
        "--mount",
        action="append",
        default=[],
        metavar="PATH",
        help="a path of this machine, read-only and under the same name (repeatable)",
    )
    up.add_argument("--shm-size", default="1g", help="size of /dev/shm (default: %(default)s)")
    up.add_argument("--suite", help="suite of the hosts' image (default: this machine's own)")
    up.add_argument("--timeout", type=float, default=120, help="seconds a host may take to boot (default: %(default)s)")
    down = verb("down", "remove a lab and all it made")
    down.add_argument("name", nargs="?")
    down.add_argument("--all", action="store_true", help="every lab")
    listing = verb("list", "show labs and hosts")
    listing.add_argument("--json", action="store_true")
    for name, text in (
        ("exec", "run a command in a host, as root"),
        ("ssh", "run a command in a host over ssh, as user ansible"),
    ):
        verb(name, text, "name", "hostname").add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    for name, text in (
        ("reboot", "reboot a host in an orderly way"),
        ("start", "start a host that was killed or has stopped"),
    ):
        verb(name, text, "name", "hostname").add_argument("--timeout", type=float, default=120)
    for name, text in (
        ("kill", "take a host away at once, as if it lost power"),
        ("pause", "let all processes of a host stand still"),
        ("unpause", "let them go on"),
        ("cut", "take a host's network away"),
        ("join", "give it back, with the same address"),
    ):
        verb(name, text, "name", "hostname")
    return top


def run(args: argparse.Namespace, machine: Machine) -> None:
    labs = Labs(machine)
    verb = args.verb
    if verb == "packages":
        install_packages(machine)
    elif verb == "image":
        machine.open_cache()
        image = Image(machine, args.suite)
        built = image.build(args.force)
        machine.say(f"{image.name} {'is built' if built else 'is there, nothing changed'}")
    elif verb == "up":
        if bool(args.inventory) == bool(args.host):
            raise LabError("lab up wants either --inventory DIR or --host NAME=ADDRESS: give one of them")
        mounts = check_mounts(args.mount)
        hosts = plan.given_hosts(args.host) if args.host else read_inventory(machine, args.inventory)
        labs.up(args.name, hosts, mounts=mounts, shm=args.shm_size, suite=args.suite, timeout=args.timeout)
    elif verb == "down":
        if bool(args.name) == args.all:
            raise LabError("lab down wants either a NAME or --all: give one of them")
        labs.down(args.name)
    elif verb == "list":
        found = labs.listing()
        if args.json:
            print(json.dumps(found, indent=1))
        else:
            show(found)
    else:
        run_on_host(OneHost(labs, args.name, args.hostname), args)


def run_on_host(host: OneHost, args: argparse.Namespace) -> None:
    if args.verb in ("exec", "ssh"):
        command = args.command[1:] if args.command[:1] == ["--"] else args.command
        (host.execute if args.verb == "exec" else host.ssh)(command)
    elif args.verb in ("reboot", "start"):
        (host.reboot if args.verb == "reboot" else host.start)(args.timeout)
    else:
        {"kill": host.kill, "pause": host.pause, "unpause": host.unpause, "cut": host.cut, "join": host.join}[
            args.verb
        ]()


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        run(args, Machine(Progress(args.quiet)))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; `lab down` removes what there is", file=sys.stderr)
        return 130
    return 0
