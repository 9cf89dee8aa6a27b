"""Marshal promises that a message that kills its process ends, and nothing else is put aside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import Message as Fetched
from confluent_kafka import TopicPartition

from kafka_marshal import InvalidOption, Observer
from kafka_marshal.client.api.consumer import Message
from kafka_marshal.testing import Broker
from tests.client.crew import INTERVAL_S, Stage, until

POISON, MESSAGES, MOST = 7, 200, 2
WORKER = """
import os, signal, sys
from kafka_marshal import Consumer

bootstrap, coordination, group, name, topic, dead, handled, interval_s, most = sys.argv[1:]

def handle(message):
    with open(handled, "a") as file:
        file.write(f"{message.value.decode()} {message.deliveries}\\n")
    if message.value == b"%d":
        os.kill(os.getpid(), signal.SIGKILL)

with Consumer(
    bootstrap, group_id=group, client_id=name, coordination_topic=coordination,
    heartbeat_interval_s=float(interval_s), window=100,
) as consumer:
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    consumer.add_topic(topic, share="ranges")
    consumer.run(handle, workers=4, dead_letter_topic=dead, max_deliveries=int(most))
"""


def dead_letters(stage: Stage, topic: str) -> list[Fetched]:
    consumer = KafkaConsumer({"bootstrap.servers": stage.bootstrap, "group.id": "looks"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Fetched] = []
        while (message := consumer.poll(2.0)) is not None:
            found.append(message)
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.night), 3])
def test_a_message_that_kills_its_process_is_put_aside_alone(
    kafka_broker: Broker, tmp_path: Path, partitions: int
) -> None:
    stage = Stage(kafka_broker)
    topic, dead = stage.topic(partitions, MESSAGES), stage.topic(1, 0)
    handled = tmp_path / "handled"
    handled.touch()
    arguments = [topic, dead, str(handled), str(INTERVAL_S), str(MOST)]

    def start(name: str) -> subprocess.Popen[bytes]:
        of_group = [stage.bootstrap, stage.coordination, stage.group, name]
        return subprocess.Popen(  # our own interpreter
            [sys.executable, "-c", WORKER % POISON, *of_group, *arguments]
        )

    workers = {name: start(name) for name in ("w1", "w2")}
    killed = 0

    def over() -> bool:
        nonlocal killed
        for name, worker in workers.items():
            if worker.poll() is not None:
                killed += 1
                workers[name] = start(name)
        got = {int(line.split()[0]) for line in handled.read_text().splitlines()}
        return got == set(range(MESSAGES)) and bool(dead_letters(stage, dead))

    try:
        until(over, within_s=120)
    finally:
        for worker in workers.values():
            worker.terminate()
        for worker in workers.values():
            worker.wait(60)
    [letter] = dead_letters(stage, dead)
    headers = dict(cast("list[tuple[str, bytes]]", letter.headers()))
    assert letter.value() == b"%d" % POISON
    assert headers["marshal-dead-deliveries"] == b"%d" % (MOST + 1)
    assert headers["marshal-dead-tries"] == b"0"
    assert headers["marshal-dead-error"].startswith(b"TooManyDeliveries: ")
    counts = [line.split() for line in handled.read_text().splitlines()]
    assert [int(count) for value, count in counts if int(value) == POISON] == [1, 2]
    assert killed == MOST


def test_on_a_shared_topic_what_fails_is_tried_again_and_then_put_aside(
    kafka_broker: Broker,
) -> None:
    stage = Stage(kafka_broker)
    topic, dead = stage.topic(1, MESSAGES), stage.topic(1, 0)
    handled: set[int] = set()
    tried: list[int | None] = []
    letters: list[int] = []

    def stop_when_all_is_done() -> None:
        if len(handled) == MESSAGES - 1 and letters:
            consumer.stop()

    class Watches(Observer):
        def dead_lettered(self, message: Message, error: BaseException, tried: int) -> None:
            letters.append(message.offset)
            stop_when_all_is_done()

    with stage.consumer("w1", observers=[Watches()]) as consumer:
        consumer.add_topic(topic, share="ranges")

        def handle(message: Message) -> None:
            number = int(message.value or b"")
            if number == POISON:
                tried.append(message.deliveries)
                raise ValueError("no such parcel")
            handled.add(number)
            stop_when_all_is_done()

        counted = consumer.run(
            handle, order="none", retries=1, backoff_s=0.01, dead_letter_topic=dead
        )
    assert tried == [1, 1]
    assert (counted.retried, counted.dead) == (1, 1)
    [letter] = dead_letters(stage, dead)
    headers = dict(cast("list[tuple[str, bytes]]", letter.headers()))
    assert headers["marshal-dead-deliveries"] == b"1"
    assert headers["marshal-dead-tries"] == b"2"


def test_who_puts_nothing_aside_cannot_limit_deliveries(kafka_broker: Broker) -> None:
    stage = Stage(kafka_broker)
    with stage.consumer("w1") as consumer:
        for most in (1, 0):
            with pytest.raises(InvalidOption, match="max_deliveries"):
                consumer.run(print, max_deliveries=most)
