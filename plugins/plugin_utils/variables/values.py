# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables one by one: which values work."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable
from difflib import get_close_matches
from itertools import pairwise

from ansible_collections.mooncake.pd.plugins.plugin_utils.findings import Finding
from ansible_collections.mooncake.pd.plugins.plugin_utils.numbers import whole
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import EPHEMERAL, MAX_PORT
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.table import (
    ABORT_VARIABLES,
    MISSPELT,
    MOST,
    NOBODY,
    POOL_HASH_SEED,
    READERS,
    VARIABLES,
    Releases,
    Variable,
    abort_variable,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least, value_at

_WITH_RELEASES = ("vllm_ascend", "vllm", "mooncake")

# ValidatePortRange of config.cpp; before, any port would do
_PORTS_VALIDATED_SINCE = "0.3.11"
_CLOSE = 0.93
_FAMILIES = ("VLLM_ASCEND_", "VLLM_MOONCAKE_", "VLLM_NIXL_", "MC_", "ASCEND_", "HCCL_")
# they are read, and look like one of the others
_ALSO_READ = ("VLLM_ASCEND_LLMDD_RPC_IP", "VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_ASCEND_MLA_PA")

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
_OFF = ("", "0", "false", "no", "off", "n", "f", "none", "disable", "disabled")


def check_variable(name: str, value: str, releases: Releases) -> list[Finding]:
    """What is wrong with a variable in these releases."""
    special = _SPECIAL.get(name.lower() if name.lower() in _PROXIES else name)
    if special:
        return special(name, value)
    variable = VARIABLES.get(name)
    if not variable:
        return _check_spelling(name)
    if variable.reader == NOBODY:
        message = f"{name} has no effect: {variable.effect}."
        return [Finding("variable-dead", "warning", message, variable.instead, variable.source)]
    version = releases.get(variable.reader)
    if variable.reader in _WITH_RELEASES and version is None:
        return []
    return (_check_age(variable, version, releases) if version else []) or _check_value(variable, value, releases)


def _check_proxy(name: str, value: str) -> list[Finding]:
    if not value:
        return []
    return [
        Finding(
            "proxy-variable",
            "warning",
            f"{name} sends requests between the hosts of the plan through a proxy, which does not know them: health "
            "checks, metadata and KV requests end with 403 or 503.",
            "leave it out; or name every address of the plan in no_proxy, one by one: not every client knows "
            "networks and patterns there.",
            "Mooncake troubleshooting guide; sglang#9155",
        )
    ]


def _check_vllm_port(name: str, value: str) -> list[Finding]:
    source = "vllm/envs.py@v0.32.0, vllm/utils/network_utils.py@v0.32.0; vllm#50025"
    if whole(value) is None:
        kubernetes = " Kubernetes sets it so for a service named vllm." if "://" in value else ""
        message = f"{name} is {value!r}, which is no number: vLLM ends with an error.{kubernetes}"
        return [Finding("variable-value", "error", message, "leave it out.", source)]
    message = (
        f"{name} makes every process of vLLM look upwards from {value} for ports, so that processes of one host take "
        "each other's, and those that the plan gave away."
    )
    return [Finding("variable-ports", "warning", message, "leave it out.", source)]


def _check_hash_seed(name: str, value: str) -> list[Finding]:
    # object.c and pylifecycle.c of CPython: random, or a number that fits 32 bits
    number = whole(value)
    if number is not None and number < 2**32:
        return []
    what = "lets every process name KV blocks differently, so that a pool finds nothing"
    if value != "random":
        what = "ends every Python process at its start"
    return [
        Finding(
            "variable-value",
            "error",
            f"{name} is {value!r}, which {what}.",
            f"write {POOL_HASH_SEED[1]}, the same on all hosts.",
            "kv_pool.md@182b75ea of vLLM-Ascend; Python documentation",
        )
    ]


def _check_spelling(name: str) -> list[Finding]:
    meant = MISSPELT.get(name)
    if not meant:
        if not name.startswith(_FAMILIES) or name in _ALSO_READ:
            return []
        meant = next(iter(get_close_matches(name, VARIABLES, n=1, cutoff=_CLOSE)), None)
    if not meant:
        return []
    return [
        Finding(
            "variable-unknown-spelling",
            "warning",
            f"{name} is read by nobody.",
            f"did you mean {meant}?",
            VARIABLES[meant].source,
        )
    ]


def _check_age(variable: Variable, version: str, releases: Releases) -> list[Finding]:
    reader = READERS[variable.reader]
    if variable.until and at_least(version, variable.until):
        return [
            Finding(
                "variable-dead",
                "warning",
                f"{variable.name} {variable.gone} since {reader} {variable.until}, {variable.effect}.",
                _way_out(variable, releases) or variable.instead,
                variable.source,
            )
        ]
    if variable.since and not at_least(version, variable.since):
        return [
            Finding(
                "variable-too-old",
                "warning",
                f"{variable.name} is not read before {reader} {variable.since}, and {version} is planned"
                f"{_after(variable)}.",
                _way_out(variable, releases) or f"leave it out, or use {reader} {variable.since} or later.",
                variable.source,
            )
        ]
    return []


def _after(variable: Variable) -> str:
    return f", {variable.effect}" if variable.effect.startswith("so ") else ""


def _way_out(variable: Variable, releases: Releases) -> str:
    """For the time that the plan writes itself."""
    if variable.name not in ABORT_VARIABLES:
        return ""
    return f"set abort_timeout; the plan then writes {abort_variable(releases[variable.reader])}."


def _check_value(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    check = _check_choice if variable.choices else _KINDS.get(variable.kind)
    return check(variable, value, releases) if check else []


def _wrong(variable: Variable, value: str, wanted: str, what: str = "", rule: str = "variable-value") -> list[Finding]:
    reader = READERS[variable.reader]
    consequence = what or f"{reader} refuses or ignores any other value"
    return [
        Finding(rule, "error", f"{variable.name} is {value!r}: {consequence}.", f"write {wanted}.", variable.source)
    ]


def _check_presence(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    if value.strip().lower() not in _OFF:
        return []
    return [
        Finding(
            "variable-presence-only",
            "error",
            f"{variable.name} counts as soon as it is set, whatever its value: {value!r} {variable.effect}.",
            "leave it out; write 1 when you mean it.",
            variable.source,
        )
    ]


def _check_integer(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    low, high = variable.limits or (1, MOST)
    number = whole(value)
    if number is not None and low <= number <= high and number % variable.step == 0:
        return []
    wanted = f"a number from {low} to {high}" if high < MOST else f"a number from {low} on"
    if variable.step > 1:
        wanted += f" that is a multiple of {variable.step}"
    if variable.name == "ASCEND_THREAD_POOL_SIZE" and number == 0:
        return _wrong(variable, value, wanted, "Mooncake starts no worker then, and no transfer ever ends")
    return _wrong(variable, value, wanted)


def _check_port(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    low, high = variable.limits or (1, MAX_PORT)
    number = whole(value)
    if number is not None and low <= number <= high:
        return []
    return _wrong(variable, value, f"a port from {low} to {high}")


def _check_mooncake_port(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    """ValidatePortRange looks at the ends only and falls back to the default range (config.cpp@v0.3.11)."""
    port = whole(value) or 0
    if not at_least(releases["mooncake"], _PORTS_VALIDATED_SINCE):
        return [] if 0 < port <= MAX_PORT else _wrong(variable, value, f"a port from 1 to {MAX_PORT}")
    if 1024 <= port <= MAX_PORT and not EPHEMERAL[0] <= port <= EPHEMERAL[1]:
        return []
    return _wrong(
        variable,
        value,
        f"a port from 1024 to {EPHEMERAL[0] - 1} or from {EPHEMERAL[1] + 1} to {MAX_PORT}",
        "Mooncake takes no such end of a range, warns, and draws from its default ports, which the plan did not expect",
    )


def _check_choice(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    values = value_at(variable.choices, releases.get(variable.reader, "0.0"))
    if value in values:
        return []
    return _wrong(variable, value, f"{', '.join(values[:-1])} or {values[-1]}")


def _check_json(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    try:
        known = json.loads(value)
    except ValueError:
        known = None
    if isinstance(known, dict):
        return []
    return _wrong(
        variable,
        value,
        "an object of JSON, names in double quotes",
        "Mooncake hands on what is no JSON, and the engine for transfers does not start",
        "variable-json",
    )


def _check_buffer_pool(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    if re.fullmatch(r"[0-9]+:[0-9]+", value):
        return []
    return _wrong(variable, value, "the number of buffers and their size in MB, such as 4:8")


def _check_address(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    what = "peers on other hosts cannot reach it"
    wanted = "the address of the host, or leave it to the plan"
    if value.lower() == "localhost":
        return _wrong(variable, value, wanted, what)
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return _wrong(variable, value, wanted, "it is no address")
    return _wrong(variable, value, wanted, what) if address.is_loopback or address.is_unspecified else []


def _check_port_ranges(variable: Variable, value: str, releases: Releases) -> list[Finding]:
    if value == "auto":
        return _auto(variable)
    spans = []
    for part in value.split(","):
        match = re.fullmatch(r" *([0-9]{1,5})(?:-([0-9]{1,5}))? *", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= MAX_PORT:
            return _wrong(variable, value, "ports and ranges such as 60000,60050-60100")
        spans.append((first, last))
    if any(following[0] <= span[1] for span, following in pairwise(sorted(spans))):
        return _wrong(variable, value, "ranges that do not overlap")
    return []


def _auto(variable: Variable) -> list[Finding]:
    if variable.name != "HCCL_NPU_SOCKET_PORT_RANGE":
        return []
    return [
        Finding(
            "npu-port-auto",
            "warning",
            f"{variable.name} is auto: the NPU listens on a random port, but a peer that knows it by a rank table, as "
            "ADXL does, connects to 16666 and times out. With instances that share NPUs it helped all the same.",
            "give every instance NPUs of its own and leave it out; or give the instances ranges that do not overlap.",
            "HIXL FAQ, scenario 5; against it vllm-ascend#4725",
        )
    ]


_SPECIAL: dict[str, Callable[[str, str], list[Finding]]] = {
    **dict.fromkeys(_PROXIES, _check_proxy),
    "VLLM_PORT": _check_vllm_port,
    POOL_HASH_SEED[0]: _check_hash_seed,
}

_KINDS: dict[str, Callable[[Variable, str, Releases], list[Finding]]] = {
    "presence": _check_presence,
    "integer": _check_integer,
    "port": _check_port,
    "mooncake port": _check_mooncake_port,
    "port ranges": _check_port_ranges,
    "json": _check_json,
    "buffer pool": _check_buffer_pool,
    "address": _check_address,
}
