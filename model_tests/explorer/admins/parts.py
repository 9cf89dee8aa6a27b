"""What a state of `SetPosition.tla` is made of: a log of several claims, and its administrators.

As in `claims.parts`: equal parts are the same object, and what can follow from a part is remembered
with it. This room does not know what can happen to a part (`environment` does).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kafka_marshal import NO_HEADERS, Accepted, Claim, ClaimKey, Record, Verdict
from kafka_marshal.core.claims.pause_work import NO_WORK, PauseWork, work_after, work_paused
from kafka_marshal.core.claims.verdicts import WON_BY_REQUEST
from kafka_marshal.core.messages import ReleasingPartition
from kafka_marshal.machines.admin import admin
from kafka_marshal.machines.admin.operation import Operation, consumer_of
from kafka_marshal.machines.consumer.effects import Send
from model_tests.explorer.free_time import Fold, Stored


class Note(NamedTuple):
    """A record of the log that somebody will ask for: which it is, by whom, of which claim."""

    n: int
    """Counted from 1, as in the specification: an instance that has read this many has read it."""
    by: str
    key: ClaimKey | None


Counts: TypeAlias = Counter[tuple[str, ClaimKey | None]]
"""How many records there are of a type and a claim."""

_NOTHING: Counts = Counter()


class GroupLog:
    """A log is its last record and the log before it; also what it folds to.

    Spec: log, verdicts, claims, work, left. `verdict` is the last of `verdicts`; `path` has the
    log after each of its records, the empty one first. It is a state, as `parts.Log` is.
    """

    __slots__ = (
        *("claims", "key", "left", "length", "memo", "over", "path", "pauses", "sent"),
        *("sets", "stored", "verdict", "wins", "work", "written"),
    )

    def __init__(
        self,
        before: GroupLog | None,
        stored: Stored | None,
        fold: Fold,
        keys: Sequence[ClaimKey] = (),
    ) -> None:
        self.memo: dict[object, Any] = {}
        self.stored = stored
        self.key: ClaimKey | None = None
        self.length = 0
        self.claims: Mapping[ClaimKey, Claim] = {key: Claim() for key in keys}
        self.verdict: Verdict | None = None
        self.work: PauseWork = NO_WORK
        self.left: tuple[PauseWork, ...] = ()
        self.over: frozenset[ClaimKey] = frozenset()
        self.sent: dict[str, Counts] = {}
        self.wins: tuple[Note, ...] = ()
        self.sets: tuple[Note, ...] = ()
        self.pauses: tuple[Note, ...] = ()
        self.written: frozenset[str] = frozenset()
        self.path: tuple[GroupLog, ...] = (self,)
        if before is not None and stored is not None:
            self._append(before, stored, fold)

    def _append(self, before: GroupLog, stored: Stored, fold: Fold) -> None:
        record = stored.record
        message = record.message
        by, key = message.instance_id, admin.key_of(record)
        self.key = key
        self.length = before.length + 1
        self.path = (*before.path, self)
        counts = Counter(before.sent_by(by))
        counts[type(message).__name__, key] += 1
        self.sent = {**before.sent, by: counts}
        self.left = before.left
        if key is None:
            folded = {each: fold.step(claim, stored) for each, claim in before.claims.items()}
            self.claims = {each: after for each, (after, _) in folded.items()}
            [self.verdict] = {verdict for _, verdict in folded.values()}
            self.work = work_paused(before.work, by)
            self.left = (*before.left, before.work)
        else:
            after, self.verdict = fold.step(before.claims[key], stored)
            self.claims = {**before.claims, key: after}
            self.work = work_after(before.work, key, before.claims[key], record, after)
            self.over = before.over | {key} if stored.pause_over else before.over
        note = (Note(self.length, by, key),)
        sets = sets_position(record)
        self.wins = before.wins + note * (self.verdict in WON_BY_REQUEST)
        self.sets = before.sets + note * (sets and self.verdict is Accepted.POSITION_SET)
        self.pauses = before.pauses + note * (key is None)
        self.written = before.written | {by} if sets else before.written

    def sent_by(self, instance: str) -> Counts:
        """What the log has of an instance. Spec: SentBy, without the outbox."""
        return self.sent.get(instance, _NOTHING)


def sets_position(sent: Send | Record) -> bool:
    """A release that says so. Spec: SetsPositionBy."""
    return isinstance(sent.message, ReleasingPartition) and sent.headers.set_position is not None


class Administrator:
    """Spec: status, administrators and outbox, of one of them."""

    __slots__ = ("instance", "memo", "operation", "outbox", "status")

    def __init__(
        self, instance: int, status: str, operation: Operation, outbox: tuple[Send, ...]
    ) -> None:
        self.instance = instance
        self.status = status
        self.operation = operation
        self.outbox = outbox
        self.memo: dict[object, Any] = {}


class Mishaps(NamedTuple):
    """Spec: mishaps."""

    losses: int = 0
    given_up: int = 0


class PartsOfAdmins:
    """Every part that was met so far, once."""

    def __init__(self, fold: Fold, keys: Sequence[ClaimKey]) -> None:
        self._fold = fold
        self._keys = keys
        self._administrators: dict[tuple[object, ...], Administrator] = {}
        self._sends: dict[Send, Send] = {}
        self._stored: dict[tuple[object, ...], Stored] = {}
        self.empty_log = GroupLog(None, None, fold, keys)

    def administrator(
        self, instance: int, status: str, operation: Operation, outbox: tuple[Send, ...]
    ) -> Administrator:
        """The one administrator with these values.

        How it keeps the memory of a claim that had no record of its own does not tell two apart.
        """
        outbox = tuple([self._sends.setdefault(sent, sent) for sent in outbox])
        key = (
            *(instance, status, operation.phase, *map(id, outbox)),
            tuple(sorted(operation.targets.items())),
            tuple([consumer_of(operation, each) for each in self._keys]),
            *(operation.view, operation.awaits),
            *(operation.work, operation.warned, operation.result),
        )
        found = self._administrators.get(key)
        if found is None:
            found = self._administrators[key] = Administrator(instance, status, operation, outbox)
        return found

    def appended(self, log: GroupLog, sent: Send, stale: bool, pause_over: bool) -> GroupLog:
        """The log with one more record. Spec: Stored, FoldPause, FoldOne."""
        sent = self._sends.setdefault(sent, sent)
        key = (id(sent), log.length, stale, pause_over)
        stored = self._stored.get(key)
        if stored is None:
            headers = sent.headers if sent.headers.present else NO_HEADERS
            record = Record(0, log.length, 0, sent.message, headers)
            stored = self._stored[key] = Stored(record, stale, pause_over)
        found = log.memo.get(key)
        if found is None:
            found = log.memo[key] = GroupLog(log, stored, self._fold)
        assert isinstance(found, GroupLog)
        return found
