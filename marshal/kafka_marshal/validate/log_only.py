"""Checks a log alone: whether its sender could have sent each record.

A log does not record what each instance had read. But our machines' records show it. An owner's
record names its epoch and, if it certifies, the last record that it had read; a claim names the
tenure that it ends. For every sender and claim, the check keeps the smallest view that is
consistent with its records. A larger one would only leave fewer views for the next records. So if
no view fits, this choice was not the reason.

A log does not record in which order records were sent, either. If a request times out, its records
may land later than those sent after it, or twice. So a record that its sender would not send last
is explained if it could have sent it earlier.

Records without headers are the original's, which may send any record at any time. They are folded,
counted as strangers', and need no explanation. Nor does a ReleaseGroup, which has no headers of a
claim. Nor do records of participants of a shared claim: all of them write under one name, so their
log does not show who had read what. Facts that a log alone cannot show are not checked:

- whether a request was read back before the next one (the instance may have given up waiting);
- whether an owner, or an instance that has stopped, claims (its release may have been lost);
- how large window and batch are, and what was processed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import assert_never

import attrs

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.claims.invariants import Property, broken_by
from kafka_marshal.core.claims.suffix_reader import EVERYTHING, Field, Reader, read_record
from kafka_marshal.core.claims.verdicts import Accepted, Verdict
from kafka_marshal.core.group_intervals import GroupIntervals, RulesByInterval
from kafka_marshal.core.messages import (
    NOT_DECIMAL,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    OwnersMessage,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import FENCED, Claim, ClaimKey, Rules
from kafka_marshal.machines.consumer.consumer import Forbidden
from kafka_marshal.machines.ranges.participant import ANCHOR
from kafka_marshal.range_codec import is_claiming_range
from kafka_marshal.validate.explain import Guard, Impossible, Objection, Unexplained
from kafka_marshal.validate.instances import content

_UNKNOWN = object()
"""The result if earlier records, which are needed for the decision, are missing."""
_LATE = object()
"""The result if the record is a copy, or was sent before others that have landed."""


@attrs.define
class LogJudgement:
    """The result of checking a log."""

    unexplained: Unexplained | None = None
    records: int = 0
    """The number of records read, except the unexplained one."""
    judged: int = 0
    """The number of those that need an explanation by their sender, and have one."""
    late: int = 0
    """The number of those among the judged that landed twice, or later than later ones."""
    strangers: int = 0
    """The number of those without headers: the original's."""
    releases: int = 0
    """The number of ReleaseGroups: these have no headers of a claim, and anybody may send one."""
    unjudged: int = 0
    """The number of those that cannot be judged, since records before them are missing."""
    shared: int = 0
    """The number of those that participants of shared claims sent, which nobody judged."""
    malformed: int = 0
    """The number of those that are no messages."""
    by_default: str | None = None
    """A group with a record that was judged by the default interval, as it had stated none."""
    rules: Rules = FENCED
    """The rules by which the last record was judged."""

    @property
    def explained(self) -> bool:
        """Whether all records that need an explanation have one."""
        return self.unexplained is None


@attrs.frozen
class _Memory:
    """What one instance has read and sent about one claim."""

    view: int = 0
    """The minimum number of the claim's records that it has read."""
    resigned: frozenset[int] = frozenset()
    """The epochs under which it has sent a release."""
    reached: Mapping[int, int] = attrs.field(factory=dict)
    """By epoch: the position that it stated."""


@attrs.define
class _Sender:
    """One instance, and its records about one claim, in an order in which it can have sent them."""

    instance: str
    client: str
    sent: list[Record] = attrs.field(factory=list)
    memories: list[_Memory] = attrs.field(factory=lambda: [_Memory()])
    """Before each of these records, and after the last one."""

    def sends(self, history: _History, record: Record) -> object:
        """Judge its next record: None, `_LATE`, `_UNKNOWN`, or an objection."""
        found = _judge(history, self, self.memories[-1], record)
        if isinstance(found, _Memory):
            self.sent.append(record)
            self.memories.append(found)
            return None
        return _LATE if found is not _UNKNOWN and self._sent_before(history, record) else found

    def _sent_before(self, history: _History, record: Record) -> bool:
        """Whether it can have sent the record before its last one; if so, take it in there."""
        content = record.message, record.headers
        if any((each.message, each.headers) == content for each in reversed(self.sent)):
            return True
        for place in reversed(range(len(self.sent))):
            later = (self.sent[at] for at in range(place, len(self.sent)))
            memories = self._memories(history, place, chain([record], later))
            if memories is not None:
                self.sent.insert(place, record)
                self.memories[place + 1 :] = memories
                return True
        return False

    def _memories(
        self, history: _History, place: int, records: Iterable[Record]
    ) -> list[_Memory] | None:
        """Its memory after each of these records; None if it would not send one of them."""
        memory, memories = self.memories[place], []
        for record in records:
            found = _judge(history, self, memory, record)
            if not isinstance(found, _Memory) or found.view > history.before(record):
                return None
            memory = found
            memories.append(memory)
        return memories


@attrs.define
class _History:
    """The states of one claim after each record."""

    readers: list[Reader]
    """By the number of records read."""
    offsets: dict[int, int] = attrs.field(factory=dict)
    """By offset: the number of records up to and including it."""
    ended: dict[int, int] = attrs.field(factory=dict)
    """By epoch: the number of records at its end."""
    senders: dict[tuple[str, str], _Sender] = attrs.field(factory=dict)
    """By instance id and client id."""
    paused_by: dict[str, int] = attrs.field(factory=dict)
    """By releasing instance: the offset of its first ReleaseGroup."""

    @property
    def headless(self) -> bool:
        """Whether records before its first one are missing."""
        return not self.readers[0].known

    def claim(self, view: int) -> Claim:
        """The claim's state after this many records."""
        return self.readers[view].claim

    def before(self, record: Record) -> int:
        """The number of records before this one, which may be the next."""
        return self.offsets.get(record.offset, len(self.readers)) - 1

    def knows(self, view: int, fields: Field) -> bool:
        """Whether these fields are certain then."""
        return fields in self.readers[view].certain

    def fold(self, record: Record, rules: Rules) -> tuple[Verdict | None, Property | None]:
        """Fold one more record; return its verdict, and the property that the step violates."""
        before = self.readers[-1]
        after, verdict = read_record(before, record, rules)
        self.readers.append(after)
        end = self.offsets[record.offset] = len(self.readers) - 1
        was, now = before.claim, after.claim
        if was.epoch is not None and was.owned and (was.epoch, True) != (now.epoch, now.owned):
            self.ended[was.epoch] = end
        if isinstance(record.message, ReleaseGroup):
            self.paused_by.setdefault(record.message.instance_id, record.offset)
        return verdict, _broken(before, record, after, verdict)


def _broken(
    before: Reader, record: Record, after: Reader, verdict: Verdict | None
) -> Property | None:
    if verdict is None or before.certain is not EVERYTHING:
        return None
    broken = broken_by(before.claim, record, after.claim, verdict)
    return broken[0] if broken else None


class _Log:
    """One coordinating partition."""

    def __init__(self, first: int, rules: RulesByInterval, default_ms: float) -> None:
        self._intervals = GroupIntervals(default_ms)
        self._rules = rules
        self.last: RawRecord | None = None
        self.begin(first)

    def begin(self, first: int) -> None:
        """Begin to read at this offset, as a consumer does behind records that are missing."""
        self._beginning = Reader.beginning_at(first)
        self._groups: dict[str, dict[ClaimKey, _History]] = {}
        self._releases: dict[str, list[tuple[Record, Rules]]] = {}

    def history(self, key: ClaimKey) -> _History:
        """The history of one claim; that of a new one includes the group's releases."""
        group = self._groups.setdefault(key.group, {})
        history = group.get(key)
        if history is None:
            history = group[key] = _History([self._beginning])
            for release, rules in self._releases.get(key.group, ()):
                history.fold(release, rules)
        return history

    def rules_of(self, record: Record) -> Rules:
        """The rules by which the record is judged: with the interval that its group states."""
        return self._rules[self._intervals.judging(record)]

    def note_default(self, record: Record, judgement: LogJudgement) -> None:
        """Note the record's group if it has stated no interval by then."""
        group = record.message.group_id
        stated = record.headers.interval_ms not in (None, NOT_DECIMAL)
        if not stated and not self._intervals.lived_under(group):
            judgement.by_default = group

    def release(self, record: Record, rules: Rules) -> Property | None:
        """Fold a ReleaseGroup into all claims of its group."""
        group = record.message.group_id
        self._releases.setdefault(group, []).append((record, rules))
        folded = [each.fold(record, rules) for each in self._groups.get(group, {}).values()]
        return next((broken for _, broken in folded if broken is not None), None)

    def fold(self, history: _History, record: Record, rules: Rules) -> Property | None:
        """Fold a record into the claim that it is about."""
        verdict, broken = history.fold(record, rules)
        self._intervals.judged(record, accepted=isinstance(verdict, Accepted))
        return broken


def validate_log(
    records: Iterable[RawRecord], rules: Rules = FENCED, name: str = "log"
) -> LogJudgement:
    """Check whether each record of a log could have been sent, partition by partition.

    Records must come in offset order within each partition. Time and memory grow with their number.
    Each group is judged by the heartbeat interval in its records, and by that of `rules` before it
    states one.
    """
    judgement = LogJudgement(rules=rules)
    by_interval = RulesByInterval(rules)
    logs: dict[int, _Log] = {}
    clients: dict[str, str] = {}
    for number, raw in enumerate(records, start=1):
        log = logs.get(raw.partition)
        if log is None:
            log = _Log(raw.offset, by_interval, rules.heartbeat_interval_ms)
            logs[raw.partition] = log
        elif log.last is not None and raw.offset > log.last.offset + 1:
            log.begin(raw.offset)
        judgement.unexplained = _take(log, raw, clients, judgement, number, f"{name}:{number}")
        if judgement.unexplained is not None:
            return judgement
        judgement.records += 1
    return judgement


def _take(
    log: _Log,
    raw: RawRecord,
    clients: dict[str, str],
    judgement: LogJudgement,
    number: int,
    where: str,
) -> Unexplained | None:
    last, log.last = log.last, raw
    if is_claiming_range(raw.value):
        judgement.shared += 1
        return None
    try:
        record = raw.decoded()
    except MalformedRecord:
        judgement.malformed += 1
        return None
    message = record.message
    key = None if isinstance(message, ReleaseGroup) else message.key
    rules = judgement.rules = log.rules_of(record)

    def unexplained(against: Objection, broken: Property | None = None) -> Unexplained:
        described = content(message, record.headers)
        return Unexplained(
            number,
            where,
            message.instance_id,
            "Append" if broken or against.guard is Impossible.OFFSET_TAKEN else _action(record),
            None if broken else against.guard,
            against.expected,
            f"offset {record.offset} of partition {record.partition}: {described}",
            key,
            broken,
        )

    if last is not None and raw.offset <= last.offset:
        return unexplained(Objection(Impossible.OFFSET_TAKEN, f"an offset above {last.offset}"))
    if key is None:
        judgement.releases += 1
        broken = log.release(record, rules)
    else:
        history = log.history(key)
        if message.instance_id == ANCHOR:
            judgement.shared += 1
        elif not record.headers.present and message.instance_id not in clients:
            judgement.strangers += 1
            log.note_default(record, judgement)
        else:
            instance, client = message.instance_id, message.client_id
            first = clients.setdefault(instance, client)
            if instance not in history.paused_by:
                client = first
            # An administrator ends a pause as its pauser (R8a), with a client id of its own.
            sender = history.senders.setdefault((instance, client), _Sender(instance, client))
            against = sender.sends(history, record)
            if against is not _UNKNOWN:
                log.note_default(record, judgement)
            if isinstance(against, Objection):
                return unexplained(against)
            judgement.unjudged += against is _UNKNOWN
            judgement.judged += against is not _UNKNOWN
            judgement.late += against is _LATE
        broken = log.fold(history, record, rules)
    if broken is not None:
        return unexplained(Objection(Impossible.NOT_WHAT_IT_SENDS, f"keeps {broken.value}"), broken)
    return None


def _action(record: Record) -> str:
    return f"Send{type(record.message).__name__}"


# --- one record -----------------------------------------------------------------------------------


def _judge(history: _History, sender: _Sender, memory: _Memory, record: Record) -> object:
    """The objection to the record, `_UNKNOWN`, or the sender's memory with its smallest view."""
    message, headers = record.message, record.headers
    if message.client_id != sender.client:
        return _says_otherwise(f"client id {sender.client}")
    if message.version != 1:
        return _says_otherwise("version 1")
    if not headers.present:
        return _says_otherwise("headers: it has written them before")
    if NOT_DECIMAL in attrs.astuple(headers):
        return _says_otherwise("headers that are decimal")
    assert not isinstance(message, ReleaseGroup)
    if isinstance(message, ClaimingPartition):
        found = _view_of_claim(history, sender, memory.view, headers)
    else:
        found = _view_of_owner(history, memory, record, message)
    if not isinstance(found, int):
        return found
    return _remembered(history, attrs.evolve(memory, view=found), record, message)


def _remembered(
    history: _History, memory: _Memory, record: Record, message: ClaimingPartition | OwnersMessage
) -> _Memory:
    """The memory of a sender that has also sent this."""
    epoch, ended, reached = record.headers.epoch, None, memory.reached
    match message:
        case ClaimingPartition():
            # An owner claims again only if it has resigned: then its release never arrived.
            if history.claim(memory.view).owner_instance == message.instance_id:
                ended = record.headers.supersedes
        case ReleasingPartition():
            ended = epoch
        case _:
            pass
    if isinstance(message, Heartbeat | ReleasingPartition) and record.headers.set_position is None:
        assert epoch is not None
        reached = {**reached, epoch: message.offset}
    resigned = memory.resigned if ended is None else memory.resigned | {ended}
    return _Memory(memory.view, resigned, reached)


def _says_otherwise(expected: str, guard: Guard = Impossible.NOT_WHAT_IT_SENDS) -> Objection:
    return Objection(guard, expected)


def _view_of_claim(history: _History, sender: _Sender, view: int, headers: Headers) -> object:
    """The smallest view in which it would claim and name exactly this tenure as the one to end."""
    if attrs.evolve(headers, supersedes=None, interval_ms=None) != Headers(present=True):
        return _says_otherwise("no header but supersedes and its interval")
    ended = headers.supersedes
    if ended is not None:
        won = history.offsets.get(ended)
        if won is None:
            return _UNKNOWN if history.headless else _says_otherwise("a tenure that there was")
        view = max(view, won)
        claim = history.claim(view)
        if not history.knows(view, Field.OWNER | Field.EPOCH):
            return _UNKNOWN
        if not (claim.owned and claim.epoch == ended and claim.owner_client == sender.client):
            return _says_otherwise(f"supersedes nothing: epoch {ended} is no tenure of its client")
        return view
    while history.claim(view).owned and history.claim(view).owner_client == sender.client:
        if not history.knows(view, Field.OWNER | Field.EPOCH):
            return _UNKNOWN
        claim = history.claim(view)
        end = history.ended.get(claim.epoch) if claim.epoch is not None else None
        if end is None:
            return _says_otherwise(f"supersedes {claim.epoch}")
        view = end
    return view


def _view_of_owner(
    history: _History, memory: _Memory, record: Record, message: OwnersMessage
) -> object:
    """The smallest view in which it owned the claim under the epoch in the record."""
    headers, epoch = record.headers, record.headers.epoch
    if epoch is None:
        return _says_otherwise("its epoch")
    if headers.supersedes is not None:
        return _says_otherwise("no supersedes")
    if (headers.seen is None) != (headers.clock is None):
        return _says_otherwise("both seen and clock, or neither")
    won = history.offsets.get(epoch)
    if won is None:
        if history.headless:
            return _UNKNOWN
        return Objection(Forbidden.NOT_OWNER, f"no epoch {epoch}: no record of the claim is there")
    view = max(memory.view, won)
    if headers.seen is not None:
        seen = history.offsets.get(headers.seen)
        if seen is None:
            if history.headless:
                return _UNKNOWN
            return Objection(
                Impossible.NOT_APPENDED, f"no seen {headers.seen}: the claim's log has"
            )
        if seen < memory.view:
            return Objection(Impossible.VIEW_GOES_BACK, f"at least {memory.view} records seen")
        view = seen
    if not history.knows(view, Field.OWNER | Field.EPOCH):
        return _UNKNOWN
    claim = history.claim(view)
    owns = claim.owned and claim.owner_instance == message.instance_id and claim.epoch == epoch
    if not owns:
        return Objection(Forbidden.NOT_OWNER, _standing(claim))
    if epoch in memory.resigned:
        return Objection(Forbidden.RESIGNED, f"nothing more under epoch {epoch}")
    if headers.clock not in (None, claim.clock_ms) and history.knows(view, Field.CLOCK):
        return _says_otherwise(f"clock {claim.clock_ms}")
    return _content(history, memory, record, message, view)


def _standing(claim: Claim) -> str:
    if not claim.owned:
        return "nothing: by what it must have read, nobody owns"
    return f"nothing: by what it must have read, {claim.owner_instance} owns, epoch {claim.epoch}"


def _content(
    history: _History, memory: _Memory, record: Record, message: OwnersMessage, view: int
) -> object:
    """Whether the owner would send this: its progress, its request, the position it sets."""
    headers, epoch = record.headers, record.headers.epoch
    assert epoch is not None
    match message:
        case ClaimingMessages():
            claim = history.claim(view)
            if history.knows(view, Field.POSITION) and message.offset <= claim.position:
                return Objection(Forbidden.NOTHING_AHEAD, f"an offset above {claim.position}")
            return view
        case Heartbeat() | ReleasingPartition():
            pass
        case _:
            assert_never(message)
    if headers.set_position is not None:
        if not isinstance(message, ReleasingPartition) or headers.set_position != message.offset:
            return _says_otherwise("set-position where a release says the same")
        first = history.paused_by.get(message.instance_id)
        if first is None and history.headless:
            return _UNKNOWN
        if first is None or first > epoch:
            return Objection(Forbidden.NOTHING_PAUSED, "a ReleaseGroup of its own before its claim")
        return view
    won = history.offsets[epoch]
    begun = history.claim(won).position if history.knows(won, Field.POSITION) else 0
    least = max(begun, memory.reached.get(epoch, 0))
    if message.offset < least:
        return _says_otherwise(f"an offset of at least {least}")
    return view
