"""The parts of a state of `GroupWorld.tla`: each once, so that two equal ones are one object.

Values of groups hold mappings, so they have no hash. A log is its last record and the log before
it. Records, controllers and members are known by a key that says the same. It does not know what
happens to any of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias

import attrs

from kafka_marshal.core.groups.events import At, EventRecord
from kafka_marshal.core.groups.reducer import step
from kafka_marshal.core.groups.state import Controllership, TopicPartition
from kafka_marshal.core.groups.verdicts import Verdict
from kafka_marshal.machines.groups.controller import ControllerState
from kafka_marshal.machines.groups.group_member import GroupMemberState

Own: TypeAlias = frozenset[tuple[TopicPartition, At]]


def frozen_of(value: object) -> Hashable:
    """The same, of tuples and frozensets alone."""
    kind: Any = type(value)
    if attrs.has(kind):
        names = [each.name for each in attrs.fields(kind)]
        return kind.__name__, *(frozen_of(getattr(value, name)) for name in names)
    if isinstance(value, Mapping):
        return frozenset((key, frozen_of(each)) for key, each in value.items())
    if isinstance(value, tuple | list):
        return tuple(map(frozen_of, value))
    assert isinstance(value, Hashable)
    return value


class Sent:
    """A record as it was sent. Equal ones are the same object."""

    __slots__ = ("record",)
    known: ClassVar[dict[Hashable, Sent]] = {}

    def __init__(self, record: EventRecord) -> None:
        self.record = record

    @classmethod
    def of(cls, record: EventRecord) -> Sent:
        """The one for this record, wherever it is to land."""
        record = attrs.evolve(record, offset=-1, timestamp_ms=0)
        key = frozen_of(record)
        found = cls.known.get(key)
        if found is None:
            found = cls.known[key] = cls(record)
        return found


class Log:
    """A log, its last record, and what it folds to. Spec: appended."""

    __slots__ = ("after", "length", "memo", "next", "path", "record", "verdict")

    def __init__(self, before: Log | None, sent: Sent | None) -> None:
        self.next: dict[Sent, Log] = {}
        self.memo: dict[Hashable, Any] = {}
        """What was worked out of it as a controller's view."""
        self.length = 0
        self.after = Controllership()
        self.record: EventRecord | None = None
        self.verdict: Verdict | None = None
        self.path: tuple[Log, ...] = (self,)
        if before is None or sent is None:
            return
        self.length = before.length + 1
        self.record = attrs.evolve(sent.record, offset=before.length)
        outcome = step(before.after, self.record)
        self.after, self.verdict = outcome.controllership, outcome.verdict
        self.path = (*before.path, self)

    def with_record(self, sent: Sent) -> Log:
        """The log with one more record."""
        found = self.next.get(sent)
        if found is None:
            found = self.next[sent] = Log(self, sent)
        return found


class Controller:
    """What a controller remembers, but for who waits. Equal ones are the same object."""

    __slots__ = ("epoch", "newest", "pending", "starts")
    known: ClassVar[dict[Hashable, Controller]] = {}

    def __init__(self, c: ControllerState) -> None:
        self.epoch, self.starts, self.pending, self.newest = c.epoch, c.starts, c.pending, c.newest

    @classmethod
    def of(cls, c: ControllerState) -> Controller:
        """The one that remembers this."""
        pending = tuple(map(Sent.of, c.pending))
        key = c.epoch, c.starts, pending, frozenset(c.newest.items())
        found = cls.known.get(key)
        if found is None:
            found = cls.known[key] = cls(c)
        return found

    def state(self, view: Controllership) -> ControllerState:
        """As the machine has it, with its view."""
        ahead = view if self.pending else Controllership()
        for record in self.pending:
            ahead = step(ahead, record).controllership
        return ControllerState(self.epoch, self.starts, self.pending, ahead, self.newest)


class Member:
    """What a member remembers. Equal ones are the same object."""

    __slots__ = ("state",)
    known: ClassVar[dict[Hashable, Member]] = {}

    def __init__(self, state: GroupMemberState) -> None:
        self.state = state

    @classmethod
    def of(cls, state: GroupMemberState) -> Member:
        """The one that remembers this."""
        key = frozen_of(state)
        found = cls.known.get(key)
        if found is None:
            found = cls.known[key] = cls(state)
        return found


class Request(NamedTuple):
    """Spec: RequestOf."""

    member: str
    to: int | None
    connection: int
    as_of: int | None
    held: frozenset[TopicPartition]
    positions: Own
    sent: int


class Wait(NamedTuple):
    """A request that a controller took and has not answered."""

    member: str
    connection: int
    needs: int
    sent: int
    end: int | None = None


class Answer(NamedTuple):
    """Spec: AnswerTo."""

    member: str
    connection: int
    sent: int
    generation: int
    unknown: bool
    own: Own


class Spent(NamedTuple):
    """What of the bounds is used up."""

    requests: tuple[int, ...]
    elections: int = 0
    expiries: int = 0
    rewinds: int = 0
    losses: int = 0
    sleeps: int = 0


class Clock(NamedTuple):
    """Spec: clock."""

    now: int
    until: tuple[float, ...]
    heard: tuple[tuple[int, ...], ...]
    asleep: frozenset[int]


class Process(NamedTuple):
    """One controller of a world."""

    read: int
    c: Controller
    waiting: frozenset[Wait]


class GroupsState(NamedTuple):
    """A state. Controllers and members are in the order of the world's."""

    log: Log
    sending: tuple[tuple[Sent, ...], ...]
    controllers: tuple[Process, ...]
    members: tuple[Member, ...]
    requests: frozenset[Request]
    answers: frozenset[Answer]
    spent: Spent
    clock: Clock
