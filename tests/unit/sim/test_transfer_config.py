# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""--kv-transfer-config as vLLM and vLLM-Ascend judge it."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest
from twin.ports import Sizes
from twin.transfer_config import Refused, check, reader, understand

MOE = {"moe": True, "mla": False, "hybrid": False}
SIZES = {"prefill": {"dp_size": 2, "tp_size": 8}, "decode": {"dp_size": 4, "tp_size": 4}}


def config(**more: Any) -> dict[str, Any]:
    base = {"kv_connector": "MooncakeConnectorV1", "kv_role": "kv_producer", "kv_port": 22000}
    return {**base, "kv_connector_extra_config": SIZES, **more}


def started(data: dict[str, Any], ascend: str = "0.23.0", dp: int = 2, tp: int = 8, **sizes: int) -> None:
    vllm = ascend.partition("rc")[0]
    read = reader(vllm)(json.dumps(data))
    its = understand(read, ascend, vllm)
    assert its is not None
    check(its, ascend, dp, Sizes(tp=tp, **sizes), MOE)


def test_the_guides_config() -> None:
    started(config())
    started(config(kv_role="kv_consumer"), dp=4, tp=4)
    started(config(kv_port="36000"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{bad", "Invalid JSON: "),
        ("[]", "Input should be an object"),
        (json.dumps(config(delayed_free=True)), "delayed_free\n  Unexpected keyword argument [type=unexpected_keyword"),
        (json.dumps(config(kv_role="producer")), "Input should be 'kv_producer', 'kv_both' or 'kv_consumer'"),
        (json.dumps(config(kv_port="many")), "kv_port\n  Input should be a valid integer"),
        (json.dumps(config(kv_load_failure_policy="retry")), "Input should be 'recompute' or 'fail'"),
        ('{"kv_connector":"X"}', "Please specify kv_role when kv_connector is set"),
    ],
)
def test_unreadable(text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        reader("0.23.0")(text)
    assert str(refused.value).startswith("1 validation error for KVTransferConfig\n")
    assert message in str(refused.value)


def test_keys_have_their_releases() -> None:
    reader("0.12.0")(json.dumps(config(kv_load_failure_policy="recompute")))
    with pytest.raises(argparse.ArgumentTypeError, match="Unexpected keyword argument"):
        reader("0.11.0")(json.dumps(config(kv_load_failure_policy="recompute")))
    reader("0.11.0")(json.dumps(config(kv_rank=0, kv_parallel_size=1, kv_buffer_size=1e9)))
    with pytest.raises(argparse.ArgumentTypeError, match="Unexpected keyword argument"):
        reader("0.32.0")(json.dumps(config(kv_rank=0)))


@pytest.mark.parametrize(
    ("data", "ascend", "message"),
    [
        (config(kv_connector="NoSuch"), "0.23.0", "Unsupported connector type: NoSuch"),
        (config(kv_connector="MooncakeHybridConnector"), "0.18.0", "Unsupported connector type: MooncakeHybridConn"),
        (config(kv_connector="MooncakeLayerwiseConnector"), "0.11.0rc0", "Unsupported connector type"),
        (config(kv_connector="LLMDataDistCMgrConnector"), "0.12.0rc1", "Unsupported connector type"),
        # the guides of 0.11 name the class, later vLLM's own connector has that name
        (config(kv_connector="MooncakeConnector"), "0.11.0", "Unsupported connector type: MooncakeConnector"),
        (config(kv_connector="MooncakeConnector"), "0.18.0", "Cannot access accelerator device"),
        (config(kv_connector="Other", kv_connector_module_path="no.such"), "0.23.0", "No module named 'no.such'"),
        (
            config(kv_connector="Wrong", kv_connector_module_path="vllm_ascend.distributed.mooncake_connector"),
            "0.11.0",
            "has no attribute 'Wrong'",
        ),
        (
            config(kv_connector="MooncakeX", kv_connector_module_path="vllm_ascend.distributed.mooncake_connector"),
            "0.14.0rc1",
            "No module named",
        ),
    ],
)
def test_unknown_connectors(data: dict[str, Any], ascend: str, message: str) -> None:
    with pytest.raises(Refused) as refused:
        started(data, ascend)
    assert message in str(refused.value)


def test_the_module_path_of_the_0_11_guide() -> None:
    path = "vllm_ascend.distributed.mooncake_connector"
    data = config(kv_connector="MooncakeConnector", kv_connector_module_path=path)
    its = understand(data, "0.11.0", "0.11.0")
    assert its
    assert its.transfers[0].connector == "MooncakeConnectorV1"
    # a registered name is taken whatever the path says
    path = "vllm_ascend.distributed.mooncake_layerwise_connector"
    data = config(kv_connector="MooncakeLayerwiseConnector", kv_connector_module_path=path)
    its = understand(data, "0.23.0", "0.23.0")
    assert its
    assert its.transfers[0].transfer == "push"


def extra(prefill: dict[str, int], decode: dict[str, int]) -> dict[str, Any]:
    return config(kv_connector_extra_config={"prefill": prefill, "decode": decode})


@pytest.mark.parametrize(
    ("data", "dp", "tp", "message"),
    [
        (config(), 2, 4, "KV transfer 'prefill' config has a conflicting tensor parallel size. Expected 4, but got 8."),
        (config(), 1, 8, "KV transfer 'prefill' config has a conflicting data parallel size. Expected 1, but got 2."),
        (config(kv_role="kv_consumer"), 4, 8, "KV transfer 'decode' config has a conflicting tensor parallel size."),
        (extra({"dp_size": 1, "tp_size": 6}, {"dp_size": 1, "tp_size": 4}), 1, 6, "Prefill TP size must be divisible"),
        (extra({"dp_size": 1, "tp_size": 2}, {"dp_size": 1, "tp_size": 4}), 1, 2, "Prefill TP size must be divisible"),
        (extra({"dp_size": 1, "tp_size": 2}, {"tp_size": 2}), 1, 2, "AssertionError"),
        (config(kv_connector_extra_config={}), 2, 8, "AssertionError"),
        (
            extra({"dp_size": 1, "tp_size": 2}, {"dp_size": 1, "tp_size": 2, "pp_size": 2}),
            1,
            2,
            "decode pp size must be 1",
        ),
    ],
)
def test_sizes_that_do_not_fit(data: dict[str, Any], dp: int, tp: int, message: str) -> None:
    with pytest.raises(Refused) as refused:
        started(data, dp=dp, tp=tp)
    assert message in str(refused.value)


def test_own_side_is_compared_since_0_12() -> None:
    started(config(), "0.11.0", dp=1, tp=2)
    with pytest.raises(Refused, match="conflicting"):
        started(config(), "0.12.0rc1", dp=1, tp=2)


def test_prefill_tp_smaller_is_told_by_an_mla_model() -> None:
    data = extra({"dp_size": 1, "tp_size": 2}, {"dp_size": 1, "tp_size": 4})
    its = understand(data, "0.23.0", "0.23.0")
    assert its
    with pytest.raises(Refused, match="prefill_tp_size: 2 must be greater than or equal to the decode_tp_size: 4"):
        check(its, "0.23.0", 1, Sizes(tp=2), {**MOE, "mla": True})


def test_pp_and_pcp_together() -> None:
    with pytest.raises(Refused, match="pp and pcp cannot open in same time"):
        started(config(), pp=2, pcp=2)


def test_layerwise_decode_has_no_prefill_context_parallel() -> None:
    data = config(kv_connector="MooncakeLayerwiseConnector", kv_role="kv_consumer")
    with pytest.raises(Refused, match="Prefill context parallel is not support on decoder nodes"):
        started(data, dp=4, tp=4, pcp=2)


def test_recompute_is_refused_for_hybrid_models() -> None:
    its = understand(config(kv_load_failure_policy="recompute"), "0.23.0", "0.23.0")
    assert its
    with pytest.raises(Refused, match="Hybrid models do not support recompute"):
        check(its, "0.23.0", 2, Sizes(tp=8), {**MOE, "hybrid": True})


def test_multi_connector() -> None:
    store = {"kv_connector": "AscendStoreConnector", "kv_role": "kv_producer", "kv_connector_extra_config": {}}
    both = config(kv_connector="MultiConnector", kv_connector_extra_config={"connectors": [config(), store]})
    its = understand(both, "0.23.0", "0.23.0")
    assert its
    assert [t.connector for t in its.transfers] == ["MooncakeConnectorV1"]
    check(its, "0.23.0", 1, Sizes(tp=1), MOE)  # nothing compares the sizes inside
    wrong = config(kv_connector="MultiConnector", kv_connector_extra_config={"connectors": [config(kv_connector="X")]})
    with pytest.raises(Refused, match="Unsupported connector type: X"):
        understand(wrong, "0.23.0", "0.23.0")
    with pytest.raises(Refused, match="AssertionError"):
        understand(config(kv_connector="MultiConnector"), "0.23.0", "0.23.0")


def test_the_policy_changed_its_default() -> None:
    for vllm, policy in (("0.16.0", "recompute"), ("0.18.0", "fail")):
        its = understand(config(), vllm, vllm)
        assert its
        assert its.policy == policy
