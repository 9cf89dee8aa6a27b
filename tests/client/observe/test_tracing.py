"""Spans around messages of a real broker."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from confluent_kafka import Producer
from opentelemetry import propagate
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from kafka_marshal.client.api.consumer import Message
from kafka_marshal.client.groups.connection import Controllers, RequestRefused
from kafka_marshal.client.observe.controller_tracing import OpenTelemetryControllerObserver
from kafka_marshal.client.observe.tracing import OpenTelemetryObserver
from kafka_marshal.testing import Broker
from tests.client.crew import Stage
from tests.client.groups.controllers import Fleet, create, patiently


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


class Spans:
    """An SDK that keeps what it is given."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    @property
    def ended(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


def sent_under_a_span(stage: Stage, spans: Spans, topic: str) -> SpanContext:
    """One message with a key, sent within a span; then one without anything."""
    producer = Producer({"bootstrap.servers": stage.bootstrap})
    with spans.tracer.start_as_current_span("order") as span:
        headers: dict[str, str] = {}
        propagate.inject(headers)
        producer.produce(topic, b"hello", b"k1", headers=list(headers.items()))
    producer.produce(topic, b"2")
    assert producer.flush(30) == 0
    return span.get_span_context()


def test_a_message_is_processed_in_a_span_whose_parent_is_its_senders(stage: Stage) -> None:
    topic, spans = stage.topic(partitions=1, messages=0), Spans()
    order = sent_under_a_span(stage, spans, topic)
    observer = OpenTelemetryObserver("w1", tracer_provider=spans.provider)
    epochs = []
    with stage.consumer("w1", observers=[observer]) as consumer:
        consumer.add_topic(topic)

        def handle(message: Message) -> None:
            epochs.append(message.epoch)
            with spans.tracer.start_as_current_span("within"):
                pass
            if message.offset == 1:
                raise RuntimeError("no")

        with pytest.raises(Exception, match="failed 1 times"):
            consumer.run(handle, workers=1, retries=0)
    first, second = [span for span in spans.ended if span.name == f"process {topic}"]
    within = [span for span in spans.ended if span.name == "within"]
    context = first.get_span_context()
    assert context is not None
    assert first.kind is SpanKind.CONSUMER
    assert first.parent is not None
    assert first.parent.span_id == order.span_id
    assert context.trace_id == order.trace_id
    assert within[0].parent is not None
    assert within[0].parent.span_id == context.span_id
    assert first.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "messaging.consumer.group.name": stage.group,
        "messaging.client.id": "w1",
        "messaging.kafka.message.key": "k1",
        "messaging.message.body.size": 5,
        "marshal.epoch": epochs[0],
    }
    assert first.status.status_code is StatusCode.UNSET
    assert second.parent is None
    assert second.status.status_code is StatusCode.ERROR
    assert second.attributes is not None
    assert second.attributes["error.type"] == "RuntimeError"
    assert [event.name for event in second.events] == ["exception"]


def test_the_senders_span_may_be_a_link_instead(stage: Stage) -> None:
    topic, spans = stage.topic(partitions=1, messages=0), Spans()
    order = sent_under_a_span(stage, spans, topic)
    observer = OpenTelemetryObserver("w1", tracer_provider=spans.provider, sender="link")
    with stage.consumer("w1", observers=[observer]) as consumer:
        consumer.add_topic(topic)
        for message in consumer:
            with consumer.processing(message):
                pass
            if message.offset == 1:
                consumer.stop()
    first, second = [span for span in spans.ended if span.name == f"process {topic}"]
    assert first.parent is None
    [link] = first.links
    assert link.context.span_id == order.span_id
    assert not second.links


def test_a_controller_makes_a_span_of_each_request_and_of_each_partition_that_it_takes_over(
    kafka_broker: Broker,
) -> None:
    fleet, spans = Fleet(kafka_broker), Spans()
    observer = OpenTelemetryControllerObserver(spans.provider)
    with (
        fleet.controller(observer) as address,
        Controllers([address], "somebody") as controllers,
    ):
        create(controllers, "g", fleet.topic)
        controllers.asked("DeleteGroup", "g", {"ConsumerGroup": ["g"]}, patiently())
        with pytest.raises(RequestRefused, match="69"):
            controllers.described(["h"], patiently())
    over = [span for span in spans.ended if span.name == "take over groups"]
    taken = [span.attributes["marshal.partition"] for span in over if span.attributes]
    assert set(taken) == {*range(16)}
    assert len(taken) == 16
    assert all(
        span.start_time < span.end_time for span in over if span.start_time and span.end_time
    )
    asked = [span for span in spans.ended if span.name == "marshal.Controller/CreateGroup"]
    assert {span.kind for span in asked} == {SpanKind.SERVER}
    assert all(span.parent is None for span in asked)
    assert asked[-1].status.status_code is StatusCode.UNSET
    assert asked[-1].attributes == {
        "rpc.system": "marshal",
        "rpc.service": "marshal.Controller",
        "rpc.method": "CreateGroup",
        "client.address": "127.0.0.1",
        "messaging.client.id": "somebody",
        "marshal.group": "g",
    }
    [deleted] = [span for span in spans.ended if span.name == "marshal.Controller/DeleteGroup"]
    assert deleted.attributes is not None
    assert "marshal.group" not in deleted.attributes
    [*_, refused] = [span for span in spans.ended if span.name == "marshal.Controller/ListGroups"]
    assert refused.status.status_code is StatusCode.ERROR
    assert refused.attributes is not None
    assert refused.attributes["error.type"] == "GROUP_ID_NOT_FOUND"
    assert "marshal.group" not in refused.attributes


def test_spans_that_nothing_takes_are_an_error_and_not_silence() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "kafka_marshal.cli", "controller", "--spans"],
        env={**os.environ, "MARSHAL_CONFIG": os.devnull, "MARSHAL_BOOTSTRAP": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert " ".join(ran.stderr.split()) == (
        "marshal: nothing takes spans: set up an SDK of OpenTelemetry; with --spans, run the "
        "command with opentelemetry-instrument"
    )
