# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where connections to a port of this host go although a process of this host listens on it: NAT rules and ipvs."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Optional

from ansible_collections.mooncake.pd.plugins.module_utils import nat_iptables, nat_nft, netlink
from ansible_collections.mooncake.pd.plugins.module_utils.bounded_run import Runner
from ansible_collections.mooncake.pd.plugins.module_utils.nat import Redirection

TIMEOUT = 10.0  # of each tool; iptables-save takes about a second for 50,000 rules
_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin")
_KUBE_IPVS = "kube-ipvs0"
# include/uapi/linux/netfilter/nfnetlink.h: NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE, NFTA_TABLE_NAME
_NETLINK_NETFILTER, _GET_TABLE, _TABLE_NAME = 12, 10 << 8 | 1, 1
# include/uapi/linux/rtnetlink.h, if_addr.h
_NETLINK_ROUTE, _GET_ADDRESS, _IFA_ADDRESS, _IFA_LOCAL = 0, 22, 1, 2
_OF_IPTABLES = {"filter", "nat", "mangle", "raw", "security"}
_VIRTUAL = re.compile(r"TCP\s+(?:([0-9A-Fa-f]{8})|\[([0-9A-Fa-f:.]+)\]):([0-9A-Fa-f]{4})\s")
_REAL = re.compile(r"\s+->\s+(?:([0-9A-Fa-f]{8})|\[([0-9A-Fa-f:.]+)\]):([0-9A-Fa-f]{4})\s")

Run = Callable[[list[str]], str]


class ToolFailed(Exception):
    def __init__(self, why: str, raw: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.raw = raw


@dataclass
class Found:
    redirections: list[Redirection] = field(default_factory=list)
    nodeports: bool = False
    unknown: list[ToolFailed] = field(default_factory=list)


def run(command: list[str]) -> str:
    (answer,) = Runner(TIMEOUT, most=sys.maxsize).run([command])
    if answer.failure:
        raise ToolFailed(f"{os.path.basename(command[0])} {answer.failure}.", answer.err.strip())
    return answer.out


def which(name: str) -> Optional[str]:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_FOLDERS]))


def local_addresses() -> dict[str, str]:
    """The addresses of this host and the interface of each; an OSError when the kernel does not answer."""
    found: dict[str, str] = {}
    names = dict(socket.if_nameindex())
    for chunk, begin, end in netlink.dump(_NETLINK_ROUTE, _GET_ADDRESS, bytes(8)):
        given = netlink.attributes(chunk, begin + 8, end)
        raw = given.get(_IFA_LOCAL) or given.get(_IFA_ADDRESS)
        if raw and len(raw) in (4, 16):
            index = int.from_bytes(chunk[begin + 4 : begin + 8], sys.byteorder)
            found[str(ipaddress.ip_address(raw))] = names.get(index, "")
    return found


def nft_tables() -> set[str]:
    """Names of the tables of nftables; iptables-nft makes some as well. An OSError when it may not be asked."""
    found: set[str] = set()
    if not _may_have_nft():  # asking would load the module
        return found
    try:
        for chunk, begin, end in netlink.dump(_NETLINK_NETFILTER, _GET_TABLE, bytes(4)):
            name = netlink.attributes(chunk, begin + 4, end).get(_TABLE_NAME)
            if name:
                found.add(name.rstrip(b"\0").decode("utf-8", "replace"))
    except netlink.Refused as error:
        if error.errno == errno.EPERM:
            raise
    return found


def _may_have_nft(proc: str = "/proc") -> bool:
    """A kernel without modules has it built in, or has it not."""
    modules = os.path.join(proc, "modules")
    builtin = f"/lib/modules/{os.uname().release}/modules.builtin"
    try:
        with open(modules, encoding="ascii", errors="replace") as loaded:
            if any(line.startswith("nf_tables ") for line in loaded):
                return True
        with open(builtin, encoding="ascii", errors="replace") as names:
            return any(line.rstrip().endswith("/nf_tables.ko") for line in names)
    except OSError:
        return not os.path.exists(modules)


def legacy_tables(proc: str = "/proc") -> set[str]:
    """Tables of iptables-legacy that are in use, of IPv4 and IPv6."""
    found: set[str] = set()
    for name in ("ip_tables_names", "ip6_tables_names"):
        try:
            with open(os.path.join(proc, "net", name), encoding="ascii", errors="replace") as names:
                found.update(names.read().split())
        except OSError:
            continue
    return found


def ip_vs(text: str, local: Collection[str]) -> list[Redirection]:
    """/proc/net/ip_vs: virtual TCP services on these addresses, each with its first real server."""
    found: list[Redirection] = []
    here = None
    for line in text.splitlines():
        virtual, real = _VIRTUAL.match(line), _REAL.match(line)
        if virtual:
            address, port = _endpoint(virtual)
            here = Redirection("ipvs", "", address, port, port, "") if address in local else None
            if here:
                found.append(here)
        elif real and here and not found[-1].to:
            address, port = _endpoint(real)
            found[-1] = replace(here, to=f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
        elif not real:
            here = None
    return found


def _endpoint(match: re.Match[str]) -> tuple[str, int]:
    v4, v6, port = match.groups()
    address = ipaddress.ip_address(bytes.fromhex(v4)) if v4 else ipaddress.ip_address(v6)
    return str(address), int(port, 16)


def read(proc: str = "/proc", run_tool: Run = run) -> Found:
    found = Found()
    try:
        addresses = local_addresses()
    except OSError as error:
        found.unknown.append(ToolFailed(f"The kernel does not tell the addresses of this host: {error.strerror}."))
        return found
    # of kube-ipvs0 are the cluster addresses, which nobody takes for this host
    kube_ipvs = _KUBE_IPVS in addresses.values()
    local = {address for address, name in addresses.items() if name != _KUBE_IPVS}
    _read_ip_vs(found, proc, local, kube_ipvs)
    legacy = legacy_tables(proc)
    try:
        tables = nft_tables()
    except OSError as error:
        tables = set()
        found.unknown.append(ToolFailed(f"The kernel does not tell its nftables: {error.strerror}."))
    incompatible = _read_iptables(found, local, legacy, tables, run_tool)
    _read_nft(found, local, tables, incompatible, run_tool)
    return found


def _read_ip_vs(found: Found, proc: str, local: Collection[str], kubernetes: bool) -> None:
    try:
        with open(os.path.join(proc, "net", "ip_vs"), encoding="ascii", errors="replace") as table:
            text = table.read()
    except FileNotFoundError:
        return
    except OSError as error:
        found.unknown.append(ToolFailed(f"{proc}/net/ip_vs cannot be read: {error.strerror}."))
        return
    for item in ip_vs(text, local):
        # what kube-proxy made; keepalived and others use no such interface
        found.redirections.append(replace(item, path=("KUBE-IPVS",)) if kubernetes else item)
    found.nodeports = found.nodeports or (kubernetes and bool(_VIRTUAL.search(text)))


def _read_iptables(
    found: Found, local: Collection[str], legacy: Collection[str], tables: Collection[str], run_tool: Run
) -> bool:
    """True when a table is there that iptables cannot read and nft can."""
    incompatible = False
    names = []
    if "nat" in tables or "nat" in legacy:
        names = ["iptables-save", "ip6tables-save"]
    if "nat" in legacy and which("iptables-legacy-save"):
        names += ["iptables-legacy-save", "ip6tables-legacy-save"]
    for name in names:
        tool = which(name)
        if tool is None:
            if name == "iptables-save" and "nat" in legacy:
                found.unknown.append(ToolFailed("The kernel has NAT rules of iptables, and there is no iptables-save."))
            continue
        try:
            text = run_tool([tool])
        except ToolFailed as failure:
            found.unknown.append(failure)
            continue
        known = {(item.address, item.first, item.last, item.to) for item in found.redirections}
        made = nat_iptables.redirections(text, local)
        if name.startswith("ip6"):
            made = [replace(item, address=item.address or "::") for item in made]
        found.redirections += [item for item in made if (item.address, item.first, item.last, item.to) not in known]
        found.nodeports = found.nodeports or "KUBE-NODEPORTS" in nat_iptables.chains(text)
        incompatible = incompatible or "is incompatible, use 'nft' tool" in text
    return incompatible


def _read_nft(found: Found, local: Collection[str], tables: Collection[str], incompatible: bool, run_tool: Run) -> None:
    own = sorted(set(tables) - _OF_IPTABLES)
    tool = which("nft")
    if tool is None:
        if own or incompatible:
            named = ", ".join(own) or "nat"
            found.unknown.append(ToolFailed(f"The kernel has tables of nftables ({named}), and there is no nft."))
        elif "nat" in tables and which("iptables-save") is None:
            found.unknown.append(ToolFailed("The kernel has a table nat, and there is neither iptables-save nor nft."))
        return
    if not tables:
        return
    try:
        text = run_tool([tool, "-j", "list", "ruleset"])
        found.redirections += nat_nft.redirections(text, local)
        found.nodeports = found.nodeports or nat_nft.is_kube_proxy(text)
        foreign = nat_nft.foreign_targets(text) & {"DNAT", "REDIRECT"}
    except ToolFailed as failure:
        found.unknown.append(failure)
    except ValueError as error:
        found.unknown.append(ToolFailed(f"What nft printed is not understood: {error}.", text))
    else:
        if foreign and which("iptables-save") is None:
            found.unknown.append(ToolFailed("There are NAT rules of iptables, and there is no iptables-save."))
