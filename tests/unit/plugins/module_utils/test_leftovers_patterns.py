# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.leftovers import patterns
from ansible_collections.mooncake.pd.plugins.module_utils.leftovers.patterns import Pattern


def match(name: str, folder: str = "/tmp") -> Pattern | None:
    for pattern in patterns.known("/dev/shm", ["/tmp"]):
        if pattern.folder == folder and pattern.name.fullmatch(name):
            return pattern
    return None


@pytest.mark.parametrize(
    ("name", "folder", "kind"),
    [
        ("mcss_4711_00ff00ff00ff00ff", "/dev/shm", "shm"),
        ("mooncake_4711_AbCdEfGh", "/dev/shm", "shm"),
        ("mooncake_quota_shm", "/dev/shm", "shm"),
        ("psm_0a1b2c3d", "/dev/shm", "shm"),
        ("sem.mp-dl_y41ou", "/dev/shm", "shm"),
        ("nccl-Ewjreo", "/dev/shm", "shm"),
        ("torch_4711_123_0", "/dev/shm", "shm"),
        ("vllm_offload_e1.mmap", "/dev/shm", "shm"),
        ("38854032-d4e7-4838-b8d4-8480950cf937", "/tmp", "socket"),
        ("lookup_rpc_port_0_host_node1_dp_rank0", "/tmp", "socket"),
        ("mooncake_client_50052.sock", "/tmp", "socket"),
        ("vllm_dist_530c702d99514e689a63c86d9fab3286", "/tmp", "file"),
        ("tent-topo-dump-1.json", "/tmp", "file"),
        ("transfer_engine_7", "/tmp", "file"),
        ("mooncake.pid", "/tmp", "lock"),
        ("pymp-0123abcd", "/tmp", "folder"),
        ("mooncake_master.node1.mooncake.log.INFO.20261130-061500.4711", "/tmp", "log"),
    ],
)
def test_known_names(name: str, folder: str, kind: str) -> None:
    found = match(name, folder)
    assert found
    assert found.kind == kind


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("psm_", "/dev/shm"),
        ("psm_0a1b2c3d.keep", "/dev/shm"),
        ("sem.postgres", "/dev/shm"),
        ("PostgreSQL.123", "/dev/shm"),
        ("4711", "/tmp"),
        ("38854032-d4e7-1838-b8d4-8480950cf937", "/tmp"),  # UUID of another version
        ("torchinductor_mooncake", "/tmp"),  # a cache
        ("systemd-private-62a6beaee7154aa2b1bf92610c125784-x.service-b6TSLP", "/tmp"),
    ],
)
def test_names_of_others(name: str, folder: str) -> None:
    assert match(name, folder) is None


def test_makers_are_read_from_names() -> None:
    found = match("mcss_4711_00ff00ff00ff00ff", "/dev/shm")
    assert found
    read = found.name.fullmatch("mcss_4711_00ff00ff00ff00ff")
    assert read
    assert read["pid"] == "4711"


def made(path: str, kind: str = "file") -> Pattern:
    (found,) = patterns.given([{"path": path, "kind": kind}])
    return found


def test_a_given_pattern_is_a_folder_and_a_name() -> None:
    found = made("/srv/run/ours-[0-9]*.sock", "socket")
    assert (found.folder, found.kind, found.held) == ("/srv/run", "socket", True)
    assert found.name.fullmatch("ours-1x.sock")
    assert not found.name.fullmatch("theirs-1.sock")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("tmp/ours-*", "no absolute path"),
        ("/tmp/../etc/ours-*", "no absolute path"),
        ("/tmp/ours/", "no absolute path"),
        ("/", "no absolute path"),
        ("/tmp/*/ours-*", "name the folder"),
        ("/tmp/*", "nearly everything"),
        ("/tmp/a*?.[abc]", "nearly everything"),
    ],
)
def test_given_patterns_that_say_too_little(path: str, says: str) -> None:
    with pytest.raises(patterns.PatternError, match=says):
        made(path)


@pytest.mark.parametrize(
    "path",
    [
        "/tmp/mooncake_oplog",
        "/tmp/mooncake_oplog/segment.pid",
        "/srv/mooncake_master_snapshot/c1/mooncake_x",
        "/tmp/mooncake.json",
        "/tmp/mooncake_master.INFO",
        "/tmp/mooncake-1.bucket",
        "/tmp/mooncake.tar.gz",
        "/tmp/transfer_engine_bench.py",
        "/tmp/mooncake_weights.safetensors",
    ],
)
def test_data_and_configurations_are_no_leftovers(path: str) -> None:
    assert patterns.data(path, made("/tmp/mooncake*"))


def test_what_has_a_name_of_its_own_may_end_as_it_likes() -> None:
    found = match("tent-topo-dump-1.json")
    assert found
    assert patterns.data("/tmp/tent-topo-dump-1.json", found) is None
    assert patterns.data("/tmp/mooncake_x1", made("/tmp/mooncake*")) is None


def test_the_newest_log_of_each_program_and_severity() -> None:
    names = [
        "m.h.u.log.INFO.20261130-061500.12",
        "m.h.u.log.INFO.20261201-000000.9",
        "m.h.u.log.ERROR.20261129-061500.12",
        "plain",
    ]
    assert patterns.newest(names) == set(names[1:])
