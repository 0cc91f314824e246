# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NAT chains as `nft -j list ruleset` prints them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Optional

from ansible_collections.mooncake.pd.plugins.module_utils.nat import Redirection, Rule, Span, but, common, walk

_HOOKS = ("prerouting", "output")


@dataclass
class Table:
    name: str
    family: str = ""
    starts: list[str] = field(default_factory=list)
    rules: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    sets: dict[str, list[Any]] = field(default_factory=dict)  # elements of named sets and maps


def tables(text: str) -> list[Table]:
    """ValueError when it is not what nft prints."""
    try:
        listed = json.loads(text)["nftables"]
    except (KeyError, TypeError) as error:
        raise ValueError("no key nftables") from error
    found: dict[tuple[str, str], Table] = {}
    for item in listed:
        for kind, value in item.items():
            if kind == "metainfo" or not isinstance(value, dict):
                continue
            name = str(value.get("name") if kind == "table" else value.get("table"))
            table = found.setdefault((str(value.get("family")), name), Table(name, str(value.get("family"))))
            if kind == "chain" and value.get("type") == "nat" and value.get("hook") in _HOOKS:
                table.starts.append(value["name"])
            elif kind == "rule":
                table.rules.setdefault(value["chain"], []).append(value)
            elif kind in ("map", "set"):
                table.sets[value["name"]] = value.get("elem") or []
    return list(found.values())


def redirections(text: str, local: Collection[str]) -> list[Redirection]:
    found = []
    for table in tables(text):
        made = walk("nftables", partial(_rules, table), table.starts, local, table.name)
        found += [replace(item, address=item.address or "::") for item in made] if table.family == "ip6" else made
    return found


def foreign_targets(text: str) -> set[str]:
    """Names of targets that iptables wrote, which nft cannot read: DNAT, REDIRECT ..."""
    return {
        str(expression["xt"].get("name"))
        for table in tables(text)
        for rules in table.rules.values()
        for rule in rules
        for expression in rule.get("expr", ())
        if isinstance(expression, dict) and isinstance(expression.get("xt"), dict)
    }


def is_kube_proxy(text: str) -> bool:
    return any(table.name == "kube-proxy" for table in tables(text))


def _rules(table: Table, chain: str) -> Iterator[Rule]:
    for written in table.rules.get(chain, ()):
        rules = [Rule(comment=str(written.get("comment") or ""))]
        for expression in written.get("expr", ()):
            if isinstance(expression, dict):
                rules = [made for rule in rules for made in _with(table, rule, expression)]
        yield from rules


def _with(table: Table, rule: Rule, expression: dict[str, Any]) -> list[Rule]:
    """The rule with one more expression; a map makes one rule of each of its elements."""
    for kind, value in expression.items():
        if kind == "match":
            return _matching(table, rule, value)
        if kind in ("jump", "goto"):
            return [replace(rule, jump=str(value["target"]))]
        if kind == "vmap":
            return _mapped(table, rule, value)
        if kind == "dnat":
            return _sent(table, rule, value or {})
        if kind == "redirect":
            port = (value or {}).get("port")
            return [replace(rule, to=f"port {port} of this host" if isinstance(port, int) else "this host")]
    return [rule]


def _matching(table: Table, rule: Rule, match: dict[str, Any]) -> list[Rule]:
    key, values = _key(match.get("left")), _elements(table, match.get("right"))
    if match.get("op") == "!=" and key == "port":
        spans = [span for span in map(_span, values) if span]
        return [replace(rule, ports=common(rule.ports, but(spans)))]
    return _limited(rule, key, values) if match.get("op") in ("==", "in") else [rule]


def _limited(rule: Rule, key: str, values: list[Any]) -> list[Rule]:
    """One rule with the ports or protocols of these values, or one for each of the addresses."""
    if key == "port":
        spans = [span for span in map(_span, values) if span]
        return [replace(rule, ports=common(rule.ports, spans))] if len(spans) == len(values) else [rule]
    if key == "protocol":
        return [replace(rule, tcp=rule.tcp and any(value in ("tcp", 6) for value in values))]
    if key == "udp":
        return [replace(rule, tcp=False)]
    if key == "address":
        networks = [_network(value) for value in values]
        return [replace(rule, address=network) for network in networks if network] if all(networks) else [rule]
    return [rule]


def _key(left: Any) -> str:
    if not isinstance(left, dict):
        return ""
    payload, meta = left.get("payload") or {}, left.get("meta") or {}
    if payload.get("field") == "dport":
        return "udp" if payload.get("protocol") in ("udp", "sctp", "dccp") else "port"
    if payload.get("field") == "daddr":
        return "address"
    if meta.get("key") == "l4proto" or payload.get("field") in ("protocol", "nexthdr"):
        return "protocol"
    return ""


def _elements(table: Table, right: Any) -> list[Any]:
    if isinstance(right, str) and right.startswith("@"):
        right = table.sets.get(right[1:], [])
    if isinstance(right, dict) and "set" in right:
        right = right["set"]
    return [_bare(value) for value in right] if isinstance(right, list) else [_bare(right)]


def _bare(value: Any) -> Any:
    """An element without its timeout, comment or counter."""
    if isinstance(value, dict) and isinstance(value.get("elem"), dict):
        return value["elem"].get("val")
    return value


def _mapped(table: Table, rule: Rule, vmap: dict[str, Any]) -> list[Rule]:
    key = vmap.get("key")
    keys = [_key(part) for part in key["concat"]] if isinstance(key, dict) and "concat" in key else [_key(key)]
    made = []
    for element in _elements(table, vmap.get("data")):
        if not isinstance(element, list) or len(element) != 2 or not isinstance(element[1], dict):
            continue
        target = (element[1].get("jump") or element[1].get("goto") or {}).get("target")
        if target:
            value = _bare(element[0])
            values = value["concat"] if isinstance(value, dict) and "concat" in value else [value]
            rules = [replace(rule, jump=str(target))]
            for part, one in zip(keys, values):
                rules = [limited for each in rules for limited in _limited(each, part, [one])]
            made += rules
    return made


def _sent(table: Table, rule: Rule, dnat: dict[str, Any]) -> list[Rule]:
    address, port = dnat.get("addr"), dnat.get("port")
    mapping: Any = address.get("map") if isinstance(address, dict) else None
    if isinstance(mapping, dict):
        made = []
        for element in _elements(table, mapping.get("data")):
            if isinstance(element, list) and len(element) == 2:
                for limited in _limited(rule, _key(mapping.get("key")), [_bare(element[0])]):
                    made.append(replace(limited, to=_said(element[1])))
        return made or [replace(rule, to="?")]
    told = str(address) if isinstance(address, str) else "?"
    return [replace(rule, to=f"{told}:{port}" if isinstance(port, int) else told)]


def _said(value: Any) -> str:
    parts = value.get("concat", ()) if isinstance(value, dict) else (value,)
    return ":".join(str(part) for part in parts) or "?"


def _span(value: Any) -> Optional[Span]:
    if isinstance(value, int):
        return value, value
    if isinstance(value, dict) and isinstance(value.get("range"), list) and len(value["range"]) == 2:
        first, last = value["range"]
        return (first, last) if isinstance(first, int) and isinstance(last, int) else None
    return None


def _network(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("prefix"), dict):
        return f"{value['prefix'].get('addr')}/{value['prefix'].get('len')}"
    return ""
