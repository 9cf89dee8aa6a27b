from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from kafka_marshal.replay.spark.session import opened_session
from tests.replay import connector
from tests.replay.sizes import as_a_large_log


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """One session for all tests of this folder; without Java it fails, it never skips.

    It alone has the connector, interprets its queries, and collects garbage in one thread.
    Sessions of other processes start as they do for users.
    """
    with ExitStack() as opened:
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")
        with connector.on_the_class_path():
            session = opened.enter_context(opened_session())
        # Java would compile code for each query, for a few hundred rows.
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        yield session


@pytest.fixture
def large() -> Iterator[None]:
    """Whatever the size of a log, Spark folds it by queries and keeps its rows."""
    with as_a_large_log():
        yield
