# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be told about an instance from its plan: one flat table of facts, so that two plans can be compared.

Names are "engine.version", "args.--block-size", "env.PYTHONHASHSEED" and "transfer.kv_port". JSON is taken apart, so
that a change is named by its own key and not by the option that it stands in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mooncake.pd.plugins.plugin_utils.connectors import BESIDE
from ansible_collections.mooncake.pd.plugins.plugin_utils.engines.vllm import spelling
from ansible_collections.mooncake.pd.plugins.plugin_utils.rolling.hiding import hidden

Facts = dict[str, Any]

_SERVE = 3  # vllm serve MODEL
_TRANSFER = "--kv-transfer-config"
_SERVED_NAME = "--served-model-name"
# they repeat what the cluster says, or change whenever anything else does
_REPEATED_VARIABLES = re.compile(r"MOONCAKE_PD_\w+")
_SHORT = {"-q": "--quantization", "-ep": "--enable-expert-parallel", "-sc": "--speculative-config"}


def facts_of(cluster: Mapping[str, Any], processes: Iterable[Mapping[str, Any]]) -> Facts:
    """Of an instance: what its cluster says, and what stands in the units of its processes.

    What differs from process to process, such as the port of a rank, is a list.
    """
    found: dict[str, list[Any]] = {}
    # hundreds of ranks say almost the same
    for name, written in dict.fromkeys(pair for process in processes for pair in _written(cluster, process["unit"])):
        for place, value in _read(name, written):
            values = found.setdefault(place, [])
            if value not in values:
                values.append(value)
    own = {name: values[0] if len(values) == 1 else values for name, values in sorted(found.items())}
    return {**_of_cluster(cluster), **own, "store": _has_store(own)}


def _of_cluster(cluster: Mapping[str, Any]) -> Facts:
    router = cluster.get("router") or {}
    return {
        "cluster.name": cluster["name"],
        "engine.kind": cluster["engine"]["kind"],
        "engine.version": cluster["engine"]["version"],
        "mooncake.version": cluster["mooncake"]["version"],
        "model.path": cluster["model"]["path"],
        "model.served_name": cluster["model"]["served_name"],
        **{f"connector.{key}": cluster["connector"][key] for key in ("name", "protocol", "transfer")},
        **{f"router.{key}": router[key] for key in ("kind", "contract") if key in router},
    }


def _written(cluster: Mapping[str, Any], unit: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Options and variables of a unit as they stand there."""
    for name, values in options(unit["argv"][_SERVE:]):
        if name != _SERVED_NAME:
            yield name, tuple(values)
    variables = {**cluster.get("environment", {}), **unit["environment"]}
    for name, value in variables.items():
        if not _REPEATED_VARIABLES.fullmatch(name):
            yield f"env.{name}", (str(value),)


def _read(name: str, written: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    if name.startswith("env."):
        yield name, hidden(name, written[0])
        return
    place = "transfer" if name == _TRANSFER else f"args.{name}"
    yield from ((key, hidden(key, value)) for key, value in _flat(place, _value(written)))


def options(words: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """Every option with all words that belong to it; --no-x is x with the value False."""
    name = ""
    values: list[Any] = []
    for word in words:
        if re.match(r"--?[A-Za-z]", word):
            if name:
                yield name, values
            name, values = _named(word)
        else:
            values.append(word)
    if name:
        yield name, values


def _named(word: str) -> tuple[str, list[Any]]:
    name, value = spelling(word)
    below = word.partition("=")[0].partition(".")[2]
    name = _SHORT.get(name, name) + (f".{below}" if below else "")
    if name.startswith("--no-"):
        return f"--{name.removeprefix('--no-')}", [False]
    return name, [] if value is None else [value]


def _value(values: Sequence[Any]) -> Any:
    if len(values) > 1:
        return list(values)
    value = values[0] if values else True
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _flat(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(f"{place}.{key}", inner)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from _flat(f"{place}[{item.get('kv_connector', number)}]", item)
    else:
        yield place, value


def _has_store(facts: Mapping[str, Any]) -> bool:
    """Whether a pool in Mooncake's store stands beside the connector."""
    pools = {name for name, known in BESIDE.items() if known.lookup_port}
    beside = {match[1] for name in facts if (match := re.search(r"connectors\[(\w+)\]", name))}
    return any(
        str(
            facts.get(
                f"transfer.kv_connector_extra_config.connectors[{name}].kv_connector_extra_config.backend", "mooncake"
            )
        ).lower()
        == "mooncake"
        for name in beside & pools
    )
