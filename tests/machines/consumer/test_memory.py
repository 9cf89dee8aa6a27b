"""An instance that takes up what another has put aside knows what it would know of the whole
log."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kafka_marshal import MalformedRecord, Record
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.suffix_reader import Reader
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.consumer import (
    ConsumerState,
    InstanceConfig,
    Mode,
    claiming_partition_sent,
)
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.machines.consumer.member import Member
from kafka_marshal.machines.consumer.memory import PartitionMemory, without_self
from tests.kernel import hostile
from tests.machines.town import PLACES, Town, key

TOPIC = "t"


def log(seed: int) -> list[Record]:
    """Whatever may stand in a log, each offset once."""
    records = dict[int, Record]()
    for raw in hostile.log(seed, 300):
        try:
            records.setdefault(raw.offset, raw.decoded())
        except MalformedRecord:
            continue
    return list(records.values())


def member(name: str, memory: dict[int, PartitionMemory] | None = None) -> Member:
    made = Member(InstanceConfig(name, name, Mode.AT_LEAST_ONCE), "g", 1, memory=memory)
    made.add_topic(TOPIC, 2, now_ms=0)
    return made


def read(by: Member, records: Iterable[Record]) -> Member:
    for record in records:
        by.record(record, now_ms=record.timestamp_ms)
    return by


@pytest.mark.parametrize("seed", range(30))
def test_who_takes_it_up_and_reads_the_rest_knows_what_the_whole_log_says(seed: int) -> None:
    records = log(seed)
    whole = read(member("one"), records)
    assert whole.memory()[0].claims
    for cut in (0, 1, 50, len(records) // 2, len(records)):
        before = read(member("two"), records[:cut])
        after = read(member("three", before.memory()), records[cut:])
        assert after.memory() == whole.memory()


@pytest.mark.parametrize("seed", range(10))
def test_who_takes_it_up_asks_for_what_it_would_ask_for(seed: int) -> None:
    records = log(seed)
    at_ms = max(record.timestamp_ms for record in records) + 1_000_000
    whole = read(member("one"), records)
    after = member("one", read(member("two"), records).memory())
    assert after.caught_up(0, at_ms) == whole.caught_up(0, at_ms)


def test_what_an_instance_did_itself_is_not_put_aside() -> None:
    """The next one has another instance id: it has asked for nothing, and processed nothing."""
    town = Town()
    first = town.join("a1", Claiming(greedy=True))
    town.do("a1", first.add_topic(TOPIC, 1, 0))
    town.do("a1", first.messages_available(key(TOPIC, 0), 5, 0))
    town.do("a1", first.done(key(TOPIC, 0), 5, 0))
    assert first.driver(key(TOPIC, 0)).consumer.next == 5
    [place] = first.coordinating_partitions
    known = first.memory()[place].claims[key(TOPIC, 0)]
    assert known.known.owner_instance == "a1"
    assert known == ConsumerState(known.reader, known.view)
    again = Member(InstanceConfig("a2", "a", Mode.AT_LEAST_ONCE), "g", 3, memory=first.memory())
    again.add_topic(TOPIC, 1, 0)
    assert not again.owned
    [asked] = again.caught_up(place, 0)
    assert isinstance(asked.effect, Send)
    assert asked.effect.headers.supersedes == known.known.epoch


def test_what_nobody_needs_yet_is_kept_for_later() -> None:
    memory = {7: PartitionMemory(ConsumerState(Reader(), 3), {}, {})}
    assert (
        Member(InstanceConfig("a", "a", Mode.AT_LEAST_ONCE), "g", 9, memory=memory).memory()
        == memory
    )


def test_what_was_read_is_put_aside_and_nothing_of_what_was_done() -> None:
    assert without_self(ConsumerState(view=7, asked=True, next=3)) == ConsumerState(view=7)


def test_a_request_is_put_aside_with_the_place_of_its_topic() -> None:
    topics = {coordinating_partition(topic, PLACES): topic for topic in ("t", "u", "v", "w", "x")}
    made = Member(InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE), "g", PLACES)
    for place, topic in topics.items():
        made.add_topic(topic, 1, now_ms=0)
        for offset, name in enumerate(("owner", f"asks{place}")):
            asks = InstanceConfig(name, name, Mode.AT_LEAST_ONCE)
            sent = claiming_partition_sent(asks, ConsumerState(), key(topic, 0))
            made.record(Record(place, offset, 5, sent.message, sent.headers), now_ms=5)
    assert len(topics) > 1
    assert {place: set(memory.requests) for place, memory in made.memory().items()} == {
        place: {f"asks{place}"} for place in topics
    }


def test_who_takes_it_up_waits_for_an_owner_that_may_live() -> None:
    town = Town()
    first = town.join("a1", Claiming(greedy=True))
    town.do("a1", first.add_topic(TOPIC, 1, 0))
    alone = Claiming(fair_share=False)
    me = InstanceConfig("b1", "b", Mode.AT_LEAST_ONCE)
    after = Member(me, "g", PLACES, alone, memory=first.memory())
    after.add_topic(TOPIC, 1, now_ms=7)
    [place] = after.coordinating_partitions
    assert after.caught_up(place, 7) == []
    assert after.next_timer_ms == 7 + 120_001
