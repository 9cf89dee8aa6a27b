"""The shared partitions of one instance: its participant in each, and the ranges that it holds.

`Member` is the same for whole partitions. This module feeds the log to its participants, and turns
their effects into effects on single ranges, which `ownership` carries out. A range may be delivered
only after the lower ones were delivered or handled. So one offset tells what is done, and another
one what is given back. At least once, a range is allowed as far as it was fetched; at most once, as
a whole. This module knows no threads, no Kafka client and no clock. Only the coordinator's thread
calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from attrs import define, field, frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord, coordinating_partition
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.ranges.deliveries import (
    NOTHING_TAKEN,
    AllTaken,
    after_taken,
    deliveries_of,
)
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState, after
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.state import Claim, ClaimKey, Rules
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import ReleaseReason
from kafka_marshal.machines.consumer.log_clock import AT_ONCE
from kafka_marshal.machines.consumer.member import Member
from kafka_marshal.machines.ranges.driver import Identity, ParticipantDriver, RangesTiming
from kafka_marshal.machines.ranges.effects import (
    Effect,
    HandlerHangs,
    Left,
    RangeCut,
    RangeGranted,
    RangeLost,
    SendRecord,
    TenureBegan,
    TenureEnded,
    WindowDiffers,
)
from kafka_marshal.machines.ranges.participant import ANCHOR, HeldRange, owed_from
from kafka_marshal.range_codec import RANGE_HEADER_FIELDS, checkpoint_of, is_claiming_range


@frozen
class RangeAllowed:
    """These offsets of a range may be delivered, in order."""

    id: int
    offsets: range


@frozen
class RangeRecalled:
    """Take back what was allowed of a range and not delivered. `RangeMachine.recalled` answers."""

    id: int
    but_next: bool = False
    """If the application has no message, the next one stays allowed."""


@frozen
class RangeStands:
    """By the log, everything of a range below this offset is done."""

    id: int
    offset: int


@frozen
class RangeFinished:
    """Every message of the range is processed, and the log holds that."""

    id: int


@frozen
class Spoke:
    """A record of ours was read back, so we are alive by the log."""


@frozen
class OwnerAwaited:
    """Participants wait for the owner of the partition, a client that does not share it."""

    client: str | None
    """None if they no longer wait."""


SharedEffect: TypeAlias = (
    SendRecord
    | RangeGranted
    | RangeAllowed
    | RangeRecalled
    | RangeStands
    | RangeCut
    | RangeFinished
    | RangeLost
    | Spoke
    | OwnerAwaited
    | TenureBegan
    | TenureEnded
    | WindowDiffers
)


@frozen
class SharedClaimEffect:
    """An effect, and its claim."""

    key: ClaimKey
    effect: SharedEffect


Effects: TypeAlias = list[SharedClaimEffect]


@define(eq=False)
class RangeMachine:
    """One range of a shared claim; a `TenureMachine`."""

    shared: SharedClaim
    id: int
    fetched: int
    """All messages below this offset were fetched."""
    deliveries: int = 1
    """How often its messages were delivered at most, including this time."""
    given_alone: bool = False
    """Its first message was allowed, and the application has no other."""
    taken_back: bool = False
    """Its messages that were not begun were taken back from the application."""
    delivered: bool = False
    """All of it was delivered."""

    @property
    def wants(self) -> bool:
        """Whether the participant stays."""
        return not self.shared.leaving

    @property
    def released(self) -> ReleaseReason | None:
        """A range is not released."""
        return None

    @property
    def known(self) -> Claim:
        """The shared claim."""
        return self.shared.known

    @property
    def certain(self) -> bool:
        """Whether the participant knows the claim."""
        return self.shared.driver.known

    def of(self, member: Member) -> bool:
        """A range belongs to no member."""
        return False

    def available(self, end: int, now_ms: int) -> Effects:
        """All messages of the range below `end` were fetched."""
        self.fetched = max(self.fetched, end)
        return self.shared.ended_at(end, now_ms)

    def extent(self, low: int, high: int, now_ms: int) -> Effects:
        """The partition ends at `high`."""
        return self.shared.ended_at(high, now_ms)

    def done(self, offset: int, now_ms: int) -> Effects:
        """Everything of the range below this offset is processed."""
        self.taken_back = False
        return self.shared.finished(self.id, offset, now_ms)

    def hand_back(self, done: int, begun: int, now_ms: int) -> Effects:
        """The application will not finish what lies at or above `done`.

        At most once, messages below `begun` may have been processed.
        """
        if not self.shared.at_most_once:
            return self.shared.take_back(self.id, done, now_ms)
        # Such messages must not be delivered again.
        end = max(done, begun)
        finished = self.shared.finished(self.id, end, now_ms)
        return finished + self.shared.take_back(self.id, end, now_ms)

    def recalled(self, offset: int, now_ms: int) -> Effects:
        """Nothing at or above this offset was delivered, or will be until it is allowed again."""
        return self.shared.recalled(self.id, offset, now_ms)

    def commit(self, now_ms: int) -> Effects:
        """Send at once what is done."""
        return self.shared.commit(now_ms)

    def was_delivered(self, now_ms: int) -> Effects:
        """All of it was delivered, and no worker threads handle it."""
        if self.delivered:
            return []
        self.delivered = True
        return self.shared._allow(now_ms)


@define(eq=False)
class SharedClaim:
    """One shared partition."""

    driver: ParticipantDriver
    ranges: dict[int, RangeMachine] = field(factory=dict)
    """Granted ranges that are neither finished nor lost, by id."""
    leaving: bool = False
    again: int | None = None
    """Share it again after it was left, from this offset unless a position was ever set."""
    awaits: str | None = None
    """The owner that participants wait for, as it was reported last."""
    taken: AllTaken = NOTHING_TAKEN
    """The ranges that were taken from silent holders, since the first record that was read."""
    alone_from: int | None = None
    """Messages that were delivered this often are begun alone."""
    turn: Turn = field(factory=lambda: Turn({}))
    """Which claim has begun a message alone."""
    alone: int | None = None
    """The range with the message that was begun alone, until the log holds that it is done."""

    @property
    def key(self) -> ClaimKey:
        """Key of the shared claim."""
        return self.driver.key

    @property
    def known(self) -> Claim:
        """The claim as far as it was read."""
        return self.driver.participant.claim

    @property
    def at_most_once(self) -> bool:
        """Whether no message is granted twice."""
        return self.driver.me.window == 0

    # --- inputs -----------------------------------------------------------------------------------

    def record(self, record: RangesRecord, checkpoint: FoldedState | None, now_ms: int) -> Effects:
        """The next record of the claim, or of its group."""
        known, before = self.driver.known, self.driver.participant.ranges
        owned = self.known.owned
        found = self.driver.record(record, now_ms, checkpoint)
        if known:
            after_ = self.driver.participant.ranges
            self.taken = after_taken(self.taken, record.message, before, after_)
        effects = self._of(found)
        if owned and not self.known.owned:
            effects += self._recall()
        if record.message.instance_id == self.driver.me.instance_id:
            effects += self._of_ours()
        return effects + self._allow(now_ms)

    def caught_up(self, now_ms: int) -> Effects:
        """The log was read to its end."""
        effects = self._of(self.driver.caught_up(now_ms)) + self._allow(now_ms)
        owned_by_others = self.known.owned and self.known.owner_instance != ANCHOR
        # A stale owner is still waited for, until its successor is known.
        client = self.driver.waits_for(now_ms) or (self.awaits if owned_by_others else None)
        return effects + self._await(None if self.leaving else client)

    def timer(self, now_ms: int) -> Effects:
        """Time has passed."""
        return self._of(self.driver.timer(now_ms)) + self._allow(now_ms)

    def ended_at(self, end: int, now_ms: int) -> Effects:
        """The partition ends at `end`, as far as is known."""
        return self._of(self.driver.end(end, now_ms)) + self._allow(now_ms)

    def finished(self, range_id: int, offset: int, now_ms: int) -> Effects:
        """Everything of a range below this offset is processed."""
        effects = self._of(self.driver.finished(range_id, offset - 1, now_ms))
        if range_id == self.alone:
            effects += self._of(self.driver.commit(now_ms))
        return effects + self._allow(now_ms)

    def take_back(self, range_id: int, offset: int, now_ms: int) -> Effects:
        """Nothing of a range at or above this offset was begun, or will be finished."""
        machine = self.ranges.get(range_id)
        if machine is None:
            return []
        machine.taken_back = True
        return self._of(self.driver.take_back(range_id, offset, now_ms))

    def recalled(self, range_id: int, offset: int, now_ms: int) -> Effects:
        """Nothing of a range at or above this offset was begun, or may be for now."""
        return self._of(self.driver.take_back(range_id, offset, now_ms)) + self._allow(now_ms)

    def commit(self, now_ms: int) -> Effects:
        """Send at once what is done."""
        return self._of(self.driver.commit(now_ms))

    def leave(self, now_ms: int) -> Effects:
        """Request no more, and give back what was not begun. Ranges may finish by that."""
        return self._of(self.driver.leave(now_ms)) + self._await(None)

    def truncated(self) -> Effects:
        """The log lost records, so what was read of it is no longer valid."""
        return self._translated(self.driver.truncated()) + self._await(None)

    # --- effects ----------------------------------------------------------------------------------

    def _await(self, client: str | None) -> Effects:
        """Report the owner that it waits for, if that has changed."""
        before, self.awaits = self.awaits, client
        return [] if client == before else [SharedClaimEffect(self.key, OwnerAwaited(client))]

    def _of(self, effects: Iterable[Effect]) -> Effects:
        """Translate the driver's effects, and add the ranges that have finished by that call."""
        return self._translated(effects) + self._finished()

    def _translated(self, effects: Iterable[Effect]) -> Effects:
        found: Effects = []
        for effect in effects:
            match effect:
                case RangeGranted(id_, from_, _):
                    times = deliveries_of(self.taken, from_)
                    self.ranges[id_] = RangeMachine(self, id_, from_, times)
                case RangeLost(id_):
                    if self.ranges.pop(id_, None) is None:
                        continue
                case RangeCut(id_):
                    if id_ not in self.ranges:
                        continue
                case HandlerHangs():
                    found += self._recall(but_next=True)
                    continue
                case Left():
                    continue
                case _:
                    pass
            found.append(SharedClaimEffect(self.key, effect))
        return found

    def _recall(self, *, but_next: bool = False) -> Effects:
        """At most once: take back what was allowed, and not taken by the application."""
        if not self.at_most_once:
            return []
        return [
            SharedClaimEffect(self.key, RangeRecalled(each.id, but_next))
            for each in self.driver.participant.held
            if each.id in self.ranges and each.done < each.begun
        ]

    def _of_ours(self) -> Effects:
        """The positions of our ranges in the log, after a record of ours was read back."""
        found = [SharedClaimEffect(self.key, Spoke())]
        for each in self.driver.participant.ranges.open_of(self.driver.me.instance_id):
            if each.id in self.ranges:
                found.append(SharedClaimEffect(self.key, RangeStands(each.id, each.from_)))
        return found

    def _is_over(self, held: HeldRange) -> bool:
        if held.finished:
            return True
        machine = self.ranges.get(held.id)
        return machine is not None and machine.delivered and held.begun == held.to

    def _finished(self) -> Effects:
        """Ranges that the participant no longer holds, although they were not lost: all is done."""
        held = {each.id for each in self.driver.participant.held}
        over = [id_ for id_ in self.ranges if id_ not in held]
        for id_ in over:
            del self.ranges[id_]
        return [SharedClaimEffect(self.key, RangeFinished(id_)) for id_ in over]

    def _allow(self, now_ms: int) -> Effects:
        """Allow the fetched messages of the lowest undelivered range; at most once all of it."""
        first = next((each for each in self.driver.held if not self._is_over(each)), None)
        self._update_turn(first)
        if self.alone is not None:  # a lower one may have been granted meanwhile
            first = self.driver.participant.holding(self.alone)
        machine = None if first is None else self.ranges.get(first.id)
        if first is None or machine is None or machine.taken_back or self.leaving:
            return []
        if self.at_most_once and self.driver.hangs(now_ms):
            return []
        holder = self.turn.holder
        if holder is self:
            return self._allow_alone(first, machine, now_ms)
        return self._allow_of(first, machine, now_ms) if holder is None else []

    def _allow_of(self, first: HeldRange, machine: RangeMachine, now_ms: int) -> Effects:
        driver = self.driver
        # At most once the whole range is lost with its holder anyway.
        end = first.to if self.at_most_once else min(machine.fetched, first.to)
        if end <= first.begun or driver.may_begin(first.id, end - 1) is not None:
            return []
        begun = self._of(driver.begun(first.id, end - 1, now_ms))
        held = driver.participant.holding(first.id)
        if held is None or held.begun < end:
            return begun  # it could not be recorded
        allowed = RangeAllowed(first.id, range(first.begun, end))
        return [*begun, SharedClaimEffect(self.key, allowed)]

    # --- one message alone ------------------------------------------------------------------------

    def _goes_alone(self, held: HeldRange) -> bool:
        """Whether several holders fell silent, perhaps because of its first message."""
        machine = self.ranges.get(held.id)
        if machine is None or self.alone_from is None or held.begun > held.from_:
            return False
        return machine.deliveries >= self.alone_from and machine.fetched > held.from_

    def _update_turn(self, first: HeldRange | None) -> None:
        """Take the turn to begin a message alone, or pass it on."""
        if all(each.id != self.alone for each in self.driver.participant.held):
            self.alone = None
        may_go = first is not None and not self.leaving and self._goes_alone(first)
        wants, turn = may_go or self.alone is not None, self.turn
        if turn.holder is self and not wants:
            turn.pass_on()
        elif turn.holder is None and wants:
            turn.holder = self
        self.driver.may_ask = turn.holder is None

    @property
    def _makes_way(self) -> bool:
        """Whether the application has none of its messages, and none waits to be begun."""
        driver = self.driver
        if driver.in_hand:
            return False
        if not driver.participant.claim.owned:
            return True
        owes = owed_from(driver.me, driver.participant) is not None
        waits = any(each.begun == each.from_ < each.to for each in driver.held)
        return not (owes or waits or driver.participant.requested)

    def _make_way(self, now_ms: int) -> Effects:
        """Request nothing, and give back what was not begun."""
        driver = self.driver
        driver.may_ask = False
        owes = owed_from(driver.me, driver.participant) is not None
        if owes or not driver.participant.claim.owned:
            return []
        return self._of(driver.give_back(now_ms))

    def _allow_alone(self, first: HeldRange, machine: RangeMachine, now_ms: int) -> Effects:
        """Allow the first message of a range, once the application has no other.

        If the consumer falls silent now, this message is the cause. The messages after it are given
        back, so this does not count as a delivery of theirs.
        """
        driver = self.driver
        effects: Effects = []
        if self.alone is None:
            effects = self._clear(first, now_ms)
        owes = owed_from(driver.me, driver.participant) is not None
        if self.alone != first.id or owes or machine.given_alone:
            return effects
        machine.given_alone = True
        allowed = RangeAllowed(first.id, range(first.from_, first.from_ + 1))
        return [*effects, SharedClaimEffect(self.key, allowed)]

    def _clear(self, first: HeldRange, now_ms: int) -> Effects:
        """Finish what was begun of other ranges, give the rest back, then begin this message."""
        driver = self.driver
        others = [each for each in self.turn.claims.values() if each is not self]
        effects = [effect for each in others for effect in each._make_way(now_ms)]
        if any(each.begun > each.from_ for each in driver.held if each.id != first.id):
            effects += self._make_way(now_ms)
            for each in driver.held:
                if each.id != first.id and each.from_ < each.begun < each.to:
                    effects += self._allow_of(each, self.ranges[each.id], now_ms)
                    break
            return effects + self._of(driver.commit(now_ms))
        if not all(each._makes_way for each in others):
            return effects
        if driver.may_begin(first.id, first.from_) is not None:
            return effects
        effects += self._of(driver.begun(first.id, first.from_, now_ms))
        held = driver.participant.holding(first.id)
        if held is None or held.begun == held.from_:
            return effects  # it could not be recorded
        self.alone = first.id
        return effects + self._of(driver.give_back(now_ms))


@define(eq=False)
class Turn:
    """Which shared claim has begun a message alone; no other message is begun meanwhile."""

    claims: Mapping[ClaimKey, SharedClaim]
    holder: SharedClaim | None = None
    passed_on: bool = False
    """Other claims may continue, and have not been notified yet."""

    def pass_on(self) -> None:
        """Allow other claims to begin messages."""
        self.holder, self.passed_on = None, True


@frozen
class _Counted:
    """A folded claim, and its ranges that were taken from silent holders."""

    state: FoldedState
    taken: AllTaken = NOTHING_TAKEN

    def after(self, record: RangesRecord, rules: Rules) -> _Counted:
        """The state after one more record."""
        state = after(self.state, record, rules)
        return _Counted(
            state, after_taken(self.taken, record.message, self.state.ranges, state.ranges)
        )


class SharedClaims:
    """All shared partitions of one instance."""

    def __init__(
        self,
        me: InstanceConfig,
        group: str,
        partitions: int,
        timing: RangesTiming,
        firsts: Mapping[int, int],
        new_driver: Callable[..., ParticipantDriver] = ParticipantDriver,
    ) -> None:
        """Begin with none.

        Args:
            me: the instance; its mode and window give the window of the shared partitions.
            group: the group id of the claims.
            partitions: the coordination topic's number of partitions.
            timing: the participants' timeouts.
            firsts: the first offset to read of each coordinating partition; 0 by default.
            new_driver: makes a participant's driver, for example one that records.
        """
        self._new_driver = new_driver
        self._me, self._group, self._partitions = me, group, partitions
        self._timing, self._firsts = timing, dict(firsts)
        self._homes: dict[str, int] = {}
        self._claims: dict[ClaimKey, SharedClaim] = {}
        self._next: dict[int, int] = {}
        """The next offset to read, by coordinating partition."""
        self._folded: dict[ClaimKey, _Counted] = {}
        """Claims that other instances share, and that may be added here later."""
        self._alone_from: int | None = None
        self._turn = Turn(self._claims)

    def __iter__(self) -> Iterator[SharedClaim]:
        return iter(list(self._claims.values()))

    @property
    def window(self) -> int:
        """How far ranges may lie ahead of the position, in messages; 0 means at most once."""
        return 0 if self._me.mode is Mode.AT_MOST_ONCE else self._me.window

    @property
    def topics(self) -> set[str]:
        """The shared topics."""
        return {key.topic for key in self._claims}

    @property
    def coordinating_partitions(self) -> frozenset[int]:
        """The coordinating partitions to read."""
        return frozenset(self.home(key.topic) for key in self._claims)

    @property
    def drained(self) -> bool:
        """After `leave`: whether the application has no messages, and the rest was given back."""
        return all(each.driver.left for each in self)

    @property
    def next_timer_ms(self) -> int | None:
        """When to call `timer` next; None while nothing is due."""
        due = (each.driver.next_timer_ms for each in self)
        return min((at_ms for at_ms in due if at_ms is not None), default=None)

    @property
    def log_may_wait_ms(self) -> int:
        """How long records may stay unread: the least `log_may_wait_ms` of all drivers."""
        if self._turn.holder is not None:
            return 0
        return min((each.driver.log_may_wait_ms for each in self), default=0)

    def of(self, key: ClaimKey) -> SharedClaim | None:
        """The shared partition of this key."""
        return self._claims.get(key)

    def add(
        self,
        topic: str,
        partitions: int,
        start: Callable[[int], int],
        claim_of: Callable[[ClaimKey], Claim],
        now_ms: int,
    ) -> None:
        """Share these partitions of a topic; call it again when it has more partitions.

        Args:
            topic: its name.
            partitions: their number.
            start: the offset by the start policy, unless a position was ever set.
            claim_of: returns a claim as it was read from the start of the log.
            now_ms: the time.
        """
        for number in range(partitions):
            key = ClaimKey(self._group, topic, number)
            known = self._claims.get(key)
            if known is None:
                counted = self._folded.pop(key, None) or _Counted(_without_ranges(claim_of(key)))
                self._begin(key, start(number), counted, now_ms)
            elif known.leaving:
                known.again = start(number)
                self._begin_again(known, now_ms)

    def _begin(self, key: ClaimKey, start: int, counted: _Counted | None, now_ms: int) -> None:
        """Become a participant; `counted` is the state that was read before."""
        me = Identity(self._me.instance_id, self._me.client_id, self._me.says_interval)
        home = self.home(key.topic)
        unread = self._firsts.get(home, 0)
        first = max(unread, self._next.get(home, 0))
        if unread:
            counted = None  # the head of the log is gone, so its ranges are unknown
        folded = None if counted is None else counted.state
        rules, timing = self._me.rules, self._timing
        driver = self._new_driver(
            me, key, self.window, start, rules, timing, first=first, folded=folded
        )
        if folded is not None and folded.ranges.clock_ms >= 0:
            driver.clock.read(folded.ranges.clock_ms, now_ms)
        taken = NOTHING_TAKEN if counted is None else counted.taken
        self._claims[key] = SharedClaim(
            driver, taken=taken, alone_from=self._alone_from, turn=self._turn
        )
        if self._turn.holder is not None and self._turn.holder not in list(self):
            self._turn.pass_on()

    def _begin_again(self, claim: SharedClaim, now_ms: int) -> None:
        """Share it again, if that was asked for and it was left."""
        if claim.again is None or not claim.driver.left:
            return
        participant = claim.driver.participant
        folded = FoldedState(participant.claim, participant.ranges)
        counted = _Counted(folded, claim.taken) if claim.driver.known else None
        self._begin(claim.key, claim.again, counted, now_ms)

    def begin_alone(self, deliveries: int | None) -> None:
        """From now on begin messages alone that were delivered this often; None ends that."""
        self._alone_from = deliveries
        for each in self:
            each.alone_from = deliveries
            if deliveries is None:
                each.alone = None
        if deliveries is None:
            self._turn.pass_on()

    def record(self, raw: RawRecord, now_ms: int, claim_of: Callable[[ClaimKey], Claim]) -> Effects:
        """The next record of a coordinating partition, of any group and claim.

        `claim_of` returns a claim as it was read from the start of the log, without this record.
        """
        self._next[raw.partition] = raw.offset + 1
        if not self._claims and not self._folded and not _is_of_ranges(raw):
            return []
        try:
            record = raw.decoded_with_ranges()
        except MalformedRecord:
            return []
        message = record.message
        if message.group_id != self._group:
            return []
        if isinstance(message, ReleaseGroup):
            claims = [each for each in self if self.home(each.key.topic) == raw.partition]
            for key, state in self._folded.items():
                if self.home(key.topic) == raw.partition:
                    self._folded[key] = state.after(record, self._me.rules)
        else:
            if self.home(message.topic) != raw.partition:
                return []
            claim = self._claims.get(message.key)
            if claim is None:
                self._fold(raw, record, message.key, claim_of)
                return []
            claims = [claim]
        checkpoint = None
        if not all(each.driver.known for each in claims):
            checkpoint = checkpoint_of(message, raw.headers)
        return [effect for each in claims for effect in each.record(record, checkpoint, now_ms)]

    def _fold(
        self,
        raw: RawRecord,
        record: RangesRecord,
        key: ClaimKey,
        claim_of: Callable[[ClaimKey], Claim],
    ) -> None:
        """Fold a claim that others share, from its first record of ranges on."""
        state = self._folded.get(key)
        if state is None and _is_of_ranges(raw):
            state = _Counted(_without_ranges(claim_of(key)))
        if state is not None:
            self._folded[key] = state.after(record, self._me.rules)

    def caught_up(self, partition: int, now_ms: int) -> Effects:
        """This coordinating partition was read to its end."""
        for each in self:
            if self.home(each.key.topic) == partition:
                self._begin_again(each, now_ms)
        passed_on, self._turn.passed_on = self._turn.passed_on, False
        effects: Effects = []
        for each in self:
            if self.home(each.key.topic) == partition:
                effects += each.caught_up(now_ms)
            elif passed_on:
                effects += each.timer(now_ms)
        return effects

    def timer(self, now_ms: int) -> Effects:
        """Time has passed."""
        return [effect for each in self for effect in each.timer(now_ms)]

    def begin_to_leave(self, topic: str | None = None) -> None:
        """Allow no more, of a topic or of all. `leave` follows when it is known what was begun."""
        for each in self:
            each.leaving |= topic in (None, each.key.topic)

    def leave(self, now_ms: int, topic: str | None = None) -> Effects:
        """Request no more, and give back what was not begun."""
        return [
            effect
            for each in self
            if topic in (None, each.key.topic)
            for effect in each.leave(now_ms)
        ]

    def truncated(self) -> Effects:
        """The log lost records, so what was read of it is no longer valid."""
        return [effect for each in self for effect in each.truncated()]

    def pass_gap(self, partition: int, first: int) -> Effects:
        """The log lacks records right before this offset, so its ranges are unknown."""
        effects = self._lost_at(partition)
        self._firsts[partition] = first
        self._next[partition] = first
        for key in list(self._folded):
            if self.home(key.topic) == partition:
                del self._folded[key]
        for claim in self:
            key = claim.key
            if self.home(key.topic) == partition and not claim.leaving:
                self._begin(key, claim.driver.me.start, None, AT_ONCE)
        return effects

    def _lost_at(self, partition: int) -> Effects:
        return [
            effect
            for each in self
            if self.home(each.key.topic) == partition
            for effect in each.truncated()
        ]

    def outcome_unknown(self, key: ClaimKey, sent: SendRecord, now_ms: int) -> Effects:
        """The outcome of an append is unknown."""
        claim = self._claims.get(key)
        if claim is None:
            return []
        return claim._of(claim.driver.outcome_unknown(sent, now_ms))

    def home(self, topic: str) -> int:
        """The coordinating partition of a topic's claims."""
        home = self._homes.get(topic)
        if home is None:
            home = self._homes[topic] = coordinating_partition(topic, self._partitions)
        return home


def _is_of_ranges(raw: RawRecord) -> bool:
    """Whether it may begin ranges, or only moves their clock."""
    return is_claiming_range(raw.value) or any(
        name in RANGE_HEADER_FIELDS for name, _ in raw.headers
    )


def _without_ranges(claim: Claim) -> FoldedState:
    """The state of a claim that was never shared."""
    return FoldedState(claim, Ranges(clock_ms=claim.clock_ms))
