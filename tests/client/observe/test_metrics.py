"""What Prometheus scrapes is what happened, on a real broker."""

from __future__ import annotations

import threading

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafka_marshal.client.api.consumer import Message
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health import ClaimProgress
from kafka_marshal.client.observe.metrics import PrometheusObserver
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.effects import Lost
from kafka_marshal.testing import Broker
from tests.client.crew import Stage, until
from tests.client.doubles import Kafka

DURING = ("claims_held", "position", "lag", "buffered_messages", "buffered_bytes")


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


class Scraped:
    """A registry, as a scrape of it sees it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.observer = PrometheusObserver(self.registry)

    def get(self, name: str, **labels: str) -> float | None:
        """The sum of the samples that have these labels; None if there are none."""
        text = generate_latest(self.registry).decode()
        found = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"marshal_consumer_{name}" and labels.items() <= sample.labels.items()
        ]
        return sum(found) if found else None


def test_what_is_scraped_is_what_happened(stage: Stage) -> None:
    topic, scraped = stage.topic(partitions=2, messages=100), Scraped()
    of = {"group": stage.group, "topic": topic}
    lock, handled = threading.Lock(), set[int]()
    during: dict[str, float | None] = {}
    dead = stage.topic(partitions=1, messages=0)
    settings = {"statistics.interval.ms": "200"}
    with stage.consumer("w1", observers=[scraped.observer], settings=settings) as consumer:
        consumer.add_topic(topic)

        def settled() -> bool:
            """All but what is in work is done; each value is scraped by itself."""
            during.update({name: scraped.get(name, **of) for name in DURING})
            lag = during["lag"] or 0
            rest = during["buffered_messages"], during["buffered_bytes"]
            return 1 <= lag <= 50 and during["position"] == 100 - lag and rest == (0, 0)

        def handle(message: Message) -> None:
            number = int(message.value or b"")
            with lock:
                handled.add(number)
                whole = len(handled) == 100
            if number == 3:
                raise RuntimeError("no")
            if whole:
                try:
                    until(lambda: scraped.get("librdkafka_rtt_seconds", client="data"), 5)
                    # How claims stand is reported once a second.
                    until(settled, 10)
                finally:
                    consumer.stop()

        counted = consumer.run(handle, workers=4, retries=1, backoff_s=0.01, dead_letter_topic=dead)
    assert during["claims_held"] == 2
    assert (counted.handled, counted.retried, counted.dead) == (100, 1, 1)
    assert scraped.get("claims_won_total", **of) == 2
    assert scraped.get("claims_lost_total", **of) == 2
    assert scraped.get("claims_lost_total", reason="released", **of) == 2
    assert scraped.get("claims_held", **of) == 0
    assert scraped.get("messages_handed_over_total", **of) == 100
    assert scraped.get("offsets_done_total", **of) == 100
    assert scraped.get("processing_seconds_count", outcome="done", **of) == 99
    assert scraped.get("processing_seconds_count", outcome="failed", **of) == 2
    assert scraped.get("retries_total", **of) == 1
    assert scraped.get("dead_letters_total", **of) == 1
    append = {"group": stage.group}
    assert scraped.get("append_seconds_count", kind="ClaimingPartition", **append) == 2
    assert scraped.get("append_seconds_count", kind="ReleasingPartition", **append) == 2
    assert (scraped.get("append_seconds_count", kind="Heartbeat", **append) or 0) >= 2
    # Only the claims' present owner reports how far they are.
    assert scraped.get("position", **of) is None
    assert scraped.get("lag", **of) is None


def test_two_consumers_of_a_process_count_into_one_registry(stage: Stage) -> None:
    topic, scraped = stage.topic(partitions=2, messages=20), Scraped()
    of = {"group": stage.group, "topic": topic}
    with stage.worker("w1", topic, observers=[scraped.observer]):
        until(lambda: scraped.get("claims_held", **of) == 2)
        with stage.worker("w2", topic, observers=[scraped.observer]):
            until(lambda: (scraped.get("claims_won_total", **of) or 0) >= 3)
            until(lambda: scraped.get("claims_held", **of) == 2)
            until(lambda: scraped.get("position", **of) == 20)


def test_what_a_consumer_leaves_behind_is_not_counted_as_held(stage: Stage) -> None:
    topic, scraped = stage.topic(partitions=2, messages=20), Scraped()
    of = {"group": stage.group, "topic": topic}
    for _ in range(2):
        with stage.worker("w1", topic, observers=[scraped.observer]) as worker:
            until(lambda: scraped.get("claims_held", **of) == 2)
            worker.consumer.close(release=False)
            assert scraped.get("claims_held", **of) == 0
            assert scraped.get("position", **of) is None
    assert scraped.get("claims_won_total", **of) == 4
    assert scraped.get("claims_lost_total", **of) is None


def test_the_last_owner_of_a_partition_has_the_last_word() -> None:
    scraped = Scraped()
    key = ClaimKey("g", "events", 0)
    before, after = (Claim(key, "events", 0, epoch, 7) for epoch in (3, 9))
    scraped.observer.claimed(before)
    scraped.observer.claimed(after)
    scraped.observer.standing(after, ClaimProgress(50, 60))
    scraped.observer.standing(before, ClaimProgress(7, 60))
    scraped.observer.done(before, 8, 1)
    scraped.observer.lost(before, Lost.TAKEN)
    assert scraped.get("position") == 50
    assert scraped.get("lag") == 10
    assert scraped.get("claims_held") == 1
    assert scraped.get("claims_lost_total", reason="taken") == 1
    scraped.observer.lost(after, Lost.RELEASED)
    assert scraped.get("position") is None


def test_a_lag_is_not_known_before_a_fetch_and_stays_while_the_claim_is_paused() -> None:
    """It was 0 for a claim of which nothing could be fetched, and None for a paused one."""
    kafka, scraped = Kafka(), Scraped()
    kafka.create("events", messages=10)
    reported: list[int] = []

    class Reports(Observer):
        def standing(self, claim: Claim, standing: ClaimProgress) -> None:
            reported.append(standing.lag)

    with kafka.consumer(observers=[scraped.observer, Reports()]) as consumer:
        consumer.add_topic("events")
        until(lambda: consumer.claims)
        [claim] = consumer.claims
        ownership = consumer._coordinator.ownership

        def report(ends: dict[Claim, int]) -> tuple[int | None, float | None, list[int]]:
            reported.clear()
            ownership.report_progress(ends)
            return consumer.lag("events", 0), scraped.get("lag"), [*reported]

        def reports() -> list[tuple[int | None, float | None, list[int]]]:
            """In the coordinator's thread, which reports by itself once a second."""
            ownership._ends = {}
            scraped.observer.lost(claim, Lost.RELEASED)
            scraped.observer.claimed(claim)
            return [report(ends) for ends in ({}, {claim: 25}, {})]

        found = consumer._coordinator.call(reports)
        assert found == [(None, None, []), (25, 25, [25]), (25, 25, [25])]


def test_metrics_are_named_as_prometheus_wants_it() -> None:
    families = list(text_string_to_metric_families(generate_latest(Scraped().registry).decode()))
    assert len(families) > 15
    for family in families:
        assert family.name.startswith(("marshal_consumer_", "marshal_producer_"))
        assert family.documentation.endswith(".")
        if family.type == "histogram":
            assert family.name.endswith("_seconds")
