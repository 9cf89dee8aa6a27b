"""What a producer knows of records while brokers stand still, die, or refuse it for good."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from kafka_marshal import (
    BufferFull,
    NotAppended,
    OutcomeUnknown,
    Producer,
    ProducerClosed,
    ProducerFailed,
    ProducerRecord,
)
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.log_writer import RecordWriter
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.client.produce.response import SendResponse
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.testing import QUICK, Broker
from kafka_marshal.testing.in_memory import LANDS_SOMEWHERE
from tests.client import forks
from tests.client.crew import until
from tests.client.doubles import Kafka
from tests.client.hands import new_name
from tests.client.notes import Notes

WITHIN_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One that stands still, and is killed."""
    with Broker(java_options=QUICK) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    """One partition."""
    name = new_name("sent")
    ClusterClient(settings_of(broker.bootstrap)).create_topic(name, 1, 1, {})
    return name


def end(broker: Broker, topic: str) -> int:
    """How many records lie there."""
    return ClusterClient(settings_of(broker.bootstrap)).ends([(topic, 0)])[topic, 0]


def ready(broker: Broker, topic: str, **options: Any) -> Producer:
    """A producer that has a record there already."""
    producer = Producer(broker.bootstrap, **options)
    producer.send(ProducerRecord(topic, b"0")).result(WITHIN_S)
    return producer


def test_what_has_no_outcome_when_it_closes_is_unknown_and_not_lost(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer, heard = ready(broker, topic), list[SendResponse]()
    broker.pause()
    try:
        response = producer.send(*(ProducerRecord(topic, b"%d" % n) for n in (1, 2)))
        response.on_completion(heard.append)
        assert not producer.flush(0.5)
        with pytest.raises(TimeoutError, match=r"no outcome of 2 records within 0\.1 s"):
            response.result(0.1)
        producer.close(0.1)
        producer.close(0.1)  # again does nothing
        assert heard == [response]
        assert [type(sent.error) for sent in response.records] == [OutcomeUnknown] * 2
        with pytest.raises(OutcomeUnknown, match=f"topic {topic}: .*Purged in flight"):
            response.result()
        assert "nobody knows whether a record was appended" in caplog.text
    finally:
        broker.resume()
    # It was in the broker's socket: to say that it is lost would have been wrong.
    until(lambda: end(broker, topic) == 3)


@pytest.mark.parametrize("when_full", ["block", "raise"])
def test_a_full_buffer_blocks_or_raises_and_goes_on_when_there_is_room(
    broker: Broker, topic: str, when_full: Any
) -> None:
    notes = Notes()
    options = {"max_block_s": 0.3, "buffer_bytes": 20_000, "observers": [notes]}
    with ready(broker, topic, when_full=when_full, **options) as producer:
        broker.pause()
        taken = 0
        try:
            began = time.monotonic()
            try:
                while taken < 100:
                    producer.send(ProducerRecord(topic, b"x" * 1_000, partition=0))
                    taken += 1
            except BufferFull as error:
                assert "of 20000 bytes wait for their outcomes" in str(error)
            assert (time.monotonic() - began >= 0.3) is (when_full == "block")
            assert taken == 5
            assert producer.buffered_bytes <= 20_000
        finally:
            broker.resume()
        assert producer.flush(WITHIN_S)
        producer.send(ProducerRecord(topic, b"x", partition=0)).result(WITHIN_S)
    assert len(notes.of("buffer_full")) == 1
    assert end(broker, topic) == 1 + taken + 1


def test_who_blocks_goes_on_as_soon_as_there_is_room_or_hears_that_it_is_closed(
    broker: Broker, topic: str
) -> None:
    sent, failures = list[SendResponse](), list[BaseException]()
    producer = ready(broker, topic, buffer_bytes=5_000)

    def send() -> None:
        try:
            while len(sent) < 20_000:
                sent.append(producer.send(ProducerRecord(topic, b"x" * 1_000)))
        except ProducerClosed as error:
            failures.append(error)

    broker.pause()
    try:
        threads = [threading.Thread(target=send, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: len(sent) == 1)
    finally:
        broker.resume()
    until(lambda: len(sent) > 50)
    producer.close()
    for thread in threads:
        thread.join(WITHIN_S)
    assert len(failures) == 3
    assert [response.error for response in sent] == [None] * len(sent)
    assert end(broker, topic) == 1 + len(sent)


def test_what_is_sent_again_lies_there_once_and_in_its_order(broker: Broker, topic: str) -> None:
    """The broker stands still with the first request in its socket, and gets it once more."""
    notes = Notes()
    settings = {"socket.timeout.ms": "500", "statistics.interval.ms": "50"}
    with ready(broker, topic, settings=settings, observers=[notes]) as producer:
        broker.pause()
        try:
            responses = [producer.send(ProducerRecord(topic, b"%d" % n)) for n in (1, 2, 3)]

            def timeouts() -> int:
                """Of requests, as librdkafka counts them."""
                [*_, heard] = [("", "producer", {}), *notes.of("statistics")]
                assert heard[:2] == ("", "producer")
                return sum(each["req_timeouts"] for each in heard[2].get("brokers", {}).values())

            until(lambda: timeouts() > 0)
        finally:
            broker.resume()
        assert producer.flush(WITHIN_S)
    assert [response.error for response in responses] == [None] * 3
    assert end(broker, topic) == 1 + 3


def test_the_death_of_a_broker_leaves_no_record_open(broker: Broker, topic: str) -> None:
    with ready(broker, topic) as producer:
        responses = []
        for number in range(300):
            if number == 150:
                broker.kill()
            responses.append(producer.send(ProducerRecord(topic, b"%d" % number)))
        broker.start()
        assert producer.flush(WITHIN_S)
    assert [response.error for response in responses] == [None] * 300
    assert [sent.offset for response in responses for sent in response.records] == [
        *range(1, 1 + 300)
    ]
    assert end(broker, topic) == 1 + 300


# --- in memory: what no broker does on request ----------------------------------------------------


@pytest.mark.parametrize("name", ["max.in.flight", "max.in.flight.requests.per.connection"])
def test_what_a_broker_takes_for_a_copy_may_be_nowhere(name: str) -> None:
    """It refused the first batch for a new topic, took the second, and then saw the first again."""
    kafka, made_of = Kafka(), dict[str, Any]()
    kafka.appends = lambda _: LANDS_SOMEWHERE
    settings = kafka.settings()

    def appender(given: dict[str, Any], **more: Any) -> Any:
        made_of.update(given)
        return kafka.settings().environment.appender(given, **more)

    environment = attrs.evolve(settings.environment, appender=appender)
    settings = attrs.evolve(settings, environment=environment)
    with Producer(settings=settings) as producer:
        # `appends` is asked only about this topic.
        value = b"Heartbeat/1/1700000000/i1/c1/g/events/3/500"
        response = producer.send(ProducerRecord(COORDINATION_TOPIC, value))
        with pytest.raises(OutcomeUnknown, match="confirmed without an offset"):
            response.result(WITHIN_S)
    assert response.records[0].offset is None
    assert made_of["max.in.flight.requests.per.connection"] == "1"
    made_of.clear()
    with Producer(settings=attrs.evolve(settings, values={**settings.values, name: "5"})):
        assert made_of[name] == "5"
        assert len([one for one in made_of if "max.in.flight" in one]) == 1


def test_when_its_thread_dies_every_record_has_an_outcome() -> None:
    kafka = Kafka()
    kafka.create("orders", partitions=1)
    settings = kafka.settings()
    waits = attrs.evolve(settings, values={**settings.values, "linger.ms": "100000"})
    with Producer(settings=waits) as producer:
        response = producer.send(ProducerRecord("orders", b"1", partition=0))
        kafka.ends_thread("marshal-log")
        with pytest.raises(OutcomeUnknown, match="a wire is loose"):
            response.result(WITHIN_S)
        with pytest.raises(ProducerFailed, match="go on with another Producer"):
            producer.send(ProducerRecord("orders", b"2", partition=0))
        assert producer.flush(WITHIN_S)


def test_a_send_that_is_interrupted_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle: nobody has the response, and `close` must not wait for it."""
    kafka, notes = Kafka(), Notes()
    kafka.create("orders", partitions=1)
    write = RecordWriter.write

    def interrupted(self: RecordWriter, topic: str, value: bytes, *of: Any, **more: Any) -> None:
        if value == b"2":
            raise KeyboardInterrupt
        write(self, topic, value, *of, **more)

    monkeypatch.setattr(RecordWriter, "write", interrupted)
    with Producer(settings=kafka.settings(), observers=[notes]) as producer:
        with pytest.raises(KeyboardInterrupt):
            producer.send(*(ProducerRecord("orders", b"%d" % n, partition=0) for n in (1, 2, 3)))
        assert producer.flush(WITHIN_S)
        assert producer.buffered_bytes == 0
    errors = [type(sent.error) for (sent,) in notes.of("delivered")]
    assert sorted(errors, key=str) == sorted([type(None), OutcomeUnknown, NotAppended], key=str)


@pytest.mark.parametrize("of", [Producer, RecordWriter])
def test_a_close_that_is_interrupted_leaves_no_response_open(
    of: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Ctrl-C, while `with` waits for outcomes after the first one."""
    wait, interruptions = "flush" if of is Producer else "_left_after", iter([True])
    original = getattr(of, wait)

    def interrupted(*arguments: Any) -> Any:
        if next(interruptions, False):
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(of, wait, interrupted)
    if of is RecordWriter:
        monkeypatch.setattr(Producer, "flush", lambda *_: False)
    with pytest.raises(KeyboardInterrupt), Producer("127.0.0.1:1") as producer:
        response = producer.send(ProducerRecord("orders", b"1"))
    assert response.done()
    assert isinstance(response.error, OutcomeUnknown)


def test_a_close_that_waits_long_explains_what_for(caplog: pytest.LogCaptureFixture) -> None:
    """After Ctrl-C in `with` it waited for 31 s in silence if no broker answered."""
    with Producer("127.0.0.1:1") as producer:
        response = producer.send(ProducerRecord("orders", b"1"))
        producer.close(timeout_s=3)
    assert response.done()
    [line] = [text for text in caplog.messages if "Ctrl-C" in text]
    waits = r"127\.0\.0\.1:1: close waits for the outcomes of 1 sends, for [12]\.\d s more"
    assert re.match(waits, line)


def test_a_close_that_need_not_wait_reports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with Producer("127.0.0.1:1") as producer:
        producer.send(ProducerRecord("orders", b"1"))
        producer.close(timeout_s=0.1)
    assert "Ctrl-C" not in caplog.text


FORKS = """
import asyncio, os, signal, threading
from kafka_marshal import Producer, ProducerClosed, ProducerRecord

async def awaits(response):
    await response

with Producer("127.0.0.1:1") as producer:
    record = ProducerRecord("orders", b"x")
    response = producer.send(record)
    holds, forked = threading.Event(), threading.Event()

    def hold():
        with producer._lock:
            holds.set()
            forked.wait()

    holding = threading.Thread(target=hold)
    holding.start()
    holds.wait()
    child = os.fork()
    if not child:
        signal.alarm(60)  # what hangs here is nobody's child
        calls = {
            "result": response.result,
            "await": lambda: asyncio.run(awaits(response)),
            "flush": producer.flush,
            "send": lambda: producer.send(record),
        }
        for name, call in calls.items():
            try:
                call()
            except ProducerClosed as error:
                print(name, "forked from" in str(error), flush=True)
        producer.close()
        print("closed", response.done(), flush=True)
        os._exit(0)
    forked.set()
    os.waitpid(child, 0)
    producer.close(0.0)
    print(response.error is not None)
"""


def test_a_fork_does_not_wait_for_outcomes_that_only_its_parent_hears_of() -> None:
    """All of them waited for ever, but `close`, which took 31 s.

    `send` did if another thread had the producer's lock when the process forked.
    """
    ran = forks.ran(FORKS)
    refused = [f"{call} True" for call in ("result", "await", "flush", "send")]
    assert ran.stdout.splitlines() == [*refused, "closed False", "True"], ran.stderr
