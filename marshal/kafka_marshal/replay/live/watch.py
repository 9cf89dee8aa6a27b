"""An endless replay: folds records as they arrive, and reports findings at once.

There is one account per coordinating partition, in this process. The kernel sums records without
further effect (`watched_claims`). Records are folded one by one if few are to be read, if the
protocol is another one, and if records are verified. With a checkpoint folder, all accounts are
committed periodically and at the end (`watch_context`). A thread writes the commit while the fold
continues.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from operator import itemgetter, methodcaller
from typing import TYPE_CHECKING, Final

from kafka_marshal.authentication import AuthenticityChecks, Keyring
from kafka_marshal.capture import RawRecord
from kafka_marshal.client.connect.reader import LogMessage, raw_record
from kafka_marshal.client.message import headers_of_all
from kafka_marshal.replay.findings.records.authenticity import finding_of
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.live.folding import events_of, live_fold, pickled, taken_up
from kafka_marshal.replay.live.live_findings import BEGUN, LiveEvent, appended_ms
from kafka_marshal.replay.live.watch_context import WatchContext, WatchOptions, WatchResult
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.one_process.gathering import collecting_seldom

if TYPE_CHECKING:
    from kafka_marshal.replay.live.watched_claims import LiveBatch, WatchedClaims

__all__ = ["WatchOptions", "WatchResult", "watch"]

MANY: Final = 100
"""A watch that ends after fewer records does not use the kernel, which loads slowly."""
_PARTITION, _OFFSET, _TIMESTAMP, _VALUE = map(
    methodcaller, ("partition", "offset", "timestamp", "value")
)
_FIRST, _SECOND = itemgetter(0), itemgetter(1)


def watch(watching: WatchOptions, stopped: Callable[[], bool]) -> WatchResult:
    """Fold the topic and report events, until `stopped()` is true or the end is reached.

    Raises:
        CheckpointRefused: the folder does not match the topic or the options.
        BrokerFailed: the cluster cannot be reached, or reading failed permanently.
        InvalidOption: the output lies within the checkpoint's folder.
        ReplayError: the output cannot be written, or the topic was replaced.
    """
    with ExitStack() as opened:
        context = WatchContext(watching, opened)
        watch = _Watch(context, watching.checkpoint_every_s, watching.keyring)
        with collecting_seldom(for_ever=True):
            return watch.run(stopped)


class _Watch:
    def __init__(
        self, watch_context: WatchContext, checkpoint_every_s: float, keyring: Keyring | None
    ) -> None:
        self._watch_context, self._every_s = watch_context, checkpoint_every_s
        self._next = watch_context.begin()
        self._states = {
            number: taken_up(
                watch_context.states.get(number),
                LogPartition(watch_context.tail.topic, number),
                watch_context.judging,
            )
            for number in watch_context.extents
        }
        self._accounts = {
            number: live_fold(state).account for number, state in self._states.items()
        }
        self._changed: set[int] = set()
        self._settled = False
        self._checks = None if keyring is None else AuthenticityChecks(keyring)
        self._watched = self._by_kernel() if self._suits_kernel() else None

    def _suits_kernel(self) -> bool:
        context = self._watch_context
        if self._checks is not None or not isinstance(context.judging, JudgingOptions):
            return False
        if context.ends is None:
            return True
        return sum(end - self._next[number] for number, end in context.ends.items()) >= MANY

    def _by_kernel(self) -> WatchedClaims:
        """Load the kernel now: loading it later would pause the fold and delay reports."""
        from kafka_marshal.replay.live.watched_claims import WatchedClaims

        watched = WatchedClaims(self._states)
        list(watched.fold(_batch((), (), (), (), ())))
        return watched

    def run(self, stopped: Callable[[], bool]) -> WatchResult:
        with ThreadPoolExecutor(1, "marshal-checkpoint") as writer:
            self._run(stopped, writer)
        self._watch_context.show(self._accounts, at_the_end=True)
        return self._watch_context.watched

    def _run(self, stopped: Callable[[], bool], writer: Executor) -> None:
        watch_context = self._watch_context
        commit_at = time.monotonic() + self._every_s
        committing: Future[None] | None = None
        for batch in watch_context.tail.batches(self._next, watch_context.ends, stopped):
            self._fold(batch)
            watch_context.flush()
            watch_context.show(self._accounts)
            now = time.monotonic()
            if committing is not None and committing.done():
                committing.result()  # raises what it met
                committing = None
            if now >= commit_at and committing is None and self._is_settled():
                committing = writer.submit(watch_context.commit_of(self._pickled()))
                commit_at = time.monotonic() + self._every_s
            watch_context.check_topic()
        if committing is not None:
            committing.result()
        watch_context.commit_of(self._pickled())()

    def _fold(self, messages: Sequence[LogMessage]) -> None:
        if not messages:
            self._watch_context.stamped(())
            return
        emit = self._watch_context.emit
        # A message without an error has a partition and an offset.
        numbers: list[int] = [*map(_PARTITION, messages)]
        offsets: list[int] = [*map(_OFFSET, messages)]
        stamps = [*map(_TIMESTAMP, messages)]
        kinds, stamps_ms = [*map(_FIRST, stamps)], [*map(_SECOND, stamps)]
        if self._watched is None:
            folded = self._one_by_one(messages)
        else:
            folded = self._watched.fold(_batch(messages, numbers, offsets, kinds, stamps_ms))
        for raw, events in folded:
            appended = appended_ms(raw)
            for event in events:
                emit(event, appended)
        self._watch_context.stamped(stamps_ms)
        for number, offset in dict(zip(numbers, offsets, strict=True)).items():
            self._next[number] = offset + 1
        counted = Counter(numbers)
        self._changed.update(counted)
        for number, count in counted.items():
            self._watch_context.read(
                number, count, self._next[number], self._accounts[number].gauges
            )

    def _one_by_one(
        self, messages: Sequence[LogMessage]
    ) -> Iterator[tuple[RawRecord, list[LiveEvent]]]:
        for raw in map(raw_record, messages):
            yield raw, self._verified(raw)
            yield raw, events_of(self._states[raw.partition], raw)

    def _verified(self, raw: RawRecord) -> list[LiveEvent]:
        began = None if self._checks is None else self._checks.check(raw)
        if began is None:
            return []
        return [LiveEvent(BEGUN, finding_of(self._watch_context.tail.topic, began))]

    def _is_settled(self) -> bool:
        """Whether the accounts received their sums one batch ago; if not, they do now.

        A commit then has few sums left. Doing both at once would double the pause.
        """
        if self._watched is None or self._watch_context.checkpoint is None:
            return True
        settled, self._settled = self._settled, not self._settled
        if not settled:
            self._watched.settle()
        return settled

    def _pickled(self) -> dict[int, bytes]:
        """The states that changed since the last call, for a commit; empty without a checkpoint."""
        if self._watch_context.checkpoint is None:
            return {}
        if self._watched is not None:
            self._watched.settle()
        states = {number: pickled(self._states[number]) for number in sorted(self._changed)}
        self._changed.clear()
        return states


def _batch(
    messages: Sequence[LogMessage],
    numbers: Sequence[int],
    offsets: Sequence[int],
    kinds: Sequence[int],
    stamps_ms: Sequence[int],
) -> LiveBatch:
    from kafka_marshal.replay.live.watched_claims import HeaderNames, LiveBatch

    names = HeaderNames()
    headers = headers_of_all(messages)
    pairs = [*chain.from_iterable(headers)]
    return LiveBatch(
        numbers,
        offsets,
        stamps_ms,
        kinds,
        [*map(_VALUE, messages)],
        [*map(len, headers)],
        [*map(names.__getitem__, map(_FIRST, pairs))],
        [*map(_SECOND, pairs)],
        [*names],
        messages,
        raw_record,
    )
