# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of `vllm serve` and keys of its JSON: who knows them in which release, and on which side they work."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.engines.vllm import spelling
from ansible_collections.mooncake.pd.plugins.plugin_utils.numbers import whole
from ansible_collections.mooncake.pd.plugins.plugin_utils.releases import vllm_of
from ansible_collections.mooncake.pd.plugins.plugin_utils.schema.topology import DECODE, PREFILL
from ansible_collections.mooncake.pd.plugins.plugin_utils.variables import VARIABLES, Finding
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least, value_at

Span = tuple[str, "str | None"]  # first release that knows it, first one that no longer does


@dataclass(frozen=True)
class Key:
    spans: tuple[Span, ...]
    instead: str = ""

    def known(self, version: str) -> bool:
        return any(_within(span, version) for span in self.spans)

    def gone(self, version: str) -> str | None:
        """The release that dropped it, when that lies behind and no later one took it up before this version."""
        past = [until for _since, until in self.spans if until and at_least(version, until)]
        return past[-1] if past else None

    def comes(self, version: str) -> str | None:
        return next((since for since, _until in self.spans if not at_least(version, since)), None)


def _within(span: Span, version: str) -> bool:
    return at_least(version, span[0]) and not (span[1] and at_least(version, span[1]))


def _key(since: str, until: str | None = None, instead: str = "") -> Key:
    return Key(((since, until),), instead)


# --- options of vllm serve: vllm/engine/arg_utils.py and vllm/entrypoints/openai/cli_args.py in the source packages

_EPLB = "write --eplb-config."
_SOURCE_ARGUMENTS = "vllm/engine/arg_utils.py in the source packages of vLLM"
# option -> (first release of vLLM that no longer takes it, way out)
DEAD_OPTIONS = {
    "--device": ("0.10.0", "leave it out."),
    "--enable-reasoning": ("0.10.0", "leave it out; --reasoning-parser is enough."),
    "--use-v2-block-manager": ("0.10.0", "leave it out."),
    "--num-scheduler-steps": ("0.10.1", "leave it out."),
    "--enable-prompt-adapter": ("0.10.2", "leave it out."),
    "--disable-async-output-proc": ("0.11.0", "leave it out."),
    "--max-seq-len-to-capture": ("0.11.0", "write --cudagraph-capture-sizes, or --cuda-graph-sizes before 0.11.1."),
    "--preemption-mode": ("0.11.0", "leave it out."),
    "--scheduler-delay-factor": ("0.11.0", "leave it out."),
    "--enable-lora-bias": ("0.11.1", "leave it out."),
    "--rope-scaling": ("0.11.1", "write it into --hf-overrides."),
    "--rope-theta": ("0.11.1", "write it into --hf-overrides."),
    "--eplb-log-balancedness": ("0.12.0", _EPLB),
    "--eplb-step-interval": ("0.12.0", _EPLB),
    "--eplb-window-size": ("0.12.0", _EPLB),
    "--num-redundant-experts": ("0.12.0", _EPLB),
    "--guided-decoding-backend": ("0.12.0", "write --structured-outputs-config."),
    "--lora-extra-vocab-size": ("0.12.0", "leave it out."),
    "--num-lookahead-slots": ("0.12.0", "leave it out."),
    "--override-pooler-config": ("0.12.0", "write --pooler-config."),
    "--cuda-graph-sizes": ("0.13.0", "write --cudagraph-capture-sizes."),
    "--disable-mm-preprocessor-cache": ("0.13.0", "write --mm-processor-cache-gb 0."),
    "--enable-multimodal-encoder-data-parallel": ("0.13.0", "write --mm-encoder-tp-mode data."),
    "--task": ("0.13.0", "write --runner and --convert."),
    "--disable-log-requests": ("0.17.0", "leave it out; requests are logged only with --enable-log-requests."),
    "--logits-processor-pattern": ("0.17.0", "leave it out."),
    "--swap-space": ("0.18.0", "leave it out."),
    "--max-long-partial-prefills": ("0.27.0", "leave it out."),
    "--max-num-partial-prefills": ("0.27.0", "leave it out."),
    "--calculate-kv-scales": ("0.28.0", "leave it out."),
    "--override-attention-dtype": ("0.28.0", "leave it out."),
}
# option -> first release of vLLM that takes it
YOUNG_OPTIONS = {
    "--async-scheduling": "0.10.0",
    "--decode-context-parallel-size": "0.10.2",
    "--all2all-backend": "0.11.1",
    "--cudagraph-capture-sizes": "0.11.1",
    "--prefill-context-parallel-size": "0.12.0",
    "--attention-backend": "0.13.0",
    "--profiler-config": "0.13.0",
    "--shutdown-timeout": "0.18.0",
    "--spec-tokens": "0.22.0",
}
_ADDITIONAL = "--additional-config"
_SPECULATIVE = ("--speculative-config", "-sc")  # -sc since 0.22.0
_SPECULATIVE_TOKENS = "num_speculative_tokens"
_JSON_OPTIONS = (_ADDITIONAL, *_SPECULATIVE)

# --- --kv-transfer-config: vllm/config/kv_transfer.py in the source packages

_SOURCE_TRANSFER = "vllm/config/kv_transfer.py in the source packages of vLLM"
TRANSFER_KEYS = {
    **dict.fromkeys(
        (
            "kv_connector",
            "engine_id",
            "kv_buffer_device",
            "kv_role",
            "kv_port",
            "kv_connector_extra_config",
            "kv_connector_module_path",
        ),
        _key("0.0"),
    ),
    **dict.fromkeys(("kv_buffer_size", "kv_rank", "kv_parallel_size", "kv_ip"), _key("0.0", "0.32.0")),
    "enable_permute_local_kv": _key("0.11.1"),
    "kv_load_failure_policy": _key("0.13.0"),
}
# what becomes of a request whose KV could not be loaded, when nobody says
_FAILURE_POLICY = (("0.0", "recompute"), ("0.17.0", "fail"))

# --- kv_connector_extra_config: vllm_ascend/distributed at the tags

_SOURCE_EXTRA = "vllm_ascend/distributed at the tags"
_LOCAL_COMM_RES = {"ascend_local_comm_res_path": _key("0.21.0rc1")}
_SHAPES = {"prefill": _key("0.10.1rc1"), "decode": _key("0.10.1rc1")}
DIRECT_OF_OLD = "use_ascend_direct"
_PULL = {**_SHAPES, **_LOCAL_COMM_RES, DIRECT_OF_OLD: _key("0.10.2rc1", "0.12.0rc1")}
_STORE = {
    **_LOCAL_COMM_RES,
    "backend": _key("0.12.0rc1"),
    "consumer_is_to_load": _key("0.11.0rc1"),
    "consumer_is_to_put": _key("0.13.0rc2"),
    "decode_tp_size": _key("0.24.0rc1"),
    "discard_partial_chunks": _key("0.11.0rc0"),
    "h2d_stagger_us": _key("0.23.0rc1"),
    "layerwise_independent_layers": _key("0.26.0rc1"),
    "layerwise_max_transfer_blocks": _key("0.23.0rc1"),
    "layerwise_max_transfer_bytes": _key("0.23.0rc1"),
    "layerwise_num_shared_buffers": _key("0.26.0rc1"),
    "layerwise_prefetch_layers": _key("0.23.0rc1"),
    "load_async": _key("0.11.0rc1"),
    "lookup_rpc_port": _key("0.12.0rc1"),
    "mooncake_rpc_port": _key("0.11.0rc0"),
    "prefill_pp_layer_partition": _key("0.13.0rc2"),
    "prefill_pp_size": _key("0.13.0rc2"),
    "prefill_tp_size": _key("0.24.0rc1"),
    "save_decode_cache": _key("0.23.0rc1"),
    "use_layerwise": _key("0.11.0rc0"),
}
EXTRA_KEYS = {
    "MooncakeConnector": _PULL,
    "MooncakeConnectorV1": _PULL,
    "MooncakeHybridConnector": {**_SHAPES, **_LOCAL_COMM_RES},
    "MooncakeLayerwiseConnector": {
        **_SHAPES,
        **_LOCAL_COMM_RES,
        DIRECT_OF_OLD: _key("0.11.0rc1", "0.12.0rc1"),
        "tls_config": _key("0.13.0rc3"),
    },
    "SfaRemoteD2HConnector": {
        **_SHAPES,
        **_LOCAL_COMM_RES,
        "transfer_backend": _key("0.26.0rc1"),
        "use_layerwise": _key("0.26.0rc1"),
    },
    "AscendStoreConnector": _STORE,
    "MooncakeConnectorStoreV1": _STORE,
}
# keys that people write and no release has
NEVER_KEYS = {"delayed_free": "leave it out; abort_timeout decides when KV that nobody fetched is freed."}
# what use_ascend_direct is when nobody says (mooncake_connector.py at the tags)
_DIRECT_DEFAULT = (("0.0", False), ("0.11.0rc1", True))
_LOOKUP_PORT_SINCE = "0.12.0rc1"
# ascend_store at the tags
STORE_BACKENDS = (
    ("0.0", ("mooncake", "memcache")),
    ("0.19.1rc1", ("mooncake", "memcache", "yuanrong")),
)

# --- --additional-config: vllm_ascend/ascend_config.py at the tags; 0.26.0rc1 and 0.27.1rc1 in the source packages

_SOURCE_ADDITIONAL = "vllm_ascend/ascend_config.py at the tags"
_TO_EPLB = "write it into eplb_config."
_TO_TP = "write it into finegrained_tp_config."
_OLD_EPLB = (("0.9.1", "0.9.2rc1"), ("0.11.0rc0", "0.14.0rc1"))
_TO_C8 = "write enable_sparse_sfa_c8 and enable_sparse_li_c8."
_C8: tuple[Span, ...] = (("0.23.0rc1", "0.24.0rc1"), ("0.26.0rc1", None))
ADDITIONAL_KEYS = {
    "SLO_limits_for_dynamic_batch": _key("0.12.0rc1", "0.24.0rc1"),
    "ascend_compilation_config": _key("0.12.0rc1"),
    "ascend_fusion_config": _key("0.14.0rc1"),
    "ascend_log_path": _key("0.22.1rc1"),
    "ascend_scheduler_config": _key("0.9.1", "0.12.0rc1", "leave it out."),
    "batch_job_sched_config": _key("0.25.1rc1"),
    "c8_enable_reshape_optim": _key("0.21.0rc1"),
    "chunked_prefill_for_mla": _key("0.9.2rc1", "0.13.0rc1"),
    "dp_allreduce_on_npu": _key("0.21.0rc1", "0.25.1rc1"),
    "draft_window_size": _key("0.24.0rc1"),
    "dump_config": Key((("0.12.0rc1", "0.13.0rc1"), ("0.20.2rc1", None)), "write dump_config_path."),
    "dump_config_path": _key("0.13.0rc1"),
    "dynamic_eplb": Key(_OLD_EPLB, _TO_EPLB),
    "dynamic_spec_config": _key("0.27.1rc1"),
    "enable_async_exponential": _key("0.13.0rc1", "0.25.1rc1"),
    "enable_balance_scheduling": _key("0.20.2rc1"),
    "enable_context_parallel": _key("0.20.2rc1", "0.21.0rc1", "leave it out; pcp and dcp of the instances decide."),
    "enable_cpu_binding": _key("0.11.0rc1"),
    "enable_dsa_cp": _key("0.20.2rc1"),
    "enable_flashcomm1": _key("0.20.2rc1"),
    "enable_flashcomm2_parallel_size": _key("0.20.2rc1", "0.25.1rc1"),
    "enable_fused_mc2": _key("0.20.2rc1"),
    "enable_kv_nz": _key("0.13.0rc2"),
    "enable_kv_tnd": _key("0.13.0rc3", "0.13.0"),
    "enable_matmul_allreduce": _key("0.20.2rc1", "0.25.1rc1"),
    "enable_mc2_hierarchy_comm": _key("0.18.0rc1"),
    "enable_mlapo": _key("0.20.2rc1"),
    "enable_npugraph_ex": _key("0.12.0rc1", "0.14.0rc1", "write it into ascend_compilation_config."),
    "enable_prefetch": _key("0.10.1rc1", "0.11.0rc1", "write weight_prefetch_config."),
    "enable_prefill_mc2": _key("0.23.0rc1"),
    "enable_prefill_optimizations": _key("0.9.1", "0.9.2rc1"),
    "enable_reduce_sample": _key("0.20.2rc1"),
    "enable_shared_expert_dp": _key("0.10.1rc1"),
    "enable_sleep_mode_extra_cleanup": _key("0.23.0rc1", "0.27.1rc1", "write sleep_mode_extra_cleanup into rl_config."),
    "enable_sparse_c8": Key((("0.18.0rc1", "0.23.0rc1"), ("0.24.0rc1", "0.26.0rc1")), _TO_C8),
    "enable_sparse_li_c8": Key(_C8, "write enable_sparse_c8."),
    "enable_sparse_sfa_c8": Key(_C8, "write enable_sparse_c8."),
    "enable_transpose_kv_cache_by_block": _key("0.20.2rc1"),
    "enable_weight_nz_layout": _key("0.9.1", "0.9.2rc1"),
    "eplb_config": _key("0.13.0rc2"),
    "eplb_policy_type": _key("0.11.0rc1", "0.14.0rc1", _TO_EPLB),
    "expert_map_path": _key("0.9.1", "0.14.0rc1", _TO_EPLB),
    "expert_map_record_path": _key("0.11.0rc0", "0.14.0rc1", _TO_EPLB),
    "finegrained_tp_config": _key("0.12.0rc1"),
    "gate_eplb": Key(_OLD_EPLB, _TO_EPLB),
    "hamming_sparse": _key("0.19.1rc1", "0.25.1rc1"),
    "init_redundancy_expert": _key("0.11.0rc0", "0.14.0rc1", "write num_redundant_experts into eplb_config."),
    "kv_cache_dtype": _key("0.9.2rc1", "0.13.0rc1"),
    "layer_sharding": _key("0.13.0rc2", "0.24.0rc1"),
    "lmhead_tensor_parallel_size": _key("0.10.1rc1", "0.12.0rc1", _TO_TP),
    "mc2_comm_alg": _key("0.26.0rc1"),
    "mega_moe_max_tokens": _key("0.23.0rc1"),
    "mix_placement": Key((("0.13.0rc2", "0.14.0rc1"), ("0.19.1rc1", None))),
    "mlapo_keep_prefill_weights": _key("0.27.1rc1"),
    "msmonitor_use_daemon": _key("0.20.2rc1"),
    "multistream_dsa_preprocess": Key((("0.13.0rc3", "0.13.0"), ("0.20.2rc1", "0.22.1rc1"))),
    "multistream_dsv4_dsa_overlap": _key("0.20.2rc1"),
    "multistream_overlap_gate": _key("0.13.0rc1", "0.24.0rc1"),
    "multistream_overlap_shared_expert": _key("0.11.0rc0"),
    "npugraph_ex_config": _key("0.14.0rc1", "0.16.0rc1", "write ascend_compilation_config."),
    "num_iterations_eplb_update": Key(_OLD_EPLB, "write expert_heat_collection_interval into eplb_config."),
    "num_wait_worker_iterations": Key(_OLD_EPLB, "write algorithm_execution_interval into eplb_config."),
    "oproj_tensor_parallel_size": _key("0.10.2rc1", "0.12.0rc1", _TO_TP),
    "pa_shape_list": _key("0.13.0rc1"),
    "prefill_comm_compute_overlap": _key("0.20.2rc1", "0.22.1rc1"),
    "profiling_chunk_config": _key("0.19.1rc1"),
    "recompute_scheduler_enable": _key("0.11.0rc1"),
    "refresh": _key("0.9.1"),
    "rejection_sampler_config": _key("0.21.0rc1"),
    "rl_config": _key("0.27.1rc1"),
    "scheduler_config": _key("0.25.1rc1", instead="write its keys one level up."),
    "short_request_first_config": _key("0.24.0rc1"),
    "sp_threshold": _key("0.15.0rc1", "0.18.0rc1"),
    "sparse_kv_offload_config": _key("0.26.0rc1"),
    "torchair_graph_config": _key("0.9.1", "0.12.0rc1", "leave it out."),
    "weight_nz_mode": _key("0.20.2rc1"),
    "weight_prefetch_config": _key("0.11.0rc1", "0.24.0rc1"),
    "xlite_graph_config": _key("0.12.0rc1"),
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


def failure_policy_default(vllm: str) -> str:
    """kv_load_failure_policy of a release of vLLM when nobody gives it."""
    return value_at(_FAILURE_POLICY, vllm)


def speculative_tokens(args: Sequence[str]) -> int | None:
    """num_speculative_tokens of the last option that gives it."""
    found: int | None = None
    for option in _options(args):
        if option.name in _SPECULATIVE and not option.below:
            config = _object(option.value)
            given: Any = config.get(_SPECULATIVE_TOKENS) if config else None
        elif option.name == "--spec-tokens" or (
            option.name in _SPECULATIVE and option.below.replace("-", "_") == _SPECULATIVE_TOKENS
        ):
            given = option.value
        else:
            continue
        if isinstance(given, str):
            given = whole(given)
        if isinstance(given, int):
            found = given
    return found


def check_options(args: Sequence[str], vllm: str) -> list[Finding]:
    """Options that a release of vLLM does not take."""
    return [finding for option in _options(args) for finding in _check_option(option.name, vllm)]


def check_arguments(args: Sequence[str], version: str, side: str | None = None) -> list[Finding]:
    """Options that the vLLM of a release of vLLM-Ascend does not take, and what is wrong with --additional-config."""
    found = check_options(args, vllm_of(version))
    for option in _options(args):
        if option.name in _JSON_OPTIONS and not option.below:
            config = _object(option.value)
            if config is None:
                found.append(_no_json(option.name))
            elif option.name == _ADDITIONAL:
                found += check_additional_config(config, side, version)
    return found


def check_additional_config(config: Mapping[str, Any], side: str | None, version: str) -> list[Finding]:
    """side is prefill, decode or None when the options are for both."""
    found = []
    for key in config:
        found += _check_additional_key(str(key), version)
    found += _check_additional_values(config, version)
    sides = (side,) if side else (PREFILL, DECODE)
    settings = _settings(config, version)
    for rule in MISPLACED:
        if _enabled(settings.get(rule.key)) and any(_within(span, version) for span in rule.spans):
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


def asks_for_direct(connector: str, version: str) -> bool:
    """Whether a release uses AscendDirectTransport only when told to."""
    key = EXTRA_KEYS.get(connector, {}).get(DIRECT_OF_OLD)
    return bool(key and key.known(version)) and not value_at(_DIRECT_DEFAULT, version)


def check_extra_config(connector: str, config: Mapping[str, Any], version: str) -> list[Finding]:
    """kv_connector_extra_config of a connector that vLLM-Ascend has; of others nothing is known."""
    keys = EXTRA_KEYS.get(connector)
    if keys is None:
        return []
    found = []
    for key in config:
        found += _check_extra_key(connector, str(key), keys, version)
    return found + _check_direct(connector, config, version) + _check_backend(connector, config, version)


def check_transfer_config(config: Mapping[str, Any], vllm: str) -> list[Finding]:
    """The top level of --kv-transfer-config; vLLM refuses what it does not know."""
    found = []
    for key in config:
        known = TRANSFER_KEYS.get(str(key))
        if known and known.known(vllm):
            continue
        message = f"vLLM {vllm} knows no {key} in --kv-transfer-config and ends its start."
        found.append(
            Finding("transfer-config-key", "error", message, _fix(str(key), TRANSFER_KEYS, vllm), _SOURCE_TRANSFER)
        )
    return found


@dataclass(frozen=True)
class _Option:
    name: str
    below: str  # of --option.below
    value: str


def _options(args: Sequence[str]) -> Iterator[_Option]:
    for place, argument in enumerate(args):
        if not argument.startswith("-"):
            continue
        name, value = spelling(argument)
        if value is None:
            value = args[place + 1] if place + 1 < len(args) else ""
        yield _Option(name, argument.partition("=")[0].partition(".")[2], value)


def _object(text: str) -> dict[str, Any] | None:
    try:
        config = json.loads(text)
    except ValueError:
        return None
    return config if isinstance(config, dict) else None


def _check_option(name: str, vllm: str) -> list[Finding]:
    if name in DEAD_OPTIONS:
        until, fix = DEAD_OPTIONS[name]
        if at_least(vllm, until):
            message = f"vLLM takes no {name} since {until}, and {vllm} ends with an error."
            return [Finding("option-dead", "error", message, fix, _SOURCE_ARGUMENTS)]
    since = YOUNG_OPTIONS.get(name)
    if since and not at_least(vllm, since):
        message = f"vLLM takes no {name} before {since}, and {vllm} ends with an error."
        return [Finding("option-too-old", "error", message, "leave it out.", _SOURCE_ARGUMENTS)]
    return []


def _no_json(name: str) -> Finding:
    return Finding(
        "option-json",
        "error",
        f"the value of {name} is no object of JSON, and vLLM ends with an error.",
        f"write {name} '{{\"key\": value}}', names in double quotes.",
        _SOURCE_ARGUMENTS,
    )


def _fix(key: str, keys: Mapping[str, Key], version: str) -> str:
    known = keys.get(key)
    if known:
        return known.instead or "leave it out."
    close = get_close_matches(key, [name for name, entry in keys.items() if entry.known(version)], n=1)
    return f"did you mean {close[0]}?" if close else "leave it out."


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
    return [Finding(rule, severity, what, _fix(key, ADDITIONAL_KEYS, version), _SOURCE_ADDITIONAL)]


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


def _check_extra_key(connector: str, key: str, keys: Mapping[str, Key], version: str) -> list[Finding]:
    if key in NEVER_KEYS:
        message = f"no release of {connector} reads {key}."
        return [Finding("extra-config-unknown", "warning", message, NEVER_KEYS[key], _SOURCE_EXTRA)]
    known = keys.get(key)
    if known and known.known(version):
        if key == "mooncake_rpc_port" and at_least(version, _LOOKUP_PORT_SINCE):
            message = (
                f"mooncake_rpc_port has a new name since vLLM-Ascend {_LOOKUP_PORT_SINCE}, and the old one will go."
            )
            return [Finding("extra-config-renamed", "warning", message, "write lookup_rpc_port.", _SOURCE_EXTRA)]
        return []
    rule, what = "extra-config-unknown", f"{connector} of vLLM-Ascend {version} does not read {key}."
    if known and (gone := known.gone(version)):
        rule, what = "extra-config-dead", f"{connector} does not read {key} since vLLM-Ascend {gone}."
    elif known and (comes := known.comes(version)):
        rule, what = "extra-config-too-old", f"{connector} does not read {key} before vLLM-Ascend {comes}."
    return [Finding(rule, "warning", what, _fix(key, keys, version), _SOURCE_EXTRA)]


def _check_direct(connector: str, config: Mapping[str, Any], version: str) -> list[Finding]:
    """Without it, releases that ask for it use the old HCCL transport of Mooncake."""
    key = EXTRA_KEYS[connector].get(DIRECT_OF_OLD)
    if not key or not key.known(version) or config.get(DIRECT_OF_OLD, value_at(_DIRECT_DEFAULT, version)):
        return []
    return [
        Finding(
            "extra-config-direct",
            "error",
            f"without {DIRECT_OF_OLD} vLLM-Ascend {version} names its engine for the HCCL transport of Mooncake, and "
            "peers with AscendDirectTransport cannot connect (status 103900).",
            f"write {DIRECT_OF_OLD}: true.",
            "mooncake_connector.py@v0.11.0rc0 and @v0.11.0; vllm-ascend#4866",
        )
    ]


def _check_backend(connector: str, config: Mapping[str, Any], version: str) -> list[Finding]:
    backend = config.get("backend")
    if EXTRA_KEYS[connector] is not _STORE or backend is None or not _STORE["backend"].known(version):
        return []
    backends = value_at(STORE_BACKENDS, version)
    if str(backend).lower() in backends:
        return []
    return [
        Finding(
            "extra-config-value",
            "error",
            f"{connector} of vLLM-Ascend {version} has no backend {backend!r}.",
            f"write {', '.join(backends[:-1])} or {backends[-1]}.",
            _SOURCE_EXTRA,
        )
    ]
