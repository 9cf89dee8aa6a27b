"""A replay that never ends: records are folded as they come, and what happens is told at once.

Per coordinating partition there is one account. With a checkpoint folder all accounts, the offsets
to go on from and the length of the output file are committed together, now and then and at the
end; what was told after a commit and before a crash is cut off and told again, the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.core.world import OutOfOrder
from kafka_marshal.replay.account import Judging
from kafka_marshal.replay.checkpoint import Checkpoint, CheckpointRefused, Resumed
from kafka_marshal.replay.errors import ReplayError
from kafka_marshal.replay.events import Place
from kafka_marshal.replay.live.metrics import Metrics
from kafka_marshal.replay.live.sinks import JsonFile, Sink, ToTopic
from kafka_marshal.replay.live.stories import LOUD, OVER, LiveAccount, Told
from kafka_marshal.runtime.errors import BrokerFailed
from kafka_marshal.runtime.reader import Extent, Tail, now_ms
from kafka_marshal.runtime.settings import Settings

COUNT_CHECK_S: Final = 30.0
"""So often the topic is asked how many partitions it has."""


@frozen
class Watching:
    """What to watch and where to tell it."""

    settings: Settings
    topic: str
    judging: Judging
    checkpoint: Path | None = None
    checkpoint_every_s: float = 10.0
    out: Path | None = None
    """A file of JSON lines."""
    to_topic: str | None = None
    until_end: bool = False
    """Stop at the ends that the partitions had at the start."""
    sinks: Sequence[Sink] = field(factory=tuple)
    metrics: Metrics | None = None
    on_note: Callable[[str], None] = lambda _: None
    """Takes sentences about the watch itself."""


@frozen
class Watched:
    """What a watch came to."""

    records: int
    loud: int
    """Errors and warnings told."""


def watch(watching: Watching, stopped: Callable[[], bool]) -> Watched:
    """Fold the topic and tell what happens, until `stopped` says so or the end is reached.

    Raises:
        CheckpointRefused: the folder does not fit.
        BrokerFailed: the cluster cannot be reached, or reading failed for good.
        ReplayError: the output cannot be written, or the topic is not what it was.
    """
    with ExitStack() as opened:
        tail = opened.enter_context(closing(Tail(watching.settings, watching.topic)))
        return _Watch(watching, tail, opened).run(stopped)


class _Watch:
    def __init__(self, watching: Watching, tail: Tail, opened: ExitStack) -> None:
        self._watching, self._tail = watching, tail
        self._judging = watching.judging
        if self._judging.coordination_partitions is None:
            self._judging = Judging(
                self._judging.rule_sets,
                self._judging.heartbeat_interval_ms,
                self._judging.pause_max_ms,
                len(tail.partitions),
            )
        self._checkpoint, resumed = None, None
        if watching.checkpoint is not None:
            self._checkpoint = opened.enter_context(
                closing(Checkpoint(watching.checkpoint, self._options()))
            )
            resumed = self._checkpoint.load()
        self._file: JsonFile | None = None
        self._sinks: list[Sink] = list(watching.sinks)
        if watching.to_topic is not None:
            # Asking for its partitions tells whether it is there.
            Tail(watching.settings, watching.to_topic).close()
            self._sinks.append(
                opened.enter_context(closing(ToTopic(watching.settings, watching.to_topic)))
            )
        if watching.out is not None:
            length = None if resumed is None else resumed.beside.get("out_bytes", 0)
            self._file = opened.enter_context(closing(JsonFile(watching.out, length)))
            self._sinks.append(self._file)
        self._accounts: dict[int, LiveAccount] = {}
        self._next: dict[int, int] = {}
        self._changed: set[int] = set()
        self._extents = tail.extents()
        self._begin(resumed)
        if self._checkpoint is not None and resumed is None:
            # From here on the output file is known to be ours.
            self._checkpoint.commit({} if self._file is None else {"out_bytes": 0})
        self._began_ms = now_ms()
        self._records = self._loud = 0

    def _options(self) -> Mapping[str, Any]:
        judging = self._judging
        return {
            "cluster": self._tail.cluster,
            "topic": self._tail.topic,
            "rules": [rules.value for rules in judging.rule_sets],
            "heartbeat_interval_ms": judging.heartbeat_interval_ms,
            "pause_max_ms": judging.pause_max_ms,
            "coordination_partitions": judging.coordination_partitions,
            "out": None if self._watching.out is None else str(self._watching.out.absolute()),
        }

    def _begin(self, resumed: Resumed | None) -> None:
        """Where every partition goes on."""
        for number, extent in self._extents.items():
            known = None if resumed is None else resumed.partitions.get(number)
            if known is None:
                self._accounts[number] = LiveAccount(Place(self._tail.topic, number), self._judging)
                self._next[number] = extent.low
                if extent.low:
                    self._watching.on_note(
                        f"partition {number} begins at offset {extent.low}: whoever won a claim "
                        f"before that is not known; a claim is told from where it is certain"
                    )
                continue
            assert isinstance(known.account, LiveAccount)
            self._accounts[number] = known.account
            self._next[number] = self._from(number, known.next_offset, extent)

    def _from(self, number: int, offset: int, extent: Extent) -> int:
        if offset > extent.high:
            raise CheckpointRefused(
                f"{self._watching.checkpoint}: partition {number} had been read up to offset "
                f"{offset}, but the topic ends at {extent.high}: it lost its end or is another "
                f"topic; begin anew in another folder"
            )
        if offset < extent.low:
            self._watching.on_note(
                f"partition {number}: offsets {offset} to {extent.low - 1} are gone from the topic "
                f"and were not read; what they said is not known"
            )
        return max(offset, extent.low)

    def run(self, stopped: Callable[[], bool]) -> Watched:
        ends = None
        if self._watching.until_end:
            ends = {number: extent.high for number, extent in self._extents.items()}
        every_s = self._watching.checkpoint_every_s
        commit_at = time.monotonic() + every_s
        count_at = time.monotonic() + COUNT_CHECK_S
        for batch in self._tail.records(self._next, ends, stopped):
            self._fold(batch)
            for sink in self._sinks:
                sink.flush()
            now = time.monotonic()
            if now >= commit_at:
                self._commit()
                commit_at = time.monotonic() + every_s
            if now >= count_at:
                self._check_count()
                count_at = time.monotonic() + COUNT_CHECK_S
        self._commit()
        return Watched(self._records, self._loud)

    def _fold(self, batch: Sequence[RawRecord]) -> None:
        counted: dict[int, int] = {}
        for raw in batch:
            number = raw.partition
            try:
                told = self._accounts[number].tell(raw)
            except OutOfOrder as error:
                raise ReplayError(f"partition {number}: {error}") from None
            self._next[number] = raw.offset + 1
            counted[number] = counted.get(number, 0) + 1
            for one in told:
                self._tell(one, raw)
        self._changed.update(counted)
        self._records += len(batch)
        if self._watching.metrics is not None:
            for number, count in counted.items():
                self._watching.metrics.read(
                    number, count, self._next[number], self._accounts[number].owned
                )

    def _tell(self, told: Told, raw: RawRecord) -> None:
        self._loud += told.severity in LOUD and told.state != OVER
        for sink in self._sinks:
            sink.tell(told)
        if self._watching.metrics is not None:
            fresh = (
                raw.timestamp_type is TimestampType.LOG_APPEND_TIME
                and raw.timestamp_ms >= self._began_ms
            )
            delay_s = max(0, now_ms() - raw.timestamp_ms) / 1000 if fresh else None
            self._watching.metrics.told(told, delay_s)

    def _commit(self) -> None:
        for sink in self._sinks:
            sink.settle()
        if self._checkpoint is None:
            return
        for number in sorted(self._changed):
            self._checkpoint.put(number, self._accounts[number], self._next[number])
        self._changed.clear()
        beside = {} if self._file is None else {"out_bytes": self._file.length}
        self._checkpoint.commit(beside)

    def _check_count(self) -> None:
        """A topic that grew sends claims elsewhere: consumers no longer see each other."""
        try:
            count = self._tail.partition_count_now()
        except BrokerFailed as error:  # it may be away for a while; reading goes on when it is back
            self._watching.on_note(str(error))
            return
        if count != len(self._tail.partitions):
            raise BrokerFailed(
                f"{self._watching.settings.bootstrap}: topic {self._tail.topic} had "
                f"{len(self._tail.partitions)} partitions and has {count} now: claims lie "
                f"elsewhere from now on, and consumers may not see each other's"
            )
