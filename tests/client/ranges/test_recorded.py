"""What consumers of a shared topic record is what `marshal validate` judges."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kafka_marshal.client.api.consumer import Consumer, Message
from kafka_marshal.client.coordinate.recorded_ranges import RecordedParticipant
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.client.fetch.fetched_partition import FetchedPartition
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.machines.ranges.driver import ParticipantDriver
from kafka_marshal.validate import Judgement, read_folder, validate
from tests.client.doubles import LOG, WITHIN_S, Kafka


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", partitions=1, messages=60)
    return kafka


def judged(kafka: Kafka, folder: Path) -> Judgement:
    write_log(kafka.settings(), LOG, folder)
    return validate(read_folder(folder))


def test_whatever_makes_a_participant_send_is_recorded() -> None:
    """A method that is forgotten sends records of which the recording knows nothing."""
    sends = {
        name
        for name, method in vars(ParticipantDriver).items()
        if not name.startswith("_")
        and "list[Effect]" in str(getattr(method, "__annotations__", {}).get("return"))
    }
    assert {"record", "timer", "finished", "leave"} <= sends
    # Whose log lost records sends nothing more.
    assert sends - {"truncated"} <= vars(RecordedParticipant).keys()


@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
def test_two_that_share_are_explained(kafka: Kafka, tmp_path: Path, semantics: str) -> None:
    seen: list[int] = []
    lock = threading.Lock()
    options: dict[str, Any] = {"semantics": semantics, "record_to": tmp_path}
    with kafka.consumer("c1", **options) as one, kafka.consumer("c2", **options) as other:

        def work(consumer: Consumer) -> None:
            for message in consumer:
                with lock:
                    seen.append(message.offset)
                    if len(seen) == 60:
                        one.stop()
                        other.stop()

        for each in (one, other):
            each.add_topic("orders", share="ranges")
        threads = [threading.Thread(target=work, args=(each,)) for each in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WITHIN_S)
            assert not thread.is_alive()
    judgement = judged(kafka, tmp_path)
    assert judgement.unexplained is None, judgement.unexplained
    assert judgement.strangers == 0
    assert judgement.unjudged == ()
    assert bool(judgement.kinds["HandedOver"]) == (semantics == "at_most_once")
    assert min(judgement.kinds["Begun"], judgement.kinds["Finished"]) >= 2
    assert judgement.kinds["Shares"] == 2


def forgets_what_is_in_hand(
    fetcher: Fetcher, one: FetchedPartition, done: int | None = None
) -> int:
    recall(fetcher, one, done)
    return one.claim.position


recall = Fetcher.recall


@pytest.mark.parametrize("mistaken", [False, True])
@pytest.mark.parametrize("gives_up", [Consumer.close, Consumer.stop, None])
def test_what_is_in_hand_and_given_back_is_noticed(
    kafka: Kafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gives_up: Callable[[Consumer], None] | None,
    mistaken: bool,
) -> None:
    if mistaken:
        monkeypatch.setattr(Fetcher, "recall", forgets_what_is_in_hand)
    with kafka.consumer(semantics="at_most_once", record_to=tmp_path) as consumer:
        consumer.add_topic("orders", share="ranges")
        assert [cast("Message", consumer.poll(WITHIN_S)).offset for _ in range(2)] == [0, 1]
        if gives_up is None:
            consumer.remove_topic("orders")
        else:
            gives_up(consumer)
    judgement = judged(kafka, tmp_path)
    assert judgement.unjudged == ()
    if not mistaken:
        assert judgement.unexplained is None, judgement.unexplained
        assert min(judgement.kinds["HandedOver"], judgement.kinds["TookBack"]) > 0
        return
    found = judgement.unexplained
    assert found is not None
    assert (found.action, found.name) == ("BeginReported", "AtMostOnce")
    assert " of orders/0, range " in found.got


def test_a_topic_that_is_removed_and_added_again_is_explained(kafka: Kafka, tmp_path: Path) -> None:
    kafka.create("bills", partitions=2, messages=10)
    seen = 0
    with kafka.consumer(record_to=tmp_path) as consumer:
        consumer.add_topic("orders", share="ranges")
        consumer.add_topic("bills")
        for _ in range(10):
            cast("Message", consumer.poll(WITHIN_S))
        consumer.commit()
        consumer.remove_topic("orders")
        consumer.add_topic("orders", share="ranges")
        for message in consumer:
            seen += message.topic == "orders"
            if seen and message.offset == 59:
                consumer.stop()
    judgement = judged(kafka, tmp_path)
    assert judgement.unexplained is None, judgement.unexplained
    assert judgement.kinds["Shares"] == 2
    assert judgement.kinds["Processed"] > 0, "whole partitions are recorded as before"


def test_who_joins_without_the_head_of_the_log_is_explained_and_not_all_is_judged(
    kafka: Kafka, tmp_path: Path
) -> None:
    with kafka.consumer("c1") as first:
        first.add_topic("orders", share="ranges")
        for _ in range(20):
            first.commit(cast("Message", first.poll(WITHIN_S)))
        kafka.delete_records(LOG, 0, 3)
        with kafka.consumer("c2", record_to=tmp_path) as late:
            late.add_topic("orders", share="ranges")
            first.close()
            for message in late:
                if message.offset == 59:
                    late.stop()
    judgement = judged(kafka, tmp_path)
    assert judgement.unexplained is None, judgement.unexplained
    assert judgement.kinds["Begun"] > 0
    [sentence] = judgement.unjudged
    assert sentence.startswith("orders/0: the log does not hold all records of the claim")
