# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes, changes and removes labs on this machine, and leaves the machine as it was found."""

from __future__ import annotations

import contextlib
import glob
import io
import ipaddress
import json
import os
import shlex
import shutil
import tarfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import plan
from .image import Image
from .machine import LabError, Machine, tail
from .plan import LABEL_CACHE, LABEL_DIGEST, LABEL_HOST, LABEL_LAB, Host, Lab

TOOLS = ("podman", "runc", "ip", "ssh", "ssh-keygen")
STOP_SECONDS = "5"
FOLDERS = ("/run/netns", "/run/runc")


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8").strip()


class Labs:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.say = machine.say
        self.state_file = machine.labs / "state.json"

    # -- what there is
    def state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads(self.state_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"found": None, "labs": {}}
        except ValueError:
            raise LabError(f"{self.state_file} cannot be read as JSON; remove it, then `lab down --all`") from None
        if state.get("boot_id") != read("/proc/sys/kernel/random/boot_id"):
            state["found"] = None  # the machine was started anew: nothing of that time is left
        return state

    def save(self, state: dict[str, Any]) -> None:
        state["boot_id"] = read("/proc/sys/kernel/random/boot_id")
        self.machine.write(self.state_file, json.dumps(state, indent=1, sort_keys=True) + "\n")

    def containers(self, lab: str | None = None) -> list[dict[str, Any]]:
        label = LABEL_LAB if lab is None else f"{LABEL_LAB}={lab}"
        return self.machine.pod_json("ps", "--all", "--filter", f"label={label}", "--format", "json")

    def networks(self, lab: str | None = None) -> dict[str, dict[str, Any]]:
        """Our networks by name."""
        label = LABEL_LAB if lab is None else f"{LABEL_LAB}={lab}"
        names = self.machine.pod("network", "ls", "--filter", f"label={label}", "--format", "{{.Name}}").stdout.split()
        return {
            entry["name"]: entry for entry in (self.machine.pod_json("network", "inspect", *names) if names else [])
        }

    def ip_json(self, *args: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.machine.run(["ip", "-json", "-4", *args]).stdout or "[]")
        return found

    def folder(self, lab: str) -> Path:
        return self.machine.labs / lab

    @property
    def key(self) -> Path:
        return self.machine.labs / "key"

    def foreign(self) -> dict[str, str]:
        """Labs that another cache folder keeps, perhaps another user's: only their own tool touches them."""
        labels = [c["Labels"] for c in self.containers()] + [entry["labels"] for entry in self.networks().values()]
        own = str(self.machine.cache)
        return {each[LABEL_LAB]: each[LABEL_CACHE] for each in labels if each.get(LABEL_CACHE, own) != own}

    def refuse_foreign(self, name: str) -> None:
        cache = self.foreign().get(name)
        if cache:
            raise LabError(
                f"lab {name} is kept in {cache}, not in {self.machine.cache}; set MOONCAKE_PD_CACHE={cache}, or take another name"
            )

    # -- up
    def limits(self) -> tuple[str, ...]:
        """The hard limits of the one who starts the hosts, root."""
        text = read("/proc/self/limits") if self.machine.root else self.machine.sudo("cat", "/proc/self/limits").stdout
        hard = {}
        for line in text.splitlines()[1:]:
            words = line[26:].split()
            hard[line[:26].strip()] = -1 if words[1] == "unlimited" else int(words[1])
        return plan.limit_args(
            hard["Max open files"],
            hard["Max processes"],
            hard["Max locked memory"],
            int(read("/proc/sys/kernel/pid_max")),
        )

    def up(
        self, name: str, hosts: Sequence[Host], mounts: Sequence[str], shm: str, suite: str | None, timeout: float
    ) -> None:
        plan.check_name(name)
        subnet = plan.subnet_of(hosts)
        missing = [tool for tool in TOOLS if not self.machine.which(tool)]
        if missing:
            raise LabError(
                f"{', '.join(missing)} missing on this machine: the hosts need them; `lab packages` installs them"
            )
        self.machine.open_cache()
        image = Image(self.machine, suite)
        image.build()
        lab = Lab(name, tuple(hosts), image.name, str(self.machine.cache), tuple(mounts), shm, self.limits())
        with self.machine.lock("labs", f"up {name}"):
            changed = self._up(lab, subnet, timeout)
        folder = self.folder(name)
        self.say(
            f"lab {name}: {len(hosts)} hosts up, {'ready' if changed else 'nothing changed'}; ansible -e @{folder}/connection.yml"
        )

    def _up(self, lab: Lab, subnet: ipaddress.IPv4Network, timeout: float) -> bool:
        machine = self.machine
        self.refuse_foreign(lab.name)
        state = self.state()
        networks = self.networks()
        taken = [
            entry["labels"][LABEL_LAB]
            for entry in networks.values()
            if entry["name"] != lab.network and any(s["subnet"] == str(subnet) for s in entry.get("subnets", []))
        ]
        if taken:
            raise LabError(f"lab {taken[0]} uses {subnet} already; take other addresses, or `lab down {taken[0]}`")
        routes = self.ip_json("route", "show", "table", "main")
        clash = plan.collisions(
            subnet, routes, self.ip_json("address"), [entry["network_interface"] for entry in networks.values()]
        )
        if clash:
            raise LabError(
                f"{subnet} is in use on this machine ({'; '.join(clash)}): the hosts would cut that off; take other addresses"
            )

        if state["found"] is None:
            state["found"] = self.look()
        entry = state["labs"].setdefault(lab.name, {})
        changed = False
        old_net = networks.get(lab.network)
        if old_net and not any(s["subnet"] == str(subnet) for s in old_net.get("subnets", [])):
            self.say(f"lab {lab.name} moves to {subnet}")
            self._remove(lab.name, state)
            entry = state["labs"].setdefault(lab.name, {})
            old_net, routes = None, self.ip_json("route", "show", "table", "main")
        there = plan.own_blackhole(routes, subnet)
        entry.update({"subnet": str(subnet), "route": bool(entry.get("route")) or not there})
        self.save(state)
        if not there:
            # While the bridge is down, nothing for the hosts may leave the machine: another machine could answer.
            machine.sudo("ip", "route", "add", "blackhole", str(subnet), "metric", str(plan.METRIC))
            changed = True
        if old_net is None:
            machine.pod(*plan.network_args(lab), why=f"making network {lab.network}")
            self.say(f"network {lab.network} {subnet}, no way out")
            changed = True

        self._make_key()
        existing = {c["Labels"][LABEL_HOST]: c for c in self.containers(lab.name)}
        surplus = [name for name in existing if name not in {host.name for host in lab.hosts}]
        stale = []
        for host in lab.hosts:
            if host.name in existing and existing[host.name]["Labels"].get(LABEL_DIGEST) != plan.label_of(
                plan.host_args(lab, host), LABEL_DIGEST
            ):
                stale.append(host.name)
        if surplus or stale:
            self._end_connections(lab.name, surplus + stale)
            machine.pod("rm", "--force", "--time", STOP_SECONDS, *(lab.container(name) for name in surplus + stale))
            for name in surplus + stale:
                self.say(
                    f"{name}: removed, "
                    + (
                        "no longer named"
                        if name in surplus
                        else "it is to be another one (image, address, mounts or limits)"
                    )
                )
                del existing[name]
            changed = True

        notes = self._each(lab.hosts, lambda host: self._bring_up(lab, host, existing.get(host.name), timeout))
        for host, did in zip(lab.hosts, notes, strict=False):
            for note in did:
                self.say(f"{host.name} {host.address}: {note}")
        self._write_files(lab)
        self._each(lab.hosts, lambda host: self._wait_ssh(lab, host, timeout))
        return changed or any(notes)

    def _each(self, hosts: Sequence[Host], work: Callable[[Host], Any]) -> list[Any]:
        """All hosts at once. Every problem is told, not only the first."""

        def safe(host: Host) -> Any:
            try:
                return work(host)
            except LabError as error:
                return error

        with ThreadPoolExecutor(max_workers=16) as pool:
            results = list(pool.map(safe, hosts))
        errors = [str(result) for result in results if isinstance(result, LabError)]
        if errors:
            raise LabError("; ".join(errors))
        return results

    def _bring_up(self, lab: Lab, host: Host, there: dict[str, Any] | None, timeout: float) -> list[str]:
        pod, container = self.machine.pod, lab.container(host.name)
        did: list[str] = []
        begin = time.monotonic()
        state = self._true_state(there) if there else ""
        if there and state not in ("running", "paused", "exited", "created"):
            self._end_connections(lab.name, [host.name])
            pod("rm", "--force", "--time", "1", container)
            self.say(f"{host.name}: was {state}, is made anew")
            there = None
        if there is None:
            key = self._host_key(lab.name, host.name)
            pod(*plan.host_args(lab, host), why=f"making {host.name}")
            pod(
                "cp",
                "-",
                f"{container}:/",
                why=f"laying keys into {host.name}",
                feed=tar_of(
                    {
                        "etc/hosts": (plan.hosts_file("", lab.hosts), 0o644),
                        "etc/ssh/ssh_host_ed25519_key": (key.read_text(encoding="utf-8"), 0o600),
                        "etc/ssh/ssh_host_ed25519_key.pub": (read(f"{key}.pub") + "\n", 0o644),
                        "etc/ssh/lab_authorized_keys": (read(f"{self.key}.pub") + "\n", 0o644),
                    }
                ),
            )
            pod("start", container, why=f"starting {host.name}")
            self._wait_boot(lab.name, host.name, timeout, fresh=True)
            return [f"booted in {time.monotonic() - begin:.1f} s"]
        if state == "paused":
            pod("unpause", container)
            did.append("was paused, goes on")
        elif state != "running":
            self._end_connections(lab.name, [host.name])
            pod("start", container, why=f"starting {host.name}")
            did.append(f"was {state}, started")
        if lab.network not in (there.get("Networks") or []):
            pod("network", "connect", "--ip", host.address, lab.network, container)
            did.append("was cut off, joined")
        self._wait_boot(lab.name, host.name, timeout)
        before = pod("exec", container, "cat", "/etc/hosts").stdout
        after = plan.hosts_file(before, lab.hosts)
        if before != after:
            pod("exec", "--interactive", container, "sh", "-c", "cat > /etc/hosts", feed=after.encode())
            did.append("/etc/hosts renewed")
        return did

    def _true_state(self, container: dict[str, Any]) -> str:
        """podman goes on calling a host running whose processes were killed together with its monitor."""
        state = str(container["State"])
        if state != "running" or self.machine.pod("exec", container["Id"], "true", check=False).returncode == 0:
            return state
        return "dead"

    def _wait_boot(self, lab: str, host: str, timeout: float, fresh: bool = False) -> None:
        container = plan.container_name(lab, host)
        deadline = time.monotonic() + timeout
        tries = 0
        while True:
            said = self.machine.pod("exec", container, "systemctl", "is-system-running", check=False)
            state = said.stdout.strip()
            if state == "running":
                return
            if state in ("degraded", "maintenance"):
                failed = self.machine.pod(
                    "exec", container, "systemctl", "--failed", "--plain", "--no-legend", check=False
                ).stdout
                units = ", ".join(line.split()[0] for line in failed.splitlines() if line.split()) or "unknown units"
                if not fresh:  # what runs on a host that is in use may fail: that is the user's affair
                    self.say(f"{host}: {state}, failed: {units}")
                    return
                raise LabError(
                    f"{host} booted {state}, failed: {units}; look with `lab exec {lab} {host} -- journalctl -b -p err`"
                )
            tries += 1
            if tries % 10 == 0:
                info = self.machine.pod_json("inspect", container)[0]
                # A host that dies at once is started over and over by the restart policy.
                if info["RestartCount"] > 2 or info["State"]["Status"] == "exited":
                    logs = self.machine.pod("logs", "--tail", "5", container, check=False)
                    raise LabError(
                        f"{host} does not start: {tail(logs.stdout + logs.stderr, 2) or 'it says nothing'}; `lab down {lab}` cleans up"
                    )
            if time.monotonic() > deadline:
                raise LabError(
                    f"{host} has not booted in {timeout:.0f} s ({state or tail(said.stderr)}); raise --timeout, or look with `lab exec {lab} {host} -- systemctl list-jobs`"
                )
            time.sleep(0.1)

    def _wait_ssh(self, lab: Lab, host: Host, timeout: float) -> None:
        deadline = time.monotonic() + min(timeout, 60)
        config = str(self.folder(lab.name) / "ssh_config")
        while True:
            done = self.machine.run(
                ["ssh", "-F", config, "-o", "ControlMaster=no", "-o", "ControlPath=none", host.name, "sudo -n true"],
                check=False,
                timeout=60,
            )
            if done.returncode == 0:
                return
            if time.monotonic() > deadline:
                raise LabError(
                    f"{host.name} runs but ssh does not let in: {tail(done.stderr)}; try `ssh -v -F {config} {host.name}`"
                )
            time.sleep(0.2)

    def _make_key(self) -> None:
        if not self.key.is_file():
            self.machine.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "mooncake-pd-lab", "-f", str(self.key)]
            )
        if not os.access(self.key, os.R_OK):
            raise LabError(
                f"{self.key} belongs to another user; run as that user, or set MOONCAKE_PD_CACHE to a folder of your own"
            )

    def _host_key(self, lab: str, host: str) -> Path:
        """A host keeps its key when it is made anew: it is the same host to those who know it."""
        key = self.folder(lab) / "host_keys" / host
        if not key.is_file():
            key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.machine.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", host, "-f", str(key)])
        return key

    def _write_files(self, lab: Lab) -> None:
        folder, write = self.folder(lab.name), self.machine.write
        (folder / "cp").mkdir(mode=0o700, parents=True, exist_ok=True)
        keys = {host.name: read(f"{self._host_key(lab.name, host.name)}.pub") for host in lab.hosts}
        write(folder / "known_hosts", plan.known_hosts(keys, lab.hosts))
        write(folder / "ssh_config", plan.ssh_config(lab.name, str(folder), str(self.key), lab.hosts))
        write(folder / "connection.yml", plan.yaml_text(plan.connection_vars(str(folder), str(self.key))))
        write(folder / "inventory.yml", plan.inventory_text(lab.hosts))

    def _end_connections(self, lab: str, hosts: Iterable[str]) -> None:
        """Standing ssh connections to a host that goes would hang, or be taken for the new host's."""
        try:
            text = (self.folder(lab) / "inventory.yml").read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        lines = text.splitlines()
        for host in hosts:
            if f"    {host}:" not in lines:
                continue
            address = lines[lines.index(f"    {host}:") + 1].split()[-1]
            for socket in glob.glob(f"{glob.escape(str(self.folder(lab) / 'cp'))}/{address}-*"):
                with contextlib.suppress(LabError):
                    self.machine.run(
                        ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", address], check=False, timeout=5
                    )
                Path(socket).unlink(missing_ok=True)

    # -- down
    def down(self, name: str | None) -> None:
        self.machine.open_cache()
        with self.machine.lock("labs", f"down {name or '--all'}"):
            state = self.state()
            known = (
                set(state["labs"])
                | {c["Labels"][LABEL_LAB] for c in self.containers()}
                | {entry["labels"][LABEL_LAB] for entry in self.networks().values()}
            )
            if name is None:
                wanted = sorted(known - set(self.foreign()))
            else:
                self.refuse_foreign(name)
                wanted = [name]
            for lab in wanted:
                if lab in known:
                    self._remove(lab, state)
                    self.say(f"lab {lab} is gone")
                else:
                    self.say(f"lab {lab}: there is none, nothing changed")
            if not state["labs"]:
                self.restore(state)

    def _remove(self, lab: str, state: dict[str, Any]) -> None:
        machine = self.machine
        containers = self.containers(lab)
        if containers:
            self._end_connections(lab, [c["Labels"][LABEL_HOST] for c in containers])
            paused = [c["Id"] for c in containers if c["State"] == "paused"]
            if paused:
                machine.pod("unpause", *paused, check=False)
            machine.pod("rm", "--force", "--time", STOP_SECONDS, *(c["Id"] for c in containers))
            self.say(f"removed {', '.join(sorted(c['Labels'][LABEL_HOST] for c in containers))}")
        for network, entry in self.networks(lab).items():
            machine.pod("network", "rm", network)
            state["labs"].setdefault(lab, {"subnet": entry["subnets"][0]["subnet"], "route": True})
        entry = state["labs"].get(lab, {})
        if entry.get("route"):
            subnet = ipaddress.IPv4Network(entry["subnet"])
            if plan.own_blackhole(self.ip_json("route", "show", "table", "main"), subnet):
                machine.sudo("ip", "route", "del", "blackhole", str(subnet), "metric", str(plan.METRIC))
        shutil.rmtree(self.folder(lab), ignore_errors=True)
        state["labs"].pop(lab, None)
        self.save(state)

    # -- the machine before the first lab
    def look(self) -> dict[str, Any]:
        """What podman and its network leave changed."""
        return {
            "sysctl": self._sysctl(),
            "chains": {tool: plan.chain_names(self._saved(tool)) for tool in ("iptables", "ip6tables")},
            "bridges": self._bridges(),
            "groups": self._groups(),
            "netns": mounted("/run/netns"),
            "folders": [folder for folder in FOLDERS if os.path.isdir(folder)],
        }

    def _sysctl(self) -> dict[str, str]:
        keys = ["net/ipv4/ip_forward", "net/ipv4/conf/all/accept_redirects"]
        keys += [
            path[len("/proc/sys/") :]
            for path in glob.glob("/proc/sys/net/ipv4/conf/*/forwarding")
            if "/all/" not in path
        ]
        found = {}
        for key in keys:
            try:
                found[key] = read(f"/proc/sys/{key}")
            except OSError:
                continue
        return found

    def _saved(self, tool: str) -> str:
        if not self.machine.which(f"{tool}-save"):
            return ""
        return self.machine.sudo(f"{tool}-save", check=False).stdout

    def _bridges(self) -> list[str]:
        return [link["ifname"] for link in self.ip_json("link", "show", "type", "bridge") if link.get("ifname")]

    def _groups(self) -> list[str]:
        return glob.glob("/sys/fs/cgroup/libpod_parent") + glob.glob("/sys/fs/cgroup/*/libpod_parent")

    def restore(self, state: dict[str, Any]) -> None:
        """After the last lab: what changed since the first goes back, as long as nobody else lives on it."""
        found, machine = state["found"], self.machine
        if found is None:
            return
        others = set(machine.pod("ps", "--quiet").stdout.split()) | set(self.networks())
        bridges = sorted(set(self._bridges()) - set(found["bridges"]))
        if others or bridges:
            reason = "other containers run, or other labs" if others else f"bridge {', '.join(bridges)} came meanwhile"
            self.say(f"forwarding and firewall stay as they are: {reason}; the next `lab down` looks again")
            return
        undone = []
        sysctls = plan.sysctl_undo(found["sysctl"], self._sysctl())
        if sysctls:
            words = [word for pair in sysctls for word in pair]
            script = 'while [ $# -gt 1 ]; do [ ! -e "/proc/sys/$1" ] || echo "$2" > "/proc/sys/$1"; shift 2; done'
            machine.sudo("sh", "-c", script, "sh", *words, why="writing net.ipv4 keys back")
            undone.append(f"net.ipv4.ip_forward={found['sysctl']['net/ipv4/ip_forward']}")
        for tool, before in found["chains"].items():
            calls = plan.firewall_undo(before, self._saved(tool))
            for call in calls:
                machine.sudo(tool, "--wait", *call, why="taking netavark's chains away")
            if calls:
                undone.append(f"{tool}: netavark's chains")
        for group in sorted(set(self._groups()) - set(found["groups"])):
            machine.sudo("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";", check=False)
        if mounted("/run/netns") and not found.get("netns") and not os.listdir("/run/netns"):
            machine.sudo("umount", "/run/netns", check=False)
        for folder in FOLDERS:
            if folder not in found.get("folders", FOLDERS) and os.path.isdir(folder):
                machine.sudo("rmdir", folder, check=False)  # goes only when nothing is in it
        state["found"] = None
        self.save(state)
        self.say("no lab left; the machine is as it was found" + (f" ({', '.join(undone)})" if undone else ""))

    # -- single hosts
    def host(self, lab: str, host: str) -> dict[str, Any]:
        found = {c["Labels"][LABEL_HOST]: c for c in self.containers(lab)}
        if not found:
            raise LabError(f"there is no lab {lab}; `lab list` shows what there is")
        if host not in found:
            raise LabError(f"lab {lab} has no host {host}; it has {', '.join(sorted(found))}")
        return found[host]

    def address(self, container: dict[str, Any]) -> str:
        words = self.machine.pod_json("inspect", container["Id"])[0]["Config"].get("CreateCommand", [])
        return words[words.index("--ip") + 1] if "--ip" in words else ""

    def execute(self, lab: str, host: str, command: list[str], tty: bool) -> None:
        container = self.host(lab, host)
        words = self.machine.podman(
            "exec", "--interactive", *(["--tty"] if tty else []), container["Id"], *(command or ["bash", "-l"])
        )
        os.environ["PATH"] = self.machine.path
        os.execvp(words[0], words)

    def ssh(self, lab: str, host: str, command: list[str]) -> None:
        self.host(lab, host)
        words = ["ssh", "-F", str(self.folder(lab) / "ssh_config"), host]
        if command:
            words.append(" ".join(shlex.quote(word) for word in command))
        os.execvp(words[0], words)

    def kill(self, lab: str, host: str) -> None:
        container = self.host(lab, host)
        if container["State"] not in ("running", "paused"):
            self.say(f"{host}: is {container['State']} already, nothing changed")
            return
        if container["State"] == "paused":
            self.machine.pod("unpause", container["Id"])
        self.machine.pod("kill", container["Id"])
        self.machine.pod("wait", container["Id"], check=False, timeout=30)
        self.say(f"{host}: killed; `lab start {lab} {host}` starts it")

    def start(self, lab: str, host: str, timeout: float) -> None:
        container = self.host(lab, host)
        state = self._true_state(container)
        if state == "paused":
            raise LabError(f"{host} is paused, not down; `lab unpause {lab} {host}`")
        if state not in ("exited", "created", "running"):
            raise LabError(f"{host} is {state} and cannot be started again; `lab up {lab}` makes it anew")
        if state == "running":
            self.say(f"{host}: runs already, nothing changed")
            return
        self._end_connections(lab, [host])
        self.machine.pod("start", container["Id"], why=f"starting {host}")
        self._wait_boot(lab, host, timeout)
        self.say(f"{host}: started")

    def reboot(self, lab: str, host: str, timeout: float) -> None:
        container = self.host(lab, host)
        if container["State"] != "running":
            raise LabError(
                f"{host} is {container['State']} and cannot reboot; `lab start {lab} {host}` or `lab unpause {lab} {host}`"
            )
        pod = self.machine.pod
        before = pod("inspect", "--format", "{{.State.StartedAt}}", container["Id"]).stdout
        self._end_connections(lab, [host])
        pod("exec", container["Id"], "systemctl", "reboot", check=False)
        deadline = time.monotonic() + timeout
        while True:
            info = self.machine.pod_json("inspect", container["Id"])[0]
            if info["State"]["Status"] == "running" and not same_time(info["State"]["StartedAt"], before):
                break
            if time.monotonic() > deadline:
                raise LabError(
                    f"{host} has not gone down in {timeout:.0f} s; look with `lab exec {lab} {host} -- systemctl list-jobs`"
                )
            time.sleep(0.1)
        self._wait_boot(lab, host, timeout)
        self.say(f"{host}: rebooted")

    def pause(self, lab: str, host: str, paused: bool) -> None:
        container = self.host(lab, host)
        if (container["State"] == "paused") == paused:
            self.say(f"{host}: is {container['State']} already, nothing changed")
            return
        self.machine.pod("pause" if paused else "unpause", container["Id"])
        self.say(f"{host}: {'stands still' if paused else 'goes on'}")

    def cut(self, lab: str, host: str, cut: bool) -> None:
        container = self.host(lab, host)
        network = f"mooncake-pd-{lab}"
        if (network not in (container.get("Networks") or [])) == cut:
            self.say(f"{host}: is {'cut off' if cut else 'joined'} already, nothing changed")
            return
        if cut:
            self.machine.pod("network", "disconnect", network, container["Id"])
            self.say(f"{host}: cut off")
        else:
            address = self.address(container)
            self.machine.pod("network", "connect", "--ip", address, network, container["Id"])
            self.say(f"{host}: joined again, {address}")

    def listing(self) -> list[dict[str, Any]]:
        state = self.state()
        labs: dict[str, dict[str, Any]] = {
            name: {"name": name, "subnet": entry.get("subnet", ""), "hosts": []}
            for name, entry in state["labs"].items()
        }
        for entry in self.networks().values():
            name = entry["labels"][LABEL_LAB]
            labs.setdefault(name, {"name": name, "subnet": entry["subnets"][0]["subnet"], "hosts": []})
        containers = self.containers()
        details = {
            info["Id"]: info
            for info in (self.machine.pod_json("inspect", *(c["Id"] for c in containers)) if containers else [])
        }
        for container in containers:
            name = container["Labels"][LABEL_LAB]
            lab = labs.setdefault(name, {"name": name, "subnet": "", "hosts": []})
            words = details.get(container["Id"], {}).get("Config", {}).get("CreateCommand", [])
            lab["hosts"].append(
                {
                    "name": container["Labels"][LABEL_HOST],
                    "address": words[words.index("--ip") + 1] if "--ip" in words else "",
                    "state": container["State"],
                    "joined": f"mooncake-pd-{name}" in (container.get("Networks") or []),
                }
            )
        return sorted(labs.values(), key=lambda lab: str(lab["name"]))


def mounted(path: str) -> bool:
    """Also when it is a bind of the same file system, which os.path.ismount does not see."""
    return any(line.split()[4] == path for line in read("/proc/self/mountinfo").splitlines())


def same_time(one: str, other: str) -> bool:
    """podman writes a moment in two ways: 2026-11-29T19:27:57.9Z and 2026-11-29 19:27:57.9 +0000 UTC."""
    return one.replace("T", " ")[:23] == other.strip().replace("T", " ")[:23]


def tar_of(files: dict[str, tuple[str, int]]) -> bytes:
    """Root's files, as a tar for `podman cp`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, (text, mode) in files.items():
            info = tarfile.TarInfo(name)
            data = text.encode()
            info.size, info.mode, info.mtime = len(data), mode, int(time.time())
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
