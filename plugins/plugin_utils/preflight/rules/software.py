# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The system below the service: systemd, libraries, what runs beside it, and settings that contradict the plan."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Fleet, Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, fleet_rule, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some

_OWN = "mooncake.pd"
_WHEEL = "PyPI, mooncake-transfer-engine-npu 0.3.11.post1: manylinux_2_35 wheels"


def _version(text: str | None) -> tuple[int, ...] | None:
    try:
        return tuple(int(part) for part in str(text).split("."))
    except ValueError:
        return None


def _from_wheel(host: Host) -> bool:
    """Whether Mooncake's wheel will be installed here."""
    return host.ascend and host.fact("host.settings.mooncake_mode") == "wheel"


@rule(
    "setting-planned",
    family="host",
    about="role variables do not set what the plan decides",
    why="The unit would get another value than the plan was made with.",
    source=_OWN,
)
def setting_planned(host: Host) -> Iterator[Found]:
    planned = set(host.cluster.get("planned_variables") or ())
    both = [name for name in host.each("host.settings.instance_environment") if name in planned]
    if host.engine and both:
        yield Found(
            what=f"instance_environment sets {', '.join(both)}, which would make the plan untrue",
            fix="set it in topology.yml (engine_environment, or environment of the instance), where the plan sees it.",
        )


@rule(
    "setting-refused",
    family="host",
    about="roles accept their settings",
    why="The role would end the run in the middle, with half of the hosts changed.",
    source=_OWN,
)
def setting_refused(host: Host) -> Iterator[Found]:
    for message in host.each("told"):
        what, _mend, fix = message.partition(" Mend: ")
        yield Found(what=what.rstrip("."), fix=fix or "correct it in group_vars or host_vars of the inventory.")


@rule(
    "systemd-missing",
    family="host",
    about="systemd runs the host",
    why="Every process of the plan is a unit.",
    source=_OWN,
)
def systemd_missing(host: Host) -> Iterator[Found]:
    first = host.fact("host.systemd.pid1")
    if first is not None and first != "systemd":
        yield Found(
            what=f"process 1 is {first}, not systemd",
            fix="use a host that systemd runs; in a container, one whose entry point is /sbin/init.",
        )


@rule(
    "systemd-old",
    family="host",
    about="systemd is 240 or newer",
    why="Units use Type=exec and StandardOutput=append:, which older ones do not know.",
    source="systemd NEWS, 240",
)
def systemd_old(host: Host) -> Iterator[Found]:
    version = host.fact("host.systemd.version")
    if version is not None and version < 240:
        yield Found(what=f"systemd is {version}", fix="use a system with systemd 240 or newer.")


@rule(
    "systemd-state",
    family="host",
    about="systemd has finished booting and takes jobs",
    why="Units that are started now may wait for ever, or end with the shutdown.",
    source="systemctl(1), is-system-running",
)
def systemd_state(host: Host) -> Iterator[Found]:
    state = host.fact("host.systemd.state")
    if state in ("initializing", "starting", "stopping", "maintenance", "offline"):
        booting = "warning" if state in ("initializing", "starting") else None
        yield Found(
            what=f"systemd is {state}",
            severity=booting,
            fix="wait until systemctl is-system-running says running or degraded.",
        )


@rule(
    "glibc-old",
    family="host",
    about="glibc is as new as the wheels need",
    why="pip finds no wheel for it, or the import ends with 'version GLIBC_2.35 not found'.",
    source=f"{_WHEEL}; https://github.com/kvcache-ai/Mooncake/issues/2586",
    cases=("C-004",),
)
def glibc_old(host: Host) -> Iterator[Found]:
    version = _version(host.fact("host.libc.version"))
    if _from_wheel(host) and version and version < (2, 35):
        yield Found(
            what=f"glibc is {host.fact('host.libc.version')}, the wheel needs 2.35",
            fix="use openEuler 24.03, Ubuntu 22.04 or newer, or build Mooncake from source.",
        )


@rule(
    "libstdcxx-old",
    family="host",
    about="libstdc++ is as new as the wheels need",
    why="The import ends with 'version GLIBCXX_3.4.30 not found'.",
    source=f"{_WHEEL}; https://github.com/kvcache-ai/Mooncake/issues/2586",
    cases=("C-004",),
)
def libstdcxx_old(host: Host) -> Iterator[Found]:
    newest = _version(host.fact("host.libc.libstdcxx.newest"))
    if _from_wheel(host) and newest and newest < (3, 4, 30):
        yield Found(
            what=f"libstdc++ knows GLIBCXX_{host.fact('host.libc.libstdcxx.newest')} at most",
            fix="install libstdc++ of GCC 12 or newer, or build Mooncake from source.",
        )


@rule(
    "selinux-enforcing",
    family="host",
    severity="warning",
    about="SELinux lets the services do their work",
    why="Nobody has tried these units under an enforcing policy: a denial shows as 'Permission denied' in odd places.",
    source=_OWN,
)
def selinux_enforcing(host: Host) -> Iterator[Found]:
    if host.fact("host.security.selinux") == "enforcing":
        yield Found(
            what="SELinux is enforcing",
            fix="run in permissive mode once and look for denials (ausearch -m avc), then waive this rule.",
        )


@rule(
    "engine-beside",
    family="host",
    severity="warning",
    about="no engine runs beside the planned ones",
    why="A leftover of a crash holds NPUs, memory and ports, though its API is gone.",
    source="https://github.com/vllm-project/vllm/issues/34643; https://github.com/vllm-project/vllm-ascend/issues/8972",
    cases=("C-026", "C-041", "C-082"),
)
def engine_beside(host: Host) -> Iterator[Found]:
    planned = {process["unit"]["name"] for process in host.processes}
    others = [engine for engine in host.each("host.engines") if engine["unit"] not in planned or engine["container"]]
    if host.engine and others:
        yield Found(
            what=f"{len(others)} engine process(es) of no planned unit run: {some(_said(item) for item in others)}",
            evidence=some((item["command"][:80] for item in others), 2),
            fix="stop the service it belongs to; a leftover of a crash: kill its pid after looking at it.",
        )


def _said(engine: dict[str, object]) -> str:
    container = f"container {engine['container']}" if engine["container"] else None
    where = container or engine["unit"] or "in no unit"
    return f"pid {engine['pid']} {engine['title'] or ''} ({engine['user']}, {where})".replace("  ", " ")


@rule(
    "clock-wrong",
    family="host",
    severity="warning",
    about="the clock agrees with the controller's",
    why="Logs of prefill and decode cannot be laid side by side, and certificates may count as not yet valid.",
    source=_OWN,
)
def clock_wrong(host: Host) -> Iterator[Found]:
    offset = clock_offset(host)
    if offset and abs(offset[0]) > offset[1] + 2:
        yield Found(
            what=f"the clock is {abs(offset[0]):.0f} s {'ahead of' if offset[0] > 0 else 'behind'} the controller's",
            evidence=f"uncertain by {offset[1]:.1f} s",
            fix="start a time service: systemctl enable --now chronyd (or systemd-timesyncd).",
        )


def clock_offset(host: Host) -> tuple[float, float] | None:
    """Seconds ahead of the controller, and how far that may be off: half of what the question took."""
    epoch, asked = host.fact("host.clock.epoch"), host.fact("host.clock.controller")
    if epoch is None or not asked:
        return None
    half = (asked["received"] - asked["sent"]) / 2
    return epoch - asked["sent"] - half, half


@rule(
    "clock-free",
    family="host",
    severity="notice",
    about="a time service keeps the clock",
    why="The clock is right today and drifts.",
    source="adjtimex(2), STA_UNSYNC",
)
def clock_free(host: Host) -> Iterator[Found]:
    # in a container the clock is that of the machine around it
    if host.fact("host.clock.synchronized") is False and host.fact("host.containers.inside") is None:
        yield Found(
            what="nobody keeps the clock",
            fix="start a time service: systemctl enable --now chronyd (or systemd-timesyncd).",
        )


@fleet_rule(
    "clocks-differ",
    family="host",
    severity="warning",
    about="clocks of the fleet agree",
    why="Logs of prefill and decode cannot be laid side by side.",
    source=_OWN,
)
def clocks_differ(fleet: Fleet) -> Iterator[Found]:
    # where the controller itself is wrong, all are off together: then only the differences count
    offsets = {host.name: found for host in fleet if (found := clock_offset(host))}
    if len(offsets) < 2:
        return
    early = min(offsets, key=lambda name: offsets[name][0])
    late = max(offsets, key=lambda name: offsets[name][0])
    apart = offsets[late][0] - offsets[early][0]
    if apart > offsets[late][1] + offsets[early][1] + 2:
        yield Found(
            what=f"clocks are {apart:.0f} s apart: {early} is the earliest, {late} the latest",
            fix="start a time service on all hosts: systemctl enable --now chronyd (or systemd-timesyncd).",
        )
