# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import text
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report.document import document
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.verdict import Verdict, Waived
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.report import verdicts
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.report.test_words import ANY

SMALL = """\
preflight of qwen: 12 hosts, 1 of them not looked at, 14 errors in 4 groups, 1 warning, 1 notice, 1 waived; nothing \
was changed
  9 rules about host, network, ports, npu, rdma; facts of 11 hosts

NOT LOOKED AT npu9: ssh: no route to host

ERROR [tls-differs] the fleet: TLS is on at npu1 and off at npu2
  Why: the service would not start.
  Mend: set tls_enable alike.

ERROR [link-down] npu[1-8] (8 hosts)
  npu1: chip 1 is DOWN
  npu2: chip 2 is DOWN
  npu3: chip 3 is DOWN
  npu4: chip 4 is DOWN
  npu5: chip 5 is DOWN
  and 3 more: see preflight.html
  Seen on npu1: link status: DOWN chip: 1
  Why: the service would not start.
  Mend: look at the cable.

ERROR [memlock-low] npu[1-3,5] (4 hosts): units may lock 64 KiB of memory only
  Seen on npu1: memlock 65531
  Why: the service would not start.
  Mend: set LimitMEMLOCK=infinity in the drop-in that caps it: systemctl edit mooncake-pd-<name>

ERROR [peer-filtered] front: port 7100 of npu1 does not answer
  Why: the service would not start.
  Mend: mend peer-filtered.

WARNING [swap-on] npu2: 8 GiB of swap are in use
  Seen: Swap: 8.0G
  Why: the service would not start.
  Mend: swapoff -a

NOTICE [governor-slow] npu1: governor-slow is not as it has to be
  Why: the service would not start.
  Mend: mend governor-slow.

WAIVED error [gid-missing] npu4: gid-missing is not as it has to be. Reason: the card is a spare

Next: mend the above, then run preflight again.
"""

CLEAN = """\
preflight of qwen: 4 hosts, 0 errors, 0 warnings; nothing was changed
  9 rules about host, network, ports, npu, rdma; facts of 4 hosts

Clean: no errors and no warnings.
"""

MANY = [f"rule-{number}" for number in range(60)]
STYLES = {"title", "error", "warning", "notice", "good", "plain", "dim"}


def told(verdict: Verdict) -> str:
    return text.text(document(verdict))


def last(verdict: Verdict) -> tuple[str, str]:
    line = text.lines(document(verdict))[-1]
    return line.style, line.text


def test_text() -> None:
    assert told(verdicts.small()) == SMALL
    assert told(verdicts.clean()) == CLEAN


def test_lines_have_the_style_of_their_severity() -> None:
    styles = {line.text.partition(" ")[0]: line.style for line in text.lines(document(verdicts.small())) if line.text}
    assert (styles["ERROR"], styles["WARNING"], styles["NOTICE"], styles["NOT"]) == (
        *("error", "warning", "notice"),
        "error",
    )
    assert {line.style for line in text.lines(document(verdicts.small()))} <= STYLES


def test_a_text_that_most_hosts_share_is_said_once_for_them() -> None:
    findings = [verdicts.finding("swap-on", f"npu{n}", what=f"swap {n}" if n == 7 else "swap") for n in range(1, 9)]
    assert "ERROR [swap-on] npu[1-8] (8 hosts)\n  npu[1-6,8]: swap\n  npu7: swap 7\n  Why:" in told(
        verdicts.verdict(12, findings=tuple(findings))
    )


def test_evidence_is_shortened_to_one_line_and_the_first_that_there_is() -> None:
    findings = (verdicts.finding("swap-on", "npu1"), verdicts.finding("swap-on", "npu2", evidence="a  b\n" * 200))
    (line,) = [line for line in told(verdicts.verdict(findings=findings)).splitlines() if "Seen" in line]
    assert line.startswith("  Seen on npu2: a b a b")
    assert line.endswith("...")
    assert len(line) < 200


def test_notices_are_counted_only_when_there_are_many() -> None:
    def notices(groups: int) -> str:
        found = [verdicts.finding(rule, "npu1", "notice") for rule in MANY[:groups]]
        return told(verdicts.verdict(findings=(*found, verdicts.finding("swap-on", "npu1"))))

    assert notices(5).count("NOTICE [") == 5
    assert "NOTICE [" not in notices(6)
    assert "6 notices in 6 groups, worth knowing: see preflight.html\n" in notices(6)
    assert "ERROR [swap-on]" in notices(6)


@pytest.mark.parametrize("each", [1, 3, 9])
def test_thousand_hosts_stay_readable(each: int) -> None:
    lines = told(verdicts.large(1000, each)).splitlines()
    assert len(lines) <= text.MOST_LINES
    assert lines[-1].startswith("Next: ")
    assert max(map(len, lines)) < 250


def test_errors_come_first_and_what_is_left_out_is_named() -> None:
    findings = [verdicts.finding(rule, "npu1", ("error", "warning")[n % 2]) for n, rule in enumerate(MANY)]
    lines = told(verdicts.verdict(findings=tuple(findings))).splitlines()
    assert len(lines) <= text.MOST_LINES
    shown = [line.partition(" ")[0] for line in lines if " [rule-" in line]
    assert shown == ["ERROR"] * len(shown)
    (left,) = [line for line in lines if "left out" in line]
    assert left.startswith(
        f"{60 - len(shown)} more groups left out here (errors: {30 - len(shown)}, warnings: 30): rule-"
    )
    assert left.endswith(", ...: see preflight.html")


def test_fewer_texts_are_shown_before_groups_are_left_out() -> None:
    findings = [verdicts.finding(rule, f"npu{n}", what=f"thing {n}") for rule in MANY[:14] for n in range(1, 10)]
    shown = told(verdicts.verdict(12, findings=tuple(findings)))
    assert "left out" not in shown
    assert shown.count("ERROR [") == 14
    assert shown.count("and 7 more: see preflight.html") == 14


def test_many_reasons_and_waivers_are_counted() -> None:
    absent = {f"npu{n}": f"reason {n}" for n in range(1, 10)}
    waived = tuple(Waived(verdicts.finding(rule, "npu10"), "accepted") for rule in MANY[:8])
    shown = told(verdicts.verdict(12, absent=absent, waived=waived))
    assert shown.count("NOT LOOKED AT npu") == 5
    assert "NOT LOOKED AT 4 more hosts: see preflight.html\n" in shown
    assert shown.count("WAIVED error [") + shown.count("WAIVED warning [") + shown.count("WAIVED notice [") == 5
    assert "WAIVED 3 more: see preflight.html\n" in shown


def test_an_absent_host_that_a_rule_tells_of_is_not_told_twice() -> None:
    absent = {"npu1": "no route", "npu2": "it hangs"}
    findings = (verdicts.finding("host-absent", "npu1", what="nothing is known of it: no route"),)
    shown = told(verdicts.verdict(absent=absent, findings=findings))
    assert shown.count("no route") == 1
    assert "NOT LOOKED AT npu2: it hangs\n" in shown


def test_the_last_line_says_what_to_do() -> None:
    warning = (verdicts.finding("swap-on", "npu1", "warning"),)
    assert last(verdicts.small()) == ("error", "Next: mend the above, then run preflight again.")
    assert last(verdicts.verdict(findings=warning)) == (
        *("warning",),
        "No errors. Next: mend or waive the above, then run preflight again.",
    )
    assert last(verdicts.clean()) == ("good", "Clean: no errors and no warnings.")
    assert last(verdicts.verdict(absent={"npu1": "left out"}, findings=warning)) == (
        *("warning",),
        "No errors on 3 hosts, but 1 not looked at: nothing is known of them.",
    )
    assert last(verdicts.verdict(rules=())) == ("error", "Nothing was judged, so nothing is known.")
    assert last(verdicts.verdict(hosts={})) == ("error", "Nothing was judged, so nothing is known.")


@given(ANY, ANY, ANY)
def test_nothing_from_hosts_controls_the_terminal(one: str, other: str, third: str) -> None:
    findings = (
        verdicts.finding("swap-on", one, what=other, evidence=third, fix=one, why=other),
        verdicts.finding("swap-on", other, what=third, evidence=one, fix=one, why=third),
    )
    verdict = verdicts.verdict(
        cluster=one, absent={third: other}, findings=findings, waived=(Waived(findings[0], third),)
    )
    lines = text.lines(document(verdict))
    assert all(line.text.isprintable() for line in lines)
