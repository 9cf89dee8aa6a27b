"""Marshal promises that the tests that take longest start first, and that no verdict is of time.

And that the summary of a run counts each CPU second of a test once.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections import OrderedDict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import model_tests.conftest
import pytest
from conftest import (
    GROUPS,
    LONGEST,
    PARTS,
    ROOT,
    SERVERS,
    SHARED,
    STARTED,
    Together,
    end_servers,
    groups,
    import_share,
)
from hypothesis import settings
from tools.costs import Meter, Process, descendants, folder_of, processes, spent, summary
from xdist.scheduler import LoadScopeScheduling

import tests.conftest
import tests.replay.conftest


def test_no_example_of_hypothesis_has_a_deadline() -> None:
    """A machine that stood still for 0.2 s failed a test."""
    assert settings.default is not None
    assert settings.default.deadline is None


def test_every_group_that_takes_long_is_there() -> None:
    shared = {*SHARED.values()} - {*PARTS}
    dealt = {f"{group}-{number + 1}" for group, parts in PARTS.items() for number in range(parts)}
    for group in LONGEST:
        assert group in shared | dealt or (ROOT / group).is_file(), group
    assert dealt <= {*LONGEST}


@attrs.frozen
class Collected:
    """A test, as far as groups go."""

    nodeid: str
    fixturenames: tuple[str, ...] = ()


def test_files_whose_tests_take_the_same_fixture_are_one_group() -> None:
    """Also where a fixture of their own takes it for them, and whatever the file's text says."""
    items = [
        Collected("a.py::test_one", ("tmp_path",)),
        Collected("a.py::test_two", ("crew", "kafka_cluster")),
        Collected("b.py::Some::test_one[kafka]", ("kafka_cluster", "request")),
        Collected("c.py::test_kafka_cluster_is_a_word"),
        Collected("d.py::test_one", ("kafka_cluster", "spark")),
    ]
    assert groups(cast("list[pytest.Item]", items)) == {
        **{"a.py": "cluster", "b.py": "cluster"},
        **{"c.py": "c.py", "d.py": "spark"},
    }


def test_files_whose_tests_wait_for_a_broker_are_dealt_to_several_processes() -> None:
    items = [Collected(f"{name}.py::test_{n}", ("kafka_broker",)) for name in "abcd" for n in "12"]
    assert groups(cast("list[pytest.Item]", items)) == {
        **{"a.py": "kafka-1", "b.py": "kafka-2", "c.py": "kafka-1", "d.py": "kafka-2"}
    }


@pytest.mark.parametrize(
    ("next_file", "ended"), [("one.py", 0), ("two.py", 0), ("three.py", 2), (None, 0)]
)
def test_brokers_end_with_the_last_test_of_their_group(next_file: str | None, ended: int) -> None:
    found: list[str] = []
    stash = {
        GROUPS: {"one.py": "kafka-1", "two.py": "kafka-1", "three.py": "three.py"},
        STARTED: [partial(found.append, name) for name in SERVERS],
    }
    item, following = (
        SimpleNamespace(nodeid=f"{file}::test_one", config=SimpleNamespace(stash=stash))
        for file in ("one.py", next_file)
    )
    end_servers(cast("Any", item), cast("Any", following if next_file else None))
    assert len(found) == ended
    assert {*SERVERS} <= SHARED.keys()


def test_every_shared_fixture_is_there() -> None:
    """One that got another name would have no group, and be started in every process."""
    rooms = (tests.conftest, tests.replay.conftest, model_tests.conftest)
    assert [name for name in SHARED if not any(hasattr(room, name) for room in rooms)] == []


def test_a_process_gets_what_takes_longest_and_then_what_has_most_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many, few, *long = "tests/many.py", "tests/few.py", *reversed(LONGEST)
    spread = object.__new__(Together)
    spread.workqueue = OrderedDict((group, {}) for group in (many, *long, few))
    given: list[str] = []

    def assigned(self: Together, node: object) -> None:
        given.append(self.workqueue.popitem(last=False)[0])

    monkeypatch.setattr(LoadScopeScheduling, "_assign_work_unit", assigned)
    while spread.workqueue:
        spread._assign_work_unit("node")
    assert given == [*LONGEST, many, few]


def test_each_process_begins_with_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """And all of them together compile every file of tests."""
    imported: list[str] = []
    monkeypatch.setattr(importlib, "import_module", imported.append)
    for number in range(5):
        config = SimpleNamespace(
            workerinput={"workerid": f"gw{number}", "workercount": 5},
            args_source=pytest.Config.ArgsSource.TESTPATHS,
            args=["tests", "proof"],
        )
        import_share(cast("pytest.Config", config))
    assert len(imported) == len({*imported}) > 300
    assert {__name__, "proof.test_proof"} <= {*imported}
    alone = SimpleNamespace(args_source=pytest.Config.ArgsSource.TESTPATHS, args=["tests"])
    import_share(cast("pytest.Config", alone))
    assert len(imported) == len({*imported}), "one process compiles each file once in any order"


HANGS = """
import threading

def test_before(): pass
def test_hangs(): threading.Event().wait()
def test_after(): pass
"""


@pytest.mark.night  # It starts six processes.
def test_a_test_that_hangs_fails_by_name_and_the_others_run(tmp_path: Path) -> None:
    """And the process that prints hears what each of these cost."""
    (tmp_path / "test_one.py").write_text(HANGS)
    (tmp_path / "test_two.py").write_text("def test_two(): pass")
    command = [*(sys.executable, "-m", "pytest", "-n", "2", "-c", "pyproject.toml")]
    command += [*("-p", "conftest", "-o", "faulthandler_timeout=1", str(tmp_path))]
    command += ["--costs", str(tmp_path / "costs.tsv")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert "in test_hangs" in ran.stderr, "the stack of the thread that hangs"
    assert "while running" in ran.stdout
    assert "test_one.py::test_hangs" in ran.stdout
    assert "1 failed, 3 passed" in ran.stdout
    rows = [row.split("\t") for row in (tmp_path / "costs.tsv").read_text().splitlines()]
    costs = {test.partition("::")[2]: float(cpu_s) for cpu_s, test in rows}
    assert costs.keys() >= {"test_before", "test_after", "test_two"}
    assert costs[""] > 0, "collection"


def test_what_childrens_children_spent_is_measured() -> None:
    spins = "import time\nwhile time.process_time() < 0.25: pass"
    starts = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    meter = Meter()
    meter.read()
    subprocess.run([sys.executable, "-c", starts, spins], check=True)
    assert meter.read() >= 0.25


def test_a_child_that_ends_right_after_a_look_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spins = "import time\nwhile time.process_time() < 0.25: pass\nprint(flush=True)\ninput()"
    meter = Meter()
    meter.read()
    command, pipe = [sys.executable, "-c", spins], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        child.stdout.readline()
        monkeypatch.setattr("tools.costs.LOOK_FROM_S", 0.0)
        assert meter.read() >= 0.2
        monkeypatch.setattr("tools.costs.LOOK_FROM_S", 60.0)
        child.communicate(b"\n")
    assert meter.read() < 0.2


PROCESS = 10
SHELL, BROKER, STRANGER = (11, 1), (12, 2), (99, 3)


def test_descendants_are_children_of_children() -> None:
    running = {11: Process(PROCESS, 1, 0), 12: Process(11, 2, 0), 99: Process(1, 3, 0)}
    assert descendants(PROCESS, [], running).keys() == {SHELL, BROKER}


def test_an_orphan_that_was_known_is_followed_with_its_children() -> None:
    running = {12: Process(1, 2, 0), 13: Process(12, 5, 0), 99: Process(1, 3, 0)}
    assert descendants(PROCESS, [SHELL, BROKER], running).keys() == {BROKER, (13, 5)}


def test_another_process_of_the_same_number_is_a_stranger() -> None:
    assert descendants(PROCESS, [BROKER], {12: Process(1, 7, 0)}) == {}


def test_what_lives_has_spent_what_it_has_more() -> None:
    before = {BROKER: Process(PROCESS, 2, 3.0)}
    now = {BROKER: Process(PROCESS, 2, 4.5), SHELL: Process(PROCESS, 1, 0.25)}
    assert spent(before, now, PROCESS) == 1.75


def test_what_was_counted_of_a_child_is_not_counted_again_when_it_is_reaped() -> None:
    """Its parent's time, here the root's, has all of it."""
    assert spent({SHELL: Process(PROCESS, 1, 3.0)}, {}, PROCESS) == -3.0


def test_what_was_counted_of_an_orphan_that_ended_stays_counted() -> None:
    assert spent({BROKER: Process(1, 2, 3.0)}, {}, PROCESS) == 0.0


def test_a_folder_above_what_it_may_cost_is_marked() -> None:
    costs = {"tests/a/test_b.py::test_c": 4.0, "tests/d/e/test_f.py::test_g": 2.0}
    lines = summary(costs, {"tests/a": 3.0, "tests/d": 2.5})
    assert [line.strip() for line in lines if "::" not in line] == [
        "4.0  tests/a  ABOVE 3",
        "2.0  tests/d",
    ]
    assert folder_of("test_here.py::test_a") == "test_here.py"


def test_a_process_has_spent_what_its_reaped_children_have() -> None:
    spins = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", spins], check=True)
    before = sum(os.times()[:4])
    cpu_s = processes()[os.getpid()].cpu_s
    after = sum(os.times()[:4])
    ticks = 4 / os.sysconf("SC_CLK_TCK")
    assert before - ticks <= cpu_s <= after + ticks
