# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.mooncake import adxl_pool, rpc_pool, rpc_span
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import (
    EPHEMERAL,
    NODE_PORTS,
    Claim,
    collide,
    exact,
    free_base,
    pool,
)


def claim(first, last, address="192.0.2.11", kind="exact"):
    return Claim("x", address, first, last, kind, "a.port", first)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (claim(100, 100), claim(100, 100), True),
        (claim(100, 109), claim(109, 120), True),  # both ends are inclusive
        (claim(100, 109), claim(110, 120), False),
        (claim(100, 100), claim(100, 100, "127.0.0.1"), False),
        (claim(100, 100), claim(100, 100, "0.0.0.0"), True),
        (claim(100, 100, "0.0.0.0"), claim(100, 100, "127.0.0.1"), True),
        (claim(150, 150), claim(100, 200, "0.0.0.0", "pool"), True),
        (claim(100, 200, "0.0.0.0", "pool"), claim(100, 200, "0.0.0.0", "pool"), False),
    ],
)
def test_collide(first, second, expected):
    assert collide(first, second) is expected
    assert collide(second, first) is expected


def test_ranges_of_a_pool_that_touch_become_one():
    spans = [(claim.first, claim.last) for claim in pool("x", [(200, 300), (100, 199), (500, 600)], "a")]
    assert spans == [(100, 300), (500, 600)]


def test_free_base_is_the_nearest_that_fits_the_whole_range():
    others = [claim(8100, 8100), claim(8101, 8101), claim(8106, 8106)]
    assert free_base([([exact("kv", "192.0.2.11", 8100, "a", size=4)], others)]) == 8102
    assert free_base([([exact("kv", "192.0.2.11", 8103, "a", size=5)], others)]) == 8107


def test_free_base_moves_all_ranges_of_a_key_together():
    ranks = [exact("kv", "192.0.2.11", 8100, "a", size=4, offset=offset) for offset in (0, 4)]
    assert free_base([(ranks, [claim(8100, 8100), claim(8110, 8110)])]) == 8101
    assert free_base([(ranks, [claim(8104, 8104)])]) == 8096
    assert free_base([(ranks[1:], [claim(8104, 8104)])]) == 8101


def test_free_base_is_free_on_every_host_of_the_key():
    other = exact("kv", "192.0.2.12", 30200, "a", size=16, offset=16)
    first = exact("kv", "192.0.2.11", 30200, "a", size=16)
    pool_of_16 = [claim(20000, 36000, "0.0.0.0", "pool")]
    assert free_base([([first], pool_of_16)]) == 19984
    assert free_base([([first], pool_of_16), ([other], pool_of_16)]) == 19968


def test_free_base_keeps_out_of_ranges_that_others_take_from():
    low, high = NODE_PORTS[0], EPHEMERAL[1]
    assert free_base([([claim(low - 1, low - 1)], [claim(low - 1, low - 1)])]) == low - 2
    assert free_base([([claim(high, high)], [])]) == high + 1
    assert free_base([([claim(1024, 1024)], [claim(1024, 1024)])]) == 1025
    assert free_base([([claim(65535, 65535)], [claim(65535, 65535)])]) == 65534


def test_free_base_may_find_nothing():
    assert free_base([([claim(8100, 8100)], [claim(1, 65535, "0.0.0.0", "pool")])]) is None


def spans(claims):
    return [(item.first, item.last) for item in claims]


@pytest.mark.parametrize(
    ("version", "environment", "expected"),
    [
        ("0.3.7.post2", {}, [(20000, 28000)]),  # the top of device 7 is 28000 itself
        ("0.3.8", {}, [(20000, 20800)]),
        ("0.3.8", {"ASCEND_BASE_PORT": "24000"}, [(24000, 24800)]),
        ("0.3.8", {"ASCEND_BASE_PORT": "many"}, [(20000, 20800)]),
        ("0.3.7.post2", {"ASCEND_BASE_PORT": "24000"}, [(20000, 28000)]),
    ],
)
def test_ports_of_the_npu_transport(version, environment, expected):
    assert spans(adxl_pool(version, environment, range(8), "w")) == expected


def test_devices_apart_draw_from_ranges_apart():
    assert spans(adxl_pool("0.3.11", {}, [0, 1, 6], "w")) == [(20000, 20200), (20600, 20700)]


@pytest.mark.parametrize(
    ("version", "environment", "expected"),
    [
        ("0.3.13", {}, (15000, 17000)),
        ("0.3.9", {"MC_MIN_PRC_PORT": "14000", "MC_MAX_PRC_PORT": "14100"}, (14000, 14100)),
        ("0.3.9", {"MC_MIN_RPC_PORT": "14000", "MC_MAX_RPC_PORT": "14100"}, (15000, 17000)),
        ("0.3.11", {"MC_MIN_RPC_PORT": "14000", "MC_MAX_PRC_PORT": "14100"}, (14000, 14100)),
    ],
)
def test_ports_of_the_transfer_engine(version, environment, expected):
    assert spans(rpc_pool(version, environment, "w")) == [expected]


def test_free_base_knows_where_ports_end():
    assert free_base([([exact("kv", "192.0.2.11", 65531, "a", size=4)], [claim(65531, 65531)])]) == 65532
    assert free_base([([exact("kv", "192.0.2.11", 65532, "a", size=4)], [claim(65532, 65532)])]) == 65528
    ranks = [exact("kv", "192.0.2.11", 65527, "a", size=4, offset=offset) for offset in (0, 4)]
    assert free_base([(ranks[1:], [claim(65531, 65531)])]) == 65528
    assert free_base([(ranks[1:], [claim(65534, 65534)])]) == 65526
    assert free_base([(ranks, [claim(65527, 65527)])]) == 65528
    assert free_base([(ranks[::-1], [claim(65527, 65528)])]) == 65519
    assert free_base([([claim(65534, 65534)], [claim(65534, 65534)])]) == 65535


def test_free_base_knows_where_the_ports_of_root_end():
    before = exact("kv", "192.0.2.11", 1030, "a", offset=-4)
    assert free_base([([before], [claim(1025, 1040)])]) == 1028
    assert free_base([([before], [claim(1024, 1040)])]) == 1045
    assert free_base([([claim(1025, 1025)], [claim(1025, 1040)])]) == 1024
    assert free_base([([claim(1024, 1024)], [claim(1024, 1040)])]) == 1041
    behind = exact("kv", "192.0.2.11", 1024, "a", offset=4)  # the key itself has to be a port as well
    assert free_base([([behind], [claim(1028, 1044)])]) == 1041


@pytest.mark.parametrize(
    ("version", "environment", "expected"),
    [
        ("0.3.10.post2", {"MC_MIN_RPC_PORT": "14000", "MC_MAX_RPC_PORT": "18000"}, (15000, 17000)),
        ("0.3.11", {"MC_MIN_RPC_PORT": "14000"}, (14000, 17000)),
        ("0.3.11", {"MC_MAX_RPC_PORT": "18000"}, (15000, 18000)),
        ("0.3.11", {"MC_MIN_PRC_PORT": "14000"}, (14000, 17000)),
        ("0.3.11", {"MC_MAX_PRC_PORT": "18000"}, (15000, 18000)),
        ("0.3.13.post1", {"MC_MIN_PRC_PORT": "14000", "MC_MIN_RPC_PORT": "14500"}, (14500, 17000)),
        ("0.3.13.post1", {"MC_MAX_PRC_PORT": "18000", "MC_MAX_RPC_PORT": "18500"}, (15000, 18500)),
    ],
)
def test_old_names_of_ports_are_read_behind_the_new_ones(version, environment, expected):
    assert rpc_span(version, environment) == expected
