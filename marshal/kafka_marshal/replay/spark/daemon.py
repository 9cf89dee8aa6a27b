"""The process that forks Spark's Python workers: it imports shared modules once.

It is PySpark's own, with these imports. In the sessions that a replay opens, no worker needs
pandas, which Arrow would import. The compiled kernel is not among the imports: a small log is
folded without it.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

from kafka_marshal.replay.own_process import prepare

if __name__ == "__main__":
    prepare()
    import kafka_marshal.replay.spark.pipeline  # noqa: F401

    gc.freeze()
    manager()  # type: ignore[no-untyped-call]
