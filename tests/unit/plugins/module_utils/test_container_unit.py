# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils import container_unit, unit_file
from ansible_collections.mooncake.pd.plugins.module_utils.unit_file import UnitFileError

NAME = "mooncake-pd-p1.service"
UNIT: dict[str, Any] = {
    "name": NAME,
    "description": "prefill",
    "argv": ["vllm", "serve", "/m", "--kv-transfer-config", '{"a": "$b %c"}'],
    "environment": {"B": "2 x", "A": "1", "LD_PRELOAD": "/usr/lib64/libjemalloc.so.2"},
    "timeout_stop": 50,
}
DEFAULTS = {
    "Unit": {"StartLimitBurst": "3"},
    "Service": {
        "Type": "exec",
        "User": "mooncake",
        "Group": "mooncake",
        "SupplementaryGroups": "HwHiAiUser video",
        "NoNewPrivileges": "true",
        "Restart": "always",
        "LimitMEMLOCK": "infinity",
        "LimitNOFILE": "1024:1M",
        "LimitNICE": "40",
    },
}


def rendered(runtime: str = "podman", unit: dict[str, Any] | None = None, **container: Any) -> str:
    asked = {"runtime": runtime, "executable": f"/usr/bin/{runtime}", "image": "localhost/i:1", **container}
    planned, defaults = container_unit.contained({**UNIT, **(unit or {})}, asked, DEFAULTS, "/run/mooncake-pd")
    return unit_file.render(planned, None, defaults, None, "/var/log/x").text


def value(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


def command(text: str) -> list[str]:
    """As systemd hands it to the runtime."""
    (line,) = value(text, "ExecStart")
    return [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(line)]


def test_program_and_its_arguments_reach_the_image_as_they_are() -> None:
    words = command(rendered())
    assert words[:2] == ["/usr/bin/podman", "run"]
    assert words[words.index("localhost/i:1") :] == [
        "localhost/i:1",
        "serve",
        "/m",
        "--kv-transfer-config",
        '{"a": "$b %c"}',
    ]
    assert "--entrypoint=vllm" in words
    assert "--entrypoint=/opt/e/bin/vllm" in command(rendered(executable_dir="/opt/e/bin"))
    absolute = {"argv": ["/x/vllm", "serve"]}
    assert "--entrypoint=/x/vllm" in command(rendered(executable_dir="/opt/e/bin", unit=absolute))


def test_the_environment_is_the_programs_and_not_the_runtimes() -> None:
    text = rendered()
    assert value(text, "Environment") == []
    assert [word for word in command(text) if word.startswith("--env=")] == [
        "--env=A=1",
        "--env=B=2 x",
        "--env=LD_PRELOAD=/usr/lib64/libjemalloc.so.2",
    ]


def test_podman_keeps_the_processes_in_the_unit_and_tells_the_main_one() -> None:
    text = rendered()
    assert {"--cgroups=split", "--sdnotify=conmon", "--detach", "--log-driver=passthrough"} <= set(command(text))
    assert (value(text, "Type"), value(text, "NotifyAccess"), value(text, "Delegate")) == (["notify"], ["all"], ["yes"])
    # what belongs to the unit stays
    assert (value(text, "Restart"), value(text, "StartLimitBurst"), value(text, "KillMode")) == (
        ["always"],
        ["3"],
        ["mixed"],
    )


def test_docker_is_followed_by_its_client_and_found_by_its_file() -> None:
    text = rendered("docker")
    words = command(text)
    assert value(text, "Type") == ["exec"]
    assert value(text, "Delegate") == []
    assert "--cidfile=/run/mooncake-pd/mooncake-pd-p1/cid" in words
    assert "--log-driver=none" in words
    assert not {"--detach", "--cgroups=split", "--sdnotify=conmon"} & set(words)


@pytest.mark.parametrize("runtime", ["podman", "docker"])
def test_it_stops_before_systemd_kills_and_takes_only_its_own_away(runtime: str) -> None:
    text = rendered(runtime)
    assert value(text, "TimeoutStopSec") == ["50"]
    assert value(text, "ExecStop") == [f'/bin/sh -c "/usr/bin/{runtime} stop --time=45 mooncake-pd-p1 >/dev/null"']
    _mark, clean = value(text, "ExecStartPre")
    assert value(text, "ExecStopPost") == [clean]
    assert f"ps -aq --filter label=mooncake-pd.unit={NAME})" in clean
    assert f"--label=mooncake-pd.unit={NAME}" in command(text)
    assert "--stop-signal=SIGTERM" in command(text)


def test_user_and_rights_are_for_the_program_only() -> None:
    text = rendered()
    for key in ("User", "Group", "SupplementaryGroups", "NoNewPrivileges"):
        assert value(text, key) == []
    assert "--security-opt=no-new-privileges" in command(text)
    assert not [word for word in command(text) if word.startswith(("--user", "--group-add"))]
    words = command(rendered(user="1000:1000"))
    assert {"--user=1000:1000", "--group-add=HwHiAiUser", "--group-add=video"} <= set(words)


def test_limits_of_the_unit_are_limits_of_the_container() -> None:
    text = rendered()
    limits = [word for word in command(text) if word.startswith("--ulimit=")]
    assert limits == ["--ulimit=memlock=-1:-1", "--ulimit=nofile=1024:1048576"]
    # and of the unit, below which nothing can be raised
    assert value(text, "LimitMEMLOCK") == ["infinity"]
    own = {"sections": {"Service": {"LimitNOFILE": 4096, "LimitMEMLOCK": None}}}
    assert [word for word in command(rendered(unit=own)) if word.startswith("--ulimit=")] == [
        "--ulimit=nofile=4096:4096"
    ]
    with pytest.raises(UnitFileError, match="LimitNOFILE: 'many' is neither infinity nor a number"):
        rendered(unit={"sections": {"Service": {"LimitNOFILE": "many"}}})


def test_devices_mounts_memory_and_arguments_of_the_operator_last() -> None:
    words = command(rendered(devices=["/dev/davinci0"], mounts=["/a:/a:ro"], shm_size="16g", args=["--pids-limit=5"]))
    assert {"--device=/dev/davinci0", "--volume=/a:/a:ro", "--shm-size=16g"} <= set(words)
    assert "--ipc=host" not in words
    assert words.index("--pids-limit=5") > words.index("--pids-limit=-1")
    assert {"--ipc=host", "--network=host", "--pull=never"} <= set(command(rendered()))


def test_what_else_the_unit_has_is_kept() -> None:
    own = {"sections": {"Service": {"ExecStartPre": ["/bin/true"]}, "Install": {"WantedBy": "x.target"}}}
    text = rendered(unit=own)
    assert value(text, "ExecStartPre")[1] == "/bin/true"
    assert value(text, "WantedBy") == ["x.target"]


@pytest.mark.parametrize(
    ("container", "argv", "said"),
    [
        ({"image": ""}, ["vllm"], "container.image is missing"),
        ({"mounts": ["a:/a"]}, ["vllm"], "container.mounts: 'a:/a' does not begin with a full path"),
        ({"devices": ["davinci0"]}, ["vllm"], "container.devices: 'davinci0' does not begin"),
        ({}, [], "argv is empty"),
    ],
)
def test_what_cannot_be_run(container: dict[str, Any], argv: list[str], said: str) -> None:
    asked = {"runtime": "podman", "executable": "/usr/bin/podman", "image": "i", **container}
    with pytest.raises(UnitFileError, match=said):
        container_unit.check(asked, argv)
