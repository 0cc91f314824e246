# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""State of systemd units, many at a time."""

from __future__ import annotations

import signal
from dataclasses import dataclass, fields
from typing import Callable, Optional, Sequence

# AnsibleModule.run_command, or whatever a test puts in its place
Run = Callable[[list[str]], tuple[int, str, str]]

# systemd.exec(5), "Process Exit Codes": what systemd itself could not do before the program ran.
EXIT_STATUS = {
    200: ("CHDIR", "The working directory (WorkingDirectory) is missing or may not be entered."),
    203: (
        "EXEC",
        "The program of ExecStart is missing or may not be run: check that it is installed in executable_dir.",
    ),
    205: ("LIMITS", "A limit (LimitMEMLOCK, LimitNOFILE ...) is above what this host allows."),
    209: ("STDOUT", "The log file could not be opened: the folder log_dir must exist and the disk must have room."),
    216: ("GROUP", "The group of the unit does not exist."),
    217: ("USER", "The user of the unit does not exist."),
    226: ("NAMESPACE", "A sandbox setting (PrivateTmp, ProtectSystem ...) cannot be set up on this host."),
    233: ("RUNTIME_DIRECTORY", "The folder below /run/mooncake-pd could not be made."),
}
RESULTS = {
    "oom-kill": "The kernel killed it for memory: see `journalctl -k`, lower the memory it asks for or free some.",
    "timeout": "It did not start or stop within its TimeoutStartSec/TimeoutStopSec.",
    "start-limit-hit": "It was started too often in a short time (StartLimitBurst); the first failure is further up in"
    " its log. Mend that, then run the playbook again, or `systemctl reset-failed` before `systemctl start` by hand.",
    "resources": "systemd could not prepare it (an environment file is missing, ...): see `systemctl status`.",
}


class SystemdError(Exception):
    """systemctl itself did not work."""


@dataclass(frozen=True)
class Unit:
    """Properties of `systemctl show`; the metadata of each field is the name there."""

    name: str
    LoadState: str = "not-found"
    ActiveState: str = "inactive"
    SubState: str = "dead"
    Result: str = "success"
    MainPID: int = 0
    NRestarts: int = 0
    InvocationID: str = ""
    NeedDaemonReload: str = "no"
    UnitFileState: str = ""
    FragmentPath: str = ""
    ControlGroup: str = ""
    ExecMainCode: int = 0
    ExecMainStatus: int = 0
    # microseconds since the boot, 0 when it has not happened since then
    ActiveEnterTimestampMonotonic: int = 0
    InactiveEnterTimestampMonotonic: int = 0
    # bytes; [not set] is 0, and older releases write 2**64 - 1 for it
    MemoryCurrent: int = 0

    @property
    def running(self) -> bool:
        return self.ActiveState in ("active", "reloading", "refreshing") or (
            self.ActiveState == "activating" and not self.waits_for_restart
        )

    @property
    def waits_for_restart(self) -> bool:
        return self.ActiveState == "activating" and self.SubState.startswith("auto-restart")

    @property
    def died(self) -> bool:
        return bool(self.ExecMainCode) or self.Result != "success"

    @property
    def exit_text(self) -> str:
        """How the main process ended, and systemd's word for it."""
        how = ""
        if self.ExecMainCode == 1:  # CLD_EXITED, CLD_KILLED, CLD_DUMPED of siginfo
            name = EXIT_STATUS[self.ExecMainStatus][0] if self.ExecMainStatus in EXIT_STATUS else ""
            how = f"exit status {self.ExecMainStatus}{'/' + name if name else ''}, "
        elif self.ExecMainCode in (2, 3):
            try:
                name = signal.Signals(self.ExecMainStatus).name
            except ValueError:
                name = str(self.ExecMainStatus)
            how = f"{'killed by' if self.ExecMainCode == 2 else 'dumped core on'} {name}, "
        return f"{how}result {self.Result}"

    @property
    def advice(self) -> Optional[str]:
        if self.ExecMainCode == 1 and self.ExecMainStatus in EXIT_STATUS:
            return EXIT_STATUS[self.ExecMainStatus][1]
        return RESULTS.get(self.Result)


_PROPERTIES = tuple(field.name for field in fields(Unit) if field.name != "name")
_NUMBERS = {field.name for field in fields(Unit) if field.type in ("int", int)}


def parse_show(text: str, names: Sequence[str]) -> dict[str, Unit]:
    """Blocks come in the order of the names asked for; Id is no key, as an alias has another one."""
    blocks = [block for block in text.strip("\n").split("\n\n") if block.strip()]
    if len(blocks) != len(names):
        raise SystemdError(f"systemctl show answered for {len(blocks)} of {len(names)} units")
    units = {}
    for index, name in enumerate(names):
        values: dict[str, object] = {}
        for line in blocks[index].splitlines():
            key, _equals, value = line.partition("=")
            if key in _NUMBERS:
                values[key] = int(value) if value.isdigit() else 0
            elif key in _PROPERTIES:
                values[key] = value
        units[name] = Unit(name=name, **values)  # type: ignore[arg-type]
    return units


def show(run: Run, names: Sequence[str]) -> dict[str, Unit]:
    if not names:
        return {}
    command = ["systemctl", "show", "--no-pager", f"--property=Id,{','.join(_PROPERTIES)}", "--", *names]
    code, out, err = run(command)
    if code != 0:
        raise SystemdError(f"`systemctl show` failed: {err.strip() or out.strip()}")
    return parse_show(out, names)


def systemctl(run: Run, verb: str, names: Sequence[str] = ()) -> Optional[str]:
    """Run one verb on many units; None when it went well, else what systemctl said."""
    code, out, err = run(["systemctl", verb, *(["--", *names] if names else [])])
    return None if code == 0 else (err.strip() or out.strip() or f"exit status {code}")
