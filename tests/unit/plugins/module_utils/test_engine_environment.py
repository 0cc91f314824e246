# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""With a real bash, as the host has it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import engine_environment as env

PATH = "/usr/bin:/bin"


def read(
    *scripts: Path | str, libraries: Iterable[Path] = (), folders: Iterable[Path] = (), **base: str
) -> tuple[env.Answer, str]:
    argv = env.command([str(s) for s in scripts], [str(one) for one in libraries], [str(one) for one in folders])
    given = [f"{name}={value}" for name, value in {"PATH": PATH, **base}.items()]
    done = subprocess.run(["env", "-i", *given, *argv], capture_output=True, text=True, check=False)
    return env.parse(done.stdout), done.stderr


def script(folder: Path, text: str, name: str = "set_env.sh") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_only_what_scripts_set_or_change(tmp_path: Path) -> None:
    one = script(tmp_path, "export HOME_OF=/opt/cann\nINSIDE=1\nexport PATH=/opt/cann/bin:$PATH\n", "one.sh")
    two = script(tmp_path, "export LATER=$HOME_OF/later\nexport TEXT='a=b c'\ncd /\n", "two.sh")
    answer, err = read(one, two)
    assert env.problems(answer, err) == []
    assert env.environment(answer, None, []) == {
        "HOME_OF": "/opt/cann",
        "LATER": "/opt/cann/later",
        "PATH": f"/opt/cann/bin:{PATH}",
        "TEXT": "a=b c",
    }


def test_an_empty_script_is_no_problem_and_gives_nothing(tmp_path: Path) -> None:
    answer, err = read(script(tmp_path, ""))
    assert (env.problems(answer, err), env.environment(answer, None, [])) == ([], {})


def test_the_shells_arguments_are_not_those_of_a_script(tmp_path: Path) -> None:
    # as nnal/atb does it: it reads its arguments, and asks python3 for the rest
    text = 'for word in "$@"; do export SAW="$SAW $word"; done\nexport COUNT=$#\n'
    answer, _err = read(script(tmp_path, text))
    assert env.environment(answer, None, []) == {"COUNT": "0"}


def test_what_a_script_prints_does_not_get_between(tmp_path: Path) -> None:
    answer, err = read(script(tmp_path, "printf 'after\\0X=1\\0\\0'\nread LINE\nexport A=1\n"))
    assert env.environment(answer, None, []) == {"A": "1"}
    assert "X=1" in err


def test_functions_that_a_script_exports_are_no_variables(tmp_path: Path) -> None:
    answer, _err = read(script(tmp_path, "f() { true; }\nexport -f f\nexport A=1\n"))
    assert env.environment(answer, None, []) == {"A": "1"}


def test_no_empty_entry_and_none_twice(tmp_path: Path) -> None:
    text = "export LD_LIBRARY_PATH=/a:/b:$LD_LIBRARY_PATH\nexport PYTHONPATH=/p:/p:$PYTHONPATH\n"
    one = script(tmp_path, text)
    answer, _err = read(one, one)
    assert env.environment(answer, None, []) == {"LD_LIBRARY_PATH": "/a:/b", "PYTHONPATH": "/p"}


def test_the_driver_comes_after_cann_and_stubs_after_the_driver() -> None:
    order = env.folders_in_order(
        [
            "/c/devlib/linux/aarch64",
            "/usr/local/Ascend/driver/lib64/common",
            "/c/runtime/lib64/stub",
            "/c/lib64",
            "/opt/driver/lib64x",
        ]
    )
    assert order == [
        "/c/lib64",
        "/opt/driver/lib64x",
        "/usr/local/Ascend/driver/lib64/common",
        "/c/devlib/linux/aarch64",
        "/c/runtime/lib64/stub",
    ]


def test_folders_that_exist_come_last_but_before_stubs(tmp_path: Path) -> None:
    extra = tmp_path / "lib"
    extra.mkdir()
    one = script(tmp_path, "export LD_LIBRARY_PATH=/c/devlib:/c/lib64\n")
    answer, _err = read(one, folders=[extra, tmp_path / "gone"])
    assert env.environment(answer, None, answer.folders) == {"LD_LIBRARY_PATH": f"/c/lib64:{extra}:/c/devlib"}


def test_jemalloc_is_loaded_before_what_else_is(tmp_path: Path) -> None:
    library = script(tmp_path, "", "libjemalloc.so.2")
    one = script(tmp_path, f"export LD_PRELOAD=/x.so:{library}\n")
    answer, _err = read(one, libraries=[tmp_path / "gone", library])
    assert answer.libraries == [str(library)]
    assert env.environment(answer, answer.libraries[0], []) == {"LD_PRELOAD": f"{library}:/x.so"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "set_env.sh is missing or cannot be read"),
        ("echo no toolkit >&2\nreturn 3\n", "set_env.sh ended with code 3 and set nothing: no toolkit"),
        ("echo bye >&2\nexit 0\n", "the shell ended in script 1 of the list, which must not call exit: bye"),
    ],
)
def test_what_is_wrong_with_a_script(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "set_env.sh" if text is None else script(tmp_path, text)
    found = env.problems(*read(path))
    assert len(found) == 1
    assert found[0].endswith(said)


def test_an_exit_code_says_nothing_where_something_was_set(tmp_path: Path) -> None:
    answer, err = read(script(tmp_path, "export A=1\n[ -d /gone ] && export B=1\n"))
    assert env.problems(answer, err) == []


def package(path: str, name: str | None, version: str | None, set_env: str | None) -> dict[str, str | None]:
    return {"path": path, "package": name, "version": version, "set_env": set_env}


def test_scripts_of_the_newest_toolkit_and_of_nnal() -> None:
    packages = [
        package("/A/nnal/atb/9.0.0", "nnal", "9.0.0", "/A/nnal/atb/set_env.sh"),
        package("/A/cann-9.0.0", "ascend_ops", "9.0.0", "/A/cann-9.0.0/set_env.sh"),
        package("/A/cann-9.0.0", "Ascend-cann-toolkit", "9.0.0", "/A/cann-9.0.0/set_env.sh"),
        package("/A/ascend-toolkit/8.3.RC2", "Ascend-cann-toolkit", "8.3.RC2", "/A/ascend-toolkit/set_env.sh"),
        package("/A/cann-9.0.0.rc1", "Ascend-cann-toolkit", "9.0.RC1", "/A/cann-9.0.0.rc1/set_env.sh"),
    ]
    assert env.scripts_of(packages) == ["/A/cann-9.0.0/set_env.sh", "/A/nnal/atb/set_env.sh"]
    assert [one["version"] for one in env.newest(packages)] == ["9.0.0", "9.0.0", "9.0.0", "9.0.RC1", "8.3.RC2"]
    assert env.scripts_of([]) == []
    assert env.scripts_of([package("/A/cann", "cann", None, None)]) == []
