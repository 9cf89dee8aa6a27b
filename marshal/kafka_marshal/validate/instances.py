"""One recorded instance: a `ConsumerState` machine for every claim of its group.

This module asks the machines whether they would have done what the run records, and advances them.
It does not know the log of the run, only what the instance has read of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import attrs

from kafka_marshal.core import wire
from kafka_marshal.core.claims.suffix_reader import Reader
from kafka_marshal.core.claims.verdicts import Verdict
from kafka_marshal.core.messages import (
    Headers,
    Message,
    ReleaseGroup,
)
from kafka_marshal.core.partition_states import PartitionStates
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.counterexample.words import BEFORE_NUMBER, carried
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.machines.ranges.effects import SendRecord
from kafka_marshal.machines.ranges.participant import ParticipantConfig, ParticipantForbidden
from kafka_marshal.validate.explain import Impossible, Objection
from kafka_marshal.validate.log import Entry, PartitionLog
from kafka_marshal.validate.participants import SharedPart
from kafka_marshal.validate.run import (
    Content,
    RecordedInstance,
    Shares,
    of_ranges,
    unstamped,
)
from kafka_marshal.validate.shared_log import SharedLog, among, of_claim

Home: TypeAlias = Callable[[str], int]
"""Returns the coordinating partition of a topic."""


@attrs.define
class InstancePartition:
    """One coordinating partition, as read by one instance."""

    consumers: PartitionStates[ClaimKey, ConsumerState]
    """The machine of each claim."""
    next_index: int
    """The index of the next log entry to read."""
    outbox: deque[Send] = attrs.field(factory=deque)
    """Sent records that were not appended yet, oldest first."""
    produced: set[Send] = attrs.field(factory=set)
    """Without an idempotent producer: all records that it ever sent."""
    produced_shared: set[Content] = attrs.field(factory=set)
    """The records that it sent as a participant of shared claims. They may land in any order."""
    first: int = 0
    """The offset at which it began to read, or began again after a gap."""


class Instance:
    """One run of one process."""

    def __init__(self, member: RecordedInstance, home: Home, idempotent: bool = True) -> None:
        self.me = member.me
        self.group = member.group
        self.idempotent = idempotent
        self.partitions: dict[int, InstancePartition] = {}
        self.running = False
        self.started = False
        self.starts: dict[ClaimKey, int] = {}
        """The start policy's offsets of the claims for which the run states one."""
        self.gone_below: dict[ClaimKey, int] = {}
        """The first offset of data partitions from which retention removed messages, if the run
        states it."""
        self.parts: dict[ClaimKey, SharedPart] = {}
        """Its parts in shared claims."""
        self._home = home

    def consumer(self, key: ClaimKey) -> ConsumerState:
        """The machine of one claim."""
        return self.partitions[self._home(key.topic)].consumers[key]

    def lose(self, key: ClaimKey, below: int) -> None:
        """Retention has removed the messages of a data partition below this offset."""
        self.gone_below[key] = max(below, self.gone_below.get(key, 0))

    def _reaching(self, me: InstanceConfig, key: ClaimKey, position: int) -> InstanceConfig:
        """`me` for one claim, with a window and a batch that only count existing messages.

        No removed message can be processed twice, or lost: both reach at least to the first
        existing one.
        """
        gone = self.gone_below.get(key, 0) - position
        if gone <= min(me.window, me.batch):
            return me
        return attrs.evolve(me, window=max(me.window, gone), batch=max(me.batch, gone))

    def me_of(self, key: ClaimKey | None) -> InstanceConfig:
        """`me` for one claim: with its start, if the run states one."""
        start = None if key is None else self.starts.get(key)
        return self.me if start is None else attrs.evolve(self.me, start=start)

    def begin(self, partition: int, first: int, next_index: int, beginning: Reader) -> None:
        """Start to read one partition. Spec: StartReading."""
        reader = Reader.beginning_at(first)
        # The identical object as the log's: instances that share it share the following states too.
        shared = beginning if reader == beginning else reader
        newborn = ConsumerState(reader=shared, view=first)
        self.partitions[partition] = InstancePartition(
            PartitionStates(newborn), next_index, first=first
        )

    # --- reading ------------------------------------------------------------------------------

    def read(self, partition: int, entry: Entry) -> None:
        """Fold the next record of a partition. Spec: Read."""
        view = self.partitions[partition]
        view.next_index += 1
        for shared in among(entry, self.parts) if self.parts else ():
            if self._home(shared.topic) == partition:
                assert entry.ranged is not None
                self.parts[shared].read(entry.ranged)
        record = entry.record
        if record is None or record.message.group_id != self.group:
            return
        key = entry.key
        if key is None:
            view.consumers.step_group(self.group, self._after, entry)
        elif self._home(key.topic) == partition:
            view.consumers.step(key, self._after, entry)

    def pass_gap(self, partition: int, first: int, next_index: int) -> None:
        """Begin again at this offset, like one that joins late. Spec: PassGap."""
        view = self.partitions[partition]
        view.consumers = view.consumers.begun_anew(
            ConsumerState.beginning_at(first),
            lambda known: machine.after_gap(self.me, known, first),
        )
        view.next_index = next_index
        view.first = first
        # Its knowledge of ranges is lost: to share a claim, it must begin again.
        self.parts = {
            key: each for key, each in self.parts.items() if self._home(key.topic) != partition
        }

    def _after(self, consumer: ConsumerState, entry: Entry) -> tuple[ConsumerState, Verdict | None]:
        assert entry.record is not None
        after, verdict = entry.folded(consumer.reader, self.me.rules)
        me = self.me_of(entry.key) if self.starts else self.me
        return machine.after_fold(me, consumer, entry.record, after, verdict), verdict

    # --- sending ------------------------------------------------------------------------------

    def send(self, partition: int, message: Message | None, headers: Headers) -> Objection | None:
        """Send a record, if it may send one with this content. Spec: SendHeartbeat and others."""
        against = self._send(partition, message, headers)
        if against is None:
            assert message is not None
            view, sent = self.partitions[partition], Send(unstamped(message), headers)
            if self.idempotent:
                view.outbox.append(sent)
            else:
                view.produced.add(sent)
        return against

    def _send(self, partition: int, message: Message | None, headers: Headers) -> Objection | None:
        if message is None or message.group_id != self.group:
            return Objection(Impossible.NOT_WHAT_IT_SENDS, f"a message of group {self.group}")
        if isinstance(message, ReleaseGroup):
            return self._judged(
                machine.may_release_group(
                    self.me, self.partitions[partition].consumers.newborn(self.group)
                ),
                machine.release_group_sent(
                    self.me, self.group, message.expires_unix_s, message.unix_s
                ),
                Send(message, headers),
            )
        key = message.key
        home = self._home(key.topic)
        if home != partition:
            return Objection(Impossible.NOT_WHAT_IT_SENDS, f"to partition {home}")
        part = self.parts.get(key)
        if part is not None:
            return part.send(of_ranges(message, headers))  # it claims alone, or releases that
        view = self.partitions[partition]
        before = view.consumers[key]
        # Versions before 0.2.0 do not state their interval.
        me = attrs.evolve(self.me_of(key), says_interval=headers.interval_ms is not None)
        me = self._reaching(me, key, before.reader.claim.position)
        guard, would, after = machine.would_send(me, before, message, headers.done)
        against = self._judged(guard, would, Send(message, headers))
        if against is None and after is not before:
            view.consumers.put(key, after)
        return against

    @staticmethod
    def _judged(guard: Forbidden | None, would: Send, did: Send) -> Objection | None:
        if guard is not None:
            return Objection(guard)
        if would != did and _as_older(would) != did:
            return Objection(Impossible.NOT_WHAT_IT_SENDS, content(would.message, would.headers))
        return None

    def lands(self, partition: int, message: Message, headers: Headers) -> Objection | None:
        """A record of this instance is appended. Spec: Append, AppendCopy, Lose.

        An idempotent producer's records land in order. So records sent before the landed one that
        have not landed themselves are lost. Without idempotence a record may land at any time, and
        more than once.
        """
        view = self.partitions.get(partition)
        if view is None:
            return Objection(Impossible.NOT_UNDER_WAY, "nothing: it has not started")
        outbox, landing = view.outbox, Send(unstamped(message), headers)
        if not self.idempotent:
            was_sent = landing in view.produced
            return None if was_sent else Objection(Impossible.NOT_UNDER_WAY)
        for index, under_way in enumerate(outbox):
            if under_way == landing:
                for _ in range(index + 1):
                    outbox.popleft()
                return None
        expected = content(outbox[0].message, outbox[0].headers) if outbox else "nothing"
        return Objection(Impossible.NOT_UNDER_WAY, expected)

    # --- sharing ------------------------------------------------------------------------------

    def share(self, key: ClaimKey, event: Shares, log: PartitionLog) -> Objection | None:
        """Begin to share a claim, with what it has read."""
        before = self.parts.get(key)
        if before is not None and not before.participant.leaving:
            return Objection(Impossible.STARTED_BEFORE, "nothing: it shares it already")
        view = self.partitions[self._home(key.topic)]
        assert log.dropped == 0
        read = log.entries[: view.next_index]
        newest = max((each.offset for each in of_claim(read, key)), default=-1)
        end = max(read[-1].offset + 1 if read else 0, view.first)
        if not max(newest + 1, view.first) <= event.view <= end:
            expected = f"a view of {max(newest + 1, view.first)}..{end}"
            return Objection(Impossible.NOT_NEXT_RECORD, expected)
        if event.known and view.first > 0:
            return Objection(Forbidden.CLAIM_UNKNOWN)
        me = ParticipantConfig(
            self.me.instance_id,
            self.me.client_id,
            0 if self.me.mode is Mode.AT_MOST_ONCE else self.me.window,
            event.start,
            self.me.rules,
        )
        state = SharedLog.of(read, key, self.me.rules).state if event.known else None
        self.parts[key] = SharedPart.beginning(me, key, event.view, state)
        return None

    def part(self, key: ClaimKey) -> SharedPart | Objection:
        """Its part in a shared claim, or the objection that it has none."""
        part = self.parts.get(key)
        return part or Objection(ParticipantForbidden.NOT_SHARED, "it does not share it")

    def send_shared(self, partition: int, did: SendRecord) -> Objection | None:
        """Send a record as a participant. Spec: AskRange and others."""
        message = did.message
        if isinstance(message, ReleaseGroup) or message.group_id != self.group:
            return Objection(Impossible.NOT_WHAT_IT_SENDS, f"about a claim of group {self.group}")
        home = self._home(message.topic)
        if home != partition:
            return Objection(Impossible.NOT_WHAT_IT_SENDS, f"to partition {home}")
        part = self.part(message.key)
        if isinstance(part, Objection):
            return part
        against = part.send(did)
        if against is None:
            self.partitions[partition].produced_shared.add((partition, did))
        return against

    def has_sent(self, partition: int, content: Content) -> bool:
        """Whether it ever sent this as a participant."""
        view = self.partitions.get(partition)
        return view is not None and content in view.produced_shared

    # --- processing ---------------------------------------------------------------------------

    def process(self, key: ClaimKey, start: int, stop: int) -> Objection | None:
        """Process the messages [start, stop). Spec: Process, ProcessGrant."""
        view = self.partitions[self._home(key.topic)]
        consumer = view.consumers[key]
        if self.me.mode is Mode.AT_MOST_ONCE:
            against, after = self._process_grant(consumer, range(start, stop))
        else:
            me = self.me_of(key)
            me = self._reaching(me, key, machine.floor(me, consumer.reader))
            against, after = self._process(me, consumer, start, stop)
        if against is None:
            view.consumers.put(key, after)
        return against

    def _process(
        self, me: InstanceConfig, consumer: ConsumerState, start: int, stop: int
    ) -> tuple[Objection | None, ConsumerState]:
        """Process messages one by one; checking the first and the last is enough.

        Only the window depends on its progress, and the window's end is constant.
        """
        last = attrs.evolve(consumer, next=stop - 1)
        guard = machine.may_process(me, consumer, start) or machine.may_process(me, last, stop - 1)
        if guard is None:
            return None, machine.after_process(me, last)
        end = machine.floor(me, consumer.reader) + me.window
        return Objection(guard, f"from {consumer.next}, below {end}"), consumer

    def _process_grant(
        self, consumer: ConsumerState, asked: range
    ) -> tuple[Objection | None, ConsumerState]:
        """Process part of a grant: the rest stays granted."""
        guard = machine.may_process_grant(self.me, consumer)
        for granted in consumer.granted:
            if granted.start <= asked.start and asked.stop <= granted.stop:
                rest = range(granted.start, asked.start), range(asked.stop, granted.stop)
                left = [
                    piece
                    for each in consumer.granted
                    for piece in (rest if each is granted else (each,))
                    if piece
                ]
                if left:
                    return None, attrs.evolve(consumer, granted=tuple(left))
                return None, machine.after_process_grant(self.me, consumer)
        granted_now = ", ".join(f"{each.start}..{each.stop}" for each in consumer.granted)
        return Objection(guard or Forbidden.NOT_GRANTED, granted_now or "nothing"), consumer

    def give_up(self, key: ClaimKey) -> Objection | None:
        """It stops waiting to read its request back. Spec: GiveUp."""
        view = self.partitions[self._home(key.topic)]
        consumer = view.consumers[key]
        guard = machine.may_give_up(self.me, consumer)
        if guard is not None:
            return Objection(guard)
        view.consumers.put(key, machine.after_giving_up(self.me, consumer))
        return None


def _as_older(send: Send) -> Send:
    """The same record by a version that does not state its start."""
    return Send(send.message, attrs.evolve(send.headers, start=None))


def content(message: Message | None, headers: Headers) -> str:
    """A message and its headers in words.

    >>> from kafka_marshal.core.messages import Headers, Heartbeat
    >>> content(Heartbeat(1, 0, "i1", "c1", "g", "events", 0, 7), Headers(True, epoch=3))
    'Heartbeat of i1 (c1) for g/events/0 at 7, epoch 3'
    """
    if message is None:
        return "no message of the protocol"
    about = f"{message.group_id}/{message.topic}/{message.partition}"
    words = f"{type(message).__name__} of {message.instance_id} ({message.client_id}) for {about}"
    number = wire.BY_CLASS[type(message)].number
    if number is not None:
        words += f" {BEFORE_NUMBER[number]} {getattr(message, number)}"
    if not headers.present:
        return f"{words}, without headers"
    stated = {name: n for name, n in attrs.asdict(headers).items() if n is not None}
    return ", ".join([words, *(carried(stated) or ["headers without fields"])])
