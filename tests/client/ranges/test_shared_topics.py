"""Marshal promises that several consumers can work on one partition, each on ranges of its own."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from kafka_marshal.testing import Broker
from tests.client.crew import Stage, twice, until

SEMANTICS = ("at_least_once", "at_most_once")
SHARED: dict[str, Any] = {"share": "ranges"}


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_three_share_one_partition_and_each_message_is_given_once(
    stage: Stage, semantics: str
) -> None:
    topic = stage.topic(partitions=1, messages=1_500)
    given = {**SHARED, "semantics": semantics, "pause_s": 0.001}
    with (
        stage.worker("w1", topic, **given) as first,
        stage.worker("w2", topic, **given) as second,
        stage.worker("w3", topic, **given) as third,
    ):
        workers = (first, second, third)
        for produced in range(1_500, 12_000, 500):
            until(lambda: len({*first.got, *second.got, *third.got}) == produced)  # noqa: B023
            if all(each.got for each in workers):
                break  # the last one may begin late
            stage.produce(topic, 1, range(produced, produced + 500))
        for each in workers:
            each.stop()
    assert [each.failure for each in workers] == [None] * 3
    assert twice(*(each.got for each in workers)) == 0
    assert all(each.got for each in workers)


def test_after_kill_9_others_repeat_no_more_than_was_begun_since_it_was_last_said(
    stage: Stage,
) -> None:
    topic = stage.topic(partitions=1, messages=3_000)
    with stage.process("w1", topic, pause_s=0.002, **SHARED) as first:
        until(lambda: len(first.got) > 100)
        with stage.worker("w2", topic, pause_s=0.001, **SHARED) as second:
            until(lambda: second.got)
            first.kill()
            until(lambda: {*first.got, *second.got} == set(range(3_000)))
    # A consumer reports what is done after a second at the latest.
    assert twice(first.got, second.got) <= 1_000


def test_at_most_once_nothing_is_given_twice_whoever_is_killed(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=2_000)
    amo = {**SHARED, "semantics": "at_most_once"}
    with (
        stage.process("w1", topic, pause_s=0.002, **amo) as first,
        stage.process("w2", topic, pause_s=0.002, **amo) as second,
    ):
        until(lambda: len(first.got) > 100 and len(second.got) > 100)
        first.kill()
        with stage.process("w3", topic, **amo) as third:
            until(lambda: third.got)
            second.kill()
            stage.produce(topic, 1, range(2_000, 2_100))
            until(lambda: 2_099 in third.got)
            third.send(signal.SIGTERM)
            assert third.ended(60)
    assert twice(first.got, second.got, third.got) == 0


def test_after_a_stop_in_order_nothing_is_repeated_and_nothing_is_left(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=600)
    got: list[list[int]] = []
    for number in range(3):
        with stage.worker(f"w{number}", topic, pause_s=0.001, **SHARED) as worker:
            while len(worker.got) < 150:
                assert worker.failure is None
                time.sleep(0.01)
            worker.stop()
            got.append(worker.got)
    with stage.worker("last", topic, **SHARED) as last:
        until(lambda: {*last.got}.union(*got) == set(range(600)))
    assert twice(last.got, *got) == 0


def test_who_slept_too_long_begins_nothing_more_of_what_others_took(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=500)
    with stage.process("w1", topic, pause_s=0.01, **SHARED) as first:
        until(lambda: len(first.got) > 30)
        first.send(signal.SIGSTOP)
        with stage.worker("w2", topic, **SHARED) as second:
            until(lambda: {*first.got, *second.got} >= set(range(500)))
            asleep = len(first.got)
            first.send(signal.SIGCONT)
            stage.produce(topic, 1, range(500, 600))
            until(lambda: {*first.got, *second.got} >= set(range(600)))
    # The message in hand, and what it begins until it has read that its ranges were taken.
    assert len([number for number in first.got[asleep:] if number < 500]) <= 50
