"""What a consumer promises, on a real broker."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_marshal.client.api.consumer import Claim, IdUsedTwice, Lost
from kafka_marshal.client.coordinate.inputs import LogTruncated
from kafka_marshal.errors import BrokerFailed, InvalidOption
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.testing import Broker
from tests.client.crew import INTERVAL_S, Stage, twice, until

STALE_S = 2 * INTERVAL_S


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


def test_one_consumer_gets_every_message_once_in_the_order_of_its_partition(stage: Stage) -> None:
    topic = stage.topic(partitions=3, messages=5_000)
    got: list[tuple[int, int, int]] = []
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        for message in consumer:
            assert message.topic == topic
            assert message.value is not None
            got.append((message.partition, message.offset, int(message.value)))
            assert message.epoch == message.claim.epoch
            if len(got) == 5_000:
                consumer.stop()
    assert sorted(number for _, _, number in got) == list(range(5_000))
    for partition in range(3):
        offsets = [offset for place, offset, _ in got if place == partition]
        assert offsets == list(range(len(offsets)))


def test_kafkas_own_tools_see_how_far_a_group_is(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=10)
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        for message in consumer:
            if message.offset == 9:
                consumer.stop()
    until(lambda: stage.committed(topic, 1) == {0: 10})


def test_two_consumers_share_and_whoever_closes_hands_over_without_loss_or_repetition(
    stage: Stage,
) -> None:
    topic = stage.topic(partitions=4, messages=2_000)
    # Longer than the slowest machine needs: nobody is replaced here.
    every: dict[str, Any] = {"heartbeat_interval_s": 60.0}
    with stage.worker("w2", topic, claiming=Claiming(claims_max=2), **every) as two:
        until(lambda: len(two.consumer.claims) == 2)
        with stage.worker("w1", topic, **every) as one:
            until(lambda: len(one.got) + len(two.got) == 2_000)
            stage.produce(topic, 4, range(2_000, 4_000))
            until(lambda: len(one.got) + len(two.got) >= 4_000)
            two.end()
            until(lambda: len(one.consumer.claims) == 4)
            stage.produce(topic, 4, range(4_000, 6_000))
            until(lambda: len(one.got) + len(two.got) >= 6_000)
    assert one.got
    assert two.got
    assert sorted(one.got + two.got) == list(range(6_000))


def test_a_restart_under_the_same_client_id_is_back_at_once(stage: Stage) -> None:
    topic = stage.topic(partitions=4, messages=40)
    with stage.consumer("w1", heartbeat_interval_s=60) as consumer:
        consumer.add_topic(topic)
        until(lambda: len(consumer.claims) == 4)
        consumer.close(release=False)
    with stage.consumer("w1", heartbeat_interval_s=60) as consumer:
        consumer.add_topic(topic)
        until(lambda: len(consumer.claims) == 4)  # another one would wait for two minutes


def test_after_kill_9_another_takes_over_and_repeats_no_more_than_a_window(stage: Stage) -> None:
    topic = stage.topic(partitions=2, messages=3_000)
    with stage.process("w1", topic, window=100, pause_s=0.0005) as first:
        until(lambda: len(first.got) > 300)
        with stage.worker("w2", topic, window=100) as second:
            time.sleep(0.3)
            first.kill()
            until(lambda: set(first.got) | set(second.got) == set(range(3_000)), 30)
    assert twice(first.got, second.got) <= 2 * 100


def test_who_slept_too_long_is_fenced_and_says_so(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=200)
    with stage.process("w1", topic, pause_s=0.01, window=20) as first:
        until(lambda: len(first.got) > 30)
        first.send(signal.SIGSTOP)
        with stage.worker("w2", topic) as second:
            until(lambda: len(second.got) + len(first.got) >= 200, 20)
            asleep = len(first.got)
            first.send(signal.SIGCONT)
            until(lambda: first.told("lost"))
            assert first.told("lost") == ["lost 0 taken"]
            # It finishes the message that it had in hand when it fell asleep, and a window at most
            # until it has read that it lost.
            assert len(first.got) <= asleep + 20
            stage.produce(topic, 1, range(200, 220))
            until(lambda: second.got[-1] == 219)
            assert not set(first.got) & set(range(200, 220))
    assert set(first.got) | set(second.got) == set(range(220))


def test_of_two_processes_with_one_id_the_loser_stops_and_says_why(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=10)
    lost: list[Lost] = []

    def note(_: Claim, reason: Lost) -> None:
        lost.append(reason)

    with stage.worker("w1", topic, on_lost=note) as first:
        until(lambda: len(first.got) == 10)
        with stage.worker("w1", topic) as second:
            until(lambda: first.failure is not None)
            assert isinstance(first.failure, IdUsedTwice)
            assert "client id w1" in str(first.failure)
            until(lambda: lost == [Lost.ID_USED_TWICE])
            stage.produce(topic, 1, range(10, 20))
            until(lambda: second.got[-10:] == list(range(10, 20)))


def test_at_most_once_no_message_is_ever_given_twice_whoever_is_killed(stage: Stage) -> None:
    topic = stage.topic(partitions=2, messages=1_500)
    amo = {"semantics": "at_most_once", "batch": 50}
    with stage.process("w1", topic, pause_s=0.001, **amo) as first:
        until(lambda: len(first.got) > 100)
        first.kill()
    with stage.process("w2", topic, **amo) as second:
        until(lambda: {1_498, 1_499} <= set(second.got), 30)
        second.kill()
    assert twice(first.got, second.got) == 0
    assert 1_500 - len(first.got) - len(second.got) <= 2 * 50


def test_a_static_partition_is_claimed_too_so_a_second_one_waits(stage: Stage) -> None:
    topic = stage.topic(partitions=2, messages=20)
    with stage.consumer("w1") as one, stage.consumer("w2") as two:
        one.add_topic(topic, 1)
        until(lambda: [claim.partition for claim in one.claims] == [1])
        two.add_topic(topic, 1)
        time.sleep(1)
        assert two.claims == []
        one.close()
        until(lambda: [claim.partition for claim in two.claims] == [1])


def test_what_is_polled_is_done_when_it_is_committed(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=20)
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        messages = [consumer.poll(10) for _ in range(10)]
        assert [message and message.offset for message in messages] == list(range(10))
        consumer.commit(messages[4])
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        again = consumer.poll(10)
        assert again is not None
        assert again.offset == 5
        consumer.commit()
        consumer.seek(topic, 0, 15)
        further = consumer.poll(10)
        assert further is not None
        assert further.offset == 15
        consumer.pause(topic)
        assert consumer.poll(0.5) is None
        consumer.resume(topic)
        resumed = consumer.poll(10)
        assert resumed is not None
        assert resumed.offset == 16
        with pytest.raises(InvalidOption, match="everything below 15 is done"):
            consumer.seek(topic, 0, 3)


@pytest.mark.parametrize("before_ms", [1, 2, 5_000])
def test_a_time_before_1970_is_before_all_messages(stage: Stage, before_ms: int) -> None:
    """To Kafka -1 ms is the end, so all messages were skipped; -5000 ms was an error."""
    topic = stage.topic(partitions=1, messages=5)
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        until(lambda: consumer.assignment())
        consumer.seek_to_time(
            topic, 0, datetime.fromtimestamp(0, UTC) - timedelta(milliseconds=before_ms)
        )
        message = consumer.poll(10)
        assert message is not None
        assert message.offset == 0


def test_what_is_gone_from_the_topic_is_passed_over(stage: Stage) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = stage.topic(partitions=1, messages=100)
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 60)]).values():
        future.result(30)
    with stage.worker("w1", topic, window=10) as worker:
        until(lambda: worker.got == list(range(60, 100)))


def test_new_partitions_of_a_topic_are_found(stage: Stage) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewPartitions

    topic = stage.topic(partitions=1, messages=10)
    with stage.worker("w1", topic, metadata_refresh_s=0.2) as worker:
        until(lambda: len(worker.got) == 10)
        admin = AdminClient({"bootstrap.servers": stage.bootstrap})
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
        until(lambda: len(worker.consumer.claims) == 2)


def test_a_coordination_topic_that_grew_stops_the_consumer(stage: Stage) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewPartitions

    topic = stage.topic(partitions=1, messages=10)
    with stage.worker("w1", topic, metadata_refresh_s=0.2) as worker:
        until(lambda: len(worker.got) == 10)
        admin = AdminClient({"bootstrap.servers": stage.bootstrap})
        admin.create_partitions([NewPartitions(stage.coordination, 5)])[stage.coordination].result(
            30
        )
        until(lambda: worker.failure is not None)
        assert "had 4 partitions and has 5 now" in str(worker.failure)


def test_after_the_log_lost_records_it_goes_on_as_a_new_instance(stage: Stage) -> None:
    topic = stage.topic(partitions=2, messages=100)
    lost: list[Lost] = []

    def note(_: Claim, reason: Lost) -> None:
        lost.append(reason)

    with stage.worker("w1", topic, on_lost=note) as worker:
        until(lambda: len(worker.got) == 100)
        coordinator = worker.consumer._coordinator
        before = worker.consumer.instance_id
        # What the reader does when the broker says that its offset is out of range.
        coordinator.post(LogTruncated(coordinator.loop.session, "the log ends earlier"))
        until(lambda: worker.consumer.instance_id != before)
        until(lambda: lost == [Lost.LOG_LOST_RECORDS] * 2)
        until(lambda: len(worker.consumer.claims) == 2)
        stage.produce(topic, 2, range(100, 200))
        until(lambda: set(range(200)) == set(worker.got))


def test_what_makes_no_sense_is_said_at_once(stage: Stage) -> None:
    with stage.consumer("w1") as consumer:
        with pytest.raises(BrokerFailed, match="there is no topic nowhere"):
            consumer.add_topic("nowhere")
        topic = stage.topic(partitions=1, messages=1)
        with pytest.raises(InvalidOption, match="has 1 partitions, and no 7"):
            consumer.add_topic(topic, 7)
    with pytest.raises(InvalidOption, match="client_id must be a name without"):
        stage.consumer("a/b")
    with pytest.raises(InvalidOption, match="heartbeat_every_s must be greater than 0 and at most"):
        stage.consumer("w1", heartbeat_every_s=2)
