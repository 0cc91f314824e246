# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict as JUnit XML, as CI systems show it: a suite for each family, a case for each rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.registry import SEVERITIES
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import words
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.document import Document, families

HOSTS = "hosts"  # the suite that tells which hosts were looked at

_CLASS = "mooncake.pd.preflight"
# https://www.w3.org/TR/xml/#charsets
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def junit(content: Document) -> str:
    root = ElementTree.Element("testsuites", name=_legal(f"preflight of {content['cluster']}"))
    hosts = ElementTree.SubElement(root, "testsuite", name=HOSTS)
    told = {host for group in [*content["groups"], *content["waived"]] for host in group["hosts"]}
    for name, host in content["hosts"].items():
        if name in content["absent"]:
            # left out on purpose, or accepted
            kind = "skipped" if not host["errors"] and name in told else "error"
            _told(_case(hosts, HOSTS, name), kind, content["absent"][name], content["absent"][name])
        elif host["families"]:
            _case(hosts, HOSTS, name)
    of_rule: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {
        (item["family"], item["rule"]): ([], []) for item in content["rules"]
    }
    for number, groups in enumerate((content["groups"], content["waived"])):
        for group in groups:
            of_rule.setdefault((group["family"], group["rule"]), ([], []))[number].append(group)
    for family in dict.fromkeys([*families(content), *(family for family, _rule in of_rule)]):
        suite = ElementTree.SubElement(root, "testsuite", name=_legal(family))
        for (its, rule), (groups, waived) in of_rule.items():
            if its == family:
                _rule(_case(suite, family, rule), groups, waived)
    for element in [*root, root]:
        _count(element)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _rule(case: ElementTree.Element, groups: Sequence[dict[str, Any]], waived: Sequence[dict[str, Any]]) -> None:
    """Errors fail it; what is waived skips it when there are none; what is less than an error is told beside it."""
    errors = [group for group in groups if group["severity"] == "error"]
    lesser = [group for group in groups if group["severity"] != "error"]
    if groups:
        worst = min((group["severity"] for group in groups), key=SEVERITIES.index)
        properties = ElementTree.SubElement(case, "properties")
        ElementTree.SubElement(properties, "property", name="severity", value=worst)
    if errors:
        _told(case, "failure", errors[0]["findings"][0]["what"], _text(errors))
        lesser += waived
    elif waived:
        _told(case, "skipped", "; ".join(dict.fromkeys(group["reason"] for group in waived)), _text(waived))
    if lesser:
        ElementTree.SubElement(case, "system-out").text = _legal(_text(lesser))


def _text(groups: Iterable[dict[str, Any]]) -> str:
    found = []
    for group in groups:
        for what, findings in words.by_what(group["findings"]):
            hosts = words.where((finding["host"] for finding in findings), widest=10**9)
            found.append(f"{group['severity']}: {hosts}: {words.one_line(what)}")
        if "reason" in group:
            found.append(f"Waived: {words.one_line(group['reason'])}")
        elif group["fix"]:
            found.append(f"Mend: {group['fix']}")
    return "\n".join(found)


def _case(suite: ElementTree.Element, family: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=_legal(f"{_CLASS}.{family}"), name=_legal(name))


def _told(case: ElementTree.Element, kind: str, message: str, text: str) -> None:
    ElementTree.SubElement(case, kind, message=_legal(words.one_line(message))).text = _legal(text)


def _count(element: ElementTree.Element) -> None:
    element.set("tests", str(len(list(element.iter("testcase")))))
    for name, kind in _COUNTS.items():
        element.set(name, str(len(list(element.iter(kind)))))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("", text)
