"""What a consumer on a real broker says of itself."""

from __future__ import annotations

import io
import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from kafka_marshal import Producer, ProducerRecord
from kafka_marshal.client.api.consumer import Claim, Consumer, IdUsedTwice
from kafka_marshal.client.observe.health import LateCause, WedgedCause
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.errors import MarshalError
from kafka_marshal.machines.consumer.effects import Lost
from kafka_marshal.testing import Broker
from tests.client.crew import Stage, until
from tests.client.doubles import Kafka
from tests.client.notes import FullDisk, Notes

NAME = "kafka_marshal"


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    return [each for each in caplog.records if getattr(each, "event", None) == event]


def test_observers_hear_what_happened_in_its_order(stage: Stage) -> None:
    topic, notes = stage.topic(partitions=1, messages=20), Notes()
    with stage.consumer("w1", observers=[notes]) as consumer:
        consumer.add_topic(topic)
        for message in consumer:
            if message.offset == 19:
                consumer.stop()
    names = [name for name, _ in notes.heard]
    first = [names.index(each) for each in ("claimed", "handed_over", "done", "lost", "drained")]
    assert first == sorted(first)
    [(claim,)] = notes.of("claimed")
    assert (claim.topic, claim.partition) == (topic, 0)
    assert sum(messages for _, messages in notes.of("handed_over")) == 20
    assert sum(offsets for _, _, offsets in notes.of("done")) == 20
    assert notes.of("done")[-1][1] == 20
    assert notes.of("lost") == [(claim, Lost.RELEASED)]
    kinds = {kind for _, kind, _ in notes.of("appended")}
    assert kinds == {"ClaimingPartition", "Heartbeat", "ReleasingPartition"}
    assert all(0 < seconds < 10 for _, _, seconds in notes.of("appended"))
    assert not {"late", "wedged", "fenced", "idle", "unknown", "dropped"} & set(names)


CALLS: dict[str, Callable[[Consumer], object]] = {
    "add_topic": lambda consumer: consumer.add_topic("others"),
    "subscribe": lambda consumer: consumer.subscribe("others"),
    "remove_topic": lambda consumer: consumer.remove_topic("events"),
    "release": lambda consumer: consumer.release("events", 0),
    "pause": lambda consumer: consumer.pause("events"),
    "resume": lambda consumer: consumer.resume("events"),
    "seek": lambda consumer: consumer.seek("events", 0, 1),
    "commit": lambda consumer: consumer.commit(),
    "close": lambda consumer: consumer.close(),
}


def test_an_observer_cannot_wait_for_the_thread_that_calls_it() -> None:
    """The thread waited for itself: no heartbeat was sent, and `close` did not end in time."""
    kafka = Kafka()
    kafka.create("events", messages=3)
    kafka.create("others")
    refused: list[str] = []

    class Calls(Observer):
        def claimed(self, claim: Claim) -> None:
            for name, call in CALLS.items():
                with suppress(MarshalError):
                    call(consumer)
                    continue
                refused.append(name)
            consumer.commit(asynchronous=True)  # does not wait

    with kafka.new_consumer(observers=[Calls()]) as consumer:
        consumer.add_topic("events")
        assert [message.offset for message in consumer.consume(10, 5.0)] == [0, 1, 2]
    assert refused == [*CALLS]


def test_an_observer_that_fails_is_named_and_stops_nobody(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Observer):
        def claimed(self, claim: Claim) -> None:
            raise RuntimeError("claimed")

        def processing(self, message: object) -> Any:
            if message.offset % 2:  # type: ignore[attr-defined]
                raise RuntimeError("processing")
            return nullcontext()

    topic, notes = stage.topic(partitions=1, messages=20), Notes()
    with stage.consumer("w1", observers=[Broken(), notes]) as consumer:
        consumer.add_topic(topic)

        def handle(message: Any) -> None:
            if message.offset == 19:
                consumer.stop()

        assert consumer.run(handle, workers=2).handled == 20
    assert len(notes.of("claimed")) == 1
    failed = [each for each in caplog.records if "observer" in each.getMessage()]
    assert len(failed) == 1 + 10
    assert all(each.exc_info for each in failed)


def test_a_claim_that_does_not_move_is_said_to_be_wedged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    topic, notes = stage.topic(partitions=1, messages=20), Notes()
    options = {"observers": [notes], "heartbeat_every_s": 0.1, "wedged_after_beats": 3}

    def at_five() -> list[Any]:
        """On a slow machine it may stand at the beginning for three heartbeats, too."""
        return [each for each in notes.of("wedged") if each[1].standing.position == 5]

    with stage.consumer("w1", **options) as consumer:
        consumer.add_topic(topic)
        for message in consumer:
            if message.offset == 5:
                until(lambda: len(at_five()) > 8)
                break
    claim, wedged = at_five()[0]
    assert (claim.partition, wedged.cause) == (0, WedgedCause.IN_HAND)
    assert wedged.beats == 3
    assert wedged.standing.position == 5
    assert wedged.standing.end == 20
    lines = [each for each in told(caplog, "wedged") if each.position == 5]
    beats = [each.beats for _, each in at_five()]
    assert len(lines) == sum(number in (3, 6, 12, 24, 48, 96) for number in beats) >= 2
    line = lines[0]
    assert (line.topic, line.partition, line.position) == (topic, 0, 5)
    assert (line.reason, line.epoch, line.group) == ("in_hand", claim.epoch, stage.group)
    assert "does not finish the one at 5" in line.getMessage()


def test_an_application_that_does_not_ask_is_said_to_be_wedged(stage: Stage) -> None:
    topic, notes = stage.topic(partitions=1, messages=20), Notes()
    options = {"observers": [notes], "heartbeat_every_s": 0.1, "wedged_after_beats": 3}
    with stage.consumer("w1", **options) as consumer:
        consumer.add_topic(topic)
        until(lambda: WedgedCause.NOT_TAKEN in [each.cause for _, each in notes.of("wedged")])
        consumer.pause(topic)
        time.sleep(0.3)
        before = len(notes.of("wedged"))
        time.sleep(0.5)
        assert len(notes.of("wedged")) == before


def test_whoever_stalls_is_late_then_fenced_and_the_log_says_what_to_do(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, NAME)
    topic, notes = stage.topic(partitions=1, messages=40), Notes()
    every = {"heartbeat_interval_s": 0.5}
    with stage.worker("w1", topic, observers=[notes], window=10, **every) as first:
        until(lambda: len(first.got) == 40)
        with stage.worker("w2", topic, **every) as second:
            go_on = threading.Event()

            def stall() -> None:
                go_on.wait(15)

            first.consumer._coordinator.do(stall)
            until(lambda: second.consumer.claims)
            go_on.set()
            until(lambda: notes.of("fenced"))
    claim, late = notes.of("late")[-1]  # a machine may stand still for 0.75 s before, too
    assert late.cause is LateCause.NOT_SENT
    assert late.silent_ms >= 900  # from when the last heartbeat was read back, which takes its time
    [(_, reason, seen)] = notes.of("fenced")
    assert reason is Lost.TAKEN
    assert (seen.by_client, seen.position) == ("w2", 40)
    assert seen.epoch > claim.epoch
    assert seen.silent_ms >= 900
    [line] = [each for each in told(caplog, "lost") if each.reason == "taken"]
    assert (line.client_id, line.levelname, line.position) == ("w1", "WARNING", 40)
    assert "client w2 took it" in line.getMessage()
    assert "an owner is stale after 1 s" in line.getMessage()
    line = [each for each in told(caplog, "late") if each.client_id == "w1"][-1]
    assert "this process stood still" in line.getMessage()


def test_heartbeats_that_do_not_come_back_are_late(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    topic, notes = stage.topic(partitions=1, messages=4), Notes()
    with stage.worker("w1", topic, observers=[notes]) as worker:
        until(lambda: len(worker.got) == 4)
        session = worker.consumer._coordinator.loop.session
        while session._room.acquire(blocking=False):  # the reader waits, and nobody tells it on
            pass
        until(lambda: notes.of("late"))
        for _ in range(32):
            session.taken()
        time.sleep(0.5)
    [(_, late)] = notes.of("late")
    assert late.cause is LateCause.NOT_READ_BACK
    [line] = told(caplog, "late")
    assert "did not come back" in line.getMessage()


def test_of_two_with_one_id_the_loser_says_that_it_was_fenced(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    topic, notes = stage.topic(partitions=1, messages=4), Notes()
    with stage.worker("w1", topic, observers=[notes]) as first:
        until(lambda: len(first.got) == 4)
        with stage.worker("w1", topic):
            until(lambda: first.failure is not None)
    assert isinstance(first.failure, IdUsedTwice)
    [(_, reason, seen)] = notes.of("fenced")
    assert (reason, seen.by_client) == (Lost.ID_USED_TWICE, "w1")
    lines = [each.getMessage() for each in told(caplog, "lost")]
    assert any("give every process an id of its own" in each for each in lines)
    [line] = told(caplog, "stopped")
    assert line.reason == "IdUsedTwice"


def test_who_finds_nothing_left_to_own_says_so_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    topic, notes, busy = stage.topic(partitions=1, messages=4), Notes(), Notes()
    with stage.worker("w1", topic, observers=[busy]) as first:
        until(lambda: len(first.got) == 4)
        with stage.worker("w2", topic, observers=[notes]):
            until(lambda: notes.of("idle"))
            time.sleep(1.2)
    [(group, idle)] = notes.of("idle")
    assert (group, idle.claims, idle.owners) == (stage.group, 1, 1)
    assert not busy.of("idle")
    [line] = told(caplog, "idle")
    assert line.client_id == "w2"
    assert "1 partitions are owned by 1 other" in line.getMessage()


def test_librdkafka_is_asked_how_it_fares_only_if_somebody_listens(stage: Stage) -> None:
    topic, notes = stage.topic(partitions=1, messages=4), Notes()
    every = {"settings": {"statistics.interval.ms": "100"}}
    with stage.worker("w1", topic, observers=[notes], **every):
        until(lambda: {client for _, client, _ in notes.of("statistics")} == {"data", "log"})
    _, _, values = notes.of("statistics")[-1]
    assert "brokers" in values
    with stage.consumer("w2", **every) as consumer:
        assert consumer._coordinator.statistics_of("data") is None


def test_around_a_message_of_a_loop_an_application_says_processing(stage: Stage) -> None:
    inside: list[int] = []

    class Around(Observer):
        def processing(self, message: Any) -> Any:
            inside.append(message.offset)
            return threading.Lock()

    topic = stage.topic(partitions=1, messages=3)
    with stage.consumer("w1", observers=[Around()]) as consumer:
        consumer.add_topic(topic)
        for message in consumer:
            with consumer.processing(message):
                pass
            if message.offset == 2:
                consumer.stop()
    assert inside == [0, 1, 2]


def test_a_handler_of_the_log_that_raises_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It ended a consumer, and a producer's thread: then `result` waited for ever."""
    kafka, logger = Kafka(), logging.getLogger(NAME)
    kafka.create("orders", partitions=1, messages=3)
    monkeypatch.setattr(logger, "handlers", [FullDisk()])
    monkeypatch.setattr(logger, "propagate", False)
    caplog.set_level(logging.DEBUG, NAME)

    def fails(_: object) -> None:
        raise ValueError("of the application")

    with kafka.consumer(on_claimed=fails) as consumer:
        consumer.add_topic("orders")
        assert [message and message.offset for message in map(consumer.poll, [10.0] * 3)] == [
            0,
            1,
            2,
        ]
        consumer.commit()
    with Producer("127.0.0.1:1", settings={"message.timeout.ms": "100"}) as producer:
        response = producer.send(ProducerRecord("orders", b"x"))
        response.on_completion(fails)
        assert response.wait(30.0)
        assert producer.flush(30.0)
    assert "OSError: no space for orders/0 (epoch " in capsys.readouterr().err


def test_a_handler_of_the_log_that_raises_ends_nothing_without_standard_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a daemon, which closes it."""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    monkeypatch.setattr(logging.getLogger(NAME), "handlers", [FullDisk()])
    logger.warning("a line")
