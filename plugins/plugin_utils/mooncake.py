# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Mooncake's transfer engine does, by release and environment: the ports that it draws from, and what holds it
to a transport."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.mooncake.pd.plugins.plugin_utils.numbers import whole
from ansible_collections.mooncake.pd.plugins.plugin_utils.ports import Claim, pool
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least, value_at

Environment = Mapping[str, str]

# No program reads it. An upgrade replaces files under the same paths, so without it the unit would stay as it is
# and nothing would restart what still runs the old release.
RELEASE_VARIABLE = "MOONCAKE_PD_MOONCAKE"

# mooncake-transfer-engine/include/config.h@3b5a594
RPC_PORTS = (15000, 17000)
# src/config.cpp@v0.3.9 (spelt PRC) and @v0.3.11 (RPC, the old names are still read)
_RPC_VARIABLES = (
    ("0.0", (("MC_MIN_PRC_PORT",), ("MC_MAX_PRC_PORT",))),
    ("0.3.11", (("MC_MIN_RPC_PORT", "MC_MIN_PRC_PORT"), ("MC_MAX_RPC_PORT", "MC_MAX_PRC_PORT"))),
)
# mooncake-store/src/real_client.cpp@v0.3.7.post2 and @v0.3.11.post1; held while the client lives
STORE_CLIENT_PORTS = (12300, 14300)
# src/transport/ascend_transport/ascend_direct_transport: base 20000; ports of a device, the last one included, lie
# 1000 apart @v0.3.7.post2 and 100 apart @v0.3.8, which also reads ASCEND_BASE_PORT. Device ids are physical.
ADXL_BASE = 20000
_ADXL_STRIDE = (("0.0", 1000), ("0.3.8", 100))
_ADXL_BASE_SINCE = "0.3.8"
# mooncake-transfer-engine/src/transfer_engine_impl.cpp: a build for NPUs reads MC_FORCE_TCP from this release on
_ASCEND_FORCED_SINCE = "0.3.12"


def rpc_span(version: str, environment: Environment) -> tuple[int, int]:
    lowest, highest = value_at(_RPC_VARIABLES, version)
    return _number(environment, lowest, RPC_PORTS[0]), _number(environment, highest, RPC_PORTS[1])


def rpc_pool(version: str, environment: Environment, where: str) -> tuple[Claim, ...]:
    """The transfer engine of every worker takes a random port for its RPC, and for TCP one more for the data."""
    return pool("transfer-rpc", [rpc_span(version, environment)], where)


def proof_protocols(version: str, protocol: str) -> list[str]:
    """In which order transfers are proven. TCP comes first, where the engine can be held to it: what fails there is the
    way, a port or Mooncake, and no matter of devices."""
    forced = protocol != "ascend" or at_least(version, _ASCEND_FORCED_SINCE)
    return list(dict.fromkeys([*(["tcp"] if forced else []), protocol]))


def store_span(environment: Environment) -> tuple[int, int]:
    return (
        _number(environment, ("MC_STORE_CLIENT_MIN_PORT",), STORE_CLIENT_PORTS[0]),
        _number(environment, ("MC_STORE_CLIENT_MAX_PORT",), STORE_CLIENT_PORTS[1]),
    )


def adxl_spans(version: str, environment: Environment, devices: Iterable[int]) -> list[tuple[int, int]]:
    stride = value_at(_ADXL_STRIDE, version)
    base = _number(environment, ("ASCEND_BASE_PORT",), ADXL_BASE) if at_least(version, _ADXL_BASE_SINCE) else ADXL_BASE
    return [(base + device * stride, base + (device + 1) * stride) for device in devices]


def adxl_pool(version: str, environment: Environment, devices: Iterable[int], where: str) -> tuple[Claim, ...]:
    """AscendDirectTransport takes a random port of its device's range."""
    return pool("transfer-adxl", adxl_spans(version, environment, devices), where)


def _number(environment: Environment, names: Iterable[str], default: int) -> int:
    """The first of the variables that is set; what is no number is ignored, as Mooncake does."""
    values = (whole(environment[name]) for name in names if name in environment)
    return next((value for value in values if value is not None), default)
