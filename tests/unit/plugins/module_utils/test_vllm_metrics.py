# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.module_utils.vllm_metrics import (
    delta,
    judge_transfer,
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
