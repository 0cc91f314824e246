# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is put into the hosts, how it is taken away again, and what preflight has to say of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Found = set[tuple[str, str | None]]  # rule and host


@dataclass(frozen=True)
class Fault:
    host: str
    found: Found
    put: str = ""  # shell
    take: str = ""
    twin: dict[str, Any] = field(default_factory=dict)  # faults of the twin's tools


def service(name: str, python: str) -> tuple[str, str]:
    """A program that somebody else runs, and the end of it."""
    return (
        f"systemd-run --quiet --unit={name} python3 -c '{python}; import time; print(1, flush=True); time.sleep(3600)'"
        f" && sleep 0.5 && systemctl is-active {name}",
        f"systemctl stop {name}",
    )


def socket(host: str, name: str, found: Found, python: str) -> Fault:
    return Fault(host, found, *service(name, f"import socket; s = socket.socket(); {python}"))


SYSCTL = "sysctl -q -w {}"

# ---- the host, its network and its ports
HOST = {
    "foreign listener on one port of the kv group": socket(
        "npu1", "dashboard", {("port-taken", "npu1")}, 's.bind(("10.90.80.11", 22002)); s.listen()'
    ),
    "socket that is bound and does not listen": socket(
        "npu1", "sleeper", {("port-bound", "npu1")}, 's.bind(("10.90.80.11", 22005))'
    ),
    "connection of a client from a planned port": socket(
        "npu2",
        "client",
        {("port-source-of-client", "npu2")},
        's.bind(("10.90.80.12", 8200)); s.connect(("10.90.80.11", 22))',
    ),
    "connection that has ended and waits": Fault(
        "npu3",
        {("port-time-wait", "npu3")},
        'python3 -c \'import socket; s = socket.socket(); s.bind(("10.90.80.13", 8200));'
        ' s.connect(("10.90.80.11", 22)); s.shutdown(socket.SHUT_WR); list(iter(lambda: s.recv(999), b""))\'',
    ),
    "container that publishes a port by NAT": Fault(
        "npu1",
        {("port-published", "npu1")},
        "iptables -t nat -N DOCKER && iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER"
        " && iptables -t nat -A DOCKER -p tcp --dport 8104 -j DNAT --to-destination 172.17.0.2:80",
        "iptables -t nat -F && iptables -t nat -X",
    ),
    "rule that sends a port elsewhere": Fault(
        "npu3",
        {("port-redirected", "npu3")},
        "iptables -t nat -A PREROUTING -p tcp --dport 8204 -j REDIRECT --to-ports 9999",
        "iptables -t nat -F",
    ),
    "source ports from a range that the plan uses": Fault(
        "npu2",
        {("port-unreserved", "npu2"), ("ephemeral-widened", "npu2")},
        SYSCTL.format('net.ipv4.ip_local_port_range="15500 60999"'),
        SYSCTL.format('net.ipv4.ip_local_port_range="32768 60999"'),
    ),
    "memlock of 64 KB in a drop-in for the units": Fault(
        "npu3",
        {("limits-memlock", "npu3"), ("limits-nofile", "npu3")},
        "mkdir -p /etc/systemd/system/mooncake-pd-.service.d"
        " && printf '[Service]\\nLimitMEMLOCK=64K\\nLimitNOFILE=2048\\n'"
        " > /etc/systemd/system/mooncake-pd-.service.d/limits.conf && systemctl daemon-reload",
        "rm -r /etc/systemd/system/mooncake-pd-.service.d && systemctl daemon-reload",
    ),
    "proxy in the environment of all services": Fault(
        "npu2",
        {("proxy", "npu2")},
        "mkdir -p /etc/systemd/system/service.d && printf '[Service]\\nEnvironment=http_proxy=http://192.0.2.9:3128\\n'"
        " > /etc/systemd/system/service.d/proxy.conf && systemctl daemon-reload",
        "rm -r /etc/systemd/system/service.d && systemctl daemon-reload",
    ),
    "hugepages that are asked for and absent": Fault(
        "npu1",
        {("hugepages-given", "npu1")},
        "echo vm.nr_hugepages=512 > /etc/sysctl.d/90-hugepages.conf",
        "rm /etc/sysctl.d/90-hugepages.conf",
    ),
    "/dev/shm nearly full": Fault(
        "npu2", {("shm-full", "npu2")}, "fallocate -l 950M /dev/shm/left.over", "rm /dev/shm/left.over"
    ),
    "own name at 127.0.1.1": Fault(
        "npu2",
        {("name-loopback", "npu2")},
        "cp /etc/hosts /etc/hosts.before && printf '127.0.0.1 localhost\\n127.0.1.1 npu2\\n' > /etc/hosts",
        "cat /etc/hosts.before > /etc/hosts && rm /etc/hosts.before",
    ),
    "leftover of an engine": Fault(
        "npu3",
        {("engine-beside", "npu3")},
        "systemd-run --quiet --unit=leftover bash -c 'exec -a VLLM::EngineCore sleep 3600' && sleep 0.5",
        "systemctl stop leftover",
    ),
    "masked unit": Fault(
        "npu2",
        {("unit-masked", "npu2")},
        "systemctl mask --quiet mooncake-pd-d1-0.service",
        "systemctl unmask --quiet mooncake-pd-d1-0.service",
    ),
    "MTU of one host": Fault(
        "npu3", {("mtu-differs", "npu3")}, "ip link set eth0 mtu 1400", "ip link set eth0 mtu 1500"
    ),
    "no route to a peer": Fault(
        "npu3",
        # answers to the peer find no way either
        {("peer-route", "npu3"), ("peer-silent", "npu1")},
        "ip route add unreachable 10.90.80.11/32",
        "ip route del unreachable 10.90.80.11/32",
    ),
    "firewall between two hosts": Fault(
        "npu1",
        {("peer-filtered", "npu2")},
        "iptables -A INPUT -p tcp -s 10.90.80.12 --dport 22000 -j DROP",
        "iptables -F",
    ),
    "few connections may wait": Fault(
        "npu1",
        {("somaxconn", "npu1")},
        SYSCTL.format("net.core.somaxconn=128"),
        SYSCTL.format("net.core.somaxconn=4096"),
    ),
    "no room for logs": Fault(
        "npu1",
        {("disk-full", "npu1")},
        "mkdir -p /var/log/mooncake-pd && mount -t tmpfs -o size=10m small /var/log/mooncake-pd",
        "umount /var/log/mooncake-pd && rmdir /var/log/mooncake-pd",
    ),
    "name of another host": Fault("npu3", {("name-twice", None)}, "hostname npu2", "hostname npu3"),
}
# ---- the NPUs and their network
NPU = {
    "link of NPU 5 down": Fault(
        "npu1",
        # told once, though nothing else works there either
        {("npu-link-down", "npu1"), ("npu-ping-failed", "npu1")},
        twin={"link": {"5": "DOWN"}},
    ),
    "NPU that is not well": Fault("npu1", {("npu-health", "npu1")}, twin={"health": {"3": "Alarm"}}),
    "foreign process on a planned NPU": Fault(
        "npu2",
        {("npu-foreign-process", "npu2")},
        twin={"processes": [{"chip": 2, "pid": 4711, "name": "python3", "memory": 40960}]},
    ),
    "hccn.conf with 7 of 8 addresses": Fault(
        "npu2",
        {("hccn-conf-partial", "npu2")},
        "cp -a /etc/hccn.conf /etc/hccn.conf.before && sed -i '/_7=/d' /etc/hccn.conf",
        "mv /etc/hccn.conf.before /etc/hccn.conf",
    ),
    "TLS switch of one host": Fault(
        "npu3",
        {("npu-tls-differs", "npu3"), ("hccn-conf-tls-differs", "npu3")},
        twin={"tls": {str(chip): 1 for chip in range(8)}},
    ),
    "address of another NPU": Fault(
        "npu3",
        {("npu-address-twice", "npu1"), ("npu-address-twice", "npu3"), ("hccn-conf-differs", "npu3")},
        twin={"ip": {"1": "198.18.0.11"}},
    ),
    "device node missing": Fault(
        "npu3", {("npu-nodes-missing", "npu3")}, "rm /dev/davinci3", "touch /dev/davinci3 && chmod 666 /dev/davinci3"
    ),
    "another driver": Fault(
        "npu3",
        {("npu-driver-differs", "npu3")},
        "echo Version=24.1.0 > /usr/local/Ascend/driver/version.info",
        "echo Version=25.5.0 > /usr/local/Ascend/driver/version.info",
    ),
    "no CANN": Fault(
        "npu2",
        {("npu-cann-missing", "npu2")},
        "mv /usr/local/Ascend/ascend-toolkit /usr/local/Ascend/nnal /root/",
        "mv /root/ascend-toolkit /root/nnal /usr/local/Ascend/",
    ),
}
