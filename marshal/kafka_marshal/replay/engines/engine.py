"""Chooses the engine that folds a log: processes of this machine, or Spark.

Both make the same tables. Spark is for a cluster; one machine does not need it. This module knows
the interface of an engine, and imports neither before it is chosen.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from attrs import frozen

from kafka_marshal.replay.errors import InvalidOption, ReplayError, SourcesOverlap
from kafka_marshal.replay.fold.jobs import Job, WholeLog
from kafka_marshal.replay.fold.judging import Judging
from kafka_marshal.replay.model.folded_log import FoldedLog
from kafka_marshal.replay.model.rows import RowT, Table
from kafka_marshal.replay.model.tables import TableSet
from kafka_marshal.replay.options import SparkMaster, TableFormat
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.scratch import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_RECORD_BYTES: Final = 128
"""The most temporary space that a record takes, packed, if no records are left out."""


class EngineName(StrEnum):
    """The values of `--engine`."""

    auto = "auto"
    local = "local"
    spark = "spark"


@frozen
class EngineChoice:
    """Which engine, and why."""

    engine: EngineName
    """`local` or `spark`."""
    why: str

    def __str__(self) -> str:
        where = "on this machine" if self.engine is EngineName.local else "on Spark"
        return f"Folded {where}: {self.why}."


def choose(
    asked: str,
    chunks: Sequence[Chunk],
    spark: SparkSession | SparkMaster | None = None,
    *,
    free_bytes: int | None = None,
    table_format: TableFormat = TableFormat.parquet,
) -> EngineChoice:
    """Choose the engine for these chunks.

    `spark` is the Spark to use, if that is the engine. `free_bytes` is the space of the folder for
    temporary files, which hold what exceeds memory; None: looked up.

    Raises:
        InvalidOption: there is no such engine, or it is the local one and a master is named. Or
            Spark writes the format, and there is neither a master nor a session.
    """
    if asked not in set(EngineName):
        raise InvalidOption(f"--engine must be one of {', '.join(EngineName)}, not {asked!r}")
    engine = EngineName(asked)
    if isinstance(spark, SparkMaster) and engine is EngineName.local:
        raise InvalidOption(f"--engine local folds here, and {spark} names a Spark: leave one out")
    if table_format is not TableFormat.parquet and (spark is None or engine is EngineName.local):
        raise InvalidOption(
            f"--table-format {table_format} is written by a Spark that has its packages: give "
            "--master, here local[2], and --spark-conf spark.jars.packages=..."
        )
    if engine is not EngineName.auto:
        return EngineChoice(engine, f"--engine {engine}")
    if spark is not None:
        why = str(spark) if isinstance(spark, SparkMaster) else "a session was given"
        return EngineChoice(EngineName.spark, why)
    records = sum(chunk.records for chunk in chunks)
    place = temporary_folder()
    if free_bytes is None:
        free_bytes = shutil.disk_usage(place).free
    if records * LOCAL_RECORD_BYTES <= free_bytes:
        why = f"about {records:,} records, and {place} has room for them"
        return EngineChoice(EngineName.local, why)
    why = (
        f"about {records:,} records, and {place} has no room for them: "
        f"{LOCAL_RECORD_BYTES} bytes each, and {free_bytes / 1e9:,.1f} GB are free"
    )
    return EngineChoice(EngineName.spark, why)


class Engine(Protocol):
    """Runs jobs.

    All three methods raise UnreadableSource for invalid records. They raise SourcesOverlap if
    collapsed chunks do not follow each other, and ReplayError (SparkFailed) if a task failed.
    """

    def collapses(self, chunks: Sequence[Chunk]) -> bool:
        """Whether this much input is worth collapsing."""

    def fold(self, job: Job) -> AbstractContextManager[FoldedLog]:
        """Run a job; its rows are kept while the block lasts."""

    def fold_into(self, job: Job, folder: Path) -> None:
        """Run a job, and write its rows into the new folder, as Parquet in its tables' schema."""

    def fold_of(
        self, files: Sequence[Path], states: Sequence[Path], tables: TableSet
    ) -> AbstractContextManager[FoldedLog]:
        """The rows in files of such folders, and the rows of each state if its log ends there.

        It raises CheckpointRefused if a file or a state is damaged.
        """


@contextmanager
def started(
    choice: EngineChoice,
    spark: SparkSession | SparkMaster | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
    on_tasks: Callable[[int, int], None] | None = None,
) -> Iterator[Engine]:
    """Start the chosen engine; a Spark session that is opened here is stopped at the end.

    Raises:
        JavaNotFoundError: there is no Java for Spark.
        ReplayError: Spark is not installed.
        SparkFailed: it does not start.
    """
    if choice.engine is EngineName.local:
        from kafka_marshal.replay.engines.local import LocalEngine

        yield LocalEngine(on_tasks)
        return
    try:
        from kafka_marshal.replay.spark.pipeline import SparkEngine
        from kafka_marshal.replay.spark.progress import tasks_reported
        from kafka_marshal.replay.spark.session import HERE, opened_context
        from kafka_marshal.replay.spark.spark_errors import plain_errors
    except ModuleNotFoundError as error:
        raise ReplayError(
            f"a replay on Spark ({choice.why}) needs {error.name}; install it with: "
            "pip install 'kafka-marshal[replay]', or fold on this machine: --engine local"
        ) from None
    on_progress("starting Spark")
    master = HERE if spark is None else spark
    with (
        opened_context(master)
        if isinstance(master, SparkMaster)
        else nullcontext(master) as running,
        plain_errors(),
    ):
        running_engine = SparkEngine(running)
        with tasks_reported(running_engine.context, on_tasks):
            yield running_engine


class Writer(Protocol):
    """Writes a table of a fold, as `FoldedLog.write`."""

    def __call__(
        self, fold: FoldedLog, table: Table[RowT], folder: Path, extra: Sequence[RowT]
    ) -> None:
        """Write it.

        Raises:
            InvalidOption: this Spark has no such format.
        """


def writer(engine: Engine, table_format: TableFormat) -> Writer:
    """The writer of tables in this format; all but Parquet need Spark, as `choose` has checked."""
    if table_format is TableFormat.parquet:
        return lambda fold, table, folder, extra: fold.write(table, folder, extra)
    from kafka_marshal.replay.spark.pipeline import SparkEngine

    assert isinstance(engine, SparkEngine)
    return partial(engine.save, table_format)


@contextmanager
def run_fold(
    engine: Engine,
    chunks: tuple[Chunk, ...],
    judging: Judging,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Iterator[FoldedLog]:
    """Read and fold everything; the rows exist until the block ends.

    Raises:
        UnreadableSource: a line or a row is no record.
        ReplayError: the engine failed for another reason.
    """
    on_progress(f"reading {len(chunks)} chunks, folding")
    collapsing = judging.collapse is not None and engine.collapses(chunks)
    job = WholeLog(chunks, judging, collapsing=collapsing)
    with ExitStack() as kept:
        try:
            fold = kept.enter_context(engine.fold(job))
        except SourcesOverlap:
            on_progress("the sources overlap: reading them again, record by record")
            job = WholeLog(chunks, judging, collapsing=False)
            fold = kept.enter_context(engine.fold(job))
        yield fold
