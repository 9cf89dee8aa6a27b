"""What a follower of a topic gives on, and when; over a client that has what a test puts there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest
from attrs import define, field
from confluent_kafka import KafkaError

from kafka_marshal import Consumer
from kafka_marshal.client.connect import reader
from kafka_marshal.client.connect.log_filter import LogFilter
from kafka_marshal.client.connect.reader import CoordinationReader, ReadResult, Watermarks
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler
from kafka_marshal.testing.in_memory.consumer import InMemoryConsumer


@define
class MockMessage:
    """A heartbeat of the only sender there is."""

    number: int
    place: int = 0
    ends: bool = False
    """It is the client's word that the partition ends here."""
    group: bytes = b"g"

    def partition(self) -> int:
        return self.place

    def offset(self) -> int:
        return self.number

    def timestamp(self) -> tuple[int, int]:
        return 2, 1000 + self.number

    def value(self) -> bytes:
        return b"Heartbeat/1/1/i/c/%s/t/%d/%d" % (self.group, self.place, self.number)

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.ends else None


class MockClient:
    """Of Kafka, where whatever is wanted comes anyway."""

    def unassign(self) -> None:
        """Nothing was."""

    def incremental_assign(self, places: object) -> None:
        """It comes anyway."""


@define
class MockTail(CoordinationReader):
    """Batches that were read, the end as each says it, and no cluster."""

    polled: deque[list[MockMessage]]
    ends: dict[int, int]
    topic: str = "coordination"
    _consumer: Any = field(factory=MockClient)
    _looked_up: dict[int, Watermarks] = field(factory=dict)
    _looked_up_at: float = 0.0
    _paused: set[int] = field(factory=set)
    _monotonic: Callable[[], float] = monotonic

    def _messages(self, maximum: int = 0) -> list[Any]:
        return self.polled.popleft()

    def _end_as_fetched(self, number: int) -> int:
        return self.ends[number]


def followed(tail: MockTail, *, has_sent: bool = True) -> Iterator[ReadResult]:
    log_filter = LogFilter[Any](b"g", set(tail.ends))
    wanted = dict.fromkeys(tail.ends, 0)
    given = tail.follow(lambda: wanted, lambda: not tail.polled, log_filter, lambda: has_sent)
    return filter(None, given)


def heard(
    batches: list[list[MockMessage]], ends: dict[int, int], *, has_sent: bool = True
) -> list[tuple[list[tuple[int, int]], list[int]]]:
    """Each time something is given on: partition and offset of it, and what ended."""
    return [
        ([(raw.partition, raw.offset) for raw in each.records], sorted(each.ended))
        for each in followed(MockTail(deque(batches), ends), has_sent=has_sent)
    ]


def beats(first: int, end: int, place: int = 0) -> list[MockMessage]:
    return [MockMessage(number, place) for number in range(first, end)]


def test_far_from_the_end_it_gathers_and_gives_what_is_left_when_it_is_there() -> None:
    batches = [beats(at, at + 250) for at in range(0, 2000, 250)]
    given = heard(batches, {0: 2000})
    assert [offset for records, _ in given for _, offset in records] == [
        0,
        1499,
        1500,
        1749,
        1750,
        1999,
    ]
    assert given[-1] == ([(0, 1750), (0, 1999)], [0])


def test_nothing_is_held_while_nothing_comes() -> None:
    assert heard([beats(0, 100), []], {0: 5000}) == [([(0, 0), (0, 99)], [])]


def test_where_the_client_says_that_a_partition_ends_nothing_is_held() -> None:
    """Also where offsets follow that are no messages."""
    batches = [beats(0, 100), [MockMessage(100, ends=True)]]
    assert heard(batches, {0: 5000}) == [([(0, 0), (0, 99)], [0])]


def test_it_says_how_far_a_partition_was_read_once_nothing_of_it_is_held() -> None:
    foreign = [MockMessage(number, place=1, group=b"h") for number in range(3)]
    batches = [beats(0, 10) + foreign, beats(10, 20), []]
    said = [
        {place: raw.offset for place, raw in each.lasts.items()}
        for each in followed(MockTail(deque(batches), {0: 5000, 1: 3}))
    ]
    assert said == [{1: 2}, {0: 19, 1: 2}]


@pytest.mark.parametrize(("high", "ago_s", "told"), [(0, 0, True), (1, 0, False), (0, 9, False)])
def test_what_was_empty_a_moment_ago_is_read_to_its_end(
    high: int, ago_s: float, told: bool
) -> None:
    looked_up = {0: Watermarks(0, high)}
    tail = MockTail(deque([[]]), {0: 0}, looked_up=looked_up, looked_up_at=monotonic() - ago_s)
    assert list(followed(tail)) == ([ReadResult([], frozenset({0}))] if told else [])


def test_a_partition_that_is_far_behind_does_not_hold_another_up() -> None:
    batches = [beats(0, 100) + beats(0, 2, place=1), beats(100, 200) + beats(2, 4, place=1)]
    given = heard(batches, {0: 5000, 1: 4})
    assert given == [([(1, 0), (1, 1)], []), ([(1, 2), (1, 3)], [1])]


def test_no_more_is_held_than_was_meant_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HELD_MAX", 1)
    assert heard([beats(0, 10)], {0: 5000}) == [([(0, 0), (0, 9)], [])]


def test_nothing_is_held_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HELD_S", -1.0)
    assert heard([beats(0, 10), beats(10, 20)], {0: 5000}) == [
        ([(0, 0), (0, 9)], []),
        ([(0, 10), (0, 19)], []),
    ]
    assert heard([beats(0, 10), beats(10, 20), []], {0: 5000}, has_sent=False) == [
        ([(0, 0), (0, 19)], [])
    ], "who has sent nothing owns nothing"


def test_a_consumer_that_has_asked_for_a_claim_is_given_on_what_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follow, asked = CoordinationReader.follow, list[Callable[[], bool]]()

    def noted(*arguments: Any) -> Any:
        asked.append(arguments[-1])
        assert not asked[-1]()
        return follow(*arguments)

    monkeypatch.setattr(CoordinationReader, "follow", noted)
    kafka = InMemoryKafka(1, Scheduler(seed=1))
    kafka.create("orders", messages=1)
    with Consumer(settings=kafka.settings(), group_id="g", client_id="c1") as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(timeout_s=5.0) is not None
        assert asked[-1]()


@pytest.mark.parametrize("follows", [False, True])
def test_what_was_read_to_its_end_is_resumed_before_it_is_assigned_anew(
    follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka may drop a resume beside an assignment, and nothing was read any more."""
    asked: list[str] = []
    for name in ("assign", "unassign", "incremental_assign", "pause", "resume"):
        monkeypatch.setattr(InMemoryConsumer, name, noted(name, asked))
    kafka = InMemoryKafka(1, Scheduler(seed=1))
    kafka.create("log", messages=3)
    tail = CoordinationReader(kafka.settings(), "log")
    [read] = [batch for batch in tail.records({0: 0}, {0: 3}) if batch]
    assert [one.offset for one in read] == [0, 1, 2]
    kafka.produce("log", 1)
    if follows:
        wanted = iter(tail.follow(lambda: {0: 3}, lambda: False, LogFilter(b"g", frozenset())))
        assert next(wanted) is not None
    else:
        again = tail.records({0: 3})
        assert [one.offset for one in next(batch for batch in again if batch)] == [3]
    first = asked.index("resume")
    assert "pause" in asked[:first]
    assert asked[first + 1] in ("assign", "unassign")
    assert "resume" not in asked[first + 1 :]


def noted(name: str, asked: list[str]) -> Callable[..., None]:
    """The method, which is noted before it is called."""
    method = getattr(InMemoryConsumer, name)

    def call(*of: object) -> None:
        asked.append(name)
        method(*of)

    return call
