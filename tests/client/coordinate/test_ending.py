"""Marshal promises that a consumer ends when it should, as a whole, in plain words, and in time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_marshal.client.api.consumer import Claim, Consumer, Observer
from kafka_marshal.client.connect.admin_client import (
    ClusterClient,
    PartitionDescription,
    TopicDescription,
)
from kafka_marshal.client.connect.log_writer import LogWriter, OutcomeUnknown
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.coordinate import consumer_loop
from kafka_marshal.client.coordinate.consumer_loop import LogLost
from kafka_marshal.client.observe.health import LateHeartbeat
from kafka_marshal.core.messages import (
    NO_HEADERS,
    ClaimingPartition,
    Heartbeat,
    Partition,
    Record,
    ReleaseGroup,
)
from kafka_marshal.errors import BrokerFailed, ConsumerClosed, MarshalError
from kafka_marshal.machines.consumer.member import ClaimEffect, Member
from tests.client import forks
from tests.client.doubles import (
    LANDS,
    LANDS_SOMEWHERE,
    LANDS_UNHEARD,
    LOG,
    WITHIN_S,
    Append,
    Broken,
    Kafka,
    until,
)


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", partitions=1, messages=10)
    return kafka


HEARTBEAT = Heartbeat(1, 0, "i", "c", "g", "orders", Partition(0), 0)  # type: ignore[arg-type]

# --- no thread dies in silence --------------------------------------------------------------------


def test_an_append_that_is_confirmed_without_an_offset_is_an_append(kafka: Kafka) -> None:
    kafka.appends = lambda _: LANDS_SOMEWHERE
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        seen = []
        for message in consumer:
            seen.append(message.offset)
            if message.offset == 9:
                consumer.stop()
        assert seen == list(range(10))
        assert consumer.claims == []


def ends_by_itself(kafka: Kafka, name: str) -> None:
    until(lambda: not any(one.is_alive() for one in kafka.threads if one.name == name))


ENDS: dict[str, Callable[[Kafka, str], None]] = {
    "marshal-log": Kafka.ends_thread,
    "marshal-data": Kafka.ends_thread,
    "marshal-reader": Kafka.ends_thread,
    "marshal-metadata": ends_by_itself,
    "marshal-coordinator": Kafka.ends_thread,
    "marshal-callbacks": ends_by_itself,
}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_a_thread_ends_the_consumer_in_plain_words(
    kafka: Kafka, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = threading.Event()

    def on_claimed(_: object) -> None:
        if name == "marshal-callbacks":
            raise SystemExit("a callback that leaves")

    def described(*_: object) -> TopicDescription:
        if added.is_set() and threading.current_thread().name == "marshal-metadata":
            raise Broken("a wire is loose")
        return TopicDescription("orders", {0: PartitionDescription(1, (1,), (1,))}, None)

    if name == "marshal-metadata":
        monkeypatch.setattr(ClusterMetadata, "described", described)
    takers: list[Callable[[Consumer], object]] = [
        list,
        lambda consumer: consumer.poll(),
        lambda consumer: consumer.consume(),
        lambda consumer: list(consumer.batches()),
        lambda consumer: consumer.run(lambda _: None),
        lambda consumer: consumer.ack(),
        lambda consumer: consumer.commit(),
    ]
    with kafka.consumer(
        heartbeat_interval_s=0.2, metadata_refresh_s=0.01, on_claimed=on_claimed
    ) as consumer:
        consumer.add_topic("orders")
        added.set()
        if ENDS[name] is Kafka.ends_thread:
            until(lambda: consumer.claims)
        ENDS[name](kafka, name)
        for take in takers:
            with pytest.raises(
                MarshalError, match=f"group g.*thread {name}.*(loose|leaves)"
            ) as ended:
                take(consumer)
            assert isinstance(ended.value.__cause__, Broken | SystemExit)
    until(lambda: not any(thread.is_alive() for thread in kafka.threads))


def test_a_loop_that_waits_hears_at_once_what_ended_the_consumer(kafka: Kafka) -> None:
    kafka.create("empty")
    raised: list[BaseException] = []

    def loop(consumer: Consumer) -> None:
        try:
            list(consumer)
        except MarshalError as error:
            raised.append(error)

    with kafka.consumer() as consumer:
        consumer.add_topic("empty")
        thread = threading.Thread(target=loop, args=(consumer,))
        thread.start()
        until(lambda: consumer.claims)
        kafka.ends_thread("marshal-log")
        thread.join(WITHIN_S)
        assert "thread marshal-log" in str(raised[0])


# --- what is appended has an outcome --------------------------------------------------------------


def test_what_is_appended_before_or_after_the_logs_thread_died_has_an_outcome(
    kafka: Kafka,
) -> None:
    kafka.appends = lambda _: LANDS_UNHEARD
    heard: list[tuple[BaseException, str | None]] = []
    log = LogWriter(
        kafka.settings(), LOG, on_failure=lambda error: heard.append((error, log.failed))
    )
    before = log.append(0, HEARTBEAT, NO_HEADERS)
    kafka.ends_thread("marshal-log")
    after = log.append(0, HEARTBEAT, NO_HEADERS)
    for future in (before, after):
        with pytest.raises(BrokerFailed, match="a wire is loose"):
            future.result(WITHIN_S)
    assert isinstance(before.exception(), OutcomeUnknown)
    # Before anybody else can see it, and give another reason.
    [(error, failed)] = heard
    assert (type(error), failed) == (Broken, None)
    log.close()


def test_what_is_appended_to_a_log_that_is_closed_has_an_outcome(kafka: Kafka) -> None:
    log = LogWriter(kafka.settings(), LOG)
    log.close()
    with pytest.raises(BrokerFailed, match="it is closed"):
        log.append(0, HEARTBEAT, NO_HEADERS).result(WITHIN_S)


# --- a question to the cluster fails as BrokerFailed, or not at all -------------------------------

QUESTIONS: dict[str, Callable[[ClusterClient], object]] = {
    "brokers": lambda asked: asked.brokers(),
    "topics": lambda asked: asked.topics(),
    "topic": lambda asked: asked.topic("orders"),
    "topic_settings": lambda asked: asked.topic_settings("orders"),
    "create_topic": lambda asked: asked.create_topic("new", 1, 1, {}),
    "delete_topic": lambda asked: asked.delete_topic("orders"),
    "extents": lambda asked: asked.extents([("orders", 0)]),
    "all_extents": lambda asked: asked.all_extents([("orders", 0)]),
    "ends": lambda asked: asked.ends([("orders", 0)]),
    "offsets_at": lambda asked: asked.offsets_at([("orders", 0)], 0),
    "allowed_of_group": lambda asked: asked.allowed_of_group("g"),
    "commit": lambda asked: asked.commit("g", {("orders", 0): 1}),
}
UNKNOWN: dict[str, object] = {"extents": {}, "ends": {}, "allowed_of_group": None}
"""What these give where there is no answer."""


def test_every_question_is_asked_here() -> None:
    methods = {name for name in vars(ClusterClient) if not name.startswith("_")}
    assert methods == set(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "answer",
    [
        TimeoutError(),
        KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)),
        RuntimeError("nobody foresaw it"),
    ],
    ids=lambda answer: type(answer).__name__,
)
@pytest.mark.parametrize("when", ["asked", "answered"])
def test_whatever_a_question_meets_is_a_broker_that_failed(
    kafka: Kafka, question: str, answer: Exception, when: str
) -> None:
    def fails(_: str) -> None:
        kafka.clock.ahead_s += 60  # so nobody asks again
        raise answer

    asked = ClusterClient(kafka.settings())
    if when == "asked":
        kafka.asked = fails
    else:
        kafka.answers = fails
    try:
        assert QUESTIONS[question](asked) == UNKNOWN[question]
    except BrokerFailed as error:
        assert "in-memory:9092" in str(error)


def test_a_question_without_an_answer_does_not_end_the_consumer(kafka: Kafka) -> None:
    asked = threading.Event()

    def late(question: str) -> None:
        if question == "describe_topics":
            asked.set()
            raise TimeoutError

    with kafka.consumer(metadata_refresh_s=0.01) as consumer:
        consumer.add_topic("orders")
        kafka.answers = late
        assert asked.wait(WITHIN_S)
        kafka.clock.ahead_s += 60
        kafka.answers = lambda _: None
        kafka.create("orders", partitions=2, messages=10)
        until(lambda: len(consumer.claims) == 2)


# --- stop, commit and close -----------------------------------------------------------------------


def test_what_was_done_before_a_stop_may_be_committed_after_it(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        message = consumer.poll(timeout_s=WITHIN_S)
        consumer.commit(message)
        consumer.stop()
        until(lambda: not consumer.claims)
        assert consumer.poll(timeout_s=0.01) is None
        consumer.commit(message)
        consumer.commit()
    assert kafka.committed["g", "orders", 0] == 1


@pytest.mark.parametrize("share", ["partitions", "ranges"])
def test_who_stops_while_the_log_is_read_does_not_wait_for_its_end(
    kafka: Kafka,
    share: Literal["partitions", "ranges"],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A snapshot that is written then holds what was folded, and not more or less."""

    def ask(count: int) -> None:
        for name in (f"i{number}" for number in range(count)):
            kafka.says(ClaimingPartition(1, 0, name, name, "g", "orders", Partition(0)))

    read, begun, stopped = list[int](), threading.Event(), threading.Event()
    fold = Member.record

    def when_stopped(member: Member, record: Record, now_ms: int) -> list[ClaimEffect]:
        if record.offset >= 1_000:
            begun.set()
            stopped.wait(WITHIN_S)
        read.append(record.offset)
        return fold(member, record, now_ms)

    monkeypatch.setattr(Member, "record", when_stopped)
    monkeypatch.setattr(consumer_loop, "COMMIT_EVERY_MS", 10**9)  # nor is one written before
    ask(10)
    snapshot = tmp_path / "snapshot" if share == "partitions" else None
    with kafka.consumer(snapshot=snapshot) as consumer:
        consumer.add_topic("orders", share=share)
        until(lambda: len(read) >= 10)
        kafka.hold_log()
        ask(3_000)
        kafka.flow()
        assert begun.wait(WITHIN_S)
        consumer.stop()
        stopped.set()
        assert list(consumer) == []
    assert len(read) < 2_000
    for written in tmp_path.iterdir():
        kept = json.loads(written.read_text().splitlines()[1])["partitions"]["0"]
        assert kept["last"]["offset"] == read[-1]


@pytest.mark.parametrize("stops", [True, False])
def test_a_topic_that_nobody_tells_of_is_not_waited_for_after_a_stop(
    kafka: Kafka, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kafka.consumer() as consumer:

        def nobody_answers(*_: object) -> None:
            if stops:
                consumer.stop()
            raise BrokerFailed("nobody answered")

        monkeypatch.setattr(ClusterMetadata, "committed", nobody_answers)
        with nullcontext() if stops else pytest.raises(BrokerFailed, match="nobody answered"):
            consumer.add_topic("orders")
        assert consumer._coordinator.loop.topics == set()


def adds_a_topic_after_a_stop(kafka: Kafka, in_hand: bool) -> None:
    kafka.create("orders", partitions=1, messages=10)
    kafka.create("bills", partitions=1, messages=10)
    kafka.create("rates", partitions=1, messages=10)
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        message = consumer.poll(timeout_s=WITHIN_S)
        consumer.stop()
        if not in_hand:
            consumer.ack(message)
            until(consumer._coordinator.ended.is_set)
        consumer.add_topic("bills", partition=0)
        consumer.add_topic("rates")
        consumer.remove_topic("rates")
        if in_hand:
            consumer.ack(message)
        until(lambda: not consumer.claims)
        consumer.release("orders", 0)
    assert {claiming.topic for claiming in kafka.said(ClaimingPartition)} == {"orders"}
    with pytest.raises(ConsumerClosed):
        consumer.add_topic("bills")


@pytest.mark.parametrize("in_hand", [True, False])
def test_a_topic_that_is_added_after_a_stop_is_not_claimed(in_hand: bool) -> None:
    adds_a_topic_after_a_stop(Kafka(), in_hand)


def closes_within_30s_of_its_clock(kafka: Kafka, consumer: Consumer) -> None:
    closing = threading.Thread(target=lambda: consumer.close(timeout_s=30))
    closing.start()
    until(lambda: consumer.delivery.closed)
    kafka.clock.ahead_s += 30
    closing.join(WITHIN_S)
    assert not closing.is_alive()


def test_closing_has_one_deadline_however_much_does_not_answer(kafka: Kafka) -> None:
    stuck, released = threading.Event(), threading.Event()

    def answers(question: str) -> None:
        if question == "describe_topics":
            stuck.set()
            released.wait(2 * WITHIN_S)

    def fetching(_: object) -> None:
        released.wait(2 * WITHIN_S)

    def on_claimed(_: object) -> None:
        released.wait(2 * WITHIN_S)

    consumer = kafka.new_consumer(metadata_refresh_s=0.01, on_claimed=on_claimed)
    try:
        consumer.add_topic("orders")
        kafka.appends = lambda said: LANDS if isinstance(said, ClaimingPartition) else LANDS_UNHEARD
        kafka.fetching, kafka.answers, kafka.delivers_purged = fetching, answers, False
        until(lambda: consumer.claims and stuck.is_set())
        closes_within_30s_of_its_clock(kafka, consumer)
    finally:
        released.set()
    until(lambda: not any(thread.is_alive() for thread in kafka.threads))
    assert all(each.closed for each in kafka.readings)


def test_a_reader_that_stands_still_does_not_hold_up_the_end(kafka: Kafka) -> None:
    released = threading.Event()
    consumer = kafka.new_consumer()
    try:
        consumer.add_topic("orders")
        until(lambda: consumer.claims)
        kafka.reading_log = lambda: released.wait(2 * WITHIN_S)
        closes_within_30s_of_its_clock(kafka, consumer)
    finally:
        released.set()
    until(lambda: all(each.closed for each in kafka.readings))


def test_a_consumer_that_failed_waits_for_no_append(kafka: Kafka) -> None:
    consumer = kafka.new_consumer()
    consumer.add_topic("orders")
    kafka.appends = lambda said: LANDS if isinstance(said, ClaimingPartition) else LANDS_UNHEARD
    until(lambda: kafka.said(Heartbeat))
    kafka.ends_thread("marshal-reader")
    closing = threading.Thread(target=lambda: consumer.close(timeout_s=10 * WITHIN_S))
    closing.start()
    closing.join(WITHIN_S)
    assert not closing.is_alive()
    until(lambda: not any(thread.is_alive() for thread in kafka.threads))


# --- at most once, what was granted to a claim that is lost is ours to the end --------------------


def test_a_consumer_does_not_end_before_what_it_was_granted_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It ended when no claim was left, and `close` named nothing of what was in hand."""
    kafka = Kafka()
    kafka.create("events", messages=4)
    with kafka.consumer(semantics="at_most_once") as consumer:
        consumer.add_topic("events")
        message = consumer.poll(10.0)
        assert message is not None
        consumer.ack(message)
        kafka.says(ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), 2_000_000_000))
        until(lambda: message.claim.lost)
        consumer.stop()
        consumer._coordinator.call(lambda: None)
        consumer.pause("events")
        consumer.resume("events")
        assert [consumer.poll(5.0).offset for _ in range(2)] == [1, 2]  # type: ignore[union-attr]
        consumer.ack()
    assert "messages 3 to 3 were granted and are not known to be processed" in caplog.text


def test_an_observer_that_closes_what_is_late_ends_it_without_a_failure() -> None:
    """`dictionary changed size during iteration` was the failure; and a KeyError before that."""
    kafka = Kafka()
    kafka.create("events", partitions=3)
    observer = Observer()
    consumer = kafka.new_consumer(observers=[observer], heartbeat_interval_s=1.0)

    def late(claim: Claim, late: LateHeartbeat) -> None:
        consumer.close(release=False)

    observer.late = late  # type: ignore[method-assign]
    consumer.add_topic("events")
    until(lambda: len(consumer.claims) == 3)
    kafka.hold_log()
    kafka.clock.ahead_s += 1.9
    until(lambda: not any(thread.is_alive() for thread in kafka.threads))
    assert consumer._coordinator.failure is None


# --- the coordination topic is another one --------------------------------------------------------


@pytest.mark.parametrize("code", ["UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"])
def test_at_most_once_who_appends_to_a_topic_that_was_made_anew_says_what_to_do(
    kafka: Kafka, code: str
) -> None:
    """It ended with "Local: Unknown partition", and a start without more processed things twice."""
    missing = Append(lands=False, error=KafkaError(getattr(KafkaError, code)))
    kafka.appends = lambda said: missing if isinstance(said, Heartbeat) else LANDS
    with kafka.consumer(semantics="at_most_once") as consumer:
        consumer.add_topic("orders")
        with pytest.raises(LogLost, match=r"the topic is gone, or was made anew.*set-position"):
            list(consumer)


FORKS = """
import os, sys
from kafka_marshal import Consumer, MarshalError, Producer, ProducerRecord
from kafka_marshal.testing.in_memory import InMemoryKafka

kafka = InMemoryKafka()
kafka.create("events", partitions=1, messages=5)
settings = kafka.settings()
consumer = Consumer(settings=settings, group_id="g", client_id="c1")
consumer.add_topic("events")
producer = Producer(settings=settings)
assert consumer.poll(30.0).offset == 0
child = os.fork()
calls = {
    "poll": lambda: consumer.poll(1.0),
    "pause": lambda: consumer.pause("events"),
    "commit": consumer.commit,
    "send": lambda: producer.send(ProducerRecord("events", b"x")),
}
if not child:
    for name, call in calls.items():
        try:
            call()
        except MarshalError as error:
            print(name, "forked from" in str(error), flush=True)
    consumer.close()
    os._exit(0)
os.waitpid(child, 0)
print(consumer.poll(30.0).offset)
consumer.close()
producer.close()
"""


def test_a_fork_has_no_consumer_and_no_producer() -> None:
    """Both processes got the same messages, and `pause` waited for ever for a thread."""
    ran = forks.ran(FORKS)
    wanted = ["poll True", "pause True", "commit True", "send True", "1"]
    assert (ran.stdout.splitlines(), ran.stderr) == (wanted, "")
