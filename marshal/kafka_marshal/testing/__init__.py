"""Real Kafka brokers for tests, trials and demos.

`Broker` starts one and `Cluster` several, a `Guard` lets nobody in who does not show who he is,
`kafka_marshal.testing.fixtures` gives them to pytest.
Nothing here knows the protocol, nor a Kafka client: the caller decides what to send to a broker.
"""

from kafka_marshal.testing.broker import Broker
from kafka_marshal.testing.cluster import Cluster
from kafka_marshal.testing.kafka import QUICK, BrokerError, version
from kafka_marshal.testing.security import Guard

__all__ = ["QUICK", "Broker", "BrokerError", "Cluster", "Guard", "version"]
