# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver and CANN of one host, against what the plan's releases need."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import BESIDE
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight import npu as view
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.look import Host
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import Found, rule
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.wording import some
from ansible_collections.mooncake.pd.plugins.plugin_utils.releases import ascend_release
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least

_FABRIC = "ASCEND_ENABLE_USE_FABRIC_MEM"
_POOLS = tuple(name for name, connector in BESIDE.items() if connector.lookup_port)
# host memory is registered in pages of 2 MB from this driver on
_POOL_DRIVER = "25.5.0"
# docs/source/user_guide/feature_guide/kv_pool.md@182b75ea of vllm-ascend: 26.0, or 25.5 with Mooncake 0.3.11
_FABRIC_DRIVER, _FABRIC_DRIVER_OLD, _FABRIC_MOONCAKE, _FABRIC_CANN = "26.0", "25.5.0", "0.3.11", "9.0.0"
_INSTALLATION = "docs/source/installation.md@182b75ea of vllm-ascend"


def _pools(host: Host) -> bool:
    """Whether engines of the host keep KV in host memory for a pool."""
    words = (str(word) for process in host.processes for word in process["unit"].get("argv") or ())
    return any(name in word for word in words for name in _POOLS)


@rule(
    "npu-driver-old-pool",
    family="npu",
    severity="warning",
    about="the driver can register the memory of a KV pool",
    why="An older driver registers host memory in pages of 4 KB: from about 20 to 32 GB for each NPU on it fails"
    " ('create cq failed', ErrorNo 503900), or fills the NPU's own system memory.",
    source="https://github.com/kvcache-ai/Mooncake/issues/3791; FAQ of HIXL (cann/hixl, issue 382)",
    cases=("C-070",),
)
def npu_driver_old_pool(host: Host) -> Iterator[Found]:
    driver = host.fact("npu.driver.version")
    if host.ascend and view.roce_between(host) and _pools(host) and view.older(driver, _POOL_DRIVER):
        yield Found(
            what=f"driver {driver} is too old for a large pool in host memory",
            fix=f"install driver {_POOL_DRIVER} or later, or keep the pool's segment small (below 20 GB for each NPU)"
            " and set MC_STORE_USE_HUGEPAGE=1 (Mooncake 0.3.11).",
        )


@rule(
    "npu-fabric-memory",
    family="npu",
    about="driver, CANN and Mooncake can do fabric memory when the plan asks for it",
    why="The engine ends with 'Register mem ret:207000'.",
    source="https://github.com/vllm-project/vllm-ascend/issues/8420;"
    " docs/source/user_guide/feature_guide/kv_pool.md@182b75ea of vllm-ascend",
)
def npu_fabric_memory(host: Host) -> Iterator[Found]:
    if not host.ascend or view.variable(host, _FABRIC) is None:
        return
    driver, cann = host.fact("npu.driver.version"), view.cann(host)
    mooncake = str(host.cluster["mooncake"]["version"])
    needed = _FABRIC_DRIVER_OLD if at_least(mooncake, _FABRIC_MOONCAKE) else _FABRIC_DRIVER
    lacking = [f"driver {driver} is older than {needed}"] if view.older(driver, needed) else []
    lacking += [f"CANN {cann} is older than {_FABRIC_CANN}"] if view.older(cann, _FABRIC_CANN) else []
    if lacking:
        yield Found(
            what=f"{_FABRIC} is set, and {' and '.join(lacking)}",
            fix=f"update them, or take {_FABRIC} out of the topology (any value of it switches it on).",
        )


@rule(
    "npu-cann-missing",
    family="npu",
    about="CANN is installed",
    why="An engine without it ends at the start: 'libascendcl.so: cannot open shared object file'.",
    source=f"{_INSTALLATION}; https://github.com/vllm-project/vllm-ascend/issues/1440",
    cases=("C-010",),
)
def npu_cann_missing(host: Host) -> Iterator[Found]:
    facts = host.fact("npu") if host.ascend else None
    if facts and facts["cann"] is not None and not view.toolkits(host) and not view.unsure(host, "cann"):
        yield Found(
            what="no CANN toolkit is installed",
            evidence=f"found: {some(item['path'] for item in facts['cann']) or 'nothing'}",
            fix="install the CANN toolkit and kernels of the engine's release under /usr/local/Ascend.",
        )


@rule(
    "npu-cann-old",
    family="npu",
    severity="warning",
    about="CANN is as new as the engine's release was made with",
    why="Operators and libraries that the engine calls may not be there yet.",
    source="docs/source/community/versioning_policy.md@182b75ea of vllm-ascend; Dockerfile at the tags",
    cases=("C-090",),
)
def npu_cann_old(host: Host) -> Iterator[Found]:
    if not host.ascend:
        return
    version = str(host.cluster["engine"]["version"])
    release, cann = ascend_release(version), view.cann(host)
    if release and view.older(cann, release.cann):
        yield Found(
            what=f"CANN {cann} is older than {release.cann}, which vLLM-Ascend {version} was made with",
            evidence=some(f"{item['package']} {item['version']} in {item['path']}" for item in view.toolkits(host)),
            fix=f"install CANN {release.cann}, or plan a release of the engine that was made with an older one.",
        )


@rule(
    "npu-cann-several",
    family="npu",
    severity="notice",
    about="one release of CANN is installed",
    why="Which one an engine gets depends on the set_env.sh that its environment was made with.",
    source=_INSTALLATION,
    cases=("C-010", "C-090"),
)
def npu_cann_several(host: Host) -> Iterator[Found]:
    versions = {str(item["version"]): item["path"] for item in (view.toolkits(host) if host.ascend else ())}
    if len(versions) > 1:
        yield Found(
            what=f"several releases of CANN are installed: {some(versions)}",
            evidence=some(versions.values()),
            fix="remove those that nobody needs, or see to it that LD_LIBRARY_PATH and ASCEND_HOME_PATH of the engine"
            " name the right one.",
        )


@rule(
    "npu-nnal-missing",
    family="npu",
    severity="warning",
    about="NNAL (atb) is installed beside CANN",
    why="vLLM-Ascend loads it: 'libatb.so: cannot open shared object file'.",
    source=f"{_INSTALLATION}; https://github.com/vllm-project/vllm-ascend/issues/262",
    cases=("C-010",),
)
def npu_nnal_missing(host: Host) -> Iterator[Found]:
    packages = host.each("npu.cann")
    if not host.ascend or not view.toolkits(host) or view.unsure(host, "cann"):
        return
    if not any("nnal" in str(item["path"]) or "nnal" in str(item["package"]).lower() for item in packages):
        yield Found(
            what="CANN is installed without NNAL",
            evidence=some(item["path"] for item in packages),
            fix="install Ascend-cann-nnal of the same version.",
        )
