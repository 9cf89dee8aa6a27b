"""When to do it: one participant and one shared claim, with timers and a measured pace.

`participant` says what is allowed; this room decides when, and does nothing else. So its mistakes
can cost time but not safety. Everything that happens comes in as a call with `now_ms`, a steady
clock that never steps and starts anywhere. The records say what time it is (`log_clock`). What is
to be done comes out as effects. There are no threads here, no Kafka and no clock; the runtime that
sends a record stamps it with unix time.

Many participants see the same log and mean the same by it: an anchor that needs a heartbeat, a pool
that is not empty. So each waits for its turn, by its rank among those alive, and does nothing if
somebody before it did.

>>> from kafka_marshal.core.ranges.messages import RangesRecord
>>> me = Identity("i1", "c1")
>>> driver = ParticipantDriver(me, ClaimKey("g", "events", 0), window=100, start_position=0)
>>> driver.caught_up(now_ms=0)  # others may come first
[]
>>> [asked] = driver.timer(driver.next_timer_ms)
>>> asked.message.client_id, asked.range_headers.window
('c1', None)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final

from attrs import define, field, frozen

from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    ClaimingRange,
    Heartbeat,
    ReleasingPartition,
)
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState, LogEntry, RangesReader
from kafka_marshal.core.ranges.state import LIMITS, Limits, OpenRange, Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeVerdict
from kafka_marshal.core.state import FENCED, ClaimKey, Rules
from kafka_marshal.core.validators import positive
from kafka_marshal.machines.consumer.log_clock import AT_ONCE, LogClock
from kafka_marshal.machines.ranges import participant as moves
from kafka_marshal.machines.ranges.effects import (
    Effect,
    HandlerHangs,
    Left,
    LossReason,
    RangeCut,
    RangeGranted,
    RangeLost,
    SendRecord,
    TenureBegan,
    TenureEnded,
    WindowDiffers,
)
from kafka_marshal.machines.ranges.pace import Pace
from kafka_marshal.machines.ranges.participant import (
    ANCHOR,
    HeldRange,
    Participant,
    ParticipantConfig,
    ParticipantForbidden,
)


@frozen
class Identity:
    """Who a participant is, as its records say."""

    instance_id: str
    """Names one run of one process; new at every start."""
    client_id: str
    """Names the consumer across restarts; not `ranges`, which is the anchor's."""
    says_interval: bool = False
    """Its records say its heartbeat interval."""


@frozen
class RangesTiming:
    """How patient a participant is. All in milliseconds of its steady clock."""

    heartbeat_every_ms: int = field(default=60_000, validator=positive)
    """Between two signs of life, and between two heartbeats of the anchor."""
    ask_again_after_ms: int = field(default=5_000, validator=positive)
    """After a record that was not read back."""
    range_ms: int = field(default=250, validator=positive)
    """How long a range should take: shorter waits less behind a slow message, longer costs fewer
    records."""
    longer_from: int = field(default=8, validator=positive)
    """With more participants than this, ranges far behind the end of the data take longer, in
    proportion: each participant reads the records of all."""
    unread_of_range: int = field(default=5, validator=positive)
    """Which part of such a longer range the log may lie unread, a fifth for example."""
    range_messages_min: int = field(default=1, validator=positive)
    range_messages_first: int = field(default=10, validator=positive)
    """How many offsets the first request is for, while the pace is not known."""
    say_done_messages: int = field(default=1_000, validator=positive)
    """After as many finished messages that the log has not heard of, it does."""
    say_done_after_ms: int = field(default=1_000, validator=positive)
    """And after this long."""
    stuck_after_ms: int = field(default=300_000, validator=positive)
    """A handler that finished nothing for this long hangs: the rest is given back. After twice as
    long the participant falls silent, and others take what it has in hand."""


_NEVER: Final = 2**62
_PLACES: Final = 8
"""Places for those that are not known yet: with more, one that is alone would wait for longer."""


@frozen
class _Outlook:
    """What follows from the ranges as they were read last; worked out once for each record."""

    ranges: Ranges | None = None
    rank: int = 0
    """Its place among those alive, who see the same log; of who is not known yet, any of a few."""
    oldest_sign_ms: int | None = None
    """The oldest sign of life of another holder, by the log's clock."""
    own: tuple[OpenRange, ...] = ()
    """The ranges that the log gives it."""


@frozen
class _Giving:
    """Whether it may give something back, and owes it; worked out once for what is its own."""

    own: tuple[bool, tuple[OpenRange, ...], tuple[HeldRange, ...]] | None = None
    may: bool = False
    owes: bool = False


@define
class _Waits:
    """Since when something has been due, so that its turn comes after that."""

    since_ms: int | None = None

    def at(self, is_due: bool, now_ms: int, delay_ms: int) -> int:
        """When its turn comes; `_NEVER` while it is not due."""
        if not is_due:
            self.since_ms = None
            return _NEVER
        if self.since_ms is None:
            self.since_ms = now_ms
        return self.since_ms + delay_ms


class ParticipantDriver:
    """One participant's dealings with one claim. Every method returns effects, in their order."""

    def __init__(
        self,
        me: Identity,
        key: ClaimKey,
        window: int,
        start_position: int,
        rules: Rules = FENCED,
        timing: RangesTiming | None = None,
        *,
        limits: Limits = LIMITS,
        first: int = 0,
        folded: FoldedState | None = None,
    ) -> None:
        """Read the coordinating partition from `first`.

        Above 0 the claim and its ranges are unknown until a heartbeat of the anchor holds a
        checkpoint that was made from `first` on. Until then nothing is sent or granted. Not so if
        they are given as every record before has `folded` them.

        Args:
            me: who it is.
            key: the claim.
            window: 0 is at most once; more is how many messages may be processed twice when a
                consumer takes over that does not know ranges. All participants say the same.
            start_position: where the start policy begins, if nobody ever set a position.
            rules: the fenced ones.
            timing: by default one sign of life in each of the rules' intervals.
            limits: those of the message's version; a model has smaller ones.
            first: the offset of the first record that is read.
            folded: the claim and its ranges before that; by default nothing was before.

        Raises:
            ValueError: the client id is the anchor's, the window is negative, or signs of life
                would be rarer than the rules' interval.
        """
        if me.client_id == ANCHOR or me.instance_id == ANCHOR:
            raise ValueError(f"{ANCHOR!r} is the id that participants share")
        if window < 0:
            raise ValueError(f"window is {window}, and no range runs ahead by less than 0")
        interval_ms = rules.heartbeat_interval_ms
        timing = timing or RangesTiming(heartbeat_every_ms=max(1, int(interval_ms)))
        if timing.heartbeat_every_ms > interval_ms:
            raise ValueError(
                f"heartbeat_every_ms is {timing.heartbeat_every_ms}, "
                f"more than the heartbeat interval of {interval_ms:g} ms"
            )
        self.timing = timing
        self.key = key
        self.me = ParticipantConfig(
            me.instance_id,
            me.client_id,
            window,
            start_position,
            rules,
            limits,
            me.says_interval,
        )
        self.participant = Participant(view=first)
        if folded is not None:
            self.participant = Participant.knowing(folded, first)
        self.clock = LogClock()
        """The log's; drivers of one coordinating partition may share it."""
        self.left = False
        """It has left: nothing is in hand, and nothing of it is in the log."""
        self.may_ask = True
        """It may ask for ranges, as far as the program that runs it is concerned."""
        self.end_offset = 0
        """The data topic's partition holds messages below this, as far as is known."""
        unknown = first > 0 and folded is None
        self._reader = RangesReader(first, rules, limits) if unknown else None
        self._reads_live = False
        self._pace = Pace()
        self._turns = {name: _Waits() for name in ("claim", "pool", "room", "reserve")}
        self._asked_ms = AT_ONCE
        self._patient_until_ms = AT_ONCE
        self._released_ms = AT_ONCE
        """When it last released what it had claimed alone."""
        self._claims_now = False
        """It released at the start, so it claims as the anchor before others do."""
        self._requested_ms = AT_ONCE
        self._spoke_ms = AT_ONCE
        """When it last sent a ClaimingRange."""
        self._heard = True
        """Its last ClaimingRange was read back."""
        self._awaited = False
        """Somebody waits until its last record was read back."""
        self._given_back_ms = AT_ONCE
        self._kept: int | None = None
        """From where on its last record of that kind gave back."""
        self._unheard = 0
        """Finished messages that none of its records has named yet."""
        self._unheard_since_ms = AT_ONCE
        self._beat_ms = AT_ONCE
        """When it last sent a heartbeat of the anchor that nobody's followed yet."""
        self._reserved: int | None = None
        self._reserved_ms = AT_ONCE
        self._beats_now = False
        """A heartbeat of the anchor is due at once: after a win, and after a reserve."""
        self._now_ms = AT_ONCE
        self._due_ms: int | None = None
        """When the next of its plans is due; None: something happened since it was worked out."""
        self._outlook = _Outlook()
        self._giving = _Giving()
        self._progress_ms: dict[int, int] = {}
        """By range, when it last had nothing to do, was begun or finished anew."""
        self._noticed_ms = _NEVER
        """Since when the handler hung that was reported last."""

    # --- what can be asked ------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        """It knows the claim and its ranges: it read them from the start, or from a checkpoint."""
        return self._reader is None

    @property
    def shares(self) -> bool:
        """The claim is shared under its window, by what it has read."""
        return moves.shares(self.me, self.participant)

    @property
    def held(self) -> tuple[HeldRange, ...]:
        """The ranges that it may process, the lowest first."""
        return tuple(sorted(self.participant.held, key=lambda each: each.from_))

    @property
    def in_hand(self) -> bool:
        """Some message was begun, and is not finished."""
        return any(each.done < each.begun for each in self.participant.held)

    def hangs(self, now_ms: int) -> bool:
        """A handler has finished nothing for `stuck_after_ms`."""
        return self._hangs_since_ms <= now_ms

    def waits_for(self, now_ms: int) -> str | None:
        """The client that owns the claim, does not share it and may be alive; None: nobody.

        As long as no position was set, that one may be about to say where all begin.
        """
        claim = self.participant.claim
        waits = claim.position_set and claim.owned and self._claimable_at_ms > now_ms
        return claim.owner_client if waits else None

    @property
    def next_timer_ms(self) -> int | None:
        """When to call `timer` next, by the steady clock; None while nothing is due."""
        if not self.known or self.left:
            return None
        if self._due_ms is None:
            self._due_ms = min(at for at, _ in self._plans(self._now_ms))
        return self._due_ms if self._due_ms < _NEVER else None

    @property
    def log_may_wait_ms(self) -> int:
        """How long records may lie unread, since nothing that it does meanwhile goes by them.

        0 unless many participants are far behind the end of the data, and it has work for twice as
        long. Each of them reads the records of all, and several at once cost less.
        """
        participant, timing = self.participant, self.timing
        if self._participants <= timing.longer_from or participant.leaving or self._awaited:
            return 0
        if not self.shares or not self._wanted_far_behind:
            return 0
        wait_ms = min(self._longer_ms // timing.unread_of_range, timing.heartbeat_every_ms // 10)
        left = sum(each.to - each.done for each in participant.held)
        return wait_ms if left >= self._pace.messages_in(2 * wait_ms) else 0

    def may_begin(self, range_id: int, offset: int) -> ParticipantForbidden | None:
        """May this message be begun now? Ask before each message, or before a batch for its last.

        Offsets that hold no message are passed over: only begun messages are reported.
        """
        return moves.may_begin(self.me, self.participant, range_id, offset)

    # --- what happens -----------------------------------------------------------------------------

    def caught_up(self, now_ms: int) -> list[Effect]:
        """The log was read to its end; call this whenever that is so.

        Only then does it ask for anything: after a sleep, or at the start, its view would be old.
        """
        self._reads_live = True
        self.clock.caught_up()
        return self._go_on(now_ms)

    def record(
        self, record: RangesRecord, now_ms: int, checkpoint: FoldedState | None = None
    ) -> list[Effect]:
        """The next record of the claim: of its key, or a ReleaseGroup of its group.

        `checkpoint` is what `range_codec.checkpoint_of` finds; it is looked at only by a reader
        that began in the middle and knows nothing yet.
        """
        self._reads_live, self._now_ms, self._due_ms = False, now_ms, None
        self.clock.read(record.timestamp_ms, now_ms)
        if self._reader is not None:
            return self._learn(record, checkpoint)
        before = self.participant
        self.participant, verdict = moves.read(self.me, before, record)
        self._notice(record, verdict, now_ms)
        return self._changes(before, record, verdict)

    def timer(self, now_ms: int) -> list[Effect]:
        """Time has passed. Early calls do no harm."""
        return self._go_on(now_ms)

    def outcome_unknown(self, sent: SendRecord, now_ms: int) -> list[Effect]:
        """Whether this arrived is not known; it may still land later, and is sent again.

        Not before `ask_again_after_ms` have passed since it was sent, as where nothing is heard of
        it: a cluster that refuses at once would be asked without a pause.
        """
        if isinstance(sent.message, ClaimingPartition) and self.participant.asked:
            self._give_up(now_ms)
            self._patient_until_ms = now_ms + self.timing.ask_again_after_ms
        return self._go_on(now_ms) if self._reads_live else []

    def end(self, high_watermark: int, now_ms: int) -> list[Effect]:
        """The data topic's partition holds messages below `high_watermark`."""
        if high_watermark <= self.end_offset:
            return []
        for each in self.participant.held:
            if not self._has_work(each):
                self._progress_ms[each.id] = now_ms
        self.end_offset = high_watermark
        self._measure_pace(now_ms)
        return self._go_on(now_ms)

    def begun(self, range_id: int, offset: int, now_ms: int) -> list[Effect]:
        """This message of a range was begun, and none behind it; `may_begin` allowed it.

        Raises:
            ValueError: it was not allowed.
        """
        against = self.may_begin(range_id, offset)
        if against is not None:
            raise ValueError(f"offset {offset} of range {range_id} may not begin: {against.value}")
        held = self.participant.holding(range_id)
        if held is not None and held.done == held.begun:
            self._progress_ms[range_id] = now_ms
        self.participant = moves.after_begin(self.me, self.participant, range_id, offset)
        self._measure_pace(now_ms)
        return self._go_on(now_ms)

    def take_back(self, range_id: int, offset: int, now_ms: int) -> list[Effect]:
        """Nothing of a range at or above the offset was begun, or will be before `begun` says so.

        A program that reports messages before it begins them takes back what it did not begin. It
        makes sure first that it cannot begin it any more.
        """
        self.participant = moves.after_take_back(self.me, self.participant, range_id, offset)
        self._measure_pace(now_ms)
        return self._go_on(now_ms)

    def commit(self, now_ms: int) -> list[Effect]:
        """What is finished by now is to be in the log at once."""
        done = moves.done_to_send(self.me, self.participant)
        if self.known and not self.left and self._unheard and done is not None:
            self._awaited = True
            return [*self._speak(now_ms), *self._go_on(now_ms)]
        return self._go_on(now_ms)

    def finished(self, range_id: int, offset: int, now_ms: int) -> list[Effect]:
        """Everything of a range below and at `offset` is finished, or holds no message.

        Within a range calls come in order; ranges are independent of each other. Of a range that
        was lost it does not count.
        """
        held = self.participant.holding(range_id)
        if held is None:
            return self._go_on(now_ms)
        offset = min(offset, held.to - 1)
        if offset >= held.begun and moves.may_begin(self.me, self.participant, range_id, offset):
            offset = held.begun - 1  # offsets without a message: passed over later
        if offset >= held.begun:
            self.participant = moves.after_begin(self.me, self.participant, range_id, offset)
        if moves.may_finish(self.me, self.participant, range_id, offset) is None:
            self.participant = moves.after_finish(self.me, self.participant, range_id, offset)
            self._count_finished(range_id, offset + 1 - held.done, now_ms)
        return self._go_on(now_ms)

    def leave(self, now_ms: int) -> list[Effect]:
        """Give back what is not begun, wait for what is in hand, then be silent: `Left`.

        What lies below something begun cannot be given back (one header speaks of all ranges), so
        it is still to be processed: `held` says what.
        """
        if self.participant.leaving:
            return []
        before = self.participant
        self.participant = moves.after_leaving(self.me, before)
        if not self.known:  # it has asked for nothing yet
            self.left = True
            return [Left()]
        return [*self._cuts(before), *self._go_on(now_ms)]

    def give_back(self, now_ms: int) -> list[Effect]:
        """Give back what is not begun, and go on: more is asked for when something finishes."""
        return self._give_back(now_ms)

    def truncated(self) -> list[Effect]:
        """The log's end moved back: nothing that was read holds. Begin anew, under a new id."""
        held = [each for each in self.participant.held if not each.finished]
        self.participant, self.left = Participant(leaving=True), True
        reason = LossReason.LOG_LOST_RECORDS
        return [RangeLost(each.id, each.done, each.to, reason) for each in held]

    # --- reading ----------------------------------------------------------------------------------

    def _learn(self, record: RangesRecord, checkpoint: FoldedState | None) -> list[Effect]:
        assert self._reader is not None
        self._reader.read(LogEntry(record, checkpoint))
        known = self._reader.known
        if known is None:
            return []
        self._reader = None
        self.participant = Participant.knowing(known, record.offset + 1)
        return self._tenure(Participant())

    def _notice(self, record: RangesRecord, verdict: RangeVerdict, now_ms: int) -> None:
        """What a record means for what it waits for."""
        message = record.message
        match message:
            case ClaimingRange():
                if message.instance_id == self.me.instance_id:
                    self._heard, self._awaited = True, False
                    if isinstance(verdict, RangeAccepted):
                        self._look_for_more_to_say(now_ms)
                    if message.count and self._requested_ms > AT_ONCE:
                        self._pace.heard_after(now_ms - self._requested_ms)
                        self._requested_ms = AT_ONCE
            case ClaimingPartition():
                if message.instance_id in (ANCHOR, self.me.instance_id):
                    won = self.participant.claim.epoch == record.offset
                    anchors = won and message.instance_id == ANCHOR
                    self._beats_now |= anchors and self._asked_ms > AT_ONCE
                    self._claims_now = False
                    if not won:
                        self._patient_until_ms = now_ms + self.timing.ask_again_after_ms
                    self._asked_ms = AT_ONCE
            case Heartbeat():
                if message.instance_id == ANCHOR:
                    self._beat_ms = AT_ONCE
            case ReleasingPartition():
                if message.instance_id == self.me.instance_id:
                    self._released_ms = AT_ONCE
                    self._claims_now = isinstance(verdict, Accepted)
            case ClaimingMessages():
                if message.instance_id == ANCHOR and message.offset == self._reserved:
                    self._reserved = None
                    self._beats_now |= verdict is Accepted.GRANTED
            case _:
                pass

    def _changes(
        self, before: Participant, record: RangesRecord, verdict: RangeVerdict
    ) -> list[Effect]:
        """What a record changed for the program: of the tenure, and of ranges."""
        after = self.participant
        if before.held == after.held and before.claim.owned == after.claim.owned:
            # Most records are of others.
            return self._tenure(before)
        known = {each.id for each in before.held}
        holds = {each.id for each in after.held}
        reason = self._reason(record, verdict)
        # What the log took before it had that all is done, others process again at least once.
        taken = self.me.window > 0 and record.message.instance_id != self.me.instance_id
        lost: list[Effect] = [
            RangeLost(each.id, each.done, each.to, reason)
            for each in before.held
            if each.id not in holds and (taken or not each.finished)
        ]
        granted: list[Effect] = [
            RangeGranted(each.id, each.from_, each.to)
            for each in after.held
            if each.id not in known
        ]
        self._progress_ms = {id_: at for id_, at in self._progress_ms.items() if id_ in holds}
        return [*lost, *self._tenure(before), *granted]

    def _reason(self, record: RangesRecord, verdict: RangeVerdict) -> LossReason:
        if verdict is Accepted.POSITION_SET:
            return LossReason.POSITION_SET
        if isinstance(record.message, ClaimingRange):
            return LossReason.TAKEN
        return LossReason.ENDED

    def _tenure(self, before: Participant) -> list[Effect]:
        after = self.participant
        shared, shares = moves.shares(self.me, before), moves.shares(self.me, after)
        if shares and not shared:
            assert after.claim.epoch is not None
            return [TenureBegan(after.claim.epoch, after.claim.position)]
        if shared and not shares:
            if after.claim.owned:
                return [TenureEnded.TAKEN]
            paused = after.claim.paused_until_ms is not None
            return [TenureEnded.PAUSED if paused else TenureEnded.RELEASED]
        window = after.ranges.window
        if window is not None and window not in (self.me.window, before.ranges.window):
            return [WindowDiffers(window)]
        return []

    def _cuts(self, before: Participant) -> list[Effect]:
        now = {each.id: each.to for each in self.participant.held}
        return [
            RangeCut(each.id, now.get(each.id, each.begun))
            for each in before.held
            if now.get(each.id, each.begun) < each.to
        ]

    # --- turns ------------------------------------------------------------------------------------

    @property
    def _seen(self) -> _Outlook:
        """What follows from the ranges as it read them last."""
        ranges = self.participant.ranges
        if self._outlook.ranges is not ranges:
            me = self.me.instance_id
            names = [each.instance for each in ranges.alive]
            holders = {each.instance for each in ranges.open} - {me}
            signs = [each.ms for each in ranges.alive if each.instance in holders]
            self._outlook = _Outlook(
                ranges,
                rank=names.index(me) if me in names else zlib.crc32(me.encode()) % _PLACES,
                oldest_sign_ms=min(signs, default=None),
                own=moves.own_open(self.me, self.participant),
            )
        return self._outlook

    @property
    def _stagger_ms(self) -> int:
        """How long one waits for the one before it: about as long as its record takes."""
        return min(1_000, max(2, int(self._pace.round_trip_ms * 1.5)))

    def _turn_ms(self, most_ms: int) -> int:
        return min(self._seen.rank * self._stagger_ms, most_ms)

    # --- what follows -----------------------------------------------------------------------------

    def _go_on(self, now_ms: int) -> list[Effect]:
        """Do all that is due and allowed."""
        self._now_ms, self._due_ms = now_ms, None
        if not self.known or self.left:
            return []
        effects: list[Effect] = []
        for _ in range(_STEPS_MAX):
            next_ms = _NEVER
            for at_ms, act in self._plans(now_ms):
                if at_ms <= now_ms:
                    effects += act(now_ms)
                    break
                next_ms = min(next_ms, at_ms)
            else:
                self._due_ms = next_ms
                return effects
            if effects and isinstance(effects[-1], Left):
                return effects
        raise AssertionError(f"{self.me.instance_id} never comes to rest at {now_ms}")

    def _plans(self, now: int) -> Iterator[tuple[int, Callable[[int], list[Effect]]]]:
        """What is planned for when, the first thing first.

        Each is planned only where it is allowed, and what it does makes an end of its plan.
        """
        live = self._reads_live
        yield self._give_up_at_ms(), self._give_up
        if live:
            yield self._claim_at_ms(now), self._claim
        yield self._release_alone_at_ms, self._release_alone
        yield self._beat_at_ms(now), self._beat
        yield self._notice_at_ms, self._notice_hanging
        yield self._give_back_at_ms(now), self._give_back
        if live:
            yield self._reserve_at_ms(now), self._reserve
            yield self._ask_at_ms(now), self._ask
        yield self._speak_at_ms(now), self._speak
        yield (AT_ONCE if self._has_left(now) else _NEVER), self._leave

    # The anchor.

    def _give_up_at_ms(self) -> int:
        asked = [self._asked_ms] if self.participant.asked else []
        requested = [self._requested_ms] if self.participant.requested else []
        return min(asked + requested, default=_NEVER) + self.timing.ask_again_after_ms

    def _give_up(self, now_ms: int) -> list[Effect]:
        self.participant = moves.after_giving_up(self.me, self.participant)
        self._asked_ms = self._requested_ms = AT_ONCE
        return []

    def _claim_at_ms(self, now_ms: int) -> int:
        me, participant = self.me, self.participant
        allowed = (
            moves.may_claim_anchor(me, participant) is None
            or moves.may_claim_alone(me, participant) is None
        )
        if not allowed:
            return self._turns["claim"].at(False, now_ms, 0)
        claimable_ms = max(self._claimable_at_ms, self._patient_until_ms)
        if claimable_ms > now_ms:
            self._turns["claim"].at(False, now_ms, 0)
            return claimable_ms
        if self._claims_now:
            return AT_ONCE
        return self._turns["claim"].at(True, now_ms, self._turn_ms(self._half_interval_ms))

    @property
    def _half_interval_ms(self) -> int:
        return self.timing.heartbeat_every_ms // 2

    @property
    def _claimable_at_ms(self) -> int:
        """From when on the claim looks claimable, by the steady clock: only a hint."""
        claim = self.participant.claim
        if claim.last_heartbeat_ms is None:
            until_ms = claim.paused_until_ms
            return AT_ONCE if until_ms is None else self.clock.own_ms(until_ms)
        if claim.owner_instance == ANCHOR:
            return AT_ONCE
        stale_after_ms = int(self.me.rules.stale_after_ms)
        return self.clock.own_ms(claim.last_heartbeat_ms + stale_after_ms + 1)

    def _claim(self, now_ms: int) -> list[Effect]:
        me, participant = self.me, self.participant
        if moves.may_claim_anchor(me, participant) is None:
            sent = moves.claim_anchor_sent(me, participant, self.key)
        else:
            sent = moves.claim_alone_sent(me, participant, self.key)
        self.participant = moves.after_claiming(me, participant)
        self._asked_ms = now_ms
        return [sent]

    @property
    def _release_alone_at_ms(self) -> int:
        if moves.may_release_alone(self.me, self.participant) is not None:
            return _NEVER
        return self._released_ms + self.timing.ask_again_after_ms

    def _release_alone(self, now_ms: int) -> list[Effect]:
        self._released_ms = now_ms
        return [moves.release_alone_sent(self.me, self.participant, self.key)]

    def _beat_at_ms(self, now_ms: int) -> int:
        if moves.may_beat_anchor(self.me, self.participant) is not None:
            return _NEVER
        # One that is under way does it.
        again_ms = self._beat_ms + self.timing.ask_again_after_ms
        if self._beats_now:
            return AT_ONCE
        last_ms = self.participant.claim.last_heartbeat_ms
        assert last_ms is not None
        due_ms = self.clock.own_ms(last_ms + self.timing.heartbeat_every_ms)
        turn_ms = self._turn_ms(self._half_interval_ms)
        narrow_ms = self._turns["room"].at(self._room_is_narrow, now_ms, turn_ms)
        return max(again_ms, min(due_ms + turn_ms, narrow_ms))

    @property
    def _room_is_narrow(self) -> bool:
        """At least once: less than half of the window is left, and a heartbeat would make some."""
        window, participant = self.me.window, self.participant
        if window == 0 or not self.shares or moves.room(participant) >= window // 2 + 1:
            return False
        gain = participant.ranges.low - participant.claim.position
        return gain >= max(1, window // 8)

    def _beat(self, now_ms: int) -> list[Effect]:
        self._beats_now = False
        self._beat_ms = now_ms
        return [moves.beat_anchor_sent(self.me, self.participant, self.key)]

    # Ranges.

    @property
    def messages_wanted(self) -> int:
        """How many offsets the next request is for."""
        timing, limits = self.timing, self.me.limits
        wanted = timing.range_messages_first
        if self._pace.known:
            wanted = self._pace.messages_in(max(timing.range_ms, 4 * self._pace.round_trip_ms))
            wanted = max(wanted, self._wanted_far_behind)
        most = limits.range_messages_max
        if self.me.window:
            most = min(most, max(1, self.me.window // (2 * self._participants)))
        return max(1, min(most, max(timing.range_messages_min, wanted)))

    @property
    def _wanted_far_behind(self) -> int:
        """With more data left than this for each participant, nobody waits for a message's turn."""
        wanted = self._pace.messages_in(self._longer_ms)
        left = self.end_offset - self.participant.ranges.frontier
        return wanted if left >= wanted * self._participants else 0

    @property
    def _longer_ms(self) -> int:
        return self.timing.range_ms * self._participants // self.timing.longer_from

    @property
    def _participants(self) -> int:
        return max(1, len(self.participant.ranges.alive))

    def _reached(self, held: HeldRange) -> int:
        """Below this it has begun what there is. At most once a range is begun before it exists."""
        if self.me.window:
            return held.begun
        return max(held.done, min(held.begun, self.end_offset))

    def _has_work(self, held: HeldRange) -> bool:
        """Some message of it was begun, or may be, and is not finished."""
        return held.done < self._reached(held)

    @property
    def _ahead(self) -> int:
        """As many offsets does it hold that it has not begun."""
        return sum(each.to - self._reached(each) for each in self.participant.held)

    @property
    def _waiting(self) -> int:
        """As many of them hold a message already."""
        ends = ((each, min(each.to, self.end_offset)) for each in self.participant.held)
        return sum(max(0, end - each.begun) for each, end in ends)

    @property
    def _wanted_ahead(self) -> int:
        """With fewer ahead it asks: a round trip later it would have nothing to do."""
        trip = self._pace.messages_in(2 * self._pace.round_trip_ms) if self._pace.known else 0
        return max(1, (self.messages_wanted + 1) // 2, trip)

    def _ask_at_ms(self, now_ms: int) -> int:
        me, participant = self.me, self.participant
        pool = self._turns["pool"]
        wanted = self._wanted_ahead
        lacks = self._ahead < wanted
        # Also with its hands full of ranges that have no messages yet.
        takes = bool(participant.ranges.pool) and self._waiting < wanted
        if not lacks and not takes and pool.since_ms is None:
            return _NEVER  # mostly, so what costs more is asked after this
        if moves.may_ask_range(me, participant, self.messages_wanted) is not None:
            pool.at(False, now_ms, 0)
            return _NEVER
        if not self.may_ask or self.hangs(now_ms):
            return _NEVER
        if lacks:
            return AT_ONCE
        return pool.at(takes, now_ms, self._turn_ms(self._half_interval_ms))

    def _ask(self, now_ms: int) -> list[Effect]:
        me, participant = self.me, self.participant
        self._turns["pool"].since_ms = None
        sent = moves.ask_range_sent(me, participant, self.key, self.messages_wanted)
        self.participant = moves.after_ask_range(me, participant)
        self._requested_ms = now_ms
        self._has_spoken(now_ms)
        return [sent]

    def _reserve_at_ms(self, now_ms: int) -> int:
        turn = self._turns["reserve"]
        if self.me.window != 0 or not self.shares or self.participant.leaving:
            return turn.at(False, now_ms, 0)
        reserved_already = self._reserved is not None
        if reserved_already and now_ms < self._reserved_ms + self.timing.ask_again_after_ms:
            return self._reserved_ms + self.timing.ask_again_after_ms
        needs = moves.room(self.participant) < self._reserve_wanted // 2 + 1
        starves = moves.room(self.participant) < self.messages_wanted
        # Who has nothing to do does not wait long: those before it may need less.
        rank = self._seen.rank % 4 if starves and self._ahead == 0 else self._seen.rank
        return turn.at(needs, now_ms, min(rank * self._stagger_ms, self._half_interval_ms))

    @property
    def _reserve_wanted(self) -> int:
        """At most once: how far to reserve beyond the frontier: two ranges for each participant.

        As long as all share, nothing of it is lost; a consumer that does not know ranges skips it.
        """
        return 2 * self.messages_wanted * self._participants

    def _reserve(self, now_ms: int) -> list[Effect]:
        offset = self.participant.ranges.frontier + self._reserve_wanted
        self._turns["reserve"].since_ms = None
        self._reserved, self._reserved_ms = offset, now_ms
        return [moves.reserve_sent(self.me, self.participant, self.key, offset)]

    # Signs of life, and what is done.

    @property
    def _hangs_since_ms(self) -> int:
        """From when on a handler counts as hanging."""
        held = self.participant.held
        since = [
            self._progress_ms[each.id]
            for each in held
            if self._has_work(each) and each.id in self._progress_ms
        ]
        return min(since, default=_NEVER) + self.timing.stuck_after_ms

    def _speak_at_ms(self, now_ms: int) -> int:
        me, participant = self.me, self.participant
        if moves.may_speak(me, participant) is not None:
            return _NEVER
        hangs_ms = self._hangs_since_ms
        if hangs_ms + self.timing.stuck_after_ms <= now_ms:
            return _NEVER
        again_ms = _NEVER
        if self._seen.own:
            every_ms = self.timing.heartbeat_every_ms
            if not self._heard:
                every_ms = min(every_ms, self.timing.ask_again_after_ms)
            again_ms = self._spoke_ms + every_ms
        return min(again_ms, self._say_done_at_ms, self._reap_at_ms(now_ms))

    @property
    def _say_done_at_ms(self) -> int:
        # While ranges sleep it would be refused.
        if not self._unheard or not self.participant.claim.owned:
            return _NEVER
        if moves.done_to_send(self.me, self.participant) is None:
            return _NEVER
        if self._unheard >= self._say_done_messages or self.participant.leaving:
            return AT_ONCE
        return self._unheard_since_ms + self.timing.say_done_after_ms

    @property
    def _say_done_messages(self) -> int:
        most = self.timing.say_done_messages
        if self.me.window:
            most = min(most, max(1, self.me.window // (4 * self._participants)))
        return most

    def _reap_at_ms(self, now_ms: int) -> int:
        """When somebody looks silent: any record then takes what it holds."""
        oldest_ms = self._seen.oldest_sign_ms
        if oldest_ms is None or not self.shares or self.participant.leaving:
            return _NEVER
        silent_ms = self.clock.own_ms(oldest_ms + int(self.me.rules.stale_after_ms) + 1)
        due_ms = silent_ms + self._turn_ms(self._half_interval_ms)
        # One of its own that is under way does it, unless it was sent too early.
        if self._spoke_ms >= silent_ms:
            due_ms = max(due_ms, self._spoke_ms + self.timing.ask_again_after_ms)
        return due_ms

    def _speak(self, now_ms: int) -> list[Effect]:
        sent = moves.speak_sent(self.me, self.participant, self.key)
        self._has_spoken(now_ms)
        return [sent]

    def _has_spoken(self, now_ms: int) -> None:
        self._spoke_ms, self._heard = now_ms, False
        self._unheard = 0

    def _look_for_more_to_say(self, now_ms: int) -> None:
        """One record does not name all that is finished where a newer range lies below older."""
        if not self._unheard and moves.done_to_send(self.me, self.participant) is not None:
            self._unheard, self._unheard_since_ms = 1, now_ms

    def _count_finished(self, range_id: int, count: int, now_ms: int) -> None:
        if not self._unheard:
            self._unheard_since_ms = now_ms
        self._unheard += count
        self._pace.finished(count)
        self._measure_pace(now_ms)
        self._progress_ms[range_id] = now_ms

    def _measure_pace(self, now_ms: int) -> None:
        self._pace.looked(now_ms, is_busy=any(map(self._has_work, self.participant.held)))

    # Giving back, and leaving.

    @property
    def _notice_at_ms(self) -> int:
        since_ms = self._hangs_since_ms
        return _NEVER if since_ms == self._noticed_ms else since_ms

    def _notice_hanging(self, now_ms: int) -> list[Effect]:
        self._noticed_ms = self._hangs_since_ms
        return [HandlerHangs()]

    def _give_back_at_ms(self, now_ms: int) -> int:
        me, participant = self.me, self.participant
        # Both follow from what is its own, which the records of others leave as it is.
        own = participant.ranges.has_begun, self._seen.own, participant.held
        if self._giving.own != own:
            owes = moves.owed_from(me, participant) is not None
            self._giving = _Giving(own, moves.may_give_back(me, participant) is None, owes)
        if not self._giving.may:
            return _NEVER
        again_ms = self._given_back_ms + self.timing.ask_again_after_ms
        if again_ms > now_ms and moves.keep_to_send(me, participant) != self._kept:
            again_ms = AT_ONCE  # it gives back more than before
        if participant.leaving or self._giving.owes:
            # While ranges sleep it would be refused.
            return again_ms if participant.claim.owned else _NEVER
        return max(again_ms, self._hangs_since_ms)

    def _give_back(self, now_ms: int) -> list[Effect]:
        before = self.participant
        if moves.may_give_back(self.me, before) is not None:
            return []
        sent = moves.give_back_sent(self.me, before, self.key)
        self.participant = moves.after_give_back(self.me, before)
        self._given_back_ms, self._kept = now_ms, sent.range_headers.keep
        self._spoke_ms, self._heard = now_ms, False
        return [*self._cuts(before), sent]

    def _has_left(self, now_ms: int) -> bool:
        """At least once it need not wait where ranges sleep: what it had is taken later."""
        participant = self.participant
        if not participant.leaving or self.in_hand or participant.requested:
            return False
        # What it claims alone, it has to release.
        if participant.asked or moves.is_alone(self.me, participant):
            return False
        if any(not each.finished for each in participant.held):
            return False
        if not moves.own_open(self.me, participant):
            return True
        return self.me.window > 0 and not participant.claim.owned

    def _leave(self, now_ms: int) -> list[Effect]:
        self.left = True
        participant = self.participant
        # Who comes next and knows no ranges begins at the position.
        gains = self.me.window > 0 and participant.ranges.low > participant.claim.position
        if gains and moves.may_beat_anchor(self.me, participant) is None:
            return [*self._beat(now_ms), Left()]
        return [Left()]


_STEPS_MAX: Final = 32
"""More than a participant ever does at once."""
