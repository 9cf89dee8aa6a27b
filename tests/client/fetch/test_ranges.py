"""Ranges of a partition that several consumers share: which is fetched, and what is handed over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Message as Fetched
from confluent_kafka import TopicPartition

from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import Watermarks
from kafka_marshal.client.fetch.buffers import BufferLimits, MessageChunk
from kafka_marshal.client.fetch.fetched_partition import FetchedPartition
from kafka_marshal.client.fetch.fetcher import SHARED_POLL_S, Fetcher
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.fetch.split_fetch import offset_of
from kafka_marshal.client.message import Claim
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.testing.in_memory import DOWN, UP, InMemoryKafka, Transaction
from kafka_marshal.testing.in_memory.consumer import InMemoryConsumer
from tests.client.doubles import WITHIN_S, Kafka, until

EVENTS = "events"


class Ranges:
    """A fetcher of ranges, and what it has reported."""

    def __init__(self, kafka: InMemoryKafka, bounds: BufferLimits | None = None) -> None:
        self.kafka = kafka
        self.gone: list[tuple[int, int, Watermarks]] = []
        """Id of a range, the first offset that is gone, and what its partition holds."""
        self.ends: list[int] = []
        self.notes: list[str] = []
        self.failures: list[BaseException] = []
        settings = kafka.settings()
        self.fetcher = Fetcher(
            ClusterMetadata(settings),
            "g",
            "c1",
            bounds=bounds,
            ahead=True,
            on_fetched=lambda *_: None,
            on_gone=lambda claim, first, extent: self.gone.append((claim.epoch, first, extent)),
            on_error=self.notes.append,
            on_failure=self.failures.append,
            on_end=lambda topic, partition, high: self.ends.append(high),
        )
        self._monotonic, self._deadline = (
            settings.environment.monotonic,
            settings.environment.deadline,
        )
        self.ids = 0

    def open(self, begin: int, end: int, partition: int = 0) -> FetchedPartition:
        self.ids += 1
        key = ClaimKey("g", EVENTS, partition)
        one = self.fetcher.open(Claim(key, EVENTS, partition, self.ids, begin), begin, end)
        self.fetcher.allow(one, range(begin, end))
        return one

    def chunk(self, maximum: int = 1_000, within_s: float = WITHIN_S) -> Any:
        return self.fetcher.take(maximum, within_s)

    def taken(self, end: int, maximum: int = 1_000) -> list[int]:
        """Offsets handed over until a chunk ends there."""
        found: list[int] = []
        while True:
            chunk = self.chunk(maximum)
            assert chunk is not None, found
            found += offsets(chunk)
            if chunk.end == end:
                return found

    def close(self) -> None:
        self.fetcher.close(self._deadline(WITHIN_S))


def offsets(chunk: MessageChunk[Claim, Fetched]) -> list[int]:
    return [*map(offset_of, chunk.messages)]


@contextmanager
def ranges(kafka: InMemoryKafka, bounds: BufferLimits | None = None) -> Iterator[Ranges]:
    made = Ranges(kafka, bounds)
    made.fetcher.start()
    try:
        yield made
        assert made.failures == []
    finally:
        made.close()


def assigned(of: Ranges) -> list[int]:
    """Every position that was fetched from, in order, from now on."""
    client = of.fetcher._consumer
    assert isinstance(client, InMemoryConsumer)
    found: list[int] = []
    assign = client.incremental_assign

    def noted(partitions: list[TopicPartition]) -> None:
        found.extend(one.offset for one in partitions)
        assign(partitions)

    client.incremental_assign = noted  # type: ignore[method-assign]
    return found


def kafka_of(messages: int, partitions: int = 1) -> Kafka:
    kafka = Kafka()
    kafka.create(EVENTS, partitions, messages)
    return kafka


# --- the order of ranges --------------------------------------------------------------------------


def test_the_lowest_range_goes_first_whatever_the_order_of_opening() -> None:
    kafka = kafka_of(100)
    made = Ranges(kafka)
    for begin in (70, 10, 40):
        made.open(begin, begin + 10)
    made.fetcher.start()
    assert made.taken(80) == [*range(10, 20), *range(40, 50), *range(70, 80)]
    made.close()


def test_a_chunk_is_of_one_range_and_names_its_id() -> None:
    with ranges(kafka_of(100)) as of:
        first, second = of.open(10, 20), of.open(20, 30)
        one, two = of.chunk(), of.chunk()
        assert (one.key, one.start, one.end) == (first.claim, 10, 20)
        assert (two.key, two.start, two.end) == (second.claim, 20, 30)
        assert of.chunk(within_s=0.05) is None


def test_nothing_of_others_is_handed_over_between_two_ranges() -> None:
    with ranges(kafka_of(1_000)) as of:
        of.open(100, 110)
        of.open(900, 910)
        assert of.taken(910) == [*range(100, 110), *range(900, 910)]


def test_ranges_of_a_partition_take_one_turn_beside_other_partitions() -> None:
    kafka = kafka_of(100, partitions=2)
    made = Ranges(kafka)
    for begin in (20, 0, 10):
        made.open(begin, begin + 10)
    made.open(0, 30, partition=1)
    made.fetcher.start()
    until(lambda: made.fetcher._buffers.waiting(made.fetcher._of_partition[EVENTS, 1][0]) == 30)
    until(lambda: all(map(made.fetcher._buffers.waiting, made.fetcher._of_partition[EVENTS, 0])))
    turns = [(chunk.key.partition, chunk.start) for chunk in (made.chunk(10) for _ in range(6))]
    assert sorted(turns[:2]) == [(0, 0), (1, 0)]
    assert [start for partition, start in turns if partition == 0] == [0, 10, 20]
    assert {partition for partition, _ in turns[2:4]} == {0, 1}
    made.close()


def test_a_range_from_the_pool_goes_before_a_higher_one_that_is_being_fetched() -> None:
    with ranges(kafka_of(500)) as of:
        positions = assigned(of)
        of.open(400, 600)
        assert of.chunk(50).start == 400
        of.open(100, 150)
        until(lambda: positions[:2] == [400, 100])
        assert of.taken(150)[-50:] == [*range(100, 150)]
        kafka_end = 500
        of.kafka.produce(EVENTS, 100)
        rest = of.taken(600)
        assert rest[-100:] == [*range(kafka_end, 600)]


def test_what_was_granted_before_the_ranges_goes_first_and_a_later_tenure_waits_for_none() -> None:
    """A claim that was exclusive is drained; one that is exclusive again is fetched."""
    kafka = kafka_of(30)
    key = ClaimKey("g", EVENTS, 0)
    with ranges(kafka) as of:
        positions = assigned(of)
        before = of.fetcher.open(Claim(key, EVENTS, 0, 1_000, 0), 0)
        of.fetcher.allow(before, range(0, 10))
        of.fetcher.drain(before, 10)
        of.open(20, 25)
        of.open(400, 410)
        assert sorted(of.taken(10) + of.taken(25)) == [*range(10), *range(20, 25)]
        assert positions[:2] == [0, 20]
        after = of.fetcher.open(Claim(key, EVENTS, 0, 2_000, 10), 10)
        of.fetcher.allow(after, range(10, 30))
        assert of.taken(30) == [*range(10, 30)]
        of.fetcher.drop(after)
        kafka.produce(EVENTS, 380)
        assert of.taken(410) == [*range(400, 410)]


def test_ranges_go_before_an_exclusive_tenure_that_was_opened_later() -> None:
    of = Ranges(kafka_of(30))
    positions = assigned(of)
    of.open(20, 25)
    key = ClaimKey("g", EVENTS, 0)
    after = of.fetcher.open(Claim(key, EVENTS, 0, 2_000, 0), 0)
    of.fetcher.allow(after, range(0, 10))
    of.fetcher.start()
    assert of.taken(10) == [*range(20, 25), *range(10)]
    assert positions == [20, 0]
    of.close()


def test_a_lower_range_that_is_opened_while_a_fetch_is_on_its_way_misses_nothing() -> None:
    kafka = kafka_of(500)
    with ranges(kafka) as of:
        lower: list[FetchedPartition] = []

        def opens(found: list[Fetched]) -> None:
            if not lower:
                lower.append(of.open(100, 150))

        kafka.fetching = opens
        of.open(400, 500)
        assert sorted(of.taken(150)) in ([*range(100, 150)], [*range(100, 150), *range(400, 500)])


# --- beyond the end -------------------------------------------------------------------------------


def test_a_range_beyond_the_end_is_handed_over_when_its_messages_are_there() -> None:
    with ranges(kafka_of(10)) as of:
        of.open(10, 20)
        assert of.chunk(within_s=0.1) is None
        for offset in range(10, 20):
            of.kafka.produce(EVENTS, 1)
            assert offsets(of.chunk()) == [offset]
        assert of.notes == []


def test_a_range_far_beyond_the_end_waits_and_costs_no_error() -> None:
    with ranges(kafka_of(10)) as of:
        of.open(5_000, 5_010)
        until(lambda: of.fetcher._ranges.shared[EVENTS, 0].next == 10)  # idle, so it follows
        assert of.chunk(within_s=0.1) is None
        of.kafka.produce(EVENTS, 4_989)
        assert of.chunk(within_s=0.1) is None
        of.kafka.produce(EVENTS, 2)
        assert offsets(of.chunk()) == [5_000]
        of.kafka.produce(EVENTS, 1_000)
        assert of.taken(5_010) == [*range(5_001, 5_010)]
        assert of.notes == []


def test_what_lies_before_a_range_is_not_fetched_where_much_arrives() -> None:
    kafka = kafka_of(10)
    with ranges(kafka) as of:
        fetched: list[int] = []
        kafka.fetching = lambda found: fetched.extend(
            offset_of(one) for one in found if one.error() is None
        )
        of.open(8_000, 8_100)
        until(lambda: of.fetcher._ranges.shared[EVENTS, 0].next is not None)
        for _ in range(399):
            kafka.produce(EVENTS, 20)
            assert of.chunk(within_s=0.001) is None
        kafka.produce(EVENTS, 200)
        assert of.taken(8_100) == [*range(8_000, 8_100)]
        assert sum(offset < 8_000 for offset in fetched) < 2_000


# --- given back -----------------------------------------------------------------------------------


def test_nothing_at_or_above_a_cut_is_handed_over() -> None:
    with ranges(kafka_of(100)) as of:
        one = of.open(0, 50)
        assert of.chunk(10).end == 10
        assert of.fetcher.cut(one, 20) == 10
        assert of.taken(20) == [*range(10, 20)]
        assert of.chunk(within_s=0.05) is None


def test_a_cut_below_what_was_handed_over_ends_the_range_there() -> None:
    with ranges(kafka_of(100)) as of:
        one = of.open(0, 50)
        of.open(60, 70)
        assert of.chunk(10).end == 10
        assert of.fetcher.cut(one, 0) == 10
        assert of.taken(70) == [*range(60, 70)]


def test_a_cut_before_anything_came_goes_on_with_the_next_range() -> None:
    kafka = kafka_of(0)
    with ranges(kafka) as of:
        one, two = of.open(0, 50), of.open(50, 60)
        assert of.fetcher.cut(one, 5) == 0
        assert of.fetcher.cut(one, 30) == 0  # a later one takes nothing back
        assert of.fetcher.cut(two, 99) == 50  # and none makes a range longer
        kafka.produce(EVENTS, 100)
        assert of.taken(60) == [*range(0, 5), *range(50, 60)]
        assert two.fetched == 60


def test_a_cut_range_ends_where_there_are_no_messages() -> None:
    """Of what lies below the cut, nothing is left out, and the end of the range is reached."""
    kafka = kafka_of(40)
    kafka.compact(EVENTS, 0, 30)  # all have the same key: 0 to 28 are gone
    with ranges(kafka) as of:
        one = of.open(0, 50)
        until(lambda: of.fetcher.buffered(one)[0] == 11)
        of.fetcher.cut(one, 20)
        assert of.taken(20) == []
        assert of.fetcher.buffered(one) == (0, 0)


def test_a_cut_and_a_take_at_once_agree_on_what_is_in_hand() -> None:
    """What `cut` returns is what was taken, to the offset, in whichever order they come."""
    kafka = kafka_of(2_000)
    with ranges(kafka) as of:
        for begin in range(0, 2_000, 100):
            one = of.open(begin, begin + 100)
            until(lambda one=one: of.fetcher.buffered(one)[0] == 100)  # type: ignore[misc]
            reached: list[int] = []

            def cut(one: FetchedPartition = one, reached: list[int] = reached) -> None:
                time.sleep(0.0002)
                reached.append(of.fetcher.cut(one, 0))

            cutting = threading.Thread(target=cut)
            cutting.start()
            got: list[int] = []
            while (chunk := of.chunk(1, 0.01)) is not None:
                got += offsets(chunk)
            cutting.join()
            assert got == [*range(begin, reached[0])]
            of.fetcher.drop(one)


def test_what_is_taken_and_cut_is_still_given_out_also_after_its_turn() -> None:
    """`cut` returned that it is in hand, so its holder has not given it back."""
    kafka = kafka_of(100, partitions=2)
    with ranges(kafka) as of:
        one = of.open(0, 50)
        in_flight = InFlight(of.chunk(20), threading.Lock())
        assert of.fetcher.cut(one, 5) == 20
        assert of.fetcher.keeps(one, in_flight)
        assert next(in_flight.taking).offset == 0
        other = of.open(0, 10, partition=1)
        until(lambda: of.fetcher.buffered(other)[0] == 10)
        of.fetcher.give_back(one, in_flight)
        got = [of.chunk(), of.chunk()]
        assert sorted((each.key.partition, each.start, each.end) for each in got) == [
            (0, 1, 20),
            (1, 0, 10),
        ]


def test_what_is_taken_and_cut_is_handed_over_again_after_a_pause() -> None:
    with ranges(kafka_of(100)) as of:
        one = of.open(0, 50)
        in_flight = InFlight(of.chunk(20), threading.Lock())
        of.fetcher.pause(one)
        assert of.fetcher.cut(one, 5) == 20
        assert not of.fetcher.keeps(one, in_flight)
        of.fetcher.resume(one)
        assert of.taken(20) == [*range(20)]


def test_a_dropped_range_hands_nothing_over_and_the_next_is_fetched() -> None:
    with ranges(kafka_of(100)) as of:
        one = of.open(0, 50)
        until(lambda: of.fetcher.buffered(one)[0] == 50)
        of.open(50, 60)
        assert of.fetcher.drop(one) == 50
        assert of.taken(60) == [*range(50, 60)]
        assert of.fetcher.cut(one, 10) == 0


def test_a_paused_range_goes_on_where_it_was() -> None:
    with ranges(kafka_of(100)) as of:
        one = of.open(10, 30)
        assert of.chunk(5).end == 15
        of.fetcher.pause(one)
        of.open(40, 50)
        assert of.taken(50) == [*range(40, 50)]
        of.fetcher.resume(one)
        assert of.taken(30) == [*range(15, 30)]


def test_a_range_that_was_paused_is_still_in_turn_with_the_others() -> None:
    with ranges(kafka_of(100)) as of:
        one, two = of.open(0, 10), of.open(10, 20)
        of.fetcher.pause(one)
        until(lambda: of.fetcher.buffered(two)[0] == 10)
        of.fetcher.resume(one)
        until(lambda: of.fetcher.buffered(one)[0] == 10)
        assert [of.chunk(5).start for _ in range(4)] == [0, 5, 10, 15]


def test_a_range_is_given_again_from_a_seek_and_no_further_than_its_end() -> None:
    with ranges(kafka_of(100)) as of:
        one = of.open(10, 30)
        assert of.taken(30) == [*range(10, 30)]
        of.fetcher.seek(one, 20)
        assert of.taken(30) == [*range(20, 30)]
        assert of.chunk(within_s=0.05) is None


# --- offsets without a message --------------------------------------------------------------------


def test_the_next_range_is_fetched_where_an_aborted_transaction_ends_one() -> None:
    kafka = kafka_of(5)
    transaction = Transaction()
    for _ in range(3):
        kafka.append(EVENTS, 0, b"never", transaction=transaction)
    kafka.end_transaction(transaction, commit=False)  # 5, 6, 7, and its marker is 8
    with ranges(kafka) as of:
        of.open(0, 9)
        of.open(9, 12)
        assert of.taken(9) == [*range(5)]
        kafka.produce(EVENTS, 3)
        assert of.taken(12) == [9, 10, 11]


def test_compacted_offsets_around_the_ends_of_ranges_are_passed_over() -> None:
    kafka = kafka_of(40)
    kafka.compact(EVENTS, 0, 30)  # 0 to 28 are gone
    with ranges(kafka) as of:
        of.open(0, 10)
        of.open(10, 20)
        of.open(25, 35)
        assert of.taken(10) == of.taken(20) == []
        assert of.taken(35) == [*range(29, 35)]


def test_messages_that_are_gone_are_reported_of_each_range_and_passed_over() -> None:
    kafka = kafka_of(100)
    kafka.delete_records(EVENTS, 0, 55)
    with ranges(kafka) as of:
        of.open(0, 20)
        of.open(30, 60)
        assert of.taken(20) == []
        assert of.taken(60) == [*range(55, 60)]
        assert of.gone == [(1, 0, Watermarks(20, 100)), (2, 30, Watermarks(55, 100))]
        assert of.notes == []


def test_retention_passes_over_a_range_that_is_being_fetched() -> None:
    kafka = kafka_of(100)
    with ranges(kafka, BufferLimits(messages=10)) as of:
        one = of.open(0, 5_000)
        until(lambda: of.fetcher._ranges.shared[EVENTS, 0].full)
        kafka.produce(EVENTS, 1_000)
        kafka.delete_records(EVENTS, 0, 1_050)
        assert of.taken(1_100) == [*range(100), *range(1_050, 1_100)]
        assert of.gone == [(1, 100, Watermarks(1_050, 1_100))]
        assert one.fetched == 1_100


# --- the partition changes ------------------------------------------------------------------------


def test_a_range_waits_where_its_partition_has_lost_its_end() -> None:
    kafka = kafka_of(100)
    with ranges(kafka) as of:
        of.open(90, 200)
        assert of.taken(100) == [*range(90, 100)]
        kafka.truncate(EVENTS, 0, 50)
        until(lambda: of.ends[-1:] == [50])
        kafka.produce(EVENTS, 60)
        assert of.taken(110) == [*range(100, 110)]
        assert of.gone == []
        assert of.notes == [
            "events/0: the partition ends at 50, and ended at 100: it lost its end, or is another "
            "topic by the same name"
        ]


def test_a_range_waits_where_its_topic_is_made_anew() -> None:
    kafka = kafka_of(100)
    with ranges(kafka) as of:
        of.open(90, 200)
        assert of.taken(100) == [*range(90, 100)]
        kafka.delete(EVENTS)
        kafka.create(EVENTS, messages=1)
        until(lambda: of.ends[-1:] == [1])
        kafka.produce(EVENTS, 109)
        assert of.taken(110) == [*range(100, 110)]


def test_a_range_is_handed_over_after_its_leader_was_away() -> None:
    kafka = kafka_of(100)
    with ranges(kafka) as of:
        kafka.link(DOWN)
        of.open(5_000, 5_010)
        until(lambda: of.fetcher._ranges.shared[EVENTS, 0]._failures > 1)
        kafka.link(UP)
        kafka.produce(EVENTS, 5_000)
        assert of.taken(5_010) == [*range(5_000, 5_010)]


# --- buffers --------------------------------------------------------------------------------------


def test_ranges_of_a_partition_share_the_bounds_of_one_buffer() -> None:
    with ranges(kafka_of(400), BufferLimits(messages=100)) as of:
        opened = [of.open(begin, begin + 40) for begin in range(0, 400, 40)]
        shared = of.fetcher._ranges.shared[EVENTS, 0]
        until(lambda: shared.full)
        assert [of.fetcher.buffered(one)[0] for one in opened] == [40, 40, 40, *7 * [0]]
        first = offsets(of.chunk())
        assert of.fetcher._ranges._too_much(shared)  # until half of it is free
        assert first + of.taken(400) == [*range(400)]


def test_no_buffer_keeps_messages_beyond_the_end_of_its_range() -> None:
    with ranges(kafka_of(100, partitions=2)) as of:
        opened = [of.open(0, 10, partition) for partition in (0, 1)]
        until(lambda: all(one.fetched == 10 for one in opened))
        assert [of.fetcher.buffered(one)[0] for one in opened] == [10, 10]


def test_a_shared_partition_that_is_full_holds_up_no_other() -> None:
    kafka = kafka_of(0, partitions=2)
    with ranges(kafka, BufferLimits(messages=10)) as of:
        of.open(0, 1_000)
        kafka.produce(EVENTS, 500)
        until(lambda: of.fetcher._ranges.shared[EVENTS, 0].full)
        two = of.open(0, 5, partition=1)
        kafka.produce(EVENTS, 5, partition=1)
        until(lambda: of.fetcher.buffered(two)[0] == 5)
        full = of.fetcher._of_partition[EVENTS, 0]
        assert [one.full_since_s for one in full] == [None]


# --- the end --------------------------------------------------------------------------------------


def test_the_end_is_reported_when_it_moves_while_something_is_fetched() -> None:
    kafka = kafka_of(10)
    with ranges(kafka) as of:
        of.open(0, 100)
        until(lambda: of.ends == [10])
        kafka.produce(EVENTS, 5)
        until(lambda: of.ends == [10, 15])


def test_what_was_recalled_is_handed_over_when_it_is_allowed_anew() -> None:
    kafka = Kafka()
    kafka.create(EVENTS, messages=6)
    with ranges(kafka) as one:
        range_ = one.open(0, 10)
        assert one.taken(2, maximum=2) == [0, 1]
        assert one.fetcher.recall(range_) == 2
        kafka.produce(EVENTS, 2)
        assert one.chunk(within_s=0.3) is None
        one.fetcher.allow(range_, range(2, 10))
        assert one.taken(8) == [2, 3, 4, 5, 6, 7]


def test_the_end_is_known_from_a_fetch_that_brought_a_part_of_what_is_there() -> None:
    kafka = kafka_of(10)
    asked: list[str] = []
    with ranges(kafka) as of:
        of.open(0, 200)
        until(lambda: of.ends == [10])
        kafka.asked = asked.append
        kafka.produce(EVENTS, 500)
        assert of.taken(200) == [*range(200)]
        until(lambda: of.ends == [10, 510])
        assert asked == []


def test_a_poll_ends_when_the_end_is_to_be_looked_at() -> None:
    of = Ranges(kafka_of(10))
    of.open(0, 10)
    assert of.fetcher._poll_s == SHARED_POLL_S
    of.fetcher._ranges.shared[EVENTS, 0].due_s = of._monotonic()
    assert of.fetcher._poll_s < SHARED_POLL_S
    of.close()


def test_where_nothing_is_fetched_no_poll_is_waited_for() -> None:
    with ranges(kafka_of(100)) as of:
        one = of.open(0, 10)
        until(lambda: of.fetcher.buffered(one)[0] == 10 and not of.fetcher._fetches)
        client, waited = of.fetcher._consumer, list[float]()
        assert isinstance(client, InMemoryConsumer)
        poll = client.poll

        def noted(timeout: float = -1) -> Fetched | None:
            waited.append(timeout)
            return poll(timeout)

        client.poll = noted  # type: ignore[method-assign]
        until(lambda: len(waited) > 3)
        assert {*waited[1:]} == {0.0}  # the first may have begun before
        two = of.open(50, 60)
        until(lambda: of.fetcher.buffered(two)[0] == 10)


def test_the_end_of_a_watched_partition_is_reported_without_ranges() -> None:
    kafka = kafka_of(10)
    asked: list[str] = []
    kafka.asked = asked.append
    with ranges(kafka) as of:
        of.fetcher.watch_end(EVENTS, 0)
        until(lambda: of.ends == [10])
        kafka.produce(EVENTS, 5)
        until(lambda: of.ends == [10, 15])
        of.fetcher.watch_end(EVENTS, 0, watched=False)
        until(lambda: of.fetcher._ranges.shared[EVENTS, 0].due_s is None)
        assert 2 <= len(asked) < 10


def made_of(of: Ranges) -> str | None:
    client = of.fetcher._consumer
    assert isinstance(client, InMemoryConsumer)
    found = client._made_of.get("queued.min.messages")
    assert found is None or isinstance(found, str)
    return found


def test_the_client_is_set_for_ranges_before_it_has_fetched_anything() -> None:
    """Else it would fetch what others of the group have claimed, too."""
    kafka = kafka_of(20)
    with ranges(kafka) as of:
        before = made_of(of)
        of.fetcher.share()
        of.open(5, 10)
        assert of.taken(10) == [*range(5, 10)]
        assert (before, made_of(of)) == (None, "50")


def test_a_client_that_has_fetched_a_partition_stays_as_it_is() -> None:
    kafka = kafka_of(20)
    with ranges(kafka) as of:
        of.open(0, 5)
        assert of.taken(5) == [*range(5)]
        of.fetcher.share()
        of.open(5, 10)
        assert of.taken(10) == [*range(5, 10)]
        assert made_of(of) is None
