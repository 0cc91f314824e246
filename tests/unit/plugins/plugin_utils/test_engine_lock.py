# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.engine_lock import lock, requires
from ansible_collections.mooncake.pd.plugins.plugin_utils.releases import ASCEND_RELEASES
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.topologies import ascend, plan

# requirements.txt at the tags
TORCH = [
    ("0.9.1", "2.5.1", "2.5.1.post1"),
    ("0.11.0", "2.7.1", "2.7.1"),
    ("0.13.0rc2", "2.8.0", "2.8.0"),
    ("0.13.0", "2.8.0", "2.8.0.post2"),
    ("0.18.0", "2.9.0", "2.9.0"),
    ("0.22.1rc1", "2.10.0", "2.10.0"),
    ("0.23.0rc1", "2.10.0", "2.10.0.post2"),
    ("0.23.0", "2.10.0", "2.10.0.post4"),
    ("0.25.1rc1", "2.10.0", "2.10.0.post2"),
    ("0.26.0rc1", "2.10.0", "2.10.0.post4"),
]


@pytest.mark.parametrize(("version", "torch", "torch_npu"), TORCH)
def test_torch_is_what_the_package_demands(version: str, torch: str, torch_npu: str) -> None:
    found = lock("vllm_ascend", version, "0.3.11.post1")
    assert (found["torch"], found["torch-npu"]) == (torch, torch_npu)


def test_torch_npu_is_a_build_for_its_torch() -> None:
    for release in ASCEND_RELEASES:
        assert release.torch_npu.startswith(release.torch), release


def test_lock_is_in_the_spelling_of_packages() -> None:
    assert lock("vllm_ascend", "v0.14.0-rc1", "v0.3.9") == {
        "vllm": "0.14.1",
        "vllm-ascend": "0.14.0rc1",
        "mooncake-transfer-engine-npu": "0.3.9",
        "torch": "2.9.0",
        "torch-npu": "2.9.0",
    }


def test_of_a_release_that_is_not_known_nothing_is_made_up() -> None:
    # it lies between two known ones, which does not say what it is made of
    assert lock("vllm_ascend", "0.23.0.post1", "0.3.11.post1") == {
        "vllm": "0.23.0",
        "vllm-ascend": "0.23.0.post1",
        "mooncake-transfer-engine-npu": "0.3.11.post1",
    }
    assert requires("vllm_ascend", "0.23.0.post1") is None
    assert requires("vllm_ascend", "0.40.0") is None


def test_what_a_release_was_made_with() -> None:
    assert requires("vllm_ascend", "v0.23.0") == {
        "cann": "9.1.0",
        "python": ">=3.10,<3.13",
        "mooncake": "0.3.11.post1",
        "source": "versioning_policy.md@182b75ea",
    }


def test_the_cpu_engine_has_its_lock_in_a_file() -> None:
    # whatever its number
    for version in ("0.32.0", "0.23.0"):
        assert (lock("vllm_cpu", version, "0.3.13.post1"), requires("vllm_cpu", version)) == ({}, None)


def test_the_plan_tells_the_hosts() -> None:
    engine = plan(ascend()).cluster()["engine"]
    assert engine["lock"] == lock("vllm_ascend", engine["version"], plan(ascend()).cluster()["mooncake"]["version"])
    assert engine["requires"]["cann"] == "9.1.0"
