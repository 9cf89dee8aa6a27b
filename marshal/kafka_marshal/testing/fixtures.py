"""Fixtures for pytest. In a `conftest.py`: `pytest_plugins = ["kafka_marshal.testing.fixtures"]`.

Only this module imports pytest; the rest of `kafka_marshal.testing` does not need it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_marshal.client.connect.coordination_topic import create_coordination_topic
from kafka_marshal.testing import QUICK, Broker, Cluster


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    """One broker for the whole session; use separate topics and groups for each test.

    The coordination topic `__marshal` exists.

    With pytest-xdist every worker starts one. A test that kills, pauses or fills a broker starts
    its own `Broker()`.
    """
    with Broker(java_options=QUICK) as broker:
        create_coordination_topic(broker.bootstrap)
        yield broker


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[Cluster]:
    """Three brokers for the whole session, some 600 MB, with the coordination topic `__marshal`.

    A test may kill one of them, and starts it again before it ends.
    """
    with Cluster(java_options=QUICK) as cluster:
        create_coordination_topic(cluster.bootstrap)
        yield cluster
