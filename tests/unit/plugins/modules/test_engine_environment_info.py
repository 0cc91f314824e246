# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import cann, engine_environment
from ansible_collections.mooncake.pd.plugins.modules import engine_environment_info

from .conftest import RunModule


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "usr/local/Ascend/cann-9.1.0"
    home.mkdir(parents=True)
    (home / "ascend_toolkit_install.info").write_text("package_name=Ascend-cann-toolkit\nversion=9.1.0\n")
    (home / "set_env.sh").write_text("export ASCEND_HOME_PATH=/usr/local/Ascend/cann-9.1.0\n")
    real = cann.toolkits

    def seen(_files: cann.Files):
        found, problems = real(cann.Files(str(tmp_path)))
        return [{**one, "set_env": str(home / "set_env.sh")} for one in found], problems

    monkeypatch.setattr(cann, "toolkits", seen)
    monkeypatch.setattr(engine_environment, "jemalloc_places", lambda: [str(tmp_path / "libjemalloc.so.2")])
    return tmp_path


def test_finds_cann_and_reads_its_script(host: Path, run_module: RunModule) -> None:
    answer = run_module(engine_environment_info, check=True)
    assert answer["changed"] is False
    assert answer["problems"] == []
    assert answer["cann"] == {"path": "/usr/local/Ascend/cann-9.1.0", "version": "9.1.0"}
    assert answer["scripts"] == [str(host / "usr/local/Ascend/cann-9.1.0/set_env.sh")]
    assert answer["environment"] == {"ASCEND_HOME_PATH": "/usr/local/Ascend/cann-9.1.0"}


def test_no_scripts_and_no_cann(run_module: RunModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cann, "toolkits", lambda files: ([], []))
    answer = run_module(engine_environment_info)
    assert (answer["environment"], answer["problems"], answer["cann"], answer["scripts"]) == ({}, [], None, [])


@pytest.mark.parametrize("wanted", ["auto", True, "yes"])
def test_jemalloc_that_is_there(host: Path, run_module: RunModule, wanted: object) -> None:
    library = host / "libjemalloc.so.2"
    library.touch()
    answer = run_module(engine_environment_info, jemalloc=wanted, scripts=[])
    assert (answer["problems"], answer["environment"]) == ([], {"LD_PRELOAD": str(library)})


def test_jemalloc_that_is_not_there(host: Path, run_module: RunModule) -> None:
    assert run_module(engine_environment_info, jemalloc="auto", scripts=[])["problems"] == []
    answer = run_module(engine_environment_info, jemalloc=True)
    assert answer["problems"] == [f"jemalloc is not installed: there is no {host}/libjemalloc.so.2"]
    # half an environment is worse than none
    assert answer["environment"] == {}
    other = run_module(engine_environment_info, jemalloc=f"{host}/other.so", scripts=[])
    assert other["problems"] == [f"jemalloc is not installed: there is no {host}/other.so"]
    assert run_module(engine_environment_info, jemalloc="maybe")["failed"]


def test_a_script_that_is_named_must_be_there(host: Path, run_module: RunModule) -> None:
    answer = run_module(engine_environment_info, scripts=[f"{host}/gone.sh"])
    assert answer["problems"] == [f"{host}/gone.sh is missing or cannot be read"]


def test_what_scripts_see_is_returned_only_where_it_changes(host: Path, run_module: RunModule) -> None:
    script = host / "x.sh"
    script.write_text('export PATH="/x:$PATH" SEEN="$GIVEN"\n')
    answer = run_module(engine_environment_info, scripts=[str(script)], base={"PATH": "/e:/usr/bin:/bin", "GIVEN": 1})
    assert answer["environment"] == {"PATH": "/x:/e:/usr/bin:/bin", "SEEN": "1"}


def test_nothing_of_ansibles_own_environment_is_seen(
    host: Path, run_module: RunModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_ANSIBLE", "1")
    script = host / "x.sh"
    script.write_text('export SEEN="none$OF_ANSIBLE"\n')
    assert run_module(engine_environment_info, scripts=[str(script)])["environment"] == {"SEEN": "none"}


def test_in_a_container_scripts_are_where_the_installers_put_them(host: Path, run_module: RunModule) -> None:
    # the image has an environment of its own, and none of the usual scripts
    answer = run_module(engine_environment_info, prefix=["env", "OF_IMAGE=1", "LD_LIBRARY_PATH=/i"])
    assert (answer["environment"], answer["problems"], answer["scripts"]) == ({}, [], [])
    script = host / "x.sh"
    script.write_text("export LD_LIBRARY_PATH=/c:$LD_LIBRARY_PATH OF_IMAGE\n")
    answer = run_module(
        engine_environment_info, prefix=["env", "OF_IMAGE=1", "LD_LIBRARY_PATH=/i"], scripts=[str(script)]
    )
    assert answer["environment"] == {"LD_LIBRARY_PATH": "/c:/i"}


def test_a_shell_that_cannot_be_run(host: Path, run_module: RunModule) -> None:
    answer = run_module(engine_environment_info, prefix=["/gone/podman"])
    assert answer["problems"][0].startswith("the shell that reads the scripts ended with code 127: ")
