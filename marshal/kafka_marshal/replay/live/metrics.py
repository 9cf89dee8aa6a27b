"""Prometheus metrics of a watch.

Counters start at 0 in every process, as Prometheus expects; the sinks report each finding exactly
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kafka_marshal.client.observe.metrics import serve_metrics
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.live.live_findings import OVER, LiveEvent
from kafka_marshal.replay.model.groups.rows import PartitionTenureRow, RebalanceRow
from kafka_marshal.replay.model.published import MalformedRow, TenureRow

DELAYS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics, and the HTTP page that serves them."""

    def __init__(self, gauges: Mapping[str, str] = JudgingOptions.gauges) -> None:
        """`gauges` are those of the judging: the meaning of each, by name."""
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
            "Tenures that were ended because their owner fell silent.",
            ["rules", "group"],
            registry=self.collected,
        )
        self._gauges = [
            Gauge(f"marshal_watch_{name}", meaning, labels, registry=self.collected)
            for name, meaning in gauges.items()
        ]
        self._rebalances = Counter(
            "marshal_watch_rebalances",
            "Rebalances that are over: settled, or superseded by another one.",
            ["group"],
            registry=self.collected,
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
            InvalidOption: the address is invalid, or already in use.
        """
        serve_metrics(self.collected, address)

    def read(self, partition: int, records: int, next_offset: int, gauges: Sequence[int]) -> None:
        """Count the records that were read of one partition, and set its gauges."""
        self._records.labels(partition).inc(records)
        self._next_offset.labels(partition).set(next_offset)
        for gauge, number in zip(self._gauges, gauges, strict=True):
            gauge.labels(partition).set(number)

    def count(self, event: LiveEvent, delay_s: float | None) -> None:
        """Count an event; `delay_s` is the time since the record that caused it."""
        row = event.row
        if isinstance(row, TenureRow):
            if row.ended == "took_over":
                self._takeovers.labels(row.rules, row.group).inc()
            return
        if isinstance(row, PartitionTenureRow):
            if row.ended == "expired":
                self._takeovers.labels("log", row.group).inc()
            return
        if isinstance(row, RebalanceRow):
            self._rebalances.labels(row.group).inc()
            return
        if isinstance(row, MalformedRow):
            self._findings.labels("malformed_record", event.severity, "log").inc()
        elif event.state != OVER:
            self._findings.labels(row.code, event.severity, row.rules or "log").inc()
        if delay_s is not None and event.state != OVER:
            self._delay.observe(delay_s)
