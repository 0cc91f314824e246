# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import systemd
from ansible_collections.mooncake.pd.plugins.module_utils.systemd import Unit

TWO = """Type=exec
Id=alias-of-something.service
LoadState=loaded
ActiveState=activating
SubState=auto-restart
Result=exit-code
MainPID=0
NRestarts=3
InvocationID=0123456789abcdef0123456789abcdef
ExecMainCode=1
ExecMainStatus=203

Id=gone.service
LoadState=not-found
ActiveState=inactive
SubState=dead
NRestarts=[not set]
"""


def test_show_maps_blocks_by_order() -> None:
    asked: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        asked.append(command)
        return 0, TWO, ""

    units = systemd.show(run, ["p1.service", "gone.service"])
    assert len(asked) == 1
    assert asked[0][-2:] == ["p1.service", "gone.service"]
    first = units["p1.service"]
    assert (first.name, first.NRestarts, first.waits_for_restart, first.running) == ("p1.service", 3, True, False)
    assert first.exit_text == "exit status 203/EXEC, result exit-code"
    assert first.advice is not None
    assert "missing" in first.advice
    assert units["gone.service"] == Unit("gone.service", NRestarts=0)


def test_show_of_nothing_asks_nothing() -> None:
    assert systemd.show(lambda command: pytest.fail("asked"), []) == {}


def test_show_never_guesses() -> None:
    with pytest.raises(systemd.SystemdError, match="1 of 2"):
        systemd.show(lambda command: (0, "Id=a.service\n", ""), ["a.service", "b.service"])
    with pytest.raises(systemd.SystemdError, match="not been booted"):
        systemd.show(lambda command: (1, "", "System has not been booted with systemd"), ["a.service"])


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (Unit("u", ExecMainCode=1, ExecMainStatus=1, Result="exit-code"), "exit status 1, result exit-code"),
        (Unit("u", ExecMainCode=2, ExecMainStatus=9, Result="oom-kill"), "killed by SIGKILL, result oom-kill"),
        (Unit("u", ExecMainCode=3, ExecMainStatus=6, Result="core-dump"), "dumped core on SIGABRT, result core-dump"),
        (Unit("u", ExecMainCode=2, ExecMainStatus=99, Result="signal"), "killed by 99, result signal"),
        (Unit("u", Result="resources"), "result resources"),
    ],
)
def test_exit_text(unit: Unit, text: str) -> None:
    assert unit.exit_text == text


@pytest.mark.parametrize(
    ("active", "sub", "running"),
    [
        ("active", "running", True),
        ("reloading", "reload", True),
        ("activating", "start-pre", True),
        ("activating", "auto-restart", False),
        ("activating", "auto-restart-queued", False),
        ("deactivating", "stop-sigterm", False),
        ("failed", "failed", False),
        ("inactive", "dead", False),
    ],
)
def test_running(active: str, sub: str, running: bool) -> None:
    assert Unit("u", ActiveState=active, SubState=sub).running is running


def test_systemctl_tells_what_went_wrong() -> None:
    assert systemd.systemctl(lambda command: (0, "", ""), "daemon-reload") is None
    assert systemd.systemctl(lambda command: (1, "", "no such unit\n"), "start", ["a.service"]) == "no such unit"
    assert systemd.systemctl(lambda command: (4, "", ""), "start", ["a.service"]) == "exit status 4"
