"""What is looked at of a log and of all its clients: two of them, a tenure, a message, a record.

Nothing here is a set of clients. One arbitrary instance is looked at, with one arbitrary tenure of
its own, one arbitrary message of the topic, and one arbitrary record in flight. What all others do
reaches them through the log alone.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
from attrs import frozen

from kafka_marshal import Claim
from kafka_marshal.core.claims.invariants import sets_position
from kafka_marshal.core.messages import (
    NOT_DECIMAL,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from proof.machine.logic import choose, every, no, some

NOTHING: Final = -1
"""In the place of a number that is None: a flag says so."""


@frozen
class Seen:
    """A claim at some prefix of the log, as far as clients look at it. Each field is known."""

    has_epoch: Any
    epoch: Any
    owned: Any
    owner: Any
    position: Any
    position_set: Any

    @classmethod
    def of(cls, claim: Claim) -> Seen:
        """The same of a claim."""
        return cls(
            claim.epoch is not None,
            NOTHING if claim.epoch is None else claim.epoch,
            claim.owned,
            claim.owner_instance,
            claim.position,
            claim.position_set,
        )


@frozen
class Identity:
    """The instance that is looked at. Spec: `me` in Consumer."""

    instance: Any
    admin: Any
    at_least_once: Any
    window: Any
    start: Any


@frozen
class Memory:
    """What it remembers. Spec: NewConsumer."""

    has_resigned: Any
    resigned: Any
    next: Any
    known: Seen
    read: Any
    """The offset of the last record that it has read, or -1."""
    granted: Any
    """It holds something that it was granted and did not process."""

    @classmethod
    def of(cls, consumer: Any) -> Memory:
        """The same of a machine's state."""
        resigned = consumer.resigned
        return cls(
            resigned is not None,
            NOTHING if resigned is None else resigned,
            consumer.next,
            Seen.of(consumer.known),
            consumer.view - 1,
            _any_of(consumer.granted),
        )


def _any_of(granted: Any) -> Any:
    return bool(granted) if isinstance(granted, tuple) else granted.filled


@frozen
class Tenure:
    """One tenure of this instance: what the log says of it, up to its end."""

    begun: Any
    over: Any
    released: Any
    """It ended by a release of its own, which set nothing."""
    base: Any
    """The position when it was won."""
    base_set: Any
    position: Any
    """The position, or where it stood when the tenure ended."""
    position_set: Any


@frozen
class Sent:
    """A record, in flight or in the log, as far as its sender answers for it."""

    own: Any
    """This instance sent it."""
    heartbeat: Any
    claims: Any
    releases: Any
    asks: Any
    """It asks for messages."""
    pauses: Any
    present: Any
    has_epoch: Any
    epoch: Any
    offset: Any
    has_start: Any
    start: Any
    sets: Any
    """It says that it sets the position."""

    @property
    def progress(self) -> Any:
        """A heartbeat, or a release that does not say that it sets the position."""
        return some(self.heartbeat, every(self.releases, no(self.sets)))

    @property
    def owners(self) -> Any:
        """It is one that only an owner sends."""
        return some(self.heartbeat, self.releases, self.asks)

    @classmethod
    def of(cls, message: Message, headers: Headers, instance: Any) -> Sent:
        """The same of a message of either kind: a record's, or one that a machine sends."""
        known = headers.__dict__.get("_fields")
        if known is None:
            known = {
                name: (value is not None, NOTHING if value is None else value)
                for name, value in attrs.asdict(headers).items()
            }
        (has_epoch, epoch), (has_start, start) = known["epoch"], known["start"]
        offset = NOTHING
        if isinstance(message, Heartbeat | ReleasingPartition | ClaimingMessages):
            offset = message.offset
        return cls(
            own=message.instance_id == instance,
            heartbeat=isinstance(message, Heartbeat),
            claims=isinstance(message, ClaimingPartition),
            releases=isinstance(message, ReleasingPartition),
            asks=isinstance(message, ClaimingMessages),
            pauses=isinstance(message, ReleaseGroup),
            present=headers.present,
            has_epoch=every(has_epoch, epoch != NOT_DECIMAL),
            epoch=epoch,
            offset=offset,
            has_start=has_start,
            start=start,
            sets=known["set_position"][0],
        )


@frozen
class Situation:
    """All of it at one moment."""

    me: Identity
    epoch: Any
    """That of the tenure: the offset at which this instance wins the claim."""
    message: Any
    """An arbitrary message of the topic."""
    done: Any
    """This instance processed it in this tenure."""
    tenure: Tenure
    memory: Memory
    log: Claim | None = None
    """The claim at the end of the log; None where only the instance takes a step."""
    last: Any = None
    """The log's last offset, or -1."""

    @property
    def counts(self) -> Any:
        """Its progress is what was processed: at least once, or an administrator's."""
        return some(self.me.at_least_once, self.me.admin)

    def at_or_after_begin(self, offset: Any) -> Any:
        """The tenure begins at this offset or below. Spec: Floor, of the claim when it was won."""
        tenure = self.tenure
        return every(tenure.base <= offset, some(tenure.base_set, self.me.start <= offset))

    def holds(self, known: Seen) -> Any:
        """By this reading the instance owns the claim, in this tenure."""
        return every(
            known.has_epoch,
            known.epoch == self.epoch,
            known.owned,
            known.owner == self.me.instance,
        )

    @property
    def has_resigned(self) -> Any:
        """It sent the release of this tenure."""
        return every(self.memory.has_resigned, self.memory.resigned == self.epoch)

    @property
    def acts(self) -> Any:
        """It owns the claim in this tenure, as far as it knows, and has not resigned."""
        return every(self.holds(self.memory.known), no(self.has_resigned))

    @property
    def has_read_it(self) -> Any:
        """It has read that it won this tenure."""
        known = self.memory.known
        return every(known.has_epoch, known.epoch >= self.epoch)


def tenure_after(now: Situation, record: Record, after: Claim) -> Tenure:
    """The tenure after one more record of the log."""
    was, before = now.tenure, now.log
    assert before is not None
    seen = Seen.of(after)
    sent = Sent.of(record.message, record.headers, now.me.instance)
    begins = every(now.holds(seen), record.offset == now.epoch, sent.claims)
    going = every(was.begun, no(was.over))
    stays = every(going, now.holds(seen))
    ends = every(going, no(now.holds(seen)))
    releases = isinstance(record.message, ReleasingPartition) and not after.owned
    sets = releases and choose_sets(before, record)
    released = every(ends, releases, no(sets))
    counted = some(stays, released)
    return Tenure(
        begun=some(was.begun, begins),
        over=some(was.over, ends),
        released=some(was.released, released),
        base=choose(begins, after.position, was.base),
        base_set=choose(begins, after.position_set, was.base_set),
        position=choose(some(begins, counted), after.position, was.position),
        position_set=choose(some(begins, counted), after.position_set, was.position_set),
    )


def choose_sets(before: Claim, record: Record) -> Any:
    """Whether a release sets the position, judged by sender and header, without a fork."""
    known = record.headers.__dict__.get("_fields")
    if known is None:
        return sets_position(before, record)
    return some(before.owner_instance == before.pauser, known["set_position"][0])
