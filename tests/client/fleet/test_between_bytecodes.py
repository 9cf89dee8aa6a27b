"""Threads that are interrupted between two bytecodes find the locks that are left out."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tools.runs.by_day import one_of_each
from tools.simulate.fine.__main__ import EXPLAINED, WORLDS, run
from tools.simulate.fine.locks import Site, sites

from kafka_marshal.client.coordinate.ownership import Ownership
from kafka_marshal.client.coordinate.recording import RecordedMember
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.testing.in_memory import Interruptions, Scheduler

RUNS = 300
"""Within which a lock that is left out is found here; most are found within ten."""


class Counts:
    """What two threads share, in a module that is interrupted."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler, self.count = scheduler, 0
        self.unwound: list[str] = []

    def counts(self) -> None:
        for _ in range(100):
            self.count += 1

    def turns(self) -> None:
        try:
            while True:
                self.count += 1
        finally:
            self.unwound.append(self.scheduler.current_name)


def scheduled(seed: int = 1, every: float = 20.0) -> Scheduler:
    return Scheduler(seed, interruptions=Interruptions(every=every, rooms=[__name__]))


def lost_updates(scheduler: Scheduler) -> int:
    counts = Counts(scheduler)
    with scheduler:
        threads = [scheduler.start(counts.counts, "counts") for _ in range(2)]
        for thread in threads:
            thread.join()
    return 200 - counts.count


def test_a_thread_is_interrupted_between_reading_and_writing() -> None:
    assert lost_updates(Scheduler(1)) == 0, "it switches where threads wait, and nowhere else"
    assert any(lost_updates(scheduled(seed)) for seed in range(5))


def test_a_thread_that_is_killed_is_unwound_wherever_it_stands() -> None:
    before = threading.active_count()
    with scheduled() as scheduler:
        counts = Counts(scheduler)
        for name in ("first", "second", "third"):
            scheduler.begin(name, counts.turns)
        scheduler.sleep(0.1)
        scheduler.kill("second")
        assert counts.unwound == ["second"]
        scheduler.sleep(0.1)
    assert sorted(counts.unwound) == ["first", "second", "third"], "`close` kills the others"
    assert threading.active_count() == before


def test_what_a_thread_raises_goes_to_the_first_one() -> None:
    def raises() -> None:
        raise LookupError("a thread of its own")

    def runs(scheduler: Scheduler) -> None:
        with scheduler:
            scheduler.begin("raises", raises)
            scheduler.sleep(1.0)

    for scheduler in (scheduled(), Scheduler(1)):
        with pytest.raises(LookupError, match="a thread of its own"):
            runs(scheduler)
        assert len(scheduler.threads) == 1


def test_a_seed_repeats_a_run_in_any_process(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # as a test before it may have left it
    command = [sys.executable, "-m", "tools.simulate.fine", "--world", "crowd", "--seed", "4"]
    number = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": number}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    world, _ = run("crowd", 4)
    assert ran.stdout.strip() == world.digest
    assert world.scheduler.interrupted > 100


@pytest.mark.parametrize("world", WORLDS)
def test_where_every_lock_is_there_nothing_is_wrong(
    world: str, pytestconfig: pytest.Config
) -> None:
    for seed in range(6 if pytestconfig.getoption("all") else 1):
        assert run(world, seed)[1] == []


FOUND_IN = {
    "_closing": "closing",
    "_subscribing": "subscribing",
    "environment.threads.rlock(),": "crowd",
    "_new_lock": "crowd",
    "connect/log_writer": "appending",
    "produce/producer": "producing",
    "_failing": "failing",
    "lock=config": "recording",
    "_open": "closing",
    "fetch/fetcher": "crowd",
    "observe/metrics": "observing",
}
"""Where it is looked for what a lock leaves open, by a part of the line that makes it."""
FIRST = {"api/delivery": 16, "_failing": 28, "coordinate/ownership": 18, "api/consumer": 5}
"""By such a part: the seed that shows it, where others take long before it. It is tried first."""


def looked_for_in(site: Site) -> str:
    """The world in which a run shows what this lock leaves open."""
    made = f"{site.module} {site.text}"
    return next(name for part, name in FOUND_IN.items() if part in made)


@pytest.mark.parametrize(
    "site",
    one_of_each([site for site in sites() if site.text not in EXPLAINED], looked_for_in),
    ids=str,
)
def test_a_lock_that_is_left_out_is_found(site: Site) -> None:
    """By day one in each world, where `make locks` looks for all of them."""
    made = f"{site.module} {site.text}"
    first = next((seed for part, seed in FIRST.items() if part in made), 0)
    seeds = (*range(first, RUNS), *range(first))
    assert any(run(looked_for_in(site), seed, site)[1] for seed in seeds)


def test_what_is_explained_is_there() -> None:
    assert EXPLAINED.keys() <= {site.text for site in sites()}


# --- what was found -------------------------------------------------------------------------------


def test_a_lag_is_none_where_the_end_is_not_known_any_more() -> None:
    """It was looked at twice, and was gone in between: a TypeError."""

    tenure = SimpleNamespace(claim="orders/0", next=3)
    known = {"orders/0": 5}

    class Forgets(dict[str, int]):
        def get(self, claim: str) -> int | None:  # type: ignore[override]
            return known.pop(claim, None)

    ownership: Any = SimpleNamespace(claimed=lambda *_: tenure, _ends=Forgets())
    assert Ownership.lag(ownership, "orders", 0) == 2
    assert Ownership.lag(ownership, "orders", 0) is None


def test_an_instance_that_has_ended_sends_nothing_that_is_not_recorded(tmp_path: Path) -> None:
    """The thread that closes it and the one that drives it may both be at it."""
    me = InstanceConfig("i", "c", Mode.AT_LEAST_ONCE)
    member = RecordedMember(me, "g", 1, firsts={0: 0}, folder=tmp_path, lock=threading.Lock())
    member.add_topic("orders", 1, 0)
    for _ in range(2):
        member.end()
    assert member.caught_up(0, 0) == [], "it would ask for the claim"
    assert member.path.read_text("utf-8").count("crashed") == 1
