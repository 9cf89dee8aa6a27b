"""How the tests are spread over six processes: `make test` runs `pytest -n 6`, since many wait.

What is dear to start (a Spark session, a broker, what TLC exported) is started in one process only:
each file goes to one, and files whose tests take the same such fixture go to the same, or are dealt
to as many as `PARTS` says. (`--dist loadgroup` would do, but its marks have no effect with the
pytest that is locked here.)
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import logging
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from _pytest.doctest import DoctestModule
from xdist.scheduler import LoadScopeScheduling

from kafka_marshal.scratch import Scratch

# The tests start hundreds of Pythons. Where an environment forbids them to keep what they compiled,
# each one compiles the package again, and each of the six processes rewrites all assertions.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

pytest_plugins = ["tools.costs"]

ROOT = Path(__file__).parent
SHARED = {
    "exports": "tlc",
    "spark": "spark",
    "kafka_cluster": "cluster",
    "kafka_broker": "kafka",
}
"""Fixtures that are dear to start, and the group of the files whose tests take one.

A file that takes several is in the group of the first.
"""

SERVERS = ("kafka_cluster", "kafka_broker")
"""Those of them that run beside the tests: an idle broker takes a twentieth of a core."""

PARTS = {"kafka": 2}
"""Into how many processes the files of a group go, in turn; each has a fixture of its own.

Tests of a broker mostly wait, one after the other. In one process they would end long after the
others. A second broker costs four seconds.
"""

LONGEST = (
    "spark",
    "kafka-1",
    "kafka-2",
    "tlc",
    "cluster",
    "tests/client/fleet/test_by_seed.py",
    "tests/client/connect/test_security.py",
    "tests/replay/fold/test_run_length.py",
    "tests/replay/fold/test_joined_runs.py",
    "tests/machines/ranges/test_fleet.py",
    "tests/replay/sources/test_bombs.py",
    "tests/replay/fold/test_steady_claims.py",
    "tests/client/connect/test_permissions.py",
    "model_tests/test_walks.py",
    "model_tests/edges/test_admin_edges.py",
    "tests/tools/test_night.py",
    "tests/cli/test_replay.py",
    "model_tests/graphs/test_models.py",
    "model_tests/edges/test_consumer_edges.py",
    "model_tests/graphs/test_equal_graphs.py",
    "tests/broker/test_guard.py",
    "model_tests/participant/test_participant_edges.py",
    "tests/docs/test_tutorial_page.py",
    "tests/core/groups/test_assignment.py",
    "tests/tools/chaos/test_clocks.py",
    "model_tests/ranges/test_deliveries.py",
    "model_tests/ranges/test_range_edges.py",
    "model_tests/test_trace_spec.py",
    "tests/tools/test_fuzz.py",
)
"""Groups that take longest, so they start first: at the end no process works alone.

The others start by their number of tests, so a file of one long test would start last.
"""


GROUPS_IN = pytest.StashKey[Scratch]()
GROUPS = pytest.StashKey[dict[str, str]]()
STARTED = pytest.StashKey[list[Callable[[], None]]]()
LOG_LEVELS = pytest.StashKey[list[int]]()
HANDLERS = pytest.StashKey[Any]()


def groups(items: Iterable[pytest.Item]) -> dict[str, str]:
    """The group of each file: what its tests share; the file itself, if nothing."""
    taken: dict[str, set[str]] = defaultdict(set)
    for item in items:
        taken[file_of(item.nodeid)] |= {*getattr(item, "fixturenames", ())}
    found = {
        file: next((group for fixture, group in SHARED.items() if fixture in fixtures), file)
        for file, fixtures in taken.items()
    }
    for group, parts in PARTS.items():
        files = [file for file in found if found[file] == group]
        found |= {file: f"{group}-{number % parts + 1}" for number, file in enumerate(files)}
    return found


def file_of(nodeid: str) -> str:
    """The file that a test is in."""
    return nodeid.partition("::")[0]


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Tests of one group run in one process, in their order."""

    @functools.cached_property
    def _groups(self) -> dict[str, str]:
        """As a process that collected the tests wrote them; this one sees their names alone."""
        groups: dict[str, str] = json.loads(groups_file(self.config).read_text(encoding="utf-8"))
        return groups

    def _split_scope(self, nodeid: str) -> str:
        return self._groups[file_of(nodeid)]

    def _assign_work_unit(self, node: Any) -> None:
        """Give a process the next group: of `LONGEST`, or the one with most tests."""
        ranks = {group: rank for rank, group in enumerate(LONGEST)}
        longest = min(self.workqueue, key=lambda group: ranks.get(group, len(ranks)))
        self.workqueue.move_to_end(longest, last=False)
        for nodeid in self._ended & self.workqueue[longest].keys():
            self.workqueue[longest][nodeid] = True
        super()._assign_work_unit(node)

    @functools.cached_property
    def _ended(self) -> set[str]:
        """Tests that ended their process: by a crash, or since they hung."""
        return set()

    def remove_node(self, node: Any) -> str | None:
        """Take a process off that has ended. Its test has failed and is not run again."""
        units = self.assigned_work[node].values()
        running = [nodeid for unit in units for nodeid, done in unit.items() if not done]
        self._ended.update(running[:1])
        return cast("str | None", super().remove_node(node))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Spread the tests so."""
    return Together(config, log)


def groups_file(config: pytest.Config) -> Path:
    """Where the groups are written, in a folder that goes with the run."""
    if GROUPS_IN not in config.stash:
        config.stash[GROUPS_IN] = Scratch("groups")
        config.add_cleanup(config.stash[GROUPS_IN].close)
    return config.stash[GROUPS_IN].path / "groups.json"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Name the file to the processes. All collect the same, so the first one writes it."""
    if node.workerinput["workerid"] == "gw0":
        node.workerinput["groups"] = str(groups_file(node.config))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for doctests in files that have some: each process imports and reads what is left."""
    collectors = yield
    if file_path.suffix == ".py" and b">>>" not in file_path.read_bytes():
        return [each for each in collectors if not isinstance(each, DoctestModule)]
    return collectors


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """What is imported and collected lives to the end, so nobody looks for garbage in it."""
    gc.disable()
    import_share(session.config)


def import_share(config: pytest.Config) -> None:
    """Import every sixth file of tests before the others, each process another sixth.

    In the end all import all. In the same order each would compile what the others are compiling:
    in a fresh clone 70 CPU seconds, and not 38.
    """
    given = getattr(config, "workerinput", None)
    if given is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    files = sorted(file for path in config.args for file in Path(ROOT, path).rglob("test_*.py"))
    for file in files[int(given["workerid"][2:]) :: given["workercount"]]:
        with contextlib.suppress(Exception):  # the collection reports it
            importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Look for garbage in what the tests make, and in that alone."""
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--all`: the tests of the night, too."""
    parser.addoption("--all", action="store_true", help="also what is marked with `night`")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the night, and write the groups of the others.

    Which fixtures a test takes is known where it is collected.
    """
    if not config.getoption("all"):
        night = [item for item in items if item.get_closest_marker("night")]
        items[:] = [item for item in items if not item.get_closest_marker("night")]
        config.hook.pytest_deselected(items=night)
    given = getattr(config, "workerinput", None)
    if given is not None:
        config.stash[GROUPS] = groups(items)
        if "groups" in given:
            text = json.dumps(config.stash[GROUPS])
            Path(given["groups"]).write_text(text, encoding="utf-8")


def log_levels() -> list[int]:
    """Which lines somebody wants, by the loggers that tests set."""
    return [logging.getLogger(name).level for name in ("", "kafka_marshal")]


HANDLED = (signal.SIGINT, signal.SIGTERM)


def handlers() -> list[Any]:
    """Who handles signals that end a process."""
    return [signal.getsignal(number) for number in HANDLED]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note the levels of loggers, and who handles signals, before a test."""
    item.stash[LOG_LEVELS], item.stash[HANDLERS] = log_levels(), handlers()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: Any) -> None:
    """Note how a broker ends."""
    if fixturedef.argname in SERVERS:
        ends = functools.partial(fixturedef.finish, request)
        request.config.stash.setdefault(STARTED, []).append(ends)


def end_servers(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the brokers of a group after its last test: the process goes on with other groups."""
    of = item.config.stash.get(GROUPS, None)
    if of is None or nextitem is None or of[file_of(item.nodeid)] == of[file_of(nextitem.nodeid)]:
        return
    started = item.config.stash.get(STARTED, [])
    while started:
        started.pop()()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A test leaves the levels of loggers as they were: a run that a seed repeats depends on them.

    Fixtures of a module, such as a Spark session, may set them: they last longer.

    A command that ran in this process may have left a handler of SIGTERM. A child that is forked
    later would not die of it, and its pool would wait for ever.
    """
    for number, handler in zip(HANDLED, item.stash[HANDLERS], strict=True):
        signal.signal(number, handler)
    end_servers(item, nextitem)
    before, after = item.stash[LOG_LEVELS], log_levels()
    assert before == after, f"{item.nodeid} leaves the levels of loggers {after}, not {before}"
