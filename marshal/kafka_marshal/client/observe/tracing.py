"""OpenTelemetry spans around processed messages (`pip install 'kafka-marshal[otel]'`).

Names and attributes follow its semantic conventions for messaging, plus `marshal.epoch`, or
`marshal.range` for a shared partition. The sender's context in a message's headers (`traceparent`)
becomes the span's parent, or a link of it. Nothing is exported here: the application sets up an SDK
for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Link, SpanKind, TracerProvider

from kafka_marshal.client.message import HeaderPairs, Message
from kafka_marshal.client.observe.observers import Observer


class _OfHeaders(Getter[HeaderPairs]):
    """Reads a message's headers. The propagator asks for names in lower case."""

    def get(self, carrier: HeaderPairs, key: str) -> list[str] | None:
        """All values under a name."""
        found = [
            value.decode("utf-8", "replace")
            for name, value in carrier
            if name.lower() == key and value is not None
        ]
        return found or None

    def keys(self, carrier: HeaderPairs) -> list[str]:
        """All names."""
        return [name for name, _ in carrier]


_OF_HEADERS: Final = _OfHeaders()


class OpenTelemetryObserver(Observer):
    """Creates a span for each processed message: `process <topic>`, of kind CONSUMER."""

    def __init__(
        self,
        client_id: str,
        *,
        tracer_provider: TracerProvider | None = None,
        sender: Literal["parent", "link"] = "parent",
    ) -> None:
        """Create spans with this provider, or with the global one.

        Args:
            client_id: the consumer's; an attribute of each span.
            tracer_provider: of the SDK.
            sender: how to relate to the sender's span: as its child, so that both are one trace, or
                by a link, if a trace should not outlive the sender's request.
        """
        self._tracer = trace.get_tracer("kafka_marshal", tracer_provider=tracer_provider)
        self._client_id, self._as_parent = client_id, sender == "parent"

    @contextmanager
    def processing(self, message: Message) -> Iterator[None]:
        """The span. If a handler raises, the span has an error status and the exception."""
        sent = propagate.extract(message.headers, getter=_OF_HEADERS, context=Context())
        of_sender = trace.get_current_span(sent).get_span_context()
        with self._tracer.start_as_current_span(
            f"process {message.topic}",
            context=sent if self._as_parent and of_sender.is_valid else None,
            kind=SpanKind.CONSUMER,
            links=[Link(of_sender)] if of_sender.is_valid and not self._as_parent else None,
            attributes=self._attributes(message),
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise

    def _attributes(self, message: Message) -> dict[str, str | int]:
        attributes: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.operation.type": "process",
            "messaging.operation.name": "process",
            "messaging.destination.name": message.topic,
            "messaging.destination.partition.id": str(message.partition),
            "messaging.kafka.offset": message.offset,
            "messaging.consumer.group.name": message.claim.key.group,
            "messaging.client.id": self._client_id,
            "marshal.epoch" if message.range is None else "marshal.range": message.epoch,
        }
        key, value = message.key, message.value
        if key is not None:
            attributes["messaging.kafka.message.key"] = key.decode("utf-8", "backslashreplace")
        if value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        else:
            attributes["messaging.message.body.size"] = len(value)
        return attributes
