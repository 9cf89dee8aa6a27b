from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kafka_marshal.replay.session import local_session
from tests.replay import connector


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """One session for all tests of this folder; without Java it fails, it never skips."""
    with connector.on_the_class_path(), local_session() as session:
        yield session
