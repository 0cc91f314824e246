# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""--kv-transfer-config: what vLLM's configuration, vLLM-Ascend's checks and its connectors make of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .ports import PULL, PUSH, Sizes
from .state import since

PRODUCER, CONSUMER, BOTH = "kv_producer", "kv_consumer", "kv_both"
_ROLES = (PRODUCER, CONSUMER, BOTH)

# vllm/config/kv_transfer.py: name -> (type, first release)
_KEYS: dict[str, tuple[type, str]] = {
    "kv_connector": (str, "0.0"),
    "engine_id": (str, "0.0"),
    "kv_buffer_device": (str, "0.0"),
    "kv_role": (str, "0.0"),
    "kv_port": (int, "0.0"),
    "kv_connector_extra_config": (dict, "0.0"),
    "kv_connector_module_path": (str, "0.0"),
    "enable_permute_local_kv": (bool, "0.11.0"),
    "kv_load_failure_policy": (str, "0.12.0"),  # vllm pull request 26813
}
# gone by 0.32.0; since when was not checked
_DROPPED = {"kv_buffer_size": float, "kv_rank": int, "kv_parallel_size": int, "kv_ip": str}
_DROPPED_IN = "0.27.0"
_KV_PORT = 14579


@dataclass(frozen=True)
class Known:
    """A name of kv_connector."""

    first: str
    last: str | None = None  # first release without it
    transfer: str | None = None  # pull, push; None: it moves no KV between prefill and decode by itself


# vllm_ascend/distributed/**/__init__.py per tag, and vLLM's own names that load on an NPU
CONNECTORS = {
    "MooncakeConnectorV1": Known("0.10.1rc1", transfer=PULL),
    "MooncakeHybridConnector": Known("0.20.2rc1", transfer=PULL),
    "MooncakeLayerwiseConnector": Known("0.11.0rc1", transfer=PUSH),
    "LLMDataDistCMgrConnector": Known("0.9.1", "0.12.0rc1"),
    "MooncakeConnectorStoreV1": Known("0.11.0rc0"),
    "AscendStoreConnector": Known("0.12.0rc1"),
    "UCMConnector": Known("0.13.0"),
    "LMCacheAscendConnector": Known("0.17.0rc1", "0.26.0"),
    "RecomputeCPUOffloadConnector": Known("0.23.0rc1"),
    "SimpleCPUOffloadConnector": Known("0.23.0rc1"),
    "MultiConnector": Known("0.9.1"),
}
# connectors that vLLM itself registers under a name which vLLM-Ascend's guides of 0.11 used for theirs
_VLLM_OWN_MOONCAKE = "0.12.0rc1"
_OLD_PATHS = "vllm_ascend.distributed."
_NEW_PATHS = "vllm_ascend.distributed.kv_transfer.kv_p2p."
_MODULES = {
    "mooncake_connector": ("MooncakeConnectorV1", "MooncakeConnector"),
    "mooncake_layerwise_connector": ("MooncakeLayerwiseConnector", "MooncakeLayerwiseConnector"),
    "mooncake_hybrid_connector": ("MooncakeHybridConnector", "MooncakeHybridConnector"),
}


class Refused(Exception):
    """The engine does not start. Arguments: class of the error as Python prints it, its text."""

    def __str__(self) -> str:
        return f"{self.args[0]}: {self.args[1]}" if self.args[1] else str(self.args[0])


def invalid(title: str, text: str) -> Refused:
    return Refused(
        "pydantic_core._pydantic_core.ValidationError",
        f"1 validation error for {title}\n  Value error, {text} [type=value_error, input_value=ArgsKwargs(()), "
        "input_type=ArgsKwargs]",
    )


@dataclass(frozen=True)
class Transfer:
    """One connector that moves KV between prefill and decode."""

    connector: str
    transfer: str
    role: str
    base: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    def size(self, side: str, key: str, default: int | None = None) -> int:
        part = self.extra.get(side, {})
        if key not in part:
            if default is None:
                raise Refused("AssertionError", "")
            return default
        return int(part[key])

    @property
    def binds(self) -> bool:
        return self.role == (PRODUCER if self.transfer == PULL else CONSUMER)


@dataclass(frozen=True)
class Config:
    """The whole option."""

    connector: str
    role: str
    engine_id: str | None
    policy: str
    extra: Mapping[str, Any]
    transfers: tuple[Transfer, ...]


def reader(vllm: str) -> Any:
    """argparse type for the option, with the errors of pydantic as argparse prints them (code 2)."""

    def read(text: str) -> dict[str, Any]:
        def refuse(where: str, what: str, kind: str, value: Any) -> argparse.ArgumentTypeError:
            shown = f"[type={kind}, input_value={value!r}, input_type={type(value).__name__}]"
            return argparse.ArgumentTypeError(
                f"1 validation error for KVTransferConfig\n{where}{chr(10) if where else ''}  {what} {shown}"
            )

        try:
            data = json.loads(text)
        except ValueError as error:
            raise refuse("", f"Invalid JSON: {error}", "json_invalid", text) from error
        if not isinstance(data, dict):
            raise refuse("", "Input should be an object", "dataclass_type", data)
        for name, value in data.items():
            kind, first = _KEYS.get(name, (_DROPPED.get(name), "0.0"))
            if kind is None or not since(vllm, first) or (name in _DROPPED and since(vllm, _DROPPED_IN)):
                raise refuse(name, "Unexpected keyword argument", "unexpected_keyword_argument", value)
            if value is None and name in ("engine_id", "kv_connector_module_path", "kv_connector", "kv_role"):
                continue
            if kind is int and isinstance(value, str) and value.lstrip("-").isdigit():
                data[name] = int(value)  # guides write the port as text
            elif not isinstance(value, kind) and not (kind is float and isinstance(value, int)):
                short = {int: "a valid integer", str: "a valid string", dict: "a valid dictionary"}.get(kind, "valid")
                raise refuse(name, f"Input should be {short}", f"{kind.__name__}_type", value)
        role = data.get("kv_role")
        if role is not None and role not in _ROLES:
            wanted = "'kv_producer', 'kv_both' or 'kv_consumer'"
            raise refuse("kv_role", f"Input should be {wanted}", "literal_error", role)
        if data.get("kv_load_failure_policy", "fail") not in ("fail", "recompute"):
            policy = data["kv_load_failure_policy"]
            raise refuse("kv_load_failure_policy", "Input should be 'recompute' or 'fail'", "literal_error", policy)
        if data.get("kv_connector") is not None and role is None:
            text = (
                "Value error, Please specify kv_role when kv_connector is set, supported roles are "
                "('kv_producer', 'kv_both', 'kv_consumer')"
            )
            raise refuse("", text, "value_error", data)
        return data

    return read


def _class_of(data: Mapping[str, Any], ascend: str) -> tuple[str, str | None]:
    """Registered name that kv_connector leads to, and how its KV moves."""
    name, path = data["kv_connector"], data.get("kv_connector_module_path")
    registered = CONNECTORS.get(name)
    if (
        registered
        and since(ascend, registered.first)
        and not (registered.last is not None and since(ascend, registered.last))
    ):
        return name, registered.transfer
    if name == "MooncakeConnector" and since(ascend, _VLLM_OWN_MOONCAKE) and not (path and since(ascend, "0.25.0")):
        # vLLM looks its own registry up first (vllm-ascend pull request 5172), so this is the one for GPUs
        raise Refused("RuntimeError", "Cannot access accelerator device when none is available.")
    if not path:
        raise invalid("VllmConfig", f"Unsupported connector type: {name}")
    paths = _NEW_PATHS if since(ascend, "0.14.0rc1") else _OLD_PATHS
    module = path[len(paths) :] if path.startswith(paths) else None
    if module not in _MODULES or not since(ascend, CONNECTORS[_MODULES[module][0]].first):
        missing = path.split(".")
        raise Refused("ModuleNotFoundError", f"No module named {'.'.join(missing)!r}")
    meant, its_class = _MODULES[module]
    if name != its_class:
        raise Refused("AttributeError", f"module {path!r} has no attribute {name!r}")
    return meant, CONNECTORS[meant].transfer


def understand(data: Mapping[str, Any] | None, ascend: str, vllm: str) -> Config | None:
    """None without a connector."""
    if not data or not data.get("kv_connector"):
        return None
    role = data["kv_role"]
    extra = data.get("kv_connector_extra_config") or {}
    transfers = []
    parts: list[tuple[Mapping[str, Any], str]] = [(data, role)]
    name, transfer = _class_of(data, ascend)
    if name == "MultiConnector":
        entries = extra.get("connectors")
        if not entries:
            raise Refused("AssertionError", "")
        parts = [(entry, entry.get("kv_role", role)) for entry in entries]
    for part, its_role in parts:
        if part is not data:
            if "kv_connector" not in part:
                raise Refused("KeyError", "'kv_connector'")
            name, transfer = _class_of(part, ascend)
        if transfer:
            base = int(part.get("kv_port", data.get("kv_port", _KV_PORT)))
            transfers.append(Transfer(name, transfer, its_role, base, part.get("kv_connector_extra_config") or {}))
    default = "fail" if since(vllm, "0.17.0") else "recompute"  # vllm pull request 34896
    return Config(
        connector=data["kv_connector"],
        role=role,
        engine_id=data.get("engine_id"),
        policy=data.get("kv_load_failure_policy", default),
        extra=extra,
        transfers=tuple(transfers),
    )


def check(config: Config, ascend: str, dp: int, sizes: Sizes, model: Mapping[str, Any]) -> None:
    """vLLM-Ascend's checks in the order of a start; `dp` as the engine sees it."""
    _own_side(config, ascend, dp, sizes)
    for transfer in config.transfers:
        p_tp, d_tp = transfer.size("prefill", "tp_size", 1), transfer.size("decode", "tp_size", 1)
        if not model.get("mla") and p_tp % d_tp:
            raise Refused("AssertionError", "Prefill TP size must be divisible by Decode TP size.")
        for side in ("prefill", "decode"):
            for key in ("tp_size", "dp_size"):
                transfer.size(side, key)
        if (transfer.transfer == PULL or not since(ascend, "0.16.0rc1")) and p_tp < d_tp:
            raise Refused(
                "ValueError",
                f"prefill_tp_size: {p_tp} must be greater than or equal to the decode_tp_size: {d_tp}",
            )
        if transfer.transfer == PULL and since(ascend, "0.12.0rc1"):
            if sizes.pp > 1 and sizes.pcp > 1:
                raise Refused("AssertionError", "pp and pcp cannot open in same time")
            if transfer.size("decode", "pp_size", 1) != 1:
                raise Refused("AssertionError", "decode pp size must be 1")
        if transfer.transfer == PUSH and transfer.role == CONSUMER and sizes.pcp != 1 and since(ascend, "0.14.0rc1"):
            raise Refused("AssertionError", "Prefill context parallel is not support on decoder nodes")
    if config.policy == "recompute" and model.get("hybrid") and since(ascend, "0.21.0rc1"):
        raise Refused("AssertionError", "Hybrid models do not support recompute mode kv load failure policy now.")


def _own_side(config: Config, ascend: str, dp: int, sizes: Sizes) -> None:
    """Own sizes against the command line. Reads the top level only, so MultiConnector is not checked."""
    if not since(ascend, "0.12.0rc1"):
        return
    sides = {PRODUCER: ("prefill",), CONSUMER: ("decode",), BOTH: ("prefill", "decode")}[config.role]
    for side in sides:
        part = config.extra.get(side, {})
        for key, word, wanted in (("tp_size", "tensor", sizes.tp), ("dp_size", "data", dp)):
            if key in part and part[key] != wanted:
                raise Refused(
                    "ValueError",
                    f"KV transfer '{side}' config has a conflicting {word} parallel size. "
                    f"Expected {wanted}, but got {part[key]}.",
                )
