# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import re
import stat
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import find, rules
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.evidence import Evidence, Process
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.patterns import Pattern

OURS = 990


def entry(
    name: str = "psm_0a1b2c3d", kind: str = "shm", mode: int = stat.S_IFREG | 0o600, **changes: Any
) -> find.Entry:
    facts = {"links": 1, "device": 5, "user": OURS, "time": 100.0, "changed": 100.0, **changes}
    status = os.stat_result(
        [mode, 7, facts["device"], facts["links"], facts["user"], 0, 10, 0, facts["time"], facts["changed"]]
    )
    held, maker = facts.get("held", True), facts.get("maker")
    pattern = Pattern("/dev/shm", re.compile(".*"), kind, held, last_user=facts.get("last_user", ""))
    return find.Entry("/dev/shm", name, pattern, kind, status, 5, maker, newest=facts.get("newest", False))


def process(pid: int, started: float, user: int = OURS, pids: tuple[int, ...] = ()) -> Process:
    return Process(pid, "VLLM::Worker", frozenset((user,)), started, frozenset(pids))


def here(evidence: Evidence | None = None, **changes: Any) -> rules.Circumstances:
    facts = {"users": [OURS], "over": 200.0, "over_text": "the stop", "file_systems": {"/dev/shm": "tmpfs"}, **changes}
    return rules.Circumstances(evidence or Evidence(), **facts)


def why(one: find.Entry, circumstances: rules.Circumstances) -> str | None:
    reason = rules.reason_to_keep(one, circumstances)
    return reason.text if reason else None


def test_a_leftover() -> None:
    assert rules.reason_to_keep(entry(), here()) is None


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (entry(user=0), "belongs to 0"),
        (entry(mode=stat.S_IFLNK | 0o777), "a link"),
        (entry(mode=stat.S_IFIFO | 0o600), "no regular file"),
        (entry(mode=stat.S_IFDIR | 0o700), "no regular file"),
        (entry(kind="socket"), "no socket"),
        (entry(kind="folder"), "no folder"),
        (entry(device=6), "mounted"),
        (entry(links=2), "another name"),
        (entry(newest=True, kind="log"), "newest log"),
        (entry(name="latest.txt"), "data"),
        (entry(changed=200.0), "not older than the stop"),
        (entry(time=300.0), "not older than the stop"),
    ],
)
def test_what_the_file_itself_says(one: find.Entry, says: str) -> None:
    assert says in (why(one, here()) or "")


@pytest.mark.parametrize("how", ["open", "mapped", "locked"])
def test_what_a_process_has(how: str) -> None:
    evidence = Evidence()
    getattr(evidence, how)[5, 7] = {41, 42}
    reason = rules.reason_to_keep(entry(), here(evidence))
    assert reason == rules.Reason(how, 41)


def test_a_lock_without_a_process_and_a_socket_in_a_message_count() -> None:
    locked = Evidence(locked={(5, 7): {-1}})
    assert rules.reason_to_keep(entry(), here(locked)) == rules.Reason("locked", None)
    one = entry("a.sock", "socket", stat.S_IFSOCK | 0o700)
    assert rules.reason_to_keep(one, here(Evidence(bound={"a.sock": set()}))) == rules.Reason("bound", None)
    assert rules.reason_to_keep(one, here(Evidence(bound={"b.sock": {3}}))) is None


def test_a_device_that_maps_tell_otherwise_is_known_by_its_path() -> None:
    evidence = Evidence(mapped_paths={"/dev/shm/psm_0a1b2c3d": {3}})
    assert why(entry(), here(evidence)) == "mapped"


def test_nothing_goes_when_something_is_unknown() -> None:
    text = why(entry(), here(Evidence(unknown=[("processes", "Run as root.")])))
    assert text == "it is not known who uses it: Run as root."


@pytest.mark.parametrize("system", ["nfs4", "fuse.sshfs", "9p", None])
def test_file_systems_that_others_may_use(system: str | None) -> None:
    assert "other hosts" in (why(entry(), here(file_systems={"/dev/shm": system} if system else {})) or "")


def test_a_file_that_a_unit_names() -> None:
    units = {"mooncake-pd-p1.service": 'Environment="MOONCAKE_LOCK=/dev/shm/psm_0a1b2c3d"'}
    assert why(entry(), here(unit_texts=units)) == "mooncake-pd-p1.service names it"


@pytest.mark.parametrize(
    ("living", "kept"),
    [
        (process(4711, 90.0), True),
        (process(9, 90.0, pids=(9, 4711)), True),  # in a container, where it has this number
        (process(4711, 150.0), False),  # the number came back
        (process(4712, 90.0), False),
    ],
)
def test_the_process_of_the_name(living: Process, kept: bool) -> None:
    evidence = Evidence(processes={living.pid: living})
    assert (why(entry(maker=4711), here(evidence)) == "the process that made it lives") is kept


def test_the_quota_stays_while_any_mooncake_runs() -> None:
    one = entry("mooncake_quota_shm", last_user="mooncake")
    assert "Mooncake" in (why(one, here(Evidence(mooncake={3}))) or "")
    assert why(one, here()) is None
    assert why(entry(), here(Evidence(mooncake={3}))) is None


@pytest.mark.parametrize(
    ("living", "kept"),
    [(process(3, 90.0), True), (process(3, 100.9), True), (process(3, 120.0), False), (process(3, 90.0, 991), False)],
)
def test_a_file_that_is_used_without_being_open(living: Process, kept: bool) -> None:
    evidence = Evidence(processes={3: living})
    assert (why(entry(kind="file", held=False), here(evidence)) is not None) is kept
    assert why(entry(), here(evidence)) is None


@pytest.mark.parametrize(("user", "moment", "kept"), [(OURS, 101.5, True), (OURS, 97.0, False), (0, 100.0, False)])
def test_a_socket_that_a_running_process_has_closed(user: int, moment: float, kept: bool) -> None:
    circumstances = here(live_sockets=[(user, moment)])
    one = entry("a.sock", "socket", stat.S_IFSOCK | 0o700)
    assert (why(one, circumstances) == "made together with a socket that is in use") is kept
    assert why(entry(), circumstances) is None
