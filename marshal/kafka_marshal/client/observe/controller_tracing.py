"""OpenTelemetry spans of a controller (`pip install 'kafka-marshal[otel]'`).

Names and attributes are those of its semantic conventions for remote procedure calls, and
`marshal.group` and `marshal.partition`. A request names no span of its sender, so each span begins
a trace. Nothing is exported here: that is the business of the SDK.
"""

# ruff: noqa: D102  # what each method hears is documented once, at `ControllerObserver`

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import ProxyTracerProvider, SpanKind, Status, StatusCode, TracerProvider

from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.observe.controller_observers import AnsweredRequest, ControllerObserver
from kafka_marshal.errors import InvalidOption
from kafka_marshal.rpc.error_codes import ErrorCode

SERVICE: Final = "marshal.Controller"
_ORDINARY: Final = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})
"""Answers of successful requests; after the second one its member registers."""
_MS: Final = 1_000_000
"""A millisecond in nanoseconds."""


class OpenTelemetryControllerObserver(ControllerObserver):
    """A span for each request, of the kind SERVER, and one for each partition that is taken over.

    That of a Heartbeat lasts as long as the controller holds it, which may be a sixth of the
    session timeout. A request that is answered with another code than 0 and 27 has an error.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        unix_ms: Callable[[], int] = REAL.unix_ms,
    ) -> None:
        """Make spans with this provider, or with the global one. `unix_ms` is the clock.

        Raises:
            InvalidOption: the only provider is the one that drops all spans.
        """
        if tracer_provider is None:
            tracer_provider = trace.get_tracer_provider()
            if isinstance(tracer_provider, ProxyTracerProvider):
                raise InvalidOption(
                    "nothing takes spans: set up an SDK of OpenTelemetry; with --spans, run the "
                    "command with opentelemetry-instrument"
                )
        self._unix_ms = unix_ms
        self._tracer = trace.get_tracer("kafka_marshal", tracer_provider=tracer_provider)

    def answered(self, request: AnsweredRequest) -> None:
        attributes: dict[str, str | int] = {
            "rpc.system": "marshal",
            "rpc.service": SERVICE,
            "rpc.method": request.api,
            "client.address": request.host,
            "messaging.client.id": request.client_id,
        }
        if request.group:
            attributes["marshal.group"] = request.group
        failed = request.code not in _ORDINARY
        if failed:
            attributes["error.type"] = request.code.name
        self._span(f"{SERVICE}/{request.api}", request.seconds, attributes, failed=failed)

    def serving(self, partition: int, *, serves: bool, after_s: float) -> None:
        if serves:
            attributes: dict[str, str | int] = {"marshal.partition": partition}
            self._span("take over groups", after_s, attributes, kind=SpanKind.INTERNAL)

    def _span(
        self,
        name: str,
        seconds: float,
        attributes: dict[str, str | int],
        *,
        kind: SpanKind = SpanKind.SERVER,
        failed: bool = False,
    ) -> None:
        """A span that ends now."""
        end_ns = self._unix_ms() * _MS
        span = self._tracer.start_span(
            name,
            context=Context(),
            kind=kind,
            attributes=attributes,
            start_time=end_ns - int(seconds * 1000 * _MS),
        )
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_ns)
