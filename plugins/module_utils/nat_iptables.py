# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NAT table as iptables-save and ip6tables-save print it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from ansible_collections.mooncake.pd.plugins.module_utils.nat import EVERY, Redirection, Rule, Span, but, walk

_HOOKS = ("PREROUTING", "OUTPUT")
_COMMENT = re.compile(r'--comment (?:"((?:[^"\\]|\\.)*)"|(\S+))')
_SENDS = {"DNAT": "?", "REDIRECT": "this host"}
_ENDS = ("ACCEPT", "DROP", "RETURN", "MASQUERADE", "SNAT", "LOG", "MARK", "CONNMARK")


def chains(text: str) -> dict[str, list[str]]:
    """The chains of the table nat and their rules, unread: a Kubernetes node has tens of thousands."""
    found: dict[str, list[str]] = {}
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif table == "nat" and line.startswith(":"):
            found.setdefault(line[1:].partition(" ")[0], [])
        elif table == "nat" and line.startswith("-A "):
            chain, _blank, rest = line[3:].partition(" ")
            found.setdefault(chain, []).append(rest)
    return found


def redirections(text: str, local: Collection[str]) -> list[Redirection]:
    known = chains(text)

    @cache
    def rules(chain: str) -> tuple[Rule, ...]:
        return tuple(rule(line) for line in known.get(chain, ()))

    return walk("iptables", rules, _HOOKS, local)


def rule(line: str) -> Rule:
    """What follows `-A CHAIN`. A condition that is not understood can be met, so it is left out."""
    match = _COMMENT.search(line)
    comment = (match.group(1) or match.group(2) or "") if match else ""
    read = Rule(comment=comment)
    for negated, option, value in _options(_COMMENT.sub("", line).split()):
        read = _with(read, negated, option, value)
    return read


def _options(words: list[str]) -> Iterator[tuple[bool, str, str]]:
    negated = False
    for index, word in enumerate(words):
        if word == "!":
            negated = True
        elif word.startswith("-"):
            yield negated, word, words[index + 1] if index + 1 < len(words) else ""
            negated = False


def _with(read: Rule, negated: bool, option: str, value: str) -> Rule:
    if option in ("-j", "-g"):
        return _acting(read, value)
    changes: dict[str, Any] = {}
    if option == "--to-destination":
        changes["to"] = value
    elif option == "--to-ports":
        changes["to"] = f"port {value} of this host"
    elif option == "-p":
        changes["tcp"] = read.tcp and (value in ("tcp", "6", "all")) is not negated
    elif option in ("--dport", "--dports"):
        changes["ports"] = but(_spans(value)) if negated else _spans(value)
    elif option == "-d" and not negated:
        changes["address"] = re.sub(r"/(?:32|128)$", "", value)
    elif option == "-i" and value == "lo" and not negated:
        changes["tcp"] = False
    return replace(read, **changes)


def _acting(read: Rule, target: str) -> Rule:
    if target in _SENDS:
        return replace(read, to=read.to or _SENDS[target])
    return read if target in _ENDS else replace(read, jump=target)


def _spans(text: str) -> tuple[Span, ...]:
    """8080, 20000:20099 or 80,443,8000:8100"""
    spans = []
    for part in text.split(","):
        first, colon, last = part.partition(":")
        try:
            spans.append((int(first or 0), int(last or (65535 if colon else first))))
        except ValueError:  # a name, as nothing prints it
            return EVERY
    return tuple(sorted(spans))
