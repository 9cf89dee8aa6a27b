"""The validator of runs: checks event by event, in one pass, without a search.

Every decision of a consumer is a function of what it has read and done before, so a run has one
explanation or none. This module dispatches events. `machines` decides what an instance may do, and
`log` the effect of a record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, assert_never

import attrs

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.validate.explain import Impossible, Objection, Unexplained
from kafka_marshal.validate.instances import Instance, content
from kafka_marshal.validate.log import FORGET_EVERY, Entry, PartitionLog
from kafka_marshal.validate.participants import SharedPart, move_of, said
from kafka_marshal.validate.reading import FileEvents
from kafka_marshal.validate.run import (
    SHARE_EVENTS,
    Appended,
    BeginsAt,
    Begun,
    Crashed,
    Finished,
    Gap,
    GaveUp,
    Gone,
    HandedOver,
    Leaves,
    Processed,
    Read,
    Run,
    RunEvent,
    Sent,
    Setting,
    ShareEvent,
    Shares,
    Started,
    TookBack,
)
from kafka_marshal.validate.shared_log import AllowedOnce, SharedLog, among


@attrs.frozen
class Judgement:
    """The result of validating a run."""

    unexplained: Unexplained | None
    """The first event that no behaviour explains; None if all are explained."""
    events: int
    """The number of explained events."""
    kinds: Counter[str] = attrs.field(factory=Counter)
    """The number of explained events by kind."""
    strangers: int = 0
    """Records whose senders were not recorded: they are folded, and need no explanation."""
    unjudged: tuple[str, ...] = ()
    """What was not judged of shared claims, as sentences."""

    @property
    def explained(self) -> bool:
        """Whether a behaviour of the specification explains all events."""
        return self.unexplained is None


class Validator:
    """Judges the events of a run one after the other."""

    def __init__(self, setting: Setting, starts: Sequence[Mapping[int, int]] | None = None) -> None:
        self.setting = setting
        self._lowest = None if starts is None else lowest_of(starts, setting.partitions)
        """By partition, the lowest offset at which instances that have not started will begin; the
        last item is for the next instance."""
        self.events = 0
        self.kinds: dict[str, int] = {}
        self.strangers = 0
        self.logs: dict[int, PartitionLog] = {}
        self.shared: dict[ClaimKey, SharedLog | None] = {}
        """Claims that are shared; None if the log does not have all their records."""
        self._allowed = AllowedOnce()
        self._homes: dict[str, int] = {}
        self.instances = {
            name: Instance(member, self.home, setting.idempotent)
            for name, member in setting.members.items()
        }

    def resume(
        self, lowest: list[list[int]] | None, kinds: Mapping[str, int], strangers: int
    ) -> None:
        """Continue from another judge's state; logs and instances are set individually."""
        self._lowest = lowest
        self.events, self.kinds = sum(kinds.values()), dict(kinds)
        self.strangers = strangers

    def home(self, topic: str) -> int:
        """The coordinating partition of a topic."""
        home = self._homes.get(topic)
        if home is None:
            home = self._homes[topic] = coordinating_partition(topic, self.setting.partitions)
        return home

    def log(self, partition: int) -> PartitionLog:
        """One coordinating partition."""
        log = self.logs.get(partition)
        if log is None:
            log = self.logs[partition] = PartitionLog(self.setting.rules)
        return log

    def take(self, event: RunEvent) -> Unexplained | None:
        """Judge the next event, and apply its effects."""
        against = self._judge(event)
        if against is None:
            self.events += 1
            kind = type(event).__name__
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            return None
        return self._unexplained(event, against)

    def _judge(self, event: RunEvent) -> Objection | Unexplained | None:
        if isinstance(event, Read):
            return self._read(event)
        match event:
            case Appended():
                return self._append(event)
            case Started():
                return self._start(event)
            case Shares() | Begun() | Finished() | TookBack() | Leaves() | HandedOver():
                instance = self.instances[event.instance]
                if not instance.running:
                    return Objection(Impossible.NOT_RUNNING)
                return self._act_shared(event, instance)
            case Sent() | Gap() | Processed() | GaveUp() | BeginsAt() | Gone() | Crashed():
                instance = self.instances[event.instance]
                if not instance.running:
                    return Objection(Impossible.NOT_RUNNING)
                return self._act(event, instance)
            case _:
                raise TypeError(f"not an event of a run: {event!r}")

    def _act(
        self,
        event: Sent | Gap | Processed | GaveUp | BeginsAt | Gone | Crashed,
        instance: Instance,
    ) -> Objection | None:
        match event:
            case Gap():
                return self._pass_gap(event, instance)
            case Sent(shared=shared) if shared is not None:
                return instance.send_shared(event.partition, shared)
            case Sent():
                return instance.send(event.partition, event.message, event.headers)
            case Processed():
                return instance.process(_key(event, instance), event.start, event.stop)
            case GaveUp(shared=True):
                part = instance.part(_key(event, instance))
                return part if isinstance(part, Objection) else part.give_up()
            case GaveUp():
                return instance.give_up(_key(event, instance))
            case BeginsAt():
                instance.starts[_key(event, instance)] = event.offset
                return None
            case Gone():
                instance.lose(_key(event, instance), event.below)
                return None
            case Crashed():
                instance.running = False
                return None
            case _:
                assert_never(event)

    def _act_shared(self, event: ShareEvent, instance: Instance) -> Objection | Unexplained | None:
        key = _key(event, instance)
        if isinstance(event, Shares):
            log = self.log(self.home(key.topic))
            against = instance.share(key, event, log)
            if against is None and key not in self.shared:
                self.shared[key] = self._shared_log(key, log)
            return against
        part = instance.part(key)
        if isinstance(part, Objection):
            return part
        if isinstance(event, Leaves):
            return part.leave()
        if isinstance(event, HandedOver):
            return self._hand_over(event, key)
        return self._process_shared(event, part, self.shared.get(key))

    def _process_shared(
        self, event: Begun | Finished | TookBack, part: SharedPart, shared: SharedLog | None
    ) -> Objection | Unexplained | None:
        once, view = part.me.window == 0, part.participant.view
        match event:
            case Begun():
                against = part.begin(event.id, event.start, event.stop)
                if against is not None or not once:
                    return against
                self._allowed.allow((event.instance, part.key, event.id), event.start, event.stop)
                if shared is None:
                    return None
                if shared.begin_once(view, event.start, event.stop):
                    return None
                return self._broken(event, Property.AT_MOST_ONCE, part.key, "nobody's before")
            case Finished():
                against = part.finish(event.id, event.start, event.stop)
                if against is None and shared is not None and not once:
                    shared.finish(event.start, event.stop)
                return against
            case TookBack():
                against, taken = part.take_back(event.id, event.start)
                if against is None and once:
                    of_range = event.instance, part.key, event.id
                    self._allowed.take_back(of_range, taken.start, taken.stop)
                    if shared is not None:
                        shared.take_back(view, taken.start, taken.stop)
                return against
            case _:
                assert_never(event)

    def _hand_over(self, event: HandedOver, key: ClaimKey) -> Unexplained | None:
        """The application receives messages that were begun and not taken back, each once."""
        given = self._allowed.hand_over((event.instance, key, event.id), event.pieces)
        if given is None:
            return None
        expected = f"offset {given} of range {event.id} begun, not taken back, and handed over once"
        return self._broken(event, Property.AT_MOST_ONCE, key, expected)

    def _shared_log(self, key: ClaimKey, log: PartitionLog) -> SharedLog | None:
        """The claim after the whole log; None if the log does not have all of its records."""
        if log.has_gaps:
            return None
        shared = SharedLog.of(log.entries, key, self.setting.rules)
        shared.begin()
        return shared

    def _append_shared(
        self, event: Appended, entry: Entry, log: PartitionLog, recorded: bool
    ) -> Unexplained | None:
        """Apply the record to the shared claims that it affects."""
        for key in among(entry, self.shared):
            shared = self.shared[key]
            if shared is None or self.home(key.topic) != event.partition:
                continue
            if log.has_gaps:
                self.shared[key] = None
                continue
            assert entry.ranged is not None
            missing = shared.append(entry.ranged.record, recorded)
            if missing is not None:
                expected = f"offset {missing} of {key.topic}/{key.topic_partition} not done yet"
                return self._broken(event, Property.NONE_SKIPPED, key, expected)
        return None

    def _broken(
        self, event: RunEvent, broken: Property, key: ClaimKey | None, expected: str
    ) -> Unexplained:
        """A step that no guard forbids, but that violates a property."""
        name = _instance_of(event)
        instance = None if name is None else self.instances.get(name)
        return Unexplained(
            self.events + 1,
            event.where,
            name,
            action_of(event, instance),
            None,
            expected,
            _got(event),
            key,
            broken,
        )

    @property
    def unjudged(self) -> tuple[str, ...]:
        """What was not judged of shared claims, as sentences."""
        found = []
        for key, shared in sorted(self.shared.items()):
            where = f"{key.topic}/{key.topic_partition}"
            if shared is None:
                found.append(
                    f"{where}: the log does not hold all records of the claim, so messages that "
                    "were skipped, or begun twice, are not looked for"
                )
            elif shared.unjudged:
                found.append(
                    f"{where}: {shared.unjudged:,} messages were called done by somebody who was "
                    "not recorded, so nobody knows whether they were"
                )
            if taken := self._allowed.unknown(key):
                found.append(
                    f"{where}: {taken:,} messages were allowed and taken back, and it is not known "
                    "whether an application had begun one of them: their process was killed, ended "
                    "by a failure, or records no such thing"
                )
        return tuple(found)

    def _start(self, event: Started) -> Objection | None:
        instance = self.instances[event.instance]
        if instance.started:
            return Objection(Impossible.STARTED_BEFORE)
        instance.started = instance.running = True
        lowest = self._lowest.pop() if self._lowest and self._lowest[-1] else None
        for partition in range(self.setting.partitions):
            log, first = self.log(partition), event.first.get(partition, 0)
            if log.dropped and (lowest is None or first < lowest[partition]):
                raise UnreadableSource(f"{event.where}: the file has changed while it was read")
            instance.begin(partition, first, log.index_at(first), log.beginning)
        return None

    def _read(self, event: Read) -> Objection | None:
        instance = self.instances[event.instance]
        if not instance.running:
            return Objection(Impossible.NOT_RUNNING)
        log = self.log(event.partition)
        if event.offset > log.last_offset:
            return Objection(Impossible.NOT_APPENDED, f"the log ends at {log.last_offset}")
        index = instance.partitions[event.partition].next_index
        if index == log.end:
            return Objection(Impossible.NOT_NEXT_RECORD, "nothing: it has read everything")
        entry = log.entry(index)
        if entry.offset != event.offset:
            return Objection(Impossible.NOT_NEXT_RECORD, f"offset {entry.offset}")
        instance.read(event.partition, entry)
        return None

    def _pass_gap(self, event: Gap, instance: Instance) -> Objection | None:
        log, view = self.log(event.partition), instance.partitions[event.partition]
        next_index = log.index_at(event.offset)
        if next_index < view.next_index:
            read = log.entry(view.next_index - 1).offset
            return Objection(Impossible.NOT_NEXT_RECORD, f"an offset above {read}")
        instance.pass_gap(event.partition, event.offset, next_index)
        return None

    def _append(self, event: Appended) -> Objection | Unexplained | None:
        log = self.log(event.partition)
        if event.offset <= log.last_offset:
            return Objection(Impossible.OFFSET_TAKEN, f"an offset above {log.last_offset}")
        record, recorded = event.record, False
        if event.shared is not None:
            recorded = self._has_sent(event)
            if not recorded and event.sender in self.instances:
                return Objection(Impossible.NOT_UNDER_WAY)
            self.strangers += not recorded
        elif record is not None:
            sender = self.instances.get(record.message.instance_id)
            if sender is None:
                self.strangers += 1
            else:
                recorded = True
                against = sender.lands(event.partition, record.message, record.headers)
                if against is not None:
                    return against
        entry, broken = log.append(event.offset, record, event.ranged)
        if broken is not None:
            expected = f"a step that keeps {broken.value}"
            return self._broken(event, broken, _key_of(event, None), expected)
        if self.shared:
            skipped = self._append_shared(event, entry, log, recorded)
            if skipped is not None:
                return skipped
        if log.end % FORGET_EVERY == 0:
            self._forget(event.partition, log)
        return None

    def _forget(self, partition: int, log: PartitionLog) -> None:
        """Drop what no running instance will read, and records where none will begin."""
        running = (each for each in self.instances.values() if each.running)
        passed = min((each.partitions[partition].next_index for each in running), default=log.end)
        log.forget_before(passed)
        if self._lowest is not None:
            begins = log.index_at(self._lowest[-1][partition]) if self._lowest[-1] else log.end
            # An objection names the last record that was read.
            log.drop_before(min(passed, begins) - 1)

    def _has_sent(self, event: Appended) -> bool:
        """Whether a recorded participant sent it. All of them write as the anchor."""
        content, sender = event.content, self.instances.get(event.sender or "")
        among = self.instances.values() if sender is None else (sender,)
        return any(each.has_sent(event.partition, content) for each in among)

    def _unexplained(self, event: RunEvent, against: Objection | Unexplained) -> Unexplained:
        if isinstance(against, Unexplained):
            return against
        name = _instance_of(event)
        instance = self.instances.get(name) if name is not None else None
        return Unexplained(
            self.events + 1,
            event.where,
            name,
            action_of(event, instance),
            against.guard,
            against.expected or "something else, or nothing",
            _got(event),
            _key_of(event, instance),
        )


def validate(run: Run) -> Judgement:
    """Explain every event of a run, or find the first that nothing explains.

    Time is linear in the number of events. Memory is bounded if `run.starts` is known and producers
    are idempotent; otherwise records, or sent ones, are kept. Raises the errors of reading events.

    The compiled judge (`validate.compiled`) judges a large file as far as it is ordinary, if numba
    is installed (`kafka-marshal[replay]`). The judgement is the same.
    """
    events = run.events
    if (
        isinstance(events, FileEvents)
        and run.starts is not None
        and events.path.stat().st_size >= COMPILED_FROM_BYTES
        and (judge := _compiled_judge(run.setting)) is not None
    ):
        return judge(events, run.starts)
    validator = Validator(run.setting, run.starts)
    return judgement_of(validator, first_unexplained(validator, run.events))


_Judge: TypeAlias = Callable[[FileEvents, Sequence[Mapping[int, int]]], Judgement]
COMPILED_FROM_BYTES: Final = 1 << 26
"""Loading numba takes longer than judging a smaller file in Python."""


def _compiled_judge(setting: Setting) -> _Judge | None:
    """The compiled judge, if it is installed and accepts runs of this setting."""
    try:
        from kafka_marshal.validate import compiled
    except ModuleNotFoundError:
        return None
    return compiled.validate_file if compiled.fits(setting) else None


def judgement_of(validator: Validator, unexplained: Unexplained | None) -> Judgement:
    """The judgement of a validator after its last event."""
    return Judgement(
        unexplained,
        validator.events,
        Counter(validator.kinds),
        validator.strangers,
        validator.unjudged,
    )


def lowest_of(starts: Sequence[Mapping[int, int]], partitions: int) -> list[list[int]]:
    """The lowest offsets from each start on, the last start first; without starts: empty.

    >>> lowest_of([{0: 5}, {0: 9, 1: 3}, {0: 7, 1: 4}], 2)
    [[], [7, 4], [7, 3], [5, 0]]
    """
    found: list[list[int]] = [[]]
    for first in reversed(starts):
        here = [first.get(partition, 0) for partition in range(partitions)]
        found.append([*map(min, here, found[-1])] if found[-1] else here)
    return found


def first_unexplained(validator: Validator, events: Iterable[RunEvent]) -> Unexplained | None:
    """Judge events until one is not explained."""
    take = validator.take
    for event in events:
        unexplained = take(event)
        if unexplained is not None:
            return unexplained
    return None


def action_of(event: RunEvent, instance: Instance | None = None) -> str:
    """The specification's action of an event."""
    match event:
        case Sent(shared=shared) if shared is not None:
            return move_of(shared) or "SendAnything"
        case Sent():
            kind = type(event.message).__name__ if event.message is not None else "Anything"
            return f"Send{kind}"
        case Processed():
            amo = instance is not None and instance.me.mode.value == "AMO"
            return "ProcessGrant" if amo else "Process"
        case Started():
            return "StartReading"
        case Appended():
            return "Append"
        case Read():
            return "Read"
        case Gap():
            return "PassGap"
        case GaveUp():
            return "GiveUp"
        case BeginsAt():
            return "StartReading"
        case Gone():
            return "Gone"
        case Shares():
            return "Share"
        case Begun():
            return "Begin"
        case Finished():
            return "Finish"
        case TookBack():
            return "TakeBack"
        case Leaves():
            return "Leave"
        case HandedOver():
            return "BeginReported"
        case _:
            return "Crash"


def _instance_of(event: RunEvent) -> str | None:
    if isinstance(event, Appended):
        return event.sender
    name: str | None = getattr(event, "instance", None)
    return name


def _key(event: Processed | GaveUp | BeginsAt | Gone | ShareEvent, instance: Instance) -> ClaimKey:
    return ClaimKey(instance.group, event.topic, event.topic_partition)


def _key_of(event: RunEvent, instance: Instance | None) -> ClaimKey | None:
    if isinstance(event, Processed | GaveUp | BeginsAt | Gone) and instance is not None:
        return _key(event, instance)
    if isinstance(event, SHARE_EVENTS) and instance is not None:
        return _key(event, instance)
    message = event.said if isinstance(event, Sent | Appended) else None
    if message is None or isinstance(message, ReleaseGroup):
        return None
    return message.key


def _got(event: RunEvent) -> str:
    match event:
        case Sent(shared=shared) if shared is not None:
            return f"to partition {event.partition}: {said(shared)}"
        case Sent():
            return f"to partition {event.partition}: {content(event.message, event.headers)}"
        case Appended(shared=shared) if shared is not None:
            return f"offset {event.offset} of partition {event.partition}: {said(shared)}"
        case Appended():
            described = (
                "no message"
                if event.record is None
                else content(event.record.message, event.record.headers)
            )
            return f"offset {event.offset} of partition {event.partition}: {described}"
        case Read() | Gap():
            return f"offset {event.offset} of partition {event.partition}"
        case Processed():
            return f"{event.start}..{event.stop} of {event.topic}/{event.topic_partition}"
        case Begun() | Finished():
            where = f"{event.topic}/{event.topic_partition}"
            return f"{event.start}..{event.stop} of {where}, range {event.id}"
        case TookBack():
            where = f"{event.topic}/{event.topic_partition}"
            return f"from {event.start} on of {where}, range {event.id}"
        case Shares():
            return f"{event.topic}/{event.topic_partition}, having read below {event.view}"
        case Leaves():
            return f"{event.topic}/{event.topic_partition}"
        case HandedOver():
            given = ", ".join(f"{start}..{stop}" for start, stop in event.pieces) or "nothing"
            return f"{given} of {event.topic}/{event.topic_partition}, range {event.id}"
        case GaveUp():
            return f"its request for {event.topic}/{event.topic_partition}"
        case _:
            return "once more" if isinstance(event, Started) else "its end"
