# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.cache import Cache
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.config import read_model
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.dtypes import CACHE_DTYPES, PACKED
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import CapacityError, Faults
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.capacity import configs
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.capacity.configs import Raw


def cache(config: Raw, dtype: str = "auto", kv_cache_dtype: str = "auto") -> Cache:
    faults = Faults()
    model = read_model(config, "config.json", faults)
    faults.raise_all()
    assert model
    return Cache(model, dtype, kv_cache_dtype)


def token(config: Raw, dtype: str = "auto", kv_cache_dtype: str = "auto") -> Any:
    figure = cache(config, dtype, kv_cache_dtype).token
    assert (figure.value is None) == bool(figure.why)
    return figure.value


@pytest.mark.parametrize(
    ("config", "attention", "expected"),
    [
        # docs/source/performance/mooncake/storage-benchmark.md of Mooncake@3b5a594 has 128 for llama-3-8b, 512 for
        # llama-2-7b and 320 for llama-3-70b; it calls them bytes
        (configs.dense(32, 32, 8), "GQA", 128 * 1024),
        (configs.dense(32, 32, 32), "MHA", 512 * 1024),
        (configs.dense(64, 40, 8), "GQA", 256 * 1024),
        (configs.dense(80, 64, 8), "GQA", 320 * 1024),
        # the latent and the key for positions, once: 61 * (512 + 64) * 2
        (configs.latent(), "MLA", 70272),
        (configs.dense(32, 32, 1), "MQA", 16 * 1024),
    ],
)
def test_published_numbers(config: Raw, attention: str, expected: int) -> None:
    assert token(config) == expected
    assert cache(config).model.attention == attention


def test_long_sequences() -> None:
    sequence = cache(configs.dense()).sequence(32768)
    assert (sequence.value, sequence.text()) == (10 * 1024**3, "10 GiB")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"head_dim": 64}, 160 * 1024),  # not what hidden_size would give
        ({"head_dim": 0}, 320 * 1024),  # to be derived
        ({"head_dim": None}, 320 * 1024),
        ({"num_key_value_heads": None}, 2560 * 1024),
        ({"num_key_value_heads": None, "multi_query_group_num": 2}, 80 * 1024),
        ({"num_key_value_heads": None, "multi_query": True}, 40 * 1024),
        ({"num_key_value_heads": None, "multi_query": True, "new_decoder_architecture": True, "n_head_kv": 8}, 327680),
        ({"num_key_value_heads": None, "attn_config": {"kv_n_heads": 8}}, 327680),
        ({"num_hidden_layers": None, "n_layer": 40}, 160 * 1024),
        ({"kv_lora_rank": None, "sliding_window": None}, 320 * 1024),
        ({"sliding_window": 4096, "use_sliding_window": False}, 320 * 1024),
    ],
)
def test_names_and_defaults(more: Raw, expected: int) -> None:
    assert token(configs.dense(**more)) == expected


@pytest.mark.parametrize("name", ["text_config", "llm_config", "language_config"])
def test_nested(name: str) -> None:
    inner = configs.dense()
    del inner["torch_dtype"]
    outer = {"model_type": "vl", "dtype": "bfloat16", "vision_config": {"num_hidden_layers": 3}, name: inner}
    assert token(outer) == 320 * 1024
    assert token({"thinker_config": outer}) is None  # no one says the format two levels up
    assert token({"thinker_config": outer, "dtype": "bfloat16"}) == 320 * 1024


@pytest.mark.parametrize(
    ("config", "dtype", "kv_cache_dtype", "expected"),
    [
        ("bfloat16", "auto", "auto", 2),
        ("torch.bfloat16", "auto", "auto", 2),
        ("float32", "auto", "auto", 2),  # served in 16 bits
        ("float32", "float32", "auto", 4),
        ("float16", "float32", "auto", 4),
        ("bfloat16", "auto", "fp8", 1),
        ("bfloat16", "auto", "fp8_e5m2", 1),
        ("bfloat16", "float32", "int8", 1),
        ("float32", "float32", "bfloat16", 2),
        (None, "auto", "auto", None),
        (None, "half", "auto", 2),
        (None, "auto", "fp8", 1),
    ],
)
def test_formats(config: str | None, dtype: str, kv_cache_dtype: str, expected: int | None) -> None:
    found = token(configs.dense(torch_dtype=config), dtype, kv_cache_dtype)
    assert found == (expected and expected * 160 * 1024)


@pytest.mark.parametrize("kv_cache_dtype", CACHE_DTYPES)
def test_every_format_of_the_engine(kv_cache_dtype: str) -> None:
    assert (token(configs.dense(), "auto", kv_cache_dtype) is None) == (kv_cache_dtype in PACKED)


@pytest.mark.parametrize(
    "quantization",
    [{"kv_cache_scheme": {"num_bits": 8}}, {"quantization": {"kv_cache_quant_algo": "FP8"}}, {"kv_cache_scheme": None}],
)
def test_checkpoint_with_a_format_of_its_own(quantization: Raw) -> None:
    config = configs.dense(quantization_config=quantization)
    own = quantization != {"kv_cache_scheme": None}
    assert token(config) == (None if own else 327680)
    assert token(config, kv_cache_dtype="fp8") == 163840
    if own:
        assert "name kv_cache_dtype" in cache(config).token.why


def test_windows() -> None:
    told = cache(configs.windowed())
    each = 2 * 8 * 64 * 2
    assert told.token.value == 24 * each
    assert told.sequence(100).value == 24 * 100 * each
    assert told.sequence(1000).value == 12 * (1000 + 128) * each
    assert told.pooled.value == 24 * each
    assert "at least as many tokens fit" in " ".join(told.notes())
    every = cache(configs.dense(26, 4, 1, 256, sliding_window=512, sliding_window_pattern=6))
    assert [layer.kind for layer in every.model.layers].count("full") == 4


def test_window_of_nobody_knows_which_layers() -> None:
    told = cache(configs.dense(sliding_window=4096))
    assert told.token.value == 320 * 1024
    assert told.sequence(4096).value == 4096 * 320 * 1024
    assert (told.sequence(4097).value, "layer_types" in told.sequence(4097).why) == (None, True)


def test_chunks() -> None:
    kinds = ["chunked_attention"] * 3 + ["full_attention"]
    told = cache(configs.dense(4, attention_chunk_size=8192, layer_types=kinds))
    assert told.sequence(10000).value == (3 * 8192 + 10000) * 2 * 8 * 128 * 2


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"full_attention_interval": None, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 12},
        {"full_attention_interval": None, "layers_block_type": (["mamba"] * 3 + ["attention"]) * 12},
    ],
)
def test_layers_with_states(more: Raw) -> None:
    told = cache(configs.stateful(**more))
    assert told.token.value == 12 * 2 * 2 * 256 * 2
    for figure in (told.sequence(100), told.pooled):
        assert figure.value is None
        assert "36 layers keep a state" in figure.why


@pytest.mark.parametrize(
    "config",
    [
        configs.latent(model_type="deepseek_v32", index_topk=2048),
        configs.latent(model_type="minicpm3"),
        configs.latent(model_type=None),
        configs.dense(v_head_dim=64),
        configs.dense(num_kv_shared_layers=20),
        configs.dense(num_key_value_heads=[8, 4]),
        configs.dense(block_configs=[{}]),
        configs.dense(is_encoder_decoder=True),
        configs.dense(mamba_d_state=128),
        configs.dense(layer_types=["new_attention"] * 80),
    ],
)
def test_unknown_is_told_and_not_guessed(config: Raw) -> None:
    told = cache(config)
    for figure in (told.token, told.sequence(10), told.pooled):
        assert (figure.value, figure.text()) == (None, "UNKNOWN")
        assert len(figure.why) > 20


def test_draft_layers_in_the_list() -> None:
    assert token(configs.dense(2, layer_types=["full_attention"] * 3)) == 2 * 4096


def faults(config: Any) -> list[tuple[str, str]]:
    with pytest.raises(CapacityError) as raised:
        cache(config)
    assert all("Mend: " in line for line in str(raised.value).splitlines()[1:])
    return [(problem.rule, problem.where) for problem in raised.value.problems]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ([], [("config-object", "(whole file)")]),
        ({}, [("config-object", "(whole file)")]),
        (
            {"model_type": "llama"},
            [("config-missing", name) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size")],
        ),
        (
            configs.dense(num_hidden_layers="80", num_key_value_heads=7, hidden_size=8191, torch_dtype="int3"),
            [
                *(("config-number", "num_hidden_layers"), ("config-heads", "num_key_value_heads")),
                *(("config-heads", "hidden_size"), ("config-dtype", "torch_dtype")),
            ],
        ),
        (configs.dense(num_attention_heads=True), [("config-number", "num_attention_heads")]),
        (configs.dense(head_dim=-1), [("config-number", "head_dim")]),
        (configs.latent(qk_rope_head_dim=None), [("config-missing", "qk_rope_head_dim")]),
        (configs.dense(layer_types=["full_attention"] * 79), [("config-layers", "layer_types")]),
        (configs.windowed(sliding_window=None), [("config-missing", "sliding_window")]),
        (configs.stateful(full_attention_interval=0), [("config-number", "full_attention_interval")]),
    ],
)
def test_bad_configs_tell_all_at_once(config: Any, expected: list[tuple[str, str]]) -> None:
    assert faults(config) == expected


def test_message() -> None:
    with pytest.raises(CapacityError) as raised:
        cache(configs.dense(num_hidden_layers=0, torch_dtype="int3"))
    first, second, third = str(raised.value).splitlines()
    assert first == "The capacity cannot be told, 2 problems:"
    assert second == (
        "  config.json num_hidden_layers: [config-number] has to be a whole number of at least 1, not 0. Mend: compare "
        "it with the config.json that was published with the model."
    )
    assert third.startswith("  config.json torch_dtype: [config-dtype] is 'int3'")


SIZES = st.integers(1, 128)


@given(SIZES, SIZES, st.integers(1, 8), SIZES)
def test_twice_the_layers_are_twice_the_bytes(layers: int, kv_heads: int, group: int, head: int) -> None:
    once, twice = (token(configs.dense(many, kv_heads * group, kv_heads, head)) for many in (layers, 2 * layers))
    assert twice == 2 * once == 2 * layers * 2 * kv_heads * head * 2


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_longer_sequences_are_larger(one: int, other: int) -> None:
    told = cache(configs.windowed())
    short, long = sorted((one, other))
    assert told.sequence(short).value <= told.sequence(long).value <= told.token.value * long


@given(
    st.dictionaries(
        st.sampled_from(sorted({*configs.dense(), *configs.latent(), "layer_types", "sliding_window", "head_dim"})),
        st.none() | st.integers(-2, 200) | st.text(max_size=3) | st.lists(st.integers(), max_size=2) | st.booleans(),
    )
)
def test_whatever_it_is_given(raw: Raw) -> None:
    """A figure, the reason why there is none, or an error that tells the way out."""
    found = Faults()
    model = read_model({**configs.dense(), **raw}, "config.json", found)
    assert (model is None) == bool(found.found)
    if model:
        figure = Cache(model).token
        assert (figure.value is None) == bool(figure.why)
