# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import struct
import sys
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import netlink, redirections
from ansible_collections.mooncake.pd.plugins.module_utils.redirections import ToolFailed

NAT = "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -m tcp --dport 8100 -j REDIRECT --to-ports 9\nCOMMIT\n"
IP_VS = """IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  C000020B:7594 rr
  -> 0AF40105:1F90      Masq    1      0          0
  -> 0AF40106:1F90      Masq    1      0          0
UDP  C000020B:0035 rr
  -> 0AF40107:0035      Masq    1      0          0
TCP  0A600001:01BB rr
  -> C0000201:192B      Masq    1      0          0
FWM  00000005 rr
  -> 0AF40108:0035      Masq    1      0          0
TCP  C000020B:1F90 rr persistent 10800
TCP  [2001:0db8:0000:0000:0000:0000:0000:0011]:0050 wlc
  -> [2001:0db8:0000:0000:0000:0000:0000:0099]:1F90      Masq    1      0          0
"""


Given = tuple[set[str], str, tuple[str, ...]]  # tables of nftables, of iptables-legacy, tools that are missing
XT = (
    '{"nftables": [{"rule": {"family": "ip", "table": "nat", "chain": "c", "expr": '
    '[{"xt": {"type": "target", "name": "DNAT"}}]}}]}'
)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host without any rule."""
    (tmp_path / "net").mkdir()
    monkeypatch.setattr(redirections, "local_addresses", lambda: {"192.0.2.11": "bond0", "127.0.0.1": "lo"})
    monkeypatch.setattr(redirections, "nft_tables", set)
    monkeypatch.setattr(redirections, "which", lambda name: f"/usr/sbin/{name}")
    return tmp_path


def no_tool(command: list[str]) -> str:
    raise AssertionError(command)


def answering(**said: str | ToolFailed) -> redirections.Run:
    def run(command: list[str]) -> str:
        answer = said.get(command[0].rpartition("/")[2].replace("-", "_"), "")
        if isinstance(answer, ToolFailed):
            raise answer
        return answer

    return run


def test_virtual_servers_on_own_addresses() -> None:
    found = redirections.ip_vs(IP_VS, {"192.0.2.11", "2001:db8::11"})
    assert [(item.address, item.first, item.to) for item in found] == [
        ("192.0.2.11", 30100, "10.244.1.5:8080"),
        ("192.0.2.11", 8080, ""),
        ("2001:db8::11", 80, "[2001:db8::99]:8080"),
    ]


def test_host_without_rules_needs_no_tool(kernel: Path) -> None:
    found = redirections.read(str(kernel), no_tool)
    assert (found.redirections, found.nodeports, found.unknown) == ([], False, [])


def test_rules_of_iptables_over_nftables(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redirections, "nft_tables", lambda: {"nat"})
    found = redirections.read(str(kernel), answering(iptables_save=NAT, nft='{"nftables": []}'))
    assert [(item.first, item.address) for item in found.redirections] == [(8100, None)]
    found = redirections.read(str(kernel), answering(ip6tables_save=NAT, nft='{"nftables": []}'))
    assert [(item.first, item.address) for item in found.redirections] == [(8100, "::")]
    assert found.unknown == []


def test_rules_of_legacy_iptables_beside_the_others_are_told_once(kernel: Path) -> None:
    (kernel / "net" / "ip_tables_names").write_text("nat\nfilter\n")
    found = redirections.read(str(kernel), answering(iptables_save=NAT, iptables_legacy_save=NAT))
    assert len(found.redirections) == 1


def test_nodeports_by_chain_and_by_ipvs(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel / "net" / "ip_tables_names").write_text("nat\n")
    assert redirections.read(str(kernel), answering(iptables_save="*nat\n:KUBE-NODEPORTS - [0:0]\n")).nodeports
    (kernel / "net" / "ip_tables_names").write_text("")
    (kernel / "net" / "ip_vs").write_text(IP_VS)
    found = redirections.read(str(kernel), no_tool)
    assert (found.nodeports, [item.kubernetes for item in found.redirections]) == (False, [False, False])
    monkeypatch.setattr(redirections, "local_addresses", lambda: {"192.0.2.11": "bond0", "10.96.0.1": "kube-ipvs0"})
    found = redirections.read(str(kernel), no_tool)
    # the cluster address 10.96.0.1 is none that peers use
    assert (found.nodeports, [item.first for item in found.redirections]) == (True, [30100, 8080])
    assert all(item.kubernetes for item in found.redirections)


@pytest.mark.parametrize(
    ("given", "said", "why"),
    [
        (({"nat"}, "", ()), {"iptables_save": ToolFailed("iptables-save hangs")}, "iptables-save hangs"),
        (({"mine"}, "", ("nft",)), {}, "tables of nftables (mine), and there is no nft"),
        (
            ({"nat"}, "", ("nft",)),
            {"iptables_save": "# Table `nat' is incompatible, use 'nft' tool.\n"},
            "and there is no nft",
        ),
        (({"nat"}, "", ("nft", "iptables-save", "ip6tables-save")), {}, "neither iptables-save nor nft"),
        ((set(), "nat\n", ("iptables-save", "iptables-legacy-save")), {}, "there is no iptables-save"),
        (({"mine"}, "", ()), {"nft": "Error: JSON support not compiled-in"}, "What nft printed is not understood"),
        (({"mine"}, "", ()), {"nft": ToolFailed("nft failed", "raw")}, "nft failed"),
        (({"nat"}, "", ("iptables-save", "ip6tables-save")), {"nft": XT}, "and there is no iptables-save"),
    ],
)
def test_what_cannot_be_read_is_told(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, given: Given, said: dict[str, str | ToolFailed], why: str
) -> None:
    tables, legacy, missing = given
    (kernel / "net" / "ip_tables_names").write_text(legacy)
    monkeypatch.setattr(redirections, "nft_tables", lambda: tables)
    monkeypatch.setattr(redirections, "which", lambda name: None if name in missing else f"/usr/sbin/{name}")
    said = {"nft": '{"nftables": []}', **said}
    (failure, *_others) = redirections.read(str(kernel), answering(**said)).unknown
    assert why in failure.why


def test_kernel_that_does_not_answer(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> set[str]:
        raise netlink.Refused(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(redirections, "nft_tables", refuse)
    assert "nftables: Operation not permitted" in redirections.read(str(kernel), no_tool).unknown[0].why
    monkeypatch.setattr(redirections, "local_addresses", refuse)
    assert "addresses of this host" in redirections.read(str(kernel), no_tool).unknown[0].why


def test_kernel_is_not_made_to_load_nftables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = tmp_path / "modules"
    modules.write_text("nf_nat 1 0 - Live 0x0\nnf_tables 1 0 - Live 0x0\n")
    assert redirections._may_have_nft(str(tmp_path))
    modules.write_text("nf_nat 1 0 - Live 0x0\nnf_tables_set 1 0 - Live 0x0\n")
    assert not redirections._may_have_nft(str(tmp_path))
    modules.unlink()  # a kernel without modules: it has it, or does not know the question
    assert redirections._may_have_nft(str(tmp_path))
    monkeypatch.setattr(redirections, "_may_have_nft", lambda: False)
    monkeypatch.setattr(netlink, "dump", None)
    assert redirections.nft_tables() == set()


def test_names_of_the_tables_of_nftables(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = b"\2\0\0\0" + struct.pack("=HH5s3x", 9, 1, b"mine\0")
    monkeypatch.setattr(redirections, "_may_have_nft", lambda: True)
    monkeypatch.setattr(netlink, "dump", lambda *_: iter([(chunk, 0, len(chunk))]))
    assert redirections.nft_tables() == {"mine"}

    def refuse(code: int) -> None:
        def dump(*_: object) -> None:
            raise netlink.Refused(code, "no")

        monkeypatch.setattr(netlink, "dump", dump)

    refuse(errno.EINVAL)  # it has no nftables
    assert redirections.nft_tables() == set()
    refuse(errno.EPERM)
    with pytest.raises(netlink.Refused):
        redirections.nft_tables()


def test_own_addresses_of_this_machine() -> None:
    assert redirections.local_addresses()["127.0.0.1"] == "lo"


def test_tools_that_fail_hang_or_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert redirections.run([sys.executable, "-c", "print('x')"]) == "x\n"
    with pytest.raises(ToolFailed, match="ended with code 3") as failed:
        redirections.run([sys.executable, "-c", "import sys; sys.exit('no' * 0 or 3)"])
    assert failed.value.raw == ""
    with pytest.raises(ToolFailed, match="cannot be started"):
        redirections.run(["/nonexistent/nft"])
    monkeypatch.setattr(redirections, "TIMEOUT", 0.2)
    with pytest.raises(ToolFailed, match=r"gave no answer in 0\.2 s"):
        redirections.run([sys.executable, "-c", "import time; time.sleep(9)"])
