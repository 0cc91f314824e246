# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.module_utils import unit_file
from ansible_collections.mooncake.pd.plugins.module_utils.unit_file import UnitFileError, decide, render
from ansible_collections.mooncake.pd.plugins.module_utils.unit_log import FileLog

DIR = "/opt/venv/bin"


def unit(**changes: Any) -> dict[str, Any]:
    return {"name": "mooncake-pd-p1.service", "argv": ["vllm", "serve", "/models/tiny"], **changes}


# ---- systemd's rules once more, written independently: quoting (systemd.syntax(7)), then specifiers (systemd.unit(5)),
# ---- then variables (systemd.service(5))


def words(line: str) -> Iterator[str]:
    position = 0
    while position < len(line):
        if line[position] in " \t":
            position += 1
            continue
        word, quote = "", ""
        while position < len(line):
            char = line[position]
            if char == "\\":
                follower = line[position + 1]
                if follower not in "\\\"'":
                    raise AssertionError(f"an escape this module should not write: \\{follower}")
                word += follower
                position += 2
                continue
            position += 1
            if quote:
                if char == quote:
                    quote = ""
                else:
                    word += char
            elif char in "\"'":
                quote = char
            elif char in " \t":
                break
            else:
                word += char
        assert not quote
        yield word


def without_specifiers(word: str) -> str:
    assert not re.search(r"(?<!%)(?:%%)*%(?!%)", word), f"a specifier in {word!r}"
    return word.replace("%%", "%")


def without_variables(word: str) -> str:
    assert not re.search(r"(?<!\$)(?:\$\$)*\$(?!\$)", word), f"a variable in {word!r}"
    return word.replace("$$", "$")


def values(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.partition("=")[0] == key]


TEXT = st.text(st.characters(blacklist_categories=("Cc", "Cs"), blacklist_characters="\u2028\u2029"), max_size=30)
TRICKY = st.text(st.sampled_from(list("%$\\\"' ;#{}a=-~|&<>`*?!")), max_size=12)


@given(st.lists(TEXT | TRICKY, max_size=5))
@example(["", ";", "%n", "$HOME", "${X}", "$$", "%%", "\\", "it's", 'a "b"', "a\\nb", '{"kv_port": "20%"}'])
def test_arguments_come_back_as_they_were(arguments: list[str]) -> None:
    (line,) = values(render(unit(argv=["vllm", *arguments]), DIR).text, "ExecStart")
    read = [without_variables(without_specifiers(word)) for word in words(line)]
    assert read == ["/opt/venv/bin/vllm", *arguments]
    # systemd takes a bare ; for the end of the command; inside of quotes it is one character as any
    bare = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    assert not re.search(r"(^|\s);(\s|$)", bare)


@given(TEXT | TRICKY)
@example("$HOME %h")
def test_environment_comes_back_as_it_was(value: str) -> None:
    text = render(unit(environment={"X_1": value}), DIR).text
    line = values(text, "Environment")[0]
    (read,) = words(line)
    assert without_specifiers(read) == f"X_1={value}"


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\tb", "a\0b", "a\x7fb", "a\u2028b", "\ud800"])
def test_control_characters_are_refused_everywhere(bad: str) -> None:
    for change in (
        {"argv": ["vllm", bad]},
        {"environment": {"X": bad}},
        {"description": bad},
        {"sections": {"Service": {"Nice": bad}}},
    ):
        with pytest.raises(UnitFileError, match=r"U\+"):
            render(unit(**change), DIR)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"argv": []}, "argv is empty"),
        ({"argv": ["/opt/my venv/vllm"]}, "no plain absolute path"),
        ({"argv": ["/opt/$X/vllm"]}, "no plain absolute path"),
        ({"argv": ["/opt/%n/vllm"]}, "no plain absolute path"),
        ({"argv": ["/opt/"]}, "no plain absolute path"),
        ({"name": "p1"}, "no plain name of a service"),
        ({"name": "../p1.service"}, "no plain name of a service"),
        ({"name": "p@1.service"}, "no plain name of a service"),
        ({"environment": {"1X": "a"}}, "no name of an environment variable"),
        ({"environment": {"X": True}}, "environment.X: True is no text"),
        ({"environment": {"X": None}}, "environment.X: None is no text"),
        ({"environment": {"X": ["a"]}}, "is no text"),
        ({"sections": {"Service": {"StandardOutput": "null"}}}, "sections.Service.StandardOutput: set by this module"),
        ({"sections": {"Service": {"ExecStart": "/bin/true"}}}, "set by this module"),
        ({"sections": {"Service": "User=x"}}, "expected a section name"),
        ({"sections": {"Serv]ice": {}}}, "expected a section name"),
        ({"sections": {"Service": {"Us er": "x"}}}, "no name of a setting"),
        ({"sections": {"Service": {"User": {"a": 1}}}}, "no text, number"),
        ({"sections": {"Service": {"User": "x\\"}}}, "ends with a backslash"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UnitFileError, match=re.escape(message)):
        render(unit(**change), DIR)


def test_relative_program_needs_a_folder() -> None:
    with pytest.raises(UnitFileError, match="set executable_dir"):
        render(unit())
    assert values(render(unit(argv=["/usr/bin/env"])).text, "ExecStart") == ["/usr/bin/env"]


def test_log_folder_must_be_a_plain_path() -> None:
    with pytest.raises(UnitFileError, match="log_dir"):
        render(unit(), DIR, log_dir="/var/log/a b")


START_PRE = (
    "/bin/sh -ec '"
    "d=$$(sha256sum < /etc/systemd/system/mooncake-pd-p1.service | cut -c -64); "
    'echo "$$d" > /run/mooncake-pd/mooncake-pd-p1/digest; '
    r'printf "%%s unit=%%s invocation=%%s digest=%%.12s\\n" "--- mooncake-pd start" mooncake-pd-p1.service'
    ' "$$INVOCATION_ID" "$$d"'
    "'"
)


def test_whole_unit() -> None:
    made = render(
        unit(description="prefill 100%", environment={"B": 1, "A": "x y"}, timeout_stop=50),
        DIR,
        {"Service": {"User": "pd", "LimitNOFILE": 65536, "PrivateTmp": True}},
        {"A": "wins", "C": "7"},
        "/var/log/pd",
    )
    assert made.text == (
        "# Managed by mooncake.pd: changes by hand are lost\n"
        "[Unit]\n"
        "Description=prefill 100%%\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "\n"
        "[Service]\n"
        "Type=exec\n"
        "Environment=A=wins\n"
        "Environment=B=1\n"
        "Environment=C=7\n"
        "RuntimeDirectory=mooncake-pd/%N\n"
        f"ExecStartPre={START_PRE}\n"
        "ExecStart=/opt/venv/bin/vllm serve /models/tiny\n"
        "KillMode=mixed\n"
        "TimeoutStopSec=50\n"
        "StandardOutput=append:/var/log/pd/mooncake-pd-p1.log\n"
        "StandardError=inherit\n"
        "User=pd\n"
        "LimitNOFILE=65536\n"
        "PrivateTmp=yes\n"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )
    assert hashlib.sha256(made.text.encode()).hexdigest() == made.digest


def test_sections_replace_drop_repeat_and_add() -> None:
    made = render(
        unit(
            sections={
                "Service": {"KillMode": None, "ExecStartPre": ["/bin/a", "/bin/b"], "Nice": 5, "RuntimeDirectory": "x"},
                "Unit": {"After": ["a.service", "b.service"]},
            }
        ),
        DIR,
        {"Service": {"Nice": 1, "KillMode": "process", "Environment": "Z=1"}},
    ).text
    assert values(made, "Nice") == ["5"]
    assert values(made, "KillMode") == []
    assert values(made, "After") == ["a.service", "b.service"]
    assert values(made, "ExecStartPre")[1:] == ["/bin/a", "/bin/b"]
    assert "digest" in values(made, "ExecStartPre")[0]
    assert values(made, "RuntimeDirectory") == ["mooncake-pd/%N", "x"]
    assert values(made, "Environment")[-1] == "Z=1"


def test_without_log_folder_nothing_is_redirected() -> None:
    made = render(unit(), DIR).text
    assert "StandardOutput" not in made
    assert "mooncake-pd start" not in made


def test_start_mark_is_what_the_log_reader_looks_for(tmp_path: Path) -> None:
    """Run the ExecStartPre as systemd would, and read its mark back."""
    made = render(unit(), DIR, log_dir=str(tmp_path))
    command = [without_specifiers(word) for word in words(values(made.text, "ExecStartPre")[0])]
    command = [without_variables(word) for word in command]
    assert command[:2] == ["/bin/sh", "-ec"]
    script = command[2].replace("/run/mooncake-pd/mooncake-pd-p1", str(tmp_path))
    script = script.replace("/etc/systemd/system", str(tmp_path))
    (tmp_path / made.name).write_text(made.text)
    invocation = "ab" * 16
    environment = {**os.environ, "INVOCATION_ID": invocation}
    log = tmp_path / "mooncake-pd-p1.log"
    with log.open("w") as target:
        subprocess.run(["/bin/sh", "-ec", script], env=environment, stdout=target, check=True)
        target.write("first line\n")
    assert (tmp_path / "digest").read_text() == made.digest + "\n"
    assert log.read_text().startswith(
        f"--- mooncake-pd start unit=mooncake-pd-p1.service invocation={invocation} digest={made.digest[:12]}\n"
    )
    assert FileLog(str(log), "mooncake-pd-p1.service", invocation).poll(final=True) == ["first line"]


@pytest.mark.parametrize(
    ("state", "on_change", "running", "runs", "expected"),
    [
        ("started", "restart", False, None, "start"),
        ("started", "keep", False, None, "start"),
        ("started", "restart", True, "planned", "nothing"),
        ("started", "restart", True, "other", "restart"),
        ("started", "restart", True, None, "restart"),
        ("started", "keep", True, "other", "outdated"),
        ("started", "keep", True, None, "outdated"),
        ("present", "restart", False, None, "nothing"),
        ("present", "restart", True, "other", "outdated"),
        ("present", "restart", True, "planned", "nothing"),
        ("stopped", "restart", True, "planned", "stop"),
        ("stopped", "restart", False, None, "nothing"),
        ("absent", "restart", True, "other", "stop"),
        ("absent", "restart", False, None, "nothing"),
    ],
)
def test_decide(state: str, on_change: str, running: bool, runs: str | None, expected: str) -> None:
    assert decide(state, on_change, running, runs, "planned") == expected


def test_is_ours() -> None:
    assert unit_file.is_ours(render(unit(), DIR).text)
    assert not unit_file.is_ours("[Unit]\n# Managed by mooncake.pd: changes by hand are lost\n")
