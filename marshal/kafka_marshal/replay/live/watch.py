"""A replay that never ends: it folds records as they come, and reports at once what happens.

Per coordinating partition there is one account, in this process. With a checkpoint folder all are
committed now and then and at the end (`watch_context`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from kafka_marshal.capture import RawRecord
from kafka_marshal.replay.live.folding import taken_up, told_of
from kafka_marshal.replay.live.live_findings import appended_ms
from kafka_marshal.replay.live.watch_context import COUNT_CHECK_S, Desk, Watched, Watching
from kafka_marshal.replay.model.events import Place

__all__ = ["Watched", "Watching", "watch"]


def watch(watching: Watching, stopped: Callable[[], bool]) -> Watched:
    """Fold the topic and tell what happens, until `stopped` says so or the end is reached.

    Raises:
        CheckpointRefused: the folder does not fit.
        BrokerFailed: the cluster cannot be reached, or reading failed for good.
        ReplayError: the output cannot be written, or the topic is not what it was.
    """
    with ExitStack() as opened:
        return _Watch(Desk(watching, opened), watching.checkpoint_every_s).run(stopped)


class _Watch:
    def __init__(self, desk: Desk, checkpoint_every_s: float) -> None:
        self._desk, self._every_s = desk, checkpoint_every_s
        folder = None if desk.checkpoint is None else desk.checkpoint.folder
        states = {} if desk.known is None else desk.known.states
        self._accounts = {
            number: taken_up(
                folder, states.get(number), Place(desk.tail.topic, number), desk.judging
            )
            for number in desk.extents
        }
        self._next = desk.begin()
        self._changed: set[int] = set()

    def run(self, stopped: Callable[[], bool]) -> Watched:
        desk = self._desk
        commit_at = time.monotonic() + self._every_s
        count_at = time.monotonic() + COUNT_CHECK_S
        for batch in desk.tail.records(self._next, desk.ends, stopped):
            self._fold(batch)
            desk.flush()
            now = time.monotonic()
            if now >= commit_at:
                self._commit()
                commit_at = time.monotonic() + self._every_s
            if now >= count_at:
                desk.check_count()
                count_at = time.monotonic() + COUNT_CHECK_S
        self._commit()
        return desk.watched

    def _fold(self, batch: Sequence[RawRecord]) -> None:
        counted: dict[int, int] = {}
        for raw in batch:
            number = raw.partition
            told = told_of(self._accounts[number], raw)
            self._next[number] = raw.offset + 1
            counted[number] = counted.get(number, 0) + 1
            for one in told:
                self._desk.tell(one, appended_ms(raw))
        self._desk.stamped(raw.timestamp_ms for raw in batch)
        self._changed.update(counted)
        for number, count in counted.items():
            self._desk.read(number, count, self._next[number], self._accounts[number].owned)

    def _commit(self) -> None:
        checkpoint = self._desk.checkpoint
        if checkpoint is not None:
            for number in sorted(self._changed):
                checkpoint.put(number, self._accounts[number], self._next[number])
            self._changed.clear()
        self._desk.commit()
