"""`python -m tests.replay.state.pieces FOLDER SIZE`: a replay for every piece of a log, one by one.

SIZE is `large` or `small`: what Spark takes the pieces for.

It is a process of its own, so that a test may kill it, with its Java and all its workers, at any
point. Started again, it goes on with the first piece that has no output yet. So does a session that
is there already.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from kafka_marshal.replay import run
from kafka_marshal.replay.spark.session import opened_session
from tests.replay.sizes import as_a_large_log


def pieces(folder: Path) -> list[tuple[Path, Path]]:
    """Where each piece is, and where its output goes."""
    return [(path, folder / f"out-{path.name}") for path in sorted((folder / "in").iterdir())]


def finish(folder: Path, spark: SparkSession) -> None:
    """Replay what was not replayed."""
    for piece, out in pieces(folder):
        if not out.exists():
            run(
                [str(piece)],
                out=out,
                heartbeat_interval_s=4,
                rules="both",
                checkpoint=folder / "checkpoint",
                spark=spark,
                on_progress=lambda words: print(words, flush=True),
            )
            print(f"replayed {piece.name}", flush=True)


def main(folder: Path, size: str) -> None:
    """In a session of its own."""
    sizes = as_a_large_log() if size == "large" else nullcontext()
    with sizes, opened_session() as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        finish(folder, spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
