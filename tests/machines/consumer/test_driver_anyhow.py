"""Marshal promises that a driver neither keeps its runner busy with nothing nor sleeps on.

Schedules that nobody wrote: two consumers and one that began late, records that wait or are lost,
an administrator's pauses, and timers that go off when they are due.
"""

from __future__ import annotations

import copy
import random
from collections import Counter

import attrs
import pytest

from kafka_marshal import FENCED, ClaimKey, World
from kafka_marshal.machines.consumer import consumer as moves
from kafka_marshal.machines.consumer.consumer import (
    ConsumerState,
    Forbidden,
    InstanceConfig,
    Mode,
    claiming_partition_sent,
    position_sent,
    release_group_sent,
)
from kafka_marshal.machines.consumer.driver import Driver, Timing
from kafka_marshal.machines.consumer.effects import Effect, Lost
from tests.machines.consumer.fleet import Fleet
from tests.memory_log import MemoryLog

RULES = attrs.evolve(FENCED, heartbeat_interval_ms=1000, pause_max_ms=9000, clock_rewind_max_ms=0)
TIMING = Timing(heartbeat_every_ms=900, ask_again_after_ms=500)
KEY = ClaimKey("g", "events", 0)
ADMIN = InstanceConfig("x1", "x", Mode.AT_MOST_ONCE, admin=True, rules=RULES)

SEEDS = range(120)
STEPS = 80
_WEIGHTED = (
    *("read", "append", "timer") * 6,
    *("late", "unknown", "available", "done", "pause", "admin", "stop", "truncated", "join"),
)


class Unsettled(Fleet):
    """A fleet in which nothing happens by itself: what is sent waits, nobody reads unasked."""

    def settle(self) -> None:
        """Not by itself."""

    def seat(self, name: str, mode: Mode) -> None:
        """A driver that reads from here on, and has what it sends held."""
        me = InstanceConfig(name, name[0], mode, window=2, batch=2, rules=RULES)
        first = len(self.log)
        self.drivers[name] = Driver(me, self.key, TIMING, first=first)
        self.views[name], self.held[name] = first, []
        self.told[name], self.processed[name] = [], []

    def read(self, name: str, records: int) -> None:
        """Read some of what is there; at the log's end call `caught_up`."""
        driver = self.drivers[name]
        for record in self.log[self.views[name] :][:records]:
            self.views[name] += 1
            self.carry_out(name, driver.read(record, self.now_ms))
        if self.views[name] == len(self.log):
            self.carry_out(name, driver.caught_up(self.now_ms))

    def ring(self, name: str) -> list[Effect]:
        """Its timer goes off, as soon as it is due."""
        driver = self.drivers[name]
        due_ms = driver.next_timer_ms
        assert due_ms is not None
        self.now_ms = max(self.now_ms, due_ms)
        effects = driver.timer(self.now_ms)
        self.carry_out(name, effects)
        return effects


def busy(driver: Driver, now_ms: int) -> bool:
    """It wants to be called again at once."""
    return driver.next_timer_ms is not None and driver.next_timer_ms <= now_ms


def step(fleet: Unsettled, chance: random.Random) -> list[str]:
    """One thing happens to somebody. What is wrong with it."""
    what = chance.choice(_WEIGHTED)
    name = chance.choice(sorted(fleet.drivers))
    driver, held = fleet.drivers[name], fleet.held[name]
    match what:
        case "read":
            fleet.read(name, chance.choice((1, 99, 99)))
        case "append" if held:
            fleet.append(held.pop(0))
        case "late" if held:
            fleet.append(held[0])
        case "unknown" if held:
            fleet.carry_out(name, driver.outcome_unknown(held.pop(0), fleet.now_ms))
        case "available":
            fleet.carry_out(name, driver.messages_available(chance.randrange(9), fleet.now_ms))
        case "done":
            fleet.carry_out(name, driver.done(chance.randrange(9), fleet.now_ms))
        case "stop":
            fleet.carry_out(name, driver.stop(fleet.now_ms))
        case "truncated" if chance.random() < 0.2:
            fleet.carry_out(name, driver.truncated())
        case "pause":
            fleet.append(release_group_sent(ADMIN, "g", fleet.now_ms // 1000 + chance.randrange(3)))
        case "admin":
            claim = fleet.world.claim(KEY)
            fleet.append(claiming_partition_sent(ADMIN, ConsumerState(), KEY))
            if claim.epoch is not None:
                fleet.append(position_sent(ADMIN, ConsumerState(), KEY, 1))
        case "join" if len(fleet.drivers) < 5:
            fleet.seat(f"{chance.choice('abc')}{len(fleet.drivers)}", driver.me.mode)
        case "timer" if driver.next_timer_ms is not None:
            effects = fleet.ring(name)
            if not effects and busy(driver, fleet.now_ms):
                return [f"{name} is called for nothing at {fleet.now_ms}, and again at once"]
    return []


def walked(seed: int) -> tuple[Unsettled, list[str]]:
    """What a schedule leads to, and what was wrong on the way."""
    chance = random.Random(seed)
    fleet = Unsettled(now_ms=1000, log=MemoryLog(world=World(RULES)))
    for name in ("a0", "b1"):
        fleet.seat(name, Mode.AT_MOST_ONCE if seed % 2 else Mode.AT_LEAST_ONCE)
    wrong = [f"seed {seed}: {each}" for _ in range(STEPS) for each in step(fleet, chance)]
    return fleet, wrong


def test_a_timer_that_went_off_for_nothing_is_not_due_again_at_once() -> None:
    assert [wrong for seed in SEEDS for wrong in walked(seed)[1]] == []


def test_a_driver_that_left_out_what_cannot_have_changed_did_all_that_was_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: Counter[bool] = Counter()
    time_passed = Driver._time_passed

    def compared(driver: Driver, now_ms: int) -> list[Effect]:
        twin = copy.copy(driver)
        effects, complete = time_passed(driver, now_ms), twin._go_on(now_ms)
        looked[bool(effects)] += 1
        assert effects == complete
        assert driver.consumer == twin.consumer
        return effects

    monkeypatch.setattr(Driver, "_time_passed", compared)
    for seed in SEEDS:
        walked(seed)
    assert min(looked[True], looked[False]) > 100


def test_a_driver_that_rests_has_nothing_to_do_when_the_log_was_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caught_up, rested = Driver.caught_up, 0

    def noted(driver: Driver, now_ms: int) -> list[Effect]:
        nonlocal rested
        rests, consumer, due_ms = driver.rests, driver.consumer, driver.next_timer_ms
        effects = caught_up(driver, now_ms)
        if rests:
            rested += 1
            assert effects == []
            assert (driver.consumer, driver.next_timer_ms) == (consumer, due_ms)
        return effects

    monkeypatch.setattr(Driver, "caught_up", noted)
    for seed in SEEDS:
        walked(seed)
    assert rested > 10


def test_in_the_end_whoever_wants_the_claim_and_can_know_it_has_it() -> None:
    """Nobody sleeps on: where all records arrive and all work ends, one of those who may ask."""
    owned = 0
    for seed in SEEDS:
        fleet, _ = walked(seed)
        for _ in range(400):
            for name in sorted(fleet.drivers):
                while fleet.held[name]:
                    fleet.append(fleet.held[name].pop(0))
                fleet.read(name, 999)
                fleet.carry_out(name, fleet.drivers[name].done(99, fleet.now_ms))
            if any(fleet.held[name] for name in fleet.drivers):
                continue
            timers = {name: each.next_timer_ms for name, each in fleet.drivers.items()}
            due = {name: at for name, at in timers.items() if at is not None}
            if not due or fleet.now_ms > 30_000:
                break
            fleet.ring(min(due, key=lambda name: due[name]))
        could = [
            name
            for name, each in fleet.drivers.items()
            if each.wants and each.consumer.reader.known and not unknowing(each)
        ]
        if could:
            owned += 1
            assert fleet.owner() in could, f"seed {seed}: {fleet.owner()}, not of {could}"
    assert owned > len(SEEDS) // 4


def unknowing(driver: Driver) -> bool:
    """At most once, and what it must know it cannot."""
    against = moves.may_claim(driver.me, driver.consumer)
    return against in (Forbidden.CLAIM_UNKNOWN, Forbidden.POSITION_UNKNOWN, Forbidden.STOPPED)


@pytest.mark.parametrize("lost", [Lost.TAKEN, Lost.PAUSED, Lost.RELEASED, Lost.ID_USED_TWICE])
def test_the_schedules_lose_claims_in_every_way(lost: Lost) -> None:
    assert any(lost in each for seed in SEEDS for each in walked(seed)[0].told.values())
