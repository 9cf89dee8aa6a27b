"""A run of the client, recorded and put to the specification with one command."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.testing import Broker
from tests.cli.run import marshal
from tests.client.hands import Hands


@pytest.fixture
def hands(kafka_broker: Broker) -> Iterator[Hands]:
    with Hands(kafka_broker) as hands:
        yield hands


def test_a_recorded_run_is_validated_with_the_log_of_its_cluster(
    hands: Hands, tmp_path: Path
) -> None:
    topic = hands.data(messages=50)
    with Consumer(
        hands.bootstrap,
        group_id="g",
        client_id="c",
        coordination_topic=hands.topic,
        record_to=tmp_path,
    ) as consumer:
        consumer.add_topic(topic)
        assert len(list(islice(consumer, 50))) == 50
    ran = marshal("validate", tmp_path, *hands.options)
    assert ran.returncode == 0, ran.stderr
    assert "A behaviour of the specification explains the whole run." in ran.stdout
    assert ran.stderr.startswith(f"wrote {tmp_path / 'log.jsonl'}: ")
    again = marshal("validate", tmp_path)
    assert (again.returncode, again.stdout) == (0, ran.stdout)


def test_a_log_that_was_taken_is_not_overwritten(hands: Hands, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("mine\n")
    ran = marshal("validate", tmp_path, *hands.options)
    said = f"marshal: {log} exists already: leave out --bootstrap, or remove it first\n"
    assert (ran.returncode, ran.stderr, log.read_text()) == (2, said, "mine\n")
