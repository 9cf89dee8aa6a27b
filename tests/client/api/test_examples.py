"""Every example runs as its first lines say, on a real broker."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen
from confluent_kafka import Producer
from examples import fenced_transform, fencing_sqlite, shared_topic

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.client.message import Range
from kafka_marshal.testing import Broker
from tests.client.crew import Stage, until
from tests.client.hands import new_name

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def topic(kafka_broker: Broker) -> str:
    """Ten numbered messages in two partitions."""
    return Stage(kafka_broker).topic(2, 10)


def run(
    words: list[str], enough: Callable[[str], bool], end: signal.Signals = signal.SIGINT
) -> str:
    """Start an example, wait until it has printed enough, and end it as a user would."""
    child = subprocess.Popen(
        [sys.executable, "-u", EXAMPLES / words[0], *words[1:]], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    said = ""
    deadline = time.monotonic() + 60
    while not enough(said) and time.monotonic() < deadline:
        said += child.stdout.readline()
    child.send_signal(end)
    said += child.stdout.read()
    assert child.wait(60) == 0
    assert enough(said), said
    return said


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_at_least_once(end: signal.Signals, kafka_broker: Broker, topic: str) -> None:
    words = ["at_least_once.py", kafka_broker.bootstrap, new_name("g"), "worker-1", topic]
    said = run(words, lambda said: said.count("\n") >= 10, end)
    assert {int(line.split()[-1].strip("b'")) for line in said.splitlines()} == set(range(10))


def test_at_most_once(kafka_broker: Broker, topic: str) -> None:
    words = ["at_most_once.py", kafka_broker.bootstrap, new_name("g"), "worker-1", topic]
    said = run(words, lambda said: said.count("b'") >= 10)
    numbers = [line.strip(" b'") for line in said.splitlines() if "b'" in line]
    assert sorted(map(int, numbers)) == list(range(10))


def test_workers(kafka_broker: Broker, topic: str) -> None:
    stage = Stage(kafka_broker)
    dead = stage.topic(1, 0)
    bootstrap = kafka_broker.bootstrap
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"not a number", partition=0)
    producer.flush(30)
    words = ["workers.py", bootstrap, new_name("g"), "worker-1", topic, dead]

    def is_dead() -> bool:
        return ClusterClient(settings_of(bootstrap)).ends([(dead, 0)])[dead, 0] == 1

    def enough(said: str) -> bool:
        deadline = time.monotonic() + 30
        while (done := said.count("\n") >= 10) and not is_dead() and time.monotonic() < deadline:
            time.sleep(0.1)  # nothing more will be printed
        return done

    said = run(words, enough)
    handled = [int(line.split()[-1]) for line in said.splitlines() if line[0].isdigit()]
    assert sorted(handled) == list(range(10))
    assert is_dead()
    assert "dead=1" in said.splitlines()[-1]


def test_a_database_that_fences(kafka_broker: Broker, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "totals.db"
    words = ["fencing_sqlite.py", kafka_broker.bootstrap, new_name("g"), "worker-1", topic]

    def total(_: str) -> bool:
        time.sleep(0.1)
        with sqlite3.connect(path) as database:
            try:
                found = database.execute("SELECT SUM(total) FROM totals").fetchone()
            except sqlite3.OperationalError:
                return False
        return bool(found[0] == sum(range(10)))

    child = subprocess.Popen([sys.executable, EXAMPLES / words[0], *words[1:], str(path)])
    deadline = time.monotonic() + 60
    while not total("") and time.monotonic() < deadline:
        pass
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 0
    assert total("")


def test_a_transformation_that_is_fenced(kafka_broker: Broker, topic: str) -> None:
    to = Stage(kafka_broker).topic(2, 0)
    words = ["fenced_transform.py", "transform", kafka_broker.bootstrap, new_name("g"), "worker-1"]
    run(
        [*words, topic, to],
        lambda said: sum(int(line.split()[0]) for line in said.splitlines()) >= 10,
    )
    found = list(fenced_transform.read(kafka_broker.bootstrap, to))
    assert {value for _, value, admitted in found if admitted} == {b"%d" % n for n in range(10)}
    assert all(int(value or b"") % 2 == partition for partition, value, _ in found)


def test_several_on_one_partition(kafka_broker: Broker, tmp_path: Path) -> None:
    stage = Stage(kafka_broker)
    topic, path = stage.topic(1, 200), tmp_path / "orders.db"
    group = new_name("g")
    first, second = (
        subprocess.Popen(
            [
                *(sys.executable, "-u", EXAMPLES / "shared_topic.py"),
                *(kafka_broker.bootstrap, group, client_id, topic, path),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for client_id in ("worker-1", "worker-2")
    )

    def rows() -> int:
        with sqlite3.connect(path, timeout=30) as database:
            try:
                found = database.execute("SELECT count(*) FROM handled").fetchone()
            except sqlite3.OperationalError:
                return 0
        return int(found[0])

    until(lambda: rows() == 200)
    for child in (first, second):
        child.send_signal(signal.SIGINT)
    said = [child.communicate(timeout=60)[0] for child in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0]
    written = [int(line.split()[0]) for each in said for line in each.splitlines()]
    assert sorted(written) == list(range(200))


def test_a_row_is_not_overwritten_by_whose_range_was_taken() -> None:
    database = sqlite3.connect(":memory:")
    database.execute(shared_topic.TABLE)

    def write(range_id: int, value: bytes) -> bool:
        message = MockMessage(7, range_id, value, range=Range(range_id, 0, 10))
        return shared_topic.write(database, message)  # type: ignore[arg-type]

    assert write(5, b"first")
    assert write(9, b"by the next holder")
    assert write(5, b"late") is False
    assert database.execute("SELECT value, range_id FROM handled").fetchall() == [
        (b"by the next holder", 9)
    ]


@frozen
class MockMessage:
    """What `count` asks of a message."""

    offset: int
    epoch: int
    value: bytes = b"1"
    topic: str = "orders"
    partition: int = 0
    range: Range | None = None


def test_the_database_refuses_whoever_lost_its_claim_and_counts_nothing_twice() -> None:
    database = sqlite3.connect(":memory:")
    database.execute(fencing_sqlite.TABLE)

    def count(offset: int, epoch: int) -> bool:
        return fencing_sqlite.count(database, MockMessage(offset, epoch))  # type: ignore[arg-type]

    assert count(0, epoch=5)
    assert count(0, epoch=5) is False, "processed again"
    assert count(1, epoch=9), "by the next owner"
    with pytest.raises(fencing_sqlite.Fenced, match="orders/0: epoch 5 is over, 9 is on"):
        count(2, epoch=5)
    assert database.execute("SELECT total, next_offset, epoch FROM totals").fetchall() == [
        (2, 2, 9)
    ]
