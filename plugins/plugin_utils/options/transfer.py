# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of --kv-transfer-config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.findings import Finding
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.spans import since, way_out

# vllm/config/kv_transfer.py in the source packages

_SOURCE_TRANSFER = "vllm/config/kv_transfer.py in the source packages of vLLM"
TRANSFER_KEYS = {
    **dict.fromkeys(
        (
            "kv_connector",
            "engine_id",
            "kv_buffer_device",
            "kv_role",
            "kv_port",
            "kv_connector_extra_config",
            "kv_connector_module_path",
        ),
        since("0.0"),
    ),
    **dict.fromkeys(("kv_buffer_size", "kv_rank", "kv_parallel_size", "kv_ip"), since("0.0", "0.32.0")),
    "enable_permute_local_kv": since("0.11.1"),
    "kv_load_failure_policy": since("0.13.0"),
}


def check_transfer_config(config: Mapping[str, Any], vllm: str) -> list[Finding]:
    """The top level of --kv-transfer-config; vLLM refuses what it does not know."""
    found = []
    for key in config:
        known = TRANSFER_KEYS.get(str(key))
        if known and known.known(vllm):
            continue
        message = f"vLLM {vllm} knows no {key} in --kv-transfer-config and ends its start."
        found.append(
            Finding("transfer-config-key", "error", message, way_out(str(key), TRANSFER_KEYS, vllm), _SOURCE_TRANSFER)
        )
    return found
