"""`python -m tools.setup.spark`: let Java keep Spark's classes for later starts.

A session is started once and does a little of everything. Half of the work of a later start is then
saved; nothing needs it (`class_data`).
"""

import sys
from collections.abc import Sequence

from kafka_marshal.java import class_data
from kafka_marshal.java.finder import JavaNotFoundError, find_java_for_spark
from kafka_marshal.replay.errors import SparkFailed
from kafka_marshal.replay.spark.session import jars, opened_session
from kafka_marshal.scratch import Scratch


def main() -> int:
    """Return 0, or 2 if Spark does not start."""
    try:
        archive = class_data.make(find_java_for_spark(), jars(), _start_a_session)
    except (JavaNotFoundError, SparkFailed) as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    if archive is not None:
        print(f"setup: Spark's classes at {archive}")
    return 0


def _start_a_session(java_options: Sequence[str]) -> None:
    with Scratch("setup") as folder, opened_session(java_options=java_options) as spark:
        rows = spark.range(1000).selectExpr("id", "id % 7 AS k")
        rows.repartition("k").write.parquet(f"{folder}/rows")
        read = spark.read.parquet(f"{folder}/rows")
        read.groupBy("k").count().orderBy("k").collect()
        read.rdd.map(tuple).count()


if __name__ == "__main__":
    sys.exit(main())
