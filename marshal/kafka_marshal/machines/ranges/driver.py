"""Decides when one participant acts on one shared claim, by timers and a measured pace.

`participant` decides what is allowed, and this module only when. So its mistakes can cost time but
not safety. Each input is a call with `now_ms`, by a steady clock that never steps and starts
anywhere. Timestamps of records give the time of the log (`log_clock`). The results are effects.
This module knows no threads, no Kafka client and no clock; the runtime that sends a record stamps
it with Unix time.

All participants read the same log, and see the same work: an anchor that needs a heartbeat, a pool
that is not empty. So each waits for its turn, by its rank among the live ones, and does nothing if
another one has done it before.

>>> from kafka_marshal.core.ranges.messages import RangesRecord
>>> me = Identity("i1", "c1")
>>> driver = ParticipantDriver(me, ClaimKey("g", "events", 0), window=100, start_position=0)
>>> driver.caught_up(now_ms=0)  # it waits for its turn
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
    """The identity of a participant in its records."""

    instance_id: str
    """Names one run of one process; new at every start."""
    client_id: str
    """Names the consumer across restarts; not `ranges`, which is the anchor's."""
    says_interval: bool = False
    """Whether its records hold its heartbeat interval."""


@frozen
class RangesTiming:
    """A participant's intervals and timeouts, in milliseconds of its steady clock."""

    heartbeat_every_ms: int = field(default=60_000, validator=positive)
    """The time between two signs of life, and between two heartbeats of the anchor."""
    ask_again_after_ms: int = field(default=5_000, validator=positive)
    """The time after which a record that was not read back is sent again."""
    range_ms: int = field(default=250, validator=positive)
    """How long a range should take: shorter waits less behind a slow message, longer costs fewer
    records."""
    longer_from: int = field(default=8, validator=positive)
    """With more participants than this, ranges far behind the end of the data take longer, in
    proportion: each participant reads the records of all."""
    unread_of_range: int = field(default=5, validator=positive)
    """For such a longer range, records may stay unread for its duration divided by this."""
    range_messages_min: int = field(default=1, validator=positive)
    range_messages_first: int = field(default=10, validator=positive)
    """The number of offsets in the first request, while the pace is unknown."""
    say_done_messages: int = field(default=1_000, validator=positive)
    """The number of finished messages after which they are reported to the log."""
    say_done_after_ms: int = field(default=1_000, validator=positive)
    """The time after which a finished message is reported at the latest."""
    stuck_after_ms: int = field(default=300_000, validator=positive)
    """A handler that finished nothing for this long hangs, and the rest is given back. After twice
    the time the participant falls silent, and others take over its begun messages."""


_NEVER: Final = 2**62
_PLACES: Final = 8
"""The number of ranks for unknown participants. With more, a single one would wait longer."""


@frozen
class _Outlook:
    """Values derived from the ranges, computed once after each record."""

    ranges: Ranges | None = None
    rank: int = 0
    """Its rank among the live participants; while it is unknown, one of a few by its id."""
    oldest_sign_ms: int | None = None
    """The oldest sign of life of another holder, by the log's clock."""
    own: tuple[OpenRange, ...] = ()
    """Its ranges by the log."""


@frozen
class _Giving:
    """Whether it may give messages back, and whether it must, computed once for its own ranges."""

    own: tuple[bool, tuple[OpenRange, ...], tuple[HeldRange, ...]] | None = None
    may: bool = False
    owes: bool = False


@define
class _Waits:
    """The time since when an action has been due; its turn comes later."""

    since_ms: int | None = None

    def at(self, is_due: bool, now_ms: int, delay_ms: int) -> int:
        """The time of its turn; `_NEVER` while it is not due."""
        if not is_due:
            self.since_ms = None
            return _NEVER
        if self.since_ms is None:
            self.since_ms = now_ms
        return self.since_ms + delay_ms


class ParticipantDriver:
    """One participant of one claim, with its timers. Methods return effects, in their order."""

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
        checkpoint that was made from `first` on. Until then nothing is sent or granted. With
        `folded`, the state after all records before `first`, they are known at once.

        Args:
            me: its identity.
            key: the claim.
            window: 0 means at most once. A greater one is the number of messages that may be
                processed twice when a consumer without ranges takes over. It is the same for all
                participants.
            start_position: the offset by the start policy, unless a position was ever set.
            rules: the fenced rules.
            timing: by default one sign of life in each heartbeat interval of the rules.
            limits: the limits of the message's version; models have smaller ones.
            first: the offset of the first record to read.
            folded: the claim and its ranges before `first`; None if they are unknown.

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
        """The log's clock; drivers of one coordinating partition may share it."""
        self.left = False
        """It has left: no message is begun, and the log holds no range of it."""
        self.may_ask = True
        """Whether the program that runs it allows requests for ranges."""
        self.end_offset = 0
        """The end offset of the data topic's partition, as far as is known."""
        unknown = first > 0 and folded is None
        self._reader = RangesReader(first, rules, limits) if unknown else None
        self._reads_live = False
        self._pace = Pace()
        self._turns = {name: _Waits() for name in ("claim", "pool", "room", "reserve")}
        self._asked_ms = AT_ONCE
        self._patient_until_ms = AT_ONCE
        self._released_ms = AT_ONCE
        """When it last released a claim that it owned alone."""
        self._claims_now = False
        """It released at the start, so it claims as the anchor before others do."""
        self._requested_ms = AT_ONCE
        self._spoke_ms = AT_ONCE
        """When it last sent a ClaimingRange."""
        self._heard = True
        """Its last ClaimingRange was read back."""
        self._awaited = False
        """A commit waits until its last record is read back."""
        self._given_back_ms = AT_ONCE
        self._kept: int | None = None
        """From which offset on its last such record gave messages back."""
        self._unheard = 0
        """The number of finished messages that none of its records has reported yet."""
        self._unheard_since_ms = AT_ONCE
        self._beat_ms = AT_ONCE
        """When it last sent a heartbeat of the anchor, if none was read since."""
        self._reserved: int | None = None
        self._reserved_ms = AT_ONCE
        self._beats_now = False
        """A heartbeat of the anchor is due at once: after a win, and after a reserve."""
        self._now_ms = AT_ONCE
        self._due_ms: int | None = None
        """When its next plan is due; None if that must be computed again."""
        self._outlook = _Outlook()
        self._giving = _Giving()
        self._progress_ms: dict[int, int] = {}
        """For each range, when a message was last begun or finished, or it had nothing to do."""
        self._noticed_ms = _NEVER
        """Since when the last reported handler hung."""

    # --- state ------------------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        """Whether it knows the claim and its ranges, from the log's start or a checkpoint."""
        return self._reader is None

    @property
    def shares(self) -> bool:
        """Whether the claim is shared under its window, as far as it has read."""
        return moves.shares(self.me, self.participant)

    @property
    def held(self) -> tuple[HeldRange, ...]:
        """The ranges that it may process, the lowest first."""
        return tuple(sorted(self.participant.held, key=lambda each: each.from_))

    @property
    def in_hand(self) -> bool:
        """Whether any message was begun and is not finished."""
        return any(each.done < each.begun for each in self.participant.held)

    def hangs(self, now_ms: int) -> bool:
        """Whether a handler has finished nothing for `stuck_after_ms`."""
        return self._hangs_since_ms <= now_ms

    def waits_for(self, now_ms: int) -> str | None:
        """The client that owns the claim without sharing it, and may be alive; None without one.

        While no position was set, that client may be about to set where all begin.
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
        """How long records may stay unread, in milliseconds, because it needs none meanwhile.

        0 unless many participants are far behind the end of the data, and it has work for twice
        that time. Each of them reads the records of all, and reading several at once costs less.
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
        """Why this message may not be begun now; None if it may.

        Call it before each message, or before a batch for its last one. Offsets without a message
        are skipped: only begun messages are reported.
        """
        return moves.may_begin(self.me, self.participant, range_id, offset)

    # --- inputs -----------------------------------------------------------------------------------

    def caught_up(self, now_ms: int) -> list[Effect]:
        """The log was read to its end; call this each time.

        It sends requests only then: at the start, or after a sleep, its view would be old.
        """
        self._reads_live = True
        self.clock.caught_up()
        return self._go_on(now_ms)

    def record(
        self, record: RangesRecord, now_ms: int, checkpoint: FoldedState | None = None
    ) -> list[Effect]:
        """The next record of the claim: of its key, or a ReleaseGroup of its group.

        `checkpoint` is the result of `range_codec.checkpoint_of`. Only a reader that began in the
        middle and knows nothing yet uses it.
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
        """The outcome of an append is unknown: the record may still land, and is sent again.

        It is sent `ask_again_after_ms` after the first time, like a record that was not read back.
        Otherwise a cluster that refuses at once would get requests without a pause.
        """
        if isinstance(sent.message, ClaimingPartition) and self.participant.asked:
            self._give_up(now_ms)
            self._patient_until_ms = now_ms + self.timing.ask_again_after_ms
        return self._go_on(now_ms) if self._reads_live else []

    def end(self, high_watermark: int, now_ms: int) -> list[Effect]:
        """The data topic's partition ends at `high_watermark`."""
        if high_watermark <= self.end_offset:
            return []
        for each in self.participant.held:
            if not self._has_work(each):
                self._progress_ms[each.id] = now_ms
        self.end_offset = high_watermark
        self._measure_pace(now_ms)
        return self._go_on(now_ms)

    def begun(self, range_id: int, offset: int, now_ms: int) -> list[Effect]:
        """This message of a range was begun, and none after it; `may_begin` allowed it.

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
        """Nothing of a range at or above the offset was begun, or will be before a call of `begun`.

        A program that reports messages before it begins them takes back those that it did not
        begin. It must first make sure that it cannot begin them any more.
        """
        self.participant = moves.after_take_back(self.me, self.participant, range_id, offset)
        self._measure_pace(now_ms)
        return self._go_on(now_ms)

    def commit(self, now_ms: int) -> list[Effect]:
        """Send at once what is finished by now."""
        done = moves.done_to_send(self.me, self.participant)
        if self.known and not self.left and self._unheard and done is not None:
            self._awaited = True
            return [*self._speak(now_ms), *self._go_on(now_ms)]
        return self._go_on(now_ms)

    def finished(self, range_id: int, offset: int, now_ms: int) -> list[Effect]:
        """Everything of a range below and at `offset` is finished, or holds no message.

        Calls for one range come in order; ranges are independent of each other. For a lost range
        the call has no effect.
        """
        held = self.participant.holding(range_id)
        if held is None:
            return self._go_on(now_ms)
        offset = min(offset, held.to - 1)
        if offset >= held.begun and moves.may_begin(self.me, self.participant, range_id, offset):
            offset = held.begun - 1  # offsets without a message are skipped later
        if offset >= held.begun:
            self.participant = moves.after_begin(self.me, self.participant, range_id, offset)
        if moves.may_finish(self.me, self.participant, range_id, offset) is None:
            self.participant = moves.after_finish(self.me, self.participant, range_id, offset)
            self._count_finished(range_id, offset + 1 - held.done, now_ms)
        return self._go_on(now_ms)

    def leave(self, now_ms: int) -> list[Effect]:
        """Give back what was not begun, wait for begun messages, then fall silent: `Left`.

        Messages below a begun one cannot be given back, since one header stands for all ranges.
        They must still be processed, and `held` lists them.
        """
        if self.participant.leaving:
            return []
        before = self.participant
        self.participant = moves.after_leaving(self.me, before)
        if not self.known:  # it has requested nothing yet
            self.left = True
            return [Left()]
        return [*self._cuts(before), *self._go_on(now_ms)]

    def give_back(self, now_ms: int) -> list[Effect]:
        """Give back what was not begun, and continue: finished messages lead to new requests."""
        return self._give_back(now_ms)

    def truncated(self) -> list[Effect]:
        """The log lost its end, so what was read is not valid. Begin anew, under a new id."""
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
        """Update timers and pending requests by a record."""
        message = record.message
        match message:
            case ClaimingRange():
                if message.instance_id == self.me.instance_id:
                    self._heard, self._awaited = True, False
                    if isinstance(verdict, RangeAccepted):
                        self._note_more_finished(now_ms)
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
        """The effects of a record on the tenure and on ranges."""
        after = self.participant
        if before.held == after.held and before.claim.owned == after.claim.owned:
            # True for most records, which are of other participants.
            return self._tenure(before)
        known = {each.id for each in before.held}
        holds = {each.id for each in after.held}
        reason = self._reason(record, verdict)
        # At least once, others process again what was taken before the log held its end.
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

    # --- rank -------------------------------------------------------------------------------------

    @property
    def _seen(self) -> _Outlook:
        """The derived values of the current ranges."""
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
        """How long one rank waits for the one before it: about as long as a record takes."""
        return min(1_000, max(2, int(self._pace.round_trip_ms * 1.5)))

    def _turn_ms(self, most_ms: int) -> int:
        return min(self._seen.rank * self._stagger_ms, most_ms)

    # --- plans ------------------------------------------------------------------------------------

    def _go_on(self, now_ms: int) -> list[Effect]:
        """Carry out all plans that are due."""
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
        """Each action with the time at which it is due, in the order of preference.

        An action is planned only if it is allowed, and ends its own plan.
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
        """When the claim becomes claimable, by the steady clock: only an estimate."""
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
        # A heartbeat that was sent and not read back is enough.
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
        """At least once: half of the window is used, and a heartbeat would free some of it."""
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
        """The number of offsets in the next request."""
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
        """The length of a longer range if there is that much left for each participant, else 0."""
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
        """Everything below was begun. At most once a range is begun before its messages exist."""
        if self.me.window:
            return held.begun
        return max(held.done, min(held.begun, self.end_offset))

    def _has_work(self, held: HeldRange) -> bool:
        """Whether any of its messages was begun and is not finished."""
        return held.done < self._reached(held)

    @property
    def _ahead(self) -> int:
        """The number of offsets that it holds and has not begun."""
        return sum(each.to - self._reached(each) for each in self.participant.held)

    @property
    def _waiting(self) -> int:
        """The number of those that lie below the partition's end already."""
        ends = ((each, min(each.to, self.end_offset)) for each in self.participant.held)
        return sum(max(0, end - each.begun) for each, end in ends)

    @property
    def _wanted_ahead(self) -> int:
        """With fewer offsets ahead it requests more, so that a round trip later it has work."""
        trip = self._pace.messages_in(2 * self._pace.round_trip_ms) if self._pace.known else 0
        return max(1, (self.messages_wanted + 1) // 2, trip)

    def _ask_at_ms(self, now_ms: int) -> int:
        me, participant = self.me, self.participant
        pool = self._turns["pool"]
        wanted = self._wanted_ahead
        lacks = self._ahead < wanted
        # Also while it holds many ranges without messages.
        takes = bool(participant.ranges.pool) and self._waiting < wanted
        if not lacks and not takes and pool.since_ms is None:
            return _NEVER  # the usual case, so the cheap checks come first
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
        # A participant without work waits less: those before it may not need more.
        rank = self._seen.rank % 4 if starves and self._ahead == 0 else self._seen.rank
        return turn.at(needs, now_ms, min(rank * self._stagger_ms, self._half_interval_ms))

    @property
    def _reserve_wanted(self) -> int:
        """At most once: how far to reserve beyond the frontier: two ranges for each participant.

        Participants lose none of it; a consumer that does not know ranges skips it.
        """
        return 2 * self.messages_wanted * self._participants

    def _reserve(self, now_ms: int) -> list[Effect]:
        offset = self.participant.ranges.frontier + self._reserve_wanted
        self._turns["reserve"].since_ms = None
        self._reserved, self._reserved_ms = offset, now_ms
        return [moves.reserve_sent(self.me, self.participant, self.key, offset)]

    # Signs of life, and finished messages.

    @property
    def _hangs_since_ms(self) -> int:
        """When a handler counts as hanging."""
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
        # Without an owner it would be refused.
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
        """When another holder looks silent: any record then takes its ranges."""
        oldest_ms = self._seen.oldest_sign_ms
        if oldest_ms is None or not self.shares or self.participant.leaving:
            return _NEVER
        silent_ms = self.clock.own_ms(oldest_ms + int(self.me.rules.stale_after_ms) + 1)
        due_ms = silent_ms + self._turn_ms(self._half_interval_ms)
        # A record of its own that was sent later than that is enough.
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

    def _note_more_finished(self, now_ms: int) -> None:
        """One record cannot report all finished messages if a newer range lies below an older."""
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
        # Both depend on its own ranges, which records of others do not change.
        own = participant.ranges.has_begun, self._seen.own, participant.held
        if self._giving.own != own:
            owes = moves.owed_from(me, participant) is not None
            self._giving = _Giving(own, moves.may_give_back(me, participant) is None, owes)
        if not self._giving.may:
            return _NEVER
        again_ms = self._given_back_ms + self.timing.ask_again_after_ms
        if again_ms > now_ms and moves.keep_to_send(me, participant) != self._kept:
            again_ms = AT_ONCE  # more is given back than before
        if participant.leaving or self._giving.owes:
            # Without an owner it would be refused.
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
        """Whether it has left. At least once, without an owner, others take its ranges later."""
        participant = self.participant
        if not participant.leaving or self.in_hand or participant.requested:
            return False
        # It has to release a claim that it owns alone.
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
        # A next owner that does not know ranges begins at the position.
        gains = self.me.window > 0 and participant.ranges.low > participant.claim.position
        if gains and moves.may_beat_anchor(self.me, participant) is None:
            return [*self._beat(now_ms), Left()]
        return [Left()]


_STEPS_MAX: Final = 32
"""More actions than a participant ever takes at once."""
