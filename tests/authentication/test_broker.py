"""What is signed comes back from a real broker as it was signed."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from kafka_marshal import Consumer, NotAuthentic
from kafka_marshal.admin.doctor.doctor import examine
from kafka_marshal.core.messages import ClaimingPartition, Partition
from kafka_marshal.testing import Broker
from tests.authentication.signing import OURS
from tests.client.hands import Hands


def test_on_a_real_broker_a_record_is_authentic_and_a_strangers_stops_the_consumer(
    kafka_broker: Broker,
) -> None:
    with Hands(kafka_broker) as hands:
        topic = hands.data(messages=4)
        options: dict[str, Any] = {
            "group_id": "g", "coordination_topic": hands.topic, "heartbeat_interval_s": 4.0,
            "keyring": OURS, "require_authentic": True,
        }  # fmt: skip
        with Consumer(hands.bootstrap, client_id="c1", **options) as consumer:
            consumer.add_topic(topic)
            assert [message.offset for message in consumer.consume(4, 30.0)] == [0, 1, 2, 3]
        settings = attrs.evolve(hands.settings, keyring=OURS)
        assert "authentication" in examine(settings, hands.topic).fine

        stranger = ClaimingPartition(1, 0, "x1", "mallory", "g", topic, Partition(0))
        offset = hands.append(stranger)
        [found] = [
            one for one in examine(settings, hands.topic).findings if one.check == "authentication"
        ]
        assert found.found.startswith("1 of ")
        assert found.found.endswith("records carry no MAC: mallory")
        with Consumer(hands.bootstrap, client_id="c1", **options) as consumer:
            consumer.add_topic(topic)
            with pytest.raises(NotAuthentic) as ended:
                consumer.poll(30.0)
        assert (ended.value.offset, ended.value.client) == (offset, "mallory")
