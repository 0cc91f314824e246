# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What services leave behind, by name: which folder, which name, what kind of thing."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from dataclasses import dataclass
from typing import Iterable, Mapping, Optional, Sequence

SHM = "shm"  # POSIX shared memory and semaphores: files of /dev/shm
SYSV = "sysv"
SOCKET = "socket"
FILE = "file"
LOCK = "lock"
FOLDER = "folder"
LOG = "log"
CORE = "core"
KINDS = (SHM, SYSV, SOCKET, FILE, LOCK, FOLDER, LOG, CORE)
ASKED_ONLY = (LOG, CORE)  # evidence of a crash: gone only when somebody says so
OF_USERS = (SHM, SOCKET, FILE, LOCK, FOLDER, LOG, CORE)  # kinds that a user may give patterns of

_LETTERS = 3  # a pattern with fewer of them could mean anything


class PatternError(ValueError):
    """A pattern that says too little."""


@dataclass(frozen=True)
class Pattern:
    folder: str
    name: re.Pattern[str]  # its group `pid` names the process that made the file
    kind: str
    # Live processes have the file open, mapped or bound. Without that, one that ran when it was made may still want it.
    held: bool = False
    exact: bool = True  # nothing else has such a name: it is never a configuration
    last_user: str = ""  # no process of this program may run, whether or not it has the file open


# (name, kind, held, last_user) in the folder of shared memory
_SHARED_MEMORY: Sequence[tuple[str, bool, str]] = (
    # Mooncake: mmap_shared_segment.cpp:163, tent shm_transport.cpp:171, tent shared_quota.cpp:79 (v0.3.13)
    (r"mcss_(?P<pid>\d+)_[0-9a-f]{16}", True, ""),
    (r"mooncake_(?P<pid>\d+)_[A-Za-z]{8}", True, ""),
    (r"mooncake_quota_shm", True, "mooncake"),
    # CPython 3.9-3.14 multiprocessing/shared_memory.py: an engine keeps its own open for as long as it lives
    (r"psm_[0-9a-f]{8}", True, ""),
    # CPython multiprocessing/synchronize.py: mapped, not open
    (r"sem\.mp-[a-z0-9_]{8}", True, ""),
    (r"nccl-[A-Za-z0-9]{6}", True, ""),
    # torch: the strategy file_system closes files whose names are still on their way
    (r"torch_(?P<pid>\d+)_\d+(?:_\d+)?", False, ""),
    # vLLM 0.32.0: kv_offload/cpu/shared_offload_region.py:110, cpu/ec_shared_region.py:93, common/engram.py:794
    (r"vllm_(?:offload|ec)_.+\.mmap", True, ""),
    (r"vllm_engram_.+", True, ""),
)
# (name, kind, held, exact) in folders of temporary files
_TEMPORARY: Sequence[tuple[str, str, bool, bool]] = (
    # vLLM 0.32.0 utils/network_utils.py:176 (VLLM_RPC_BASE_PATH): zmq ipc
    (r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", SOCKET, True, True),
    # vLLM 0.32.0 kv_connector/v1/mooncake/store/worker.py:2479; vLLM-Ascend has the same
    (r"lookup_rpc_port_.+", SOCKET, True, True),
    (r"mooncake.*\.sock", SOCKET, True, True),
    # vLLM 0.32.0 utils/network_utils.py:154: torch opens this one for each access only (seen), so it is not `held`
    (r"vllm_dist_[0-9a-f]{32}", FILE, False, True),
    # Mooncake transfer_engine_topology_dump.py:108 (v0.3.13)
    (r"tent-topo-dump-.+\.json", FILE, False, True),
    # vLLM 0.32.0 model_loader/weight_utils.py get_lock
    (r"[0-9a-f]{64}.*\.lock", LOCK, True, True),
    # CPython multiprocessing/util.py, torch libshm
    (r"pymp-[a-z0-9_]{8}", FOLDER, False, True),
    (r"torch-shm-dir-[A-Za-z0-9]{6}", FOLDER, False, True),
    # glog where no folder is set: PROGRAM.HOST.USER.log.SEVERITY.DATE-TIME.PID
    (r"mooncake_(?:master|client)\..+\.log\.[A-Z]+\.\d{8}-\d{6}\.(?P<pid>\d+)", LOG, True, True),
    # What scripts around Mooncake write. The names say little: configurations are told apart by their endings.
    (r"(?:mooncake|transfer_engine).*\.(?:lock|pid|port)", LOCK, False, True),
    (r"(?:mooncake|transfer_engine).*", FILE, False, False),
)


def known(shm: str, temporary: Iterable[str]) -> list[Pattern]:
    """Patterns of what the software we deploy is known to leave."""
    rows = [Pattern(shm, re.compile(name), SHM, held, last_user=last) for name, held, last in _SHARED_MEMORY]
    # HCCL and the driver: names seen differ between releases, so only the beginning is known
    rows += [Pattern(shm, re.compile(name), SHM) for name in (r"mooncake.+", r"(?:ascend|hccl|hcom)[_-].+")]
    for folder in temporary:
        rows += [Pattern(folder, re.compile(name), kind, held, exact) for name, kind, held, exact in _TEMPORARY]
    return rows


def given(rows: Iterable[Mapping[str, str]]) -> list[Pattern]:
    """Patterns of the caller: a path with * ? [] in its last part, and a kind."""
    return [_given(row) for row in rows]


def _given(row: Mapping[str, str]) -> Pattern:
    path = row["path"]
    folder, name = posixpath.split(path)
    if not path.startswith("/") or posixpath.normpath(path) != path or not name:
        raise PatternError(f"patterns: {path!r} is no absolute path of a file without . and ..")
    if re.search(r"[*?\[]", folder):
        raise PatternError(f"patterns: {path!r} has * ? or [] before its last part: name the folder")
    if len(re.sub(r"\[[^]]*\]|[*?.]", "", name)) < _LETTERS:
        raise PatternError(f"patterns: {path!r} means nearly everything in {folder}: it needs {_LETTERS} letters")
    held = row["kind"] in (SHM, SOCKET, LOG)
    return Pattern(folder, re.compile(fnmatch.translate(name)), row["kind"], held, exact=False)


# Of what is data, no name makes a leftover (mooncake.md: snapshots, oplog, both layouts of the SSD tier).
_DATA = re.compile(
    r"mooncake_oplog|mooncake_master_snapshot|file_per_key_dir|latest\.txt|.+\.(?:bucket|meta|safetensors|gguf|bin|pt|pth)"
)
_CONFIGURATION = re.compile(
    r".+\.(?:(?:INFO|WARNING|ERROR|FATAL)(?:\..+)?|json|ya?ml|toml|conf|cfg|ini|env|py|sh|service|so|whl|tar|t?gz|zip|deb|rpm|log)"
)


def data(path: str, pattern: Pattern) -> Optional[str]:
    """Why this is no leftover, whatever its name."""
    if any(_DATA.fullmatch(part) for part in path.split("/")):
        return "data"
    if not pattern.exact and pattern.kind == FILE and _CONFIGURATION.fullmatch(posixpath.basename(path)):
        return "its name ends like that of a configuration, a program, a log or an archive"
    return None


_GLOG = re.compile(r"(?P<series>.+)\.(?P<when>\d{8}-\d{6})\.\d+")


def newest(names: Iterable[str]) -> set[str]:
    """The last log of each program and severity."""
    last: dict[str, tuple[str, str]] = {}
    for name in names:
        match = _GLOG.fullmatch(name)
        series, when = (match.group("series"), match.group("when")) if match else (name, "")
        last[series] = max(last.get(series, ("", "")), (when, name))
    return {name for _when, name in last.values()}
