"""At most once: what was granted is processed, or reported; one batch of a tenure at a time."""

from __future__ import annotations

import threading

import pytest

from kafka_marshal.admin.fold import ClaimsFold
from kafka_marshal.admin.receipts import Receipt, Receipts
from kafka_marshal.client.api.consumer import Claiming
from kafka_marshal.codec import decode, decode_headers
from kafka_marshal.core.messages import ClaimingMessages, Message, Record, ReleasingPartition
from tests.client.doubles import LANDS, LANDS_UNKNOWN, LOST, Append, Kafka, until

AMO = "at_most_once"
STALE_MS = 120_000
Range = tuple[int, int, str]


def receipts(
    kafka: Kafka, records: int | None = None, partition: int | None = None
) -> list[Receipt]:
    """What the log says, or its beginning, when every owner has been silent for long."""
    fold, found = ClaimsFold(0), Receipts("g", "events")
    stored = kafka.records()[:records]
    for offset, one in enumerate(stored):
        headers = decode_headers(one.headers)
        record = Record(0, offset, one.timestamp_ms, decode(one.value), headers)
        found.read(record, fold.apply(record))
    later = stored[-1].timestamp_ms + 10 * STALE_MS if stored else 0
    return found.receipts(later, STALE_MS)


def ranges(found: list[Receipt]) -> list[Range]:
    return [(one.start or 0, one.end, one.ended_by) for one in found]


def abandoned(log: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in log.records if getattr(each, "event", "") == "abandoned"]


class Broken(Exception):
    pass


@pytest.mark.parametrize("way", ["exception", "break", "close"])
def test_the_rest_of_a_batch_is_reported_by_a_warning_and_a_receipt(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was lost in silence, and receipts showed nothing that may have been lost."""
    kafka = Kafka()
    kafka.create("events", messages=4)
    processed = []
    try:
        with kafka.consumer(semantics=AMO) as consumer:
            consumer.add_topic("events")
            for message in consumer:
                if message.offset == 2:
                    if way == "exception":
                        raise Broken
                    if way == "break":
                        break
                    consumer.close()
                    break
                processed.append(message.offset)
    except Broken:
        pass
    assert processed == [0, 1]
    assert ranges(receipts(kafka)) == [(2, 4, "released")]
    [warning] = abandoned(caplog)
    assert "messages 2 to 3 were granted and are not known to be processed" in warning


def test_what_was_committed_is_not_reported() -> None:
    kafka = Kafka()
    kafka.create("events", messages=4)
    with kafka.consumer(semantics=AMO) as consumer:
        consumer.add_topic("events")
        for _ in consumer.batches():
            consumer.ack()
            break
    assert receipts(kafka) == []
    [release] = kafka.said(ReleasingPartition)
    assert release.offset == 4


def test_what_was_granted_and_never_taken_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    kafka = Kafka()
    kafka.create("events", partitions=3, messages=4)
    with kafka.consumer(semantics=AMO) as consumer:
        consumer.add_topic("events")
        until(lambda: len(kafka.said(ClaimingMessages)) == 3)
        assert consumer.poll(10.0) is not None
    assert ranges(receipts(kafka)) == [(0, 4, "released")] * 3
    assert len(abandoned(caplog)) == 3


def test_what_is_granted_after_the_consumer_was_closed_is_reported() -> None:
    """The claim is freed at once, and the grant is still on its way."""
    kafka = Kafka()
    kafka.create("events", messages=4)
    with kafka.consumer(semantics=AMO) as consumer:

        def appends(message: Message) -> Append:
            if isinstance(message, ClaimingMessages):
                kafka.hold_log()
            return LANDS

        kafka.appends = appends
        consumer.add_topic("events")
        until(lambda: kafka.said(ClaimingMessages))
        closing = threading.Thread(target=consumer.close)
        closing.start()
        until(lambda: kafka.said(ReleasingPartition))
        kafka.flow()
        closing.join(20)
        assert not closing.is_alive()
    assert ranges(receipts(kafka)) == [(0, 4, "released")]


def test_a_failure_of_the_consumer_reports_what_it_had(caplog: pytest.LogCaptureFixture) -> None:
    kafka = Kafka()
    kafka.create("events", messages=4)
    with kafka.consumer(semantics=AMO) as consumer:
        consumer.add_topic("events")
        assert consumer.poll(10.0) is not None
        consumer._coordinator.failed(Broken("the disk is full"))
        until(lambda: abandoned(caplog))
    assert ranges(receipts(kafka)) == [(0, 4, "silent")]


def test_one_batch_of_a_partition_is_outstanding_whatever_is_fetched_meanwhile() -> None:
    """What was fetched between a request and its grant was asked for at once, beside the first."""
    kafka = Kafka()
    kafka.create("events", messages=2)
    with kafka.consumer(semantics=AMO, claiming=Claiming(transactions_per_s=2_000)) as consumer:

        def appends(message: Message) -> Append:
            if isinstance(message, ClaimingMessages):
                kafka.hold_log()
            return LANDS

        kafka.appends = appends
        consumer.add_topic("events")
        until(lambda: kafka.said(ClaimingMessages))
        kafka.appends = lambda _: LANDS
        [claim] = consumer.claims
        held = consumer._coordinator.loop.session.member._held[claim.key]
        kafka.produce("events", 2)
        until(lambda: held.end == 4)  # the machine has heard that they were fetched
        # By the claim of another partition the grant was read.
        kafka.create("others")
        consumer.add_topic("others")
        kafka.flow()
        until(lambda: len(consumer.claims) == 2)
        assert [each.offset for each in kafka.said(ClaimingMessages)] == [2]
        batches = consumer.batches()
        assert len(next(batches).messages) == 2
        assert len(next(batches).messages) == 2
        assert [each.offset for each in kafka.said(ClaimingMessages)] == [2, 4]


def test_after_a_kill_at_any_point_receipts_list_all_that_was_not_processed() -> None:
    """And at most one batch of a tenure."""
    kafka = Kafka()
    kafka.create("events", messages=20)
    done_at = [0]
    """How long the log was when each batch was done, so that much later the process was killed."""
    with kafka.consumer(semantics=AMO, batch=4) as consumer:
        consumer.add_topic("events")
        for batch in consumer.batches():
            assert len(batch.messages) == 4
            done_at += [len(kafka.records())] * 4
            consumer.ack()
            if len(done_at) > 20:
                break
    release = len(kafka.records())
    for records in range(1, release):
        position = 0
        for one in kafka.records()[:records]:
            message = decode(one.value)
            if isinstance(message, ClaimingMessages):
                position = message.offset
        processed = sum(at <= records for at in done_at[1:])
        listed = ranges(receipts(kafka, records))
        assert len(listed) <= 1
        for begin, end, _ in listed:
            assert end - begin <= 4
        unprocessed = set(range(processed, position))
        assert unprocessed <= {n for begin, end, _ in listed for n in range(begin, end)}


def test_what_is_in_hand_when_the_topics_head_overtakes_it_is_still_in_hand(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The claim went on to what is left as if the batch were done, and receipts listed that."""
    kafka = Kafka()
    kafka.create("events", messages=4)
    with kafka.consumer(semantics=AMO, batch=4) as consumer:
        consumer.add_topic("events")
        assert consumer.poll(10.0) is not None
        with kafka.changed:
            kafka.produce("events", 20)
            kafka.topics["events"][0].low = 20
        until(lambda: "4 to 19 are gone" in caplog.text)
        consumer._coordinator.call(lambda: None)
        assert [each.offset for each in kafka.said(ClaimingMessages)] == [4]
        consumer.stop()
    assert ranges(receipts(kafka)) == [(0, 4, "released")]


def test_a_grant_that_is_read_after_its_claim_was_given_back_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody knew whether its request had landed; it ended the consumer."""
    kafka = Kafka()
    kafka.create("events", messages=4)
    with kafka.consumer(semantics=AMO) as consumer:

        def appends(message: Message) -> Append:
            if not isinstance(message, ClaimingMessages):
                return LANDS
            kafka.hold_log()
            return LOST if kafka.said(ClaimingMessages) else LANDS_UNKNOWN

        kafka.appends = appends
        consumer.add_topic("events")
        until(lambda: kafka.said(ClaimingMessages))
        [key] = [claim.key for claim in consumer.claims]
        coordinator = consumer._coordinator
        held = coordinator.ownership
        coordinator.call(lambda: held.carry_out(held.session.member.release(key, held.now_ms)))
        until(lambda: kafka.said(ReleasingPartition))
        kafka.flow()
        until(lambda: abandoned(caplog))
        coordinator.raise_failure()
    assert ranges(receipts(kafka))[0] == (0, 4, "released")
