# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache, counters and text of an engine; faults and state files."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest
from twin import state
from twin.blocks import Blocks, Holder
from twin.metrics import Stats, render
from twin.tokens import kv_of, model_facts, text_of, tokenize, weights

NEVER = threading.Event()
README = Path(__file__).parents[2] / "sim/npu/README.md"


def test_blocks_come_and_go() -> None:
    blocks = Blocks(total=4, size=128)
    mine = blocks.allocate(300, NEVER)
    assert mine is not None
    assert len(mine) == 3
    assert 0 not in mine
    assert blocks.usage == 0.75
    blocks.write(mine, list(range(300)))
    assert blocks.read(mine[2]) == list(range(256, 300))
    blocks.free(mine)
    assert blocks.usage == 0
    assert blocks.read(mine[0]) is None


def test_a_full_cache_waits_and_gives_up() -> None:
    blocks = Blocks(total=2, size=128)
    assert blocks.allocate(300, NEVER) is None  # never enough
    assert blocks.allocate(256, NEVER)
    cancelled = threading.Event()
    cancelled.set()
    assert blocks.allocate(1, cancelled) is None


def test_held_blocks_go_when_every_worker_was_told() -> None:
    blocks = Blocks(total=4, size=128)
    holder = Holder(blocks, workers=2, timeout=100)
    holder.hold("r", blocks.allocate(128, NEVER) or [])
    assert holder.fetched("r", 0)
    assert blocks.usage == 0.25
    assert holder.fetched("r", 1)
    assert blocks.usage == 0
    assert not holder.fetched("r", 1)


def test_held_blocks_expire() -> None:
    blocks = Blocks(total=4, size=128)
    holder = Holder(blocks, workers=1, timeout=-1)
    holder.hold("r", blocks.allocate(128, NEVER) or [])
    assert holder.expire() == ["r"]
    assert holder.expire() == []
    assert blocks.usage == 0


def test_text_depends_on_prompt_and_weights() -> None:
    tokens = tokenize("the quick brown fox")
    assert len(tokens) == 4
    assert tokenize(tokens) == tokens
    mine = text_of(kv_of(tokens, weights("/m")), 8)
    assert mine == text_of(kv_of(tokens, weights("/m/")), 8)
    assert mine[:4] == text_of(kv_of(tokens, weights("/m")), 4)
    assert mine != text_of(kv_of(tokens, weights("/other")), 8)
    assert mine != text_of(kv_of(tokenize("the quick brown dog"), weights("/m")), 8)


def test_model_facts(tmp_path: Path) -> None:
    assert model_facts("/no/model")["moe"]
    (tmp_path / "config.json").write_text(json.dumps({"num_experts": 0, "max_position_embeddings": 64}))
    assert model_facts(str(tmp_path)) == {"moe": False, "mla": False, "hybrid": False, "max_len": 64}
    (tmp_path / "config.json").write_text(json.dumps({"n_routed_experts": 256, "kv_lora_rank": 512}))
    facts = model_facts(str(tmp_path))
    assert facts["moe"]
    assert facts["mla"]


def test_metrics_by_engine() -> None:
    stats = Stats()
    stats.source(external=5, local=2)
    text = render({0: stats.snapshot(0.5), 3: {}}, "q", by_source=True)
    assert 'vllm:prompt_tokens_by_source_total{engine="0",model_name="q",source="external_kv_transfer"} 5.0' in text
    assert 'vllm:prompt_tokens_total{engine="0",model_name="q"} 7.0' in text
    assert 'vllm:kv_cache_usage_perc{engine="0",model_name="q"} 0.5' in text
    assert 'vllm:num_requests_running{engine="3",model_name="q"} 0.0' in text
    assert "by_source" not in render({0: {}}, "q", by_source=False)


def test_faults_come_from_variable_and_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state.json"
    monkeypatch.setenv(state.HOST_VARIABLE, str(file))
    monkeypatch.setenv(state.FAULT_VARIABLE, "slow:3;die-after-ready:5")
    assert state.engine_faults("8100") == {"slow": "3", "die-after-ready": "5"}
    file.write_text(json.dumps({"engine_faults": {"8100": "wrong-kv", "8200": "hang", "*": "slow:1"}}))
    assert state.engine_faults("8100") == {"slow": "1", "die-after-ready": "5", "wrong-kv": ""}
    monkeypatch.setenv(state.FAULT_VARIABLE, "explode")
    with pytest.raises(ValueError, match="'explode' is no fault"):
        state.engine_faults()


def test_release_defaults() -> None:
    release = state.Release.of({"vllm_ascend": "0.23.0rc1", "generation": "A2"})
    assert (release.vllm, release.chips) == ("0.23.0", 8)


def test_the_readme_names_every_fault() -> None:
    told = set(re.findall(r"(?m)^\| `([a-z0-9-]+)(?::[a-z]+)?` \|", README.read_text()))
    assert set(state.ENGINE_FAULTS) <= told
