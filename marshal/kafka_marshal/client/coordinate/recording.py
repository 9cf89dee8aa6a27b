"""Records the run of one instance in the format of `marshal validate` (docs/validate.md).

Each instance writes its own file to a folder: what it read, what it sent and what it processed, in
its own order. An effect is recorded before it is carried out. So everything that others can have
seen of an instance is recorded, even if it is killed with -9. Only the last records that it read,
and the last messages that it finished without reporting them, may be missing; no visible event
depends on them. The file is written but not synced: a power failure loses more.

This module does not know what is allowed. It records the inputs and effects of the machine, and the
validator decides which of them are explained.

At least once, a message counts as processed when the machine learns that the application has
finished it. At most once, a granted message counts as processed before it is delivered, since it is
never delivered again.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TextIO

from kafka_marshal.capture import RawRecord, capture_line
from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.connect.log_filter import FetchedMessage
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.connect.threads import Lock
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import ClaimingPartition, Record
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import InvalidOption, naming
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.driver import Timing
from kafka_marshal.machines.consumer.effects import Process, Send
from kafka_marshal.machines.consumer.member import ClaimEffect, Member
from kafka_marshal.scratch import whole_file
from kafka_marshal.validate import run
from kafka_marshal.validate.reading import LOG_FILE
from kafka_marshal.validate.run import Fields, Setting

WRITTEN_AT: Final = 1_000
"""The most lines to collect before they are written to the file."""


def write_log(settings: Settings, topic: str, folder: Path) -> int:
    """Write a capture of the whole coordination topic to the folder of the recording.

    Records are in the order in which they were appended, as far as the brokers' timestamps show it.
    Returns their number. If the copy breaks off, there is no file.

    Raises:
        BrokerFailed: the cluster cannot be reached, or has no such topic.
        OSError: the file cannot be written; the error names it.
    """
    found: list[tuple[int, RawRecord]] = []
    with closing(CoordinationReader(settings, topic)) as tail:
        extents = tail.extents()
        starts = {number: extent.low for number, extent in extents.items()}
        ends = {number: extent.high for number, extent in extents.items()}
        latest: dict[int, int] = {}
        for batch in tail.records(starts, ends):
            for raw in batch:
                # Offsets are the order of a partition, also where a clock went back.
                at_ms = max(raw.timestamp_ms, latest.get(raw.partition, 0))
                latest[raw.partition] = at_ms
                found.append((at_ms, raw))
    found.sort(key=lambda each: each[0])
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / LOG_FILE) as file:  # a part would be taken for the whole log
        file.writelines(f"{capture_line(raw)}\n" for _, raw in found)
    return len(found)


class RecordedMember(Member):
    """A member that records its inputs, and its effects before they are carried out."""

    def __init__(
        self,
        me: InstanceConfig,
        group: str,
        partitions: int,
        claiming: Claiming | None = None,
        timing: Timing | None = None,
        *,
        firsts: Mapping[int, int] | None = None,
        folder: Path,
        lock: Lock,
        open_file: Callable[[Path, str], TextIO] = REAL.open_file,
    ) -> None:
        """Begin a file in this folder, which is created if missing; `lock` is held for writing.

        Raises:
            InvalidOption: the file cannot be written.
            ValueError: as `Member` raises it.
        """
        super().__init__(me, group, partitions, claiming, timing, firsts=firsts)
        self.path = folder / f"{me.instance_id}.jsonl"
        self._lines: list[str] = []
        self._within = False
        self._gone_below: dict[ClaimKey, int] = {}
        self._starts: dict[ClaimKey, int] = {}
        """The start offset of claims, as last recorded; 0 before."""
        self._fetched: dict[int, deque[int]] = {}
        """Offsets that were fetched and not folded, by coordinating partition; including those that
        need not be folded."""
        self._writing = lock
        # Not idempotent: after a record with an unknown outcome librdkafka begins a new sequence
        # and sends what was under way once more. If it had landed, the log holds copies.
        setting = Setting(
            me.rules, {me.instance_id: run.RecordedInstance(me, group)}, partitions, False
        )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open_file(self.path, "x")
            self.write(run.header(setting), run.started(me.instance_id, firsts))
            self.flush()
        except OSError as error:
            with suppress(OSError, AttributeError):
                self._file.close()
            if not isinstance(error, FileExistsError):  # that one is somebody's
                with suppress(OSError):  # an empty file would be no recording
                    self.path.unlink(missing_ok=True)
            raise InvalidOption(f"cannot record to {self.path}: {error.strerror}") from None

    # --- what is written --------------------------------------------------------------------------

    def fetched(self, messages: Iterable[FetchedMessage]) -> None:
        """These are in the log, whether they need to be folded or not. Any thread may call it."""
        for message in messages:
            partition, offset = message.partition(), message.offset()
            if partition is not None and offset is not None:
                self._fetched.setdefault(partition, deque()).append(offset)

    def read_through(self, partition: int, offset: int) -> None:
        """This instance has read everything fetched from a partition, up to this offset."""
        if partition in self.coordinating_partitions:
            fetched = self._fetched.get(partition, ())
            while fetched and fetched[0] <= offset:
                self.write(run.read(self.me.instance_id, partition, fetched.popleft()))

    def flush(self) -> None:
        """Write everything so far, so that it survives if the process is killed."""
        self.write(at_once=True)

    def end(self) -> None:
        """The instance has ended; records that it sent may still land. Any thread may call it.

        From now on its inputs have no effects, since they would not be recorded.
        """
        with self._writing:
            if self._file.closed:
                return
            try:
                self._add(run.crashed(self.me.instance_id))
                self._file.close()
            except OSError as error:  # it ends as that of a killed process
                with suppress(OSError):
                    self._file.close()
                logger.warning(
                    "recording %s: its end cannot be written: %s",
                    self.path,
                    error.strerror,
                    extra={"event": "recording", "group": self.group},
                )

    def write(self, *events: Fields, at_once: bool = False) -> bool:
        """Record these lines; False if it has ended. Any thread may call it."""
        with self._writing:
            if self._file.closed:
                return False
            with naming(self.path):
                self._add(*events, at_once=at_once)
            return True

    def _add(self, *events: Fields, at_once: bool = True) -> None:
        self._lines += map(json.dumps, events)
        if at_once or len(self._lines) >= WRITTEN_AT:
            self._file.writelines(f"{line}\n" for line in self._lines)
            self._lines.clear()
            self._file.flush()

    def _recorded(self, call: Callable[[], list[ClaimEffect]]) -> list[ClaimEffect]:
        """The effects of an input; `_within`, because methods of the machine call each other."""
        if self._within:
            return call()
        self._within = True
        try:
            effects = call()
        finally:
            self._within = False
        return effects if self._write_effects(effects) else []

    def _write_effects(self, effects: list[ClaimEffect]) -> bool:
        """Record the effects; returns whether they may be carried out."""
        own, leaves = self.me.instance_id, list[Fields]()
        for each in effects:
            match each.effect:
                case Send(message, headers):
                    partition = coordinating_partition(each.key.topic, self.partitions)
                    leaves.append(run.sent(own, partition, message, headers))
                case Process(offsets) if self.me.mode is Mode.AT_MOST_ONCE:
                    leaves.append(run.processed(own, each.key, offsets.start, offsets.stop))
        return not leaves or self.write(*leaves, at_once=True)

    # --- what happens -----------------------------------------------------------------------------

    def add_topic(
        self,
        topic: str,
        partitions: int,
        now_ms: int,
        *,
        only: Collection[int] | None = None,
        start: Callable[[int], int] = lambda partition: 0,
    ) -> list[ClaimEffect]:
        """As in `Member`, like the following methods."""
        for number in range(partitions) if only is None else only:
            key = ClaimKey(self.group, topic, number)
            if number >= partitions or not self.begins(key):
                continue
            if start(number) != self._starts.get(key, 0):
                self._starts[key] = start(number)
                self.write(run.begins_at(self.me.instance_id, key, start(number)))
        add = super().add_topic
        return self._recorded(lambda: add(topic, partitions, now_ms, only=only, start=start))

    def remove_topic(self, topic: str, now_ms: int) -> list[ClaimEffect]:
        """As in `Member`."""
        call = super().remove_topic
        return self._recorded(lambda: call(topic, now_ms))

    def record(self, record: Record, now_ms: int) -> list[ClaimEffect]:
        """Records that were fetched before it, and skipped, count as read."""
        self.read_through(record.partition, record.offset)
        call = super().record
        return self._recorded(lambda: call(record, now_ms))

    def pass_gap(self, partition: int, first: int, now_ms: int) -> list[ClaimEffect]:
        """Forget everything that was fetched before the gap and not folded."""
        fetched = self._fetched.get(partition, ())
        while fetched and fetched[0] < first:
            fetched.popleft()
        self.write(run.gap(self.me.instance_id, partition, first))
        call = super().pass_gap
        return self._recorded(lambda: call(partition, first, now_ms))

    def caught_up(self, partition: int, now_ms: int) -> list[ClaimEffect]:
        """As in `Member`."""
        call = super().caught_up
        return self._recorded(lambda: call(partition, now_ms))

    def outcome_unknown(self, sent: Send, now_ms: int) -> list[ClaimEffect]:
        """A request with an unknown outcome is no longer waited for."""
        message = sent.message
        if isinstance(message, ClaimingPartition) and self._driver_of(message.key).asks:
            self.write(run.gave_up(self.me.instance_id, message.key))
        call = super().outcome_unknown
        return self._recorded(lambda: call(sent, now_ms))

    def timer(self, now_ms: int) -> list[ClaimEffect]:
        """As in `Member`."""
        call = super().timer
        return self._recorded(lambda: call(now_ms))

    def messages_available(self, key: ClaimKey, end: int, now_ms: int) -> list[ClaimEffect]:
        """As in `Member`."""
        call = super().messages_available
        return self._recorded(lambda: call(key, end, now_ms))

    def extent(self, key: ClaimKey, low: int, high: int, now_ms: int) -> list[ClaimEffect]:
        """As in `Member`; offsets that are gone are recorded once."""
        position = self.driver(key).consumer.reader.claim.position
        if low > max(position, self._gone_below.get(key, 0)):
            self._gone_below[key] = low
            self.write(run.gone(self.me.instance_id, key, low))
        call = super().extent
        return self._recorded(lambda: call(key, low, high, now_ms))

    def done(self, key: ClaimKey, offset_next: int, now_ms: int) -> list[ClaimEffect]:
        """At least once: what the machine considers processed from now on."""
        driver, call = self.driver(key), super().done
        start = driver.consumer.next

        def processed() -> list[ClaimEffect]:
            effects = call(key, offset_next, now_ms)
            if driver.consumer.next > start:
                self.write(run.processed(self.me.instance_id, key, start, driver.consumer.next))
            return effects

        return self._recorded(processed)

    def commit(self, key: ClaimKey, now_ms: int) -> list[ClaimEffect]:
        """As in `Member`."""
        call = super().commit
        return self._recorded(lambda: call(key, now_ms))

    def release(self, key: ClaimKey, now_ms: int) -> list[ClaimEffect]:
        """As in `Member`."""
        call = super().release
        return self._recorded(lambda: call(key, now_ms))

    def hand_back(self, key: ClaimKey, offset_next: int, now_ms: int) -> list[ClaimEffect]:
        """As in `Member`."""
        call = super().hand_back
        return self._recorded(lambda: call(key, offset_next, now_ms))

    def stop(self, now_ms: int) -> list[ClaimEffect]:
        """As in `Member`."""
        call = super().stop
        return self._recorded(lambda: call(now_ms))

    def truncated(self) -> list[ClaimEffect]:
        """This instance sends nothing more; a new one continues."""
        effects = super().truncated()
        self.flush()
        return effects
