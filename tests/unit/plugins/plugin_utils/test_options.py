# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.options.additional import (
    ADDITIONAL_KEYS,
    check_additional_config,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.extra import (
    EXTRA_KEYS,
    STORE_BACKENDS,
    check_extra_config,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.serve import (
    DEAD_OPTIONS,
    YOUNG_OPTIONS,
    check_arguments,
    check_options,
    speculative_tokens,
)
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.transfer import TRANSFER_KEYS, check_transfer_config

NOW = "0.26.0rc1"


def rules(findings):
    return [(finding.rule, finding.severity) for finding in findings]


# option, last vLLM that takes it, first that does not
DEAD = [
    ("--device", "0.9.2", "0.10.0"),
    ("--enable-reasoning", "0.9.2", "0.10.0"),
    ("--use-v2-block-manager", "0.9.2", "0.10.0"),
    ("--num-scheduler-steps", "0.10.0", "0.10.1"),
    ("--enable-prompt-adapter", "0.10.1", "0.10.2"),
    ("--disable-async-output-proc", "0.10.2", "0.11.0"),
    ("--max-seq-len-to-capture", "0.10.2", "0.11.0"),
    ("--preemption-mode", "0.10.2", "0.11.0"),
    ("--scheduler-delay-factor", "0.10.2", "0.11.0"),
    ("--enable-lora-bias", "0.11.0", "0.11.1"),
    ("--rope-scaling", "0.11.0", "0.11.1"),
    ("--rope-theta", "0.11.0", "0.11.1"),
    ("--eplb-log-balancedness", "0.11.2", "0.12.0"),
    ("--eplb-step-interval", "0.11.2", "0.12.0"),
    ("--eplb-window-size", "0.11.2", "0.12.0"),
    ("--num-redundant-experts", "0.11.2", "0.12.0"),
    ("--guided-decoding-backend", "0.11.2", "0.12.0"),
    ("--lora-extra-vocab-size", "0.11.2", "0.12.0"),
    ("--num-lookahead-slots", "0.11.2", "0.12.0"),
    ("--override-pooler-config", "0.11.2", "0.12.0"),
    ("--cuda-graph-sizes", "0.12.0", "0.13.0"),
    ("--disable-mm-preprocessor-cache", "0.12.0", "0.13.0"),
    ("--enable-multimodal-encoder-data-parallel", "0.12.0", "0.13.0"),
    ("--task", "0.12.0", "0.13.0"),
    ("--disable-log-requests", "0.16.0", "0.17.0"),
    ("--logits-processor-pattern", "0.16.0", "0.17.0"),
    ("--swap-space", "0.17.1", "0.18.0"),
    ("--max-long-partial-prefills", "0.26.0", "0.27.0"),
    ("--max-num-partial-prefills", "0.26.0", "0.27.0"),
    ("--calculate-kv-scales", "0.27.1", "0.28.0"),
    ("--override-attention-dtype", "0.27.1", "0.28.0"),
]


@pytest.mark.parametrize(("option", "last", "gone"), DEAD, ids=[case[0] for case in DEAD])
def test_dead_options(option, last, gone):
    # a release of vLLM-Ascend that is in no table runs with the vLLM of its number
    assert check_arguments([option, "1"], f"{last}+x") == []
    for written in (option, f"{option}=1", option.replace("-", "_").replace("__", "--", 1)):
        (found,) = check_arguments([written], f"{gone}+x")
        assert (found.rule, found.severity) == ("option-dead", "error")
        assert f"vLLM takes no {option} since {gone}" in found.message
        assert found.fix.endswith(".")


def test_all_dead_options_are_pinned():
    assert set(DEAD_OPTIONS) == {case[0] for case in DEAD}


@pytest.mark.parametrize(
    ("option", "before", "first"),
    [
        ("--async-scheduling", "0.9.2", "0.10.0"),
        ("--decode-context-parallel-size", "0.10.1", "0.10.2"),
        ("--all2all-backend", "0.11.0", "0.11.1"),
        ("--cudagraph-capture-sizes", "0.11.0", "0.11.1"),
        ("--prefill-context-parallel-size", "0.11.2", "0.12.0"),
        ("--attention-backend", "0.12.0", "0.13.0"),
        ("--profiler-config", "0.12.0", "0.13.0"),
        ("--shutdown-timeout", "0.17.1", "0.18.0"),
        ("--spec-tokens", "0.21.0", "0.22.0"),
    ],
)
def test_young_options(option, before, first):
    assert option in YOUNG_OPTIONS
    assert check_arguments([option, "2"], f"{first}+x") == []
    (found,) = check_arguments([option, "2"], f"{before}+x")
    assert (found.rule, found.severity) == ("option-too-old", "error")
    assert f"before {first}" in found.message


def test_all_young_options_are_pinned():
    assert len(YOUNG_OPTIONS) == 9


def test_the_vllm_of_the_release_counts():
    # vLLM-Ascend 0.14.0rc1 runs with vLLM 0.14.1, 0.11.0rc0 with 0.11.0rc3
    assert rules(check_arguments(["--task", "embed"], "0.14.0rc1")) == [("option-dead", "error")]
    assert check_arguments(["--scheduler-delay-factor", "1"], "0.11.0rc0") == []


@pytest.mark.parametrize(
    "args",
    [
        ["--max-num-seqs", "8", "--enforce-eager", "--additional-config", "{}"],
        ["--additional-config={}"],
        ["--additional-config.refresh", "true"],
        ["--additional_config.refresh=true"],
        ["--speculative-config", '{"num_speculative_tokens": 1, "method": "mtp"}'],
        ["-sc.num_speculative_tokens", "1"],
        [],
    ],
)
def test_options_that_are_right(args):
    assert check_arguments(args, NOW) == []


@pytest.mark.parametrize("option", ["--additional-config", "--speculative-config", "-sc"])
@pytest.mark.parametrize("value", ["{enable_kv_nz: true}", "[]", "", "x"])
def test_no_json(option, value):
    for args in ([option, value], [f"{option}={value}"]):
        (found,) = check_arguments(args, NOW)
        assert (found.rule, found.severity) == ("option-json", "error")
        assert option in found.message


def test_no_value_is_no_json():
    assert rules(check_arguments(["--additional-config"], NOW)) == [("option-json", "error")]


def test_additional_config_among_arguments():
    args = ["--additional-config", '{"enable_kv_nz": true}']
    assert rules(check_arguments(args, NOW, "prefill")) == [("additional-config-side", "error")]
    assert check_arguments(args, NOW, "decode") == []
    assert rules(check_arguments(args, NOW)) == [("additional-config-side", "error")]


@pytest.mark.parametrize(
    ("args", "tokens"),
    [
        (["--speculative-config", '{"num_speculative_tokens": 3}'], 3),
        (["--speculative_config", '{"num_speculative_tokens": "2"}'], 2),
        (['--speculative-config={"num_speculative_tokens": 1}'], 1),
        (["-sc", '{"num_speculative_tokens": 4}'], 4),
        (["--speculative-config.num_speculative_tokens", "5"], 5),
        (["--speculative-config.num-speculative-tokens=6"], 6),
        (["--spec-tokens", "7"], 7),
        (["--spec-tokens", "7", "--speculative-config", '{"num_speculative_tokens": 8}'], 8),
        (["--speculative-config", '{"method": "mtp"}'], None),
        (["--speculative-config.method", "mtp"], None),
        (["--speculative-config", "x"], None),
        (["--spec-tokens", "x"], None),
        (["--max-num-seqs", "8"], None),
        ([], None),
    ],
)
def test_speculative_tokens(args, tokens):
    assert speculative_tokens(args) == tokens


# key -> spans of releases that know it: (last before, first, last, first that no longer does)
KEYS = {
    "SLO_limits_for_dynamic_batch": [("0.11.0", "0.12.0rc1", "0.23.0", "0.24.0rc1")],
    "ascend_compilation_config": [("0.11.0", "0.12.0rc1", None, None)],
    "ascend_fusion_config": [("0.13.0", "0.14.0rc1", None, None)],
    "ascend_log_path": [("0.21.0rc1", "0.22.1rc1", None, None)],
    "ascend_scheduler_config": [("0.9.1rc3", "0.9.1", "0.11.0", "0.12.0rc1")],
    "batch_job_sched_config": [("0.24.0rc1", "0.25.1rc1", None, None)],
    "c8_enable_reshape_optim": [("0.20.2rc1", "0.21.0rc1", None, None)],
    "chunked_prefill_for_mla": [("0.9.1", "0.9.2rc1", "0.12.0rc1", "0.13.0rc1")],
    "dp_allreduce_on_npu": [("0.20.2rc1", "0.21.0rc1", "0.24.0rc1", "0.25.1rc1")],
    "draft_window_size": [("0.23.0", "0.24.0rc1", None, None)],
    "dump_config": [("0.11.0", "0.12.0rc1", "0.12.0rc1", "0.13.0rc1"), ("0.19.1rc1", "0.20.2rc1", None, None)],
    "dump_config_path": [("0.12.0rc1", "0.13.0rc1", None, None)],
    "dynamic_eplb": [("0.9.1rc3", "0.9.1", "0.9.1", "0.9.2rc1"), ("0.10.2rc1", "0.11.0rc0", "0.13.0", "0.14.0rc1")],
    "dynamic_spec_config": [("0.26.0rc1", "0.27.1rc1", None, None)],
    "enable_async_exponential": [("0.12.0rc1", "0.13.0rc1", "0.24.0rc1", "0.25.1rc1")],
    "enable_balance_scheduling": [("0.19.1rc1", "0.20.2rc1", None, None)],
    "enable_context_parallel": [("0.19.1rc1", "0.20.2rc1", "0.20.2rc1", "0.21.0rc1")],
    "enable_cpu_binding": [("0.11.0rc0", "0.11.0rc1", None, None)],
    "enable_dsa_cp": [("0.19.1rc1", "0.20.2rc1", None, None)],
    "enable_flashcomm1": [("0.19.1rc1", "0.20.2rc1", None, None)],
    "enable_flashcomm2_parallel_size": [("0.19.1rc1", "0.20.2rc1", "0.24.0rc1", "0.25.1rc1")],
    "enable_fused_mc2": [("0.19.1rc1", "0.20.2rc1", None, None)],
    "enable_kv_nz": [("0.13.0rc1", "0.13.0rc2", None, None)],
    "enable_kv_tnd": [("0.13.0rc2", "0.13.0rc3", "0.13.0rc3", "0.13.0")],
    "enable_matmul_allreduce": [("0.19.1rc1", "0.20.2rc1", "0.24.0rc1", "0.25.1rc1")],
    "enable_mc2_hierarchy_comm": [("0.17.0rc1", "0.18.0rc1", None, None)],
    "enable_mlapo": [("0.19.1rc1", "0.20.2rc1", None, None)],
    "enable_npugraph_ex": [("0.11.0", "0.12.0rc1", "0.13.0", "0.14.0rc1")],
    "enable_prefetch": [("0.10.0rc1", "0.10.1rc1", "0.11.0rc0", "0.11.0rc1")],
    "enable_prefill_mc2": [("0.22.1rc1", "0.23.0rc1", None, None)],
    "enable_prefill_optimizations": [("0.9.1rc3", "0.9.1", "0.9.1", "0.9.2rc1")],
    "enable_reduce_sample": [("0.19.1rc1", "0.20.2rc1", None, None)],
    "enable_shared_expert_dp": [("0.10.0rc1", "0.10.1rc1", None, None)],
    "enable_sleep_mode_extra_cleanup": [("0.22.1rc1", "0.23.0rc1", "0.26.0rc1", "0.27.1rc1")],
    "enable_sparse_c8": [
        ("0.17.0rc1", "0.18.0rc1", "0.22.1rc1", "0.23.0rc1"),
        ("0.23.0", "0.24.0rc1", "0.25.1rc1", "0.26.0rc1"),
    ],
    "enable_sparse_li_c8": [
        ("0.22.1rc1", "0.23.0rc1", "0.23.0", "0.24.0rc1"),
        ("0.25.1rc1", "0.26.0rc1", None, None),
    ],
    "enable_sparse_sfa_c8": [
        ("0.22.1rc1", "0.23.0rc1", "0.23.0", "0.24.0rc1"),
        ("0.25.1rc1", "0.26.0rc1", None, None),
    ],
    "enable_transpose_kv_cache_by_block": [("0.19.1rc1", "0.20.2rc1", None, None)],
    "enable_weight_nz_layout": [("0.9.1rc3", "0.9.1", "0.9.1", "0.9.2rc1")],
    "eplb_config": [("0.13.0rc1", "0.13.0rc2", None, None)],
    "eplb_policy_type": [("0.11.0rc0", "0.11.0rc1", "0.13.0", "0.14.0rc1")],
    "expert_map_path": [("0.9.1rc3", "0.9.1", "0.13.0", "0.14.0rc1")],
    "expert_map_record_path": [("0.10.2rc1", "0.11.0rc0", "0.13.0", "0.14.0rc1")],
    "finegrained_tp_config": [("0.11.0", "0.12.0rc1", None, None)],
    "gate_eplb": [("0.9.1rc3", "0.9.1", "0.9.1", "0.9.2rc1"), ("0.10.2rc1", "0.11.0rc0", "0.13.0", "0.14.0rc1")],
    "hamming_sparse": [("0.18.0", "0.19.1rc1", "0.24.0rc1", "0.25.1rc1")],
    "init_redundancy_expert": [("0.10.2rc1", "0.11.0rc0", "0.13.0", "0.14.0rc1")],
    "kv_cache_dtype": [("0.9.1", "0.9.2rc1", "0.12.0rc1", "0.13.0rc1")],
    "layer_sharding": [("0.13.0rc1", "0.13.0rc2", "0.23.0", "0.24.0rc1")],
    "lmhead_tensor_parallel_size": [("0.10.0rc1", "0.10.1rc1", "0.11.0", "0.12.0rc1")],
    "mc2_comm_alg": [("0.25.1rc1", "0.26.0rc1", None, None)],
    "mega_moe_max_tokens": [("0.22.1rc1", "0.23.0rc1", None, None)],
    "mix_placement": [("0.13.0rc1", "0.13.0rc2", "0.13.0", "0.14.0rc1"), ("0.18.0", "0.19.1rc1", None, None)],
    "mlapo_keep_prefill_weights": [("0.26.0rc1", "0.27.1rc1", None, None)],
    "msmonitor_use_daemon": [("0.19.1rc1", "0.20.2rc1", None, None)],
    "multistream_dsa_preprocess": [
        ("0.13.0rc2", "0.13.0rc3", "0.13.0rc3", "0.13.0"),
        ("0.19.1rc1", "0.20.2rc1", "0.21.0rc1", "0.22.1rc1"),
    ],
    "multistream_dsv4_dsa_overlap": [("0.19.1rc1", "0.20.2rc1", None, None)],
    "multistream_overlap_gate": [("0.12.0rc1", "0.13.0rc1", "0.23.0", "0.24.0rc1")],
    "multistream_overlap_shared_expert": [("0.10.2rc1", "0.11.0rc0", None, None)],
    "npugraph_ex_config": [("0.13.0", "0.14.0rc1", "0.15.0rc1", "0.16.0rc1")],
    "num_iterations_eplb_update": [
        ("0.9.1rc3", "0.9.1", "0.9.1", "0.9.2rc1"),
        ("0.10.2rc1", "0.11.0rc0", "0.13.0", "0.14.0rc1"),
    ],
    "num_wait_worker_iterations": [
        ("0.9.1rc3", "0.9.1", "0.9.1", "0.9.2rc1"),
        ("0.10.2rc1", "0.11.0rc0", "0.13.0", "0.14.0rc1"),
    ],
    "oproj_tensor_parallel_size": [("0.10.1rc1", "0.10.2rc1", "0.11.0", "0.12.0rc1")],
    "pa_shape_list": [("0.12.0rc1", "0.13.0rc1", None, None)],
    "prefill_comm_compute_overlap": [("0.19.1rc1", "0.20.2rc1", "0.21.0rc1", "0.22.1rc1")],
    "profiling_chunk_config": [("0.18.0", "0.19.1rc1", None, None)],
    "recompute_scheduler_enable": [("0.11.0rc0", "0.11.0rc1", None, None)],
    "refresh": [("0.9.1rc3", "0.9.1", None, None)],
    "rejection_sampler_config": [("0.20.2rc1", "0.21.0rc1", None, None)],
    "rl_config": [("0.26.0rc1", "0.27.1rc1", None, None)],
    "scheduler_config": [("0.24.0rc1", "0.25.1rc1", None, None)],
    "short_request_first_config": [("0.23.0", "0.24.0rc1", None, None)],
    "sp_threshold": [("0.14.0rc1", "0.15.0rc1", "0.17.0rc1", "0.18.0rc1")],
    "sparse_kv_offload_config": [("0.25.1rc1", "0.26.0rc1", None, None)],
    "torchair_graph_config": [("0.9.1rc3", "0.9.1", "0.11.0", "0.12.0rc1")],
    "weight_nz_mode": [("0.19.1rc1", "0.20.2rc1", None, None)],
    "weight_prefetch_config": [("0.11.0rc0", "0.11.0rc1", "0.23.0", "0.24.0rc1")],
    "xlite_graph_config": [("0.11.0", "0.12.0rc1", None, None)],
}


def check_key(key, version):
    return check_additional_config({key: 0}, "decode", version)


@pytest.mark.parametrize("key", KEYS)
def test_additional_keys(key):
    for place, (before, first, last, gone) in enumerate(KEYS[key]):
        for version in (first, last or "99.0"):
            assert check_key(key, version) == []
        (found,) = check_key(key, before)
        assert found.rule == ("additional-config-dead" if place else "additional-config-too-old")
        assert found.severity == "warning"
        assert place or f"before {first}, and passes over it" in found.message
        if gone:
            (found,) = check_key(key, gone)
            assert found.rule == "additional-config-dead"
            assert f"no {key} in --additional-config since {gone}, " in found.message
            assert found.fix.endswith(".")


def test_all_additional_keys_are_pinned():
    assert set(KEYS) == set(ADDITIONAL_KEYS)


@pytest.mark.parametrize(
    ("key", "version", "way_out"),
    [
        ("dynamic_eplb", "0.20.2rc1", "write it into eplb_config."),
        ("lmhead_tensor_parallel_size", "0.20.2rc1", "write it into finegrained_tp_config."),
        ("enable_sparse_c8", "0.26.0rc1", "write enable_sparse_sfa_c8 and enable_sparse_li_c8."),
        ("enable_sparse_li_c8", "0.25.1rc1", "write enable_sparse_c8."),
        ("enable_sleep_mode_extra_cleanup", "0.27.1rc1", "write sleep_mode_extra_cleanup into rl_config."),
        ("scheduler_config", "0.24.0rc1", "write its keys one level up."),
        ("enable_npugraph_ex", "0.14.0rc1", "write it into ascend_compilation_config."),
        ("layer_sharding", "0.24.0rc1", "leave it out."),
    ],
)
def test_what_to_write_instead(key, version, way_out):
    assert check_key(key, version)[0].fix == way_out


@pytest.mark.parametrize(("version", "severity"), [("0.26.0rc1", "warning"), ("0.27.1rc1", "error")])
def test_unknown_keys(version, severity):
    (found,) = check_key("enable_kv_nzz", version)
    assert (found.rule, found.severity, found.fix) == (
        "additional-config-unknown",
        severity,
        "did you mean enable_kv_nz?",
    )
    assert ("ends its start" in found.message) is (severity == "error")
    assert check_key("what is this", version)[0].fix == "leave it out."
    assert check_key("layer_sharding", version)[0].severity == severity


SIDES = [
    # key, value, side, last release that does not mind, first that does, last that does, first that does not again
    ("recompute_scheduler_enable", True, "prefill", "warning", "0.22.1rc1", "0.23.0rc1", "99.0", None),
    ("enable_kv_nz", True, "prefill", "error", None, "0.13.0rc2", "99.0", None),
    ("enable_balance_scheduling", True, "prefill", "error", None, "0.20.2rc1", "99.0", None),
    ("enable_balance_scheduling", True, "decode", "error", None, "0.20.2rc1", "99.0", None),
    ("enable_reduce_sample", True, "prefill", "warning", None, "0.20.2rc1", "0.23.0rc1", None),
    ("enable_reduce_sample", True, "prefill", "error", None, "0.23.0", "0.23.0", None),
    ("enable_reduce_sample", True, "prefill", "warning", None, "0.24.0rc1", "0.26.0rc1", None),
    ("enable_reduce_sample", True, "prefill", "error", None, "0.27.1rc1", "99.0", None),
    ("short_request_first_config", {"enabled": True}, "decode", "error", "0.24.0rc1", "0.25.1rc1", "99.0", None),
]


@pytest.mark.parametrize("case", SIDES)
def test_what_is_not_for_a_side(case):
    key, value, side, severity, before, first, last, _after = case
    other = {"prefill": "decode", "decode": "prefill"}[side]
    for version in (first, last):
        assert rules(check_additional_config({key: value}, side, version)) == [("additional-config-side", severity)]
        if key != "enable_balance_scheduling":
            assert check_additional_config({key: value}, other, version) == []
        assert (
            check_additional_config({key: {"enabled": False} if isinstance(value, dict) else False}, side, version)
            == []
        )
    if before:
        assert check_additional_config({key: value}, side, before) == []


def test_the_way_out_names_the_side():
    assert "decode instances only" in check_additional_config({"enable_kv_nz": True}, "prefill", NOW)[0].fix
    short = {"short_request_first_config": {"enabled": True}}
    assert "prefill instances only" in check_additional_config(short, "decode", NOW)[0].fix
    assert check_additional_config({"enable_balance_scheduling": True}, None, NOW)[0].fix == "leave it out."


def test_settings_of_the_scheduler():
    balance = {"scheduler_config": {"enable_balance_scheduling": True}}
    assert rules(check_additional_config(balance, "decode", "0.25.1rc1")) == [("additional-config-side", "error")]
    assert rules(check_additional_config(balance, "decode", "0.24.0rc1")) == [("additional-config-too-old", "warning")]
    # the inner one wins
    both = {"enable_balance_scheduling": True, "scheduler_config": {"enable_balance_scheduling": False}}
    assert check_additional_config(both, "decode", NOW) == []
    assert check_additional_config({"scheduler_config": None}, "decode", NOW) == []


def test_dyntra():
    dyntra = {"scheduler_config": {"dyntra_lb_config": {"enabled": True}}}
    assert check_additional_config(dyntra, "prefill", "0.26.0rc1") == []
    assert rules(check_additional_config(dyntra, "prefill", "0.27.1rc1")) == [("additional-config-side", "error")]
    assert check_additional_config(dyntra, "decode", "0.27.1rc1") == []


def test_for_both_sides_only_errors_count():
    assert check_additional_config({"recompute_scheduler_enable": True}, None, NOW) == []
    assert rules(check_additional_config({"enable_kv_nz": True}, None, NOW)) == [("additional-config-side", "error")]


@pytest.mark.parametrize("size", ["oproj_tensor_parallel_size", "embedding_tensor_parallel_size"])
def test_uneven_ranks_need_the_recompute_scheduler(size):
    config = {"finegrained_tp_config": {size: 2}}
    assert check_additional_config(config, "decode", "0.22.1rc1") == []
    (found,) = check_additional_config(config, "decode", "0.23.0rc1")
    assert (found.rule, found.severity) == ("additional-config-needs", "error")
    assert size in found.message
    assert "decode instances" in found.fix
    assert "out of prefill" in check_additional_config(config, "prefill", "0.23.0rc1")[0].fix
    assert check_additional_config({**config, "recompute_scheduler_enable": True}, "decode", "0.23.0rc1") == []
    assert check_additional_config({"finegrained_tp_config": {size: 0}}, "decode", "0.23.0rc1") == []
    assert check_additional_config({"finegrained_tp_config": {"lmhead_tensor_parallel_size": 2}}, "decode", NOW) == []


@pytest.mark.parametrize(
    ("key", "value", "version", "wrong"),
    [
        ("enable_fused_mc2", 2, "0.23.0", False),
        ("enable_fused_mc2", 2, "0.24.0rc1", True),
        ("enable_fused_mc2", True, "0.24.0rc1", False),
        ("enable_fused_mc2", "1", "0.24.0rc1", False),
        ("enable_fused_mc2", 3, "0.23.0", True),
        ("weight_nz_mode", 2, NOW, False),
        ("weight_nz_mode", 3, NOW, True),
        ("weight_nz_mode", None, NOW, False),
    ],
)
def test_values_like_those_of_variables(key, value, version, wrong):
    found = check_additional_config({key: value}, "decode", version)
    assert rules(found) == ([("additional-config-value", "error")] if wrong else [])
    assert not wrong or f"{key} of --additional-config is {value!r}" in found[0].message
    assert version != NOW or not wrong or found[0].fix == "write 0, 1 or 2."


PULL = ("MooncakeConnector", "MooncakeConnectorV1")
STORE = ("AscendStoreConnector", "MooncakeConnectorStoreV1")
# connectors, key, last release before, first, last, first that does not read it
UPSTREAM_STORE = (
    *("custom_mem_pool", "enable_cross_layers_blocks", "enable_group_semantics", "enable_lookup"),
    *("enable_store_tp_lcm", "load_async", "lookup_async", "lookup_rpc_port", "preferred_segment"),
    *("prefill_tp_sizes", "save_decode_cache", "store_tp_size"),
)
EXTRA = [
    *((("MooncakeStoreConnector",), key, "0.31.0", "0.32.0", "99.0", None) for key in UPSTREAM_STORE),
    (PULL, "prefill", "0.10.0rc1", "0.10.1rc1", "99.0", None),
    (PULL, "decode", "0.10.0rc1", "0.10.1rc1", "99.0", None),
    (PULL, "use_ascend_direct", "0.10.1rc1", "0.10.2rc1", "0.11.0", "0.12.0rc1"),
    (PULL, "ascend_local_comm_res_path", "0.20.2rc1", "0.21.0rc1", "99.0", None),
    (("MooncakeHybridConnector",), "prefill", "0.10.0rc1", "0.10.1rc1", "99.0", None),
    (("MooncakeHybridConnector",), "decode", "0.10.0rc1", "0.10.1rc1", "99.0", None),
    (("MooncakeHybridConnector",), "ascend_local_comm_res_path", "0.20.2rc1", "0.21.0rc1", "99.0", None),
    (("MooncakeLayerwiseConnector",), "prefill", "0.10.0rc1", "0.11.0rc1", "99.0", None),
    (("MooncakeLayerwiseConnector",), "decode", "0.10.0rc1", "0.11.0rc1", "99.0", None),
    (("MooncakeLayerwiseConnector",), "use_ascend_direct", "0.11.0rc0", "0.11.0rc1", "0.11.0", "0.12.0rc1"),
    (("MooncakeLayerwiseConnector",), "tls_config", "0.13.0rc2", "0.13.0rc3", "99.0", None),
    (("MooncakeLayerwiseConnector",), "ascend_local_comm_res_path", "0.20.2rc1", "0.21.0rc1", "99.0", None),
    (("SfaRemoteD2HConnector",), "prefill", "0.10.0rc1", "0.26.0rc1", "99.0", None),
    (("SfaRemoteD2HConnector",), "decode", "0.10.0rc1", "0.26.0rc1", "99.0", None),
    (("SfaRemoteD2HConnector",), "ascend_local_comm_res_path", "0.20.2rc1", "0.26.0rc1", "99.0", None),
    (("SfaRemoteD2HConnector",), "transfer_backend", "0.25.1rc1", "0.26.0rc1", "99.0", None),
    (("SfaRemoteD2HConnector",), "use_layerwise", "0.25.1rc1", "0.26.0rc1", "99.0", None),
    (STORE, "ascend_local_comm_res_path", "0.20.2rc1", "0.21.0rc1", "99.0", None),
    (STORE, "backend", "0.11.0", "0.12.0rc1", "99.0", None),
    (STORE, "consumer_is_to_load", "0.11.0rc0", "0.11.0rc1", "99.0", None),
    (STORE, "consumer_is_to_put", "0.13.0rc1", "0.13.0rc2", "99.0", None),
    (STORE, "decode_tp_size", "0.23.0", "0.24.0rc1", "99.0", None),
    (STORE, "discard_partial_chunks", "0.10.2rc1", "0.11.0rc0", "99.0", None),
    (STORE, "h2d_stagger_us", "0.22.1rc1", "0.23.0rc1", "99.0", None),
    (STORE, "layerwise_independent_layers", "0.25.1rc1", "0.26.0rc1", "99.0", None),
    (STORE, "layerwise_max_transfer_blocks", "0.22.1rc1", "0.23.0rc1", "99.0", None),
    (STORE, "layerwise_max_transfer_bytes", "0.22.1rc1", "0.23.0rc1", "99.0", None),
    (STORE, "layerwise_num_shared_buffers", "0.25.1rc1", "0.26.0rc1", "99.0", None),
    (STORE, "layerwise_prefetch_layers", "0.22.1rc1", "0.23.0rc1", "99.0", None),
    (STORE, "load_async", "0.11.0rc0", "0.11.0rc1", "99.0", None),
    (STORE, "lookup_rpc_port", "0.11.0", "0.12.0rc1", "99.0", None),
    (STORE, "mooncake_rpc_port", "0.10.2rc1", "0.11.0rc0", "0.11.0", None),
    (STORE, "prefill_pp_layer_partition", "0.13.0rc1", "0.13.0rc2", "99.0", None),
    (STORE, "prefill_pp_size", "0.13.0rc1", "0.13.0rc2", "99.0", None),
    (STORE, "prefill_tp_size", "0.23.0", "0.24.0rc1", "99.0", None),
    (STORE, "save_decode_cache", "0.22.1rc1", "0.23.0rc1", "99.0", None),
    (STORE, "use_layerwise", "0.10.2rc1", "0.11.0rc0", "99.0", None),
]


def about(found, key):
    return [finding for finding in found if f" {key}" in finding.message and finding.rule != "extra-config-direct"]


@pytest.mark.parametrize("case", EXTRA)
def test_extra_keys(case):
    connectors, key, before, first, last, gone = case
    value = "mooncake" if key == "backend" else True
    for connector in connectors:
        for version in (first, last):
            assert about(check_extra_config(connector, {key: value}, version), key) == []
        (found,) = about(check_extra_config(connector, {key: value}, before), key)
        assert (found.rule, found.severity) == ("extra-config-too-old", "warning")
        if gone:
            (found,) = check_extra_config(connector, {key: value}, gone)
            assert (found.rule, found.severity) == ("extra-config-dead", "warning")
            assert f"since vLLM-Ascend {gone}" in found.message


def test_all_extra_keys_are_pinned():
    assert {(name, key) for name, keys in EXTRA_KEYS.items() for key in keys} == {
        (name, case[1]) for case in EXTRA for name in case[0]
    }


def test_keys_that_nobody_reads():
    (found,) = check_extra_config("MooncakeConnectorV1", {"delayed_free": True}, NOW)
    assert (found.rule, found.severity) == ("extra-config-unknown", "warning")
    assert "no release" in found.message
    (found,) = check_extra_config("AscendStoreConnector", {"lookup_rpc_prot": "0"}, NOW)
    assert (found.rule, found.fix) == ("extra-config-unknown", "did you mean lookup_rpc_port?")
    assert check_extra_config("AscendStoreConnector", {"x": 1}, NOW)[0].fix == "leave it out."
    assert check_extra_config("UCMConnector", {"x": 1}, NOW) == []
    (found,) = check_extra_config("MooncakeStoreConnector", {"backend": "mooncake"}, "0.32.0", "vLLM")
    assert found.message == "MooncakeStoreConnector of vLLM 0.32.0 does not read backend."


def test_the_old_name_of_the_lookup_port():
    (found,) = check_extra_config("AscendStoreConnector", {"mooncake_rpc_port": "0"}, "0.12.0rc1")
    assert (found.rule, found.severity, found.fix) == ("extra-config-renamed", "warning", "write lookup_rpc_port.")
    assert check_extra_config("MooncakeConnectorStoreV1", {"mooncake_rpc_port": "0"}, "0.11.0") == []


@pytest.mark.parametrize(
    ("connector", "config", "version", "needed"),
    [
        ("MooncakeConnectorV1", {}, "0.10.1rc1", False),
        ("MooncakeConnectorV1", {}, "0.10.2rc1", True),
        ("MooncakeConnectorV1", {}, "0.11.0rc0", True),
        ("MooncakeConnectorV1", {"use_ascend_direct": True}, "0.11.0rc0", False),
        ("MooncakeConnectorV1", {}, "0.11.0rc1", False),
        ("MooncakeConnectorV1", {"use_ascend_direct": False}, "0.11.0rc2", True),
        ("MooncakeLayerwiseConnector", {}, "0.11.0", False),
        ("MooncakeLayerwiseConnector", {"use_ascend_direct": False}, "0.11.0", True),
        ("AscendStoreConnector", {}, "0.12.0rc1", False),
    ],
)
def test_ascend_direct(connector, config, version, needed):
    found = check_extra_config(connector, config, version)
    assert rules(found) == ([("extra-config-direct", "error")] if needed else [])


@pytest.mark.parametrize(
    ("backend", "version", "known"),
    [
        ("mooncake", "0.12.0rc1", True),
        ("Memcache", "0.12.0rc1", True),
        ("yuanrong", "0.18.0", False),
        ("yuanrong", "0.19.1rc1", True),
        ("redis", NOW, False),
        ("mooncake", NOW, True),
    ],
)
def test_backends(backend, version, known):
    found = check_extra_config("AscendStoreConnector", {"backend": backend}, version)
    assert rules(found) == ([] if known else [("extra-config-value", "error")])
    assert known or repr(backend) in found[0].message
    assert backend != "redis" or found[0].fix == "write mooncake, memcache or yuanrong."
    assert len(STORE_BACKENDS) == 2


@pytest.mark.parametrize(
    ("key", "before", "first", "last", "gone"),
    [
        *((key, None, "0.9.1", "0.33.0", None) for key in ("kv_connector", "engine_id", "kv_buffer_device", "kv_role")),
        *((key, None, "0.9.1", "0.33.0", None) for key in ("kv_port", "kv_connector_extra_config")),
        ("kv_connector_module_path", None, "0.9.1", "0.33.0", None),
        *(
            (key, None, "0.9.1", "0.31.0", "0.32.0")
            for key in ("kv_buffer_size", "kv_rank", "kv_parallel_size", "kv_ip")
        ),
        ("enable_permute_local_kv", "0.11.0", "0.11.1", "0.33.0", None),
        ("kv_load_failure_policy", "0.12.0", "0.13.0", "0.33.0", None),
        ("kv_conector", "0.32.0", None, None, None),
    ],
)
def test_keys_of_the_transfer_config(key, before, first, last, gone):
    for version in filter(None, (first, last)):
        assert check_transfer_config({key: "fail"}, version) == []
    for version in filter(None, (before, gone)):
        (found,) = check_transfer_config({key: "fail"}, version)
        assert (found.rule, found.severity) == ("transfer-config-key", "error")
        assert f"vLLM {version} knows no {key}" in found.message
    assert key in TRANSFER_KEYS or "did you mean kv_connector?" in check_transfer_config({key: 1}, "0.32.0")[0].fix


def test_all_keys_of_the_transfer_config_are_pinned():
    assert len(TRANSFER_KEYS) == 13


json_values = st.sampled_from(
    [
        *(None, True, False, 0, -1, 2**40, 1.5, "", "0", "1", "auto", [], [0], ["a", {}], {}, {"enabled": True}),
        *({"enabled": 0}, {"oproj_tensor_parallel_size": 2}, {"recompute_scheduler_enable": [1]}, {"a": {"b": None}}),
    ]
)


@given(
    st.dictionaries(st.sampled_from([*ADDITIONAL_KEYS, "x"]), json_values, max_size=4),
    st.sampled_from(["prefill", "decode", None]),
)
def test_any_additional_config_can_be_checked(config, side):
    for version in ("0.11.0", "0.26.0", "0.30.0rc2"):
        check_additional_config(config, side, version)
        check_arguments(["--additional-config", json.dumps(config)], version, side)


@given(st.lists(st.text(alphabet='-a=.{}"1 ', max_size=8)))
def test_any_arguments_can_be_checked(args):
    check_arguments(args, NOW)
    speculative_tokens(args)


@given(
    st.sampled_from(sorted(EXTRA_KEYS)),
    st.dictionaries(st.text(max_size=5) | st.sampled_from(["backend", "prefill"]), json_values, max_size=4),
)
def test_any_extra_config_can_be_checked(connector, config):
    check_extra_config(connector, config, NOW)
    check_transfer_config(config, "0.26.0")


@pytest.mark.parametrize("option", ["--disable-async-output-proc", "--max-seq-len-to-capture"])
def test_a_candidate_takes_what_its_release_drops(option):
    assert check_options([option], "0.11.0rc3") == []
    assert [found.rule for found in check_options([option], "0.11.0")] == ["option-dead"]


def test_balance_scheduling_ends_a_start_since_the_release_that_checks():
    config = {"scheduler_config": {"enable_balance_scheduling": True}, "enable_balance_scheduling": True}
    found = {version: check_additional_config(config, "prefill", version) for version in ("0.19.1rc1", "0.20.2rc1")}
    sides = {version: [item.rule for item in items].count("additional-config-side") for version, items in found.items()}
    assert sides == {"0.19.1rc1": 0, "0.20.2rc1": 1}
