# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity import planned
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.document import capacity, to_json
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import CapacityError, Faults
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.text import WARNING, lines
from ansible_collections.mooncake.pd.plugins.plugin_utils.plan import Plan
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils import topologies
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.capacity import configs

Raw = dict[str, Any]


def told(raw: Raw, config: Any = None, **options: Any) -> Raw:
    return capacity(topologies.plan(raw), config or configs.dense(), "config.json", options)


def pooled(segment: str | None = "40GB") -> Raw:
    raw = topologies.ascend()
    raw["connector"]["also"] = [
        {"name": "AscendStoreConnector", "side": "prefill", "extra_config": {"lookup_rpc_port": "0"}}
    ]
    raw["master"] = {"host": "npu1"}
    raw["prefill"][0]["environment"] = {"MOONCAKE_CONFIG_PATH": "/etc/mooncake.json"}
    if segment:
        raw["prefill"][0]["environment"]["MOONCAKE_GLOBAL_SEGMENT_SIZE"] = segment
    return raw


def shown(content: Raw) -> str:
    return "\n".join(text for text, _style in lines(content))


def test_instances() -> None:
    content = told(topologies.ascend())
    prefill, decode = content["instances"]
    assert (prefill["name"], prefill["kind"], decode["name"]) == ("p1", "prefill", "d1")
    assert [item["shape"]["workers"] for item in content["instances"]] == [8, 8]
    assert [item["shape"]["worker"]["value"] for item in content["instances"]] == [80 * 1024, 160 * 1024]
    assert content["token"]["value"] == 320 * 1024
    assert (content["schema"], content["cluster"], content["source"]) == (1, "npu", "config.json")
    assert json.loads(to_json(content)) == content


def test_options_of_the_engine() -> None:
    raw = topologies.cpu()
    raw["engine_args"] = ["--dtype=float32", "--kv-cache-memory-bytes", "64M", "--max-model-len=4K"]
    content = told(raw, length=8192)
    assert content["token"]["value"] == 640 * 1024
    assert content["instances"][0]["max_length"] == 4096
    assert content["instances"][0]["memory"]["value"] == 2**26
    assert content["instances"][0]["tokens"]["value"] == 2**26 // (640 * 1024)
    assert content["notes"] == [
        f"{name} takes 4096 tokens at most, which is less than length 8192." for name in ("p1", "d1")
    ]
    fp8 = told({**raw, "engine_args": ["--kv-cache-dtype", "fp8"]})
    assert (fp8["token"]["value"], fp8["kv_cache"]["dtype"]) == (160 * 1024, "fp8")
    assert told(raw, kv_cache_dtype="int8")["token"]["value"] == 160 * 1024


def test_tokens_of_all_ranks() -> None:
    raw = topologies.ascend()
    raw["decode"][0]["args"] = ["--kv-cache-memory-bytes=1G"]
    prefill, decode = told(raw)["instances"]
    assert decode["tokens"]["value"] == 2**30 // (160 * 1024) * 4
    assert (prefill["tokens"]["value"], "--kv-cache-memory-bytes" in prefill["tokens"]["unknown"]) == (None, True)
    hybrid = told(raw, configs.stateful())["instances"][1]
    assert (hybrid["tokens"]["value"], "keep a state" in hybrid["tokens"]["unknown"]) == (None, True)


def test_instances_that_keep_different_formats() -> None:
    """The plan refuses most of that, so it is brought about here."""
    raw = topologies.cpu()
    made = topologies.plan(raw)
    decode = (replace(made.topology.decode[0], args=("--kv-cache-dtype=fp8",)),)
    content = capacity(
        replace(made, topology=replace(made.topology, decode=decode)),
        configs.dense(),
        "config.json",
        {"pool_bytes": "1TB"},
    )
    assert [item["shape"]["rank"]["value"] for item in content["instances"]] == [320 * 1024, 160 * 1024]
    for figure in (content["token"], content["pool"]["tokens"]):
        assert (figure["value"], "different formats" in figure["unknown"]) == (None, True)


def test_speculation_and_environment() -> None:
    raw = topologies.ascend()
    raw["engine_args"] = ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}']
    assert "KV of draft layers is not counted" in told(raw, configs.latent())["notes"][-1]
    raw["engine_environment"] = {"VLLM_MLA_DISABLE": "1"}
    assert "VLLM_MLA_DISABLE" in told(raw, configs.latent())["token"]["unknown"]
    stages = topologies.ascend()
    stages["prefill"][0] |= {"pp": 2, "dp": 1, "environment": {"VLLM_PP_LAYER_PARTITION": "30,50"}}
    stages["decode"][0] |= {"pp": 1}
    assert told(stages)["instances"][0]["shape"]["worker"]["value"] == 50 * 1024


@pytest.mark.parametrize(
    ("raw", "options", "segments", "total"),
    [
        (pooled(), {}, [("p1", 8, 40)], 320),
        (pooled(), {"segment_bytes": "20GB"}, [("p1", 8, 20)], 160),
        (pooled(), {"pool_bytes": "1TB"}, [], 1024),
        (pooled(), {"segment_bytes": "1GB", "contributors": ["d1", "p1"]}, [("p1", 8, 1), ("d1", 8, 1)], 16),
        (pooled(None), {}, [], None),
        (topologies.ascend(), {}, [], None),
        (topologies.ascend(), {"segment_bytes": "1GB"}, [("p1", 8, 1), ("d1", 8, 1)], 16),
    ],
)
def test_pool(raw: Raw, options: Raw, segments: list[tuple[str, int, int]], total: int | None) -> None:
    pool = told(raw, **options)["pool"]
    found = [(item["owner"], item["processes"], item["bytes"] // 1024**3) for item in pool["segments"]]
    assert (found, pool["bytes"]["value"]) == (segments, total and total * 1024**3)
    assert bool(pool["bytes"]["unknown"]) == (total is None)
    if pool["bytes"]["unknown"]:
        assert "name " in pool["bytes"]["unknown"]


def test_watermark_of_the_planned_release() -> None:
    raw = topologies.ascend()
    assert told(raw)["pool"]["watermark"]["high"] == 0.95
    raw["mooncake"]["version"] = "0.3.13"
    assert told(raw)["pool"]["watermark"]["high"] == 0.90
    assert told(raw, watermark=0.8)["pool"]["watermark"] == {"high": 0.8, "evicted": 0.05, "source": "given"}


def started(*flags: str) -> Plan:
    made = topologies.plan(topologies.cpu())
    processes = {
        host: tuple(replace(one, argv=(*one.argv, *flags)) if one.kind == "master" else one for one in own)
        for host, own in made.processes.items()
    }
    return replace(made, processes=processes)


@pytest.mark.parametrize(
    "flags",
    [
        ("--eviction_high_watermark_ratio=0.8", "--eviction_ratio=.1"),
        ("-eviction_high_watermark_ratio", "0.8", "--eviction_ratio", "0.10"),
    ],
)
def test_watermark_of_the_planned_master(flags: tuple[str, ...]) -> None:
    mark = capacity(started(*flags), configs.dense(), "config.json", {"watermark": None})["pool"]["watermark"]
    assert mark == {"high": 0.8, "evicted": 0.1, "source": "the plan starts the master with it"}
    own = capacity(started(*flags), configs.dense(), "config.json", {"watermark": 0.7})["pool"]["watermark"]
    assert own == {"high": 0.7, "evicted": 0.1, "source": "given"}
    assert planned.master_flags(topologies.plan(topologies.cpu()), Faults()) == {}


def test_only_a_share_of_the_master_is_planned() -> None:
    mark = capacity(started("--eviction_ratio=0.2"), configs.dense(), "config.json", {})["pool"]["watermark"]
    assert mark == {"high": 0.9, "evicted": 0.2, "source": "default of Mooncake 0.3.13.post1"}


def test_all_problems_at_once() -> None:
    raw = pooled("much")
    raw["prefill"][0] |= {"tp": 6, "dp": 1}
    raw["engine_args"] = ["--kv-cache-dtype=fp7"]
    with pytest.raises(CapacityError) as raised:
        told(raw, contributors=["p1", "p9"], length=-1)
    text = str(raised.value)
    for place in (
        *("prefill[0] --kv-cache-dtype", "decode[0] --kv-cache-dtype", "prefill[0] MOONCAKE_GLOBAL_SEGMENT_SIZE"),
        *("prefill[0].tp", "contributors", "length"),
    ):
        assert f" {place}: [" in text
    assert text.count("Mend: ") == 6
    with pytest.raises(CapacityError, match="segment_bytes: "):
        told(topologies.cpu(), pool_bytes="1TB", segment_bytes="1GB")
    with pytest.raises(CapacityError, match="eviction_ratio: "):
        capacity(started("--eviction_ratio=lots"), configs.dense(), "config.json", {})


def test_table() -> None:
    content = told(pooled(), length=32768, requests_per_second=0.5)
    text = shown(content)
    for piece in (
        *("token    320 KiB/token", "sequence 32,768 tokens: 10 GiB", "p1: 8 segments of 40 GiB"),
        *("p1        prefill  dp 2 tp 4  8        2      1       80 KiB/token   320 KiB/token  UNKNOWN [1]",),
        *("pool                 320 GiB", "sequences that fit   30 sequences", "kept at most         1.01 min"),
        *("[1] the engine measures what is free", "watermark: 0.95 leaves 5% free"),
    ):
        assert piece in text
    assert [style for line, style in lines(content) if line.startswith("watermark: ")] == [WARNING] * 2


def test_table_of_what_is_unknown() -> None:
    assert "-e capacity_OPTION=" in shown(told(topologies.cpu()))
    assert "-e capacity_OPTION=" not in shown(told(pooled(), length=1, tokens_per_second=1))
    text = shown(told(topologies.ascend(), configs.latent(index_topk=2048, model_type="deepseek_v32"), length=10))
    assert "token    UNKNOWN [1]" in text
    assert "[1] index_topk in the config" in text
    assert text.count("indexer for sparse attention") == 1
    assert "layers: not told" in shown(told(topologies.cpu(), configs.dense(layer_types=["new"] * 80)))
