"""A watch on Spark: Structured Streaming reads, and one task folds each coordinating partition.

It reports the same as a watch in one process, since the same accounts fold. The checkpoint is the
same too, so either can continue from the other's. Only its manifest records what was folded: every
start begins a new stream from there. Spark's own checkpoint is discarded with its process. An
interrupted batch is read again, even if Spark counts it as done.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final

import attrs
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from kafka_marshal.errors import BrokerFailed, InvalidOption
from kafka_marshal.replay.errors import CheckpointRefused, ReplayError, SparkFailed
from kafka_marshal.replay.live.folding import FOLDED_SCHEMA, BatchFold, FoldedPartition, events_in
from kafka_marshal.replay.live.stream import WATCHED, source
from kafka_marshal.replay.live.watch_context import (
    WatchContext,
    WatchOptions,
    WatchResult,
)
from kafka_marshal.replay.spark.session import opened_session
from kafka_marshal.replay.spark.spark_errors import plain_errors
from kafka_marshal.replay.spark.workers import mapped
from kafka_marshal.replay.state.checkpoint import Checkpoint
from kafka_marshal.scratch import Scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER_S: Final = 5.0
RECORDS_A_SECOND: Final = 50_000
"""More than one task can fold. A batch that lasts longer than the interval is followed by the next
one at once, so a watch that is behind does not wait."""
LOOK_S: Final = 0.2
"""How often `stopped` is called, in seconds."""
_OURS: Final = {
    "BrokerFailed": BrokerFailed,
    "OffsetsGone": BrokerFailed,
    "CheckpointRefused": CheckpointRefused,
    "ReplayError": ReplayError,
}
_PRINTED: Final = re.compile(rf"kafka_marshal\.[\w.]+\.({'|'.join(_OURS)}): (.+)")


def watch_on_spark(
    watching: WatchOptions,
    stopped: Callable[[], bool],
    *,
    trigger_s: float = TRIGGER_S,
    spark: SparkSession | None = None,
) -> WatchResult:
    """Fold the topic and report events, until `stopped()` is true or the end is reached.

    Every batch is committed: `checkpoint_every_s` has no effect. If the watch is stopped before a
    batch is committed, that batch was not reported either.

    Args:
        watching: what to watch and where to report it. All executors see the checkpoint's folder.
        stopped: is called periodically.
        trigger_s: the time between batches, in seconds. With `until_end`, each batch follows the
            one before at once.
        spark: a session to use; None: a local one, stopped at the end.

    Raises:
        CheckpointRefused: the folder does not match the topic or the options.
        BrokerFailed: the cluster cannot be reached, or reading failed permanently.
        InvalidOption: there is a keyring, or the output lies within the checkpoint's folder.
        SparkFailed: Spark did not start, or a task failed for another reason.
        ReplayError: the output cannot be written, or the topic was replaced.
    """
    if watching.keyring is not None:
        raise InvalidOption("tasks of Spark get no keys: watch in one process, or without keys")
    with ExitStack() as opened:
        scratch = opened.enter_context(Scratch("stream"))
        if watching.checkpoint is None:
            watching = attrs.evolve(watching, checkpoint=scratch / "states")
        watch_context = WatchContext(watching, opened)
        starts, ends = watch_context.begin(), watch_context.ends
        if ends is not None and _reached(starts, ends):
            return watch_context.watched
        session = opened.enter_context(opened_session() if spark is None else nullcontext(spark))
        batches = _Batches(watch_context)
        most = max(1, int(RECORDS_A_SECOND * max(trigger_s, TRIGGER_S)))
        session.dataSource.register(source(watching.settings, watching.topic, starts, ends, most))
        with _named_plainly():
            query = (
                session.readStream.format(WATCHED)
                .load()
                .writeStream.foreachBatch(batches.process)
                .option("checkpointLocation", str(scratch / "stream"))
                .trigger(processingTime=f"{0 if ends else round(trigger_s * 1000)} milliseconds")
                .start()
            )
            try:
                _wait(query, batches, watch_context, ends, stopped)
            finally:
                batches.closing = True
                # Returns when no batch is being reported any more.
                with suppress(PySparkException, Py4JError):
                    query.stop()
        batches.check()
        return watch_context.watched


def _wait(
    query: StreamingQuery,
    batches: _Batches,
    watch_context: WatchContext,
    ends: Mapping[int, int] | None,
    stopped: Callable[[], bool],
) -> None:
    while not stopped():
        batches.check()
        if not query.isActive:
            query.awaitTermination()  # raises what ended it
            raise SparkFailed("somebody else stopped the stream")
        if ends is not None and _reached(_committed(query), ends):
            return
        watch_context.check_topic()
        time.sleep(LOOK_S)


def _reached(offsets: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    return all(offsets.get(number, 0) >= end for number, end in ends.items())


def _committed(query: StreamingQuery) -> dict[int, int]:
    """The end offsets of the stream's last finished batch."""
    progress = query.lastProgress
    if progress is None:
        return {}
    printed = str(progress["sources"][0]["endOffset"])
    offsets = json.loads(printed) if printed.startswith("{") else {}
    return {int(number): offset for number, offset in offsets.items()}


class _Batches:
    """Processes what Spark has read, batch by batch."""

    def __init__(self, watch_context: WatchContext) -> None:
        assert watch_context.checkpoint is not None
        self._watch_context = watch_context
        self._checkpoint: Checkpoint = watch_context.checkpoint
        self._states = {number: path.name for number, path in watch_context.states.items()}
        self._failed: Exception | None = None
        self.closing = False
        """Whether the stream is being stopped: a fold that fails then was interrupted."""

    def process(self, records: DataFrame, _: int) -> None:
        """Fold a batch, report it, commit.

        It raises nothing, since Spark's bridge to Python would print it: see `check`. Spark then
        counts the failed batch as done; no later batch is reported.
        """
        if self._failed is None:
            try:
                with _named_plainly():
                    self._process(records)
            except Exception as error:
                self._failed = error

    def check(self) -> None:
        """Raise the error that broke a batch."""
        if self._failed is not None:
            raise self._failed

    def _process(self, records: DataFrame) -> None:
        watch_context, folder = self._watch_context, self._checkpoint.folder
        folding = BatchFold(
            folder.resolve(),
            watch_context.tail.topic,
            watch_context.judging,
            dict(self._states),
            {number: self._checkpoint.name_for(number) for number in watch_context.extents},
        )
        try:
            rows = mapped(records, folding, FOLDED_SCHEMA).collect()
        except Exception:
            if self.closing:
                return
            raise
        if not rows:
            return
        folded = {row["partition"]: FoldedPartition(**row.asDict()) for row in rows}
        if len(folded) < len(rows):
            raise SparkFailed("Spark gave one coordinating partition to two tasks")
        for number, one in sorted(folded.items()):
            if one.events is not None:
                for event, appended_ms in events_in(folder / one.events):
                    watch_context.emit(event, appended_ms)
            watch_context.read(number, one.records, one.next_offset, one.as_they_stand)
            watch_context.stamped([one.highest_ms])
            self._states[number] = one.file
            self._checkpoint.adopt(number, one.file)
        watch_context.flush()
        watch_context.commit()


@contextmanager
def _named_plainly() -> Iterator[None]:
    """Raise an error of another process of ours as its original exception."""
    try:
        with plain_errors():
            yield
    except SparkFailed as error:
        printed = _PRINTED.findall(str(error.__cause__))
        if not printed:
            raise
        name, sentence = printed[-1]
        raise _OURS[name](sentence.strip()) from None
