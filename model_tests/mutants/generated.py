"""Mutants that mutmut generates of the pure rooms, and the few that nothing can kill.

This room knows how mutmut is run: in a copy of the package, of the tests that need neither Java nor
Spark, and of nothing else, so a run cannot hurt the checkout and others may edit meanwhile. It does
not know what the mutants are about.

A mutant is named by its function and by the lines that it changes, not by mutmut's number, which
shifts with every edit. `survivors.toml` lists those that survive, each with the reason why no test
can tell it from the original.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs
import libcst as cst

ROOT = Path(__file__).parent.parent.parent
WORK = ROOT / "build" / "mutants"
SURVIVORS = Path(__file__).parent / "survivors.toml"

ROOMS = ("core/*.py", "client/*.py")
"""What is mutated: the modules of the package that are pure."""
TESTS = ("tests/core", "tests/client", "tests/test_golden.py", "tests/test_captures_original.py")
"""What must kill: tests without Java and Spark. The transitions of TLC are among them, sampled."""

SETTINGS = """\
[tool.mutmut]
source_paths = ["src"]
only_mutate = {only}
also_copy = ["tests"]
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = ["--hypothesis-profile=mutants", "-p", "no:cacheprovider"]
use_git_change_detection = false

[tool.pytest.ini_options]
addopts = ["--import-mode=importlib"]
"""

KILLED = frozenset({"killed", "timeout", "segfault"})
NO_TESTS = "no tests"
NOT_DECORATORS = frozenset({"staticmethod", "classmethod", "overload"})


@attrs.frozen(order=True)
class Change:
    """Which mutant: where it is and which lines it changes."""

    function: str
    """Module and function within the package, as in `core.fenced.is_stale`."""
    was: str
    """The lines as written; empty if the mutant only adds."""
    becomes: str
    """The lines as the mutant has them."""

    @property
    def module(self) -> str:
        """As in `core.fenced`."""
        return ".".join(self.function.split(".")[:2])

    @property
    def room(self) -> str:
        """As in `core`."""
        return self.function.split(".")[0]

    def is_in(self, name: str) -> bool:
        """Whether it is in this module, or in this room."""
        return name in (self.module, self.room)


@attrs.frozen
class Mutant:
    """One mutant of mutmut's and what became of it."""

    change: Change
    status: str
    """mutmut's word: `killed`, `survived`, `timeout`, `no tests` ..."""

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


def survivors(path: Path = SURVIVORS) -> tuple[Survivor, ...]:
    """The list, as it is written."""
    tables = tomllib.loads(path.read_text(encoding="utf-8")).get("survivor", [])
    return tuple(
        Survivor(
            Change(table["function"], table.get("was", ""), table.get("becomes", "")),
            table["equivalent"],
        )
        for table in tables
    )


def unexplained(mutants: Iterable[Mutant], listed: Iterable[Survivor]) -> list[str]:
    """Sentences about every survivor that is not listed and every one listed that is none.

    A change can occur twice in one function; then as many are listed as survive. A function that no
    test calls is one sentence, whatever mutmut made of it.
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
    rooms: Sequence[str] = ROOMS,
    tests: Sequence[str] = TESTS,
) -> tuple[Mutant, ...]:
    """Make every mutant, run the tests on each, and say what became of it.

    `only` are patterns of mutmut's names, as `kafka_marshal.core.fenced*`; without any, all. Raises
    RuntimeError if mutmut did not come to an end.
    """
    copy(work, rooms, tests)
    command = [sys.executable, str(Path(__file__).parent / "operators.py"), "run"]
    command += ["--max-children", str(children or os.cpu_count() or 1), *only]
    log = work / "mutmut.log"
    with log.open("w", encoding="utf-8") as output:
        ran = subprocess.run(command, cwd=work, stdout=output, stderr=output, check=False)
    if ran.returncode != 0:
        said = log.read_text(encoding="utf-8", errors="replace").replace("\r", "\n").splitlines()
        end = "\n".join(said[-30:])
        raise RuntimeError(f"mutmut ended with {ran.returncode}; the end of {log}:\n{end}")
    made = results(work)
    return tuple(mutant for mutant in made if not only or mutant.status != "not checked")


def copy(work: Path, rooms: Sequence[str], tests: Sequence[str]) -> None:
    """Lay out what mutmut wants: `src/`, the tests, and its settings with those that must kill."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    package = ROOT / "marshal" / "kafka_marshal"
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, work / "src" / "kafka_marshal", ignore=skip)
    shutil.copytree(ROOT / "tests", work / "tests", ignore=skip)
    for room in rooms:
        for path in (work / "src" / "kafka_marshal").glob(room):
            path.write_text(undecorated(path.read_text(encoding="utf-8")), encoding="utf-8")
    settings = SETTINGS.format(
        only=json.dumps([f"src/kafka_marshal/{room}" for room in rooms]),
        tests=json.dumps([test for test in tests if (ROOT / test).exists()]),
    )
    (work / "pyproject.toml").write_text(settings, encoding="utf-8")


def undecorated(source: str) -> str:
    """The same module with `@d` above `def f` written as `f = d(f)` below it.

    mutmut leaves decorated functions alone, and with them every property of a class.

    >>> print(undecorated("class C:\\n    @property\\n    def f(self): return 1\\n"))
    class C:
        def f(self): return 1
        f = property(f)
    <BLANKLINE>
    """
    return cst.parse_module(source).visit(_Undecorate()).code


class _Undecorate(cst.CSTTransformer):
    def leave_FunctionDef(  # noqa: N802  libcst's name
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        decorators = [each.decorator for each in updated_node.decorators]
        if any(isinstance(d, cst.Name) and d.value in NOT_DECORATORS for d in decorators):
            return updated_node
        value: cst.BaseExpression = updated_node.name
        for decorator in reversed(decorators):
            value = cst.Call(decorator, [cst.Arg(value)])
        if not decorators:
            return updated_node
        again = cst.Assign([cst.AssignTarget(updated_node.name)], value)
        return cst.FlattenSentinel(
            [updated_node.with_changes(decorators=[]), cst.SimpleStatementLine([again])]
        )


def results(work: Path) -> Iterator[Mutant]:
    """What mutmut wrote down in `work`, mutant by mutant."""
    from mutmut.stats import status_by_exit_code

    for path in sorted((work / "mutants").rglob("*.py.meta")):
        exit_codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
        functions = _functions(path.with_suffix("").read_text(encoding="utf-8"))
        for name, exit_code in exit_codes.items():
            module, _, generated = name.rpartition(".")
            mangled = generated.partition("__mutmut_")[0]
            yield Mutant(
                change=_change(
                    f"{module.removeprefix('kafka_marshal.')}.{_function(mangled)}",
                    functions[f"{mangled}__mutmut_orig"],
                    functions[generated],
                ),
                status=status_by_exit_code[exit_code],
            )


def _function(mangled: str) -> str:
    """mutmut's `x_step` is `step`, and its `xǁClaimǁpaused` is `Claim.paused`."""
    return mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")


def _functions(source: str) -> dict[str, list[str]]:
    """The lines of every function of a module, by name."""
    lines = source.splitlines()
    return {
        node.name: lines[node.lineno - 1 : node.end_lineno]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _change(function: str, original: list[str], mutated: list[str]) -> Change:
    """The lines in which two functions differ, below their names."""
    was, becomes = [], []
    for line in difflib.ndiff(original[1:], mutated[1:]):
        if line.startswith("- "):
            was.append(line[2:].strip())
        elif line.startswith("+ "):
            becomes.append(line[2:].strip())
    return Change(function, "\n".join(was), "\n".join(becomes))
