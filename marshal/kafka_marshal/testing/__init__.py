"""Real Kafka brokers for tests, trials and demos.

`Broker` starts one and `Cluster` several, a `Guard` requires authentication,
`kafka_marshal.testing.fixtures` provides them for pytest. This package knows neither the protocol,
nor a Kafka client: the caller decides what to send to a broker.
"""

from kafka_marshal.testing.broker import Broker
from kafka_marshal.testing.cluster import Cluster
from kafka_marshal.testing.kafka import QUICK, BrokerError, version
from kafka_marshal.testing.security import Guard

__all__ = ["QUICK", "Broker", "BrokerError", "Cluster", "Guard", "version"]
