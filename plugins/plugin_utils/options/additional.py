# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of --additional-config, and on which side they work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.findings import Finding
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.spans import Key, Span, since, way_out, within
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import DECODE, PREFILL
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables.table import VARIABLES
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least, value_at

# vllm_ascend/ascend_config.py at the tags; 0.26.0rc1 and 0.27.1rc1 in the source packages

_SOURCE_ADDITIONAL = "vllm_ascend/ascend_config.py at the tags"
_TO_EPLB = "write it into eplb_config."
_TO_TP = "write it into finegrained_tp_config."
_OLD_EPLB = (("0.9.1", "0.9.2rc1"), ("0.11.0rc0", "0.14.0rc1"))
_TO_C8 = "write enable_sparse_sfa_c8 and enable_sparse_li_c8."
_C8: tuple[Span, ...] = (("0.23.0rc1", "0.24.0rc1"), ("0.26.0rc1", None))
ADDITIONAL_KEYS = {
    "SLO_limits_for_dynamic_batch": since("0.12.0rc1", "0.24.0rc1"),
    "ascend_compilation_config": since("0.12.0rc1"),
    "ascend_fusion_config": since("0.14.0rc1"),
    "ascend_log_path": since("0.22.1rc1"),
    "ascend_scheduler_config": since("0.9.1", "0.12.0rc1", "leave it out."),
    "batch_job_sched_config": since("0.25.1rc1"),
    "c8_enable_reshape_optim": since("0.21.0rc1"),
    "chunked_prefill_for_mla": since("0.9.2rc1", "0.13.0rc1"),
    "dp_allreduce_on_npu": since("0.21.0rc1", "0.25.1rc1"),
    "draft_window_size": since("0.24.0rc1"),
    "dump_config": Key((("0.12.0rc1", "0.13.0rc1"), ("0.20.2rc1", None)), "write dump_config_path."),
    "dump_config_path": since("0.13.0rc1"),
    "dynamic_eplb": Key(_OLD_EPLB, _TO_EPLB),
    "dynamic_spec_config": since("0.27.1rc1"),
    "enable_async_exponential": since("0.13.0rc1", "0.25.1rc1"),
    "enable_balance_scheduling": since("0.20.2rc1"),
    "enable_context_parallel": since("0.20.2rc1", "0.21.0rc1", "leave it out; pcp and dcp of the instances decide."),
    "enable_cpu_binding": since("0.11.0rc1"),
    "enable_dsa_cp": since("0.20.2rc1"),
    "enable_flashcomm1": since("0.20.2rc1"),
    "enable_flashcomm2_parallel_size": since("0.20.2rc1", "0.25.1rc1"),
    "enable_fused_mc2": since("0.20.2rc1"),
    "enable_kv_nz": since("0.13.0rc2"),
    "enable_kv_tnd": since("0.13.0rc3", "0.13.0"),
    "enable_matmul_allreduce": since("0.20.2rc1", "0.25.1rc1"),
    "enable_mc2_hierarchy_comm": since("0.18.0rc1"),
    "enable_mlapo": since("0.20.2rc1"),
    "enable_npugraph_ex": since("0.12.0rc1", "0.14.0rc1", "write it into ascend_compilation_config."),
    "enable_prefetch": since("0.10.1rc1", "0.11.0rc1", "write weight_prefetch_config."),
    "enable_prefill_mc2": since("0.23.0rc1"),
    "enable_prefill_optimizations": since("0.9.1", "0.9.2rc1"),
    "enable_reduce_sample": since("0.20.2rc1"),
    "enable_shared_expert_dp": since("0.10.1rc1"),
    "enable_sleep_mode_extra_cleanup": since(
        "0.23.0rc1", "0.27.1rc1", "write sleep_mode_extra_cleanup into rl_config."
    ),
    "enable_sparse_c8": Key((("0.18.0rc1", "0.23.0rc1"), ("0.24.0rc1", "0.26.0rc1")), _TO_C8),
    "enable_sparse_li_c8": Key(_C8, "write enable_sparse_c8."),
    "enable_sparse_sfa_c8": Key(_C8, "write enable_sparse_c8."),
    "enable_transpose_kv_cache_by_block": since("0.20.2rc1"),
    "enable_weight_nz_layout": since("0.9.1", "0.9.2rc1"),
    "eplb_config": since("0.13.0rc2"),
    "eplb_policy_type": since("0.11.0rc1", "0.14.0rc1", _TO_EPLB),
    "expert_map_path": since("0.9.1", "0.14.0rc1", _TO_EPLB),
    "expert_map_record_path": since("0.11.0rc0", "0.14.0rc1", _TO_EPLB),
    "finegrained_tp_config": since("0.12.0rc1"),
    "gate_eplb": Key(_OLD_EPLB, _TO_EPLB),
    "hamming_sparse": since("0.19.1rc1", "0.25.1rc1"),
    "init_redundancy_expert": since("0.11.0rc0", "0.14.0rc1", "write num_redundant_experts into eplb_config."),
    "kv_cache_dtype": since("0.9.2rc1", "0.13.0rc1"),
    "layer_sharding": since("0.13.0rc2", "0.24.0rc1"),
    "lmhead_tensor_parallel_size": since("0.10.1rc1", "0.12.0rc1", _TO_TP),
    "mc2_comm_alg": since("0.26.0rc1"),
    "mega_moe_max_tokens": since("0.23.0rc1"),
    "mix_placement": Key((("0.13.0rc2", "0.14.0rc1"), ("0.19.1rc1", None))),
    "mlapo_keep_prefill_weights": since("0.27.1rc1"),
    "msmonitor_use_daemon": since("0.20.2rc1"),
    "multistream_dsa_preprocess": Key((("0.13.0rc3", "0.13.0"), ("0.20.2rc1", "0.22.1rc1"))),
    "multistream_dsv4_dsa_overlap": since("0.20.2rc1"),
    "multistream_overlap_gate": since("0.13.0rc1", "0.24.0rc1"),
    "multistream_overlap_shared_expert": since("0.11.0rc0"),
    "npugraph_ex_config": since("0.14.0rc1", "0.16.0rc1", "write ascend_compilation_config."),
    "num_iterations_eplb_update": Key(_OLD_EPLB, "write expert_heat_collection_interval into eplb_config."),
    "num_wait_worker_iterations": Key(_OLD_EPLB, "write algorithm_execution_interval into eplb_config."),
    "oproj_tensor_parallel_size": since("0.10.2rc1", "0.12.0rc1", _TO_TP),
    "pa_shape_list": since("0.13.0rc1"),
    "prefill_comm_compute_overlap": since("0.20.2rc1", "0.22.1rc1"),
    "profiling_chunk_config": since("0.19.1rc1"),
    "recompute_scheduler_enable": since("0.11.0rc1"),
    "refresh": since("0.9.1"),
    "rejection_sampler_config": since("0.21.0rc1"),
    "rl_config": since("0.27.1rc1"),
    "scheduler_config": since("0.25.1rc1", instead="write its keys one level up."),
    "short_request_first_config": since("0.24.0rc1"),
    "sp_threshold": since("0.15.0rc1", "0.18.0rc1"),
    "sparse_kv_offload_config": since("0.26.0rc1"),
    "torchair_graph_config": since("0.9.1", "0.12.0rc1", "leave it out."),
    "weight_nz_mode": since("0.20.2rc1"),
    "weight_prefetch_config": since("0.11.0rc1", "0.24.0rc1"),
    "xlite_graph_config": since("0.12.0rc1"),
}
# From here on a key that it does not know ends the start (ConfigDict(extra="forbid")); before, it was passed over.
_STRICT_SINCE = "0.27.1rc1"
_SCHEDULER = "scheduler_config"
# keys whose values are those of a variable
_LIKE_VARIABLES = {"enable_fused_mc2": "VLLM_ASCEND_ENABLE_FUSED_MC2", "weight_nz_mode": "VLLM_ASCEND_ENABLE_NZ"}


@dataclass(frozen=True)
class Misplaced:
    """A setting that is not for this side."""

    key: str
    sides: tuple[str, ...]  # where it is wrong
    spans: tuple[Span, ...]
    severity: str
    effect: str
    source: str


_PLATFORM = "vllm_ascend/platform.py at the tags"
MISPLACED = (
    Misplaced(
        "recompute_scheduler_enable",
        (PREFILL,),
        (("0.23.0rc1", None),),
        "warning",
        "is ignored on prefill and will be refused there",
        _PLATFORM,
    ),
    Misplaced(
        "enable_kv_nz",
        (PREFILL,),
        (("0.13.0rc2", None),),
        "error",
        "ends the start of prefill: only decode may have it",
        _SOURCE_ADDITIONAL,
    ),
    Misplaced(
        "enable_balance_scheduling",
        (PREFILL, DECODE),
        (("0.20.2rc1", None),),
        "error",
        "ends the start: it is for instances that do both, prefill and decode",
        _PLATFORM,
    ),
    Misplaced(
        "enable_reduce_sample",
        (PREFILL,),
        # 0.24.0rc1 to 0.26.0rc1 come from a branch without the check
        (("0.23.0", "0.24.0rc1"), ("0.27.1rc1", None)),
        "error",
        "ends the start of prefill",
        _SOURCE_ADDITIONAL,
    ),
    Misplaced(
        "enable_reduce_sample",
        (PREFILL,),
        (("0.20.2rc1", "0.23.0"), ("0.24.0rc1", "0.27.1rc1")),
        "warning",
        "is not supported on prefill, and this release does not tell",
        "additional_config.md@182b75ea of vLLM-Ascend",
    ),
    Misplaced(
        "short_request_first_config",
        (DECODE,),
        (("0.25.1rc1", None),),
        "error",
        "ends the start of decode: it is for prefill",
        _PLATFORM,
    ),
    Misplaced(
        "dyntra_lb_config",
        (PREFILL,),
        (("0.27.1rc1", None),),
        "error",
        "ends the start of prefill: it is for decode",
        "vllm_ascend/platform.py@182b75ea",
    ),
)
# oproj_ and embedding_tensor_parallel_size need the recompute scheduler, which evens out what the ranks do
_UNEVEN = ("oproj_tensor_parallel_size", "embedding_tensor_parallel_size")
_UNEVEN_SINCE = "0.23.0rc1"


def check_additional_config(config: Mapping[str, Any], side: str | None, version: str) -> list[Finding]:
    """side is prefill, decode or None when the options are for both."""
    found = []
    for key in config:
        found += _check_additional_key(str(key), version)
    found += _check_additional_values(config, version)
    sides = (side,) if side else (PREFILL, DECODE)
    settings = _settings(config, version)
    for rule in MISPLACED:
        if _enabled(settings.get(rule.key)) and any(within(span, version) for span in rule.spans):
            wrong = [name for name in sides if name in rule.sides]
            # given for both, a setting that is ignored on one side does what it should
            if wrong and (side or rule.severity == "error"):
                found.append(
                    Finding(
                        "additional-config-side",
                        rule.severity,
                        f"{rule.key} of --additional-config {rule.effect} (vLLM-Ascend {version}).",
                        _elsewhere(rule.sides),
                        rule.source,
                    )
                )
    return found + _check_uneven(settings, side, version)


def _check_additional_key(key: str, version: str) -> list[Finding]:
    known = ADDITIONAL_KEYS.get(key)
    if known and known.known(version):
        return []
    strict = at_least(version, _STRICT_SINCE)
    effect = "and ends its start" if strict else "and passes over it"
    rule, what = "additional-config-unknown", f"vLLM-Ascend {version} knows no {key} in --additional-config, {effect}."
    if known and (gone := known.gone(version)):
        rule, what = (
            "additional-config-dead",
            f"vLLM-Ascend knows no {key} in --additional-config since {gone}, {effect}.",
        )
    elif known and (comes := known.comes(version)):
        rule = "additional-config-too-old"
        what = f"vLLM-Ascend knows no {key} in --additional-config before {comes}, {effect}."
    severity = "error" if strict else "warning"
    return [Finding(rule, severity, what, way_out(key, ADDITIONAL_KEYS, version), _SOURCE_ADDITIONAL)]


def _check_additional_values(config: Mapping[str, Any], version: str) -> list[Finding]:
    found = []
    for key, name in _LIKE_VARIABLES.items():
        allowed = value_at(VARIABLES[name].choices, version)
        value = config.get(key)
        if value is None or str(int(value) if isinstance(value, bool) else value) in allowed:
            continue
        found.append(
            Finding(
                "additional-config-value",
                "error",
                f"{key} of --additional-config is {value!r}, which vLLM-Ascend {version} does not take.",
                f"write {', '.join(allowed[:-1])} or {allowed[-1]}.",
                _SOURCE_ADDITIONAL,
            )
        )
    return found


def _settings(config: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The keys and those of scheduler_config, which win."""
    scheduler = config.get(_SCHEDULER)
    inner = scheduler if isinstance(scheduler, Mapping) and ADDITIONAL_KEYS[_SCHEDULER].known(version) else {}
    return {**config, **inner}


def _enabled(value: Any) -> bool:
    return bool(value.get("enabled")) if isinstance(value, Mapping) else bool(value)


def _elsewhere(wrong: tuple[str, ...]) -> str:
    other = [side for side in (PREFILL, DECODE) if side not in wrong]
    return f"give it to the {other[0]} instances only." if other else "leave it out."


def _check_uneven(settings: Mapping[str, Any], side: str | None, version: str) -> list[Finding]:
    finegrained = settings.get("finegrained_tp_config")
    if not isinstance(finegrained, Mapping) or not at_least(version, _UNEVEN_SINCE):
        return []
    given = [key for key in _UNEVEN if finegrained.get(key)]
    if not given or _enabled(settings.get("recompute_scheduler_enable")):
        return []
    return [
        Finding(
            "additional-config-needs",
            "error",
            f"{' and '.join(given)} of finegrained_tp_config end the start without recompute_scheduler_enable.",
            "leave it out of prefill."
            if side == PREFILL
            else "set recompute_scheduler_enable for the decode instances.",
            _SOURCE_ADDITIONAL,
        )
    ]
