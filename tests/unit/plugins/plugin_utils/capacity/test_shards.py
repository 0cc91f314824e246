# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.config import read_model
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.faults import Faults
from ansible_collections.mooncake.pd.plugins.plugin_utils.capacity.shards import (
    Shape,
    Shards,
    read_shape,
    shards,
    stages,
)
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.capacity import configs
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.capacity.configs import Raw


def spread(config: Raw, **sizes: Any) -> tuple[Shards | None, list[tuple[str, str]]]:
    faults = Faults()
    model = read_model(config, "config.json", faults)
    assert model
    found = shards(model, Shape(**sizes), "topology.yml", faults, "prefill[0].")
    return found, [(problem.rule, problem.where) for _source, problem in faults.found]


def fine(config: Raw, **sizes: Any) -> Shards:
    found, problems = spread(config, **sizes)
    assert (problems, found is None) == ([], False)
    assert found
    return found


@pytest.mark.parametrize(
    ("config", "sizes", "heads", "copies", "worker"),
    [
        (configs.dense(), {}, 8, 1, 320 * 1024),
        (configs.dense(), {"tp": 8}, 1, 1, 40 * 1024),
        (configs.dense(), {"tp": 4, "pp": 2}, 2, 1, 40 * 1024),
        (configs.dense(), {"tp": 16}, 1, 2, 40 * 1024),  # KV heads are copied
        (configs.dense(), {"tp": 16, "dcp": 2}, 1, 1, 20 * 1024),
        (configs.dense(), {"tp": 8, "pcp": 2}, 1, 1, 20 * 1024),
        (configs.dense(), {"tp": 8, "dp": 4}, 1, 1, 40 * 1024),
        (configs.latent(), {"tp": 16}, 1, 16, 70272),  # a latent always is
        (configs.latent(), {"tp": 16, "dcp": 16}, 1, 1, 4392),
        (configs.latent(), {"pp": 2}, 1, 1, 31 * 1152),  # 31 and 30 layers
    ],
)
def test_workers(config: Raw, sizes: dict[str, int], heads: int, copies: int, worker: int) -> None:
    found = fine(config, **sizes)
    assert (found.heads, found.copies, found.per_worker(2)) == (heads, copies, worker)


# what get_pp_indices of vllm/distributed/utils.py@v0.32.0 returns
@pytest.mark.parametrize(
    ("layers", "pp", "expected"),
    [
        (61, 2, (31, 30)),
        (61, 4, (15, 15, 16, 15)),
        (62, 4, (15, 16, 16, 15)),
        (63, 4, (16, 16, 16, 15)),
        (80, 3, (27, 27, 26)),
    ],
)
def test_pipeline_stages(layers: int, pp: int, expected: tuple[int, ...]) -> None:
    assert stages(layers, Shape(pp=pp), "", Faults()) == expected


def test_pipeline_stages_that_somebody_chose() -> None:
    found = fine(configs.dense(), pp=2, partition=(30, 50))
    assert [int(elements) for elements in found.stages] == [30 * 2048, 50 * 2048]
    for partition in ((30, 49), (30, 30, 20)):
        assert spread(configs.dense(), pp=2, partition=partition)[1] == [
            ("shape-pp", "prefill[0].VLLM_PP_LAYER_PARTITION")
        ]


def test_stages_of_layers_with_states() -> None:
    """48 layers, the full ones are the fourth, eighth and so on."""
    found = fine(configs.stateful(), pp=5)
    assert sum(found.stages) == found.distinct == 12 * 2 * 512
    assert [int(elements) // 1024 for elements in found.stages] == [2, 2, 3, 2, 3]


@pytest.mark.parametrize(
    ("config", "sizes", "expected"),
    [
        (configs.dense(), {"tp": 3}, ["tp"]),
        (configs.dense(kv_heads=8, heads=24), {"tp": 12}, ["tp"]),
        (configs.dense(), {"tp": 8, "dcp": 2}, ["dcp"]),  # no copies to share out
        (configs.latent(), {"tp": 8, "dcp": 3}, ["dcp"]),
        (configs.dense(layers=4), {"pp": 5, "tp": 3}, ["tp", "pp"]),
    ],
)
def test_what_the_engine_refuses(config: Raw, sizes: dict[str, int], expected: list[str]) -> None:
    found, problems = spread(config, **sizes)
    assert (found, [where for _rule, where in problems]) == (None, [f"prefill[0].{size}" for size in expected])


def test_sizes_that_are_none() -> None:
    faults = Faults()
    read_shape({"tp": 0, "pp": "2", "dp": True}, "options", faults, "20,x")
    assert [problem.where for _source, problem in faults.found] == ["tp", "pp", "dp", "VLLM_PP_LAYER_PARTITION"]


POWERS = st.sampled_from((1, 2, 4, 8, 16, 32))


@given(
    st.fixed_dictionaries({"tp": POWERS, "dcp": POWERS, "pcp": POWERS, "pp": st.integers(1, 6)}),
    *(POWERS, st.integers(1, 90), st.booleans()),
)
def test_sharding_loses_nothing(sizes: dict[str, int], kv: int, layers: int, mla: bool) -> None:
    """What all workers keep of a token is each KV head of each layer, as often as there are copies."""
    config = configs.latent(num_hidden_layers=layers) if mla else configs.dense(layers, 32, kv)
    found, problems = spread(config, **sizes)
    assume(not problems)
    tp, pcp, pp = sizes["tp"], sizes["pcp"], sizes["pp"]
    assert found
    assert found.copies >= 1
    assert sum(found.stages) * tp * pcp == found.copies * found.distinct
    assert found.heads * tp >= (1 if mla else kv)
    assert found.distinct == layers * (576 if mla else kv * 256)
    assert max(found.stages) >= sum(found.stages) / pp
