"""Two heartbeat intervals in one group: the newcomer stops and says why, the holders go on."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest

from kafka_marshal.admin.view import View
from kafka_marshal.client.api.consumer import Consumer, IntervalMismatch
from kafka_marshal.codec import decode, decode_headers
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Headers,
    Heartbeat,
    Offset,
    Partition,
)
from kafka_marshal.core.state import FENCED
from kafka_marshal.errors import InvalidOption, MarshalError
from tests.client.doubles import LOG, Kafka, until

ALO, AMO = "at_least_once", "at_most_once"


def intervals_in(kafka: Kafka) -> set[tuple[type[object], int | None]]:
    """What claims and heartbeats in the log say of their sender's interval."""
    decoded = [(decode(one.value), decode_headers(one.headers)) for one in kafka.records()]
    return {
        (type(message), headers.interval_ms)
        for message, headers in decoded
        if isinstance(message, ClaimingPartition | Heartbeat)
    }


def later(kafka: Kafka, seconds: float) -> None:
    """Time passes for everybody."""
    kafka.advance(seconds)


def take(consumer: Consumer, number: int) -> list[int]:
    found: list[int] = []
    while len(found) < number and (message := consumer.poll(5.0)) is not None:
        found.append(message.offset)
        consumer.ack(message)
    return found


def test_claims_and_heartbeats_say_the_interval_of_their_sender() -> None:
    kafka = Kafka()
    kafka.create("events", messages=1)
    with kafka.consumer(heartbeat_interval_s=4.25) as consumer:
        consumer.add_topic("events")
        assert take(consumer, 1) == [0]
        until(lambda: kafka.said(Heartbeat))
    assert intervals_in(kafka) == {(ClaimingPartition, 4250), (Heartbeat, 4250)}


def test_an_interval_that_is_not_whole_milliseconds_is_refused() -> None:
    """The log could not say it, so nobody could tell that another one differs."""
    says = r"heartbeat_interval_s must be a whole number of milliseconds, not 4\.0005"
    with pytest.raises(MarshalError, match=says), Kafka().consumer(heartbeat_interval_s=4.0005):
        pass


@pytest.mark.parametrize("semantics", [ALO, AMO])
def test_a_newcomer_with_another_interval_processes_nothing_and_says_who_differs(
    semantics: str,
) -> None:
    """After 25 s of silence an owner was dead to the one, and alive to the other: both had it."""
    kafka = Kafka()
    kafka.create("events", messages=8)
    done: Counter[int] = Counter()
    options = {"semantics": semantics, "window": 4, "batch": 4}
    with kafka.consumer("holder", heartbeat_interval_s=60.0, **options) as holder:
        holder.add_topic("events")
        done.update(take(holder, 4))
        kafka.hold_log()
        later(kafka, 25.0)
        kafka.flow()
        with kafka.consumer("newcomer", heartbeat_interval_s=10.0, **options) as newcomer:
            newcomer.add_topic("events")
            assert newcomer.poll(0.5) is None
            later(kafka, 30.0)
            with pytest.raises(IntervalMismatch, match=r"client holder .* 60 s.* 10 s"):
                done.update(take(newcomer, 8))
        kafka.produce("events", 8)
        done.update(take(holder, 12))
    assert done == Counter(range(16))


def sentences(kafka: Kafka, interval_ms: int) -> list[str]:
    rules = attrs.evolve(FENCED, heartbeat_interval_ms=interval_ms)
    with View(kafka.settings(), LOG, rules) as view:
        return view.read().interval_mismatches()


def test_a_view_judges_a_group_by_the_interval_that_its_log_says() -> None:
    kafka = Kafka()
    kafka.create("events", messages=1)
    with kafka.consumer("holder", heartbeat_interval_s=10.0) as holder:
        holder.add_topic("events")
        assert take(holder, 1) == [0]
        until(lambda: kafka.said(Heartbeat))
        assert sentences(kafka, 60_000) == []
        with View(kafka.settings(), LOG) as view:
            [row] = view.read().rows(0)
            last_ms = row.last_heartbeat_ms
            assert last_ms is not None
            assert [row.state for row in view.rows(last_ms + 20_000)] == ["owned"]
            assert [row.state for row in view.rows(last_ms + 20_001)] == ["stale"]
            with pytest.raises(InvalidOption, match=r"g says 10s in the log .*, not 60s"):
                view.check_interval()
        with View(
            kafka.settings(), LOG, attrs.evolve(FENCED, heartbeat_interval_ms=10_000)
        ) as same:
            same.read().check_interval()
    assert (row.heartbeat_interval_ms, row.intervals_ms) == (10_000, (10_000,))


def test_a_view_names_a_group_that_lives_under_two_intervals() -> None:
    """They were let in by versions before 0.2.0, or came at once on different partitions."""
    kafka = Kafka()
    for partition, (client, interval_ms) in enumerate((("a", 10_000), ("b", 60_000))):
        about = (1, 0, f"{client}1", client, "g", "events", Partition(partition))
        said = Headers(True, interval_ms=interval_ms)
        epoch = kafka.says(ClaimingPartition(*about), said)
        kafka.says(Heartbeat(*about, Offset(0)), attrs.evolve(said, epoch=epoch))
    [told] = sentences(kafka, 10_000)
    assert told.startswith(
        "group g has 2 heartbeat intervals (client a says 10 s, client b says 60 s)"
    )


@pytest.mark.parametrize("semantics", [ALO, AMO])
def test_a_group_that_was_closed_goes_on_at_once_under_another_interval(semantics: str) -> None:
    """How the interval of a running group is changed (docs/client.md)."""
    kafka = Kafka()
    kafka.create("events", messages=4)
    options = {"semantics": semantics, "window": 4, "batch": 4}
    with kafka.consumer("a", heartbeat_interval_s=60.0, **options) as before:
        before.add_topic("events")
        assert take(before, 4) == [0, 1, 2, 3]
    # Not before: at most once it would ask for them, and who is closed abandons what is granted.
    kafka.produce("events", 4)
    with kafka.consumer("b", heartbeat_interval_s=10.0, **options) as after:
        after.add_topic("events")
        assert take(after, 4) == [4, 5, 6, 7]
