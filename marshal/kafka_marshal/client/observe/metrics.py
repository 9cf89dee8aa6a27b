"""Prometheus metrics of the consumers and producers of a process.

An observer that knows prometheus_client, and not how a consumer works. docs/client.md lists the
metrics. Counters begin at 0 with every start, as Prometheus expects. The series of a partition are
removed when its claim is lost, so no values of a former owner remain.
"""

# ruff: noqa: D102  # what each method hears is documented once, at `Observer`

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    start_http_server,
)

from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.message import Claim, Message, SentRecord
from kafka_marshal.client.observe.health import ClaimProgress, LateHeartbeat, Wedged
from kafka_marshal.client.observe.observers import Idle, Observer
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import InvalidOption
from kafka_marshal.machines.consumer.effects import Lost

APPEND_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
PROCESS_S: Final = (0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300)


def serve_metrics(registry: CollectorRegistry, address: str) -> None:
    """Serve `/metrics` on PORT of this machine alone, or on HOST:PORT.

    Raises:
        InvalidOption: this is not an address, or it is in use.
    """
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        raise InvalidOption(f"--metrics must be PORT or HOST:PORT, not {address!r}")
    try:
        start_http_server(int(port), host or "127.0.0.1", registry)
    except OSError as error:
        raise InvalidOption(f"--metrics {address}: {error.strerror or error}") from None


class PrometheusObserver(Observer):
    """Metrics of all consumers and producers that it observes, in one registry."""

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        monotonic: Callable[[], float] = REAL.monotonic,
    ) -> None:
        """Register the metrics; in the default registry only once per process.

        `monotonic` measures handlers, in seconds.

        Raises:
            ValueError: the registry has them already.
        """
        registry = REGISTRY if registry is None else registry
        self._monotonic = monotonic
        of_group, of_topic = ["group"], ["group", "topic"]
        of_partition = [*of_topic, "partition"]

        def counter(name: str, what: str, labels: list[str]) -> Counter:
            return Counter(f"marshal_consumer_{name}", what, labels, registry=registry)

        def gauge(name: str, what: str, labels: list[str]) -> Gauge:
            return Gauge(f"marshal_consumer_{name}", what, labels, registry=registry)

        self._held = gauge("claims_held", "Claims that are ours.", of_topic)
        self._won = counter("claims_won", "Claims won.", of_topic)
        self._lost = counter(
            "claims_lost",
            "Claims lost; taken and id_used_twice: fenced. The cause says why one was released.",
            [*of_topic, "reason", "cause"],
        )
        self._append = Histogram(
            "marshal_consumer_append_seconds",
            "Until a message of the protocol lay in the log; its count is that of the messages.",
            [*of_group, "kind"],
            buckets=APPEND_S,
            registry=registry,
        )
        self._unknown = counter(
            "appends_unknown", "Appends of which nobody knows the outcome.", [*of_group, "kind"]
        )
        self._handed_over = counter(
            "messages_handed_over", "Messages the application has taken.", of_topic
        )
        self._done = counter(
            "offsets_done", "Offsets that are done, also those without a message.", of_topic
        )
        self._dropped = counter(
            "messages_dropped", "Messages of claims that were lost; others process them.", of_topic
        )
        self._position = gauge("position", "Everything below is done.", of_partition)
        self._lag = gauge("lag", "Offsets from the position to the partition's end.", of_partition)
        self._buffered = gauge("buffered_messages", "Fetched and not handed over.", of_partition)
        self._bytes = gauge("buffered_bytes", "Their keys and values.", of_partition)
        self._wedged = counter(
            "wedged_heartbeats", "Heartbeats of claims that do not move.", [*of_partition, "cause"]
        )
        self._late = counter(
            "late", "Times that heartbeats were not in the log in time.", [*of_topic, "cause"]
        )
        self._awaits = gauge(
            "awaits_owner", "1: shared, and owned by a consumer that does not share.", of_partition
        )
        self._idle = counter("idle", "Times that there was nothing left to own.", of_group)
        self._processing = Histogram(
            "marshal_consumer_processing_seconds",
            "Handling one message; its count is that of the tries.",
            [*of_topic, "outcome"],
            buckets=PROCESS_S,
            registry=registry,
        )
        self._retried = counter("retries", "Messages that failed and are tried again.", of_topic)
        self._dead = counter("dead_letters", "Messages that failed for good.", of_topic)
        self._delivered = Histogram(
            "marshal_producer_delivery_seconds",
            "Until a record was confirmed; its count is that of the records.",
            ["topic"],
            buckets=APPEND_S,
            registry=registry,
        )
        self._undelivered = Counter(
            "marshal_producer_undelivered",
            "Records that are not confirmed: refused, or nobody knows.",
            ["topic", "error"],
            registry=registry,
        )
        self._buffer_full = Histogram(
            "marshal_producer_buffer_full_seconds",
            "How long sends found the buffer full; its count is that of the sends.",
            buckets=APPEND_S,
            registry=registry,
        )
        client = [*of_group, "client"]
        self._queued = gauge("librdkafka_queued", "Requests and messages that wait.", client)
        self._rtt = gauge(
            "librdkafka_rtt_seconds", "Until a broker answers, p99.", [*client, "broker"]
        )
        self._errors = gauge(
            "librdkafka_errors", "Failed sends and receives, since the start.", [*client, "way"]
        )
        self._lock = threading.Lock()
        self._shown: dict[ClaimKey, Claim] = {}
        """The claim that the gauges of a partition show."""

    # --- claims -----------------------------------------------------------------------------------

    def claimed(self, claim: Claim) -> None:
        self._held.labels(*_topic(claim)).inc()
        self._won.labels(*_topic(claim)).inc()
        with self._lock:  # its lag is not known before the first fetch
            if self._is_newest(claim):
                self._shown[claim.key] = claim
                self._position.labels(*_partition(claim)).set(claim.position)

    def lost(self, claim: Claim, reason: Lost) -> None:
        cause = "" if claim.released is None else claim.released.value
        self._lost.labels(*_topic(claim), reason.value, cause).inc()
        self._hide(claim)

    def left(self, claim: Claim) -> None:
        self._hide(claim)

    def _hide(self, claim: Claim) -> None:
        self._held.labels(*_topic(claim)).dec()
        with self._lock:
            if self._shown.get(claim.key) is claim:
                del self._shown[claim.key]
                for each in (self._position, self._lag, self._buffered, self._bytes):
                    with suppress(KeyError):  # nothing was ever fetched
                        each.remove(*_partition(claim))

    def done(self, claim: Claim, position: int, offsets: int) -> None:
        self._done.labels(*_topic(claim)).inc(offsets)
        with self._lock:
            if self._shown.get(claim.key) is claim:
                self._position.labels(*_partition(claim)).set(position)

    def standing(self, claim: Claim, standing: ClaimProgress) -> None:
        self._show(claim, standing)

    def _show(self, claim: Claim, standing: ClaimProgress) -> None:
        labels = _partition(claim)
        with self._lock:
            if not self._is_newest(claim):
                return
            self._shown[claim.key] = claim
            self._position.labels(*labels).set(standing.position)
            self._lag.labels(*labels).set(standing.lag)
            self._buffered.labels(*labels).set(standing.buffered)
            self._bytes.labels(*labels).set(standing.buffered_bytes)

    def _is_newest(self, claim: Claim) -> bool:
        shown = self._shown.get(claim.key)
        return shown is None or shown.epoch <= claim.epoch

    # --- the log ----------------------------------------------------------------------------------

    def appended(self, key: ClaimKey, kind: str, seconds: float) -> None:
        self._append.labels(key.group, kind).observe(seconds)

    def unknown(self, key: ClaimKey, kind: str, error: str) -> None:
        self._unknown.labels(key.group, kind).inc()

    # --- messages ---------------------------------------------------------------------------------

    def handed_over(self, claim: Claim, messages: int) -> None:
        self._handed_over.labels(*_topic(claim)).inc(messages)

    def dropped(self, claim: Claim, messages: int) -> None:
        self._dropped.labels(*_topic(claim)).inc(messages)

    @contextmanager
    def processing(self, message: Message) -> Iterator[None]:
        began, outcome = self._monotonic(), "failed"
        try:
            yield
            outcome = "done"
        finally:
            seconds = self._monotonic() - began
            self._processing.labels(*_topic(message.claim), outcome).observe(seconds)

    def retried(self, message: Message, error: BaseException, tried: int) -> None:
        self._retried.labels(*_topic(message.claim)).inc()

    def dead_lettered(self, message: Message, error: BaseException, tried: int) -> None:
        self._dead.labels(*_topic(message.claim)).inc()

    # --- symptoms ---------------------------------------------------------------------------------

    def wedged(self, claim: Claim, wedged: Wedged) -> None:
        self._wedged.labels(*_partition(claim), wedged.cause.value).inc()

    def late(self, claim: Claim, late: LateHeartbeat) -> None:
        self._late.labels(*_topic(claim), late.cause.value).inc()

    def awaits_owner(self, key: ClaimKey, client: str | None) -> None:
        labels = (key.group, key.topic, str(key.topic_partition))
        self._awaits.labels(*labels).set(client is not None)

    def idle(self, group: str, idle: Idle) -> None:
        self._idle.labels(group).inc()

    # --- producers --------------------------------------------------------------------------------

    def delivered(self, record: SentRecord) -> None:
        if record.error is not None:
            self._undelivered.labels(record.topic, type(record.error).__name__).inc()
        elif record.seconds is not None:
            self._delivered.labels(record.topic).observe(record.seconds)

    def buffer_full(self, seconds: float) -> None:
        self._buffer_full.observe(seconds)

    # --- librdkafka -------------------------------------------------------------------------------

    def statistics(self, group: str, client: str, values: Mapping[str, Any]) -> None:
        queued = values.get("replyq", 0) + values.get("msg_cnt", 0)
        sent = received = 0
        for name, broker in values.get("brokers", {}).items():
            sent += broker.get("txerrs", 0)
            received += broker.get("rxerrs", 0)
            queued += broker.get("outbuf_cnt", 0) + broker.get("waitresp_cnt", 0)
            if broker.get("nodeid", -1) >= 0 and (rtt := broker.get("rtt", {})).get("cnt"):
                self._rtt.labels(group, client, name).set(rtt["p99"] / 1e6)
        self._queued.labels(group, client).set(queued)
        self._errors.labels(group, client, "sent").set(sent)
        self._errors.labels(group, client, "received").set(received)


def _topic(claim: Claim) -> tuple[str, str]:
    return claim.key.group, claim.topic


def _partition(claim: Claim) -> tuple[str, str, str]:
    return claim.key.group, claim.topic, str(claim.partition)
