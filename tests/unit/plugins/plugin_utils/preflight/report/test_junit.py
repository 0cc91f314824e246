# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.document import document
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.junit import junit
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.verdict import Verdict, Waived
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.report import verdicts
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.report.test_words import ANY

VERDICTS = {
    "small": verdicts.small,
    "clean": verdicts.clean,
    "hostile": verdicts.hostile,
    "large": lambda: verdicts.large(100),
}


def parsed(verdict: Verdict) -> ElementTree.Element:
    return ElementTree.fromstring(junit(document(verdict)).encode("utf-8"))


def case(root: ElementTree.Element, name: str) -> ElementTree.Element:
    (found,) = root.findall(f".//testcase[@name='{name}']")
    return found


def told(element: ElementTree.Element | None) -> str:
    assert element is not None
    return element.text or ""


@pytest.mark.parametrize("name", VERDICTS)
def test_counts_are_those_of_the_elements(name: str) -> None:
    root = parsed(VERDICTS[name]())
    for element in (root, *root):
        counts = {key: int(element.get(key, "")) for key in ("tests", "failures", "errors", "skipped")}
        assert counts == {
            "tests": len(list(element.iter("testcase"))),
            "failures": len(list(element.iter("failure"))),
            "errors": len(list(element.iter("error"))),
            "skipped": len(list(element.iter("skipped"))),
        }
    assert root.get("tests") == str(sum(int(suite.get("tests", "")) for suite in root))


def test_a_suite_for_each_family_and_a_case_for_each_rule() -> None:
    root = parsed(verdicts.small())
    assert [suite.get("name") for suite in root] == ["hosts", *verdicts.FAMILIES]
    cases = {(item.get("classname"), item.get("name")) for suite in root[1:] for item in suite}
    assert cases == {(f"mooncake.pd.preflight.{family}", rule) for rule, family, _about in verdicts.RULES}
    counts = {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "21", "failures": "4", "errors": "1", "skipped": "1"}


def test_an_error_fails_its_rule_and_tells_all_hosts() -> None:
    failure = case(parsed(verdicts.small()), "link-down").find("failure")
    assert failure is not None
    assert failure.get("message") == "chip 1 is DOWN"
    lines = told(failure).splitlines()
    assert lines[0] == "error: npu1: chip 1 is DOWN"
    assert len(lines) == 9
    assert lines[-1] == "Mend: look at the cable."


def test_hosts_are_never_cut_short() -> None:
    names = [f"npu{n}" for n in range(1, 999, 2)]
    findings = tuple(verdicts.finding("swap-on", name) for name in names)
    text = told(case(parsed(verdicts.verdict(1000, findings=findings)), "swap-on").find("failure"))
    assert "[1,3,5," in text
    assert ",995,997]" in text


def test_a_warning_passes_and_is_told() -> None:
    found = case(parsed(verdicts.small()), "swap-on")
    assert [element.tag for element in found] == ["properties", "system-out"]
    (severity,) = found.findall("properties/property")
    assert severity.attrib == {"name": "severity", "value": "warning"}
    assert told(found.find("system-out")) == "warning: npu2: 8 GiB of swap are in use\nMend: swapoff -a"


def test_a_rule_that_holds_is_an_empty_case() -> None:
    assert list(case(parsed(verdicts.small()), "port-taken")) == []


def test_what_is_waived_is_skipped_with_the_reason() -> None:
    found = case(parsed(verdicts.small()), "gid-missing")
    (skipped,) = found
    assert (skipped.tag, skipped.get("message")) == ("skipped", "the card is a spare")
    assert "npu4" in told(skipped)


def test_an_error_is_not_hidden_by_what_is_waived_or_less() -> None:
    verdict = verdicts.verdict(
        findings=(verdicts.finding("swap-on", "npu1"), verdicts.finding("swap-on", "npu2", "warning")),
        waived=(Waived(verdicts.finding("swap-on", "npu3"), "a spare"),),
    )
    found = case(parsed(verdict), "swap-on")
    assert [element.tag for element in found] == ["properties", "failure", "system-out"]
    assert "npu1" in told(found.find("failure"))
    assert "npu2" in told(found.find("system-out"))
    assert "Waived: a spare" in told(found.find("system-out"))


def test_a_warning_beside_what_is_waived_is_told() -> None:
    verdict = verdicts.verdict(
        findings=(verdicts.finding("swap-on", "npu2", "warning"),),
        waived=(Waived(verdicts.finding("swap-on", "npu3"), "a spare"),),
    )
    assert [element.tag for element in case(parsed(verdict), "swap-on")] == ["properties", "skipped", "system-out"]


def test_an_absent_host_is_an_error() -> None:
    hosts = parsed(verdicts.small())[0]
    (error,) = case(hosts, "npu9")
    assert (error.tag, error.get("message")) == ("error", "ssh: no route to host")
    assert list(case(hosts, "npu1")) == []


def test_a_host_that_is_left_out_on_purpose_is_skipped() -> None:
    """Its finding is less than an error, or waived; the run does not fail of it either."""
    notice = verdicts.finding("host-absent", "npu1", "notice")
    waived = Waived(verdicts.finding("host-absent", "npu2"), "in repair")
    error = verdicts.finding("host-absent", "npu3")
    absent = dict.fromkeys(("npu1", "npu2", "npu3"), "left out")
    hosts = parsed(verdicts.verdict(findings=(notice, error), waived=(waived,), absent=absent))[0]
    assert [case(hosts, name)[0].tag for name in absent] == ["skipped", "skipped", "error"]


def test_a_finding_of_a_rule_that_is_not_among_the_judged_has_a_case() -> None:
    root = parsed(verdicts.verdict(findings=(verdicts.finding("odd-unknown", "npu1", family="odd"),)))
    assert case(root, "odd-unknown").find("failure") is not None
    assert root[-1].get("name") == "odd"


@given(ANY, ANY, st.sampled_from(("error", "warning")))
def test_whatever_hosts_say_it_can_be_parsed(one: str, other: str, severity: str) -> None:
    found = verdicts.finding("swap-on", one, severity, what=other, fix=one, evidence=other)
    root = parsed(verdicts.verdict(cluster=other, absent={one: other}, findings=(found,), waived=(Waived(found, one),)))
    assert case(root, "swap-on") is not None
