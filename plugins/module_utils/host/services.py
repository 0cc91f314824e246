# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""systemd: the units of the plan as they stand, the manager itself, and the services that matter."""

from __future__ import annotations

import re
from typing import Any, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.host import environment, limits, pool_share
from ansible_collections.mooncake.pd.plugins.module_utils.host.look import Look

Properties = dict[str, str]

FIREWALLS = ("firewalld", "ufw", "nftables")
_SHOWN = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "NRestarts",
    "MainPID",
    "ExecMainStartTimestampMonotonic",
    "LimitMEMLOCK",
    "LimitMEMLOCKSoft",
    "LimitNOFILE",
    "LimitNOFILESoft",
    "DropInPaths",
    "NeedDaemonReload",
    "FragmentPath",
    "Environment",
    "ControlGroup",
)
_SECONDS = 3


def parse_show(text: str, names: Sequence[str]) -> dict[str, Properties]:
    """Blocks come in the order of the names asked for; Id is no key, as an alias has another one."""
    blocks = [block for block in text.strip("\n").split("\n\n") if block.strip()]
    if len(blocks) != len(names):
        raise ValueError(f"systemctl show answered for {len(blocks)} of {len(names)} units")
    return {
        name: {key: value for key, _equals, value in (line.partition("=") for line in block.splitlines())}
        for name, block in zip(names, blocks)
    }


def show(look: Look, names: Sequence[str]) -> Optional[dict[str, Properties]]:
    """None when systemctl did not answer."""
    command = ["systemctl", "show", "--no-pager", f"--property={','.join(_SHOWN)}", "--", *names]
    answer = look.run(command, _SECONDS)
    why = f"`systemctl show` {answer.failure}."
    if not answer.failure:
        try:
            return parse_show(answer.out, names)
        except ValueError as error:
            why = f"{error}."
    look.unknown("units", why, answer.text)
    return None


def units(look: Look, names: Sequence[str]) -> tuple[dict[str, Any], Optional[dict[str, Properties]]]:
    """The units by name, and the properties of all services that were asked about."""
    asked = list(dict.fromkeys([*names, *(f"{name}.service" for name in FIREWALLS)]))
    shown = show(look, asked)
    if shown is None:
        return {}, None

    def one(name: str, values: Properties) -> Any:
        return look.sane(f"units.{name}", None, lambda: unit(look, name, values))

    return {name: one(name, shown[name]) for name in names}, shown


def _limit(values: Properties, key: str) -> Optional[limits.Limit]:
    hard = limits.amount(values.get(key, ""))
    soft = limits.amount(values.get(f"{key}Soft", values.get(key, "")))  # systemd before 228 has one value only
    return None if hard is None or soft is None else {"soft": soft, "hard": hard}


def unit(look: Look, name: str, values: Properties) -> dict[str, Any]:
    what = f"units.{name}"
    there = values.get("LoadState") not in ("not-found", None)
    pid = int(values.get("MainPID") or 0)
    entry: dict[str, Any] = {
        "load_state": values.get("LoadState"),
        "active_state": values.get("ActiveState"),
        "sub_state": values.get("SubState"),
        "result": values.get("Result"),
        "n_restarts": int(values["NRestarts"]) if values.get("NRestarts", "").isdigit() else None,
        "main_pid": pid,
        "started": _started(look, values) if pid else None,
        "memlock": _limit(values, "LimitMEMLOCK") if there else None,
        "nofile": _limit(values, "LimitNOFILE") if there else None,
        "drop_ins": values.get("DropInPaths", "").split(),
        "needs_reload": values.get("NeedDaemonReload") == "yes",
        "fragment": values.get("FragmentPath") or None,
        "environment_names": environment.parse_property(values.get("Environment", "")),
        "process": limits.of_process(look, pid, f"{what}.process") if pid else None,
        "oom_kills": _oom_kills(look, values.get("ControlGroup", "")) if pid else None,
        "pool_bytes": pool_share.of_unit(look, values.get("FragmentPath")) if pid else None,
    }
    if pid:
        entry["environment_names"] = _names(look, pid, entry["environment_names"], what)
    never = ("started", "fragment", "process", "oom_kills", "pool_bytes")  # may be null, or have told it themselves
    for key, value in entry.items():
        if value is None and there and key not in never:
            look.unknown(f"{what}.{key}", "systemd does not tell it, or in a way that is not understood.")
    return entry


def _started(look: Look, values: Properties) -> Optional[float]:
    text = values.get("ExecMainStartTimestampMonotonic", "")
    if not text.isdigit() or text == "0":
        look.unknown(f"units.{values.get('Id')}.started", "systemd does not tell when its process was started.", text)
        return None
    return round(look.system.now() - look.system.monotonic() + int(text) / 1e6, 3)


def _names(look: Look, pid: int, planned: list[str], what: str) -> list[str]:
    """Also what the process was given in other ways (PAM, EnvironmentFile, the manager's own)."""
    if not look.exists(f"/proc/{pid}"):
        return planned
    text = look.text(f"/proc/{pid}/environ", f"{what}.environment_names")
    return sorted({*planned, *environment.parse_environ(text or "")})


def _oom_kills(look: Look, group: str) -> Optional[int]:
    """None where the kernel does not count them: before 4.13, or where memory of the group is not accounted."""
    for path in (f"/sys/fs/cgroup{group}/memory.events", f"/sys/fs/cgroup/memory{group}/memory.oom_control"):
        if group and look.exists(path):
            match = re.search(r"^oom_kill (\d+)$", look.read(path), re.MULTILINE)
            if match:
                return int(match.group(1))
    return None


def parse_version(text: str) -> Optional[int]:
    match = re.match(r"(?:systemd )?v?(\d+)", text.strip())
    return int(match.group(1)) if match else None


def manager(look: Look) -> dict[str, Any]:
    comm = look.word("/proc/1/comm", "systemd.pid1")
    found: dict[str, Any] = {"version": None, "state": None, "failed": [], "pid1": comm}
    answer = look.run(["systemctl", "--version"], _SECONDS)
    found["version"] = None if answer.failure else parse_version(answer.out)
    if found["version"] is None:
        look.unknown("systemd.version", f"`systemctl --version` {answer.failure or 'gives none'}.", answer.text)
    # its exit status says the same as the word: 1 for degraded
    answer = look.run(["systemctl", "is-system-running"], _SECONDS)
    found["state"] = answer.out.strip() or None
    if found["state"] is None or answer.why:
        found["state"] = None
        look.unknown("systemd.state", f"`systemctl is-system-running` {answer.failure or 'gives none'}.", answer.text)
    if found["state"] == "running":  # then none has failed
        return found
    answer = look.run(["systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager"], _SECONDS)
    if answer.failure:
        look.unknown("systemd.failed", f"`systemctl list-units` {answer.failure}.", answer.text)
    else:
        found["failed"] = parse_list(answer.out)
    return found


def parse_list(text: str) -> list[str]:
    """Names in `systemctl list-units`; some releases put a dot before a failed one whatever is asked."""
    return [words[0] for words in (line.lstrip("●*\u00d7 \t").split() for line in text.splitlines()) if words]


def firewalls(look: Look, shown: Optional[dict[str, Properties]]) -> list[str]:
    if shown is None:
        return []
    active = [name for name in FIREWALLS if shown[f"{name}.service"].get("ActiveState") == "active"]
    if "ufw" in active and not _ufw_is_on(look):
        active.remove("ufw")
    return active


def _ufw_is_on(look: Look) -> bool:
    """Its service is active also when it is off."""
    path = "/etc/ufw/ufw.conf"
    text = look.read(path) if look.exists(path) else ""
    return not re.search(r"^\s*ENABLED\s*=\s*[\"']?no", text, re.MULTILINE | re.IGNORECASE)
