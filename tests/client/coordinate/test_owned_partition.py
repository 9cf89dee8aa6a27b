"""What belongs to one tenure of a claim never reaches another: fetches, grants, what is in hand."""

from __future__ import annotations

import threading
from collections import deque

import pytest
from confluent_kafka import Message as Fetched

from kafka_marshal.client.api.consumer import Claim, ClaimLost, Consumer, Lost, Message, Observer
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.observe.health import ClaimProgress
from kafka_marshal.core.messages import ClaimingMessages, Partition, ReleaseGroup
from tests.client.doubles import LOG, Kafka, until

ALO, AMO = "at_least_once", "at_most_once"


def release_group(kafka: Kafka) -> None:
    """An administrator ends every claim of the group, and pauses nothing."""
    kafka.says(ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), 1))


def won_again(consumer: Consumer, before: Claim) -> bool:
    return any(claim.epoch > before.epoch for claim in consumer.claims)


def offsets_of(consumer: Consumer, number: int) -> list[int]:
    """The next messages, each done before the next is asked for."""
    found: list[int] = []
    while len(found) < number and (message := consumer.poll(5.0)) is not None:
        found.append(message.offset)
        consumer.ack(message)
    return found


def fetch_on_its_way(kafka: Kafka, messages: int) -> threading.Event:
    """Fetch this number of further messages per partition; they arrive when the event is set."""
    on_its_way, arrives = threading.Event(), threading.Event()
    partitions = kafka.topics["events"]
    begin = partitions[0].high

    def fetching(batch: list[Fetched]) -> None:
        if any(message.error() is None and (message.offset() or 0) >= begin for message in batch):
            kafka.fetching = lambda _: None
            on_its_way.set()
            assert arrives.wait(20)

    kafka.fetching = fetching
    for partition in range(len(partitions)):
        kafka.produce("events", messages, partition)
    assert on_its_way.wait(20)
    return arrives


@pytest.mark.parametrize("semantics", [ALO, AMO])
def test_a_fetch_for_a_lost_tenure_never_enters_the_next_one(semantics: str) -> None:
    """It came between `lost` and the next fetch, and all messages below it were passed over."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer(semantics=semantics) as consumer:
        consumer.add_topic("events")
        first = consumer.poll(10.0)
        assert first is not None
        assert first.offset == 0

        arrives = fetch_on_its_way(kafka, 10)
        release_group(kafka)
        until(lambda: won_again(consumer, first.claim))
        arrives.set()
        # At least once nothing was committed. At most once the ten were granted, and are ours.
        begin = 0 if semantics == ALO else 1
        assert offsets_of(consumer, 20 - begin) == list(range(begin, 20))


def test_nothing_is_given_out_of_a_claim_that_says_that_it_is_lost() -> None:
    """The rest of the chunk was, until the engine had come to it."""
    told, polled = threading.Event(), threading.Event()

    def lost(claim: Claim, reason: Lost) -> None:
        assert claim.lost is reason
        told.set()
        assert polled.wait(20)

    observer = Observer()
    observer.lost = lost  # type: ignore[method-assign]
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer(observers=[observer]) as consumer:
        consumer.add_topic("events")
        first = consumer.poll(10.0)
        assert first is not None
        release_group(kafka)
        assert told.wait(20)
        assert consumer.poll(0.01) is None
        polled.set()
        again = consumer.poll(10.0)
        assert again is not None
        assert (again.offset, again.claim.owned) == (0, True)


def test_at_most_once_a_batch_in_hand_outlives_its_tenure() -> None:
    """To win again with a batch in hand ended the consumer, and lost what all its partitions held.

    It was fetched for the new tenure while it still was for the old one.
    """
    kafka = Kafka()
    kafka.create("events", partitions=2, messages=4)
    with kafka.consumer(semantics=AMO, batch=4) as consumer:
        consumer.add_topic("events")
        until(lambda: len(kafka.said(ClaimingMessages)) == 2)
        got: dict[int, list[int]] = {0: [], 1: []}
        batches = consumer.batches()
        first = next(batches)
        # The thread that fetches hears of the loss and of the new win together, and before the
        # application is done with anything.
        arrives = fetch_on_its_way(kafka, 4)
        release_group(kafka)
        until(lambda: sum(claim.epoch > first.claim.epoch for claim in consumer.claims) == 2)
        arrives.set()
        until(lambda: not consumer._fetcher._commands)
        batch = first
        while True:
            got[batch.claim.partition] += [message.offset for message in batch.messages]
            if sum(map(len, got.values())) == 16:
                break
            batch = next(batches)
    assert got == {0: [*range(8)], 1: [*range(8)]}


@pytest.mark.parametrize("paused", [False, True])
def test_at_most_once_a_lost_tenure_keeps_nothing_beyond_its_grant(paused: bool) -> None:
    """All that was fetched ahead stayed as long as the application had the batch in hand."""
    kafka = Kafka()
    kafka.create("events", messages=100)
    with kafka.consumer(semantics=AMO, batch=4) as consumer:
        consumer.add_topic("events")
        first = consumer.poll(10.0)
        assert first is not None
        [tenure] = consumer._coordinator.ownership._tenures
        until(lambda: consumer._fetcher.buffered(tenure.fetched)[0] == 99 - 3)
        if paused:
            consumer.pause("events")
        release_group(kafka)
        until(lambda: won_again(consumer, first.claim))
        if paused:
            consumer.resume("events")
            consumer.resume("events")
        until(lambda: not consumer._fetcher._commands)
        assert consumer._fetcher.buffered(tenure.fetched)[0] <= 3
        found = {True: [0], False: list[int]()}
        while len(found[True]) + len(found[False]) < 100:
            message = consumer.poll(10.0)
            assert message is not None
            found[message.claim is first.claim].append(message.offset)
            consumer.ack(message)
        assert found == {True: [*range(4)], False: [*range(4, 100)]}


def test_at_most_once_what_a_lost_tenure_is_granted_after_all_is_fetched_again() -> None:
    kafka = Kafka()
    kafka.create("events", messages=100)
    with kafka.consumer(semantics=AMO, batch=4) as consumer:
        consumer.add_topic("events")
        assert consumer.poll(10.0) is not None
        [tenure] = consumer._coordinator.ownership._tenures
        release_group(kafka)
        until(lambda: tenure.claim.lost is not None)
        until(lambda: consumer._fetcher.buffered(tenure.fetched)[0] <= 3)
        consumer._fetcher.allow(tenure.fetched, range(4, 8))
        until(lambda: consumer._fetcher.buffered(tenure.fetched)[0] >= 4)
        until(lambda: not consumer._fetcher._commands)
        assert consumer._fetcher.buffered(tenure.fetched)[0] <= 7


def test_at_most_once_what_was_granted_to_a_paused_partition_is_handed_over_later() -> None:
    kafka = Kafka()
    kafka.create("events", messages=8)
    with kafka.consumer(semantics=AMO, batch=4) as consumer:
        consumer.add_topic("events")
        first = consumer.poll(10.0)
        assert first is not None
        consumer.pause("events")
        release_group(kafka)
        until(lambda: won_again(consumer, first.claim))
        consumer.resume("events")
        # The new tenure was never paused, so either may be fetched first.
        assert sorted(offsets_of(consumer, 7)) == list(range(1, 8))


def test_a_lost_tenure_is_drained_also_where_the_claim_was_won_again_meanwhile() -> None:
    kafka = Kafka()
    kafka.create("events", messages=4)
    drained: deque[Claim] = deque()
    with kafka.consumer(on_drained=drained.append) as consumer:
        consumer.add_topic("events")
        first = consumer.poll(10.0)
        assert first is not None
        release_group(kafka)
        until(lambda: won_again(consumer, first.claim))
        assert not drained
        consumer.ack(first)
        until(lambda: list(drained) == [first.claim])


def test_what_is_taken_while_the_engine_looks_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`deque mutated during iteration` ended consumers: two threads share what is in hand.

    Here the application takes its third chunk exactly while the engine looks at the second.
    """
    armed, looks, taken = threading.Event(), threading.Event(), threading.Event()

    class Looked(InFlight):
        @property
        def finished(self) -> bool:
            engine = threading.current_thread().name == "marshal-coordinator"
            if engine and self.start == 10 and armed.is_set() and not looks.is_set():
                looks.set()
                assert taken.wait(20)
            return self._finished

        @finished.setter
        def finished(self, value: bool) -> None:
            self._finished = value

    class Waiting(Observer):
        """Ten messages wait: once that was reported twice they may be taken, too."""

        said = 0

        def standing(self, claim: Claim, standing: ClaimProgress) -> None:
            self.said += standing.buffered == 10
            if self.said == 2:
                armed.set()

    monkeypatch.setattr("kafka_marshal.client.api.delivery.InFlight", Looked)
    kafka = Kafka()
    kafka.create("events")
    with kafka.consumer(observers=[Waiting()]) as consumer:
        consumer.add_topic("events")
        for chunk in range(2):
            kafka.produce("events", 10)
            for number in range(10):
                message = consumer.poll(10.0)
                assert message is not None
                assert message.offset == 10 * chunk + number
        kafka.produce("events", 10)
        assert looks.wait(20)
        assert consumer.poll(10.0) is not None
        taken.set()
        consumer.commit()
        assert consumer.poll(10.0) is not None


def test_a_lost_tenure_is_drained_when_the_last_worker_is_done_with_it() -> None:
    """`run` never reported that: neither what it dropped nor what was in hand was let go."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    drained: deque[Claim] = deque()
    begun, dropped, finished = threading.Event(), threading.Event(), threading.Event()

    class Dropped(Observer):
        def dropped(self, claim: Claim, messages: int) -> None:
            dropped.set()

    def handler(_: Message) -> None:
        begun.set()
        assert finished.wait(20)

    with kafka.consumer(on_drained=drained.append, observers=[Dropped()]) as consumer:
        consumer.add_topic("events")
        running = threading.Thread(target=lambda: consumer.run(handler, workers=2))
        running.start()
        assert begun.wait(20)
        [first] = consumer.claims
        release_group(kafka)
        assert dropped.wait(20)
        assert not drained
        finished.set()
        until(lambda: list(drained) == [first])
        consumer.stop()
        running.join(20)


def test_what_is_done_while_others_hear_of_the_loss_counts_as_not_committed() -> None:
    """A commit of everything returned, and the log had less."""
    kafka = Kafka()
    kafka.create("events", messages=2)
    hears, done = threading.Event(), threading.Event()

    class Slow(Observer):
        def lost(self, claim: Claim, reason: Lost) -> None:
            hears.set()
            assert done.wait(20)

    with kafka.consumer(observers=[Slow()]) as consumer:
        consumer.add_topic("events")
        message = consumer.poll(10.0)
        assert message is not None
        release_group(kafka)
        assert hears.wait(20)
        consumer.ack(message)
        done.set()
        with pytest.raises(ClaimLost, match="done below 1, and in the log below 0"):
            consumer.commit()


def test_who_hears_that_a_claim_is_ours_may_ask_of_it() -> None:
    """Observers heard of it before `claims`, `position` and `committed` did."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    found: deque[tuple[list[Claim], int, int]] = deque()
    with kafka.consumer(observers=[observer := Observer()]) as consumer:

        def claimed(claim: Claim) -> None:
            position = consumer.position("events", 0)
            found.append((consumer.claims, position, consumer.committed("events", 0)))

        observer.claimed = claimed  # type: ignore[method-assign]
        consumer.add_topic("events")
        until(lambda: consumer.claims and consumer._fetcher._buffers.waits)
        assert list(found) == [(consumer.claims, 0, 0)]


def test_what_is_committed_of_a_claim_is_not_said_of_one_that_an_earlier_log_gave() -> None:
    """Both have epoch 0, as the log had lost its records."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        in_hand = consumer.poll(10.0)
        assert in_hand is not None
        with kafka.changed:
            kafka.topics[LOG][0].records.clear()
            kafka.wake()
        until(lambda: in_hand.claim.lost is Lost.LOG_LOST_RECORDS)
        kafka.clock.ahead_s += 1.0
        again = consumer.poll(10.0)
        assert again is not None
        consumer.commit(again)
    assert (again.epoch, again.claim.committed) == (0, 1)
    assert (in_hand.epoch, in_hand.claim.committed) == (0, 0)
