"""Marshal promises that a chaos run sets the clock that stamps records."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from tools.chaos.clocks import Clocks

from kafka_marshal.testing import QUICK, Cluster

SETTINGS = {"auto.create.topics.enable": "true", "log.message.timestamp.type": "LogAppendTime"}


def ahead_s(producer: Producer) -> float:
    """How far the next record's time is ahead of this machine's."""
    found: list[Message] = []
    producer.produce("stamped", b"", on_delivery=lambda _, message: found.append(message))
    assert producer.flush(30) == 0
    return found[0].timestamp()[1] / 1000 - time.time()


@pytest.mark.night
def test_a_brokers_clock_is_set_and_is_right_when_it_starts_again(tmp_path: Path) -> None:
    clocks = Clocks(tmp_path / "clocks")
    with Cluster(
        brokers=1,
        settings=SETTINGS,
        java_options=(*QUICK, *clocks.java_options),
        classes=clocks.classes,
    ) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        assert abs(ahead_s(producer)) < 60
        for wanted_s in (3600, -3600):
            clocks.set(cluster.server(1).pid, 1000 * wanted_s)
            assert abs(ahead_s(producer) - wanted_s) < 60
        cluster.stop()
        cluster.start()
        assert abs(ahead_s(producer)) < 60
