# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees of leftovers and of files in use: every leftover goes, and nothing else. All holders are real ones."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import find, patterns, remove, rules, sweep
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.evidence import Evidence
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.unit_runs import Run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")

GONE, LIVING, STRANGER = 54321, 54322, 54323  # users: without a process, with one, not ours
UUID = "3f2a9c1e-5b7d-4e8f-9a0b-{:012x}"
# name, folder, whether a live process would show that it uses it
FILES = [
    ("psm_{:08x}", "shm", True),
    ("mooncake_quota_shm", "shm", True),
    ("nccl-{:06x}", "shm", True),
    ("vllm_offload_{:x}.mmap", "shm", True),
    ("sem.mp-{:08x}", "shm", True),
    ("vllm_dist_{:032x}", "tmp", False),
    ("tent-topo-dump-{:x}.json", "tmp", False),
    ("mooncake_{:x}", "tmp", False),
    ("a" * 64 + "-srv-model-{:x}.lock", "tmp", True),
]
DATA = [
    "mooncake_master.h.u.log.INFO.20261130-061500.{}",
    "mooncake_oplog",
    "mooncake{:x}.json",
    "transfer_engine_{:x}.log",
    "notes-{:x}",
    "mooncake_{:x}.bucket",
]
STATES = ["left", "open", "mapped", "flock", "link", "second name", "young"]
SOCKETS = ["left", "listens", "bound", "datagram", "full", "young"]


@dataclass(frozen=True)
class Thing:
    what: str  # file, socket, data, folder
    form: int
    state: str
    user: int

    @property
    def name(self) -> tuple[str, str, bool]:
        if self.what == "data":
            return DATA[self.form % len(DATA)], "tmp", True
        if self.what == "socket":
            return UUID, "tmp", True
        return FILES[self.form % len(FILES)]

    @property
    def is_leftover(self) -> bool:
        """Said once more, in other words than those of the rules."""
        if self.what == "data" or self.state != "left" or self.user == STRANGER:
            return False
        return self.user == GONE or self.name[2]


LIBC = ctypes.CDLL(None)


def mapped(handle: int) -> ctypes.c_void_p:
    """Python's own keeps the file open beside it."""
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    return ctypes.c_void_p(LIBC.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, handle, 0))


USERS = st.sampled_from([GONE, GONE, LIVING, STRANGER])
FORMS = st.integers(0, 30)
THINGS = st.one_of(
    st.builds(Thing, st.just("file"), FORMS, st.sampled_from(STATES), USERS),
    st.builds(Thing, st.just("socket"), FORMS, st.sampled_from(SOCKETS), USERS),
    st.builds(Thing, st.just("data"), FORMS, st.just("left"), USERS),
)


class Tree:
    def __init__(self, root: Path, things: list[Thing], held: ExitStack) -> None:
        self.root, self.held = root, held
        for folder in ("shm", "tmp", "other"):
            (root / folder).mkdir()
        self.paths = {self.path(number, thing): thing for number, thing in enumerate(things)}
        for path, thing in self.paths.items():
            if thing.state != "young":
                self.make(path, thing)
        self.over = self.now()
        for path, thing in self.paths.items():
            if thing.state == "young":
                self.make(path, thing)

    def path(self, number: int, thing: Thing) -> Path:
        name, folder, _held = thing.name
        return self.root / folder / name.format(number + 1)

    def now(self) -> float:
        """A time of the file system that is later than all it gave so far: they come in steps of some milliseconds."""
        last = max((path.lstat().st_ctime_ns for path in self.root.rglob("*")), default=0)
        probe = self.root / "probe"
        while True:
            probe.write_text("")
            status = probe.stat()
            if status.st_ctime_ns > last:
                return status.st_ctime

    def make(self, path: Path, thing: Thing) -> None:
        if thing.what == "socket":
            self.make_socket(path, thing.state)
        elif thing.state == "link":
            (self.root / "other" / path.name).write_text("precious")
            path.symlink_to(self.root / "other" / path.name)
        else:
            path.write_bytes(b"x" * 4096)
            self.use(path, thing.state)
        os.chown(path, thing.user, thing.user, follow_symlinks=False)

    def use(self, path: Path, state: str) -> None:
        if state == "second name":
            os.link(path, self.root / "other" / path.name)
        if state in ("open", "flock"):
            file = self.held.enter_context(path.open("rb"))
            if state == "flock":
                fcntl.flock(file, fcntl.LOCK_EX)
        if state == "mapped":
            with path.open("rb") as file:
                self.held.callback(LIBC.munmap, mapped(file.fileno()), 4096)

    def make_socket(self, path: Path, state: str) -> None:
        kind = socket.SOCK_DGRAM if state == "datagram" else socket.SOCK_STREAM
        own = socket.socket(socket.AF_UNIX, kind)
        own.bind(str(path))
        if state in ("left", "young"):
            own.close()
            return
        self.held.enter_context(own)
        if state in ("listens", "full"):
            own.listen(0)
        for _number in range(2 if state == "full" else 0):
            client = self.held.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect_ex(str(path))

    @property
    def there(self) -> set[Path]:
        return {path for path in self.paths if os.path.lexists(path)}


@contextmanager
def tree(things: list[Thing]) -> Iterator[Tree]:
    root = Path(tempfile.mkdtemp(prefix="leftovers-"))  # pytest's path is too long for a socket
    try:
        with ExitStack() as held:
            yield Tree(root, things, held)
    finally:
        shutil.rmtree(root)


@pytest.fixture(autouse=True, scope="module")
def made_at_different_times() -> Iterator[None]:
    """A tree is made in no time, so its sockets would all pass for those of one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "TOGETHER", -1.0)
        yield


@pytest.fixture(scope="module")
def proc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The real /proc, with a few of its processes: a pass over all would take minutes for all trees."""
    folder = tmp_path_factory.mktemp("proc")
    with subprocess.Popen(["sleep", "600"], cwd="/", user=LIVING) as living:
        own, other = f"/proc/{os.getpid()}", f"/proc/{living.pid}"
        # process 1 may be one that root of a container cannot look into
        names = {"1": other, str(os.getpid()): own, "self": own, "locks": "/proc/locks"}
        for name, target in names.items():
            (folder / name).symlink_to(target)
        yield folder
        living.kill()


def swept(here: Tree, proc: Path, dry: bool = False) -> sweep.Swept:
    kinds = [kind for kind in patterns.KINDS if kind not in (*patterns.ASKED_ONLY, patterns.SYSV)]
    known = patterns.known(str(here.root / "shm"), [str(here.root / "tmp")])
    runs = [Run("mooncake-pd-p1.service", ended=here.over)]
    return sweep.Sweep(sweep.Wanted([GONE, LIVING], known, kinds, str(proc)), lambda: runs, dry).run(
        lambda _evidence, _runs: False
    )


def proven_dead(here: Tree) -> set[Path]:
    return {path for path, thing in here.paths.items() if thing.is_leftover}


def check(things: list[Thing], proc: Path) -> None:
    with tree(things) as here:
        before, expected = here.there, proven_dead(here) & here.there
        told = swept(here, proc, dry=True)
        assert here.there == before
        done = swept(here, proc)
        assert before - here.there == expected
        assert {Path(row["path"]) for row in done.removed} == expected == {Path(row["path"]) for row in told.removed}
        assert {Path(row["path"]) for row in done.kept} <= here.there
        assert not done.unknown
        assert all(
            path.read_text() == "precious" for path in (here.root / "other").glob("*") if path.stat().st_size < 9
        )
        assert swept(here, proc).removed == []


@settings(max_examples=200)
@given(things=st.lists(THINGS, max_size=14))
def test_every_leftover_goes_and_nothing_else(proc: Path, things: list[Thing]) -> None:
    check(things, proc)


@settings(max_examples=40)
@given(things=st.lists(THINGS, max_size=14))
def test_the_pass_over_processes_is_enough(proc: Path, things: list[Thing]) -> None:
    """As on a file system without leases."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remove, "_lease", no_lease)
        check(things, proc)


@contextmanager
def no_lease(_handle: int) -> Iterator[bool]:
    yield True


def leases() -> bool:
    with tempfile.NamedTemporaryFile() as file, open(file.name, "rb") as other:
        os.chown(file.name, GONE, GONE)
        try:
            fcntl.fcntl(other, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN
    return False


@settings(max_examples=40)
@given(things=st.lists(THINGS.filter(lambda thing: thing.state not in ("bound", "datagram")), max_size=14))
def test_the_kernel_s_word_is_enough(proc: Path, things: list[Thing]) -> None:
    """As for processes that began to use a file after the pass, or that it does not show."""
    if not leases():
        pytest.skip("root has no CAP_LEASE here")

    def blind(entries: Any, proc_dir: str, systems: Any) -> Evidence:
        found = look(entries, proc_dir, systems)
        found.open, found.mapped, found.mapped_paths, found.locked, found.bound = {}, {}, {}, {}, {}
        return found

    look = sweep.look
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "look", blind)
        with tree(things) as here:
            alive = here.there - proven_dead(here)
            swept(here, proc)
            assert alive <= here.there


def test_a_file_that_was_opened_after_the_first_look_stays(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    things = [Thing("file", 0, "left", GONE), Thing("file", 1, "left", GONE)]
    with tree(things) as here, ExitStack() as held:
        first, second = here.paths
        look, looks = sweep.look, []

        def look_then_open(*arguments: Any) -> Evidence:
            found = look(*arguments)
            if not looks:
                held.enter_context(first.open("rb"))
            looks.append(1)
            return found

        monkeypatch.setattr(sweep, "look", look_then_open)
        monkeypatch.setattr(remove, "_lease", no_lease)
        done = swept(here, proc)
    assert [row["path"] for row in done.removed] == [str(second)]
    assert [(row["path"], row["why"], row["pid"]) for row in done.kept] == [(str(first), "open", os.getpid())]


@pytest.mark.parametrize("how", ["another file", "written", "given away", "a link"])
def test_what_changed_since_the_last_look_stays(proc: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tree([Thing("file", 0, "left", GONE)]) as here:
        (path,) = here.paths
        rename = here.root / "shm" / "fresh"
        act = remove.remove

        def exchange(entry: find.Entry, dry: bool) -> Any:
            if how == "another file":
                rename.write_bytes(b"x" * 4096)
                os.chown(rename, GONE, GONE)
                rename.replace(path)
            elif how == "written":
                path.write_bytes(b"y" * 4096)
            elif how == "given away":
                os.chown(path, STRANGER, STRANGER)
            else:
                path.unlink()
                path.symlink_to(here.root / "probe")
            return act(entry, dry)

        monkeypatch.setattr(remove, "remove", exchange)
        done = swept(here, proc)
        assert done.removed == []
        assert [row["why"] for row in done.kept] == [remove.CHANGED]
        assert os.path.lexists(path)


def test_a_holder_is_named(proc: Path) -> None:
    code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(); input()"
    with tree([]) as here:
        path = here.root / "tmp" / UUID.format(1)
        with subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout
            other.stdout.readline()
            os.chown(path, GONE, GONE)
            here.over = here.now()
            (proc / str(other.pid)).symlink_to(f"/proc/{other.pid}")
            (row,) = swept(here, proc).kept
            (proc / str(other.pid)).unlink()
            other.kill()
    assert (row["why"], row["pid"]) == ("bound", other.pid)
    assert "import socket" in row["command"]


def test_a_folder_goes_with_all_that_is_in_it_or_stays(proc: Path) -> None:
    with tree([]) as here, socket.socket(socket.AF_UNIX) as own:
        dead, live = here.root / "tmp" / "pymp-0123abcd", here.root / "tmp" / "pymp-live0000"
        for folder in (dead, live):
            folder.mkdir()
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(folder / "listener-1"))
        own.bind(str(live / "listener-2"))
        for path in [*here.root.rglob("pymp-*"), *here.root.rglob("listener-*")]:
            os.chown(path, GONE, GONE)
        here.over = here.now()
        done = swept(here, proc)
        assert {row["path"] for row in done.removed} == {f"{dead}", f"{dead}/listener-1", f"{live}/listener-1"}
        assert {(row["path"], row["why"]) for row in done.kept} == {
            (f"{live}", "not empty"),
            (f"{live}/listener-2", "bound"),
        }
