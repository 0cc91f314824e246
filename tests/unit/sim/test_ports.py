# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Port numbers by release. Expected values were worked out by hand from the sources at the tags named."""

from __future__ import annotations

import pytest
from twin.ports import Rank, Sizes, adxl_range, device_index, handshake_ports, ranks, rpc_range

V1, HYBRID, LAYERWISE = "MooncakeConnectorV1", "MooncakeHybridConnector", "MooncakeLayerwiseConnector"


@pytest.mark.parametrize(
    ("connector", "release", "sizes", "ranks_", "expected"),
    [
        # data_parallel_rank_local up to 0.11.0rc0: every host starts at kv_port
        (V1, "0.10.1rc1", Sizes(tp=4), (3, 1), [30004, 30005, 30006, 30007]),
        (V1, "0.11.0rc0", Sizes(tp=2), (16, 0), [30000, 30001]),
        (V1, "0.11.0rc1", Sizes(tp=2), (16, 0), [30032, 30033]),
        # 0.11 knows no pipeline: both stages take the same ports
        (V1, "0.11.0", Sizes(tp=2, pp=2), (1, 1), [30002, 30003, 30002, 30003]),
        (V1, "0.12.0rc1", Sizes(tp=2, pp=2), (1, 1), [30004, 30005, 30006, 30007]),
        (V1, "0.22.1rc1", Sizes(tp=2, pcp=2), (1, 0), [30004, 30005, 30006, 30007]),
        # both: the old formula counts pp_rank * tp + tp_rank + pcp_rank * tp, so ports of stages coincide
        (V1, "0.22.1rc1", Sizes(tp=2, pp=2, pcp=2), (0, 0), [30000, 30001, 30002, 30003, 30002, 30003, 30004, 30005]),
        (V1, "0.23.0rc1", Sizes(tp=2, pp=2, pcp=2), (0, 0), [30000 + i for i in range(8)]),
        (V1, "0.23.0", Sizes(tp=1), (31, 15), [30031]),
        (HYBRID, "0.23.0", Sizes(tp=2, pp=2), (1, 0), [30004, 30005, 30006, 30007]),
        (LAYERWISE, "0.11.0", Sizes(tp=2), (3, 1), [30006, 30007]),
        (LAYERWISE, "0.20.2rc1", Sizes(tp=2, pcp=2), (1, 1), [30002, 30003, 30002, 30003]),
        (LAYERWISE, "0.21.0rc1", Sizes(tp=2, pcp=2), (1, 1), [30004, 30005, 30006, 30007]),
    ],
)
def test_handshake_ports(
    connector: str, release: str, sizes: Sizes, ranks_: tuple[int, int], expected: list[int]
) -> None:
    rank, local = ranks_
    assert handshake_ports(connector, release, 30000, dp_rank=rank, dp_rank_local=local, sizes=sizes) == expected


def test_workers_are_counted_stage_by_stage() -> None:
    assert list(ranks(Sizes(tp=2, pp=2))) == [Rank(0, 0, 0), Rank(0, 0, 1), Rank(1, 0, 0), Rank(1, 0, 1)]
    assert device_index(V1, "0.23.0", Sizes(tp=4, pp=2), Rank(pp=1, pcp=0, tp=3)) == 7


def test_a_group_takes_as_many_ports_as_it_has_workers() -> None:
    sizes = Sizes(tp=4, pp=2)
    ports = [
        p for r in range(4) for p in handshake_ports(V1, "0.23.0", 22000, dp_rank=r, dp_rank_local=r % 2, sizes=sizes)
    ]
    assert sorted(ports) == list(range(22000, 22032))


@pytest.mark.parametrize(
    ("mooncake", "device", "environment", "expected"),
    [
        ("0.3.7.post2", 7, {}, (27000, 28000)),
        ("0.3.7.post2", 0, {"ASCEND_BASE_PORT": "40000"}, (20000, 21000)),
        ("0.3.8", 7, {}, (20700, 20800)),
        ("0.3.8.post1", 15, {"ASCEND_BASE_PORT": "40000"}, (41500, 41600)),
        ("0.3.11.post1", 1, {"ASCEND_BASE_PORT": "many"}, (20100, 20200)),
    ],
)
def test_adxl_range(mooncake: str, device: int, environment: dict[str, str], expected: tuple[int, int]) -> None:
    assert adxl_range(mooncake, device, environment) == expected


@pytest.mark.parametrize(
    ("mooncake", "environment", "expected"),
    [
        ("0.3.9", {}, (15000, 17000)),
        ("0.3.9", {"MC_MIN_PRC_PORT": "16000", "MC_MAX_RPC_PORT": "16500"}, (16000, 17000)),
        ("0.3.11", {"MC_MIN_PRC_PORT": "16000", "MC_MAX_RPC_PORT": "16500"}, (16000, 16500)),
    ],
)
def test_rpc_range(mooncake: str, environment: dict[str, str], expected: tuple[int, int]) -> None:
    assert rpc_range(mooncake, environment) == expected
