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
import shutil
import tarfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import plan
from .found import Found
from .image import Image
from .machine import LabError, Machine, read, tail
from .plan import LABEL_CACHE, LABEL_DIGEST, LABEL_HOST, LABEL_LAB, Host, Lab

TOOLS = ("podman", "runc", "ip", "ssh", "ssh-keygen")
STOP_SECONDS = "5"


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
                f"lab {name} is kept in {cache}, not in {self.machine.cache};"
                f" set MOONCAKE_PD_CACHE={cache}, or take another name"
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
        self, name: str, hosts: Sequence[Host], *, mounts: Sequence[str], shm: str, suite: str | None, timeout: float
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
            f"lab {name}: {len(hosts)} hosts up, {'ready' if changed else 'nothing changed'};"
            f" ansible -e @{folder}/connection.yml"
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
        routes = self.machine.ip_json("route", "show", "table", "main")
        clash = plan.collisions(
            subnet, routes, self.machine.ip_json("address"), [entry["network_interface"] for entry in networks.values()]
        )
        if clash:
            raise LabError(
                f"{subnet} is in use on this machine ({'; '.join(clash)}): the hosts would cut that off;"
                " take other addresses"
            )

        if state["found"] is None:
            state["found"] = Found(machine).look()
        entry = state["labs"].setdefault(lab.name, {})
        changed = False
        old_net = networks.get(lab.network)
        if old_net and not any(s["subnet"] == str(subnet) for s in old_net.get("subnets", [])):
            self.say(f"lab {lab.name} moves to {subnet}")
            self._remove(lab.name, state)
            entry = state["labs"].setdefault(lab.name, {})
            old_net, routes = None, self.machine.ip_json("route", "show", "table", "main")
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
            self.end_connections(lab.name, surplus + stale)
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
        state, before = self.true_state(there) if there else ("", "")
        # One that was created and never started may lack its keys: an `up` was broken off.
        if there and state not in ("running", "paused", "exited"):
            self.end_connections(lab.name, [host.name])
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
            self.wait_boot(lab.name, host.name, timeout, fresh=True)
            return [f"booted in {time.monotonic() - begin:.1f} s"]
        if state == "paused":
            pod("unpause", container)
            did.append("was paused, goes on")
        elif state != "running":
            self.end_connections(lab.name, [host.name])
            pod("start", container, why=f"starting {host.name}")
            did.append(f"was {state}, started")
        if lab.network not in (there.get("Networks") or []):
            mac = plan.hardware_address(host.address)
            pod("network", "connect", "--ip", host.address, "--mac-address", mac, lab.network, container)
            did.append("was cut off, joined")
        self.wait_boot(lab.name, host.name, timeout)
        before = before or pod("exec", container, "cat", "/etc/hosts").stdout
        after = plan.hosts_file(before, lab.hosts)
        if before != after:
            pod("exec", "--interactive", container, "sh", "-c", "cat > /etc/hosts", feed=after.encode())
            did.append("/etc/hosts renewed")
        return did

    def true_state(self, container: dict[str, Any]) -> tuple[str, str]:
        """State, and /etc/hosts of one that runs.

        podman goes on calling a host running whose processes were killed together with its monitor.
        """
        state = str(container["State"])
        if state != "running":
            return state, ""
        said = self.machine.pod("exec", container["Id"], "cat", "/etc/hosts", check=False)
        return (state, said.stdout) if said.returncode == 0 else ("dead", "")

    def wait_boot(self, lab: str, host: str, timeout: float, fresh: bool = False) -> None:
        container = plan.container_name(lab, host)
        deadline = time.monotonic() + timeout
        tries, starts = 0, None
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
                starts = info["RestartCount"] if starts is None else starts
                # A host that dies at once is started over and over by the restart policy.
                if info["RestartCount"] > starts + 2:
                    logs = self.machine.pod("logs", "--tail", "5", container, check=False)
                    raise LabError(
                        f"{host} does not start: {tail(logs.stdout + logs.stderr, 2) or 'it says nothing'};"
                        f" `lab down {lab}` cleans up"
                    )
            if time.monotonic() > deadline:
                raise LabError(
                    f"{host} has not booted in {timeout:.0f} s ({state or tail(said.stderr)});"
                    f" raise --timeout, or look with `lab exec {lab} {host} -- systemctl list-jobs`"
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
                    f"{host.name} runs but ssh does not let in: {tail(done.stderr)};"
                    f" try `ssh -v -F {config} {host.name}`"
                )
            time.sleep(0.2)

    def _make_key(self) -> None:
        if not self.key.is_file():
            self.machine.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "mooncake-pd-lab", "-f", str(self.key)]
            )
        if not os.access(self.key, os.R_OK):
            raise LabError(
                f"{self.key} belongs to another user; run as that user,"
                " or set MOONCAKE_PD_CACHE to a folder of your own"
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
        write(folder / "ssh_config", plan.ssh_config(str(folder), str(self.key), lab.hosts))
        write(folder / "connection.yml", plan.yaml_text(plan.connection_vars(str(folder), str(self.key))))
        write(folder / "inventory.yml", plan.inventory_text(lab.hosts))

    def end_connections(self, lab: str, hosts: Iterable[str]) -> None:
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
            if not state["labs"] and state["found"] and Found(self.machine).restore(state["found"], self.networks()):
                state["found"] = None
                self.save(state)

    def _remove(self, lab: str, state: dict[str, Any]) -> None:
        machine = self.machine
        containers = self.containers(lab)
        if containers:
            self.end_connections(lab, [c["Labels"][LABEL_HOST] for c in containers])
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
            if plan.own_blackhole(self.machine.ip_json("route", "show", "table", "main"), subnet):
                machine.sudo("ip", "route", "del", "blackhole", str(subnet), "metric", str(plan.METRIC))
        shutil.rmtree(self.folder(lab), ignore_errors=True)
        state["labs"].pop(lab, None)
        self.save(state)

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
                    "joined": plan.network_name(name) in (container.get("Networks") or []),
                }
            )
        return sorted(labs.values(), key=lambda lab: str(lab["name"]))


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
