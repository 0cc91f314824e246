# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import text

from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import (
    Load,
    delta,
    judge_transfer,
    load,
    prompt_tokens_by_source,
)

BY_SOURCE = """\
# HELP vllm:prompt_tokens_by_source_total Number of prompt tokens by source.
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="a \\"b\\" {c}",source="local_compute"} 7.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"} 31.0
vllm:prompt_tokens_by_source_total{engine="1",model_name="m",source="external_kv_transfer"} 1.1e+01
vllm:prompt_tokens_by_source_created{engine="1",model_name="m",source="external_kv_transfer"} 1.7e+09
"""
OLDER = """\
vllm:prompt_tokens_total{engine="0"} 40.0
vllm:external_prefix_cache_hits_total{engine="0"} 32.0
"""


def test_sums_over_engines_and_reads_odd_labels():
    assert prompt_tokens_by_source(BY_SOURCE) == {"local_compute": 7.0, "external_kv_transfer": 42.0}


def test_falls_back_to_prefix_cache_hits():
    assert prompt_tokens_by_source(OLDER) == {"external_kv_transfer": 32.0, "local_compute": 8.0}


@pytest.mark.parametrize("text", ["", "garbage\n{}\n", "vllm:prompt_tokens_total 4\n", "vllm:num_requests_running 0\n"])
def test_not_told_is_not_zero(text):
    assert prompt_tokens_by_source(text) is None


def test_delta_of_new_grown_and_restarted_counters():
    before = {"external_kv_transfer": 10.0, "local_compute": 5.0}
    after = {"external_kv_transfer": 14.0, "local_compute": 2.0, "local_cache_hit": 3.0}
    assert delta(before, after) == {"external_kv_transfer": 4, "local_compute": 2, "local_cache_hit": 3}


def test_all_external_is_proof():
    assert judge_transfer(20, {"d1": {"external_kv_transfer": 20, "local_compute": 0}, "d2": {}}) == []


def test_recomputed_prompt_names_the_decode():
    problems = judge_transfer(20, {"d1": {"external_kv_transfer": 0, "local_compute": 20}})
    assert len(problems) == 2
    assert "only 0 of 20" in problems[0]
    assert "decode d1 computed 20" in problems[1]


def test_one_recomputed_token_among_others_traffic_is_a_problem():
    assert judge_transfer(20, {"d1": {"external_kv_transfer": 60, "local_compute": 1}})


# As 0.32.0 prints them, shortened; of two ranks, and with what looks alike beside it.
OF_NOW = """\
process_start_time_seconds 1.79603198026e+09
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 4.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.12
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="external_kv_transfer"} 31.0
vllm:nixl_xfer_time_seconds_count{engine="0",model_name="m"} 7.0
vllm:nixl_xfer_time_seconds_count{engine="1",model_name="m"} 2.0
vllm:nixl_num_failed_transfers_total{engine="0",model_name="m"} 1.0
"""
# As 0.9 prints them: the share under both names, no sources.
OF_0_9 = """\
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:prompt_tokens_total{engine="0",model_name="m"} 40.0
"""
# Several API server processes (prometheus_client's multiprocess mode): no start, and the share once for each process.
OF_SEVERAL = """\
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="m",pid="11"} 0.5
vllm:kv_cache_usage_perc{engine="0",model_name="m",pid="12"} 0.25
"""


def test_load_of_now():
    assert load(OF_NOW) == Load(
        running=3,
        waiting=4,
        kv_usage=0.75,
        prompt_tokens={"external_kv_transfer": 31},
        transfers={"successful": 9, "failed": 1},
        started=1796031980.26,
    )


def test_load_of_an_old_release():
    assert load(OF_0_9) == Load(3, 1, 0.5, None, None, None)
    before = "\n".join(line for line in OF_0_9.splitlines() if "kv_cache" not in line)
    assert load(before).kv_usage == 0.5


def test_load_of_several_api_servers():
    assert load(OF_SEVERAL) == Load(3, 0, 0.5, None, None, None)


@pytest.mark.parametrize("metrics", ["", "garbage\n", 'vllm:num_requests_running{engine="0"} NaN\n'])
def test_load_that_is_not_told_is_none(metrics):
    assert load(metrics) == Load(None, None, None, None, None, None)


@given(text())
def test_no_text_is_too_odd(odd):
    load(odd)
    load(f"vllm:num_requests_running {odd}\n{OF_NOW}")
