"""Marshal promises that a commit says what is known of a claim that was lost a moment before."""

from __future__ import annotations

import pytest

from kafka_marshal import Consumer
from kafka_marshal.client.coordinate import consumer_loop
from kafka_marshal.codec import encode
from kafka_marshal.core.messages import Partition, ReleaseGroup
from kafka_marshal.errors import COORDINATION_TOPIC, ClaimLost
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler


def test_what_was_finished_and_not_looked_at_before_a_loss_is_not_called_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = Scheduler(1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders", messages=3)
    settings = kafka.settings()
    with Consumer(settings=settings, group_id="g", client_id="c1") as consumer:
        consumer.add_topic("orders")
        assert [consumer.poll(timeout_s=5.0) is not None for _ in range(3)] == [True] * 3
        consumer.commit()
        kafka.produce("orders", 3)
        assert [consumer.poll(timeout_s=5.0) is not None for _ in range(3)] == [True] * 3
        monkeypatch.setattr(consumer_loop, "LOOK_EVERY_MS", 60_000)
        scheduler.sleep(0.5)
        # As `commit` does, before the coordinator is asked.
        consumer._coordinator.ownership.ack(None)
        now_s = settings.environment.unix_ms() // 1000
        pause = ReleaseGroup(1, now_s, "a1", "a", "g", "", Partition(0), now_s + 600)
        kafka.append(COORDINATION_TOPIC, 0, encode(pause))
        scheduler.sleep(0.5)
        with pytest.raises(ClaimLost):
            consumer.commit()
