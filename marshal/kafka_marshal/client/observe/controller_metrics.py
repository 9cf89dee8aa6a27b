"""Prometheus metrics of a controller.

An observer that knows prometheus_client, but not how a controller works. Counters start at 0 in
every process, as Prometheus expects.
"""

# ruff: noqa: D102  # what each method hears is documented once, at `ControllerObserver`

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from kafka_marshal.client.observe.controller_observers import (
    AnsweredRequest,
    ControllerObserver,
    HungUp,
)
from kafka_marshal.client.observe.metrics import APPEND_S, serve_metrics


class PrometheusControllerObserver(ControllerObserver):
    """Metrics of one controller, in one registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Register the metrics; in the default registry once in a process.

        Raises:
            ValueError: the registry has them already.
        """
        self._registry = registry = REGISTRY if registry is None else registry
        self._connections = Gauge(
            "marshal_controller_connections", "Connections of clients.", registry=registry
        )
        self._hung_up = Counter(
            "marshal_controller_hung_up",
            "Connections that the controller ended.",
            ["reason"],
            registry=registry,
        )
        self._requests = Histogram(
            "marshal_controller_request_seconds",
            "Until a request was answered; its count is that of the requests. A Heartbeat may wait "
            "for a change.",
            ["api", "code"],
            buckets=APPEND_S,
            registry=registry,
        )
        self._events = Counter(
            "marshal_controller_events",
            "Records of the log, of all partitions.",
            ["event", "outcome"],
            registry=registry,
        )
        self._takeovers = Histogram(
            "marshal_controller_takeover_seconds",
            "From winning the claim of a partition to controlling it.",
            buckets=APPEND_S,
            registry=registry,
        )
        self._served = Gauge(
            "marshal_controller_partitions",
            "Partitions of the log that this process controls.",
            registry=registry,
        )

    def serve(self, address: str) -> None:
        """Serve `/metrics` on PORT of this machine alone, or on HOST:PORT.

        Raises:
            InvalidOption: the address is invalid, or already in use.
        """
        serve_metrics(self._registry, address)

    def connected(self, host: str) -> None:
        self._connections.inc()

    def disconnected(self, host: str) -> None:
        self._connections.dec()

    def hung_up(self, host: str, why: HungUp, detail: str) -> None:
        self._hung_up.labels(why.value).inc()

    def answered(self, request: AnsweredRequest) -> None:
        self._requests.labels(request.api, request.code.name).observe(request.seconds)

    def folded(self, partition: int, event: str, *, accepted: bool) -> None:
        self._events.labels(event, "accepted" if accepted else "refused").inc()

    def serving(self, partition: int, *, serves: bool, after_s: float) -> None:
        self._served.inc(1 if serves else -1)
        if serves:
            self._takeovers.observe(after_s)
