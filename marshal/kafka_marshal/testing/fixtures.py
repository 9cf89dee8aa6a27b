"""Fixtures for pytest. In a `conftest.py`: `pytest_plugins = ["kafka_marshal.testing.fixtures"]`.

This room alone imports pytest; the rest of `kafka_marshal.testing` does without.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_marshal.testing.broker import QUICK, Broker


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    """One broker for the whole session; give each test topics and groups of its own.

    With pytest-xdist every worker starts one. A test that kills, pauses or fills a broker starts
    its own `Broker()`.
    """
    with Broker(java_options=QUICK) as broker:
        yield broker
