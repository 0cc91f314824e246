# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits as the units really get them, and the state of units that are there already."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import ENGINES, Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import limit, memory_limit, some

_SYSTEMD = (
    "systemd.exec(5), Process Properties; systemd.unit(5): drop-ins of a prefix and service.d apply to every unit"
)
_UNLIMITED = "infinity"
_SCALES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SOFT, _HARD = 0, -1
_FEW_FILES = 4096
_FIND = "`grep -rsE '^(Default)?{}=' /etc/systemd /run/systemd /usr/lib/systemd` finds it"


def _asked(host: Host, name: str, side: int) -> int | None:
    """What the role was told to set, of `soft:hard` the side; -1 is without limit. None when nobody knows it."""
    asked = host.fact(f"host.settings.{name}")
    if asked is None:
        return None
    text = str(asked).strip().split(":")[side]
    if text == _UNLIMITED:
        return -1
    scale = _SCALES.get(text[-1:].upper(), 1)
    digits = text[:-1] if scale > 1 else text
    if not digits.isdigit():
        raise ValueError(f"{name}: {asked} is no limit")
    return int(digits) * scale


def _raise(host: Host, name: str, option: str) -> str:
    if host.fact("host.containers.inside"):
        ulimit = f"start the container that is this host with --ulimit {option}, or ask for less"
        return f"{ulimit}; if it is a setting of systemd, {_FIND.format(name)}."
    return f"raise {name} where it is set, then systemctl daemon-reload: {_FIND.format(name)}."


def _less(got: int, asked: int) -> bool:
    return got >= 0 and (asked < 0 or got < asked)


@rule(
    "limits-memlock",
    family="host",
    about="units may lock as much memory as instance_memlock says",
    why="The transport registers the KV cache with the network card, else 'Cannot allocate memory [12]'.",
    source=f"https://github.com/kvcache-ai/Mooncake/issues/1382; {_SYSTEMD}",
    cases=("C-009", "C-039"),
)
def limits_memlock(host: Host) -> Iterator[Found]:
    got, asked = host.fact("host.limits.memlock.soft"), _asked(host, "instance_memlock", _SOFT)
    # TCP locks nothing
    if host.engine and host.protocol != "tcp" and got is not None and asked is not None and _less(got, asked):
        yield Found(
            what=f"a unit may lock {memory_limit(got)} instead of {memory_limit(asked)}",
            evidence=f"Max locked memory {limit(got)} bytes in a trial unit",
            fix=_raise(host, "LimitMEMLOCK", "memlock=-1"),
        )


@rule(
    "limits-nofile",
    family="host",
    about="units may open as many files as instance_nofile says",
    why="Each peer and each client costs files; without them connections are refused under load.",
    source=f"mooncake-transfer-engine/src/transfer_engine_impl.cpp@v0.3.11 raises soft to hard; {_SYSTEMD}",
    cases=("C-039",),
)
def limits_nofile(host: Host) -> Iterator[Found]:
    got, asked = host.fact("host.limits.nofile.hard"), _asked(host, "instance_nofile", _HARD)
    if host.engine and got is not None and asked is not None and _less(got, asked):
        yield Found(
            what=f"a unit may open {limit(got)} files instead of {limit(asked)}",
            evidence=f"Max open files, hard limit {limit(got)} in a trial unit",
            fix=_raise(host, "LimitNOFILE", "nofile=1048576"),
            severity=None if got < _FEW_FILES else "warning",
        )


@rule(
    "unit-limits-capped",
    family="host",
    about="no drop-in of a unit lowers the limits that it is written with",
    why="The trial unit shows what all units get; what one of them gets less shows only when it runs out of it.",
    source=_SYSTEMD,
    cases=("C-009", "C-039"),
)
def unit_limits_capped(host: Host) -> Iterator[Found]:
    asked = {"nofile": _asked(host, "instance_nofile", _HARD)}
    if host.protocol != "tcp":
        asked["memlock"] = _asked(host, "instance_memlock", _SOFT)
    engines = {process["unit"]["name"] for process in host.processes if process["kind"] in ENGINES}
    for name, unit in host.units.items():
        if name not in engines or not unit["drop_ins"]:
            continue  # what an old unit file says is written anew
        for kind, wanted in asked.items():
            got = ((unit[kind] or {}).get("hard" if kind == "nofile" else "soft")) if wanted is not None else None
            if got is not None and wanted is not None and _less(got, wanted):
                yield Found(
                    what=f"{name} may have {kind} {limit(got)} instead of {limit(wanted)}",
                    evidence=some(unit["drop_ins"]),
                    fix=f"take Limit{kind.upper()} out of the drop-in, then systemctl daemon-reload.",
                )


@rule(
    "limits-nofile-kernel",
    family="host",
    about="the kernel allows as many open files as instance_nofile says",
    why="systemd cannot start a unit whose LimitNOFILE is above fs.nr_open (status 205/LIMITS).",
    source="https://www.kernel.org/doc/html/latest/admin-guide/sysctl/fs.html (nr_open)",
)
def limits_nofile_kernel(host: Host) -> Iterator[Found]:
    most, asked = host.sysctl("fs.nr_open"), _asked(host, "instance_nofile", _HARD)
    if host.engine and most and asked is not None and 0 <= int(most) < asked:
        yield Found(
            what=f"the kernel allows {most} open files a process, and units ask for {limit(asked)}",
            evidence=f"fs.nr_open = {most}",
            fix=f"sysctl -w fs.nr_open={asked} (and in /etc/sysctl.d), or lower instance_nofile.",
        )


@rule(
    "limits-processes",
    family="host",
    severity="warning",
    about="the service user may run enough threads",
    why="Every worker runs hundreds of threads; at the limit it ends with 'can't start new thread'.",
    source="setrlimit(2), RLIMIT_NPROC counts threads",
)
def limits_processes(host: Host) -> Iterator[Found]:
    got = host.fact("host.limits.nproc.soft")
    if host.engine and got is not None and 0 <= got < 4096:
        yield Found(
            what=f"the service user may run {got} threads",
            evidence=f"Max processes {got} in a trial unit",
            fix="raise LimitNPROC in the drop-in that sets it, or DefaultLimitNPROC in /etc/systemd/system.conf.",
        )


@rule(
    "pid-max",
    family="host",
    severity="warning",
    about="the kernel has enough process ids",
    why="16 workers with hundreds of threads each come near 32768 ids; then nothing can be started, not even a shell.",
    source="https://www.kernel.org/doc/html/latest/admin-guide/sysctl/kernel.html (pid_max)",
)
def pid_max(host: Host) -> Iterator[Found]:
    most = host.sysctl("kernel.pid_max")
    if host.ascend and most and int(most) <= 32768:
        yield Found(
            what=f"the kernel has {most} process ids for {len(host.devices)} workers and everything else",
            evidence=f"kernel.pid_max = {most}",
            fix="sysctl -w kernel.pid_max=4194304 (and in /etc/sysctl.d).",
        )


@rule(
    "unit-masked",
    family="host",
    about="planned units can be started",
    why="systemd refuses to start what is masked.",
    source="systemctl(1), mask",
)
def unit_masked(host: Host) -> Iterator[Found]:
    masked = [name for name, unit in host.units.items() if unit["load_state"] == "masked"]
    if masked:
        yield Found(
            what=f"{some(masked)} {'is' if len(masked) == 1 else 'are'} masked",
            fix="systemctl unmask the unit, if whoever masked it agrees.",
        )


@rule(
    "unit-drop-in",
    family="host",
    severity="warning",
    about="units are as the plan writes them",
    why="A drop-in changes what runs, and nobody sees it in the plan.",
    source="systemd.unit(5), drop-ins",
)
def unit_drop_in(host: Host) -> Iterator[Found]:
    units = {name: unit for name, unit in host.units.items() if unit["load_state"] != "masked"}
    changed = {name: unit["drop_ins"] for name, unit in units.items() if unit["drop_ins"]}
    for drop_ins in sorted({tuple(paths) for paths in changed.values()}):
        same = [name for name, paths in changed.items() if tuple(paths) == drop_ins]
        yield Found(
            what=f"{some(drop_ins)} changes {some(same)}",
            evidence=some(drop_ins),
            fix=(
                "move what it sets into topology.yml or group_vars, remove the file and run systemctl daemon-reload, or"
                " waive this rule."
            ),
        )


@rule(
    "unit-reload",
    family="host",
    severity="warning",
    about="systemd knows the unit files as they are",
    why="A restart by hand starts what systemd read last, not what stands in the file.",
    source="systemctl(1), NeedDaemonReload",
)
def unit_reload(host: Host) -> Iterator[Found]:
    stale = [name for name, unit in host.units.items() if unit["needs_reload"] and unit["load_state"] != "masked"]
    if stale:
        yield Found(
            what=f"{some(stale)} changed on disk and systemd has not read it",
            fix="systemctl daemon-reload, after looking at what changed (systemctl cat).",
        )


@rule(
    "unit-limits-old",
    family="host",
    severity="warning",
    about="running processes have the limits of their units",
    why="A limit is taken at the start: what runs keeps the old one until it is restarted.",
    source="setrlimit(2)",
    cases=("C-039",),
)
def unit_limits_old(host: Host) -> Iterator[Found]:
    for name, unit in host.units.items():
        process = unit["process"] or {}
        for kind in ("memlock", "nofile"):
            has, should = process.get(kind), unit.get(kind)
            # what a new unit would not get either is told by the rules above
            now = host.fact(f"host.limits.{kind}.hard")
            if has and should and now is not None and _less(has["hard"], should["hard"]) and _less(has["hard"], now):
                yield Found(
                    what=f"{name} runs with a {kind} limit of {limit(has['hard'])} instead of {limit(should['hard'])}",
                    evidence=f"/proc/{unit['main_pid']}/limits",
                    fix="restart the unit.",
                )


@rule(
    "unit-oom",
    family="host",
    severity="warning",
    about="the kernel killed no process of a planned unit for want of memory",
    why="The next start will most likely end the same way, without a word in the log.",
    source="https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.events)",
    cases=("C-079",),
)
def unit_oom(host: Host) -> Iterator[Found]:
    killed = [name for name, unit in host.units.items() if unit["oom_kills"]]
    if killed:
        yield Found(
            what=f"processes of {some(killed)} were killed for want of memory",
            fix="journalctl -k | grep -i oom shows what took it; lower the memory of pool and weights, or add some.",
        )
