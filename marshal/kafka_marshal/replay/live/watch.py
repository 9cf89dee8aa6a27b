"""A replay that never ends: it folds records as they come, and reports at once what happens.

Per coordinating partition there is one account, in this process. With a checkpoint folder all are
committed now and then and at the end (`watch_context`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from kafka_marshal.authentication import AuthenticityChecks, Keyring
from kafka_marshal.capture import RawRecord
from kafka_marshal.replay.findings.records.authenticity import finding_of
from kafka_marshal.replay.live.folding import events_of, live_fold, put_aside, taken_up
from kafka_marshal.replay.live.live_findings import BEGUN, LiveEvent, appended_ms
from kafka_marshal.replay.live.watch_context import (
    COUNT_CHECK_S,
    WatchContext,
    WatchOptions,
    WatchResult,
)
from kafka_marshal.replay.model.events import LogPartition

__all__ = ["WatchOptions", "WatchResult", "watch"]


def watch(watching: WatchOptions, stopped: Callable[[], bool]) -> WatchResult:
    """Fold the topic and tell what happens, until `stopped` says so or the end is reached.

    Raises:
        CheckpointRefused: the folder does not fit.
        BrokerFailed: the cluster cannot be reached, or reading failed for good.
        ReplayError: the output cannot be written, or the topic is not what it was.
    """
    with ExitStack() as opened:
        context = WatchContext(watching, opened)
        return _Watch(context, watching.checkpoint_every_s, watching.keyring).run(stopped)


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
        self._checks = None if keyring is None else AuthenticityChecks(keyring)

    def run(self, stopped: Callable[[], bool]) -> WatchResult:
        watch_context = self._watch_context
        commit_at = time.monotonic() + self._every_s
        count_at = time.monotonic() + COUNT_CHECK_S
        for batch in watch_context.tail.records(self._next, watch_context.ends, stopped):
            self._fold(batch)
            watch_context.flush()
            watch_context.show(self._accounts)
            now = time.monotonic()
            if now >= commit_at:
                self._commit()
                commit_at = time.monotonic() + self._every_s
            if now >= count_at:
                watch_context.check_count()
                count_at = time.monotonic() + COUNT_CHECK_S
        self._commit()
        watch_context.show(self._accounts, at_the_end=True)
        return watch_context.watched

    def _fold(self, batch: Sequence[RawRecord]) -> None:
        counted: dict[int, int] = {}
        for raw in batch:
            number = raw.partition
            self._verify(raw)
            events = events_of(self._states[number], raw)
            self._next[number] = raw.offset + 1
            counted[number] = counted.get(number, 0) + 1
            for event in events:
                self._watch_context.emit(event, appended_ms(raw))
        self._watch_context.stamped(raw.timestamp_ms for raw in batch)
        self._changed.update(counted)
        for number, count in counted.items():
            self._watch_context.read(
                number, count, self._next[number], self._accounts[number].gauges
            )

    def _verify(self, raw: RawRecord) -> None:
        began = None if self._checks is None else self._checks.check(raw)
        if began is not None:
            row = finding_of(self._watch_context.tail.topic, began)
            self._watch_context.emit(LiveEvent(BEGUN, row), appended_ms(raw))

    def _commit(self) -> None:
        checkpoint = self._watch_context.checkpoint
        if checkpoint is not None:
            for number in sorted(self._changed):
                name = checkpoint.name_for(number)
                put_aside(self._states[number], checkpoint.folder / name)
                checkpoint.adopt(number, name)
            self._changed.clear()
        self._watch_context.commit()
