# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from ansible_collections.mooncake.pd.plugins.plugin_utils.report import assets, document, page
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.document import Document
from ansible_collections.mooncake.pd.plugins.plugin_utils.report.markup import Markup, tag
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils import topologies
from ansible_collections.mooncake.pd.tests.unit.plugins.plugin_utils.report import documents

VOID = {"meta", "input"}


class Seen(HTMLParser):
    """What a browser would see; fails on an element that is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str, kind: str = "") -> list[dict[str, str | None]]:
        return [own for name, own in self.elements if name == tag and kind in (own.get("class") or "").split(" ")]

    def values(self, attribute: str) -> list[str]:
        return [own[attribute] or "" for _name, own in self.elements if attribute in own]


def layerwise() -> Document:
    return document.document(topologies.plan(topologies.ascend("MooncakeLayerwiseConnector")))


DOCUMENTS = {
    "small": documents.small,
    "many": lambda: documents.large(80),
    "hostile": documents.hostile,
    "cpu": lambda: document.document(topologies.plan(topologies.cpu())),
    "ascend": lambda: document.document(topologies.plan(topologies.ascend())),
    "layerwise": layerwise,
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_page_is_well_formed_and_refers_to_nothing_outside(name: str) -> None:
    text = page.page(DOCUMENTS[name]())
    seen = Seen(text)
    ids = seen.values("id")
    assert len(ids) == len(set(ids))
    assert {href.removeprefix("#") for href in seen.values("href")} <= set(ids)
    assert all(href.startswith("#") for href in seen.values("href"))
    assert not {name for name, _own in seen.elements} & {
        "img",
        "link",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "use",
    }
    assert not [own for name, own in seen.elements if "src" in own or any(key.startswith("on") for key in own)]
    assert not re.search(r"https?://|url\(|@import", text)
    assert len(seen.all("script")) == len(seen.all("style")) == 1


def test_names_out_of_a_file_stay_text() -> None:
    """The hostile page has the elements of the harmless one, and shows the names as they are."""
    harmless, hostile = Seen(page.page(documents.small())), Seen(page.page(documents.hostile()))
    assert [name for name, _own in hostile.elements] == [name for name, _own in harmless.elements]
    assert [sorted(own) for _name, own in hostile.elements] == [sorted(own) for _name, own in harmless.elements]
    assert any("npu1<b onload=x>\"'&</script><!--" in text for text in hostile.text)


def test_markup_escapes_all_that_it_did_not_make() -> None:
    assert tag("p", "<b>", Markup("<i></i>"), 3, class_='"', data_x=None, hidden=True, open=False) == (
        '<p class="&quot;" hidden>&lt;b&gt;<i></i>3</p>'
    )


def test_chips_show_instance_and_rank() -> None:
    seen = Seen(page.page(documents.small()))
    chips = seen.all("li", "chip")
    assert len(chips) == 24
    assert len(seen.all("li", "free")) == 4
    titles = [chip["title"] for chip in chips if "title" in chip]
    assert titles[0] == "NPU 0: p1-0, prefill, DP rank 0, api 7100, kv 30000-30007"
    assert titles[15] == "NPU 7: p1-1, prefill, DP rank 1, kv 30008-30015"
    colours = {chip["style"] for chip in chips if "prefill" in (chip["class"] or "")}
    assert len(colours) == 1
    assert colours.isdisjoint(chip["style"] for chip in seen.all("li", "decode"))


def test_chips_of_a_head_belong_to_its_ranks_in_order() -> None:
    head = documents.engine("p1", "prefill", "192.0.2.1", [2, 3], [4, 5, 6, 7], role="head")
    content = documents.document(
        [documents.host("npu1", "192.0.2.1", [head], None)],
        [documents.instance("p1", "prefill", ["npu1"], "192.0.2.1")],
    )
    seen = Seen(page.page(content))
    ranks = [(chip["title"] or "").split(", ")[2] for chip in seen.all("li", "used")]
    assert ranks == ["DP rank 2", "DP rank 2", "DP rank 3", "DP rank 3"]
    assert len(seen.all("li", "free")) == 4  # the file does not tell how many there are, but 0-3 have to be there


def test_port_map_is_to_scale() -> None:
    bars = Seen(page.page(documents.small())).all("i", "pool")
    assert bars[0]["style"] == f"left:{20000 * 100 / 65536:.3f}%;width:{801 * 100 / 65536:.3f}%;--h:0"


def test_ports_in_bands_are_flagged() -> None:
    content = documents.small()
    assert page.page(content).count('class="flag">NodePort<') == 2  # kv of both prefill hosts
    content["hosts"]["npu1"]["processes"][0]["claims"]["ports"][0].update(first=40000, last=40000)
    assert page.page(content).count('class="flag">ephemeral<') == 1
    content["hosts"]["npu1"]["pools"].append({"purpose": "hccl", "first": 60000, "last": 60015})
    assert page.page(content).count('class="flag">ephemeral<') == 1  # a pool is no claim on any one port


def test_path_says_who_connects_and_who_listens() -> None:
    assert "Decode pulls KV from prefill: it connects to prefill, which listens on kv 30000-30015." in page.page(
        documents.small()
    )
    pushes = page.page(layerwise())
    assert "Prefill pushes KV to decode layer by layer: it connects to decode, which listens on kv" in pushes
    assert "2 wants its KV" in pushes
    assert "2 wants its KV" not in page.page(documents.small())


def test_findings_and_choices_are_shown_only_when_there_are_some() -> None:
    shown = Seen(page.page(documents.small())).text
    assert {"use 22000.", "a spare", "the first port of the engine."} <= set(shown)
    assert not {"waived", "choices"} & set(Seen(page.page(documents.large(2))).values("id"))


def test_colours_of_instances_differ() -> None:
    seen = Seen(page.page(documents.large(24)))
    chips = seen.all("li", "used")
    assert len({chip["style"] for chip in chips}) == 24


def test_thousand_hosts_are_folded_and_the_page_stays_small() -> None:
    text = page.page(documents.large())
    seen = Seen(text)
    assert len(seen.all("article", "host")) == 1000
    groups = seen.all("details", "group")
    assert len(groups) == 2
    assert not any("open" in group for group in seen.all("details"))
    assert len(seen.all("tr", "class")) == 2  # one port map for each kind of host
    assert len(text) < 3_000_000


def test_page_can_be_read_without_the_script() -> None:
    text = page.page(documents.small()).replace(assets.SCRIPT, "")
    (label,) = Seen(text).all("label")
    assert "hidden" in label


def test_same_plan_is_the_same_page() -> None:
    assert page.page(documents.small()) == page.page(documents.small())
