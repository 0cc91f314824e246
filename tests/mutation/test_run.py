# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ast
from collections import Counter
from textwrap import dedent

import pytest

from ansible_collections.mooncake.pd.tests.mutation import run
from ansible_collections.mooncake.pd.tests.mutation.facts import EXCLUDED, UTILS, misspelt, sources


@pytest.fixture
def facts(tmp_path):
    """The facts of a module, as {what is said: what it is changed to}, by kind."""

    def find(text, name="sample.py"):
        path = tmp_path / UTILS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        (source,) = sources(tmp_path)
        return source, [(fact.kind, fact.said, fact.others) for fact, _changes in source.found]

    return find


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BASE = 22000", [("number", "22000", ("22001", "21999"))]),
        ("OWN = True", [("flag", "True", ("False",))]),
        ("NAME = 'kv_port'", [("name", "'kv_port'", ("'kv_poru'",))]),
        ("SEVERITY = 'error'", [("severity", "'error'", ("'warning'",))]),
        ("PORTS = (15000, 17000)", [("number", "15000", ("15001", "14999")), ("number", "17000", ("17001", "16999"))]),
        (
            "def f(x):\n    return x < 3",
            [("comparison", "x < 3", ("x <= 3",)), ("number", "3", ("4", "2"))],
        ),
        ("def f(i):\n    return i.tp * i.pp", [("factor", "i.tp * i.pp", ("i.tp", "i.pp"))]),
        ("def f(a, b):\n    return a + b", [("term", "a + b", ("a - b",))]),
        ("def f(report):\n    report.error(X)", [("severity", "error", ("warning",))]),
        ("def f(x):\n    return f'--port={x}'", [("name", "'--port='", ("'--poru='",))]),
        ("class L:\n    pattern: str\nX = L('a b|c d')", [("pattern", "'a b|c d'", ("'b b|c d'", "'a b|d d'"))]),
    ],
)
def test_what_a_fact_is(facts, text, expected):
    assert facts(text)[1] == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"""About 3 ports."""', "documentation"),
        ("FIX = 'leave it out.'", "text for people"),
        ("SOURCE = 'vllm/envs.py@v0.32.0'", "where a fact comes from"),
        ("SEPARATOR = ', '", "punctuation"),
        ("FIRST = NAMES[0]", "code"),
        ("ANY: Literal['x'] = NAMES", "type"),
        ("_T = (('0.9.1', A), ('0.0', B))\nX = value_at(_T, Y)", "no lower bound"),
        ("class V:\n    name: str\n    source: str\nX = V(Y, 'somewhere')", "where a fact comes from"),
        ("_S = 'somewhere'\ndef f(source): ...\nX = f(source=_S)", "where a fact comes from"),
    ],
)
def test_what_is_none(facts, text, why):
    source, found = facts(text)
    assert [item for item in found if item[0] != "entry"] == []
    assert why in source.excluded


def test_every_reason_is_explained():
    excluded = Counter()
    for source in sources(run.ROOT):
        excluded += source.excluded
    assert set(excluded) <= set(EXCLUDED)


def test_a_release_becomes_a_neighbour_of_its_own_product(facts):
    _source, found = facts(
        """
        A = Connector("X", "vllm_ascend", "0.12.0rc1")
        B = Connector("X", "vllm_ascend", "0.11.0")
        C = Connector("X", "vllm_cpu", "0.11.2")
        D = ("0.3.8",)
        """
    )
    releases = {said: others for kind, said, others in found if kind == "release"}
    assert releases == {
        "'0.12.0rc1'": ("'0.11.0'", "'0.12.0.99'"),
        "'0.11.0'": ("'0.12.0rc1'",),
        "'0.11.2'": ("'0.11.2.99'",),
        "'0.3.8'": ("'0.3.8.99'",),
    }


def test_entries_of_tables_can_be_missing_and_those_of_rows_cannot(facts):
    source, found = facts("TABLE = {'a': ('0.3.8', 'x'), **OTHER}\nNAMES = ('tp', 'pp')")
    assert [said for kind, said, _others in found if kind == "entry"] == [
        "entry 'a'",
        "entry OTHER",
        "entry 'tp'",
        "entry 'pp'",
    ]
    entries = [(fact, index) for fact, changes in source.found for index in range(len(changes)) if fact.kind == "entry"]
    assert [source.mutated(fact, index).splitlines() for fact, index in entries] == [
        ["TABLE = {**OTHER}", "NAMES = ('tp', 'pp')"],
        ["TABLE = {'a': ('0.3.8', 'x')}", "NAMES = ('tp', 'pp')"],
        ["TABLE = {'a': ('0.3.8', 'x'), **OTHER}", "NAMES = ('pp',)"],
        ["TABLE = {'a': ('0.3.8', 'x'), **OTHER}", "NAMES = ('tp',)"],
    ]


def test_every_change_of_the_planner_changes_one_definition():
    for source in sources(run.ROOT)[::5]:
        before = [ast.dump(top) for top in source.tree.body]
        for fact, changes in source.found[::25]:
            for choice in range(len(changes)):
                after = [ast.dump(top) for top in ast.parse(source.mutated(fact, choice)).body]
                assert sum(one != other for one, other in zip(before, after, strict=True)) == 1, fact


def test_ids_are_unique():
    ids = [fact.id for source in sources(run.ROOT) for fact, _changes in source.found]
    assert len(ids) == len(set(ids)) > 1000


def test_an_id_outlives_lines_before_it(facts):
    (one, _changes), *_rest = facts("A = 1")[0].found
    (other, _changes), *_rest = facts("# more\nB = A\nA = 1")[0].found
    assert one.id == other.id == "sample.A:number:1"
    assert other.line == 3


def test_the_same_seed_chooses_the_same():
    every = sources(run.ROOT)
    assert list(map(str, run.chosen(every, 10, 4))) == list(map(str, run.chosen(every, 10, 4)))
    assert list(map(str, run.chosen(every, 10, 4))) != list(map(str, run.chosen(every, 10, 5)))


@pytest.mark.parametrize(
    ("name", "other"), [("tp", "tq"), ("--port=", "--poru="), ("0.0.0.0", "0.0.0.1"), ("A9", "A8"), ("z.", "a.")]
)
def test_misspelt(name, other):
    assert misspelt(name) == other


@pytest.mark.parametrize(
    ("code", "output", "expected"),
    [
        (0, "3 passed", ""),
        (1, "FAILED tests/unit/test_x.py::test_y[a b] - assert 1 == 2\n1 failed", "test_x.py::test_y[a b]"),
        (2, "ERROR tests/unit/test_x.py\nInterrupted", "test_x.py"),
        (-24, "..", "signal 24: out of time or memory"),
    ],
)
def test_who_noticed(code, output, expected):
    assert run.first_failure(code, output) == expected


def test_the_report_ends_with_the_survivors(facts):
    source, _found = facts("A = 1\nB = 2")
    one, other, *_more = run.mutants([source])
    said = []
    verdicts = [(one, run.Verdict(run.KILLED, "test_x.py::test_y", 1.0)), (other, run.Verdict(run.SURVIVED, "", 2.0))]
    assert run.report(iter(verdicts), said.append) == [other]
    assert said[0].endswith("sample.A:number:1: 1 -> 2  by test_x.py::test_y")
    assert said[-2:] == ["\n1 killed, 1 survived", f"  {other}"]


def test_a_change_is_undone(tmp_path):
    """In a tree whose only test wants the fact as it is."""
    root = tmp_path / "checkout"
    module, test = root / UTILS / "sample.py", root / run.TESTS[0] / "test_sample.py"
    for path, text in (
        (module, "A = 1\nB = 2\n"),
        (
            test,
            f"from {'.'.join(run.COLLECTION.parts)}.plugins.plugin_utils.sample import A\ndef test(): assert A == 1\n",
        ),
        (root / run.TESTS[1] / "test_other.py", "def test(): pass\n"),
        (root / "inventories/one.yml", ""),
        (root / "meta/runtime.yml", ""),
        (root / "galaxy.yml", ""),
        (
            root / "pyproject.toml",
            '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib -p no:cacheprovider"\n',
        ),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (source,) = sources(root)
    tree = run.Tree.of(root, tmp_path / "unchanged")
    verdicts = {mutant.fact.name: verdict for mutant, verdict in run.judged(tree, run.mutants([source])[:2])}
    assert (verdicts["sample.A"].outcome, verdicts["sample.A"].by) == (run.KILLED, "test_sample.py::test")
    assert verdicts["sample.B"].outcome == run.SURVIVED
    assert {path.read_text(encoding="utf-8") for path in tmp_path.rglob("sample.py")} == {"A = 1\nB = 2\n"}
