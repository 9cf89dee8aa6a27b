from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_marshal.testing import Cluster
from kafka_marshal.testing.cluster import copies
from tests.broker.test_broker import wait_until_gone


def leader(cluster: Cluster, topic: str) -> int:
    """The leader of its only partition; -1 if the broker that is asked knows none, or is silent.

    A client that has chosen a broker that stands still goes on waiting for that one.
    """
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    try:
        partitions = admin.list_topics(topic, timeout=3).topics[topic].partitions
    except KafkaException:
        return -1
    return int(partitions[0].leader) if partitions else -1


def wait_for_another_leader(cluster: Cluster, topic: str, than: int) -> int:
    deadline = time.monotonic() + 60
    while (now := leader(cluster, topic)) in (than, -1):
        assert time.monotonic() < deadline, "no other broker became the leader"
        time.sleep(0.1)
    return now


class Load:
    """Appends numbers as fast as they are taken; remembers which were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[int] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
        )
        self._topic, self._stop = topic, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while len(self.acknowledged) < count:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {count}"
            time.sleep(0.02)

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce(self._topic, str(number), on_delivery=self._said(number))
            number += 1
            self._producer.poll(0.001)
        assert self._producer.flush(60) == 0

    def _said(self, number: int):  # type: ignore[no-untyped-def]
        return lambda error, _: None if error else self.acknowledged.append(number)


def read_all(bootstrap: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        numbers: list[int] = []
        while len(numbers) < end:
            numbers += [int(m.value() or b"") for m in consumer.consume(10_000, 1) if not m.error()]
        return numbers
    finally:
        consumer.close()


@pytest.mark.night  # By day `tests/client/fleet/test_faults.py` kills a leader under load.
def test_a_killed_leader_loses_nothing_that_was_acknowledged(kafka_cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap})
    admin.create_topics([NewTopic("kept", 1)])["kept"].result(30)
    load = Load(kafka_cluster.bootstrap, "kept")
    try:
        load.wait_for(200)
        killed = leader(kafka_cluster, "kept")
        kafka_cluster.kill(killed)
        assert killed not in kafka_cluster.running
        wait_for_another_leader(kafka_cluster, "kept", killed)
        load.wait_for(len(load.acknowledged) + 200)
    finally:
        kafka_cluster.start()
        load.end()
    # In order and each once: the producer is idempotent, and nobody who led was behind.
    kept = read_all(kafka_cluster.bootstrap, "kept")
    assert kept == list(range(len(kept)))
    assert load.acknowledged == kept


def test_a_broker_that_stands_still_is_replaced_and_comes_back(kafka_cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap})
    admin.create_topics([NewTopic("stalled", 1)])["stalled"].result(30)
    stalled = wait_for_another_leader(kafka_cluster, "stalled", -1)
    kafka_cluster.pause(stalled)
    try:
        wait_for_another_leader(kafka_cluster, "stalled", stalled)
    finally:
        kafka_cluster.resume(stalled)
    assert len(kafka_cluster.running) == 3


def test_topics_have_as_many_copies_as_there_are_brokers_at_most_three() -> None:
    assert copies(1)["default.replication.factor"] == "1"
    assert copies(1)["min.insync.replicas"] == "1"
    assert copies(2)["offsets.topic.replication.factor"] == "2"
    assert copies(5)["default.replication.factor"] == "3"
    assert copies(5)["min.insync.replicas"] == "2"


STARTER = """
import subprocess, sys, time
from pathlib import Path
from kafka_marshal.reaper import Reaper
sweeper = Reaper(Path(sys.argv[1]))
started = [subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
           for _ in range(2)]
sweeper.watch(*(one.pid for one in started))
print(*(one.pid for one in started), flush=True)
time.sleep(600)
"""


def test_all_brokers_that_a_killed_process_left_running_are_ended(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(folder)], stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        pids = [int(pid) for pid in starter.stdout.readline().split()]
        starter.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    for pid in pids:
        wait_until_gone(pid, folder)
