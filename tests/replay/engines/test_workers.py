"""Processes that share one work: what they return, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.replay.engines.workers import Workers
from kafka_marshal.replay.errors import ReplayError
from kafka_marshal.scratch import temporary_folder
from tests.replay.engines.works import Work


@pytest.fixture(params=[False, True], ids=["started", "forked"])
def forked(request: pytest.FixtureRequest) -> bool:
    """Whether the others are copies of the starter."""
    return bool(request.param)


def until(holds: Callable[[], bool]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_there(pid: int) -> bool:
    """Whether a process is there and is no zombie: one whose starter died is nobody's child."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_each_process_does_tasks_and_results_come_in_the_order_of_the_calls(
    forked: bool, tmp_path: Path
) -> None:
    with Workers(Work(os.getpid()), 2, tmp_path, forked=forked) as workers:
        done: list[int] = []
        where: set[tuple[int, str]] = set()

        def both_did() -> bool:
            where.update(workers.run("temporary", [(0,)] * 9, done.append))
            return len(where) == 2

        until(both_did)
        pids = workers.run("process", [(number,) for number in range(9)], lambda _: None)
        assert workers.run("process", [], done.append) == []
    assert done[:9] == list(range(1, 10))
    assert len(pids) == 9
    of_pid = dict(where)
    assert of_pid.pop(os.getpid()) == str(temporary_folder())
    assert list(of_pid.values()) == [str(tmp_path)]
    assert not any(map(is_there, of_pid))


@pytest.mark.parametrize(
    ("kind", "raised", "said"),
    [
        ("killed", ReplayError, r"process \d+ of this replay was ended by SIGKILL; the system may"),
        ("source", UnreadableSource, "log: line 3: not a record"),
        ("odd", RuntimeError, r"works\.py(.|\n)*KeyError: .odd"),
    ],
)
def test_what_breaks_in_another_process_is_an_error_of_the_starter(
    forked: bool, tmp_path: Path, kind: str, raised: type[Exception], said: str
) -> None:
    with (
        pytest.raises(raised, match=said),
        Workers(Work(os.getpid()), 2, tmp_path, forked=forked) as workers,
    ):
        workers.run("broken", [(kind,)] * 8, lambda _: None)


def test_an_interrupt_of_the_starter_ends_the_others(forked: bool, tmp_path: Path) -> None:
    note = tmp_path / "note"
    with (
        pytest.raises(KeyboardInterrupt),
        Workers(Work(os.getpid()), 2, tmp_path, forked=forked) as workers,
    ):
        workers.run("interrupted", [(note,)] * 2, lambda _: None)
    assert not is_there(int(note.read_text()))


STARTER = """
import os
from pathlib import Path
from kafka_marshal.replay.engines.workers import Workers
from tests.replay.engines.works import Work
with Workers(Work(os.getpid()), 3, Path({folder!r}), forked={forked}) as workers:
    workers.run("endless", [(Path({note!r}),)] * 3, lambda _: None)
"""


def test_no_process_outlives_a_starter_that_was_killed(forked: bool, tmp_path: Path) -> None:
    note = tmp_path / "note"
    text = STARTER.format(folder=str(tmp_path), note=str(note), forked=forked)
    starter = subprocess.Popen([sys.executable, "-c", text])
    until(lambda: note.exists() and note.read_text().count("\n") == 2)
    starter.kill()
    starter.wait()
    for pid in map(int, note.read_text().split()):
        until(lambda pid=pid: not is_there(pid))  # type: ignore[misc]


COPIED = """
from kafka_marshal.replay.engines.workers import forks
from kafka_marshal.replay.own_process import prepare
before = forks()
prepare()
print(before, forks())
"""


def test_only_a_process_that_does_nothing_but_replay_is_copied() -> None:
    """Another one may have threads, whose locks would be copied as they are."""
    said = subprocess.run(
        [sys.executable, "-c", COPIED], capture_output=True, text=True, check=True
    )
    assert said.stdout == f"False {sys.platform == 'linux'}\n"
