"""Our claims, from the win until nothing of them is in hand.

This room does what the machine asks for: it sends records, fetches claims from where they were won,
and hands messages over when that is allowed. It reports to the machine what the application does
with them. It does not know how the log is read, nor when it is time for anything. Only the loop
calls (`consumer_loop`), except where a docstring allows any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kafka_marshal.client.connect.log_writer import LogWriter, NotAppended
from kafka_marshal.client.connect.reader import Watermarks
from kafka_marshal.client.connect.threads import Lock
from kafka_marshal.client.coordinate.commits import Commit
from kafka_marshal.client.coordinate.inputs import AppendFinished, Input, Progressed
from kafka_marshal.client.coordinate.owned_partition import (
    OwnedPartition,
    OwnedPartitions,
    SentRelease,
)
from kafka_marshal.client.coordinate.recording import RecordedMember
from kafka_marshal.client.coordinate.session import Session
from kafka_marshal.client.coordinate.tenure_machine import AnyEffect, ClaimMachine, TenureMachine
from kafka_marshal.client.fetch.fetched_partition import FetchedPartition
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.message import Claim, Message, Range
from kafka_marshal.client.observe.health import ClaimProgress
from kafka_marshal.client.observe.health_monitor import HealthMonitor, WatchedClaim
from kafka_marshal.client.ranges.shared_claims import (
    OwnerAwaited,
    RangeAllowed,
    RangeFinished,
    RangeMachine,
    RangeRecalled,
    RangeStands,
    SharedClaimEffect,
    Spoke,
)
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import ClaimingRange, Heartbeat, Record, ReleasingPartition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import InvalidOption, MarshalError
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Lost, Process, Send, Won
from kafka_marshal.machines.ranges.effects import (
    LossReason,
    RangeCut,
    RangeGranted,
    RangeLost,
    SendRecord,
    TenureBegan,
    TenureEnded,
    WindowDiffers,
)
from kafka_marshal.validate import run

READ_BACK_MS: Final = 2_000
"""How long the end waits until a release is read back: only then Kafka hears of its position."""
WAKE_PARTS: Final = 16
"""Parts of a window: when one is done, the coordinator is notified before it looks itself."""
RANGE_PROGRESS_MS: Final = 10
"""How often the coordinator is notified of progress in the middle of a range, in milliseconds."""


TURN_MS: Final = 700
"""How long a claim's messages are given out one by one while another claim waits for its turn. The
coordinator looks every 0.25 s, so a turn ends within a second, or with the message in hand."""


class IdUsedTwice(MarshalError):
    """Two live processes use one client id in one group: they would take turns for ever."""


_LOST: Final = {
    LossReason.TAKEN: Lost.TAKEN,
    LossReason.ENDED: Lost.TAKEN,
    LossReason.POSITION_SET: Lost.PAUSED,
    LossReason.LOG_LOST_RECORDS: Lost.LOG_LOST_RECORDS,
}


def _refuse_range(claim: Claim, why: str) -> None:
    if claim.range is not None:
        raise InvalidOption(f"{claim.topic}/{claim.partition} is shared, and cannot be {why}")


class Ownership:
    """The claims of one consumer, whatever instance of it won them."""

    def __init__(
        self,
        me: InstanceConfig,
        group: str,
        session: Session,
        fetcher: Fetcher,
        log: LogWriter,
        health_monitor: HealthMonitor,
        post: Callable[[Input], None],
        new_lock: Callable[[], Lock],
    ) -> None:
        """What is posted is given to the loop later; a tenure gets a lock of `new_lock`."""
        self._me, self._group, self._new_lock = me, group, new_lock
        self._fetcher, self._log, self._post = fetcher, log, post
        self._health_monitor, self._observers = health_monitor, health_monitor.observers
        self._wake_after = max(1, me.window // WAKE_PARTS)
        self._coordinating: dict[str, int] = {}
        self.session = session
        """Whose machine is asked."""
        self.now_ms = 0
        """The time of what is handled now, by a clock that never steps back."""
        self.log_lost = False
        """What this session has sent says no more how far it is."""
        self._tenures = OwnedPartitions()
        self.to_commit: dict[ClaimKey, int] = {}
        """Positions that the log has, and Kafka's group offsets have not."""
        self._commits: list[Commit] = []
        """Commits that somebody waits for."""
        self.under_way = 0
        """Records that were sent, and nobody knows yet what became of them."""
        self.stopping = False
        self._abandons = False
        """At most once: nothing that is or will be granted will be processed."""
        self._alone_from: int | None = None
        self._any_busy = False
        """Something of a claim of ours was in work when it was last looked."""
        self._ends: Mapping[Claim, int] = {}
        """Where partitions ended when that was last looked."""
        self._buffered: Mapping[OwnedPartition, tuple[int, int]] = {}
        """How many messages waited in buffers then, and their bytes; empty where none did."""
        self._rests = False
        """Nothing was in hand or given up when it was last looked: what changes that has the loop
        look."""
        self._gave_back = 0
        """How many claims the member had begun to give back then."""
        self._rests_until_ms = 0
        """When a heartbeat is late by then, claims are to be looked at often."""

    @property
    def claims(self) -> list[Claim]:
        """What is ours now, as far as was read. Any thread may ask."""
        return [tenure.claim for tenure in self._tenures if tenure.claim.owned]

    @property
    def count(self) -> int:
        """How many are ours, or were and are not handed over to the end. Any thread may ask."""
        return len(self._tenures)

    @property
    def undrained(self) -> list[Claim]:
        """What is ours, and what was and is not handed over to the end. Any thread may ask."""
        return [tenure.claim for tenure in self._tenures]

    def claimed(self, topic: str, partition: int) -> OwnedPartition:
        """What is ours of this partition. Any thread may ask.

        Raises:
            InvalidOption: nothing.
        """
        tenure = self._tenures.newest(ClaimKey(self._group, topic, partition))
        if tenure is None or not tenure.claim.owned:
            raise InvalidOption(f"{topic}/{partition} is not claimed")
        return tenure

    def lag(self, topic: str, partition: int) -> int | None:
        """How far it is from the end of its partition, when that was last seen. Any thread may.

        Raises:
            InvalidOption: the partition is not claimed.
        """
        tenure = self.claimed(topic, partition)
        end = self._ends.get(tenure.claim)
        return None if end is None else max(0, end - tenure.next)

    @property
    def drained(self) -> bool:
        """No append is under way, and every release was read back or waited for long enough.

        At most once, all that was granted is done or abandoned.
        """
        granted = self._me.mode is Mode.AT_MOST_ONCE and len(self._tenures)
        return not self.under_way and not granted and not any(map(self._unread, self._tenures.all))

    @property
    def idle(self) -> bool:
        """The application has nothing in hand, and nothing that was granted is left for it."""
        granted = self._me.mode is Mode.AT_MOST_ONCE
        return not any(
            tenure.in_hand or (granted and tenure.next < tenure.allowed_end)
            for tenure in self._tenures
        )

    def _unread(self, tenure: OwnedPartition) -> bool:
        """Its release is about to be read back."""
        until_ms = None if tenure.release is None else tenure.release.until_ms
        return until_ms is not None and until_ms > self.now_ms

    # --- the log loses records --------------------------------------------------------------------

    def truncated(self) -> None:
        """At least once: what this session has read does not hold any more."""
        # The next owner goes on from Kafka's offsets, if nobody set a position.
        for tenure in self._tenures:
            if tenure.claim.lost is None and tenure.claim.range is None:
                self.look_at(tenure)
                self.to_commit[tenure.claim.key] = tenure.next
        self.log_lost = True
        self.carry_out(self.session.member.truncated())
        self.carry_out(self.session.shared.truncated())

    def begin_anew(self, session: Session) -> None:
        """Another instance goes on."""
        for tenure in self._tenures:
            self.lost(tenure, Lost.LOG_LOST_RECORDS)
        self.session, self.log_lost = session, False
        session.shared.begin_alone(self._alone_from)
        for tenure in self._tenures.all:
            if tenure.release is not None:
                tenure.release.until_ms = None
        self._coordinating.clear()  # the topic may have another number of partitions
        self._settle()

    # --- what is handed over ----------------------------------------------------------------------

    def in_hand(self, in_flight: InFlight) -> bool:
        """Whether the application may have the chunk that it has taken. Any thread may ask.

        Not where its claim was lost, paused, given up or moved meanwhile. The thread that decides
        that first changes it at `fetcher`, and then looks at what is in hand. So the chunk is
        either in hand by then, or is refused here.
        """
        tenure = self._tenures.of(in_flight.claim)
        if tenure is None or not tenure.take(in_flight, self._fetcher.keeps):
            return False
        if self._rests:
            self._rests = False
            self._post(Progressed(tenure))
        return True

    def may_begin(self, claim: Claim) -> bool:
        """Whether the application may begin a message of it now. Any thread may ask."""
        tenure = self._tenures.any_of(claim)
        return tenure is not None and tenure.fetched.may_begin

    def given_up(self, claim: Claim) -> bool:
        """At least once: it is ours until what is begun of it is done. Any thread may ask."""
        tenure = self._tenures.of(claim)
        return tenure is not None and tenure.withdrawn

    def progressed(self, in_flight: InFlight) -> None:
        """The application got further with this. Any thread may call it.

        While nobody waits for it the coordinator finds out when it looks: it is woken when that
        much of the window is done.
        """
        tenure = self._tenures.of(in_flight.claim)
        if tenure is None or tenure.notified:
            return
        claim = in_flight.claim
        waits = claim.lost is not None or tenure.withdrawn or self.stopping
        if claim.range is not None:  # the next range waits for its end
            waits |= tenure.fetched.ends_at(in_flight.end)
            much = in_flight.since_ms - tenure.notified_ms >= RANGE_PROGRESS_MS
        else:
            waits |= self._me.mode is Mode.AT_MOST_ONCE
            much = in_flight.end - tenure.next >= self._wake_after
        if waits or much:
            tenure.notified, tenure.notified_ms = True, in_flight.since_ms
            self._post(Progressed(tenure))

    # --- carrying out -----------------------------------------------------------------------------

    def carry_out(self, effects: Sequence[AnyEffect]) -> None:
        """What the machine asks for, in its order."""
        for each in effects:
            match each.effect:
                case Send() as send:
                    self._send(each.key, send)
                case Process(offsets=offsets):
                    self._process(each.key, offsets)
                case Won() as won:
                    self._won(each.key, won)
                case Lost() as reason:
                    tenure = self._tenures.newest(each.key)
                    if tenure is not None:
                        self.lost(tenure, reason)
                case _:
                    assert isinstance(each, SharedClaimEffect)
                    self._carry_out_of_range(each)

    def _carry_out_of_range(self, each: SharedClaimEffect) -> None:
        key = each.key
        match each.effect:
            case SendRecord() as send:
                self._send(key, send)
            case RangeGranted() as granted:
                self._granted(key, granted)
            case RangeAllowed(id=id_, offsets=offsets):
                self._allow(self._range(key, id_), offsets)
            case RangeRecalled(id=id_, but_next=but_next):
                self._recall(self._range(key, id_), but_next=but_next)
            case RangeStands(id=id_, offset=offset):
                tenure = self._range(key, id_)
                tenure.claim.committed = max(tenure.claim.committed, offset)
                self._settle()
            case RangeCut(id=id_, to=end):
                tenure = self._range(key, id_)
                if tenure.claim.owned:
                    self._fetcher.cut(tenure.fetched, end)
            case RangeFinished(id=id_):
                tenure = self._range(key, id_)
                tenure.claim.committed = max(tenure.claim.committed, tenure.next)
                self.lost(tenure, Lost.FINISHED)
            case RangeLost(id=id_, reason=why):
                self.lost(self._range(key, id_), _LOST[why])
            case Spoke():
                self._heard([each for each in self._tenures.of_key(key) if each.claim.owned])
            case OwnerAwaited(client=client):
                self._observers.awaits_owner(key, client)
            case TenureEnded() | TenureBegan():
                pass
            case WindowDiffers(window=window):
                self._health_monitor.note(
                    f"{key.topic}/{key.topic_partition} is shared under window {window}, and this "
                    f"consumer has {self.session.shared.window}: it takes no part; all that share "
                    f"a partition need the same semantics and window"
                )

    def _begin(
        self, claim: Claim, machine: TenureMachine, fetched: FetchedPartition, watched: WatchedClaim
    ) -> None:
        """A claim or a range is ours, from its position on."""
        begins, lock = claim.position, self._new_lock()
        tenure = OwnedPartition(claim, machine, fetched, watched, begins, begins, lock=lock)
        self._tenures.begin(tenure)

    def _range(self, key: ClaimKey, range_id: int) -> OwnedPartition:
        return next(each for each in self._tenures.of_key(key) if each.claim.epoch == range_id)

    def _granted(self, key: ClaimKey, granted: RangeGranted) -> None:
        """A range is ours; nothing of it may be handed over yet."""
        id_, from_, to = granted.id, granted.from_, granted.to
        claim = Claim(key, key.topic, key.topic_partition, id_, from_)
        shared = self.session.shared.of(key)
        assert shared is not None, "what was granted was granted to a participant"
        claim.range = Range(id_, from_, to, shared.ranges[id_].deliveries)
        fetched = self._fetcher.open(claim, from_, to)
        watched = self._health_monitor.unwatched(claim, self.now_ms)
        self._begin(claim, shared.ranges[id_], fetched, watched)
        self._rests = False
        self._observers.range_granted(claim)

    def _send(self, key: ClaimKey, send: Send | SendRecord) -> None:
        partition = self._coordinating.get(key.topic)
        if partition is None:
            partition = coordinating_partition(key.topic, self.session.member.partitions)
            self._coordinating[key.topic] = partition
        self.under_way += 1
        tenure = self._tenures.newest(key)
        release = None
        if tenure is not None and isinstance(send, Send):
            if isinstance(send.message, ReleasingPartition):
                release = tenure.release = SentRelease()
            self._health_monitor.sent(tenure.watched, send, self._standing(tenure), self.now_ms)
        session = self.session
        session.has_sent = True
        if isinstance(send, Send):
            appended = self._log.append(partition, send.message, send.headers)
        else:
            appended = self._log.append_of_ranges(partition, send)
            if isinstance(send.message, ClaimingRange):
                ranges = self._tenures.of_key(key)
                self._health_monitor.spoke((each.watched for each in ranges), self.now_ms)
        appended.add_done_callback(
            lambda done: self._post(
                AppendFinished(session, key, send, release, done.exception() or done.result())
            )
        )

    def appended(self, given: AppendFinished) -> None:
        """An append has an outcome.

        Raises:
            NotAppended: the record is nowhere, and will not be.
        """
        self.under_way -= 1
        key, release, outcome = given.key, given.release, given.outcome
        message = given.send.message
        if not isinstance(outcome, BaseException):
            self._observers.appended(key, type(message).__name__, outcome.seconds)
            if release is not None and release.until_ms is not None:
                release.until_ms = self.now_ms + READ_BACK_MS
            return
        if release is not None:
            release.until_ms = None
            self._settle()
        if isinstance(outcome, NotAppended):
            raise outcome
        self._observers.unknown(key, type(message).__name__, str(outcome))
        if given.session is self.session and not self.log_lost:
            if isinstance(given.send, Send):
                self.carry_out(given.session.member.outcome_unknown(given.send, self.now_ms))
            else:
                shared = given.session.shared
                self.carry_out(shared.outcome_unknown(key, given.send, self.now_ms))

    def _won(self, key: ClaimKey, won: Won) -> None:
        old = self._tenures.newest(key)
        if old is not None and old.claim.owned:
            self.lost(old, Lost.UNCERTAIN)
        claim = Claim(key, key.topic, key.topic_partition, won.epoch, won.position)
        now_ms, member = self.now_ms, self.session.member
        # The start policy may begin beyond what the log has, until the first heartbeat is read.
        machine = ClaimMachine(member, key, member.driver(key))
        claim.committed = min(won.position, machine.known.position)
        # Before anybody can see that it is ours.
        fetched = self._fetcher.open(claim, won.position)
        watched = self._health_monitor.watch(claim, now_ms)
        self._begin(claim, machine, fetched, watched)
        self._rests = False
        self._observers.claimed(claim)  # who may ask for it at once

    def _process(self, key: ClaimKey, offsets: range) -> None:
        tenure = self._tenures.newest(key)
        assert tenure is not None, "what was granted was granted to a tenure"
        self._allow(tenure, offsets)

    def _allow(self, tenure: OwnedPartition, offsets: range) -> None:
        if tenure.abandoned or tenure.drained:
            self._observers.abandoned(tenure.claim, offsets)
            return
        tenure.allowed_end = offsets.stop
        if self._me.mode is Mode.AT_MOST_ONCE:
            tenure.claim.committed = offsets.stop  # which its grant says
        self._fetcher.allow(tenure.fetched, offsets)
        if self.stopping:
            self._fetch_what_was_granted(tenure)

    def _recall(self, tenure: OwnedPartition, *, but_next: bool = False) -> None:
        """At most once: nothing more of a range may be begun than was handed over by now.

        The application takes messages meanwhile, so that is decided at the fetcher, under its lock.
        """
        machine = tenure.machine
        assert isinstance(machine, RangeMachine)
        if tenure.next >= tenure.allowed_end:
            return
        end = self._fetcher.recall(tenure.fetched, tenure.next if but_next else None)
        tenure.claim.committed = tenure.allowed_end = max(tenure.next, end)
        if tenure.claim.owned:
            self.carry_out(machine.recalled(end, self.now_ms))

    def lost(self, tenure: OwnedPartition, reason: Lost) -> None:
        """A claim is not ours any more.

        Before anybody can see that, nothing more of it is given out, but for what was granted.
        """
        claim = tenure.claim
        self._rests = False
        at_most_once = self._me.mode is Mode.AT_MOST_ONCE
        if at_most_once and claim.range is not None:
            taken_end = max(tenure.next, self._fetcher.recall(tenure.fetched))
            tenure.allowed_end = min(tenure.allowed_end, taken_end)
        granted = at_most_once and tenure.next < tenure.allowed_end
        if granted and reason is not Lost.LOG_LOST_RECORDS:
            dropped = self._fetcher.end_at(tenure.fetched, tenure.allowed_end)
        else:
            dropped = self._fetcher.drop(tenure.fetched)
            tenure.cut()
            tenure.allowed_end = min(tenure.allowed_end, tenure.given_end)
        if claim.lost is None and claim.range is not None:
            claim.lost = reason
            self._observers.range_ended(claim, reason)
            self._settle()
        elif claim.lost is None:
            if reason is Lost.RELEASED:
                claim.released = tenure.machine.released
            claim.lost = reason
            if reason in (Lost.TAKEN, Lost.PAUSED, Lost.ID_USED_TWICE):
                self.to_commit.pop(claim.key, None)  # others say now where the group is
            known = tenure.machine.known
            self._health_monitor.lost(tenure.watched, reason, tenure.next, known, self.now_ms)
            self._settle()
        if dropped:
            self._observers.dropped(claim, dropped)
        # The application may have got further while observers heard of it.
        self.look_at(tenure)
        if reason is Lost.ID_USED_TWICE:
            raise IdUsedTwice(
                f"client id {self._me.client_id} of group {self._group} is used by another "
                f"process that lives: it took {claim.topic}/{claim.partition} from us; give every "
                f"process an id of its own"
            )

    def _forget_if_drained(self, tenure: OwnedPartition) -> None:
        claim = tenure.claim
        if tenure.drained or claim.lost is None or tenure.in_hand:
            return
        self._done(tenure, tenure.reached())  # what was finished since it was last looked
        if self._me.mode is Mode.AT_MOST_ONCE and tenure.next < tenure.allowed_end:
            return
        self._fetcher.drop(tenure.fetched)
        self._report_given(tenure)
        if self._me.mode is Mode.AT_MOST_ONCE:
            self._record_handed_over(tenure)
        since = max(claim.position, tenure.answered)
        done = self._me.mode is Mode.AT_LEAST_ONCE and tenure.next > since
        self._tenures.drained(tenure, counts=done)
        if claim.range is None:
            self._observers.drained(claim)

    def _record_handed_over(self, tenure: OwnedPartition) -> None:
        """Of a range nothing more is handed over."""
        claim, member = tenure.claim, self.session.member
        if claim.range is not None and isinstance(member, RecordedMember):
            of = member.me.instance_id, claim.key, claim.epoch
            member.write(run.handed_over(*of, tenure.handed_over))

    def ended(self) -> None:
        """At most once: hand over nothing more of ranges, so that it is known what was."""
        for tenure in self._tenures:
            if self._me.mode is Mode.AT_MOST_ONCE and tenure.claim.range is not None:
                self._fetcher.drop(tenure.fetched)
                tenure.cut()
                self._record_handed_over(tenure)

    # --- what the application has done ------------------------------------------------------------

    def fetched(self, claim: Claim, end: int) -> None:
        """A claim's messages below this were fetched."""
        tenure = self._tenures.of(claim)
        if tenure is not None and claim.lost is None:
            self.carry_out(tenure.machine.available(end, self.now_ms))

    def gone(self, claim: Claim, first: int, extent: Watermarks) -> None:
        """A claim's messages from `first` on are gone from the topic, which holds others.

        What was fetched before is not gone: it is handed over first.
        """
        low, high = extent.low, extent.high
        self._health_monitor.note(
            f"{claim.topic}/{claim.partition}: messages {first} to {low - 1} are gone from the "
            f"topic and cannot be consumed any more"
        )
        # A lost tenure may be drained by now: nothing is left of it for the application to take.
        tenure = self._tenures.of(claim)
        if tenure is None or claim.lost is not None:
            return
        self.carry_out(tenure.machine.extent(low, high, self.now_ms))
        if tenure.next >= first:
            self._done(tenure, low)

    def look_at(self, tenure: OwnedPartition) -> None:
        """See how far the application got with it."""
        tenure.notified = False  # before it is looked at, so nothing that comes later is missed
        if not tenure.untouched:
            reached = tenure.reached()
            self._report_given(tenure)
            self._done(tenure, reached)
        if tenure.claim.lost is not None:
            self._forget_if_drained(tenure)
        elif isinstance(tenure.machine, RangeMachine) and tenure.given_out:
            self.carry_out(tenure.machine.was_given_out(self.now_ms))

    def _report_given(self, tenure: OwnedPartition) -> None:
        given = tenure.newly_given()
        if given:
            self._observers.handed_over(tenure.claim, given)

    def _done(self, tenure: OwnedPartition, offset: int) -> None:
        if offset <= tenure.next:
            return
        further, tenure.next = offset - tenure.next, offset
        if tenure.claim.lost is not None:
            return
        self._observers.done(tenure.claim, offset, further)
        granted = self._me.mode is Mode.AT_MOST_ONCE and tenure.claim.range is None
        if granted and offset < tenure.allowed_end:
            return
        self.carry_out(tenure.machine.done(offset, self.now_ms))

    def ends(self, ends: Mapping[Claim, int]) -> None:
        """Partitions of ours end here."""
        for claim, high in ends.items():
            tenure = self._tenures.of(claim)
            if tenure is not None and claim.lost is None:
                self.carry_out(tenure.machine.extent(0, high, self.now_ms))

    def shared_end(self, key: ClaimKey, end: int) -> None:
        """A partition that we share ends here."""
        shared = self.session.shared.of(key)
        if shared is not None and not self.log_lost:
            self.carry_out(shared.ended_at(end, self.now_ms))

    # --- giving up --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin to give everything up."""
        if not self.stopping:
            self.stopping, self._rests = True, False
            shared = self.session.shared
            self.carry_out(self.session.member.stop(self.now_ms))
            shared.begin_to_leave()
            self.withdraw_unwanted()
            # Only now it is known what nobody has begun.
            self.carry_out(shared.leave(self.now_ms))
            for tenure in self._tenures:
                if tenure.handlers_left:  # for which `run` has waited
                    self._handlers_done(tenure)
                self._fetch_what_was_granted(tenure)

    def _fetch_what_was_granted(self, tenure: OwnedPartition) -> None:
        """At most once, after `stop`: nothing else is needed; what is nowhere is not awaited."""
        if self._me.mode is Mode.AT_MOST_ONCE and tenure.next < tenure.allowed_end:
            self._fetcher.drain(tenure.fetched, tenure.allowed_end)

    def say_what_is_paused(self) -> None:
        """At most once: the end waits for what was granted, which nobody else will get."""
        for tenure in self._tenures:
            if tenure.paused and tenure.next < tenure.allowed_end:
                self._health_monitor.note(
                    f"{tenure.claim.topic}/{tenure.claim.partition} is paused, and messages "
                    f"{tenure.next} to {tenure.allowed_end - 1} of it were granted: the consumer "
                    f"ends when it is resumed, or closed"
                )

    def withdraw_unwanted(self) -> None:
        """At least once: what is given up and was not begun is not waited for."""
        if self._me.mode is Mode.AT_MOST_ONCE:
            if self._abandons:
                self._abandon_grants(release=True)
            for tenure in self._tenures:
                if tenure.claim.range is not None and not tenure.machine.wants:
                    self._recall(tenure)
            return
        for tenure in self._tenures:
            if tenure.withdrawn or tenure.claim.lost is not None or tenure.machine.wants:
                continue
            tenure.withdrawn = True
            self._fetcher.drop(tenure.fetched)
            end = max([tenure.next, *tenure.cut()])
            self.look_at(tenure)
            self.carry_out(tenure.machine.hand_back(end, end, self.now_ms))

    def release(self, topic: str, partition: int) -> None:
        """Give one claim up, and leave it to others for a while."""
        try:
            claim = self.claimed(topic, partition).claim
        except InvalidOption:
            if self.stopping:
                return  # it was given up already
            raise
        _refuse_range(claim, "released: remove_topic ends what this consumer does of it")
        self.carry_out(self.session.member.release(claim.key, self.now_ms))
        self.withdraw_unwanted()

    def remove_topic(self, topic: str) -> None:
        """Give up what is claimed of a topic, and ask for none of it any more."""
        self._rests = False
        shared = self.session.shared
        if topic in shared.topics:
            shared.begin_to_leave(topic)
            self.withdraw_unwanted()
            self.carry_out(shared.leave(self.now_ms, topic))
            return
        self.carry_out(self.session.member.remove_topic(topic, self.now_ms))
        self.withdraw_unwanted()

    def abandon(self, in_flight: InFlight) -> None:
        """The application will not finish what it has in hand."""
        in_flight.abandon()
        tenure = self._tenures.of(in_flight.claim)
        if tenure is None:
            return
        self.look_at(tenure)
        if in_flight.claim.lost is None and tenure.withdrawn:
            self.carry_out(tenure.machine.hand_back(tenure.next, tenure.given_end, self.now_ms))

    def give_again(self, firsts: Iterable[InFlight]) -> None:
        """At least once: give out again what is not done of these and of what was taken after.

        Only where the claim is still ours; what was given up is handed back. Nothing of what a
        `seek` has taken back meanwhile.
        """
        for first in firsts:
            tenure = self._tenures.of(first.claim)
            hands = [] if tenure is None else tenure.hands_from(first)
            if tenure is None or not hands:
                continue
            self._fetcher.seek(tenure.fetched, first.next)
            for in_flight in hands:
                self.abandon(in_flight)
            tenure.forget(hands)
            self.look_at(tenure)

    def begin_alone(self, deliveries: int | None) -> None:
        """Begin one by one what was given to somebody this often, of shared partitions."""
        self._alone_from = deliveries
        self.session.shared.begin_alone(deliveries)

    def handlers_left(self, claim: Claim, *, at_work: bool) -> None:
        """A `run` has ended, and handlers of it have some of this claim in hand, or no longer have.

        Meanwhile nothing of it is given out: a message would be in two hands, and those after it
        would overtake it.
        """
        tenure = self._tenures.of(claim)
        if tenure is None or tenure.handlers_left == at_work:
            return
        tenure.handlers_left = at_work
        if at_work and not self.stopping:
            self._fetcher.pause(tenure.fetched)
        else:
            self._handlers_done(tenure)

    def _handlers_done(self, tenure: OwnedPartition) -> None:
        """What handlers of a `run` that has ended had in hand is waited for no longer."""
        tenure.handlers_left = False
        self.give_again(tenure.handled[:1])
        self._go_on(tenure)

    def _go_on(self, tenure: OwnedPartition) -> None:
        if tenure.may_go_on:
            self._fetcher.resume(tenure.fetched)

    def abandon_rest(self, *, release: bool = True) -> None:
        """The application will finish nothing of what it has in hand, and take nothing more."""
        for tenure in self._tenures:
            for in_flight in tenure.hands:
                if not in_flight.finished:
                    self.abandon(in_flight)
        if self._me.mode is Mode.AT_MOST_ONCE:
            self._abandons = release
            self._abandon_grants(release=release)

    def _abandon_grants(self, *, release: bool) -> None:
        """At most once: report what was granted and not done, and free the claims if `release`.

        The releases name the first offset that is not known to be processed.
        """
        for tenure in self._tenures:
            if tenure.abandoned:
                continue
            tenure.abandoned = True
            self._fetcher.drop(tenure.fetched)
            for in_flight in tenure.hands:
                in_flight.abandon()
            owned, reached, begun = tenure.claim.owned, tenure.reached(), tenure.given_end
            # What nobody has begun of a range is given back, and not lost.
            lost_end = begun if release and tenure.claim.range else tenure.allowed_end
            if reached < lost_end:
                self._observers.abandoned(tenure.claim, range(reached, lost_end))
            tenure.next = tenure.allowed_end = reached
            if owned and release:
                self.carry_out(tenure.machine.hand_back(reached, begun, self.now_ms))
            self._forget_if_drained(tenure)

    def ack(self, upto: Message | None) -> None:
        """What was given out one by one is done, up to this message. Any thread may call it.

        Raises:
            InvalidOption: another consumer gave the message out.
        """
        # What is lost is not owned any more before it is forgotten.
        if upto is not None and self._tenures.any_of(upto.claim) is None and upto.claim.owned:
            raise InvalidOption(f"{upto} was given out by another consumer")
        for tenure in self._tenures:
            if upto is None or tenure.claim is upto.claim:
                for in_flight in tenure.hands:
                    in_flight.commit(None if upto is None else upto.offset)
                    self.progressed(in_flight)

    def commit(self, upto: Message | None, commit: Commit) -> None:
        """Have the log hear of what is done, of all claims or of this message's.

        At most once there is nothing to wait for: the log granted all of it before it was given
        out.
        """
        done = {}
        if upto is None:
            done = {each.claim: each.next for each in self._tenures.all if each.unconfirmed}
        for tenure in self._tenures:
            if upto is None or tenure.claim is upto.claim:
                self.look_at(tenure)
                done[tenure.claim] = tenure.next
        if upto is not None:
            done[upto.claim] = min(upto.offset + 1, done.get(upto.claim, upto.offset + 1))
        commit.done = {} if self._me.mode is Mode.AT_MOST_ONCE else done
        self._commits.append(commit)
        for claim in commit.left:
            its = self._tenures.any_of(claim)
            if its is not None and claim.owned:
                self.carry_out(its.machine.commit(self.now_ms))
        self._settle()

    def _settle(self) -> None:
        """Tell those who wait for a commit what is known by now."""
        left = []
        for commit in self._commits:
            if not commit.settled(self._awaited, self._may_land):
                left.append(commit)
            elif not commit.future.cancelled():
                self._settle_commit(commit)
        self._commits = left

    def _settle_commit(self, commit: Commit) -> None:
        """The application knows what became of it, so no other commit has to say that."""
        for claim, end in commit.done.items():
            tenure = self._tenures.any_of(claim)
            if tenure is not None and not tenure.may_land:
                if claim.lost is not None:
                    tenure.answered = max(tenure.answered, end)
                self._confirm(tenure)

    def _confirm(self, tenure: OwnedPartition) -> None:
        """It is known how far it got, in the log or by the application."""
        tenure.unconfirmed = False
        self._tenures.end_if_over(tenure)

    def _awaited(self, claim: Claim) -> bool:
        tenure = self._tenures.any_of(claim)
        return tenure is not None and tenure.awaited

    def _may_land(self, claim: Claim) -> bool:
        tenure = self._tenures.any_of(claim)
        return tenure is not None and tenure.may_land

    def pause(self, claim: Claim) -> None:
        """Give out nothing more of it; what was given out stays in hand.

        Raises:
            InvalidOption: it is shared.
        """
        _refuse_range(claim, "paused: others of the group would wait for its ranges")
        tenure = self._tenures.of(claim)
        if tenure is not None:
            tenure.paused = True
            self._withhold(tenure)

    def _withhold(self, tenure: OwnedPartition) -> None:
        """Nothing more is taken, then nothing more is given out of what was taken before."""
        self._fetcher.pause(tenure.fetched)
        for in_flight in tenure.hands:
            before, end = in_flight.end, in_flight.cut()
            if end < before and in_flight.left:
                self._fetcher.seek(tenure.fetched, end)

    def resume(self, claim: Claim) -> None:
        """Go on with it."""
        tenure = self._tenures.of(claim)
        if tenure is not None:
            tenure.paused = False
            self._go_on(tenure)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Pass over what lies before this offset."""
        tenure = self.claimed(topic, partition)
        _refuse_range(tenure.claim, "sought in: marshal set-position moves all who share it")
        if self._me.mode is Mode.AT_MOST_ONCE:
            raise InvalidOption("at most once a consumer takes what was granted to it")
        self.look_at(tenure)
        if offset < tenure.next:
            raise InvalidOption(
                f"{topic}/{partition}: everything below {tenure.next} is done; marshal "
                f"set-position goes back"
            )
        self._fetcher.seek(tenure.fetched, offset)
        hands = tenure.hands
        for in_flight in hands:
            self.abandon(in_flight)
        tenure.forget(hands)
        offset = max(offset, tenure.next)
        high = max(offset, tenure.allowed_end)
        self.carry_out(tenure.machine.extent(offset, high, self.now_ms))
        self._fetcher.seek(tenure.fetched, offset)
        self._done(tenure, offset)

    @property
    def rests_until_ms(self) -> int | None:
        """Until when nothing has to be looked at, unless an input comes; None where something has.

        An application that has nothing in hand gets no further, so that is most of the time where
        messages are few.
        """
        if not self._rests or self._gave_back != self.session.member.gave_back:
            return None
        return self._rests_until_ms

    def look(self) -> None:
        """See how far the application got with everything."""
        tenures = list(self._tenures)
        # Before it is looked: who takes something after that posts it.
        self._rests = not self.stopping
        self._gave_back = self.session.member.gave_back
        self._rests_until_ms = min(
            (tenure.watched.heartbeats.late_ms for tenure in tenures), default=2**62
        )
        for tenure in tenures:
            self.look_at(tenure)
        self._hold_back_what_is_silent()
        # Where one of these is stuck that is reported. Nobody reports what is paused or lost, so
        # others that wait behind it are.
        self._any_busy = False
        for tenure in tenures:
            hands = [] if tenure.untouched else tenure.hands
            idle = tenure.withheld or tenure.claim.lost is not None
            tenure.busy = not idle and any(map(_in_work, hands))
            self._any_busy |= tenure.busy
            if hands or tenure.claim.lost is not None or not tenure.machine.wants:
                self._rests = False
            self._end_turn(tenure, hands)
        self.withdraw_unwanted()

    def _end_turn(self, tenure: OwnedPartition, hands: Iterable[InFlight]) -> None:
        """Whose messages were given out one by one for long enough, waits for its next turn."""
        since_ms = self.now_ms - TURN_MS
        for in_flight in hands:
            if in_flight.since_ms <= since_ms:
                self._fetcher.give_back(tenure.fetched, in_flight)

    def _hold_back_what_is_silent(self) -> None:
        """At least once: begin nothing of what others may take, and would process again.

        At most once nobody else is granted the same, so nothing is held back.
        """
        stale_ms, now_ms = self._me.rules.stale_after_ms, self.now_ms
        if self._me.mode is Mode.AT_MOST_ONCE:
            return
        found = []
        for tenure in self._tenures:
            claim = tenure.claim
            silent_ms = tenure.watched.heartbeats.silent_ms(now_ms)
            if claim.owned and not claim.silent and silent_ms > stale_ms:
                self._withhold(tenure)
                claim.silent = True
                found.append(claim)
        self._health_monitor.silent(found, stale_ms / 1000)

    def read_back(self, record: Record) -> None:
        """A record of ours was read, and the machine knows what it did.

        Kafka's group offsets follow the positions in the log: what was refused moves neither, since
        somebody may have set the position meanwhile.
        """
        message = record.message
        if not isinstance(message, Heartbeat | ReleasingPartition):
            return
        key, epoch = message.key, record.headers.epoch
        if self.session.shared.of(key) is not None:
            return  # it was owned alone to say where to begin
        member = self.session.member
        reader = member.driver(key).consumer.reader
        tenures = self._tenures.of_key(key)
        # A log that lost records may give the epoch of an earlier session's tenure once more.
        its = [each for each in tenures if each.machine.of(member) and each.claim.epoch == epoch]
        # Where the owner is not certain, epoch and position are guesses.
        if reader.known and epoch == reader.claim.epoch and not self.log_lost:
            position = self.to_commit[key] = reader.claim.position
            for tenure in its:
                tenure.claim.committed = max(tenure.claim.committed, position)
            for tenure in tenures:
                if tenure.next <= position:
                    self._confirm(tenure)
        for tenure in its:
            if isinstance(message, ReleasingPartition):
                tenure.release = None
                self._tenures.end_if_over(tenure)
            elif tenure.claim.owned:
                self._heard([tenure])
        self._settle()

    def _heard(self, tenures: Sequence[OwnedPartition]) -> None:
        """A heartbeat of ours was read back: the claim is ours, or these ranges of a partition."""
        self._health_monitor.heard((each.watched for each in tenures), self.now_ms)
        silent = [each for each in tenures if each.claim.silent]
        for tenure in silent:
            tenure.claim.silent = False
        if silent:
            self._health_monitor.heard_again(silent[0].claim)
        for tenure in silent:
            self._go_on(tenure)

    def drop(self) -> None:
        """It ends by a failure: give out nothing more."""
        if self._me.mode is Mode.AT_MOST_ONCE:
            self._abandon_grants(release=False)
        for tenure in self._tenures:
            self._fetcher.drop(tenure.fetched)
            tenure.cut()

    def stand(self, ends: Mapping[Claim, int]) -> None:
        """Tell how all claims stand, given where partitions end."""
        self._ends, self._buffered = ends, {}
        if self._fetcher.any_buffered:
            self._buffered = {each: self._fetcher.buffered(each.fetched) for each in self._tenures}
        for tenure in self._tenures if self._observers.wants_standing else ():
            if tenure.claim.lost is None and tenure.claim.range is None:
                self._observers.standing(tenure.claim, self._standing(tenure))

    def _standing(self, tenure: OwnedPartition) -> ClaimProgress:
        end, buffered = self._ends.get(tenure.claim), self._buffered.get(tenure, (0, 0))
        return tenure.standing(end, buffered, others_busy=self._any_busy)


def _in_work(in_flight: InFlight) -> bool:
    """Whether the application, or a worker, has begun something of it and is not done."""
    return not in_flight.finished and not in_flight.idle
