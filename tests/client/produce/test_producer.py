"""A producer on a real broker: every record has an outcome, and it is the right one."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Callable
from concurrent.futures import InvalidStateError
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any, cast

import pytest
from attrs import frozen

from kafka_marshal import (
    BufferFull,
    InvalidOption,
    MarshalError,
    NotAppended,
    Producer,
    ProducerClosed,
    ProducerRecord,
)
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.log_writer import TopicMissing
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.client.message import SentRecord
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.client.produce.producer import RECORD_BYTES, SEND_BYTES
from kafka_marshal.client.produce.response import SendResponse
from kafka_marshal.testing import Broker
from tests.client.crew import Stage
from tests.client.hands import new_name
from tests.client.notes import Notes

WITHIN_S = 60.0


@pytest.fixture
def topic(kafka_broker: Broker) -> str:
    """Two partitions, which take batches of 20,000 bytes."""
    name = new_name("sent")
    cluster = ClusterClient(settings_of(kafka_broker.bootstrap))
    cluster.create_topic(name, 2, 1, {"max.message.bytes": "20000"})
    return name


def test_each_record_of_a_send_is_told_where_it_lies(kafka_broker: Broker, topic: str) -> None:
    notes = Notes()
    with Producer(kafka_broker.bootstrap, observers=[notes]) as producer:
        response = producer.send(
            ProducerRecord(topic, b"a", partition=1, headers=[("h", b"1")]),
            ProducerRecord(topic, "b", partition=1),
            ProducerRecord(topic, None, key="k", partition=0),
        )
        first, second, third = response.result(WITHIN_S)
        assert (response.done(), response.error) == (True, None)
        assert producer.buffered_bytes == 0
        assert producer.send().result() == ()
    assert [(sent.partition, sent.offset) for sent in (first, second, third)] == [
        (1, 0),
        (1, 1),
        (0, 0),
    ]
    assert {sent.topic for sent in response.records} == {topic}
    assert all((sent.timestamp_ms or 0) > 1_600_000_000_000 for sent in response.records)
    assert notes.of("delivered") == [(first,), (second,), (third,)] or len(
        notes.of("delivered")
    ) == len(response.records)


def test_it_is_awaited_in_any_event_loop_and_a_cancelled_task_changes_nothing(
    kafka_broker: Broker, topic: str
) -> None:
    with Producer(kafka_broker.bootstrap, settings={"linger.ms": "200"}) as producer:

        async def sends() -> SendResponse:
            response = producer.send(ProducerRecord(topic, b"a", partition=0))
            waiting = asyncio.ensure_future(_awaited(response))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not response.done()
            with pytest.raises(InvalidStateError, match="still open"):
                assert response.error is None
            [sent] = await response
            assert sent.offset is not None
            return response

        assert asyncio.run(sends()).done()
        assert asyncio.run(sends()).records[0].offset == 1


async def _awaited(response: SendResponse) -> None:
    await response


def test_what_is_refused_is_nowhere_and_the_rest_is_where_it_is(
    kafka_broker: Broker, topic: str
) -> None:
    with Producer(kafka_broker.bootstrap) as producer:
        good = producer.send(ProducerRecord(topic, b"good", partition=0))
        assert good.result(WITHIN_S)[0].offset == 0
        mixed = producer.send(
            ProducerRecord(topic, b"x" * 30_000, partition=0),  # the broker refuses it
            ProducerRecord(topic, b"good", partition=1),
            ProducerRecord(topic, b"x" * 2_000_000, partition=0),  # and librdkafka this one
            ProducerRecord(topic, b"lost on its way", partition=7),
        )
        with pytest.raises(NotAppended, match=f"topic {topic}: .*Message size too large"):
            mixed.result(WITHIN_S)
    assert mixed.error is mixed.records[0].error
    assert [type(sent.error) for sent in mixed.records] == [
        NotAppended,
        type(None),
        NotAppended,
        TopicMissing,
    ]
    assert [sent.offset for sent in mixed.records] == [None, 0, None, None]
    assert str(mixed.records[3].error).endswith(": the topic has no such partition")
    ends = ClusterClient(settings_of(kafka_broker.bootstrap)).ends([(topic, 0), (topic, 1)])
    assert ends == {(topic, 0): 1, (topic, 1): 1}


def test_a_topic_that_does_not_exist_is_an_outcome(kafka_broker: Broker) -> None:
    settings = {"topic.metadata.propagation.max.ms": "100"}
    with Producer(kafka_broker.bootstrap, settings=settings) as producer:
        response = producer.send(ProducerRecord(new_name("nowhere"), b"a"))
        with pytest.raises(TopicMissing, match=r"topic nowhere-.*: create it, or correct the name"):
            response.result(WITHIN_S)


@pytest.mark.parametrize("raised", [RuntimeError, SystemExit])
def test_a_callback_that_raises_is_logged_and_harms_nobody(
    kafka_broker: Broker, topic: str, caplog: pytest.LogCaptureFixture, raised: type[BaseException]
) -> None:
    heard: list[SendResponse] = []

    def raises(_: SendResponse) -> None:
        raise raised

    with Producer(kafka_broker.bootstrap, settings={"linger.ms": "50"}) as producer:
        first = producer.send(ProducerRecord(topic, b"a"))
        first.on_completion(raises)
        first.on_completion(heard.append)
        assert producer.flush(WITHIN_S)
        second = producer.send(ProducerRecord(topic, b"b"))
        second.on_completion(heard.append)
        second.result(WITHIN_S)
        second.on_completion(raises)  # at once, in this thread
    assert heard == [first, second]
    logged = [each for each in caplog.records if "callback of the producer" in each.getMessage()]
    assert [each.exc_info is not None for each in logged] == [True, True]


def test_a_callback_may_send_and_is_told_not_to_wait_for_itself(
    kafka_broker: Broker, topic: str
) -> None:
    caught: list[str] = []
    again: list[SendResponse] = []
    ended = threading.Event()

    def calls(_: SendResponse) -> None:
        again.append(producer.send(ProducerRecord(topic, b"again", partition=0)))
        for call in (again[0].result, producer.flush, producer.close):
            try:
                call()
            except MarshalError as error:
                caught.append(str(error).partition(" ")[0])
        try:
            while len(again) < 100:
                again.append(producer.send(ProducerRecord(topic, b"x" * 1_000, partition=0)))
        except BufferFull:
            caught.append("full")
        ended.set()

    with Producer(kafka_broker.bootstrap, buffer_bytes=10_000, max_block_s=1_000) as producer:
        producer.send(ProducerRecord(topic, b"first", partition=0)).on_completion(calls)
        assert ended.wait(WITHIN_S)
    assert caught == ["result()", "flush()", "close()", "full"]
    assert len(again) == 3
    assert [response.error for response in again] == [None] * 3


def test_an_observer_is_told_not_to_wait_for_the_response_that_it_hears_of() -> None:
    """The last outcome is there, and the response is done when all observers have heard of it."""
    caught: list[str] = []
    sent = threading.Event()
    responses: list[SendResponse] = []

    class Asks(Observer):
        def delivered(self, _: SentRecord) -> None:
            assert sent.wait(WITHIN_S)
            try:
                responses[0].result(WITHIN_S)
            except MarshalError as error:
                caught.append(str(error).partition(" ")[0])

    settings = {"message.timeout.ms": "100"}
    with Producer("127.0.0.1:1", settings=settings, observers=[Asks()]) as producer:
        responses.append(producer.send(ProducerRecord("orders", b"x")))
        sent.set()
        assert producer.flush(2 * WITHIN_S)
    assert caught == ["result()"]


def test_serializers_make_bytes_of_what_an_application_has(
    kafka_broker: Broker, topic: str
) -> None:
    with Producer(kafka_broker.bootstrap, value_serializer=json.dumps, key_serializer=str) as one:
        one.send(
            ProducerRecord(topic, {"apples": 3}, key=7, partition=0),
            ProducerRecord(topic, None, key=7, partition=0),
        ).result(WITHIN_S)
        with pytest.raises(TypeError, match="not JSON serializable"):
            one.send(ProducerRecord(topic, 1, partition=0), ProducerRecord(topic, {1, 2}))
    stage = Stage(kafka_broker)
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic, partition=0)
        read = [consumer.poll(WITHIN_S) for _ in range(2)]
    assert [(m.key, m.value) for m in read if m] == [(b"7", b'{"apples": 3}'), (b"7", None)]


@frozen
class Story:
    """A record that cannot be sent, and the sentence about it."""

    record: object
    sentence: str


@pytest.mark.parametrize(
    "story",
    [
        Story(b"bytes", "send takes ProducerRecord, not bytes"),
        Story(ProducerRecord("orders", 3), "topic orders: the value is bytes, text or None, not"),
        Story(
            ProducerRecord("orders", b"", key=[]), "topic orders: the key is bytes, text or None"
        ),
        Story(ProducerRecord(cast("Any", None)), "the topic of a record is a name, not None"),
        Story(
            ProducerRecord("orders", partition=2**31), "topic orders: the partition is 0 or more"
        ),
        Story(
            ProducerRecord("orders", headers=cast("Any", [("h", [])])),
            "topic orders: a header is a name and bytes, text or None",
        ),
        Story(ProducerRecord("caf\udce9"), r"the topic of a record is a name, not 'caf\\udce9'"),
        Story(ProducerRecord("orders", "caf\udce9"), "the value is .* a str with lone surrogates"),
        *(
            Story(
                ProducerRecord("orders", headers=[pair]),
                "topic orders: a header is a name and bytes, text or None",
            )
            for pair in (("caf\udce9", b""), ("name", "caf\udce9"), ("cut\0off", b""))
        ),
        Story(ProducerRecord("orders", b"x" * 2_000), "never fits into buffer_bytes=4000"),
    ],
    ids=lambda story: story.sentence,
)
def test_a_record_that_cannot_be_sent_is_named_and_nothing_else_is_sent(story: Story) -> None:
    with Producer("127.0.0.1:1", buffer_bytes=4_000) as producer:
        with pytest.raises(InvalidOption, match=story.sentence):
            producer.send(ProducerRecord("orders", b"good"), story.record)  # type: ignore[arg-type]
        assert producer.buffered_bytes == 0
    with pytest.raises(ProducerClosed):
        producer.send(ProducerRecord("orders", b"good"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"when_full": "wait"}, "when_full must be block or raise"),
        ({"max_block_s": 0}, "max_block_s must be greater than 0"),
        ({"max_block_s": timedelta(1)}, "max_block_s must be a number of seconds"),
        ({"buffer_bytes": "1"}, "buffer_bytes must be greater than 0"),
        ({"buffer_bytes": -1}, "buffer_bytes must be greater than 0"),
        ({"settings": {"transactional.id": "t"}}, "writes no transactions"),
        ({"bootstrap": None}, "no cluster given"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        Producer(**{"bootstrap": "127.0.0.1:1", **options})  # type: ignore[arg-type]


def test_a_timeout_of_any_kind_of_number_is_one() -> None:
    """Of infinity `result` raised OverflowError, and of a Decimal TypeError; nan was 0."""
    settings = {"message.timeout.ms": "200"}
    long: list[Any] = [math.inf, 1e300, 10**400, Decimal(60), Fraction(60)]
    for for_ever in long:
        with Producer("127.0.0.1:1", settings=settings) as producer:
            response = producer.send(ProducerRecord("orders", b"x"))
            assert response.wait(for_ever)
            assert producer.flush(for_ever)
            producer.close(for_ever)
    with Producer("127.0.0.1:1", settings=settings) as producer:
        response = producer.send(ProducerRecord("orders", b"x"))
        calls = (response.wait, response.result, producer.flush, producer.close)
        no_numbers: list[Any] = [math.nan, timedelta(1), "1"]
        for call, given in product(calls, no_numbers):
            with pytest.raises(InvalidOption, match=r"^timeout_s must be a number of seconds"):
                call(given)
        with pytest.raises(TimeoutError, match="within 0 s"):
            response.result(0)


@pytest.mark.parametrize("kind", [list, iter])
def test_a_send_counts_with_what_it_takes(kind: Callable[..., Any]) -> None:
    """Headers of a generator were looked at, and then none were left to send."""
    headers = kind([("h", "1234")])
    with Producer("127.0.0.1:1", settings={"message.timeout.ms": "100"}) as producer:
        producer.send(ProducerRecord("orders", b"12345", key="k", headers=headers))
        assert producer.buffered_bytes == SEND_BYTES + RECORD_BYTES + 5 + 1 + 1 + 4
        producer.flush(WITHIN_S)
        assert producer.buffered_bytes == 0
