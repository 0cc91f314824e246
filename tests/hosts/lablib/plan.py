# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lab is to be: hosts, addresses, command lines. Pure: no commands, no files, no clock."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .machine import LabError

LABEL_LAB = "mooncake-pd.lab"
LABEL_HOST = "mooncake-pd.host"
LABEL_DIGEST = "mooncake-pd.digest"
LABEL_CACHE = "mooncake-pd.cache"
METRIC = 4096
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
BEGIN, END = "# mooncake-pd lab begin", "# mooncake-pd lab end"

# What no lab may ask of the machine: it has to do on a laptop as well as in a container of a CI.
MOST_FILES = 20000
MOST_PROCESSES = 30000


@dataclass(frozen=True)
class Host:
    name: str
    address: str


@dataclass(frozen=True)
class Lab:
    name: str
    hosts: tuple[Host, ...]
    image: str
    cache: str
    mounts: tuple[str, ...] = ()
    shm: str = "1g"
    limits: tuple[str, ...] = field(default=())

    @property
    def network(self) -> str:
        return network_name(self.name)

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        return subnet_of(self.hosts)

    def container(self, host: str) -> str:
        return container_name(self.name, host)


def network_name(lab: str) -> str:
    return f"mooncake-pd-{lab}"


def container_name(lab: str, host: str) -> str:
    return f"mooncake-pd-{lab}-{host}"


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise LabError(f"lab name {name!r}: only a-z, 0-9 and -, at most 32 characters; choose another one")
    return name


# -- hosts and addresses
def given_hosts(pairs: Iterable[str]) -> tuple[Host, ...]:
    """From name=address as written on the command line."""
    hosts = []
    for pair in pairs:
        name, equals, address = pair.partition("=")
        if not equals:
            raise LabError(f"--host {pair}: has no address; write --host NAME=ADDRESS")
        hosts.append(Host(name, address))
    return tuple(hosts)


def inventory_hosts(listing: dict[str, Any], group: str = "pd") -> tuple[Host, ...]:
    """From `ansible-inventory --list`: the hosts of the group, or all of them when it has no such group."""
    hostvars: dict[str, Any] = listing.get("_meta", {}).get("hostvars", {})

    def members(name: str, seen: tuple[str, ...] = ()) -> list[str]:
        entry = listing.get(name, {})
        found = list(entry.get("hosts", []))
        for child in entry.get("children", []):
            if child not in seen:
                found += members(child, (*seen, name))
        return found

    names = list(dict.fromkeys(members(group if group in listing else "all"))) or list(hostvars)
    hosts, without = [], []
    for name in names:
        values = hostvars.get(name, {})
        pd_host = values.get("pd_host")
        address = (pd_host.get("address") if isinstance(pd_host, dict) else None) or values.get("ansible_host")
        if isinstance(address, dict):  # how ansible-inventory writes text that must not be templated
            address = address.get("__ansible_unsafe")
        if address:
            hosts.append(Host(name, str(address)))
        elif values.get("ansible_connection") != "local":
            without.append(name)
    if without:
        raise LabError(
            f"no address for {', '.join(without)}: neither pd_host.address nor ansible_host is set;"
            " set one in the inventory"
        )
    if not hosts:
        raise LabError("the inventory has no hosts with an address; name hosts in it, or give --host NAME=ADDRESS")
    return tuple(hosts)


def subnet_of(hosts: Sequence[Host]) -> ipaddress.IPv4Network:
    """The one /24 all hosts are in; what is wrong with the addresses is told all at once."""
    problems = []
    addresses: dict[str, str] = {}
    nets: dict[ipaddress.IPv4Network, str] = {}
    names = set()
    for host in hosts:
        if not HOST.fullmatch(host.name):
            problems.append(f"{host.name!r} is no host name")
        if host.name in names:
            problems.append(f"{host.name} is named twice")
        names.add(host.name)
        try:
            address = ipaddress.IPv4Address(host.address)
        except ValueError:
            problems.append(f"{host.name} has {host.address!r}, which is no IPv4 address")
            continue
        if int(address) & 255 in (0, 1, 255):
            problems.append(f"{host.name} has {address}: .0, .1 (the bridge) and .255 cannot be a host's")
        if str(address) in addresses:
            problems.append(f"{host.name} and {addresses[str(address)]} both have {address}")
        addresses[str(address)] = host.name
        net = ipaddress.IPv4Network(f"{address}/24", strict=False)
        nets.setdefault(net, host.name)
        if not address.is_private or address.is_loopback or address.is_link_local:
            problems.append(f"{host.name} has {address}, which is no private address")
    if len(nets) > 1:
        problems.append(
            "hosts lie in several /24 networks: " + ", ".join(f"{net} ({name})" for net, name in nets.items())
        )
    if not hosts:
        problems.append("there are no hosts")
    if problems:
        raise LabError("the hosts cannot be made: " + "; ".join(problems) + "; mend the addresses")
    return next(iter(nets))


# -- the machine's network
def is_blackhole(route: dict[str, Any]) -> bool:
    return route.get("type") in ("blackhole", "unreachable", "prohibit")


def own_blackhole(routes: Iterable[dict[str, Any]], subnet: ipaddress.IPv4Network) -> bool:
    return any(is_blackhole(r) and r.get("dst") == str(subnet) and r.get("metric") == METRIC for r in routes)


def collisions(
    subnet: ipaddress.IPv4Network,
    routes: Iterable[dict[str, Any]],
    addresses: Iterable[dict[str, Any]],
    own_interfaces: Iterable[str],
) -> list[str]:
    """Who else on this machine uses addresses of the subnet (`ip -json route`, `ip -json address`)."""
    own = set(own_interfaces)
    found = []
    for link in addresses:
        for info in link.get("addr_info", []):
            if info.get("family") != "inet" or link.get("ifname") in own:
                continue
            if ipaddress.IPv4Interface(f"{info['local']}/{info['prefixlen']}").network.overlaps(subnet):
                found.append(f"address {info['local']}/{info['prefixlen']} on {link['ifname']}")
    named = {item.rsplit(" on ", 1)[1] for item in found}
    for route in routes:
        target = str(route.get("dst", "default"))
        if target == "default" or is_blackhole(route) or route.get("dev") in own | named:
            continue
        if ipaddress.IPv4Network(target, strict=False).overlaps(subnet):
            found.append(f"route {target} via {route.get('gateway') or route.get('dev') or '?'}")
    return found


def lowest(*limits: int) -> int:
    """The lowest limit; -1 is none."""
    bounded = [limit for limit in limits if limit >= 0]
    return min(bounded) if bounded else -1


def limit_args(nofile: int, nproc: int, memlock: int, pid_max: int) -> tuple[str, ...]:
    """Hard limits this machine can give: a host may have less than asked for, never more than its machine."""
    files = lowest(MOST_FILES, nofile)
    processes = lowest(MOST_PROCESSES, nproc, pid_max)
    return (f"nofile={files}:{files}", f"nproc={processes}:{processes}", f"memlock={memlock}:{memlock}")


def network_args(lab: Lab) -> list[str]:
    return [
        "network",
        "create",
        "--internal",
        "--disable-dns",
        "--subnet",
        str(lab.subnet),
        "--gateway",
        str(lab.subnet.network_address + 1),
        "--label",
        f"{LABEL_LAB}={lab.name}",
        "--label",
        f"{LABEL_CACHE}={lab.cache}",
        lab.network,
    ]


def hardware_address(address: str) -> str:
    """The same at every start: who remembers a host that was killed reaches it at once when it is back."""
    return ":".join(f"{part:02x}" for part in (0x02, 0x4C, *map(int, address.split("."))))


def host_args(lab: Lab, host: Host) -> list[str]:
    """What makes a host. Changing any of it means another host."""
    args = [
        "create",
        "--name",
        lab.container(host.name),
        "--hostname",
        host.name,
        "--systemd=always",
        "--pull=never",
        # A control group namespace keeps the hosts' systemd out of the machine's groups; with the restart
        # policy a host comes back when it is rebooted from inside, and stays down when it is killed or stopped.
        "--cgroupns=private",
        "--restart=always",
        "--network",
        lab.network,
        "--ip",
        host.address,
        "--mac-address",
        hardware_address(host.address),
        "--no-hosts",
        "--dns=none",
        "--shm-size",
        lab.shm,
    ]
    for limit in lab.limits:
        args += ["--ulimit", limit]
    for mount in lab.mounts:
        args += ["--volume", f"{mount}:{mount}:ro"]
    args += [
        "--label",
        f"{LABEL_LAB}={lab.name}",
        "--label",
        f"{LABEL_HOST}={host.name}",
        "--label",
        f"{LABEL_CACHE}={lab.cache}",
    ]
    args += ["--label", f"{LABEL_DIGEST}={digest([*args, lab.image])}", lab.image]
    return args


def digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def label_of(args: Sequence[str], label: str) -> str:
    prefix = label + "="
    return next(word[len(prefix) :] for word in args if word.startswith(prefix))


# -- files
def hosts_file(text: str, hosts: Iterable[Host]) -> str:
    """/etc/hosts with the lab's block renewed; other lines stay."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        inside = inside or line == BEGIN
        if not inside:
            kept.append(line)
        if line == END:
            inside = False
    if not any(re.match(r"127\.0\.0\.1\s+.*\blocalhost\b", line) for line in kept):
        kept.insert(0, "127.0.0.1 localhost")
    block = [BEGIN, *(f"{host.address} {host.name}" for host in hosts), END]
    return "\n".join([*kept, *block]) + "\n"


def known_hosts(keys: dict[str, str], hosts: Iterable[Host]) -> str:
    lines = []
    for host in hosts:
        kind, key = keys[host.name].split()[:2]
        lines.append(f"{host.name},{host.address} {kind} {key}")
    return "\n".join(lines) + "\n"


def connection_vars(folder: str, key: str) -> dict[str, str]:
    """Ansible's way in, as extra variables (-e @connection.yml)."""
    values = {
        "ansible_user": "ansible",
        "ansible_ssh_private_key_file": key,
        "ansible_ssh_common_args": f"-o UserKnownHostsFile='{folder}/known_hosts' -o StrictHostKeyChecking=yes"
        " -o IdentitiesOnly=yes",
    }
    # Named after the host, so that the tool can end the standing connection of a host it reboots or removes.
    # A socket's path has an end: 108 characters, and ssh wants some for a name of its own.
    if len(folder) + len("/cp/255.255.255.255-ansible") < 85:
        values["ansible_control_path_dir"] = f"{folder}/cp"
        values["ansible_control_path"] = "%(directory)s/%%h-%%r"
    return values


def yaml_text(values: dict[str, Any]) -> str:
    """JSON scalars are YAML."""
    return "---\n" + "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items())


def inventory_text(hosts: Iterable[Host]) -> str:
    lines = ["---", "all:", "  hosts:"]
    for host in hosts:
        lines += [f"    {host.name}:", f"      ansible_host: {host.address}"]
    return "\n".join(lines) + "\n"


def ssh_config(folder: str, key: str, hosts: Iterable[Host]) -> str:
    blocks = [f"# ssh -F {folder}/ssh_config HOST"]
    for host in hosts:
        blocks.append(f"Host {host.name} {host.address}\n  HostName {host.address}")
    blocks.append(
        f'Host *\n  User ansible\n  IdentityFile "{key}"\n  IdentitiesOnly yes\n'
        f'  UserKnownHostsFile "{folder}/known_hosts"\n'
        "  StrictHostKeyChecking yes\n  BatchMode yes\n  ConnectTimeout 5"
    )
    return "\n".join(blocks) + "\n"


# -- what was found before the first lab
def chain_names(saved: str) -> dict[str, list[str]]:
    """Chains by table, from `iptables-save`."""
    tables: dict[str, list[str]] = {}
    table = ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
            tables.setdefault(table, [])
        elif line.startswith(":") and table:
            tables[table].append(line[1:].split()[0])
    return tables


def firewall_undo(before: dict[str, list[str]], saved: str) -> list[list[str]]:
    """iptables arguments that take away netavark's chains and the rules that lead to them."""
    now = chain_names(saved)
    undo: list[list[str]] = []
    table = ""
    rules: dict[str, list[list[str]]] = {}
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith("-A ") and table:
            rules.setdefault(table, []).append(rule_words(line))
    for table, chains in now.items():
        ours = [
            chain for chain in chains if chain.startswith(("NETAVARK", "CNI-")) and chain not in before.get(table, [])
        ]
        for _add, chain, *match in rules.get(table, []):
            if chain not in ours and "-j" in match and match[match.index("-j") + 1] in ours:
                undo.append(["-t", table, "-D", chain, *match])
        undo += [["-t", table, "-F", chain] for chain in ours]
        undo += [["-t", table, "-X", chain] for chain in ours]
    return undo


def rule_words(rule: str) -> list[str]:
    """The words of a saved rule; quotes hold a comment together."""
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', rule)]


def sysctl_undo(before: dict[str, str], now: dict[str, str]) -> list[tuple[str, str]]:
    """Keys to write back. ip_forward comes first: the kernel changes the others when it is written."""
    first = "net/ipv4/ip_forward"
    if before.get(first) == now.get(first):
        return []
    keys = [first, *(key for key in sorted(before) if key != first and key in now)]
    return [(key, before[key]) for key in keys if key in before]
