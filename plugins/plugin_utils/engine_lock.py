# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an installation of vLLM-Ascend is made of, as one set of versions, and what it was released for."""

from __future__ import annotations

from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.releases import ASCEND_RELEASES, Release, vllm_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import normal, version_key


def _known(version: str) -> Release | None:
    """Of this very release: what lies between two known ones may be made of something else."""
    key = version_key(version)
    return next((release for release in ASCEND_RELEASES if version_key(release.version) == key), None)


def lock(kind: str, version: str, mooncake: str) -> dict[str, str]:
    """Package and version of all that is chosen together. The lock of vllm_cpu is a file of the role engine."""
    if kind != "vllm_ascend":
        return {}
    release = _known(version)
    return {
        "vllm": normal(vllm_of(version)),
        "vllm-ascend": normal(version),
        "mooncake-transfer-engine-npu": normal(mooncake),
        **({"torch": release.torch, "torch-npu": release.torch_npu} if release else {}),
    }


def requires(kind: str, version: str) -> dict[str, Any] | None:
    """What a release was made with, or nothing when it is not known."""
    release = _known(version) if kind == "vllm_ascend" else None
    if release is None:
        return None
    return {
        "cann": release.cann,
        "python": release.python,
        "mooncake": release.mooncake,
        "source": release.source,
    }
