# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change facts of the planner one by one, and see whether its unit tests notice.

    .venv/bin/python tests/mutation/run.py [--facts N] [--seed S] [--module NAME]...   N of them, chosen at random
    .venv/bin/python tests/mutation/run.py --all
    .venv/bin/python tests/mutation/run.py --id ID...    such as one that survived
    .venv/bin/python tests/mutation/run.py --list        every fact, and what is counted as none

The checkout is copied and never touched. Ends with 1 when a change survived, with 2 when the tests fail by themselves.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.mooncake.pd.tests.mutation.facts import EXCLUDED, Fact, Source, sources

COLLECTION = Path("ansible_collections/mooncake/pd")
NEEDED = ("plugins", "tests/unit/plugins", "inventories", "meta", "galaxy.yml", "pyproject.toml")
TESTS = ("tests/unit/plugins/plugin_utils", "tests/unit/plugins/inventory")
PROCESSES = 2
KILLED, SURVIVED = "KILLED", "SURVIVED"


@dataclass(frozen=True)
class Mutant:
    source: Source
    fact: Fact
    choice: int

    def __str__(self) -> str:
        fact = self.fact
        return f"{fact.path}:{fact.line} {fact.id}: {fact.said} -> {fact.others[self.choice]}"


@dataclass(frozen=True)
class Verdict:
    outcome: str
    by: str
    seconds: float


class Tree:
    """A copy of what the tests need, in which one module at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / COLLECTION

    @classmethod
    def of(cls, checkout: Path, folder: Path) -> Tree:
        tree = cls(folder)
        for name in NEEDED:
            origin, copy = checkout / name, tree.root / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if origin.is_dir():
                shutil.copytree(origin, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(origin, copy)
        # compiled by content: a changed module may have the same size and second as the one before
        command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "plugins"]
        subprocess.run(command, cwd=tree.root, check=True)
        return tree

    def copy(self, folder: Path) -> Tree:
        shutil.copytree(self.folder, folder)
        return Tree(folder)

    def run(self, module: str, *, keep_compiled: bool = False) -> tuple[int, str]:
        """Exit code and output of the tests, which stop at the first failure."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))}
        environment |= {
            "PYTHONPATH": f"{self.folder}{os.pathsep}{Path(__file__).parent}",
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "MUTATED_MODULE": module,
        }
        if not keep_compiled:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "order", "--rootdir", "."),
                *("-o", "console_output_style=classic", *TESTS),
            ],
            cwd=self.root,
            env=environment,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    def judge(self, mutant: Mutant) -> Verdict:
        path = self.root / mutant.fact.path
        original = path.read_text(encoding="utf-8")
        started = time.monotonic()
        try:
            path.write_text(mutant.source.mutated(mutant.fact, mutant.choice), encoding="utf-8")
            code, output = self.run(mutant.fact.path.stem)
        finally:
            path.write_text(original, encoding="utf-8")
        return Verdict(KILLED if code else SURVIVED, first_failure(code, output), time.monotonic() - started)


def first_failure(code: int, output: str) -> str:
    if code == 0:
        return ""
    if code < 0:
        return f"signal {-code}: out of time or memory"
    found = re.search(r"^(?:FAILED|ERROR) (?:[^ :]*/)?(.+?)(?: - .*)?$", output, re.MULTILINE)
    return found[1] if found else output.strip().splitlines()[-1]


def mutants(every: Sequence[Source]) -> list[Mutant]:
    return [
        Mutant(source, fact, choice)
        for source in every
        for fact, changes in source.found
        for choice in range(len(changes))
    ]


def chosen(every: Sequence[Source], number: int, seed: int) -> list[Mutant]:
    """So many facts, and one change of each."""
    dice = random.Random(seed)
    facts = [(source, fact) for source in every for fact, _changes in source.found]
    picked = dice.sample(facts, min(number, len(facts)))
    return [Mutant(source, fact, dice.randrange(len(fact.others))) for source, fact in picked]


def judged(tree: Tree, some: Sequence[Mutant], seconds: float | None = None) -> Iterator[tuple[Mutant, Verdict]]:
    """The verdicts as they come, at most two at a time; after so many seconds nothing new is begun."""
    trees: Queue[Tree] = Queue()
    for number in range(PROCESSES):
        trees.put(tree.copy(tree.folder.with_name(f"worker{number}")))
    end = time.monotonic() + seconds if seconds else None

    def judge(mutant: Mutant) -> Verdict | None:
        if end and time.monotonic() > end:
            return None
        own = trees.get()
        try:
            return own.judge(mutant)
        finally:
            trees.put(own)

    pool = ThreadPoolExecutor(PROCESSES)
    try:
        running = {pool.submit(judge, mutant): mutant for mutant in some}
        for done in as_completed(running):
            verdict = done.result()
            if verdict:
                yield running[done], verdict
    finally:
        pool.shutdown(cancel_futures=True)


def report(verdicts: Iterator[tuple[Mutant, Verdict]], say: Callable[[str], None]) -> list[Mutant]:
    survivors, counted = [], Counter[str]()
    for mutant, verdict in verdicts:
        counted[verdict.outcome] += 1
        say(f"{verdict.outcome:<8} {verdict.seconds:5.1f} s  {mutant}{verdict.by and '  by ' + verdict.by}")
        if verdict.outcome == SURVIVED:
            survivors.append(mutant)
    say(f"\n{counted[KILLED]} killed, {counted[SURVIVED]} survived")
    for mutant in survivors:
        say(f"  {mutant}")
    return survivors


def listing(every: Sequence[Source], say: Callable[[str], None]) -> None:
    for source in every:
        for fact, _changes in source.found:
            say(f"{fact.path}:{fact.line}  {fact.id}  {fact.said} -> {' or '.join(fact.others)}")
    kinds = Counter(fact.kind for source in every for fact, _changes in source.found)
    say(f"\n{sum(kinds.values())} facts: {', '.join(f'{number} {kind}' for kind, number in kinds.most_common())}")
    excluded: Counter[str] = sum((source.excluded for source in every), Counter())
    say("no facts:")
    for why, number in excluded.most_common():
        say(f"  {number:4} {why}: {EXCLUDED[why]}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Change facts of the planner and see whether its unit tests notice.")
    parser.add_argument("--facts", type=int, default=10, metavar="N", help="how many, chosen at random (default: 10)")
    parser.add_argument("--seed", type=int, help="of the choice (default: another one each time, which is printed)")
    parser.add_argument("--module", action="append", help="only facts of this module, such as connectors")
    parser.add_argument("--seconds", type=float, help="begin nothing new after so many seconds")
    parser.add_argument("--all", action="store_true", help="every change of every fact")
    parser.add_argument("--id", nargs="+", help="every change of these facts")
    parser.add_argument("--list", action="store_true", help="show the facts and change none")
    options = parser.parse_args()
    # the copies are removed and what has begun is ended
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(143))

    def say(line: str) -> None:
        print(line, flush=True)

    every = [one for one in sources(ROOT) if not options.module or one.path.stem in options.module]
    if options.list:
        listing(every, say)
        return 0
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    if options.id or options.all:
        some = [one for one in mutants(every) if options.all or one.fact.id in options.id]
        if options.all:
            random.Random(seed).shuffle(some)
    else:
        some = chosen(every, options.facts, seed)
    if not some:
        parser.error("there is no such fact; --list shows all")
    say(f"{len(some)} changes of {sum(len(one.found) for one in every)} facts, --seed {seed}")
    with tempfile.TemporaryDirectory(prefix="mooncake-pd-mutation-") as folder:
        tree = Tree.of(ROOT, Path(folder, "unchanged"))
        code, output = tree.run("", keep_compiled=True)
        if code:
            say(f"the tests fail without any change:\n{output}")
            return 2
        survivors = report(judged(tree, some, options.seconds), say)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
