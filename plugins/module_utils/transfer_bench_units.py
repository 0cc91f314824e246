# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Both ends of a measurement run as transient systemd units, which end by themselves whatever happens to Ansible."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.mooncake.pd.plugins.module_utils import perftest, rdma_sysfs, sockets, systemd, transfer_bench

PREFIX = "mooncake-pd-baseline"
BENCH = "bench"
NAMES = ("tcp", "rdma", *perftest.TOOLS, BENCH)
# written by systemd itself, so that neither the journal nor the user matters; /run is empty after a crash
LOGS = "/run"
# a service's PATH may lack these
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

ARGUMENTS: Dict[str, Any] = {
    "path": {"type": "path"},
    "address": {"type": "str"},
    "devices": {"type": "list", "elements": "str", "default": []},
    "ports": {"type": "list", "elements": "int", "default": [18500, 18563]},
    "claims": {"type": "list", "elements": "dict", "default": []},
    "user": {"type": "str", "default": "nobody"},
    "environment": {"type": "dict", "default": {}},
}


def unit(name: str, prefix: str = PREFIX) -> str:
    return f"{prefix}-{name}.service"


def log(name: str, prefix: str = PREFIX) -> str:
    return os.path.join(LOGS, f"{prefix}-{name}.log")


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def forget(run_command: Callable[..., Any], names: Sequence[str]) -> None:
    """Stop them, whatever state they are in; a unit that is not there is no failure."""
    for verb in ("stop", "reset-failed"):
        run_command(["systemctl", verb, "--", *names])


def begin(run_command: Callable[..., Any], argv: Sequence[str]) -> str:
    """Start one; the reason when it cannot be started."""
    code, out, err = run_command(argv)
    return "" if code == 0 else f"systemd-run failed: {(err or out).strip()}"


def there(states: Mapping[str, systemd.Unit]) -> List[str]:
    return [name for name, state in states.items() if state.running or state.LoadState == "loaded"]


def end(run_command: Callable[..., Any], names: Sequence[str], check_mode: bool) -> Dict[str, systemd.Unit]:
    """Stop those that are there; how all of them were before."""
    before = systemd.show(run_command, names)
    found = there(before)
    if found and not check_mode:
        forget(run_command, found)
        left = there(systemd.show(run_command, names))
        if left:
            raise systemd.SystemdError(f"{', '.join(left)} cannot be stopped: see `systemctl status`")
    return before


def words(
    name: str,
    command: Sequence[str],
    params: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    seconds: int,
    wait: bool,
    prefix: str = PREFIX,
    properties: Optional[Mapping[str, str]] = None,
) -> List[str]:
    """systemd-run for a unit that lives no longer than that."""
    own = {
        "User": params["user"],
        "RuntimeMaxSec": str(seconds),
        "LimitMEMLOCK": "infinity",
        "TimeoutStopSec": "5",
    }
    if not wait:
        own.update({"StandardOutput": f"file:{log(name, prefix)}", "StandardError": "inherit"})
    own.update(properties or {})
    argv = ["systemd-run", "--quiet", "--collect", "--no-ask-password", f"--unit={unit(name, prefix)}"]
    argv += ["--wait", "--pipe"] if wait else []
    argv += [f"--property={key}={value}" for key, value in own.items()]
    argv += [f"--setenv={key}={value}" for key, value in {**params["environment"], **environment}.items()]
    return [*argv, "--", *command]


def free_ports(params: Mapping[str, Any], count: int, taken: Sequence[Mapping[str, int]]) -> Optional[range]:
    first, last = params["ports"]
    return transfer_bench.choose_ports(
        first, last, count, taken, lambda port: sockets.probe("0.0.0.0", port) == sockets.FREE
    )


def no_ports(params: Mapping[str, Any]) -> str:
    first, last = params["ports"]
    return f"of the ports {first}-{last} too few are free and in no claim of the plan; give it others"


def active_devices(wanted: Sequence[str] = ()) -> List[Tuple[str, Optional[int]]]:
    """(name, index of the GID that Mooncake takes) of devices whose first port is active."""
    found: List[Tuple[str, Optional[int]]] = []
    for device in rdma_sysfs.Tree().devices():
        ports = [port for port in device["ports"] if port["port"] == 1 and port["state"] == "ACTIVE"]
        if ports and (not wanted or device["name"] in wanted):
            found.append((device["name"], ports[0]["chosen"] and ports[0]["chosen"]["index"]))
    return found
