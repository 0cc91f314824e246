# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/etc/hccn.conf: Mooncake and HCCL take the addresses of the NPUs from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import npu as view
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some

_SOURCE = "https://github.com/vllm-project/vllm-ascend/issues/7711; FAQ of HIXL (cann/hixl, issues 70 and 113)"
_CASES = ("C-014",)
_WHY = (
    "The service starts and answers, but KV does not arrive: wrong or repeated text, or 'device_ip is not set"
    " correctly' in the plog."
)
_FILL = "write address_N, netmask_N and so on of every NPU as `hccn_tool -i N -ip -g` tells them."


def _conf(host: Host) -> Mapping[str, Any]:
    return (host.fact("npu.hccn_conf") or {}) if host.ascend else {}


@rule("hccn-conf-missing", family="npu", about="/etc/hccn.conf is there", why=_WHY, source=_SOURCE, cases=_CASES)
def hccn_conf_missing(host: Host) -> Iterator[Found]:
    if _conf(host).get("type") == "missing":
        yield Found(
            what="there is no /etc/hccn.conf",
            fix=f"{_FILL[:-1]}; in a container mount it (-v /etc/hccn.conf:/etc/hccn.conf).",
        )


@rule("hccn-conf-directory", family="npu", about="/etc/hccn.conf is a file", why=_WHY, source=_SOURCE, cases=_CASES)
def hccn_conf_directory(host: Host) -> Iterator[Found]:
    if _conf(host).get("type") == "directory":
        yield Found(
            what="/etc/hccn.conf is a directory",
            evidence="docker makes one where the file of a mount is missing",
            fix=f"remove the directory (rmdir /etc/hccn.conf), on the machine below the container too, and {_FILL}",
        )


@rule("hccn-conf-empty", family="npu", about="/etc/hccn.conf names NPUs", why=_WHY, source=_SOURCE, cases=_CASES)
def hccn_conf_empty(host: Host) -> Iterator[Found]:
    conf = _conf(host)
    if conf.get("type") == "file" and not conf["addresses"]:
        yield Found(
            what="/etc/hccn.conf names no address",
            evidence=some((f"line {line['line']}: {line['text']}" for line in conf["bad_lines"]), 3),
            fix=_FILL,
        )


@rule(
    "hccn-conf-partial",
    family="npu",
    about="/etc/hccn.conf names the address of every NPU of the plan",
    why=_WHY,
    source=_SOURCE,
    cases=_CASES,
)
def hccn_conf_partial(host: Host) -> Iterator[Found]:
    known = _conf(host).get("addresses")
    if not known:
        return
    missing = [number for number in host.devices if str(number) not in known]
    if missing:
        yield Found(
            what=f"/etc/hccn.conf has no address of {view.told(missing)}",
            evidence=f"it has those of {view.told(map(int, known))}",
            fix=_FILL,
        )


@rule(
    "hccn-conf-empty-value",
    family="npu",
    severity="warning",
    about="no key of /etc/hccn.conf is empty",
    why="Readers of the file take the empty value, or end there.",
    source=_SOURCE,
    cases=_CASES,
)
def hccn_conf_empty_value(host: Host) -> Iterator[Found]:
    empty = _conf(host).get("empty")
    if empty:
        yield Found(
            what=f"/etc/hccn.conf has keys without a value: {some(empty, 8)}",
            fix="give them a value, or remove the lines.",
            severity="error" if any(key in {f"address_{n}" for n in host.devices} for key in empty) else None,
        )


@rule(
    "hccn-conf-crlf",
    family="npu",
    about="/etc/hccn.conf has the line ends of Unix",
    why="The carriage return becomes a part of every address.",
    source=_SOURCE,
    cases=_CASES,
)
def hccn_conf_crlf(host: Host) -> Iterator[Found]:
    if _conf(host).get("crlf"):
        yield Found(
            what="/etc/hccn.conf has the line ends of Windows (CR LF)",
            fix="remove them: sed -i 's/\\r$//' /etc/hccn.conf.",
        )


@rule(
    "hccn-conf-repeated",
    family="npu",
    severity="warning",
    about="no key stands twice in /etc/hccn.conf",
    why="Readers take the first or the last of them, and not all the same one.",
    source=_SOURCE,
    cases=_CASES,
)
def hccn_conf_repeated(host: Host) -> Iterator[Found]:
    repeated = _conf(host).get("repeated")
    if repeated:
        yield Found(
            what=f"/etc/hccn.conf has keys more than once: {some(repeated, 8)}", fix="leave one line of each key."
        )


@rule(
    "hccn-conf-bad-line",
    family="npu",
    severity="warning",
    about="every line of /etc/hccn.conf is understood",
    why="What one reader forgives another does not, and the NPU of that line has no address then.",
    source=_SOURCE,
    cases=_CASES,
)
def hccn_conf_bad_line(host: Host) -> Iterator[Found]:
    lines = _conf(host).get("bad_lines")
    if lines and _conf(host)["addresses"]:
        yield Found(
            what=f"line {some((line['line'] for line in lines), 8)} of /etc/hccn.conf is not understood",
            evidence=some((repr(line["text"]) for line in lines), 3),
            fix="write lines as address_0=192.0.2.10, without blanks.",
        )


@rule(
    "hccn-conf-differs",
    family="npu",
    about="/etc/hccn.conf has the addresses that the NPUs have",
    why="Peers are told an address at which no NPU answers.",
    source=f"{_SOURCE}; https://github.com/vllm-project/vllm-ascend/issues/4866",
    cases=_CASES,
)
def hccn_conf_differs(host: Host) -> Iterator[Found]:
    conf = _conf(host)
    for key, fact, name in (("addresses", "address", "address"), ("netmasks", "netmask", "netmask")):
        real = view.with_fact(view.ports(host), fact, bool)
        told = {int(number): value for number, value in (conf.get(key) or {}).items()}
        other = [number for number in sorted(real) if number in told and told[number] != real[number]]
        if other:
            yield Found(
                what=f"{name} of {view.told(other)} in /etc/hccn.conf is not the one in use",
                evidence=some(f"chip {n}: {told[n]} in the file, {real[n]} by hccn_tool" for n in other),
                fix="make them one: `hccn_tool -i N -ip -s address <address> netmask <mask>` sets that of the NPU and"
                " writes the file, or correct the file.",
            )


@rule(
    "hccn-conf-tls-differs",
    family="npu",
    severity="warning",
    about="/etc/hccn.conf has the TLS switches as they are",
    why="The driver sets them from the file when the host boots, and then the host talks to no other any more.",
    source="https://github.com/vllm-project/vllm-ascend/issues/1955",
)
def hccn_conf_tls_differs(host: Host) -> Iterator[Found]:
    told = {int(number): value for number, value in (_conf(host).get("tls") or {}).items()}
    real = view.with_fact(view.ports(host), "tls", lambda value: True)
    other = [number for number in sorted(real) if number in told and told[number] != str(real[number])]
    if other:
        yield Found(
            what=f"TLS of {view.told(other)} in /etc/hccn.conf is not as it is set",
            evidence=some(f"chip {n}: tls_enable_{n}={told[n]}, switch {real[n]}" for n in other),
            fix="set tls_enable_N in /etc/hccn.conf to what `hccn_tool -i N -tls -g` tells.",
        )
