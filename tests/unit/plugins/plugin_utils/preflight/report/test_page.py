# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings

from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.report import assets, document, grid, page
from ansible_collections.mooncake.pd.plugins.plugin_utils.preflight.verdict import Verdict
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.report import verdicts
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.preflight.report.test_words import ANY
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.report.test_page import Seen

VERDICTS = {
    "small": verdicts.small,
    "clean": verdicts.clean,
    "hostile": verdicts.hostile,
    "large": lambda: verdicts.large(80),
}
LOADING = {"img", "link", "iframe", "object", "embed", "base", "form", "use", "video", "audio", "source"}


def drawn(verdict: Verdict) -> str:
    return page.page(document.document(verdict))


def seen(verdict: Verdict) -> Seen:
    return Seen(drawn(verdict))


def details(found: Seen) -> list[dict[str, str | None]]:
    return [own for name, own in found.elements if name == "details"]


@pytest.mark.parametrize("name", VERDICTS)
def test_page_is_well_formed_and_loads_nothing(name: str) -> None:
    text = drawn(VERDICTS[name]())
    found = Seen(text)
    ids = found.values("id")
    assert len(ids) == len(set(ids))
    assert not {element for element, _own in found.elements} & LOADING
    assert not [own for _element, own in found.elements if "src" in own or any(key.startswith("on") for key in own)]
    links = found.values("href")
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert all(link.startswith("https://") for link in links if not link.startswith("#"))
    assert not re.search(r"url\(|@import", text)
    assert len(found.all("script")) == len(found.all("style")) == 1
    (policy,) = [own["content"] for own in found.all("meta") if "http-equiv" in own]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_what_hosts_say_stays_text() -> None:
    harmless, hostile = seen(verdicts.harmless()), seen(verdicts.hostile())
    assert [name for name, _own in hostile.elements] == [name for name, _own in harmless.elements]
    assert [sorted(own) for _name, own in hostile.elements] == [sorted(own) for _name, own in harmless.elements]
    assert any("npu1<b onload=x>\"'&</script><!--\\x1b[31m" in text for text in hostile.text)


@settings(max_examples=30)
@given(ANY, ANY)
def test_whatever_hosts_say_the_page_is_whole(one: str, other: str) -> None:
    found = verdicts.finding("swap-on", "npu1", what=one, evidence=other, fix=one, why=other, source=one)
    text = drawn(verdicts.verdict(cluster=other, absent={"npu2": one}, findings=(found,)))
    text.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]", text)
    assert len(details(Seen(text))) == 2


def test_only_https_is_a_link() -> None:
    links = {link for link in seen(verdicts.small()).values("href") if not link.startswith("#")}
    # a vendor's manual is named beside its address; http://plain.example.org stays text
    assert links == {
        "https://docs.example.org/rdma#memlock",
        "https://docs.example.org/hccn",
        "https://docs.example.org/lldp",
    }


def test_every_host_is_a_row_of_its_kind_with_a_cell_for_each_family() -> None:
    found = seen(verdicts.small())
    titles = [own["aria-label"] for own in found.all("div", "grid")]
    assert titles == ["Hosts: prefill", "Hosts: decode", "Hosts: router + master"]
    assert len(found.all("table", "fleet")) == 3
    cells = [own["aria-label"] for own in found.all("a", "cell")]
    assert [own["class"] for own in found.all("a", "cell")[:3]] == ["cell error"] * 3
    assert cells[:3] == ["npu1, host: 1 error, 1 notice", "npu1, npu: 1 error", "npu2, host: 1 error, 1 warning"]
    # 10 engines and the router with 5 and 3 families
    good = [own for own in found.all("span", "good") if own["class"] == "cell good"]
    assert len(good) + len(cells) == 10 * 5 + 3
    (absent,) = found.all("a", "absent")
    assert (absent["href"], absent["title"]) == ("#absent", "ssh: no route to host")


def test_cells_lead_to_the_findings_of_the_host() -> None:
    found = seen(verdicts.small())
    lists = {own["id"] for own in found.all("ul") if "id" in own}
    assert {(own["href"] or "")[1:] for own in found.all("a", "cell")} == lists
    assert len(lists) == 9


def test_a_family_that_nobody_knew_of_is_a_column() -> None:
    found = seen(verdicts.verdict(findings=(verdicts.finding("odd-unknown", "npu1", family="odd"),)))
    assert [own["aria-label"] for own in found.all("a", "cell")] == ["npu1, odd: 1 error"]


def test_a_colour_is_never_alone() -> None:
    text = drawn(verdicts.small())
    for severity in ("error", "warning", "notice"):
        cells = re.findall(rf'class="cell {severity}"[^>]*>([^<]*)<', text)
        assert set(cells) == {grid.SYMBOLS[severity]}
    assert len(set(grid.SYMBOLS.values())) == len(grid.SYMBOLS)


def test_what_was_not_looked_at_is_blank() -> None:
    row = re.search(r'<tr><th scope="row">front</th>(.*?)</tr>', drawn(verdicts.small()))
    assert row is not None
    assert row[1].endswith("<td></td><td></td>")
    assert row[1].count("<td>") == 5


def test_groups_tell_what_to_do_and_can_be_copied() -> None:
    text = drawn(verdicts.small())
    found = Seen(text)
    assert [own["class"] for own in found.all("details", "group")] == [
        *["group error"] * 4,
        *["group warning", "group notice", "group"],
    ]
    assert all("hidden" in button for button in found.all("button"))  # they do nothing without the script
    fixes = re.findall(r'<div class="fix"><pre>(.*?)</pre>', text, re.DOTALL)
    assert fixes[2].endswith("caps it:\n  systemctl edit mooncake-pd-&lt;name&gt;")
    assert "and 3 more" in found.text
    assert (
        text.count("<dt>Seen</dt><dd><b>npu1</b><pre") == text.count("<dt>Seen</dt><dd><b>") == 2
    )  # with one host only there is no need to name it
    assert text.count("<dt>Seen</dt>") == 3
    assert {"chip 7 is DOWN", "the card is a spare"} <= {text.removeprefix(": ") for text in found.text}


def test_few_lie_open_and_many_can_be_opened() -> None:
    few = [own for own in details(seen(verdicts.small())) if own.get("class") not in ("group", None)]
    assert len(few) == 15
    assert all("open" in own for own in few)
    many = details(seen(verdicts.large(80)))
    assert len(many) > 80
    assert not [own for own in many if "open" in own]


def test_rules_say_whether_they_hold() -> None:
    text = drawn(verdicts.small())
    rows = re.findall(
        r'<tr><td><span class="pill [a-z]+">[^ <]* ?([\w ]+)</span></td><td>\w+</td>.*?<code>(.*?)</code>', text
    )
    assert dict((rule, state) for state, rule in rows) == {
        **dict.fromkeys(("memlock-low", "peer-filtered", "link-down", "tls-differs"), "error"),
        **{"swap-on": "warning", "governor-slow": "notice", "gid-missing": "waived"},
        **dict.fromkeys(("host-unknown", "port-taken"), "nothing found"),
    }


def test_sections_stand_there_only_when_they_hold_something() -> None:
    clean = seen(verdicts.clean())
    assert not {"absent", "waived"} & set(clean.values("id"))
    assert "Clean: no errors and no warnings." in clean.text
    assert "Nothing was found." in clean.text


def test_names_are_short_where_hosts_stand_close_together() -> None:
    hosts = {f"dc1-{'long-' * 6}rack{n}.example.org": verdicts.FAMILIES for n in range(70)}
    found = seen(verdicts.verdict(hosts=hosts, kinds=dict.fromkeys(hosts, ("decode",))))
    assert "dc1-long-long\u2026-long-rack69" in found.text
    assert f"dc1-{'long-' * 6}rack69.example.org" in found.values("title")


def test_thousand_hosts_fit_in_a_page_that_is_made_at_once() -> None:
    content = document.document(verdicts.large())
    begun = time.process_time()
    text = page.page(content)
    assert time.process_time() - begun < 20
    assert len(text.encode()) < 3_000_000
    found = Seen(text)
    assert len(found.all("details", "one")) == 1000
    assert len(found.all("a", "cell")) >= 2000


def test_long_evidence_of_many_hosts_is_cut() -> None:
    findings = tuple(
        verdicts.finding("swap-on", f"npu{n}", evidence=f"{n} " + "x" * 1990) for n in range(1, 1000) for _turn in "abc"
    )
    assert len(drawn(verdicts.verdict(1000, findings=findings))) < 3_000_000
    assert "x" * 1990 in drawn(verdicts.verdict(findings=findings[:1]))


def test_page_can_be_read_without_the_script() -> None:
    (label,) = Seen(drawn(verdicts.small()).replace(assets.SCRIPT, "")).all("label")
    assert "hidden" in label


def test_same_verdict_is_the_same_page() -> None:
    assert drawn(verdicts.small()) == drawn(verdicts.small())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_schemes(scheme: str) -> None:
    """WCAG 2.2, 1.4.3: a contrast of 4.5 at least."""
    colours: dict[str, str] = {}
    blocks = re.findall(r"(@media screen[^{]*\{\s*)?:root \{(.*?)\}", assets.STYLE, re.DOTALL)
    for media, body in blocks:
        if not media or scheme == "dark":
            colours.update(re.findall(r"--([\w-]+): (#\w+)", body))
    pairs = [(f"{name}-ink", f"{name}-paper") for name in ("error", "warning", "notice", "good")]
    pairs += [(ink, paper) for ink in ("ink", "soft", "accent") for paper in ("page", "paper")]
    pairs += [("ink", "faint")]
    ratios = {pair: _contrast(*(colours[name] for name in pair)) for pair in pairs}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}


def _contrast(one: str, other: str) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
