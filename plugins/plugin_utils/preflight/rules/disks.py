# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that the plan rests on, and disks that will be filled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import GIB, MIB, size

_FILLED = {"logs": GIB, "install": 15 * GIB}  # an environment of vLLM-Ascend with torch takes about 10 GiB
_OWN = "mooncake.pd"


def _paths(host: Host, *purposes: str) -> Iterator[dict[str, Any]]:
    return (path for path in host.each("host.paths") if path["purpose"] in purposes)


@rule(
    "model-missing",
    family="host",
    about="the model lies on every prefill and decode host",
    why="vLLM takes a path that is not there for the name of a model on a hub, asks the hub and ends.",
    source="vllm/transformers_utils/config.py@v0.11.0",
)
def model_missing(host: Host) -> Iterator[Found]:
    for path in _paths(host, "model"):
        if path["type"] == "missing":
            yield Found(
                what=f"{host.cluster['source']} model.path: {path['path']} is not there",
                evidence=f"what is there: {path['nearest']}",
                fix="put the model there on every prefill and decode host, or correct model.path.",
            )


@rule(
    "engine-missing",
    family="host",
    about="the engine is where engine_path says, if engine_mode is installed",
    why="The unit would fail with status 203/EXEC.",
    source=_OWN,
)
def engine_missing(host: Host) -> Iterator[Found]:
    for path in _paths(host, "engine"):
        if path["type"] == "missing":
            yield Found(
                what=f"engine_path: {path['path']} is not there, though engine_mode is installed",
                evidence=f"what is there: {path['nearest']}",
                fix="install or mount the engine there, correct engine_path, or set engine_mode to venv.",
            )


@rule(
    "file-unreadable",
    family="host",
    about="the service user may read what the plan rests on",
    why="Root sees it, the engine does not and ends with 'Permission denied'.",
    source=_OWN,
)
def file_unreadable(host: Host) -> Iterator[Found]:
    for path in _paths(host, "model", "engine", "preload", "pool-config"):
        if path["type"] != "missing" and path["readable"] is False:
            yield Found(
                what=f"the service user may not read {path['path']}",
                evidence=f"owner {path['owner']}, mode {path['mode']}",
                fix="let the user read it and enter every folder above it (`namei -l PATH` shows where it ends).",
            )


@rule(
    "preload-missing",
    family="host",
    about="what LD_PRELOAD names is there",
    why="The loader only warns; without jemalloc Mooncake on Ascend aborts with 'corrupted size vs. prev_size'.",
    source="https://github.com/vllm-project/vllm-ascend/issues/5609",
    cases=("C-077",),
)
def preload_missing(host: Host) -> Iterator[Found]:
    for path in _paths(host, "preload"):
        if path["type"] == "missing":
            yield Found(
                what=f"LD_PRELOAD names {path['path']}, which is not there",
                fix="install the library (libjemalloc2 on Debian, jemalloc on openEuler) or correct the path.",
            )


@rule(
    "library-folder-missing",
    family="host",
    severity="warning",
    about="the folders of LD_LIBRARY_PATH are there",
    why="Units do not read ~/.bashrc: what the path misses ends as 'cannot open shared object file'.",
    source="https://github.com/vllm-project/vllm-ascend/issues/6949",
    cases=("C-010",),
)
def library_folder_missing(host: Host) -> Iterator[Found]:
    missing = [path["path"] for path in _paths(host, "library") if path["type"] == "missing"]
    if missing:
        yield Found(
            what=f"LD_LIBRARY_PATH names folders that are not there: {', '.join(missing)}",
            fix="correct LD_LIBRARY_PATH in engine_environment of the topology.",
        )


@rule(
    "pool-file-missing",
    family="host",
    about="the configuration that MOONCAKE_CONFIG_PATH names is there",
    why="A pool reads its master and its segment from it; without it the connector ends at the start.",
    source="docs/source/user_guide/feature_guide/kv_pool.md@v0.13.0 of vllm-ascend",
)
def pool_file_missing(host: Host) -> Iterator[Found]:
    for path in _paths(host, "pool-config"):
        if path["type"] != "file":
            state = "not there" if path["type"] == "missing" else "no file"
            yield Found(
                what=f"MOONCAKE_CONFIG_PATH: {path['path']} is {state}",
                fix="put mooncake.json there on every engine host, or correct MOONCAKE_CONFIG_PATH.",
            )


@rule(
    "disk-full",
    family="host",
    about="disks have room for what will be written",
    why="An installation that ends in the middle, or a service that cannot write its log, starts in no way.",
    source=_OWN,
    cases=("C-004",),
)
def disk_full(host: Host) -> Iterator[Found]:
    for path in _paths(host, *_FILLED):
        needed = _FILLED[path["purpose"]]
        already = path["purpose"] == "install" and path["type"] == "directory"
        if path["free"] is not None and path["free"] < (GIB if already else needed):
            yield Found(
                what=f"{path['mount']} has {size(path['free'])} left for {path['path']} ({path['purpose']})",
                fix="free space there, or choose another place (host_log_dir, engine_path).",
            )


@rule(
    "disk-inodes",
    family="host",
    about="disks take more files",
    why="Without inodes nothing can be written, though df shows room.",
    source="statvfs(3)",
)
def disk_inodes(host: Host) -> Iterator[Found]:
    for path in _paths(host, *_FILLED):
        free = path["inodes_free"]
        # btrfs and others have no fixed number and say 0 of 0
        if free is not None and 0 < free < 10000:
            yield Found(
                what=f"{path['mount']} takes {free} more files", fix="remove files there: df -i shows the numbers."
            )


@rule(
    "disk-read-only",
    family="host",
    about="disks can be written",
    why="A disk that the kernel made read-only after an error takes neither logs nor an installation.",
    source="mount(8), errors=remount-ro",
)
def disk_read_only(host: Host) -> Iterator[Found]:
    for path in _paths(host, *_FILLED):
        if path["read_only"]:
            yield Found(
                what=f"{path['mount']} is mounted read-only, and {path['path']} lies there",
                fix="journalctl -k shows why; repair and remount it, or choose another place.",
            )


@rule(
    "tmp-full",
    family="host",
    about="/tmp has room",
    why="Sockets, locks and compiled kernels of engines go there; they end with 'No space left on device'.",
    source="vllm/envs.py@v0.11.0: VLLM_RPC_BASE_PATH is the folder for temporary files",
)
def tmp_full(host: Host) -> Iterator[Found]:
    free = host.fact("host.tmp.free")
    if host.engine and free is not None and free < GIB:
        yield Found(
            what=f"/tmp has {size(free)} left",
            fix="remove what nobody uses there, or make it larger.",
            severity=None if free < 100 * MIB else "warning",
        )
