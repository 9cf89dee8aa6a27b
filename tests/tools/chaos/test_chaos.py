"""Marshal promises that the chaos run sees what it looks for."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tools.chaos.crew import Noted
from tools.chaos.judges.compare import WINDOW, Written, compare
from tools.chaos.worker import WAYS, Notes
from tools.night import ROOT

from tests.broker.test_broker import alive

ALL = {(1, offset) for offset in range(10)}


def written(
    done: set[tuple[int, int]],
    again: dict[tuple[int, int], int] | None = None,
    listed: set[tuple[int, int]] | None = None,
    tenures: int = 1,
) -> Written:
    handed = Counter(done) + Counter(again or {})
    return Written({1: 10}, handed, done, Counter({1: tenures}), listed)


def test_a_run_without_fault_is_well() -> None:
    assert compare(written(ALL)).wrong == []
    assert compare(written(ALL, listed=set())).wrong == []


def test_a_message_that_is_lost_at_least_once_is_seen() -> None:
    compared = compare(written(ALL - {(1, 3), (1, 4), (1, 9)}))
    assert compared.lost == 3
    assert compared.wrong == ["partition 1: lost 3: 3..4, 9"]


def test_more_than_a_window_repeated_for_each_new_owner_is_seen() -> None:
    again = {(1, 5): WINDOW}
    assert compare(written(ALL, again, tenures=2)).wrong == []
    again = {(1, 5): WINDOW + 1}
    assert compare(written(ALL, again, tenures=2)).wrong == [
        f"partition 1: {WINDOW + 1} repeated, {WINDOW} allowed"
    ]


def test_a_message_that_is_handed_over_twice_at_most_once_is_seen() -> None:
    assert compare(written(ALL, {(1, 7): 1}, listed=set())).wrong == ["partition 1: twice 1: 7"]


def test_a_loss_at_most_once_must_be_in_a_receipt() -> None:
    done = ALL - {(1, 6), (1, 7)}
    assert compare(written(done, listed={(1, 6), (1, 7), (1, 8)})).wrong == []
    compared = compare(written(done, listed={(1, 6)}))
    assert (compared.lost, compared.unlisted) == (2, 1)
    assert compared.wrong == ["partition 1: 1 of 2 lost are in no receipt: 7"]


def test_what_a_worker_wrote_is_read_while_it_writes(tmp_path: Path) -> None:
    path, noted = tmp_path / "notes.txt", Noted()
    noted.read(path)
    notes = Notes(path)
    notes.write("claimed", 2, 17)
    notes.write("+", 2, 5)
    noted.read(path)
    assert (noted.claims, noted.wins, noted.done) == ({2}, {(2, 17)}, set())
    notes.write("-", 2, 5)
    notes.write("lost", 2, "released")
    notes.write("failed", "BrokerFailed", "nobody", "answers")
    with path.open("a") as file:
        file.write("+ 2 ")  # of a line that is not whole yet
    noted.read(path)
    assert (noted.claims, noted.done, noted.handed) == (set(), {(2, 5)}, Counter({(2, 5): 1}))
    assert noted.failures == ["BrokerFailed nobody answers"]
    with path.open("a") as file:
        file.write("6\n")
    noted.read(path)
    assert noted.handed[2, 6] == 1


def test_what_a_worker_wrote_of_ranges_is_read(tmp_path: Path) -> None:
    path, noted = tmp_path / "notes.txt", Noted()
    notes = Notes(path)
    notes.write("granted", 2, 17)
    notes.write("granted", 2, 19)
    notes.write("+", 2, 5, 1700000000123, 17)
    notes.write("ended_range", 2, 17, "finished")
    noted.read(path)
    assert (noted.wins, noted.ranges) == ({(2, 17), (2, 19)}, {(2, 19)})
    assert (noted.handed, noted.under) == (Counter({(2, 5): 1}), {(2, 5, 17)})
    assert noted.holds
    notes.write("ended_range", 2, 19, "taken")
    noted.read(path)
    assert not noted.holds


STARTER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from tools.chaos.crew import Worker
start = subprocess.Popen
def started(command, **options):
    return start(["sleep", "600"] if "tools.chaos.worker" in command else command, **options)
subprocess.Popen = started
worker = Worker("w", "poll", {"client_id": "c"}, Path(sys.argv[1]))
worker.send(signal.SIGSTOP)
print(worker._process.pid, flush=True)
time.sleep(600)
"""


def test_a_run_that_is_killed_leaves_no_worker(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as chaos:
        assert chaos.stdout is not None
        pid = int(chaos.stdout.readline())
        chaos.kill()
    deadline = time.monotonic() + 30
    while alive(pid):
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(0.02)


@pytest.mark.parametrize("semantics", WAYS)
def test_every_way_of_consuming_takes_part(semantics: str) -> None:
    named = {"iterator", "poll", "lists", "batches", "loop"}
    if semantics == "at_least_once":
        named |= {"run_partition", "run_key", "run_none", "run_loop"}
    assert set(WAYS[semantics]) == named
