"""One instance and one claim: what it knows, remembers, may do, and sends.

Spec: module Consumer. A consumer decides from what it has read, which may be old. This module
defines what is allowed and what follows. `driver` decides when to act, and can only do what is
allowed here. This module does not know how records travel, whether they arrive, or who else exists.
Every guard returns None, or the first reason that forbids the action.

>>> me = InstanceConfig("i1", "c1", Mode.AT_LEAST_ONCE)
>>> consumer = ConsumerState()
>>> may_heartbeat(me, consumer)
<Forbidden.NOT_OWNER: 'not_owner'>
>>> claiming_partition_sent(me, consumer, ClaimKey("g", "t", 0)).message.client_id
'c1'
"""

from __future__ import annotations

import enum
from typing import TypeAlias, assert_never

import attrs
from attrs import field, frozen

from kafka_marshal.core.claims.suffix_reader import Field, Reader, read_record
from kafka_marshal.core.claims.verdicts import Accepted, Verdict
from kafka_marshal.core.messages import (
    NO_HEADERS,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    KeyedMessage,
    Offset,
    Partition,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import FENCED, Claim, ClaimKey, Rules
from kafka_marshal.machines.consumer.effects import Send


class Mode(enum.Enum):
    """The delivery semantics. The value is the specification's name for it."""

    AT_MOST_ONCE = "AMO"
    AT_LEAST_ONCE = "ALO"


class Forbidden(enum.Enum):
    """Why a consumer may not do something, in the order of the guards. Spec: Forbidden."""

    STOPPED = "stopped"
    """It lost its claim to another instance with its own client id: the id is used twice."""
    NOT_ADMIN = "not_admin"
    """Only an administrator pauses a group."""
    NOTHING_PAUSED = "nothing_paused"
    """An administrator claims only in its own pause."""
    NOT_AT_MOST_ONCE = "not_at_most_once"
    """Only an at-most-once consumer requests messages."""
    NOT_AT_LEAST_ONCE = "not_at_least_once"
    """An at-most-once consumer processes grants and nothing else (R4)."""
    ALREADY_OWNER = "already_owner"
    """It owns the claim and has not released it."""
    AWAITS_READ_BACK = "awaits_read_back"
    """R6: its last ClaimingPartition was not read back yet."""
    CLAIM_UNKNOWN = "claim_unknown"
    """At most once: the owner of the claim is uncertain."""
    POSITION_UNKNOWN = "position_unknown"
    """At most once: the position is uncertain, and waiting does not help."""
    NOT_OWNER = "not_owner"
    """By what it has read, it is not the owner (R2)."""
    RESIGNED = "resigned"
    """R7: it sent its release under this epoch."""
    NOTHING_AHEAD = "nothing_ahead"
    """The offset is at or below the position (R4)."""
    BEYOND_BATCH = "beyond_batch"
    """It is more than one request may ask for."""
    NOT_NEXT = "not_next"
    """Messages are processed in order."""
    BEYOND_WINDOW = "beyond_window"
    """R5: too far beyond its last accepted position."""
    NOT_GRANTED = "not_granted"
    """R4: it has not read that the log granted it anything."""
    NOTHING_ASKED = "nothing_asked"
    """No request is outstanding."""


@frozen
class InstanceConfig:
    """The identity and options of an instance. Spec: `me` in Consumer."""

    instance_id: str
    """Identifies one run of one process; new at every start."""
    client_id: str
    """Identifies the consumer across restarts; unique within its group."""
    mode: Mode
    window: int = 1
    """R5: how many messages it may process beyond its last accepted position, at least once."""
    batch: int = 1
    """The most messages to request by one ClaimingMessages."""
    start: int = 0
    """The start policy's offset, for claims whose position was never set or is unknown."""
    admin: bool = False
    """It pauses the group and sets positions; it does not consume."""
    certifies: bool = True
    """Its records state what it has read (`seen`, `clock`), for readers that begin in the middle.
    """
    rules: Rules = FENCED
    says_interval: bool = False
    """Its claims and heartbeats state its heartbeat interval, and it yields to owners with another.
    """


@frozen
class ConsumerState:
    """What an instance knows and remembers about one claim. Spec: NewConsumer."""

    reader: Reader = field(factory=Reader)
    view: int = 0
    """The next offset to read."""
    resigned: int | None = None
    """R7: the epoch for which it last sent a ReleasingPartition."""
    asked: bool = False
    """R6: it has sent a ClaimingPartition that it has not read back."""
    stopped: bool = False
    """It lost its claim to another instance with its own client id."""
    next: int = 0
    """At least once: the next message to process."""
    granted: tuple[range, ...] = ()
    """At most once: ranges granted to it and not yet processed; disjoint, in order."""

    @classmethod
    def beginning_at(cls, first: int) -> ConsumerState:
        """A consumer that begins to read at this offset."""
        return cls(reader=Reader.beginning_at(first), view=first)

    @property
    def known(self) -> Claim:
        """The claim as it has folded it. Spec: Known."""
        return self.reader.claim


# --- what it believes -----------------------------------------------------------------------------


def owns(me: InstanceConfig, reader: Reader) -> bool:
    """Whether it is certain, by what it has read, that it is the owner. Spec: Owns."""
    claim = reader.claim
    return claim.owner_instance == me.instance_id and claim.owned and reader.known


def has_resigned(me: InstanceConfig, consumer: ConsumerState, claim: Claim) -> bool:
    """R7: after it sent a release, it never acts under that epoch again. Spec: HasResigned."""
    return consumer.resigned is not None and consumer.resigned == claim.epoch


def acts_on(me: InstanceConfig, consumer: ConsumerState, reader: Reader) -> bool:
    """Whether it owns the claim, by this reading, and has not resigned. Spec: ActsOn."""
    return owns(me, reader) and not has_resigned(me, consumer, reader.claim)


def acts(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """Whether it acts as the owner. Spec: Acts."""
    return not consumer.stopped and acts_on(me, consumer, consumer.reader)


def never_set(reader: Reader) -> bool:
    """Whether it is certain that the position was never set. Spec: NeverSet."""
    return not reader.claim.position_set and Field.POSITION_SET in reader.certain


def offset_to_send(me: InstanceConfig, consumer: ConsumerState) -> Offset:
    """Its progress: what it processed (at least once), or was granted. Spec: OffsetToSend."""
    if me.mode is Mode.AT_LEAST_ONCE:
        return Offset(consumer.next)
    granted_end = consumer.granted[-1].stop if consumer.granted else 0
    begun = me.start if never_set(consumer.reader) else consumer.known.position
    return Offset(max(begun, granted_end))


# --- the guards -----------------------------------------------------------------------------------


def may_claim(me: InstanceConfig, consumer: ConsumerState) -> Forbidden | None:
    """Whether it may ask for the claim. Spec: MayClaim. Rules: R6."""
    if consumer.stopped:
        return Forbidden.STOPPED
    if me.admin and consumer.known.pauser != me.instance_id:
        return Forbidden.NOTHING_PAUSED
    if acts(me, consumer):
        return Forbidden.ALREADY_OWNER
    if consumer.asked:
        return Forbidden.AWAITS_READ_BACK
    if me.mode is Mode.AT_MOST_ONCE and not me.admin:
        if not consumer.reader.known:
            return Forbidden.CLAIM_UNKNOWN
        if Field.POSITION not in consumer.reader.certain:
            return Forbidden.POSITION_UNKNOWN
    return None


def may_act_as_owner(me: InstanceConfig, consumer: ConsumerState) -> Forbidden | None:
    """Whether it may do what only an owner may. Spec: MayActAsOwner. Rules: R2, R7."""
    if consumer.stopped:
        return Forbidden.STOPPED
    if not owns(me, consumer.reader):
        return Forbidden.NOT_OWNER
    if has_resigned(me, consumer, consumer.known):
        return Forbidden.RESIGNED
    return None


def may_heartbeat(me: InstanceConfig, consumer: ConsumerState) -> Forbidden | None:
    """Spec: MayHeartbeat."""
    return may_act_as_owner(me, consumer)


def may_release(me: InstanceConfig, consumer: ConsumerState) -> Forbidden | None:
    """Spec: MayRelease."""
    return may_act_as_owner(me, consumer)


def may_claim_messages(
    me: InstanceConfig, consumer: ConsumerState, offset: int
) -> Forbidden | None:
    """Whether it may request everything below `offset`. Spec: MayClaimMessages. Rules: R4."""
    if me.mode is not Mode.AT_MOST_ONCE or me.admin:
        return Forbidden.NOT_AT_MOST_ONCE
    against = may_act_as_owner(me, consumer)
    if against is not None:
        return against
    if Field.POSITION not in consumer.reader.certain:
        return Forbidden.POSITION_UNKNOWN
    if offset <= consumer.known.position:
        return Forbidden.NOTHING_AHEAD
    if offset > consumer.known.position + me.batch:
        return Forbidden.BEYOND_BATCH
    return None


def may_release_group(me: InstanceConfig, consumer: ConsumerState) -> Forbidden | None:
    """Spec: MayReleaseGroup."""
    return None if me.admin else Forbidden.NOT_ADMIN


def floor(me: InstanceConfig, reader: Reader) -> int:
    """The lower bound for at-least-once processing: the log's position, even if 0. Spec: Floor.

    The start policy's offset counts if the position was never set. It also counts if the position
    is uncertain, since it can never become known again.
    """
    position = reader.claim.position
    if never_set(reader) or Field.POSITION not in reader.certain:
        return max(position, me.start)
    return position


def in_window(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """R5: whether it is not beyond the window after the last accepted position. Spec: InWindow."""
    return consumer.next < floor(me, consumer.reader) + me.window


def may_process(me: InstanceConfig, consumer: ConsumerState, message: int) -> Forbidden | None:
    """At least once: whether it may process this message. Spec: MayProcess. Rules: R5."""
    if me.mode is not Mode.AT_LEAST_ONCE or me.admin:
        return Forbidden.NOT_AT_LEAST_ONCE
    against = may_act_as_owner(me, consumer)
    if against is not None:
        return against
    if message != consumer.next:
        return Forbidden.NOT_NEXT
    if not in_window(me, consumer):
        return Forbidden.BEYOND_WINDOW
    return None


def may_process_grant(me: InstanceConfig, consumer: ConsumerState) -> Forbidden | None:
    """At most once: whether it may process this grant. Spec: MayProcessGrant. Rules: R4.

    Since the position was last set, this range was granted to no other instance. So the instance
    may process it even after it lost the claim.
    """
    return None if consumer.granted else Forbidden.NOT_GRANTED


def may_give_up(me: InstanceConfig, consumer: ConsumerState) -> Forbidden | None:
    """Whether it may stop waiting for its request, which may still land. Spec: MayGiveUp."""
    return None if consumer.asked else Forbidden.NOTHING_ASKED


# --- what it sends --------------------------------------------------------------------------------


def can_certify(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """Whether everything that it has read is certain. Spec: CanCertify.

    An owner that does not know the position must not make others certain of it.
    """
    needed = Field.POSITION | Field.CLOCK
    return me.certifies and needed in consumer.reader.certain


def interval_to_say(me: InstanceConfig) -> int | None:
    """Its heartbeat interval in milliseconds, if its claims and heartbeats state it.

    No verdict depends on it, so the specification of a single claim does not contain it (see
    Interval.tla).
    """
    return int(me.rules.heartbeat_interval_ms) if me.says_interval else None


def _owner_headers(
    me: InstanceConfig,
    consumer: ConsumerState,
    set_position: int | None = None,
    interval_ms: int | None = None,
    done: int | None = None,
    start: int | None = None,
) -> Headers:
    """Spec: OwnerHeaders."""
    certifies = can_certify(me, consumer)
    return Headers(
        True,
        epoch=consumer.known.epoch,
        seen=consumer.view - 1 if certifies else None,
        clock=consumer.known.clock_ms if certifies else None,
        set_position=set_position,
        interval_ms=interval_ms,
        done=done,
        start=start,
    )


def start_to_send(me: InstanceConfig, consumer: ConsumerState) -> int | None:
    """Its start offset, if it is at or beyond it. Spec: StartToSend.

    An offset below the start says nothing about where to begin; an administrator has no start.
    """
    return None if me.admin or offset_to_send(me, consumer) < me.start else me.start


def supersedes_of(me: InstanceConfig, consumer: ConsumerState) -> int | None:
    """R1b: the tenure that a restarted consumer intends to end. Spec: SupersedesOf."""
    known = consumer.known
    return known.epoch if known.owned and known.owner_client == me.client_id else None


_Address: TypeAlias = tuple[int, int, str, str, str, str, Partition]


def _address(me: InstanceConfig, key: ClaimKey, unix_s: int) -> _Address:
    """The first fields of every message about a claim: version 1, time, sender, claim."""
    topic_partition = Partition(key.topic_partition)
    return (1, unix_s, me.instance_id, me.client_id, key.group, key.topic, topic_partition)


def claiming_partition_sent(
    me: InstanceConfig, consumer: ConsumerState, key: ClaimKey, unix_s: int = 0
) -> Send:
    """Spec: ClaimingPartitionSent."""
    headers = Headers(True, supersedes=supersedes_of(me, consumer), interval_ms=interval_to_say(me))
    return Send(ClaimingPartition(*_address(me, key, unix_s)), headers)


def heartbeat_sent(
    me: InstanceConfig, consumer: ConsumerState, key: ClaimKey, unix_s: int = 0
) -> Send:
    """Spec: HeartbeatSent."""
    message = Heartbeat(*_address(me, key, unix_s), offset_to_send(me, consumer))
    headers = _owner_headers(
        me, consumer, interval_ms=interval_to_say(me), start=start_to_send(me, consumer)
    )
    return Send(message, headers)


def releasing_partition_sent(
    me: InstanceConfig,
    consumer: ConsumerState,
    key: ClaimKey,
    unix_s: int = 0,
    done: int | None = None,
) -> Send:
    """Spec: ReleasingPartitionSent.

    At most once, `done` states how much of the grant was processed. No decision depends on it, so
    the specification does not contain it; loss receipts are based on it.
    """
    message = ReleasingPartition(*_address(me, key, unix_s), offset_to_send(me, consumer))
    headers = _owner_headers(me, consumer, done=done, start=start_to_send(me, consumer))
    return Send(message, headers)


def position_sent(
    me: InstanceConfig, consumer: ConsumerState, key: ClaimKey, target: int, unix_s: int = 0
) -> Send:
    """An administrator's release states that it sets the position. Spec: PositionSent."""
    message = ReleasingPartition(*_address(me, key, unix_s), Offset(target))
    return Send(message, _owner_headers(me, consumer, set_position=target))


def claiming_messages_sent(
    me: InstanceConfig, consumer: ConsumerState, key: ClaimKey, offset: int, unix_s: int = 0
) -> Send:
    """Spec: ClaimingMessagesSent."""
    message = ClaimingMessages(*_address(me, key, unix_s), Offset(offset))
    return Send(message, _owner_headers(me, consumer))


def release_group_sent(
    me: InstanceConfig, group: str, expires_unix_s: int, unix_s: int = 0
) -> Send:
    """Without headers and with version 0, as the original writes it. Spec: ReleaseGroupSent."""
    message = ReleaseGroup(
        0, unix_s, me.instance_id, me.client_id, group, "", Partition(0), expires_unix_s
    )
    return Send(message, NO_HEADERS)


# --- what it remembers ----------------------------------------------------------------------------


def after_claiming_partition(me: InstanceConfig, consumer: ConsumerState) -> ConsumerState:
    """Spec: AfterClaimingPartition."""
    return attrs.evolve(consumer, asked=True)


def after_release(me: InstanceConfig, consumer: ConsumerState) -> ConsumerState:
    """Spec: AfterRelease."""
    return attrs.evolve(consumer, resigned=consumer.known.epoch)


def after_claiming_messages(
    me: InstanceConfig, consumer: ConsumerState, offset: int
) -> ConsumerState:
    """R4: a request grants nothing; the grant is read in the log.

    Spec: AfterClaimingMessages, GrantedWhenAsked.
    """
    return consumer


def after_gap(me: InstanceConfig, consumer: ConsumerState, first: int) -> ConsumerState:
    """The records from its view up to `first` are gone: it starts over there. Spec: AfterGap.

    Nothing that it knew is certain any more, as if it had joined late. The records that it waits to
    read back may be among the lost ones, so it stops waiting. Its grants stay granted.
    """
    reader = Reader.beginning_at(first)
    return attrs.evolve(consumer, reader=reader, view=first, asked=False)


def after_process(me: InstanceConfig, consumer: ConsumerState) -> ConsumerState:
    """Spec: AfterProcess."""
    return attrs.evolve(consumer, next=consumer.next + 1)


def after_process_grant(me: InstanceConfig, consumer: ConsumerState) -> ConsumerState:
    """Spec: AfterProcessGrant."""
    return attrs.evolve(consumer, granted=())


def after_giving_up(me: InstanceConfig, consumer: ConsumerState) -> ConsumerState:
    """Spec: AfterGivingUp."""
    return attrs.evolve(consumer, asked=False)


# --- a message of whichever kind ------------------------------------------------------------------


def would_send(
    me: InstanceConfig, consumer: ConsumerState, message: KeyedMessage, done: int | None = None
) -> tuple[Forbidden | None, Send, ConsumerState]:
    """Whether it may send a message of this kind, with which content, and what it then remembers.

    Spec: MaySendNow, WouldSend, AfterSending, of module TraceMarshal. From the given message it
    takes the kind, the claim, the sender's time, the requested messages and the position that an
    administrator sets. Only a release itself states how far the application is `done` with a grant.
    """
    key, unix_s = message.key, message.unix_s
    match message:
        case Heartbeat():
            return may_heartbeat(me, consumer), heartbeat_sent(me, consumer, key, unix_s), consumer
        case ClaimingPartition():
            sent = claiming_partition_sent(me, consumer, key, unix_s)
            return may_claim(me, consumer), sent, after_claiming_partition(me, consumer)
        case ClaimingMessages(offset=offset):
            sent = claiming_messages_sent(me, consumer, key, offset, unix_s)
            after = after_claiming_messages(me, consumer, offset)
            return may_claim_messages(me, consumer, offset), sent, after
        case ReleasingPartition(offset=target):
            if me.admin:
                sent = position_sent(me, consumer, key, target, unix_s)
            else:
                sent = releasing_partition_sent(me, consumer, key, unix_s, done)
            return may_release(me, consumer), sent, after_release(me, consumer)
        case _:
            assert_never(message)


# --- reading --------------------------------------------------------------------------------------


def grant_read(
    me: InstanceConfig, before: Reader, record: Record, verdict: Verdict | None
) -> range:
    """R4: what this record granted to this very instance, if the position was certain.

    Spec: GrantRead.
    """
    message = record.message
    if (
        verdict is Accepted.GRANTED
        and isinstance(message, ClaimingMessages)
        and message.instance_id == me.instance_id
        and before.known
        and Field.POSITION in before.certain
    ):
        return range(before.claim.position, message.offset)
    return range(0)


def _together(granted: tuple[range, ...], more: range) -> tuple[range, ...]:
    """The union: an earlier grant and a new one need not be adjacent."""
    if not more:
        return granted
    if not granted or granted[-1].stop < more.start:
        return (*granted, more)
    before, last = granted[:-1], granted[-1]
    if more.stop < last.start:
        return (*_together(before, more), last)
    return _together(before, range(min(last.start, more.start), max(last.stop, more.stop)))


def lost_to_own_client(me: InstanceConfig, acted_before: bool, after: Reader) -> bool:
    """Another live process has the same client id: the two would alternate.

    Spec: LostToOwnClient.
    """
    return (
        acted_before
        and after.known
        and after.claim.owned
        and after.claim.owner_client == me.client_id
        and after.claim.owner_instance != me.instance_id
    )


def after_read(me: InstanceConfig, consumer: ConsumerState, record: Record) -> ConsumerState:
    """Fold one more record, and apply its consequences for this instance. Spec: AfterRead.

    The record must belong to the claim, and be the next one in the log that does.
    """
    after, verdict = read_record(consumer.reader, record, me.rules)
    return after_fold(me, consumer, record, after, verdict)


def after_fold(
    me: InstanceConfig,
    consumer: ConsumerState,
    record: Record,
    after: Reader,
    verdict: Verdict | None,
) -> ConsumerState:
    """The consequences of a record that is folded already, for this instance. Spec: AfterRead.

    All readers that read a log from its beginning fold it alike, so one fold can serve all of them.
    """
    before = consumer.reader
    acted, acting = acts_on(me, consumer, before), acts_on(me, consumer, after)
    own = record.message.instance_id == me.instance_id
    begins = acting and (not acted or before.claim.epoch != after.claim.epoch)
    # Most of what a consumer does is reading, so it is built by position, as in
    # `core.claims.fenced`.
    return ConsumerState(
        after,
        record.offset + 1,
        consumer.resigned,
        consumer.asked and not (own and isinstance(record.message, ClaimingPartition)),
        consumer.stopped or lost_to_own_client(me, acted, after),
        floor(me, after) if begins else consumer.next,
        _together(consumer.granted, grant_read(me, before, record, verdict)),
    )
