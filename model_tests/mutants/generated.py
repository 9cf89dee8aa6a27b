"""Mutants that are generated of the pure rooms, and the few that nothing can kill.

This room knows what was asked of the servers that run them, and what they answered. The tests that
must kill need neither Java nor Spark. It does not know what the mutants are about.

A mutant is named by its function and by the lines that it changes, not by a number, which would
shift with every edit. `survivors.toml` lists those that survive, each with the reason why no test
can tell it from the original.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import attrs

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "marshal" / "kafka_marshal"
WORK = ROOT / "build" / "mutants"
PROVED = "make prove-full proves that it does the same."
SURVIVORS = Path(__file__).parent / "survivors.toml"


@attrs.frozen
class Search:
    """Modules that are mutated together, and the tests that must kill their mutants."""

    rooms: Sequence[str]
    """Patterns of files below the package."""
    tests: Sequence[str]
    """Without Java and Spark. The transitions of TLC are among them, sampled."""

    def files(self, only: Sequence[str]) -> list[str]:
        """Below the package: those that may have a function of these patterns; without any, all."""
        paths = [path for room in self.rooms for path in sorted(PACKAGE.glob(room))]
        return [
            str(path.relative_to(PACKAGE))
            for path in paths
            if not only or any(_may_match(path, each) for each in only)
        ]


def _may_match(path: Path, pattern: str) -> bool:
    """Whether a function of the module may be one of the pattern's."""
    module = module_of(path)
    beginning = ".".join(pattern.split(".")[: module.count(".") + 1])
    return fnmatch(module, beginning)


def module_of(path: Path) -> str:
    """As in `core.claims.fenced`."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


_SAMPLED = "test_groups_take_the_steps_of_the_sample_as_the_specification_does"
SEARCHES = (
    Search(
        (
            "core/*.py",
            "core/claims/*.py",
            "core/ranges/*.py",
            "machines/admin/*.py",
            "machines/consumer/*.py",
            "machines/ranges/*.py",
            "machines/share/*.py",
            "client/fetch/buffers.py",
            "client/observe/health.py",
            "client/process/offsets.py",
            "client/process/work_queues.py",
        ),
        (
            "tests/core",
            "tests/machines",
            "tests/client/fetch/test_buffers.py",
            "tests/client/observe/test_health.py",
            "tests/client/process/test_offsets.py",
            "tests/client/process/test_work_queues.py",
            "tests/test_golden.py",
            "tests/test_captures_original.py",
        ),
    ),
    Search(
        (
            "core/groups/events.py",
            "core/groups/guards.py",
            "core/groups/invariants.py",
            "core/groups/reducer.py",
            "core/groups/settling.py",
            "core/groups/state.py",
            "core/groups/transitions.py",
            "core/groups/verdicts.py",
        ),
        (
            "tests/core/groups/test_group_properties.py",
            "tests/core/groups/test_group_stories.py",
            f"model_tests/groups/test_group_edges.py::{_SAMPLED}",
        ),
    ),
    Search(
        ("core/groups/assignment.py",),
        tuple(
            f"tests/core/groups/test_assignment.py::test_{test}"
            for test in (
                "a_release_assigns_as_the_one_before_did",
                "chains_of_moves_are_looked_for_once_where_moves_from_one_to_another_do",
                "nobody_gets_what_nobody_wants_and_a_group_may_be_empty",
                "static_partitions_of_all_leave_a_rest_that_is_shared_evenly",
                "sticky_moves_along_a_chain_where_no_single_move_helps",
                "sticky_moves_as_little_also_in_larger_groups",
                "sticky_moves_nothing_where_wishes_overlap_like_links_of_a_chain",
                "the_same_input_in_any_order_gives_the_same",
            )
        ),
    ),
    Search(
        ("machines/groups/**/*.py",),
        (
            "tests/machines/groups/test_requests.py",
            "tests/machines/groups/test_server.py",
            "tests/machines/groups/test_serving.py",
            "tests/machines/control",
            "tests/machines/membership/test_membership.py",
            *(
                f"model_tests/groups/{test}"
                for test in (
                    "test_controller_edges.py::test_a_controller_does_what_the_specification_does",
                    "test_member_edges.py::test_a_member_does_what_the_specification_does",
                    "test_reader_edges.py::test_a_reader_knows_what_the_specifications_knows",
                )
            ),
        ),
    ),
    Search(("rpc/*.py",), ("tests/rpc",)),
    Search(("group_codec/*.py",), ("tests/group_codec",)),
)
"""What `make mutants` generates: of the modules of the package that are pure."""

KILLED = frozenset({"killed", "timeout"})
NO_TESTS = "no tests"


@attrs.frozen(order=True)
class Change:
    """Which mutant: where it is and which lines it changes."""

    function: str
    """Module and function within the package, as in `core.claims.fenced.is_stale`."""
    was: str
    """The lines as written; empty if the mutant only adds."""
    becomes: str
    """The lines as the mutant has them."""

    @property
    def module(self) -> str:
        """As in `core.claims.fenced`: the longest beginning that is a file of the package."""
        parts = self.function.split(".")
        depth = 1
        while PACKAGE.joinpath(*parts[:depth]).is_dir():
            depth += 1
        return ".".join(parts[:depth])

    @property
    def room(self) -> str:
        """As in `core`."""
        return self.function.split(".")[0]

    def is_in(self, name: str) -> bool:
        """Whether it is in this module, or in this room."""
        return name in (self.module, self.room)


@attrs.frozen
class Mutant:
    """One generated mutant and what became of it."""

    change: Change
    status: str
    """`killed`, `survived`, `timeout`, `no tests`; anything else is a fault of ours."""
    seconds: float = 0.0
    """How long its tests took."""

    @property
    def killed(self) -> bool:
        """Some test failed, or never ended."""
        return self.status in KILLED


@attrs.frozen
class Survivor:
    """A mutant that must survive."""

    change: Change
    equivalent: str
    """Why no test can tell it from the original."""
    proved: bool = False
    """A solver says so: see `proof.mutants`."""


def survivors(path: Path = SURVIVORS) -> tuple[Survivor, ...]:
    """The list, as it is written."""
    tables = tomllib.loads(path.read_text(encoding="utf-8")).get("survivor", [])
    return tuple(
        Survivor(
            Change(table["function"], table.get("was", ""), table.get("becomes", "")),
            PROVED if table.get("proved") else table["equivalent"],
            bool(table.get("proved")),
        )
        for table in tables
    )


def unexplained(mutants: Iterable[Mutant], listed: Iterable[Survivor]) -> list[str]:
    """Sentences about every survivor that is not listed and every one listed that is none.

    A change can occur twice in one function; then as many are listed as survive. A function that no
    test calls is one sentence, however many mutants it has.
    """
    mutants = list(mutants)
    uncalled = Counter(mutant.change.function for mutant in mutants if mutant.status == NO_TESTS)
    alive = Counter(m.change for m in mutants if not m.killed and m.status != NO_TESTS)
    known = Counter(survivor.change for survivor in listed)
    new, gone = (sorted(each.elements()) for each in (alive - known, known - alive))
    return [
        *(f"no test calls {function}: {n} mutants" for function, n in sorted(uncalled.items())),
        *(f"survives, and is not in {SURVIVORS.name}: {in_words(change)}" for change in new),
        *(f"is in {SURVIVORS.name}, and does not survive: {in_words(change)}" for change in gone),
    ]


def in_words(change: Change) -> str:
    """A change on one line."""
    was, becomes = (" ".join(text.split()) for text in (change.was, change.becomes))
    return f"{change.function}: {was or '(nothing)'}  ->  {becomes or '(nothing)'}"


def run(
    only: Sequence[str] = (),
    children: int | None = None,
    work: Path = WORK,
    searches: Sequence[Search] = SEARCHES,
) -> tuple[Mutant, ...]:
    """Make every mutant, run the tests on each, and say what became of it.

    `only` are patterns of functions, as `core.claims.fenced.*`; without any, all. `children` are
    run at a time; by default one for each core. Raises RuntimeError if a test fails without a
    mutant.
    """
    shutil.rmtree(work, ignore_errors=True)
    asked = [(work / str(n), each) for n, each in enumerate(searches) if each.files(only)]
    for folder, search in asked:
        _served(folder, search, only, children or os.cpu_count() or 1)
    return tuple(mutant for folder, _ in asked for mutant in results(folder))


def _served(folder: Path, search: Search, only: Sequence[str], children: int) -> None:
    """Have a server run one search. Raises RuntimeError if a test fails without a mutant."""
    folder.mkdir(parents=True)
    asked = {
        "rooms": search.files(only),
        "tests": [test for test in search.tests if (ROOT / test.partition("::")[0]).exists()],
        "only": list(only),
        "children": children,
    }
    (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    log = folder / "server.log"
    with log.open("w", encoding="utf-8") as output:
        ran = subprocess.run(
            [sys.executable, "-m", "model_tests.mutants.server", str(folder)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "marshal")},
            stdout=output,
            stderr=output,
            check=False,
        )
    wrong = folder / "wrong.txt"
    if ran.returncode != 0 or wrong.exists():
        end = wrong if wrong.exists() else log
        said = end.read_text(encoding="utf-8", errors="replace").splitlines()
        raise RuntimeError("\n".join([f"the server ended with {ran.returncode}:", *said[-30:]]))


def results(folder: Path) -> Iterator[Mutant]:
    """What the server has written down in the folder so far, mutant by mutant."""
    for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        change = change_of(told["function"], told["was"], told["becomes"])
        yield Mutant(change, told["status"], told["seconds"])


def change_of(function: str, original: list[str], mutated: list[str]) -> Change:
    """The lines in which two functions differ, below their names."""
    was, becomes = [], []
    for line in difflib.ndiff(original[1:], mutated[1:]):
        if line.startswith("- "):
            was.append(line[2:].strip())
        elif line.startswith("+ "):
            becomes.append(line[2:].strip())
    return Change(function, "\n".join(was), "\n".join(becomes))
