"""Marshal promises that the tests that take longest start first, and that no verdict is of time."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import cast

import attrs
import model_tests.conftest
import pytest
from conftest import LONGEST, PARTS, ROOT, SHARED, Together, groups
from hypothesis import settings
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


HANGS = """
import threading

def test_before(): pass
def test_hangs(): threading.Event().wait()
def test_after(): pass
"""


def test_a_test_that_hangs_fails_by_name_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(HANGS)
    (tmp_path / "test_two.py").write_text("def test_two(): pass")
    command = [*(sys.executable, "-m", "pytest", "-n", "2", "-c", "pyproject.toml")]
    command += [*("-p", "conftest", "-o", "faulthandler_timeout=1", str(tmp_path))]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert "in test_hangs" in ran.stderr, "the stack of the thread that hangs"
    assert "while running" in ran.stdout
    assert "test_one.py::test_hangs" in ran.stdout
    assert "1 failed, 3 passed" in ran.stdout
