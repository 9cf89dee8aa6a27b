"""Marshal promises that one partition is shared by one, by many and by one again without a loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field

from kafka_marshal import Consumer
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler

KEY = ClaimKey("g", "orders", 0)
HANDLER_S = 0.02
UNSAID_S = 2.0
"""A consumer reports what is done after a second; the log and a look come on top."""
MANY = pytest.mark.parametrize("many", [6, pytest.param(64, marks=pytest.mark.night)])
SEMANTICS = pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])


@define(eq=False)
class Worker(Observer):
    """A process with one consumer, and what it was given."""

    name: str
    fleet: Fleet
    consumer: Consumer | None = None
    given: dict[int, float] = field(factory=dict)
    """By offset, when."""
    granted: set[int] = field(factory=set)
    ended: bool = False

    def range_granted(self, claim: Claim) -> None:
        assert claim.range is not None
        self.granted |= {*range(claim.range.start, claim.range.end)}

    def run(self) -> None:
        fleet = self.fleet
        settings = fleet.kafka.settings()
        with Consumer(
            settings=settings,
            group_id="g",
            client_id=self.name,
            heartbeat_interval_s=2.0,
            semantics=fleet.semantics,
            observers=[self],
        ) as self.consumer:
            self.consumer.add_topic("orders", share="ranges")
            for message in self.consumer:
                assert message.offset not in self.given
                self.given[message.offset] = fleet.now_s
                fleet.times[message.offset] += 1
                fleet.scheduler.sleep(HANDLER_S)
        self.ended = True

    def stop(self) -> None:
        assert self.consumer is not None
        self.consumer.stop()

    @property
    def instance_id(self) -> str:
        assert self.consumer is not None
        return self.consumer._coordinator.instance_id

    def open_of(self, others: list[Worker]) -> set[int]:
        """What the log gives these, as this one has read it."""
        assert self.consumer is not None
        shared = self.consumer._coordinator.loop.session.shared.of(KEY)
        assert shared is not None
        ranges, ids = shared.driver.participant.ranges, {each.instance_id for each in others}
        open_ = [each for each in ranges.open if each.instance in ids]
        return {offset for each in open_ for offset in range(each.from_, each.to)}


class Fleet:
    """Workers of one partition, in virtual time."""

    def __init__(self, semantics: Any, messages: int) -> None:
        self.semantics, self.messages = semantics, messages
        self.scheduler = Scheduler(1)
        self.kafka = InMemoryKafka(1, self.scheduler)
        self.kafka.create("orders", messages=messages)
        self.workers: list[Worker] = []
        self.times: Counter[int] = Counter()
        """By offset, how often it was given."""

    @property
    def now_s(self) -> float:
        return self.scheduler.clock.monotonic()

    def start(self, count: int) -> list[Worker]:
        """Start workers, and wait until each of them was given something."""
        began_s = self.now_s
        started = [Worker(f"w{len(self.workers) + at}", self) for at in range(count)]
        self.workers += started
        for each in started:
            self.scheduler.begin(each.name, each.run)
        self.until(lambda: all(each.given for each in started))
        print(f"{count} more at work after {self.now_s - began_s:.1f} s")
        return started

    def start_many(self, many: int) -> tuple[Worker, list[Worker], list[Worker]]:
        """The first one, half of the others, and the other half."""
        [first] = self.start(1)
        others = self.start(many - 1)
        return first, others[::2], others[1::2]

    def stop(self, workers: list[Worker]) -> None:
        began_s = self.now_s
        for each in workers:
            each.stop()
        self.until(lambda: all(each.ended for each in workers))
        print(f"{len(workers)} stopped after {self.now_s - began_s:.1f} s")

    def kill(self, workers: list[Worker]) -> None:
        for each in workers:
            self.scheduler.kill(each.name)

    def until(self, happens: Callable[[], bool], within_s: float = 600.0) -> None:
        end_s = self.now_s + within_s
        while not happens():
            missing = sorted(self.missing)[:10]
            assert self.now_s < end_s, f"not within {within_s} s; not given: {missing}, ..."
            self.scheduler.sleep(0.05)

    @property
    def missing(self) -> set[int]:
        return set(range(self.messages)) - self.times.keys()

    @property
    def repeated(self) -> set[int]:
        return {offset for offset, times in self.times.items() if times > 1}


@MANY
@SEMANTICS
def test_from_one_to_many_and_back_each_message_is_given_once(semantics: str, many: int) -> None:
    fleet = Fleet(semantics, messages=300 * many)
    with fleet.scheduler:
        fleet.start(1)
        fleet.stop(fleet.start(many - 1))
        fleet.until(lambda: not fleet.missing)
        fleet.stop(fleet.workers[:1])
        print(f"{len(fleet.kafka.topics['__marshal'][0].records)} records of the log")
    assert fleet.repeated == set()
    assert fleet.missing == set()


@MANY
def test_at_least_once_nothing_is_lost_and_only_what_was_not_said_is_repeated(many: int) -> None:
    fleet = Fleet("at_least_once", messages=300 * many)
    with fleet.scheduler:
        first, killed, stopped = fleet.start_many(many)
        fleet.scheduler.sleep(UNSAID_S + 1.0)  # of virtual time: most was reported by then
        fleet.kill(killed)
        killed_s = fleet.now_s
        fleet.stop(stopped)
        fleet.until(lambda: not fleet.missing)
        fleet.stop([first])
    given = sum(len(each.given) for each in killed)
    print(f"{len(fleet.repeated)} repeated of {given} that {len(killed)} killed were given")
    unsaid = {
        offset
        for each in killed
        for offset, given_s in each.given.items()
        if killed_s - given_s <= UNSAID_S
    }
    assert fleet.missing == set()
    assert fleet.repeated <= unsaid


@MANY
def test_at_most_once_nothing_is_repeated_and_only_what_the_killed_held_is_lost(many: int) -> None:
    fleet = Fleet("at_most_once", messages=300 * many)
    with fleet.scheduler:
        first, killed, stopped = fleet.start_many(many)
        fleet.kill(killed)
        fleet.scheduler.sleep(0.5)  # of virtual time: what they had asked for lands by then
        held = {offset for each in killed for offset in each.granted - set(each.given)}
        held |= first.open_of(killed) - fleet.times.keys()
        fleet.stop(stopped)
        fleet.until(lambda: fleet.missing <= held)
        fleet.stop([first])
    print(f"{len(fleet.missing)} lost of {len(held)} that {len(killed)} killed held")
    assert fleet.repeated == set()
    assert fleet.missing <= held
