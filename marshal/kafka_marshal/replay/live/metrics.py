"""What a watch counts, for Prometheus.

Counters begin at 0 with every start, as Prometheus expects; the sinks report each finding exactly
once.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kafka_marshal.client.observe.metrics import serve_metrics
from kafka_marshal.replay.live.live_findings import OVER, LiveEvent
from kafka_marshal.replay.model.published import MalformedRow, TenureRow

DELAYS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics, and the page that serves them."""

    def __init__(self) -> None:
        self.collected = CollectorRegistry()
        labels = ["coordinating_partition"]
        self._records = Counter(
            "marshal_watch_records", "Records read.", labels, registry=self.collected
        )
        self._findings = Counter(
            "marshal_watch_findings",
            "Findings, each counted once, when it is first reported.",
            ["code", "severity", "rules"],
            registry=self.collected,
        )
        self._takeovers = Counter(
            "marshal_watch_takeovers",
            "Tenures that another consumer ended after their owner fell silent.",
            ["rules", "group"],
            registry=self.collected,
        )
        self._owned = Gauge(
            "marshal_watch_owned_claims", "Claims with an owner.", labels, registry=self.collected
        )
        self._next_offset = Gauge(
            "marshal_watch_next_offset", "The next offset to read.", labels, registry=self.collected
        )
        self._delay = Histogram(
            "marshal_watch_delay_seconds",
            "From the append of a record (its timestamp) to the finding that it made. Only records "
            "that were appended since the start.",
            buckets=DELAYS_S,
            registry=self.collected,
        )

    def serve(self, address: str) -> None:
        """Serve `/metrics` on PORT of this machine alone, or on HOST:PORT.

        Raises:
            InvalidOption: that is no address, or it is taken.
        """
        serve_metrics(self.collected, address)

    def read(self, partition: int, records: int, next_offset: int, owned: int) -> None:
        """Count the records that were read of one partition."""
        self._records.labels(partition).inc(records)
        self._next_offset.labels(partition).set(next_offset)
        self._owned.labels(partition).set(owned)

    def count(self, event: LiveEvent, delay_s: float | None) -> None:
        """Something happened this long after the record that caused it."""
        row = event.row
        if isinstance(row, TenureRow):
            if row.ended == "took_over":
                self._takeovers.labels(row.rules, row.group).inc()
            return
        if isinstance(row, MalformedRow):
            self._findings.labels("malformed_record", event.severity, "log").inc()
        elif event.state != OVER:
            self._findings.labels(row.code, event.severity, row.rules or "log").inc()
        if delay_s is not None and event.state != OVER:
            self._delay.observe(delay_s)
