"""What a consumer promises when brokers die, stand still, are too few, or lose the log itself."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kafka_marshal.client.coordinate.consumer_loop import LogLost
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import ClaimingPartition
from kafka_marshal.errors import MarshalError
from kafka_marshal.testing import Cluster
from kafka_marshal.validate import read_folder, validate
from kafka_marshal.validate.run import Sent
from tests.client.appender import Appender
from tests.client.crew import INTERVAL_S, Stage, Worker, twice, until

PARTITIONS = 4
WINDOW = 50
AT_MOST_ONCE: dict[str, Any] = {"semantics": "at_most_once", "batch": 50}
SOON = {"topic.metadata.propagation.max.ms": "2000"}
"""How long a topic counts as only just made, in milliseconds."""


@pytest.fixture
def stage(kafka_cluster: Cluster) -> Iterator[Stage]:
    yield Stage(kafka_cluster, copies=3)
    kafka_cluster.resume()
    kafka_cluster.start()


class Load:
    """Numbers that are produced all the time, whatever happens, until the end of the block."""

    def __init__(self, stage: Stage, topic: str) -> None:
        self._stage, self._topic = stage, topic
        self.produced = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Everything that was produced is there."""
        self._stopped.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        appender = Appender(self._stage.bootstrap, linger_ms=5)
        while not self._stopped.wait(0.01):
            for _ in range(5):
                appender.produce(
                    self._topic, b"%d" % self.produced, partition=self.produced % PARTITIONS
                )
                self.produced += 1
            appender.poll(0)
        appender.append_all()


@contextmanager
def workers(stage: Stage, topic: str, folder: Path, **options: Any) -> Iterator[list[Worker]]:
    """Three consumers that share a topic, and record what they do."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                stage.worker(f"w{number}", topic, record_to=folder, **{"window": WINDOW, **options})
            )
            for number in range(3)
        ]


def got(crew: list[Worker]) -> set[int]:
    return {number for each in crew for number in list(each.got)}


def leader(stage: Stage, topic: str) -> int:
    """Of the partition in which the topic is coordinated."""
    place = coordinating_partition(topic, 4)
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    found = admin.list_topics(stage.coordination, timeout=10).topics[stage.coordination]
    return int(found.partitions[place].leader)


def is_explained(stage: Stage, folder: Path) -> dict[tuple[str, int], int]:
    """The specification explains everything that they did. Returns the tenures of each claim."""
    write_log(stage.cluster.settings, stage.coordination, folder)
    judgement = validate(read_folder(folder))
    assert judgement.unexplained is None, judgement.unexplained
    asked: Counter[tuple[str, int]] = Counter()
    for event in read_folder(folder).events:
        if isinstance(event, Sent) and isinstance(event.message, ClaimingPartition):
            asked[event.message.topic, event.message.partition] += 1
    return asked


def repeats_are_bounded(crew: list[Worker], tenures: dict[tuple[str, int], int]) -> None:
    """At most a window again for every time that somebody asked for the claim after the first."""
    for (_, partition), count in tenures.items():
        of_it = [[n for n in each.got if n % PARTITIONS == partition] for each in crew]
        assert twice(*of_it) <= WINDOW * (count - 1)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="at_least_once", marks=pytest.mark.night),
        pytest.param(AT_MOST_ONCE, id="at_most_once"),
    ],
)
def test_the_leader_of_the_log_may_be_killed_under_load(
    options: dict[str, Any], stage: Stage, kafka_cluster: Cluster, tmp_path: Path
) -> None:
    topic = stage.topic(PARTITIONS, 0)
    with workers(stage, topic, tmp_path, **options) as crew:
        with Load(stage, topic) as load:
            until(lambda: len(got(crew)) > 200)
            killed = leader(stage, topic)
            kafka_cluster.kill(killed)
            time.sleep(2 * INTERVAL_S)
            until(lambda: leader(stage, topic) not in (killed, -1))
            before = len(got(crew))
            until(lambda: len(got(crew)) > before + 200)
            kafka_cluster.start(killed)
            before = len(got(crew))
            until(lambda: len(got(crew)) > before + 200)
        if options:
            # What was granted to somebody and not given on is lost, and only that.
            last = set(range(load.produced - PARTITIONS, load.produced))
            until(lambda: last <= got(crew))
        else:
            until(lambda: got(crew) == set(range(load.produced)))
        assert [each.failure for each in crew] == [None, None, None]
    tenures = is_explained(stage, tmp_path)
    if options:
        assert twice(*(each.got for each in crew)) == 0
        assert load.produced - len(got(crew)) <= 50 * (sum(tenures.values()) - PARTITIONS)
    else:
        repeats_are_bounded(crew, tenures)


@pytest.mark.night  # By day simulated runs and random walks have such records.
@pytest.mark.parametrize("options", [{}, AT_MOST_ONCE], ids=["at_least_once", "at_most_once"])
def test_where_nobody_knows_whether_a_record_was_appended_it_is_said_and_all_goes_on(
    options: dict[str, Any],
    stage: Stage,
    kafka_cluster: Cluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = stage.topic(PARTITIONS, 0)
    impatient = {"delivery.timeout.ms": "1500"}
    with workers(stage, topic, tmp_path, settings=impatient, **options) as crew:
        with Load(stage, topic) as load, caplog.at_level(logging.WARNING, "kafka_marshal"):
            until(lambda: len(got(crew)) > 200)
            kafka_cluster.pause()
            time.sleep(3.5)
            kafka_cluster.resume()
            until(lambda: "nobody knows whether it was appended" in caplog.text)
            before = len(got(crew))
            until(lambda: len(got(crew)) > before + 200, 30)
        last = set(range(load.produced - PARTITIONS, load.produced))
        until(lambda: last <= got(crew))
        assert [each.failure for each in crew] == [None, None, None]
    tenures = is_explained(stage, tmp_path)
    if options:
        assert twice(*(each.got for each in crew)) == 0
    else:
        assert got(crew) == set(range(load.produced))
        repeats_are_bounded(crew, tenures)


@pytest.mark.night  # By day one broker is killed above, and in memory all that there are.
def test_with_too_few_brokers_consumers_wait_and_say_so_and_go_on_when_they_are_back(
    stage: Stage, kafka_cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = stage.topic(PARTITIONS, 400)
    with workers(stage, topic, tmp_path) as crew:
        until(lambda: len(got(crew)) == 400)
        kept = leader(stage, topic)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "kafka_marshal"):
            for number in kafka_cluster.numbers:
                if number != kept:
                    kafka_cluster.kill(number)
            time.sleep(4 * INTERVAL_S)
            until(lambda: caplog.records)  # they say that something is wrong
        assert [each.failure for each in crew] == [None, None, None]
        kafka_cluster.start()
        stage.produce(topic, PARTITIONS, range(400, 800))
        until(lambda: got(crew) == set(range(800)), 30)
        assert [each.failure for each in crew] == [None, None, None]
    repeats_are_bounded(crew, is_explained(stage, tmp_path))


def test_where_the_log_was_made_anew_at_least_once_goes_on_from_what_was_committed(
    stage: Stage, tmp_path: Path
) -> None:
    topic = stage.topic(PARTITIONS, 400)
    with workers(stage, topic, tmp_path) as crew:
        until(lambda: got(crew) == set(range(400)))
        before = {each.consumer.instance_id for each in crew}
        ends = dict.fromkeys(range(PARTITIONS), 400 // PARTITIONS)
        until(lambda: stage.committed(topic, PARTITIONS) == ends)
        stage.make_log_anew()
        # What an owner processes before it notices is processed again, at least once.
        until(lambda: before.isdisjoint({each.consumer.instance_id for each in crew}), 60)
        stage.produce(topic, PARTITIONS, range(400, 800))
        until(lambda: got(crew) == set(range(800)), 60)
        assert [each.failure for each in crew] == [None, None, None]
    assert twice(*(each.got for each in crew)) == 0


def test_where_the_log_was_made_anew_at_most_once_stops_and_says_what_to_do(
    stage: Stage, tmp_path: Path
) -> None:
    topic = stage.topic(PARTITIONS, 400)
    with workers(stage, topic, tmp_path, settings=SOON, **AT_MOST_ONCE) as crew:
        until(lambda: got(crew) == set(range(400)))
        stage.make_log_anew()
        stage.produce(topic, PARTITIONS, range(400, 800))
        until(lambda: all(isinstance(each.failure, MarshalError) for each in crew), 60)
        for failure in (each.failure for each in crew):
            # A reader while there is no topic reports that, and nothing more.
            gone = "is gone" in str(failure) or "Unknown topic" in str(failure)
            assert gone or (isinstance(failure, LogLost) and "marshal set-position" in str(failure))
    assert twice(*(each.got for each in crew)) == 0


def test_without_the_log_consumers_stop_and_say_that_it_is_gone(
    stage: Stage, tmp_path: Path
) -> None:
    topic = stage.topic(PARTITIONS, 400)
    with workers(stage, topic, tmp_path, settings=SOON) as crew:
        until(lambda: got(crew) == set(range(400)))
        stage.cluster.delete_topic(stage.coordination)
        until(lambda: all(isinstance(each.failure, MarshalError) for each in crew), 60)
        assert {stage.coordination in str(each.failure) for each in crew} == {True}
