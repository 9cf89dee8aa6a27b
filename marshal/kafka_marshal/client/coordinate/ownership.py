"""The claims of one consumer, each from its win until the application has none of its messages.

This module carries out the machine's effects: it sends records, fetches a claim from the position
at which it was won, and delivers messages once the machine allows it. It reports to the machine
what the application has finished. It knows neither how the log is read nor when work is due. Only
`consumer_loop` calls it, except where a docstring allows any thread.
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
"""How long `stop` waits until a release is read back, in milliseconds. Only then is its position
committed to Kafka."""
WAKE_PARTS: Final = 16
"""When this fraction of the window is done, the coordinator is notified at once."""
RANGE_PROGRESS_MS: Final = 10
"""How often the coordinator is notified of progress in the middle of a range, in milliseconds."""
TURN_MS: Final = 700
"""How long a claim's messages are delivered one by one while another claim waits for its turn. The
coordinator checks every 0.25 s, so a turn ends within a second, or with the current message."""


class IdUsedTwice(MarshalError):
    """Two live processes use one client id in one group: they would take each other's claims."""


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
        """`post` adds an input for the loop; each tenure gets its own lock from `new_lock`."""
        self._me, self._group, self._new_lock = me, group, new_lock
        self._fetcher, self._log, self._post = fetcher, log, post
        self._health_monitor, self._observers = health_monitor, health_monitor.observers
        self._wake_after = max(1, me.window // WAKE_PARTS)
        self._coordinating: dict[str, int] = {}
        self.session = session
        """The session whose machines decide."""
        self.now_ms = 0
        """The time of the current input, by a clock that never steps back."""
        self.log_lost = False
        """The log lost records, so it no longer holds all that this session has sent."""
        self._tenures = OwnedPartitions()
        self.to_commit: dict[ClaimKey, int] = {}
        """Positions that the log holds, and that are not committed to Kafka yet."""
        self._commits: list[Commit] = []
        """Pending commits."""
        self.under_way = 0
        """The number of sent records without an outcome."""
        self.stopping = False
        self._abandons = False
        """At most once: the application processes nothing more, whatever is granted."""
        self._alone_from: int | None = None
        self._any_busy = False
        """The application was processing messages of any claim at the last check."""
        self._ends: Mapping[Claim, int] = {}
        """The end offset of each claim's partition when it was last fetched."""
        self._buffered: Mapping[OwnedPartition, tuple[int, int]] = {}
        """The number of messages in each claim's buffer at that time, and their bytes."""
        self._rests = False
        """At the last check the application had no messages, and no claim was being given up. A
        change of that triggers the next check."""
        self._gave_back = 0
        """How many claims the member had begun to give back at that time."""
        self._rests_until_ms = 0
        """When the first heartbeat is late. From then on claims are checked often."""

    @property
    def claims(self) -> list[Claim]:
        """The claims that we own, as far as the log was read. Any thread may ask."""
        return [tenure.claim for tenure in self._tenures if tenure.claim.owned]

    @property
    def count(self) -> int:
        """The number of `undrained` claims. Any thread may ask."""
        return len(self._tenures)

    @property
    def undrained(self) -> list[Claim]:
        """The claims that we own, and lost ones of which the application still has messages.

        Any thread may ask.
        """
        return [tenure.claim for tenure in self._tenures]

    def claimed(self, topic: str, partition: int) -> OwnedPartition:
        """The tenure in which we own this partition. Any thread may ask.

        Raises:
            InvalidOption: we do not own it.
        """
        tenure = self._tenures.newest(ClaimKey(self._group, topic, partition))
        if tenure is None or not tenure.claim.owned:
            raise InvalidOption(f"{topic}/{partition} is not claimed")
        return tenure

    def lag(self, topic: str, partition: int) -> int | None:
        """The number of offsets up to the last known end of the partition; None if unknown.

        Any thread may ask.

        Raises:
            InvalidOption: the partition is not claimed.
        """
        tenure = self.claimed(topic, partition)
        end = self._ends.get(tenure.claim)
        return None if end is None else max(0, end - tenure.next)

    def known_end(self, topic: str, partition: int) -> int:
        """An offset that this partition, which we own alone, is known to reach. Any thread may ask.

        Raises:
            InvalidOption: we do not own it, share it, or consume it at most once.
        """
        tenure = self.claimed(topic, partition)
        self._refuse_to_seek(tenure)
        return max(tenure.delivered_end, tenure.fetched.notified)

    def _refuse_to_seek(self, tenure: OwnedPartition) -> None:
        _refuse_range(tenure.claim, "sought in: marshal set-position moves all who share it")
        if self._me.mode is Mode.AT_MOST_ONCE:
            raise InvalidOption(
                "seek is for at_least_once: at most once the log grants messages in order"
            )

    @property
    def drained(self) -> bool:
        """Whether every append has an outcome, and no release is waited for any longer.

        At most once, all granted messages are also finished or abandoned.
        """
        granted = self._me.mode is Mode.AT_MOST_ONCE and len(self._tenures)
        return not self.under_way and not granted and not any(map(self._unread, self._tenures.all))

    @property
    def idle(self) -> bool:
        """Whether the application has no messages, and no granted ones are left for it."""
        granted = self._me.mode is Mode.AT_MOST_ONCE
        return not any(
            tenure.unfinished or (granted and tenure.next < tenure.allowed_end)
            for tenure in self._tenures
        )

    def _unread(self, tenure: OwnedPartition) -> bool:
        """Whether its release is about to be read back."""
        until_ms = None if tenure.release is None else tenure.release.until_ms
        return until_ms is not None and until_ms > self.now_ms

    # --- the log loses records --------------------------------------------------------------------

    def truncated(self) -> None:
        """At least once: the log lost records, so this session's view of it is wrong."""
        # The next owner continues from Kafka's offsets, unless a position was set.
        for tenure in self._tenures:
            if tenure.claim.lost is None and tenure.claim.range is None:
                self.look_at(tenure)
                self.to_commit[tenure.claim.key] = tenure.next
        self.log_lost = True
        self.carry_out(self.session.member.truncated())
        self.carry_out(self.session.shared.truncated())

    def begin_anew(self, session: Session) -> None:
        """Continue with another session, as a new instance."""
        for tenure in self._tenures:
            self.lost(tenure, Lost.LOG_LOST_RECORDS)
        self.session, self.log_lost = session, False
        session.shared.begin_alone(self._alone_from)
        for tenure in self._tenures.all:
            if tenure.release is not None:
                tenure.release.until_ms = None
        self._coordinating.clear()  # the topic may have another number of partitions
        self._settle()

    # --- delivery ---------------------------------------------------------------------------------

    def accept(self, in_flight: InFlight) -> bool:
        """Add a chunk that the application has taken. Any thread may call it.

        Returns False if its claim was lost, paused, given up or moved meanwhile. The thread that
        decides so first tells `fetcher`, and then checks the current chunks. So it either finds
        this chunk there, or the chunk is refused here.
        """
        tenure = self._tenures.of(in_flight.claim)
        if tenure is None or not tenure.take(in_flight, self._fetcher.keeps):
            return False
        if self._rests:
            self._rests = False
            self._post(Progressed(tenure))
        return True

    def may_begin(self, claim: Claim) -> bool:
        """Whether the application may begin a message of the claim now. Any thread may ask."""
        tenure = self._tenures.any_of(claim)
        return tenure is not None and tenure.fetched.may_begin

    def given_up(self, claim: Claim) -> bool:
        """At least once: whether we own it until begun messages are done. Any thread may ask."""
        tenure = self._tenures.of(claim)
        return tenure is not None and tenure.withdrawn

    def progressed(self, in_flight: InFlight) -> None:
        """The application has finished more of this chunk. Any thread may call it.

        The coordinator is notified at once if anything waits for the progress, or if a part of the
        window is done (`WAKE_PARTS`). Otherwise it finds out at its next check.
        """
        tenure = self._tenures.of(in_flight.claim)
        if tenure is None or tenure.notified:
            return
        claim = in_flight.claim
        waits = claim.lost is not None or tenure.withdrawn or self.stopping
        if claim.range is not None:  # the next range waits for the end of this one
            waits |= tenure.fetched.ends_at(in_flight.end)
            much = in_flight.since_ms - tenure.notified_ms >= RANGE_PROGRESS_MS
        else:
            waits |= self._me.mode is Mode.AT_MOST_ONCE
            much = in_flight.end - tenure.next >= self._wake_after
        if waits or much:
            tenure.notified, tenure.notified_ms = True, in_flight.since_ms
            self._post(Progressed(tenure))

    # --- effects ----------------------------------------------------------------------------------

    def carry_out(self, effects: Sequence[AnyEffect]) -> None:
        """Carry out the machine's effects, in its order."""
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
        """We own a claim or a range, from its position on."""
        begins, lock = claim.position, self._new_lock()
        tenure = OwnedPartition(claim, machine, fetched, watched, begins, begins, lock=lock)
        self._tenures.begin(tenure)

    def _range(self, key: ClaimKey, range_id: int) -> OwnedPartition:
        return next(each for each in self._tenures.of_key(key) if each.claim.epoch == range_id)

    def _granted(self, key: ClaimKey, granted: RangeGranted) -> None:
        """We own a range; none of its messages may be delivered yet."""
        id_, from_, to = granted.id, granted.from_, granted.to
        claim = Claim(key, key.topic, key.topic_partition, id_, from_)
        shared = self.session.shared.of(key)
        assert shared is not None, "a range is granted to a participant"
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
            self._health_monitor.sent(tenure.watched, send, self._progress(tenure), self.now_ms)
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
            NotAppended: the record is not in the log, and never will be.
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
        # By the start policy it may begin beyond the log's position, until a heartbeat is read.
        machine = ClaimMachine(member, key, member.driver(key))
        claim.committed = min(won.position, machine.known.position)
        # Before other threads can see that we own it.
        fetched = self._fetcher.open(claim, won.position)
        watched = self._health_monitor.watch(claim, now_ms)
        self._begin(claim, machine, fetched, watched)
        self._rests = False
        self._observers.claimed(claim)  # an observer may ask for it at once

    def _process(self, key: ClaimKey, offsets: range) -> None:
        tenure = self._tenures.newest(key)
        assert tenure is not None, "messages are granted to a tenure"
        self._allow(tenure, offsets)

    def _allow(self, tenure: OwnedPartition, offsets: range) -> None:
        if tenure.abandoned or tenure.drained:
            self._observers.abandoned(tenure.claim, offsets)
            return
        tenure.allowed_end = offsets.stop
        if self._me.mode is Mode.AT_MOST_ONCE:
            tenure.claim.committed = offsets.stop  # the position of the grant
        self._fetcher.allow(tenure.fetched, offsets)
        if self.stopping:
            self._fetch_what_was_granted(tenure)

    def _recall(self, tenure: OwnedPartition, *, but_next: bool = False) -> None:
        """At most once: of a range, nothing more may be begun than was delivered by now.

        The application takes messages meanwhile, so the fetcher decides it under its lock.
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
        """We do not own a claim any more.

        Before other threads can see that, delivery ends, except for granted messages.
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
            tenure.allowed_end = min(tenure.allowed_end, tenure.delivered_end)
        if claim.lost is None and claim.range is not None:
            claim.lost = reason
            self._observers.range_ended(claim, reason)
            self._settle()
        elif claim.lost is None:
            if reason is Lost.RELEASED:
                claim.released = tenure.machine.released
            claim.lost = reason
            if reason in (Lost.TAKEN, Lost.PAUSED, Lost.ID_USED_TWICE):
                self.to_commit.pop(claim.key, None)  # its position is another owner's now
            known = tenure.machine.known
            self._health_monitor.lost(tenure.watched, reason, tenure.next, known, self.now_ms)
            self._settle()
        if dropped:
            self._observers.dropped(claim, dropped)
        # The application may have finished more while observers were notified.
        self.look_at(tenure)
        if reason is Lost.ID_USED_TWICE:
            raise IdUsedTwice(
                f"client id {self._me.client_id} of group {self._group} is used by another "
                f"process that lives: it took {claim.topic}/{claim.partition} from us; give every "
                f"process an id of its own"
            )

    def _forget_if_drained(self, tenure: OwnedPartition) -> None:
        """Forget a lost tenure once the application has none of its messages."""
        claim = tenure.claim
        if tenure.drained or claim.lost is None or tenure.unfinished:
            return
        self._done(tenure, tenure.reached())  # finished since the last check
        if self._me.mode is Mode.AT_MOST_ONCE and tenure.next < tenure.allowed_end:
            return
        self._fetcher.drop(tenure.fetched)
        self._report_delivered(tenure)
        if self._me.mode is Mode.AT_MOST_ONCE:
            self._record_delivered(tenure)
        since = max(claim.position, tenure.answered)
        done = self._me.mode is Mode.AT_LEAST_ONCE and tenure.next > since
        self._tenures.drained(tenure, counts=done)
        if claim.range is None:
            self._observers.drained(claim)

    def _record_delivered(self, tenure: OwnedPartition) -> None:
        """Record what was delivered of a range, when nothing more will be."""
        claim, member = tenure.claim, self.session.member
        if claim.range is not None and isinstance(member, RecordedMember):
            of = member.me.instance_id, claim.key, claim.epoch
            member.write(run.handed_over(*of, tenure.delivered))

    def ended(self) -> None:
        """At most once: end the delivery of ranges, and record what was delivered."""
        for tenure in self._tenures:
            if self._me.mode is Mode.AT_MOST_ONCE and tenure.claim.range is not None:
                self._fetcher.drop(tenure.fetched)
                tenure.cut()
                self._record_delivered(tenure)

    # --- progress ---------------------------------------------------------------------------------

    def fetched(self, claim: Claim, end: int) -> None:
        """A claim's messages below `end` were fetched."""
        tenure = self._tenures.of(claim)
        if tenure is not None and claim.lost is None:
            self.carry_out(tenure.machine.available(end, self.now_ms))

    def gone(self, claim: Claim, first: int, extent: Watermarks) -> None:
        """A claim's messages from `first` on are gone from the topic, which now holds `extent`.

        Messages that were fetched before are delivered first.
        """
        low, high = extent.low, extent.high
        self._health_monitor.note(
            f"{claim.topic}/{claim.partition}: messages {first} to {low - 1} are gone from the "
            f"topic and cannot be consumed any more",
            distinct=True,
        )
        # A lost tenure may be drained by now, with nothing left for the application to take.
        tenure = self._tenures.of(claim)
        if tenure is None or claim.lost is not None:
            return
        self.carry_out(tenure.machine.extent(low, high, self.now_ms))
        if tenure.next >= first:
            self._done(tenure, low)

    def look_at(self, tenure: OwnedPartition) -> None:
        """Check how much of it the application has finished."""
        tenure.notified = False  # before the check, so that later progress is not missed
        if not tenure.untouched:
            reached = tenure.reached()
            self._report_delivered(tenure)
            self._done(tenure, reached)
        if tenure.claim.lost is not None:
            self._forget_if_drained(tenure)
        elif isinstance(tenure.machine, RangeMachine) and tenure.range_delivered:
            self.carry_out(tenure.machine.was_delivered(self.now_ms))

    def _report_delivered(self, tenure: OwnedPartition) -> None:
        given = tenure.newly_delivered()
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
        """The current end offsets of our partitions."""
        for claim, high in ends.items():
            tenure = self._tenures.of(claim)
            if tenure is not None and claim.lost is None:
                self.carry_out(tenure.machine.extent(0, high, self.now_ms))

    def shared_end(self, key: ClaimKey, end: int) -> None:
        """The current end offset of a shared partition."""
        shared = self.session.shared.of(key)
        if shared is not None and not self.log_lost:
            self.carry_out(shared.ended_at(end, self.now_ms))

    # --- giving claims up -------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin to give all claims up."""
        if not self.stopping:
            self.stopping, self._rests = True, False
            shared = self.session.shared
            self.carry_out(self.session.member.stop(self.now_ms))
            shared.begin_to_leave()
            self.withdraw_unwanted()
            # Only now it is known what was not begun.
            self.carry_out(shared.leave(self.now_ms))
            for tenure in self._tenures:
                if tenure.handlers_left:  # `run` has waited for them
                    self._handlers_done(tenure)
                self._fetch_what_was_granted(tenure)

    def _fetch_what_was_granted(self, tenure: OwnedPartition) -> None:
        """At most once, after `stop`: fetch granted messages only.

        Those that are in no partition any more are not waited for.
        """
        if self._me.mode is Mode.AT_MOST_ONCE and tenure.next < tenure.allowed_end:
            self._fetcher.drain(tenure.fetched, tenure.allowed_end)

    def note_paused_grants(self) -> None:
        """At most once: report paused grants, for which `stop` waits: nobody else will get them."""
        for tenure in self._tenures:
            if tenure.paused and tenure.next < tenure.allowed_end:
                self._health_monitor.note(
                    f"{tenure.claim.topic}/{tenure.claim.partition} is paused, and messages "
                    f"{tenure.next} to {tenure.allowed_end - 1} of it were granted: the consumer "
                    f"ends when it is resumed, or closed"
                )

    def withdraw_unwanted(self) -> None:
        """At least once: give back messages of released claims that were not begun."""
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
        """Give one claim up, and do not request it again for a while."""
        try:
            claim = self.claimed(topic, partition).claim
        except InvalidOption:
            if self.stopping:
                return  # it was given up already
            raise
        _refuse_range(claim, "released: remove_topic ends this consumer's part in it")
        self.carry_out(self.session.member.release(claim.key, self.now_ms))
        self.withdraw_unwanted()

    def remove_topic(self, topic: str) -> None:
        """Give up the claims of a topic, and request none of them any more."""
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
        """The application will not finish this chunk."""
        in_flight.abandon()
        tenure = self._tenures.of(in_flight.claim)
        if tenure is None:
            return
        self.look_at(tenure)
        if in_flight.claim.lost is None and tenure.withdrawn:
            self.carry_out(tenure.machine.hand_back(tenure.next, tenure.delivered_end, self.now_ms))

    def redeliver(self, firsts: Iterable[InFlight]) -> None:
        """At least once: deliver again what is not done of these chunks and of later ones.

        Claims that were given up are handed back instead. Chunks that a `seek` has removed
        meanwhile are left out.
        """
        for first in firsts:
            tenure = self._tenures.of(first.claim)
            chunks = [] if tenure is None else tenure.chunks_from(first)
            if tenure is None or not chunks:
                continue
            self._fetcher.seek(tenure.fetched, first.next)
            for in_flight in chunks:
                self.abandon(in_flight)
            tenure.forget(chunks)
            self.look_at(tenure)

    def interrupted(
        self, current: InFlight | None, listed: InFlight | None, *, undelivered: bool
    ) -> None:
        """A call of the application was interrupted while it took messages: nothing is skipped.

        Args:
            current: the chunk that is being delivered.
            listed: a chunk whose lists are done when the application asks for more.
            undelivered: whether messages of `current` count as delivered and were not.
        """
        for tenure in self._tenures:
            position = tenure.next
            for in_flight in tenure.chunks:
                if in_flight is current:
                    in_flight.cut()  # the rest is fetched again
                if in_flight.finished or in_flight.handled or in_flight in (current, listed):
                    position = max(position, in_flight.end)
                elif in_flight.left == in_flight.total:  # it never became the current one
                    tenure.forget([in_flight])
                else:
                    if in_flight.committed is None:  # the application has asked for more since
                        in_flight.finish()
                    position = max(position, in_flight.end)
            self._fetcher.seek(tenure.fetched, position)
            self.look_at(tenure)
        if current is None or not undelivered:
            return
        if self._me.mode is Mode.AT_LEAST_ONCE:
            self.redeliver([current])
            return
        unsure = self._tenures.of(current.claim)
        if unsure is None:
            return
        if current.claim.range is not None:  # the log calls all of it done that was begun
            self._observers.abandoned(current.claim, range(current.next, current.end))
            current.finish()
            self.look_at(unsure)
            return
        if unsure.machine.wants:
            self.carry_out(self.session.member.release(current.claim.key, self.now_ms))
        self._abandon_grant(unsure, release=True)

    def begin_alone(self, deliveries: int | None) -> None:
        """Deliver ranges one at a time that were delivered this often; None ends it."""
        self._alone_from = deliveries
        self.session.shared.begin_alone(deliveries)

    def handlers_left(self, claim: Claim, *, at_work: bool) -> None:
        """Whether handlers of a `run` that has ended are still processing messages of this claim.

        Meanwhile nothing of it is delivered: a message would be processed twice at a time, and
        those after it would overtake it.
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
        """Handlers of a `run` that has ended have finished, or are waited for no longer."""
        tenure.handlers_left = False
        self.redeliver(tenure.handled[:1])
        self._go_on(tenure)

    def _go_on(self, tenure: OwnedPartition) -> None:
        if tenure.may_go_on:
            self._fetcher.resume(tenure.fetched)

    def abandon_rest(self, *, release: bool = True) -> None:
        """The application will neither finish its current chunks nor take more."""
        for tenure in self._tenures:
            for in_flight in tenure.chunks:
                if not in_flight.finished:
                    self.abandon(in_flight)
        if self._me.mode is Mode.AT_MOST_ONCE:
            self._abandons = release
            self._abandon_grants(release=release)

    def _abandon_grants(self, *, release: bool) -> None:
        """At most once: report granted messages that are not done; release the claims if `release`.

        The releases name the first offset that is not known to be processed.
        """
        for tenure in self._tenures:
            if not tenure.abandoned:
                self._abandon_grant(tenure, release=release)

    def _abandon_grant(self, tenure: OwnedPartition, *, release: bool) -> None:
        tenure.abandoned = True
        self._fetcher.drop(tenure.fetched)
        for in_flight in tenure.chunks:
            in_flight.abandon()
        owned, reached, begun = tenure.claim.owned, tenure.reached(), tenure.delivered_end
        # The part of a range that was not begun is given back, and not lost.
        lost_end = begun if release and tenure.claim.range else tenure.allowed_end
        if reached < lost_end:
            self._observers.abandoned(tenure.claim, range(reached, lost_end))
        tenure.next = tenure.allowed_end = reached
        if owned and release:
            self.carry_out(tenure.machine.hand_back(reached, begun, self.now_ms))
        self._forget_if_drained(tenure)

    def ack(self, upto: Message | None) -> None:
        """Messages that were delivered one by one are done, up to this one. Any thread may call it.

        Raises:
            InvalidOption: another consumer delivered the message.
        """
        # A lost claim is not `owned` any more before its tenure is forgotten.
        if upto is not None and self._tenures.any_of(upto.claim) is None and upto.claim.owned:
            raise InvalidOption(f"{upto} was delivered by another consumer")
        for tenure in self._tenures:
            if upto is None or tenure.claim is upto.claim:
                for in_flight in tenure.chunks:
                    in_flight.commit(None if upto is None else upto.offset)
                    self.progressed(in_flight)

    def commit(self, upto: Message | None, commit: Commit) -> None:
        """Send the position of all claims, or of this message's claim, and settle `commit` later.

        At most once there is nothing to wait for: the log granted the messages before their
        delivery.
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
        """Settle the commits whose outcome is known by now."""
        left = []
        for commit in self._commits:
            if not commit.settled(self._awaited, self._may_land):
                left.append(commit)
            elif not commit.answer.cancelled():
                self._settle_commit(commit)
        self._commits = left

    def _settle_commit(self, commit: Commit) -> None:
        """The application knows the outcome, so no other commit has to report it."""
        for claim, end in commit.done.items():
            tenure = self._tenures.any_of(claim)
            if tenure is not None and not tenure.may_land:
                if claim.lost is not None:
                    tenure.answered = max(tenure.answered, end)
                self._confirm(tenure)

    def _confirm(self, tenure: OwnedPartition) -> None:
        """Its end is known, from the log or by a commit."""
        tenure.unconfirmed = False
        self._tenures.end_if_over(tenure)

    def _awaited(self, claim: Claim) -> bool:
        tenure = self._tenures.any_of(claim)
        return tenure is not None and tenure.awaited

    def _may_land(self, claim: Claim) -> bool:
        tenure = self._tenures.any_of(claim)
        return tenure is not None and tenure.may_land

    def pause(self, claim: Claim) -> None:
        """Deliver no more of it; the application keeps the messages that it has.

        Raises:
            InvalidOption: it is shared.
        """
        _refuse_range(claim, "paused: others of the group would wait for its ranges")
        tenure = self._tenures.of(claim)
        if tenure is not None:
            tenure.paused = True
            self._withhold(tenure)

    def _withhold(self, tenure: OwnedPartition) -> None:
        """Stop fetching it, and then stop delivering its current chunks."""
        self._fetcher.pause(tenure.fetched)
        for in_flight in tenure.chunks:
            before, end = in_flight.end, in_flight.cut()
            if end < before and in_flight.left:
                self._fetcher.seek(tenure.fetched, end)

    def resume(self, claim: Claim) -> None:
        """Undo `pause`."""
        tenure = self._tenures.of(claim)
        if tenure is not None:
            tenure.paused = False
            self._go_on(tenure)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at this offset, and skip the messages before it.

        Raises:
            InvalidOption: it is shared, at most once, not claimed, or done below a later offset.
        """
        tenure = self.claimed(topic, partition)
        self._refuse_to_seek(tenure)
        self.look_at(tenure)
        if offset < tenure.next:
            raise InvalidOption(
                f"{topic}/{partition}: everything below {tenure.next} is done; marshal "
                f"set-position goes back"
            )
        self._fetcher.seek(tenure.fetched, offset)
        chunks = tenure.chunks
        for in_flight in chunks:
            self.abandon(in_flight)
        tenure.forget(chunks)
        offset = max(offset, tenure.next)
        high = max(offset, tenure.allowed_end)
        self.carry_out(tenure.machine.extent(offset, high, self.now_ms))
        self._fetcher.seek(tenure.fetched, offset)
        self._done(tenure, offset)

    @property
    def rests_until_ms(self) -> int | None:
        """Until when no check is due, unless an input arrives; None if checks are due often.

        While the application has no messages it makes no progress. So with few messages, checks
        are rare.
        """
        if not self._rests or self._gave_back != self.session.member.gave_back:
            return None
        return self._rests_until_ms

    def look(self) -> None:
        """Check how much of all claims the application has finished."""
        tenures = list(self._tenures)
        # Before the check: a thread that takes a chunk after this line posts an input.
        self._rests = not self.stopping
        self._gave_back = self.session.member.gave_back
        self._rests_until_ms = min(
            (tenure.watched.heartbeats.late_ms for tenure in tenures), default=2**62
        )
        for tenure in tenures:
            self.look_at(tenure)
        self._hold_back_silent()
        # A busy claim that makes no progress is reported itself, so those waiting behind it are
        # not. Paused and lost claims are never reported, so those behind them are.
        self._any_busy = False
        for tenure in tenures:
            chunks = [] if tenure.untouched else tenure.chunks
            idle = tenure.withheld or tenure.claim.lost is not None
            tenure.busy = not idle and any(map(_in_work, chunks))
            self._any_busy |= tenure.busy
            if chunks or tenure.claim.lost is not None or not tenure.machine.wants:
                self._rests = False
            self._end_turn(tenure, chunks)
        self.withdraw_unwanted()

    def _end_turn(self, tenure: OwnedPartition, chunks: Iterable[InFlight]) -> None:
        """End its turn if its messages were delivered one by one for long enough."""
        since_ms = self.now_ms - TURN_MS
        for in_flight in chunks:
            if in_flight.since_ms <= since_ms:
                self._fetcher.give_back(tenure.fetched, in_flight)

    def _hold_back_silent(self) -> None:
        """At least once: begin no messages of claims that others may already consider stale.

        At most once no other consumer is granted the same messages, so none are held back.
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
        """A record of ours was read, and the machine has applied it.

        Kafka's group offsets follow the positions in the log. A refused record moves neither, since
        an administrator may have set the position meanwhile.
        """
        message = record.message
        if not isinstance(message, Heartbeat | ReleasingPartition):
            return
        key, epoch = message.key, record.headers.epoch
        if self.session.shared.of(key) is not None:
            return  # it was owned alone, only to set where it begins
        member = self.session.member
        reader = member.driver(key).consumer.reader
        tenures = self._tenures.of_key(key)
        # In a log that lost records, an epoch of an earlier session may occur again.
        its = [each for each in tenures if each.machine.of(member) and each.claim.epoch == epoch]
        # While the owner is uncertain, epoch and position are guesses.
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
        """A heartbeat of ours was read back: we own the claim, or these ranges of a partition."""
        self._health_monitor.heard((each.watched for each in tenures), self.now_ms)
        silent = [each for each in tenures if each.claim.silent]
        for tenure in silent:
            tenure.claim.silent = False
        if silent:
            self._health_monitor.heard_again(silent[0].claim)
        for tenure in silent:
            self._go_on(tenure)

    def drop(self) -> None:
        """The consumer ends by a failure: deliver no more."""
        if self._me.mode is Mode.AT_MOST_ONCE:
            self._abandon_grants(release=False)
        for tenure in self._tenures:
            self._fetcher.drop(tenure.fetched)
            tenure.cut()

    def report_progress(self, ends: Mapping[Claim, int]) -> None:
        """Report the progress of all claims, given the end offsets of their partitions.

        A claim without an end is not fetched now, as while it is paused: its last known end stays.
        Before the first one nothing is reported of it, since a lag of 0 could be wrong.
        """
        known = {each.claim for each in self._tenures} & self._ends.keys()
        self._ends, self._buffered = {each: self._ends[each] for each in known} | {**ends}, {}
        if self._fetcher.any_buffered:
            self._buffered = {each: self._fetcher.buffered(each.fetched) for each in self._tenures}
        for tenure in self._tenures if self._observers.wants_standing else ():
            alone = tenure.claim.lost is None and tenure.claim.range is None
            if alone and tenure.claim in self._ends:
                self._observers.standing(tenure.claim, self._progress(tenure))

    def _progress(self, tenure: OwnedPartition) -> ClaimProgress:
        end, buffered = self._ends.get(tenure.claim), self._buffered.get(tenure, (0, 0))
        return tenure.progress(end, buffered, others_busy=self._any_busy)


def _in_work(in_flight: InFlight) -> bool:
    """Whether the application, or a worker, is processing some of it."""
    return not in_flight.finished and not in_flight.idle
