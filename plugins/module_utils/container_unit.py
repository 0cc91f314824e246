# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A unit whose program runs in a container: the same unit, with a container runtime's command line in place of its own.

podman: --cgroups=split keeps the processes in the unit's control group, and conmon is the unit's main process, so that
systemd and everything that asks it see what they see of a program that runs without a container.
docker: its daemon starts the processes. The client is the main process, it passes signals and output on, and the file
`cid` in the runtime folder tells which container is the unit's.
"""

from __future__ import annotations

import posixpath
from typing import Any, Mapping, Optional, Sequence

from ansible_collections.mooncake.pd.plugins.module_utils.notes import CID
from ansible_collections.mooncake.pd.plugins.module_utils.unit_file import UnitFileError, quote_argument
from ansible_collections.mooncake.pd.plugins.module_utils.unit_log import stem

LABEL = "mooncake-pd.unit"
# The runtime needs root and its own rights; what these ask for the program the command line asks for, where it can.
_OF_THE_PROGRAM = frozenset({"User", "Group", "SupplementaryGroups", "NoNewPrivileges", "WorkingDirectory"})
# setrlimit names of `--ulimit`; systemd.exec(5) has them as LimitNOFILE and so on
_LIMITS = frozenset({"core", "data", "fsize", "locks", "memlock", "msgqueue", "nofile", "nproc", "rss", "stack"})
_YES = ("yes", "true", "on", "1")  # systemd.syntax(7)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# The runtime stops the container a little before systemd would kill the runtime.
_MARGIN = 5
_START_SECONDS = 300


def contained(
    unit: Mapping[str, Any],
    container: Mapping[str, Any],
    defaults: Optional[Mapping[str, Any]],
    run_dir: str,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The unit and the defaults with which the container is started, stopped and removed."""
    name = unit["name"]
    service = {**((defaults or {}).get("Service") or {}), **((unit.get("sections") or {}).get("Service") or {})}
    runtime, kind = container["executable"], container["runtime"]
    cid = posixpath.join(run_dir, stem(name), CID)
    clean = _script(f"rm -f {cid}; {_remove_own(runtime, name)}")
    stop = max(1, int(unit.get("timeout_stop") or 90) - _MARGIN)
    added: dict[str, Any] = {
        "ExecStartPre": [*_texts(service.get("ExecStartPre")), clean],
        # it prints the container's name, which has no place in the log
        "ExecStop": _script(f"{runtime} stop --time={stop} {stem(name)} >/dev/null"),
        "ExecStopPost": clean,
        "TimeoutStartSec": str(_START_SECONDS),
    }
    if kind == "podman":
        # podman makes two groups below the unit's own; conmon stays and tells systemd that it is the main process
        added.update({"Type": "notify", "NotifyAccess": "all", "Delegate": "yes"})
    else:
        added["Type"] = "exec"
    planned = {
        **unit,
        "argv": [runtime, "run", *_options(unit, container, service, cid), container["image"], *unit["argv"][1:]],
        # of the runtime: what is meant for the program would change the runtime as well (LD_PRELOAD)
        "environment": {},
        "sections": _with_service(unit.get("sections"), added),
    }
    return planned, _with_service(defaults, {})


def _options(unit: Mapping[str, Any], container: Mapping[str, Any], service: Mapping[str, Any], cid: str) -> list[str]:
    name = unit["name"]
    words = ["--rm", f"--name={stem(name)}", f"--label={LABEL}={name}", f"--cidfile={cid}", "--pull=never"]
    if container["runtime"] == "podman":
        # the log file of the unit is the output of the program, no copy of it
        words += ["--detach", "--cgroups=split", "--sdnotify=conmon", "--log-driver=passthrough"]
    else:
        words += ["--log-driver=none"]
    # Of the host: its network, as the plan has ports of the host, and its processes, so that signals do to the program
    # what they do without a container and its log names processes that can be found.
    words += ["--network=host", "--pid=host"]
    # an engine has thousands of threads; an image may name another signal; mounts are those of the host
    words += ["--pids-limit=-1", "--stop-signal=SIGTERM", "--security-opt=label=disable"]
    if str(service.get("NoNewPrivileges") or "").lower() in _YES:
        words.append("--security-opt=no-new-privileges")
    words += [f"--shm-size={container['shm_size']}"] if container.get("shm_size") else ["--ipc=host"]
    words += [f"--ulimit={limit}" for limit in _ulimits(service)]
    if container.get("user"):
        words += [f"--user={container['user']}"]
        words += [f"--group-add={group}" for group in " ".join(_texts(service.get("SupplementaryGroups"))).split()]
    words += [f"--device={device}" for device in container.get("devices") or ()]
    own = (f"{file['path']}:{file['path']}:ro" for file in unit.get("files") or ())
    words += [f"--volume={mount}" for mount in dict.fromkeys([*(container.get("mounts") or ()), *own])]
    variables = unit.get("environment") or {}
    words += [f"--env={key}={variables[key]}" for key in sorted(variables)]
    words += list(container.get("args") or ())
    program = unit["argv"][0]
    if not program.startswith("/") and container.get("executable_dir"):
        program = posixpath.join(container["executable_dir"], program)
    # whatever the image would start instead
    return [*words, f"--entrypoint={program}"]


def _ulimits(service: Mapping[str, Any]) -> list[str]:
    """LimitNOFILE=1024:4096 as nofile=1024:4096; both the same where one is given."""
    found = []
    for key in sorted(service):
        name = key[len("Limit") :].lower() if key.startswith("Limit") else ""
        values = _texts(service[key])
        if name not in _LIMITS or not values:
            continue
        soft, _colon, hard = values[-1].partition(":")
        found.append(f"{name}={_number(soft, key)}:{_number(hard or soft, key)}")
    return found


def _number(text: str, key: str) -> int:
    if text == "infinity":
        return -1
    digits, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    if not digits.isdigit():
        raise UnitFileError(f"{key}: {text!r} is neither infinity nor a number that a container can be given")
    return int(digits) * unit


def _remove_own(runtime: str, name: str) -> str:
    """A container of ours that an earlier start left behind; one of somebody else is never touched."""
    return f'ids=$({runtime} ps -aq --filter label={LABEL}={name}); [ -z "$ids" ] || {runtime} rm -f $ids >/dev/null'


def _script(text: str) -> str:
    """A line of ExecStartPre; $ is the shell's."""
    return f"/bin/sh -c {quote_argument(text)}"


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]


def _with_service(sections: Optional[Mapping[str, Any]], added: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(sections or {})
    service = {key: value for key, value in (given.get("Service") or {}).items() if key not in _OF_THE_PROGRAM}
    return {**given, "Service": {**service, **added}}


def check(container: Mapping[str, Any], argv: Sequence[str]) -> None:
    if not argv:
        raise UnitFileError("argv is empty: it needs at least the program")
    for key in ("runtime", "image", "executable"):
        if not container.get(key):
            raise UnitFileError(f"container.{key} is missing")
    for key in ("mounts", "devices"):
        for word in container.get(key) or ():
            if not word.startswith("/"):
                raise UnitFileError(f"container.{key}: {word!r} does not begin with a full path")
