"""Marshal promises that a chaos run knows which messages there are."""

from __future__ import annotations

import time

import pytest
from tools.chaos import load as room
from tools.chaos.load import Load

from kafka_marshal.testing import Broker
from tests.client.crew import Stage


@pytest.fixture
def load(kafka_broker: Broker) -> Load:
    begun = Load(Stage(kafka_broker), partitions=2)
    begun.start()
    while begun.produced < 20:
        time.sleep(0.01)
    return begun


def test_a_message_that_the_producer_appends_twice_is_one_more(
    load: Load, kafka_broker: Broker
) -> None:
    Stage(kafka_broker).produce(load.topic, 2, range(3))
    load.end()
    assert load.appended_twice == 3
    assert sum(load.ends().values()) == load.produced + 3
    assert load.judged() == {1: load.ends()[1]}


def test_brokers_that_lose_what_they_acknowledged_end_the_run(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "KEPT_S", 0.0)
    load.end()
    load.produced += 1
    with pytest.raises(SystemExit, match=f"lost messages of {load.topic}: "):
        load.end()
