# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of the planner, found in its source, and what each could be mistaken for.

A fact is a number, a release, a name, a pattern, an entry of a table, a comparison or a factor. Everything that is none
is left out by a rule with a reason; no fact is named here one by one.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

UTILS = Path("plugins/plugin_utils")
# They read the file, put the plan into words or into the form that Ansible gets, and know nothing of engines,
# connectors and hosts.
NO_KNOWLEDGE = (
    *("report/*", "schema/fields.py", "problems.py", "lines.py", "rules/catalogue.py", "plan.py", "process.py"),
    "engines/kinds.py",
)

TEXT = "text for people"
SOURCE = "where a fact comes from"
EXCLUDED = {
    TEXT: "a parameter, field or constant that only people read, or a string with blanks that is no pattern",
    SOURCE: "a file, a commit or a document",
    "documentation": "a docstring",
    "type": "an annotation",
    "code": "an index, a slice, a decorator or strict= of zip(): how code reads its own data",
    "punctuation": "a string without letters and digits joins or splits others",
    "no lower bound": "value_at() never looks at the first release of a table, and nothing is older than 0.0",
    "wording": "n and cutoff of get_close_matches() choose a suggestion",
    "row": "an element of a row or of a pair has its place, so the row is dropped as a whole",
}
# parameters and fields that only people read
_TEXT_NAMES = {
    *("message", "fix", "instead", "effect", "gone", "what", "wanted", "why", "hint", "about", "description", "text"),
    *("successor",),
}
_PATTERN_NAMES = {"pattern"}
_VERSION = re.compile(r"\d+(\.\d+){1,2}((a|b|rc|\.post)\d+)?")
_FOREIGN = re.compile(
    r"@(v?\d|[0-9a-f]{7})|^(docs|vllm|vllm_ascend|mooncake-[a-z-]+)/|\S/\S*\.(cpp|h|py|md)\b|hiascend"
)
_FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_SEVERITIES = {"error": "warning", "warning": "error"}


@dataclass(frozen=True)
class Fact:
    """number counts the facts of one kind in one definition, so the id outlives changes elsewhere in the file."""

    path: Path
    line: int
    name: str  # module and definition
    kind: str
    number: int
    said: str
    others: tuple[str, ...]  # what it is changed to, for people

    @property
    def id(self) -> str:
        return f"{self.name}:{self.kind}:{self.number}"


@dataclass
class Source:
    """A module with its facts, and the changed text of each."""

    path: Path
    tree: ast.Module
    found: list[tuple[Fact, list[_Change]]] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)

    def mutated(self, fact: Fact, choice: int) -> str:
        changes = next(changes for known, changes in self.found if known == fact)
        return changes[choice].text(self.tree)


@dataclass(frozen=True)
class _Change:
    """Put something else in the place of a node, which is found by its number in the order of ast.walk()."""

    place: int
    new: ast.AST | None = None
    drop: int | None = None  # the element to drop of a tuple, list, set or dict

    def text(self, tree: ast.Module) -> str:
        tree = copy.deepcopy(tree)
        node = next(item for number, item in enumerate(ast.walk(tree)) if number == self.place)
        if self.drop is not None:
            for name in ("elts", "keys", "values"):
                if hasattr(node, name):
                    del getattr(node, name)[self.drop]
        elif self.new is not None:
            for parent in ast.walk(tree):
                for name, value in ast.iter_fields(parent):
                    if value is node:
                        setattr(parent, name, self.new)
                    elif isinstance(value, list):
                        value[:] = [self.new if item is node else item for item in value]
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def modules(root: Path) -> list[Path]:
    """Paths, below root, of all modules that hold knowledge."""
    every = sorted(path.relative_to(root) for path in (root / UTILS).rglob("*.py"))
    return [path for path in every if not any(path.relative_to(UTILS).match(glob) for glob in NO_KNOWLEDGE)]


def sources(root: Path) -> list[Source]:
    trees = {path: ast.parse((root / path).read_text(encoding="utf-8")) for path in modules(root)}
    signatures = _signatures(trees.values())
    tables = _tables(trees.values())
    releases = _Releases(trees)
    return [_Finder(path, tree, signatures, tables, releases).source for path, tree in trees.items()]


def _signatures(trees: Iterable[ast.Module]) -> dict[str, tuple[str, ...]]:
    """The parameters of every function and the fields of every class, so that arguments have names."""
    known: dict[str, tuple[str, ...]] = {"error": ("rule", "where", "message", "fix")}
    known["warning"] = known["error"]
    known["add"] = ("rule", "severity", "where", "message", "fix")
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                known[node.name] = tuple(name for item in node.body if (name := _field(item)))
            elif isinstance(node, ast.FunctionDef):
                known.setdefault(node.name, tuple(arg.arg for arg in node.args.args if arg.arg != "self"))
    return known


def _field(node: ast.stmt) -> str:
    return _name_of(node.target) if isinstance(node, ast.AnnAssign) else ""


def _name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _tables(trees: Iterable[ast.Module]) -> set[str]:
    """Names and fields that are read by value_at() and by nothing else."""
    read: Counter[str] = Counter()
    by_value_at: Counter[str] = Counter()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                read[_name_of(node)] += 1
            if isinstance(node, ast.Call) and _name_of(node.func) == "value_at":
                table = node.args[0]
                arms = [table.body, table.orelse] if isinstance(table, ast.IfExp) else [table]
                by_value_at.update(_name_of(arm) for arm in arms)
    # a field may also be asked whether it is there; a constant may not be read in another way
    return {name for name, times in by_value_at.items() if read[name] == times or not name.startswith("_")} - {""}


class _Releases:
    """Who a version belongs to, and the releases that come before and after it."""

    def __init__(self, trees: Mapping[Path, ast.Module]) -> None:
        self.known: dict[str, set[str]] = {"vllm_ascend": set(), "vllm": set(), "mooncake": set()}
        for path, tree in trees.items():
            for top in tree.body:
                for node, family in self.families(path, top):
                    self.known[family].add(str(node.value))

    @staticmethod
    def families(path: Path, top: ast.stmt) -> Iterator[tuple[ast.Constant, str]]:
        """Every version of a definition with the product that it numbers."""
        of_vllm = path.parent.name == "options" and _defined(top) in ("DEAD_OPTIONS", "YOUNG_OPTIONS", "TRANSFER_KEYS")
        readers: dict[int, str] = {}
        for node in ast.walk(top):
            words = [text for arg in node.args if (text := _text(arg))] if isinstance(node, ast.Call) else []
            reader = next((word for word in words[1:2] if word in ("vllm", "vllm_cpu", "mooncake")), None)
            if reader:
                readers |= {id(item): reader.removesuffix("_cpu") for item in ast.walk(node)}
            if isinstance(node, ast.Call) and _name_of(node.func) == "Release":
                readers[id(node.args[1])] = "vllm"
                readers[id(node.args[2])] = ""  # of CANN, which nothing compares
        for node in ast.walk(top):
            version = _text(node)
            if isinstance(node, ast.Constant) and _VERSION.fullmatch(version) and version != "0.0":
                family = readers.get(id(node), "vllm" if of_vllm else "vllm_ascend")
                if family:
                    yield node, "mooncake" if version.startswith("0.3.") else family

    def neighbours(self, version: str, family: str) -> list[str]:
        ordered = sorted(self.known[family], key=_version_key)
        place = ordered.index(version)
        later = ordered[place + 1] if place + 1 < len(ordered) else f"{re.split('rc|.post', version)[0]}.99"
        return [*ordered[max(place - 1, 0) : place], later]


def _version_key(version: str) -> tuple[list[int], int, int]:
    numbers, phase, count = re.fullmatch(r"([\d.]*\d)(a|b|rc|\.post)?(\d*)", version).groups()  # type: ignore[union-attr]
    release = [int(part) for part in numbers.split(".")]
    return release + [0] * (3 - len(release)), {"a": -3, "b": -2, "rc": -1, None: 0, ".post": 1}[phase], int(count or 0)


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _text(node: ast.AST | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _defined(top: ast.stmt) -> str:
    if isinstance(top, ast.Assign):
        return "+".join(_name_of(item) for target in top.targets for item in ast.walk(target) if _name_of(item))
    if isinstance(top, ast.AnnAssign):
        return _name_of(top.target)
    return getattr(top, "name", "")


class _Finder:
    """Walks one module, knowing for every node what stands around it."""

    def __init__(
        self,
        path: Path,
        tree: ast.Module,
        signatures: Mapping[str, tuple[str, ...]],
        tables: set[str],
        releases: _Releases,
    ) -> None:
        self.source = Source(path, tree)
        self.signatures, self.tables, self.releases = signatures, tables, releases
        self.places = {id(node): number for number, node in enumerate(ast.walk(tree))}
        self.parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.numbers: Counter[tuple[str, str]] = Counter()
        self.why: dict[int, str] = {}
        self.patterns: set[int] = set()
        self._mark()
        for top in tree.body:
            if isinstance(top, (ast.Import, ast.ImportFrom)):
                continue
            self.families = dict((id(node), family) for node, family in releases.families(path, top))
            self.name = f"{path.relative_to(UTILS).with_suffix('').as_posix().replace('/', '.')}.{_defined(top)}"
            self._visit(top)

    # ---- what is no fact

    def _mark(self) -> None:
        tree = self.source.tree
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                first = node.body[0] if node.body else None
                if isinstance(first, ast.Expr) and _is_text(first.value):
                    self._exclude(first, "documentation")
                for decorator in getattr(node, "decorator_list", ()):
                    self._exclude(decorator, "code")
            if isinstance(node, (ast.FunctionDef, ast.arg, ast.AnnAssign)):
                for annotation in (getattr(node, "returns", None), getattr(node, "annotation", None)):
                    self._exclude(annotation, "type")
            if isinstance(node, ast.Subscript):
                self._exclude(node.slice, "code", only_numbers=True)
            if isinstance(node, ast.Call):
                self._mark_call(node)
            if isinstance(node, ast.Assign) and _defined(node) in ("Span", "Spans", "T", "VersionKey", "Releases"):
                self._exclude(node.value, "type")
            self._mark_first_release(node)
        self._mark_patterns()
        self._mark_texts_by_use()

    def _exclude(self, node: ast.AST | None, why: str, *, only_numbers: bool = False) -> None:
        for item in ast.walk(node) if node else ():
            if not only_numbers or (isinstance(item, ast.Constant) and isinstance(item.value, int)):
                self.why.setdefault(id(item), why)

    def _mark_call(self, node: ast.Call) -> None:
        function = _name_of(node.func)
        names = self.signatures.get(function, ())
        arguments = [*zip(names, node.args, strict=False), *((one.arg or "", one.value) for one in node.keywords)]
        for name, value in arguments:
            if name in _TEXT_NAMES:
                self._exclude(value, TEXT)
            elif name == "source":
                self._exclude(value, SOURCE)
            elif name in _PATTERN_NAMES:
                self.patterns.add(id(value))
            elif function == "get_close_matches" and name in ("n", "cutoff"):
                self._exclude(value, "wording")
            elif function == "zip" and name == "strict":
                self._exclude(value, "code")
            elif name == "separators":
                self._exclude(value, "punctuation")
        if isinstance(node.func, ast.Attribute) and _name_of(node.func.value) == "re":
            self.patterns.add(id(node.args[0]))
        if function in ("TypeVar", "ValueError", "AssertionError"):
            self._exclude(node, TEXT if function != "TypeVar" else "type")

    def _mark_first_release(self, node: ast.AST) -> None:
        name, value = "", None
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            name, value = _defined(node), node.value
        elif isinstance(node, ast.keyword):
            name, value = node.arg or "", node.value
        if name in self.tables and isinstance(value, ast.Tuple) and value.elts and isinstance(value.elts[0], ast.Tuple):
            self._exclude(value.elts[0].elts[0], "no lower bound")

    def _mark_patterns(self) -> None:
        """Also what is an item "wanted" or "unwanted", and constants that are used as patterns."""
        used = {name for key in self.patterns if (name := _name_of(self._node(key)))}
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if _text(key) in ("wanted", "unwanted"):
                        self.patterns.add(id(value))
            if isinstance(node, ast.Assign) and _defined(node) in used:
                self.patterns.add(id(node.value))
            if isinstance(node, ast.Assign) and _defined(node).endswith("_READY"):
                self.patterns.add(id(node.value))

    def _node(self, key: int) -> ast.AST:
        return next(node for node in ast.walk(self.source.tree) if id(node) == key)

    def _mark_texts_by_use(self) -> None:
        """A constant of the module is a text when it is only used in texts and f-strings of texts."""
        for _round in range(3):
            uses: dict[str, list[str]] = {}
            for node in ast.walk(self.source.tree):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    uses.setdefault(node.id, []).append(self._text_around(node))
            for top in self.source.tree.body:
                name = _defined(top)
                if isinstance(top, (ast.Assign, ast.AnnAssign)) and uses.get(name) and all(uses[name]):
                    self._exclude(top.value, uses[name][0])

    def _text_around(self, node: ast.AST | None) -> str:
        while node:
            why = self._string_reason(node) if isinstance(node, ast.JoinedStr) else self.why.get(id(node))
            if why in (TEXT, SOURCE):
                return str(why)
            node = None if isinstance(node, ast.JoinedStr) else self.parents.get(id(node))
        return ""

    def _string_reason(self, node: ast.JoinedStr | ast.Constant) -> str | None:
        """Why a string is no fact."""
        known = self.why.get(id(node))
        if known or id(node) in self.patterns:
            return known
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "{}".join(_text(part) for part in parts if _is_text(part))
        if isinstance(node, ast.JoinedStr) and not any(_is_text(part) for part in parts):
            return TEXT
        if _FOREIGN.search(text):
            return SOURCE
        if not re.search(r"[A-Za-z0-9]", text):
            return "punctuation"
        return TEXT if re.search(r"\s", text) or text.endswith(".") else None

    # ---- facts

    def _visit(self, node: ast.AST) -> None:
        why = self.why.get(id(node))
        if isinstance(node, ast.JoinedStr):
            self._string_parts(node)
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    self._visit(part.value)
            return
        if isinstance(node, ast.Constant):
            self._constant(node, why)
            return
        if why:
            if any(isinstance(item, ast.Constant) for item in ast.walk(node)):
                self.source.excluded[why] += 1
            if why != "code" or isinstance(node, (ast.Call, ast.keyword)):
                return
        if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
            self._collection(node)
        self._operation(node)
        for child in ast.iter_child_nodes(node):
            self._visit(child)

    def _operation(self, node: ast.AST) -> None:
        if isinstance(node, ast.Compare):
            for number, operator in enumerate(node.ops):
                ops = [*node.ops[:number], _FLIPS[type(operator)](), *node.ops[number + 1 :]]
                new = ast.Compare(node.left, ops, node.comparators)
                self._fact(node, "comparison", ast.unparse(node), [(ast.unparse(new), _Change(self._at(node), new))])
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.FloorDiv, ast.Mod)):
            sides = [side for side in (node.left, node.right) if not _is_text(side)]
            changes = [(ast.unparse(side), _Change(self._at(node), side)) for side in sides]
            self._fact(node, "factor", ast.unparse(node), changes)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and _arithmetic(node):
            new_op = ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
            self._fact(node, "term", ast.unparse(node), [(ast.unparse(new_op), _Change(self._at(node), new_op))])
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _SEVERITIES
            and _name_of(node.func.value) == "report"
        ):
            other = ast.Attribute(node.func.value, _SEVERITIES[node.func.attr], ast.Load())
            self._fact(node, "severity", node.func.attr, [(other.attr, _Change(self._at(node.func), other))])

    def _at(self, node: ast.AST) -> int:
        return self.places[id(node)]

    def _fact(self, node: ast.AST, kind: str, said: str, changes: list[tuple[str, _Change]]) -> None:
        if not changes:
            return
        self.numbers[self.name, kind] += 1
        line = getattr(node, "lineno", 0)
        others = tuple(text for text, _change in changes)
        fact = Fact(self.source.path, line, self.name, kind, self.numbers[self.name, kind], said, others)
        self.source.found.append((fact, [change for _text, change in changes]))

    def _constant(self, node: ast.Constant, why: str | None) -> None:
        value = node.value
        if isinstance(value, str) and not why:
            why = self._string_reason(node)
        if why:
            self.source.excluded[why] += 1
            return
        if isinstance(value, bool):
            self._replace(node, "flag", [not value])
        elif isinstance(value, (int, float)):
            self._replace(node, "number", [value + 1, value - 1] if value > 1 else [value + 1])
        elif isinstance(value, str):
            if id(node) in self.patterns:
                self._replace(node, "pattern", list(_other_patterns(value)))
            elif value == "0.0":
                self.source.excluded["no lower bound"] += 1
            elif id(node) in self.families:
                self._replace(node, "release", self.releases.neighbours(value, self.families[id(node)]))
            elif value in _SEVERITIES:
                self._replace(node, "severity", [_SEVERITIES[value]])
            else:
                self._replace(node, "name", [misspelt(value)])

    def _replace(self, node: ast.Constant, kind: str, values: Iterable[str | int | float]) -> None:
        changes = [(repr(value), _Change(self._at(node), ast.Constant(value))) for value in values]
        self._fact(node, kind, repr(node.value), changes)

    def _string_parts(self, node: ast.JoinedStr) -> None:
        why = self._string_reason(node)
        if why:
            self.source.excluded[why] += 1
            return
        pattern = id(node) in self.patterns
        for number, part in enumerate(node.values):
            text = _text(part)
            if re.search(r"[A-Za-z0-9]", text):
                for other in _other_patterns(text) if pattern else [misspelt(text)]:
                    new = ast.JoinedStr([*node.values[:number], ast.Constant(other), *node.values[number + 1 :]])
                    change = _Change(self._at(node), new)
                    self._fact(node, "pattern" if pattern else "name", repr(text), [(repr(other), change)])

    def _collection(self, node: ast.Tuple | ast.List | ast.Set | ast.Dict) -> None:
        """Each entry could be missing."""
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return
        entries = node.values if isinstance(node, ast.Dict) else node.elts
        if not entries:
            return
        if self._is_row(node):
            self.source.excluded["row"] += 1
            return
        for number, entry in enumerate(entries):
            shown: ast.AST = entry
            if isinstance(node, ast.Dict) and node.keys[number] is not None:
                shown = node.keys[number]  # type: ignore[assignment]
            said = f"entry {ast.unparse(shown)[:60]}"
            self._fact(entry, "entry", said, [("left out", _Change(self._at(node), drop=number))])

    def _is_row(self, node: ast.Tuple | ast.List | ast.Set | ast.Dict) -> bool:
        if not isinstance(node, ast.Tuple):
            return False
        kinds = {(type(item), type(getattr(item, "value", None))) for item in node.elts}
        kinds = {kind for kind in kinds if kind[0] is not ast.Starred}
        numbers = all(isinstance(item, ast.Constant) and isinstance(item.value, int) for item in node.elts)
        versions = any(_VERSION.fullmatch(_text(item)) for item in node.elts)
        pair = len(node.elts) == 2 and not all(_is_text(item) or isinstance(item, ast.Tuple) for item in node.elts)
        parent = self.parents.get(id(node))
        assigned = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple)
        return (
            assigned
            or isinstance(parent, (ast.Return, ast.comprehension, ast.Subscript, ast.Compare))
            or len(kinds) > 1
            or numbers
            or versions
            or (pair and not any(isinstance(item, ast.Starred) for item in node.elts))
        )


def _arithmetic(node: ast.BinOp) -> bool:
    """Not text or lists put together."""
    return not any(isinstance(item, (ast.JoinedStr, ast.List, ast.Tuple)) or _is_text(item) for item in ast.walk(node))


def misspelt(name: str) -> str:
    """The last letter or digit is the following one."""
    place = max(number for number, sign in enumerate(name) if sign.isascii() and sign.isalnum())
    sign = name[place]
    other = {"z": "a", "Z": "A", "9": "8"}.get(sign) or chr(ord(sign) + 1)
    return f"{name[:place]}{other}{name[place + 1 :]}"


def _other_patterns(pattern: str) -> Iterator[str]:
    """A letter of each alternative misspelt, else a digit that is no digit."""
    depth, start, literal = 0, True, False
    found = False
    for number, sign in enumerate(pattern):
        if literal:
            literal = False
            continue
        literal = sign == "\\"
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(sign, 0)
        start = start or (sign == "|" and depth == 0)
        if start and depth == 0 and sign.isalpha() and pattern[number + 1 : number + 2] not in ("?", "*"):
            yield pattern[:number] + misspelt(sign) + pattern[number + 1 :]
            start, found = False, True
    if not found and r"\d" in pattern:
        yield pattern.replace(r"\d", r"\D", 1)
