# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.mooncake.pd.plugins.modules import units

from .conftest import RunModule

P1, P2 = "mooncake-pd-p1.service", "mooncake-pd-p2.service"
HEADER = "# Managed by mooncake.pd: changes by hand are lost\n"


class Systemd:
    """systemctl over a folder of unit files: a started unit runs the digest of its file at the last daemon-reload."""

    def __init__(self, root: Path) -> None:
        self.units, self.run_dir, self.logs = root / "units", root / "run", root / "log"
        for folder in (self.units, self.run_dir, self.logs):
            folder.mkdir()
        self.calls: list[str] = []
        self.active: dict[str, str] = {}
        self.enabled: set[str] = set()
        self.loaded: dict[str, str] = {}
        self.crash: set[str] = set()
        self.fragments: dict[str, str] = {}
        self.booted = True

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        if not self.booted:
            return 1, "", "System has not been booted with systemd as init system"
        if command[0] == "journalctl":
            return 0, "", ""
        verb, names = command[1], command[command.index("--") + 1 :] if "--" in command else []
        if verb == "show":
            return 0, "\n".join(self.block(name) for name in names), ""
        self.calls.append(" ".join([verb, *names]))
        return getattr(self, verb.replace("-", "_"))(names)  # type: ignore[no-any-return]

    def block(self, name: str) -> str:
        file = self.units / name
        fragment = self.fragments.get(name, str(file) if file.exists() else "")
        state = self.active.get(name, "inactive")
        stale = name in self.loaded and (not file.exists() or file.read_text() != self.loaded[name])
        rows = [
            f"Id={name}",
            f"LoadState={'loaded' if fragment else 'not-found'}",
            f"ActiveState={state}",
            f"FragmentPath={fragment}",
            f"UnitFileState={'enabled' if name in self.enabled else ''}",
            f"NeedDaemonReload={'yes' if stale else 'no'}",
            f"InvocationID={'c' * 32}",
        ]
        if state == "failed":
            rows += ["Result=exit-code", "ExecMainCode=1", "ExecMainStatus=203"]
        return "\n".join(rows) + "\n"

    def daemon_reload(self, names: list[str]) -> tuple[int, str, str]:
        self.loaded = {file.name: file.read_text() for file in self.units.iterdir()}
        return 0, "", ""

    def start(self, names: list[str]) -> tuple[int, str, str]:
        for name in names:
            if name in self.crash:
                self.active[name] = "failed"
                continue
            self.active[name] = "active"
            digest = hashlib.sha256((self.units / name).read_bytes()).hexdigest()
            (self.run_dir / name[:-8]).mkdir(exist_ok=True)
            (self.run_dir / name[:-8] / "digest").write_text(digest + "\n")
        return (1, "", "Job failed.") if self.crash & set(names) else (0, "", "")

    restart = start

    def stop(self, names: list[str]) -> tuple[int, str, str]:
        for name in names:
            self.active[name] = "inactive"
            shutil.rmtree(self.run_dir / name[:-8], ignore_errors=True)
        return 0, "", ""

    def enable(self, names: list[str]) -> tuple[int, str, str]:
        self.enabled |= set(names)
        return 0, "", ""

    def disable(self, names: list[str]) -> tuple[int, str, str]:
        self.enabled -= set(names)
        return 0, "", ""

    def reset_failed(self, names: list[str]) -> tuple[int, str, str]:
        forgotten = [name for name in names if self.active.get(name, "inactive") == "inactive"]
        return (1, "", f"Unit {forgotten[0]} not loaded.") if forgotten else (0, "", "")


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    made = Systemd(tmp_path)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda self, command: made(command))
    monkeypatch.setattr(AnsibleModule, "tmpdir", str(tmp_path))
    monkeypatch.setattr(AnsibleModule, "atomic_move", lambda self, source, target: os.replace(source, target))
    monkeypatch.setattr(units, "UNIT_DIR", str(made.units))
    monkeypatch.setattr(units, "RUN_DIR", str(made.run_dir))
    return made


def plan(*names: str, port: int = 8100) -> dict[str, Any]:
    made = [{"name": name, "argv": ["vllm", "--port", str(port)]} for name in names or (P1, P2)]
    return {"units": made, "executable_dir": "/opt/venv/bin"}


def told(answer: dict[str, Any], key: str) -> list[str]:
    return [unit["name"] for unit in answer["units"] if unit[key]]


def test_first_start_starts_all_in_one_call_and_the_second_changes_nothing(
    run_module: RunModule, systemd: Systemd
) -> None:
    answer = run_module(units, **plan())
    assert answer["changed"]
    assert told(answer, "started") == [P1, P2]
    assert [unit["active_state"] for unit in answer["units"]] == ["active", "active"]
    assert [unit["invocation_id"] for unit in answer["units"]] == ["c" * 32] * 2
    assert systemd.calls == ["daemon-reload", f"enable {P1} {P2}", f"start {P1} {P2}"]
    assert (systemd.units / P1).stat().st_mode & 0o777 == 0o644
    assert [entry["before"] for entry in answer["diff"]] == ["", ""]
    assert "ExecStart=/opt/venv/bin/vllm --port 8100" in answer["diff"][0]["after"]

    systemd.calls.clear()
    again = run_module(units, **plan())
    assert not again["changed"]
    assert again["diff"] == []
    assert systemd.calls == []


def test_check_mode_on_a_fresh_host_tells_and_touches_nothing(run_module: RunModule, systemd: Systemd) -> None:
    answer = run_module(units, check=True, log_dir="/var/log/not-there-yet", **plan())
    assert answer["changed"]
    assert told(answer, "started") == [P1, P2]
    assert answer["diff"][1]["after_header"].endswith(P2)
    assert systemd.calls == []
    assert list(systemd.units.iterdir()) == []


def test_only_what_runs_something_else_is_restarted(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan())
    changed = plan()
    changed["units"][1]["argv"].append("--more")
    systemd.calls.clear()
    assert told(run_module(units, check=True, **changed), "restarted") == [P2]
    answer = run_module(units, **changed)
    assert (told(answer, "changed"), told(answer, "restarted"), told(answer, "started")) == ([P2], [P2], [])
    assert systemd.calls == ["daemon-reload", f"reset-failed {P2}", f"restart {P2}"]


def test_unit_changed_by_hand_and_restarted_is_put_right(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan())
    file = systemd.units / P1
    file.write_text(file.read_text().replace("--port 8100", "--port 9999"))
    systemd(["systemctl", "restart", "--", P1])
    assert told(run_module(units, **plan()), "restarted") == [P1]
    assert "--port 8100" in file.read_text()


def test_owed_restart_is_not_forgotten(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan())
    kept = run_module(units, on_change="keep", **plan(port=8101))
    assert kept["changed"]
    assert told(kept, "outdated") == [P1, P2]
    assert not run_module(units, on_change="keep", **plan(port=8101))["changed"]
    assert told(run_module(units, state="present", **plan(port=8101)), "outdated") == [P1, P2]
    assert told(run_module(units, **plan(port=8101)), "restarted") == [P1, P2]
    assert told(run_module(units, **plan(port=8101)), "outdated") == []


def test_running_unit_that_does_not_say_what_it_runs_is_restarted(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan())
    (systemd.run_dir / "mooncake-pd-p1" / "digest").unlink()
    assert told(run_module(units, **plan()), "restarted") == [P1]


def test_stale_systemd_is_reloaded(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan(P1))
    systemd.loaded[P1] = "old"
    systemd.calls.clear()
    run_module(units, **plan(P1))
    assert systemd.calls == ["daemon-reload"]


def test_failed_unit_is_reset_first(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan())
    systemd.active[P1] = "failed"
    systemd.calls.clear()
    run_module(units, **plan())
    assert systemd.calls == [f"reset-failed {P1}", f"start {P1}"]


def test_starts_by_hand_do_not_count_for_the_limit_of_starts(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan(P1))
    assert not any(call.startswith("reset-failed") for call in systemd.calls)  # systemd knew nothing of it
    systemd.calls.clear()
    run_module(units, **plan(port=8101))  # P2 is new
    assert systemd.calls[-3:] == [f"reset-failed {P1}", f"start {P2}", f"restart {P1}"]
    systemd.stop([P1])
    systemd.calls.clear()
    answer = run_module(units, **plan(P1, port=8101))  # systemd may have forgotten it since
    assert systemd.calls == [f"reset-failed {P1}", f"start {P1}"]
    assert told(answer, "started") == [P1]


def test_digest_is_not_read_through_a_link(run_module: RunModule, systemd: Systemd, tmp_path: Path) -> None:
    run_module(units, **plan(P1))
    digest = systemd.run_dir / "mooncake-pd-p1" / "digest"
    digest.rename(tmp_path / "elsewhere")
    digest.symlink_to(tmp_path / "elsewhere")
    assert told(run_module(units, **plan(P1)), "restarted") == [P1]


def test_failed_start_names_the_unit_why_and_its_last_lines(run_module: RunModule, systemd: Systemd) -> None:
    systemd.crash = {P2}
    (systemd.logs / "mooncake-pd-p2.log").write_text(
        f"--- mooncake-pd start unit={P2} invocation={'c' * 32} digest=0123456789ab\nlast words\n"
    )
    answer = run_module(units, log_dir=str(systemd.logs), **plan())
    assert answer["failed"]
    assert answer["changed"]
    assert f"{P2} did not start: failed, exit status 203/EXEC, result exit-code." in answer["msg"]
    assert "What to do: The program of ExecStart is missing" in answer["msg"]
    assert "  last words" in answer["msg"]
    assert P1 not in answer["msg"]


@pytest.mark.parametrize("state", ["started", "stopped", "present", "absent"])
def test_foreign_files_are_never_touched(run_module: RunModule, systemd: Systemd, state: str) -> None:
    (systemd.units / P2).write_text("[Service]\nExecStart=/bin/mine\n")
    answer = run_module(units, state=state, **plan())
    assert answer["failed"]
    assert "Nothing was changed." in answer["msg"]
    assert f"{systemd.units / P2} was not written by mooncake.pd" in answer["msg"]
    assert systemd.calls == []
    assert [file.name for file in systemd.units.iterdir()] == [P2]


def test_all_problems_are_told_at_once(run_module: RunModule, systemd: Systemd) -> None:
    (systemd.units / P1).symlink_to("/dev/null")
    bad = [{"name": P1, "argv": ["vllm"]}, {"name": P2, "argv": ["vllm", "a\nb"]}, {"name": "x", "argv": ["y"]}]
    answer = run_module(units, units=[*bad, bad[0]], executable_dir="/opt")
    for text in ("masked", "U+000A", "'x' is no plain name", f"{P1}: listed 2 times"):
        assert text in answer["msg"]


def test_unit_of_a_package_is_foreign_too(run_module: RunModule, systemd: Systemd) -> None:
    systemd.fragments[P1] = "/lib/systemd/system/mooncake-pd-p1.service"
    answer = run_module(units, **plan())
    assert answer["failed"]
    assert "/lib/systemd/system/mooncake-pd-p1.service" in answer["msg"]


def test_stopped_keeps_the_file(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan())
    systemd.calls.clear()
    answer = run_module(units, state="stopped", **plan())
    assert told(answer, "stopped") == [P1, P2]
    assert systemd.calls == [f"stop {P1} {P2}"]
    assert not run_module(units, state="stopped", **plan())["changed"]
    assert (systemd.units / P1).exists()


def test_absent_needs_only_names(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan(port=8101))
    run_module(units, **plan())
    systemd.calls.clear()
    gone = {"units": [{"name": P1}, {"name": P2}], "state": "absent"}
    assert run_module(units, check=True, **gone)["changed"]
    answer = run_module(units, **gone)
    assert told(answer, "stopped") == [P1, P2]
    assert systemd.calls == [f"stop {P1} {P2}", f"disable {P1} {P2}", "daemon-reload"]
    assert list(systemd.units.iterdir()) == []
    assert not run_module(units, **gone)["changed"]


def test_what_ran_before_can_be_put_back(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan(P1))
    run_module(units, **plan(P1, port=8101))
    systemd.calls.clear()
    assert told(run_module(units, check=True, units=[{"name": P1}], state="previous"), "restarted") == [P1]
    assert systemd.calls == []
    answer = run_module(units, units=[{"name": P1}], state="previous")
    assert told(answer, "restarted") == [P1]
    assert "--port 8100" in (systemd.units / P1).read_text()
    assert not run_module(units, units=[{"name": P1}], state="previous")["changed"]


def test_what_never_ran_is_not_what_ran_before(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan(P1))
    systemd.crash.add(P1)
    assert run_module(units, **plan(P1, port=8101))["failed"]
    systemd(["systemctl", "stop", "--", P1])
    assert run_module(units, **plan(P1, port=8102))["failed"]
    systemd.crash.clear()
    assert told(run_module(units, units=[{"name": P1}], state="previous"), "started") == [P1]
    assert "--port 8100" in (systemd.units / P1).read_text()


def test_a_stop_with_other_settings_keeps_what_ran(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan(P1))
    run_module(units, state="stopped", **plan(P1, port=8101))
    run_module(units, units=[{"name": P1}], state="previous")
    assert "--port 8100" in (systemd.units / P1).read_text()


def test_without_anything_before_nothing_is_changed(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan(P1))
    systemd.calls.clear()
    answer = run_module(units, units=[{"name": P1}], state="previous")
    assert "nothing ran before" in answer["msg"]
    assert systemd.calls == []


def test_not_enabled(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, enabled=False, **plan(P1))
    assert not any(call.startswith(("enable", "disable")) for call in systemd.calls)
    systemd.enabled.add(P1)
    assert told(run_module(units, enabled=False, **plan(P1)), "changed") == [P1]
    assert systemd.enabled == set()


def test_host_without_systemd(run_module: RunModule, systemd: Systemd) -> None:
    systemd.booted = False
    answer = run_module(units, **plan())
    assert answer["failed"]
    assert "booted with systemd" in answer["msg"]


def test_header_is_the_first_line(run_module: RunModule, systemd: Systemd) -> None:
    run_module(units, **plan(P1))
    assert (systemd.units / P1).read_text().startswith(HEADER)


def test_in_a_container_the_unit_runs_the_runtime_and_the_rest_stays(run_module: RunModule, systemd: Systemd) -> None:
    asked = {
        "units": [{"name": P1, "argv": ["vllm", "serve"], "environment": {"A": "own", "B": "own"}}],
        "default_environment": {"A": "least", "C": "least"},
        "environment": {"B": "most"},
        "defaults": {"Service": {"User": "mooncake", "Restart": "always"}},
        "executable_dir": "/opt/engine/bin",
        "container": {"image": "localhost/i:1"},
    }
    answer = run_module(units, **asked)
    assert answer["changed"]
    text = (systemd.units / P1).read_text()
    start = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert re.match(r"ExecStart=/\S+/podman run ", start)
    # the executable_dir is of the host
    assert start.endswith("--env=A=own --env=B=most --env=C=least --entrypoint=vllm localhost/i:1 serve")
    assert "User=" not in text
    assert "Restart=always" in text
    assert not run_module(units, **asked)["changed"]
    other = run_module(units, **{**asked, "container": {"image": "localhost/i:2"}})
    assert other["units"][0]["restarted"]


def test_a_container_that_cannot_be_run_changes_nothing(run_module: RunModule, systemd: Systemd) -> None:
    container = {"image": "i", "mounts": ["relative:/x"]}
    answer = run_module(units, units=[{"name": P1, "argv": ["vllm"]}], container=container)
    assert answer["failed"]
    assert f"{P1}: container.mounts: 'relative:/x' does not begin with a full path" in answer["msg"]
    # for a unit that goes, its program does not matter
    assert not run_module(units, units=[{"name": P1}], state="absent", container={"image": "i"})["failed"]


def with_file(path: Path, content: str = "{}\n", **more: Any) -> dict[str, Any]:
    made = plan(P1)
    made["units"][0]["files"] = [{"path": str(path), "content": content}]
    return {**made, **more}


def test_a_file_of_a_unit_is_there_before_it_starts_and_the_second_run_changes_nothing(
    run_module: RunModule, systemd: Systemd, tmp_path: Path
) -> None:
    path = tmp_path / "etc" / "pool" / "mooncake-1.json"
    answer = run_module(units, **with_file(path))
    assert path.read_text() == "{}\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert (answer["diff"][1]["after"], answer["diff"][1]["before_header"]) == ("{}\n", f"{path} (absent)")
    again = run_module(units, **with_file(path))
    assert (again["changed"], again["diff"]) == (False, [])


def test_a_file_changed_by_hand_is_put_right_without_a_restart(
    run_module: RunModule, systemd: Systemd, tmp_path: Path
) -> None:
    path = tmp_path / "mooncake-1.json"
    run_module(units, **with_file(path))
    path.write_text('{"a": 1}')
    path.chmod(0o600)
    systemd.calls.clear()
    dry = run_module(units, check=True, **with_file(path))
    assert dry["changed"]
    assert path.read_text() == '{"a": 1}'
    answer = run_module(units, **with_file(path))
    assert (answer["changed"], systemd.calls) == (True, [])
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("{}\n", 0o644)


def test_everybody_reaches_a_file_whatever_umask_root_has(
    run_module: RunModule, systemd: Systemd, tmp_path: Path
) -> None:
    path = tmp_path / "etc" / "pool" / "mooncake-1.json"
    before = os.umask(0o077)
    try:
        run_module(units, **with_file(path))
        assert [place.stat().st_mode & 0o777 for place in (path, *path.parents[:2])] == [0o644, 0o755, 0o755]
        # closed by hand, or by a release that knew no better
        path.parent.chmod(0o700)
        assert run_module(units, check=True, **with_file(path))["changed"]
        assert run_module(units, **with_file(path))["changed"]
        assert path.parent.stat().st_mode & 0o777 == 0o711
        assert not run_module(units, **with_file(path))["changed"]
    finally:
        os.umask(before)


def test_a_container_has_the_files_of_its_own_unit_only(
    run_module: RunModule, systemd: Systemd, tmp_path: Path
) -> None:
    """What is planned of another unit would restart this one, too."""
    made = plan()
    paths = [tmp_path / f"{number}.json" for number, _unit in enumerate(made["units"])]
    for number, unit in enumerate(made["units"]):
        unit["files"] = [{"path": str(paths[number]), "content": "{}"}]
    answer = run_module(units, **made, container={"image": "localhost/i:1", "mounts": ["/data:/data:ro"]})
    assert answer["changed"]
    for number, unit in enumerate(made["units"]):
        text = (systemd.units / unit["name"]).read_text()
        assert f"--volume=/data:/data:ro --volume={paths[number]}:{paths[number]}:ro" in text
        assert [path for path in paths if str(path) in text] == [paths[number]]


def test_the_file_of_the_unit_before_stays_for_a_way_back(
    run_module: RunModule, systemd: Systemd, tmp_path: Path
) -> None:
    one, two = tmp_path / "mooncake-1.json", tmp_path / "mooncake-2.json"
    first, second = with_file(one), with_file(two)
    for made, path in ((first, one), (second, two)):
        made["units"][0]["environment"] = {"MOONCAKE_CONFIG_PATH": str(path)}
        run_module(units, **made)
    back = run_module(units, units=[{"name": P1}], state="previous")
    assert told(back, "restarted") == [P1]
    assert one.exists()
    assert str(one) in (systemd.units / P1).read_text()


def test_files_that_cannot_be_written_end_the_run_before_anything_is_changed(
    run_module: RunModule, systemd: Systemd, tmp_path: Path
) -> None:
    (tmp_path / "link.json").symlink_to("/etc/passwd")
    for made, text in (
        (with_file(tmp_path / "link.json"), "is there and no file"),
        (with_file(Path("relative.json")), "no plain absolute path"),
    ):
        answer = run_module(units, **made)
        assert answer["failed"]
        assert text in answer["msg"]
        assert systemd.calls == []


def test_units_that_want_one_path_differently_are_refused(
    run_module: RunModule, systemd: Systemd, tmp_path: Path
) -> None:
    made = plan()
    for number, unit in enumerate(made["units"]):
        unit["files"] = [{"path": str(tmp_path / "x.json"), "content": str(number)}]
    assert "another unit has" in run_module(units, **made)["msg"]
