"""Spark's own connector to Kafka: pinned, fetched once by `make setup`, and for tests alone.

The package does not need it: it reads dumps and topics itself. What users have is a DataFrame of
this connector, and it has to be the one that their Spark resolves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_marshal.java.finder import JavaNotFoundError
from kafka_marshal.java.jars import Jar, JarError, ensure_all, listed


def jars() -> tuple[Jar, ...]:
    """The connector, and what it needs that PySpark does not bring."""
    return listed(Path(__file__).with_name("connector.jars").read_text(encoding="utf-8"))


@contextmanager
def on_the_class_path() -> Iterator[None]:
    """A Java that PySpark starts in here has the connector; it cannot be added later.

    Spark itself loads it, so Java's class path is as ever and fits the classes that Java kept.

    Raises:
        JarError: it cannot be had.
        JavaNotFoundError: there is nothing to fetch it with.
    """
    paths = ",".join(map(str, ensure_all(jars())))
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {paths} pyspark-shell"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before


def main() -> int:
    """Fetch them and say so. Returns 0, or 2 if they cannot be had."""
    try:
        paths = ensure_all(jars())
    except (JarError, JavaNotFoundError) as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    print(f"setup: Spark's connector to Kafka, {len(paths)} jars in {paths[0].parent}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
