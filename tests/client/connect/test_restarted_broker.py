"""Marshal promises that a client hears where partitions end, also after a broker has restarted.

A broker that comes back leads in a new epoch. Kafka's client goes on naming the old one to those
who ask where its partitions end, and each answer is FENCED_LEADER_EPOCH.
"""

from __future__ import annotations

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.reader import Watermarks
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.testing import QUICK, Broker
from tests.client.crew import Stage, until


def test_the_end_of_a_partition_is_named_after_its_broker_has_restarted() -> None:
    with Broker(java_options=QUICK) as broker:
        stage = Stage(broker)
        topic = stage.topic(partitions=1, messages=3)
        cluster = ClusterClient(Settings({"bootstrap.servers": broker.bootstrap}))
        place = (topic, 0)
        until(lambda: cluster.ends([place]) == {place: 3})
        broker.stop()
        broker.start()
        stage.produce(topic, 1, range(3, 5))
        until(lambda: cluster.ends([place]) == {place: 5})
        assert cluster.extents([place]) == {place: Watermarks(0, 5)}
        assert cluster.offsets_at([place], 0) == {place: 0}
