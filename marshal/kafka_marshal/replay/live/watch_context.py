"""The part of a watch that is the same in one process and on Spark: topic, outputs, checkpoint.

The next offsets, the state of every coordinating partition and the length of the output file are
committed together. After a crash, output written after the last commit is removed and written again
with the same content. This module does not know how or where a record is folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from kafka_marshal.admin.clock_ahead import ahead
from kafka_marshal.authentication import Keyring
from kafka_marshal.client.connect.admin_client import ClusterClient, TopicDescription
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import CoordinationReader, Watermarks, now_ms
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.replay.errors import CheckpointRefused
from kafka_marshal.replay.fold.judging import LiveAccount, LiveJudging
from kafka_marshal.replay.live.live_findings import LOUD, OVER, LiveEvent
from kafka_marshal.replay.live.metrics import Metrics
from kafka_marshal.replay.live.sinks import JsonFile, Sink, ToTopic
from kafka_marshal.replay.state.checkpoint import (
    Checkpoint,
    CommittedStates,
    check_apart,
    replace_whole,
)
from kafka_marshal.replay.state.partition_state import read_head

TOPIC_CHECK_S: Final = 30.0
"""How often to check whether the topic is still the same, in seconds."""


@frozen
class WatchOptions:
    """What to watch and where to report it."""

    settings: Settings
    topic: str
    judging: LiveJudging
    checkpoint: Path | None = None
    checkpoint_every_s: float = 10.0
    out: Path | None = None
    """A file of JSON lines."""
    to_topic: str | None = None
    until_end: bool = False
    """Stop at the end offsets that the partitions had at the start."""
    sinks: Sequence[Sink] = field(factory=tuple)
    metrics: Metrics | None = None
    keyring: Keyring | None = None
    """Verifies records; None: they are not verified. Not supported on Spark, whose tasks get no
    keys."""
    on_note: Callable[[str], None] = lambda _: None
    """Takes sentences about the watch itself."""
    on_accounts: Callable[[Mapping[int, LiveAccount], bool], None] | None = None
    """Receives the accounts of all partitions after every batch, and at the end (then the second
    argument is true). Accounts of claims may lack ordinary heartbeats, which change no gauge. Not
    called on Spark, where accounts are in files."""


@frozen
class WatchResult:
    """The result of a watch."""

    records: int
    loud: int
    """The number of errors and warnings that were reported."""


class WatchContext:
    """One watch's topic, sinks and checkpoint; `opened` closes them."""

    def __init__(self, watching: WatchOptions, opened: ExitStack) -> None:
        """Open the topic, the sinks and the checkpoint.

        Raises:
            CheckpointRefused: the folder does not match the topic or the options.
            BrokerFailed: the cluster cannot be reached.
            InvalidOption: the output lies within the checkpoint's folder.
            ReplayError: the output cannot be written.
        """
        if watching.checkpoint is not None and watching.out is not None:
            check_apart(watching.checkpoint, watching.out)
        self._watching = watching
        self.tail = opened.enter_context(
            closing(CoordinationReader(watching.settings, watching.topic))
        )
        self.judging = watching.judging.of_topic(len(self.tail.partitions))
        self._cluster = ClusterClient(watching.settings)
        self._environment = watching.settings.environment
        self._asking: Future[TopicDescription | None] | None = None
        self._ask_at_s = self._environment.monotonic() + TOPIC_CHECK_S
        self._topic_id = self._topic_id_now()
        """The topic's id, which changes if the topic is deleted and created again. None if the
        brokers give topics no id."""
        self.checkpoint: Checkpoint | None = None
        self.known: CommittedStates | None = None
        """The content of the checkpoint at the start."""
        if watching.checkpoint is not None:
            self.checkpoint = opened.enter_context(
                closing(Checkpoint(watching.checkpoint, self._options()))
            )
            self.known = self.checkpoint.known()
        self.states: dict[int, Path] = {}
        """The files of states to continue from."""
        if self.checkpoint is not None and self.known is not None:
            folder = self.checkpoint.folder
            self.states = {number: folder / file for number, file in self.known.states.items()}
        self._file: JsonFile | None = None
        self._sinks: list[Sink] = list(watching.sinks)
        if watching.to_topic is not None:
            ClusterMetadata(watching.settings).partitions_of(
                watching.to_topic
            )  # raises if it is missing
            self._sinks.append(
                opened.enter_context(closing(ToTopic(watching.settings, watching.to_topic)))
            )
        if watching.out is not None:
            length = None if self.known is None else self.known.beside.get("out_bytes", 0)
            self._file = opened.enter_context(closing(JsonFile(watching.out, length)))
            self._sinks.append(self._file)
        self.extents = self.tail.extents()
        self._began_ms = now_ms()
        self._records = self._loud = 0
        self._highest_ms, self._ahead = 0, False

    def _options(self) -> Mapping[str, Any]:
        return {
            "cluster": self.tail.cluster,
            "topic": self.tail.topic,
            "topic id": self._topic_id,
            **self.judging.options,
            "out": None if self._watching.out is None else str(self._watching.out.absolute()),
        }

    @property
    def ends(self) -> dict[int, int] | None:
        """The end offsets at which to stop; None if it is endless."""
        if not self._watching.until_end:
            return None
        return {number: extent.high for number, extent in self.extents.items()}

    @property
    def watched(self) -> WatchResult:
        """The result so far."""
        return WatchResult(self._records, self._loud)

    def begin(self) -> dict[int, int]:
        """The first offset to read of every partition.

        Raises:
            CheckpointRefused: the topic ends before it.
        """
        begins = {}
        for number, extent in self.extents.items():
            if number in self.states:
                next_offset = read_head(self.states[number]).next_offset
                begins[number] = self._from(number, next_offset, extent)
                if begins[number] == next_offset or self.judging.outlives_gaps:
                    continue
                del self.states[number]
            begins[number] = extent.low
            if extent.low:
                self._watching.on_note(
                    f"partition {number} begins at offset {extent.low}: "
                    f"{self.judging.without_head(number)}"
                )
        if self.known is None:
            # From here on the output file belongs to this watch.
            self.commit()
        return begins

    def _from(self, number: int, offset: int, extent: Watermarks) -> int:
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

    def emit(self, event: LiveEvent, appended_ms: int | None) -> None:
        """Report an event to all sinks.

        `appended_ms`: the record's time, if a broker stamped it.
        """
        self._loud += event.severity in LOUD and event.state != OVER
        for sink in self._sinks:
            sink.emit(event)
        if self._watching.metrics is not None:
            fresh = appended_ms is not None and appended_ms >= self._began_ms
            delay_s = max(0, now_ms() - (appended_ms or 0)) / 1000 if fresh else None
            self._watching.metrics.count(event, delay_s)

    def read(
        self,
        partition: int,
        records: int,
        next_offset: int,
        gauges: Callable[[], Sequence[int]],
    ) -> None:
        """Count the folded records of a partition, and update its gauges.

        `gauges` returns the numbers that the judging names; it is only called if there are metrics.
        """
        self._records += records
        if self._watching.metrics is not None:
            self._watching.metrics.read(partition, records, next_offset, gauges())

    def show(self, accounts: Mapping[int, LiveAccount], *, at_the_end: bool = False) -> None:
        """Pass the accounts to `on_accounts`."""
        if self._watching.on_accounts is not None:
            self._watching.on_accounts(accounts, at_the_end)

    def stamped(self, stamps_ms: Iterable[int]) -> None:
        """Records with these stamps were read; warn if a clock that is ahead delays failover."""
        self._highest_ms = max(self._highest_ms, max(stamps_ms, default=0))
        rules = self.judging.log_clock
        late = None if rules is None else ahead([self._highest_ms], now_ms(), rules)
        if late is not None and not self._ahead:
            self._watching.on_note(f"{late}; marshal release frees its claims before")
        if late is None and self._ahead:
            self._watching.on_note("the log's clock is not ahead of this machine's any more")
        self._ahead = late is not None

    def flush(self) -> None:
        """Make all reports visible to readers of the outputs."""
        for sink in self._sinks:
            sink.flush()

    def commit(self) -> None:
        """Make all reports durable and, with a checkpoint, the states added to it."""
        self.commit_of({})()

    def commit_of(self, states: Mapping[int, bytes]) -> Callable[[], None]:
        """Returns a function that makes the reports so far, and these states, durable.

        Any thread may call it while this one continues: later reports are not included.
        """
        beside = {} if self._file is None else {"out_bytes": self._file.length}

        def commit() -> None:
            for sink in self._sinks:
                sink.settle()
            checkpoint = self.checkpoint
            if checkpoint is None:
                return
            for number, state in states.items():
                name = checkpoint.name_for(number)
                replace_whole(checkpoint.folder / name, state)
                checkpoint.adopt(number, name)
            checkpoint.commit(beside)

        return commit

    def check_topic(self) -> None:
        """Check that the topic has not grown and was not created again.

        In a topic that grew, claims move to other partitions, so consumers no longer see each
        other. A new topic has records below the next offsets. A separate thread queries the
        cluster, since that may take long; a later call uses the answer.

        Raises:
            BrokerFailed: it has grown, or was created again.
        """
        if self._asking is None:
            if self._environment.monotonic() >= self._ask_at_s:
                self._asking = asking = Future[TopicDescription | None]()
                self._environment.start(
                    "marshal-watched-topic",
                    lambda: asking.set_result(self._cluster.topic(self.tail.topic)),
                    asking.set_exception,
                )
        elif self._asking.done():
            answered, self._asking = self._asking, None
            self._ask_at_s = self._environment.monotonic() + TOPIC_CHECK_S
            try:
                found = answered.result()
            except BrokerFailed as error:  # it may be away for a while; reading goes on then
                self._watching.on_note(str(error))
            else:
                self._check(found)

    def _check(self, found: TopicDescription | None) -> None:
        place = f"{self._watching.settings.bootstrap}: topic {self.tail.topic}"
        if found is None:
            self._watching.on_note(f"{place} is not there")
            return
        if len(found.partitions) != len(self.tail.partitions):
            raise BrokerFailed(
                f"{place} had {len(self.tail.partitions)} partitions and has "
                f"{len(found.partitions)} now: claims lie elsewhere from now on, and consumers may "
                f"not see each other's"
            )
        if found.is_not(self._topic_id):
            raise BrokerFailed(
                f"{place} was deleted and made anew, and its first records were perhaps not read: "
                f"start again with another --checkpoint and another --out"
            )

    def _topic_id_now(self) -> str | None:
        found = self._cluster.topic(self.tail.topic)
        return None if found is None else found.topic_id
