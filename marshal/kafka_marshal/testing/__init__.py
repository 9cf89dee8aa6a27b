"""A real Kafka broker for tests, tries and demos.

`Broker` starts one, `kafka_marshal.testing.fixtures` gives it to pytest. Nothing here knows the
protocol, nor a Kafka client: what is said to the broker is the caller's business.
"""

from kafka_marshal.testing.broker import QUICK, Broker, BrokerError, version

__all__ = ["QUICK", "Broker", "BrokerError", "version"]
