"""Runs the tests against mutants: imported and collected once, then a forked child for each mutant.

A child runs only the tests that reach the statement which is changed: first those that killed most
mutants of the same function, then the quick ones, until one fails. This room knows pytest, coverage
and in which order tests are run. It does not know which mutants may survive.

A script: `python -m model_tests.mutants.server FOLDER`, with `asked.json` in the folder, where it
writes `results.jsonl`, a line for each mutant as it ends, and `wrong.txt` if there is no beginning.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pickle
import selectors
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType, FunctionType, ModuleType

import attrs
import coverage
import pytest
from _pytest.runner import runtestprotocol

from model_tests.mutants import children, operators
from model_tests.mutants.operators import Made

PACKAGE = "kafka_marshal"
READ_FIRST = ("tests.triples", "tests.machine_samples")
"""Modules that keep what they read of a file: it is read once, and not by every child."""
SLOWER = 10.0
"""A test may take this many times the CPU time that it took without a mutant, and `GRACE_S`."""
GRACE_S = 1.0
STANDS_STILL_S = 120.0
"""After this time, and four times what it may compute, a child waits for what never comes."""
PYTEST = (
    *("-q", "-s", "--tb=no", "--assert=plain", "-p", "no:cacheprovider"),
    *("--hypothesis-profile=mutants", "-o", "addopts=--import-mode=importlib"),
)
OUT, WRONG = "results.jsonl", "wrong.txt"


@attrs.frozen
class Asked:
    """What the server is asked for."""

    rooms: list[str]
    """Patterns of files below the package, as `core/*.py`."""
    tests: list[str]
    only: list[str]
    """Patterns of functions, as `core.claims.fenced.*`; without any, all."""
    children: int
    """Mutants at a time."""


@attrs.frozen
class Clean:
    """What the tests do without a mutant."""

    seconds: list[float]
    """CPU time of each test, traced."""
    reached: dict[str, dict[int, list[int]]]
    """By file and line: the tests that ran it."""


@attrs.frozen
class Running:
    """A child at work."""

    made: Made
    until_s: float
    began_s: float
    said: bytearray


class Server:
    """A pytest plugin that runs mutants where pytest would run the tests that it collected."""

    def __init__(self, asked: Asked, folder: Path) -> None:
        self.asked = asked
        self.folder = folder
        self.items: list[pytest.Item] = []
        self.clean = Clean([], {})
        self.kills: dict[str, Counter[int]] = defaultdict(Counter)
        """By function: how many of its mutants each test killed."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find out which test reaches what, then run the mutants of one module after the other."""
        self.items = session.items
        modules = [module for room in self.asked.rooms for module in modules_of(room)]
        for name in READ_FIRST:
            if name in sys.modules:
                sys.modules[name].read()
        files = [file_of(module) for module in modules]
        functions = children.functions_of(set(files))
        gc.collect()
        gc.freeze()
        clean = children.in_child(lambda: self._without_mutant(files))
        if isinstance(clean, str):
            (self.folder / WRONG).write_text(f"without any mutant {clean} fails", encoding="utf-8")
            return True
        self.clean = clean
        with (self.folder / OUT).open("w", encoding="utf-8") as out:
            for module, file in zip(modules, files, strict=True):
                name = module.__name__.removeprefix(f"{PACKAGE}.")
                for result in self._of_file(name, file, functions):
                    print(json.dumps(result), file=out, flush=True)
        return True

    def _without_mutant(self, files: Sequence[str]) -> Clean | str:
        """Run every test once; the name of the first that fails."""
        cover = coverage.Coverage(data_file=None, include=list(files), config_file=False)
        seconds = []
        cover.start()
        for number, item in enumerate(self.items):
            cover.switch_context(str(number))
            began = time.process_time()
            if failed(item, next(iter(self.items[number + 1 :]), None)):
                return item.nodeid
            seconds.append(time.process_time() - began)
        cover.stop()
        data = cover.get_data()
        reached = {
            file: {
                line: [int(number) for number in contexts if number]
                for line, contexts in data.contexts_by_lineno(file).items()
            }
            for file in files
        }
        return Clean(seconds, reached)

    def _of_file(
        self, name: str, file: str, functions: dict[tuple[str, str, int], list[FunctionType]]
    ) -> Iterator[dict[str, object]]:
        """What became of the mutants of a file, as `results.jsonl` says it."""
        running: dict[int, Running] = {}
        with selectors.DefaultSelector() as pipes:
            for made in operators.mutants(Path(file)):
                function = f"{name}.{made.function}"
                if self.asked.only and not any(fnmatch(function, each) for each in self.asked.only):
                    continue
                tests = self._tests(name, file, made)
                if not tests:
                    yield told(name, made, "no tests")
                    continue
                while len(running) >= self.asked.children:
                    yield from self._ended(name, pipes, running)
                targets = functions[file, made.function, made.first_line]
                began = time.monotonic()
                pid, pipe = self._forked(made, file, targets, tests)
                until = began + STANDS_STILL_S + 4 * sum(self._allowed_s(each) for each in tests)
                running[pid] = Running(made, until, began, bytearray())
                pipes.register(pipe, selectors.EVENT_READ, pid)
            while running:
                yield from self._ended(name, pipes, running)

    def _tests(self, name: str, file: str, made: Made) -> list[int]:
        """Those that reach the statement, in their order; the function, if it leaves no trace."""
        reached = self.clean.reached[file]
        for lines in (made.statement, made.lines):
            if tests := {test for line in lines for test in reached.get(line, ())}:
                kills, seconds = self.kills[f"{name}.{made.function}"], self.clean.seconds
                return sorted(tests, key=lambda test: (-kills[test], seconds[test], test))
        return []

    def _allowed_s(self, test: int) -> float:
        return SLOWER * self.clean.seconds[test] + GRACE_S

    def _forked(
        self, made: Made, file: str, targets: Sequence[FunctionType], tests: Sequence[int]
    ) -> tuple[int, int]:
        """A child that writes into a pipe what became of the mutant; its id, and the pipe."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            return pid, reading

        def end(status: str, test: int | None = None) -> None:
            os.write(writing, pickle.dumps((status, test)))
            os._exit(0)

        try:
            children.limited(sum(map(self._allowed_s, tests)))
            children.mutate(made, file, targets)
        except BaseException as error:
            end(f"not made: {error!r}")
        for at, test in enumerate(tests):

            def too_long(_: int, __: FrameType | None, test: int = test) -> None:
                end("timeout", test)

            signal.signal(signal.SIGPROF, too_long)
            signal.setitimer(signal.ITIMER_PROF, self._allowed_s(test))
            following = next((self.items[number] for number in tests[at + 1 :]), None)
            try:
                ended_well = not failed(self.items[test], following)
            except BaseException:  # whatever ends a run of tests is noticed
                ended_well = False
            if not ended_well:
                end("killed", test)
        end("survived")
        raise AssertionError

    def _ended(
        self, name: str, pipes: selectors.BaseSelector, running: dict[int, Running]
    ) -> Iterator[dict[str, object]]:
        """Wait a moment; what became of the children that have ended."""
        for key, _ in pipes.select(1.0):
            child = running[key.data]
            part = os.read(key.fd, 65536)
            child.said.extend(part)
            if not part:
                pipes.unregister(key.fd)
                os.close(key.fd)
                os.waitpid(key.data, 0)
                del running[key.data]
                yield self._judged(name, child)
        for pid, child in running.items():
            if time.monotonic() > child.until_s:
                os.kill(pid, signal.SIGKILL)

    def _judged(self, name: str, child: Running) -> dict[str, object]:
        """What a child has reported. One that tells nothing was ended, by the kernel or by us."""
        status, test = pickle.loads(child.said) if child.said else ("timeout", None)
        by = ""
        if test is not None:
            self.kills[f"{name}.{child.made.function}"][test] += status == "killed"
            by = self.items[test].nodeid
        return told(name, child.made, status, by, time.monotonic() - child.began_s)


def told(
    name: str, made: Made, status: str, by: str = "", seconds: float = 0.0
) -> dict[str, object]:
    """A line of the results."""
    was, becomes = made.texts()
    return {
        "function": f"{name}.{made.function}",
        "was": was,
        "becomes": becomes,
        "status": status,
        "by": by,
        "seconds": round(seconds, 3),
    }


def failed(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Run a test; whether its set-up, its call or its end failed."""
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def modules_of(room: str) -> Iterator[ModuleType]:
    """The modules of a room, imported."""
    package = Path(file_of(importlib.import_module(PACKAGE))).parent
    for path in sorted(package.glob(room)):
        inside = path.relative_to(package.parent).with_suffix("")
        yield importlib.import_module(".".join(inside.parts).removesuffix(".__init__"))


def file_of(module: ModuleType) -> str:
    """Where a module is."""
    assert module.__file__ is not None
    return module.__file__


def main() -> int:
    """The exit code of pytest: 0 also if mutants survive."""
    folder = Path(sys.argv[1])
    asked = Asked(**json.loads((folder / "asked.json").read_text(encoding="utf-8")))
    words = [*PYTEST, f"--basetemp={folder / 'tmp'}", *asked.tests]
    return int(pytest.main(words, plugins=[Server(asked, folder)]))


if __name__ == "__main__":
    sys.exit(main())
