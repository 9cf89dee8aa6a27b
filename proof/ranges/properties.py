"""What is proved of a step of ranges: of one arbitrary offset, and of what two elements become.

An offset is free (at or above the frontier), held by a range's id, in the pool, or done. Each
property is a formula over the ranges before a record and after it, so no path is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations, pairwise
from typing import Any, Final, TypeAlias

import attrs
from attrs import frozen

from kafka_marshal import Accepted, Claim, Rules
from kafka_marshal.core.claims.verdicts import FENCED_WINS
from kafka_marshal.core.messages import NOT_DECIMAL, ClaimingPartition, ClaimingRange
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.state import OFFSET_MAX, Interval, OpenRange, Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, Unmet
from proof.causes import DECIMAL
from proof.machine.logic import choose, every, implies, no, some
from proof.ranges.inputs import INTERVAL, SENDER, RangesInputs
from proof.ranges.others import ASKED, TOLD, higher, lower
from proof.symbols import Truth


@frozen
class Offset:
    """One arbitrary offset of the shared partition, and its past. All are symbols."""

    x: Any
    taken: Any
    """At most once somebody may process it, or did: it was granted, and not given back unbegun."""
    by: Any
    """The log offset of that grant."""
    low: Any
    """At least once the anchor read that this is the lowest, and says so in any later record."""
    any_window: bool = False
    """What was granted under a wider window counts, too."""

    def judged(self, ranges: Ranges) -> Any:
        """AtMostOnce speaks of these ranges."""
        return self.any_window or ranges.window == 0


@frozen
class Now:
    """Ranges, the claim below, and what is looked at."""

    ranges: Ranges
    claim: Claim
    last: Any
    """Offset of the last record."""
    offset: Offset
    intervals: Any
    """How many open ranges and intervals of the pool there are in all."""
    intervals_max: Any


Conjunct: TypeAlias = Callable[[Now], Any]


def has_begun(ranges: Ranges) -> bool:
    """There are ranges, or can be. A mistake may have it otherwise."""
    return ranges.window is not None


def covers(each: OpenRange | Interval, x: Any) -> Any:
    """The offset lies in it."""
    return every(each.from_ <= x, x < each.to)


def _in_any(of: Any, x: Any) -> Any:
    return some(*(covers(each, x) for each in of))


def held(ranges: Ranges, x: Any) -> Any:
    """Somebody holds it."""
    return _in_any(ranges.open, x)


def pooled(ranges: Ranges, x: Any) -> Any:
    """The next request may be granted it."""
    return _in_any(ranges.pool, x)


def free(ranges: Ranges, x: Any) -> Any:
    """Nobody ever held it, as long as these ranges go on."""
    return ranges.frontier <= x


def done(ranges: Ranges, x: Any) -> Any:
    """It was processed or, at most once, forgotten."""
    return every(x < ranges.frontier, no(held(ranges, x)), no(pooled(ranges, x)))


def _elements(ranges: Ranges) -> tuple[Any, ...]:
    return (*ranges.open, *ranges.pool)


# --- the invariant --------------------------------------------------------------------------------


def void_is_empty(now: Now) -> Any:
    """Where there is no tenure there are no ranges, and nobody is remembered."""
    return has_begun(now.ranges) or not (_elements(now.ranges) or now.ranges.alive)


def ranges_disjoint(now: Now) -> Any:
    """No offset lies in two elements, none is empty, and all lie below the frontier."""
    every_one = _elements(now.ranges)
    return every(
        *(some(a.to <= b.from_, b.to <= a.from_) for a, b in combinations(every_one, 2)),
        *(every(a.from_ < a.to, a.to <= now.ranges.frontier) for a in every_one),
    )


def bounded(now: Now) -> Any:
    """There are no more than there may be."""
    return now.intervals <= now.intervals_max


def window_holds(now: Now) -> Any:
    """The frontier is a window ahead of the position at most."""
    window: Any = now.ranges.window
    return window is None or now.ranges.frontier <= now.claim.position + window


def ids_grow(now: Now) -> Any:
    """Ids are offsets of the log, and the latest is the last."""
    ids = [each.id for each in now.ranges.open]
    return every(
        *(one < other for one, other in pairwise(ids)), *(each <= now.last for each in ids)
    )


def pool_is_in_order(now: Now) -> Any:
    """The lowest is first."""
    return every(*(a.from_ < b.from_ for a, b in pairwise(now.ranges.pool)))


def holders_are_heard(now: Now) -> Any:
    """Of each holder there is one sign of life."""
    names = [each.instance for each in now.ranges.alive]
    return len(set(names)) == len(names) and {e.instance for e in now.ranges.open} <= {*names}


def taken_is_granted(now: Now) -> Any:
    """At most once: what somebody may process lies below the position, and is granted no more."""
    ranges, of = now.ranges, now.offset
    lies_below = of.any_window or of.x < now.claim.position
    below = implies(of.taken, every(lies_below, of.by <= now.last))
    if not has_begun(ranges):
        return below
    judged = of.judged(ranges)
    holds = [implies(covers(r, of.x), judged, every(of.taken, of.by == r.id)) for r in ranges.open]
    return every(
        below,
        implies(of.taken, of.x < ranges.frontier),
        implies(of.taken, no(pooled(ranges, of.x))),
        implies(held(ranges, of.x), no(judged), no(of.taken)),
        *holds,
    )


def _is_low(now: Now, at: Any) -> Any:
    """Nothing below this waits."""
    ranges, x = now.ranges, now.offset.x
    waits = some(held(ranges, x), pooled(ranges, x))
    return every(at <= ranges.frontier, implies(waits, at <= x))


def position_is_low(now: Now) -> Any:
    """At least once, nothing below the position waits."""
    if not has_begun(now.ranges):
        return True
    return implies(no(now.ranges.window == 0), _is_low(now, now.claim.position))


def low_is_monotone(now: Now) -> Any:
    """What the anchor said in a record on its way is still so."""
    return not has_begun(now.ranges) or _is_low(now, now.offset.low)


INVARIANT: Final[Mapping[str, Conjunct]] = {
    "VoidIsEmpty": void_is_empty,
    "RangesDisjoint": ranges_disjoint,
    "Bounded": bounded,
    "WindowHolds": window_holds,
    "IdsGrow": ids_grow,
    "PoolIsInOrder": pool_is_in_order,
    "HoldersAreHeard": holders_are_heard,
    "TakenIsGranted": taken_is_granted,
    "PositionIsLow": position_is_low,
    "LowIsMonotone": low_is_monotone,
}
"""What is true of new ranges, and after every record if it was true before.

The cases have the first one built in; each other part is needed by another property.
"""


# --- a step ---------------------------------------------------------------------------------------


@frozen
class Step:
    """A record, and what became of the ranges."""

    inputs: RangesInputs
    before: Now
    outcome: RangeOutcome
    claim_after: Claim

    @property
    def ranges(self) -> Ranges:
        """Before the record."""
        return self.before.ranges

    @property
    def after(self) -> Ranges:
        """After it."""
        return self.outcome.ranges

    @property
    def x(self) -> Any:
        """The offset that is looked at."""
        return self.before.offset.x

    @property
    def rules(self) -> Rules:
        """Those of the claim."""
        return self.inputs.rules

    @property
    def is_request(self) -> bool:
        """The record is a ClaimingRange."""
        return self.inputs.looked_at.message is ClaimingRange

    @property
    def accepted(self) -> bool:
        """A ClaimingRange that no guard refused."""
        return isinstance(self.outcome.verdict, RangeAccepted)

    @property
    def go_on(self) -> Any:
        """The ranges went on, and did not begin anew."""
        if not has_begun(self.ranges) or not has_begun(self.after):
            return False
        return self.ranges.window == self.after.window

    def said(self, name: str, holds: Callable[[Any], Any]) -> Any:
        """A header is there, and this is true of it."""
        there, value = self.inputs.said(name)
        return every(there, holds(value))

    @property
    def granted(self) -> list[OpenRange]:
        """The range of this record, if there is one: which only it can have."""
        old = {id(each.id) for each in self.ranges.open}
        return [each for each in self.after.open if id(each.id) not in old]

    def granted_behind(self, each: Any) -> Any:
        """It is the range of this record, cut behind the frontier."""
        new = any(each is one for one in self.granted)
        return new and self.ranges.frontier < self.after.frontier

    @property
    def is_granted(self) -> Any:
        """The offset is the sender's, under the record's offset."""
        return some(*(covers(each, self.x) for each in self.granted))

    def speaks_of(self, range_: OpenRange) -> Any:
        """The record speaks of this range: its sender had read that it is its own."""
        own = range_.instance == SENDER
        return own and self.said("seen", lambda seen: range_.id <= seen)

    def says_done(self, range_: OpenRange) -> Any:
        """It says that its holder has processed the offset."""
        return every(self.speaks_of(range_), self.said("done", lambda value: self.x < value))

    def gives_back(self, range_: OpenRange) -> Any:
        """It says that its holder will not process the offset."""
        return every(
            self.speaks_of(range_),
            self.said("keep", lambda value: value <= self.x),
            no(self.says_done(range_)),
        )

    def has_no_room(self, range_: OpenRange) -> Any:
        """To give back would cut the range in two, and there are as many as there may be."""
        there, value = self.inputs.said("done")
        begins = choose(
            every(there, self.speaks_of(range_)), higher(range_.from_, value), range_.from_
        )
        cut = self.said("keep", lambda keep: every(begins < keep, keep < range_.to))
        ends = self._after_done()
        full = self.inputs.others.intervals[TOLD] + ends >= self.inputs.limits.intervals_max
        return every(cut, full)

    def _after_done(self) -> Any:
        there, value = self.inputs.said("done")
        left = [
            choose(every(there, self.speaks_of(each), each.to <= value), 0, 1)
            for each in self.ranges.open
        ]
        return sum(left, len(self.ranges.pool))

    def is_silent(self, instance: str) -> Any:
        """Another instance was silent for more than two intervals."""
        [last] = [each.ms for each in self.ranges.alive if each.instance == instance]
        silent: Any = self.after.clock_ms - last > self.rules.stale_after_ms
        return instance != SENDER and silent


def pieces_lie_within(step: Step) -> Any:
    """What is left of an element lies within it: only behind the frontier is anything new.

    So pieces of two elements are as disjoint as these were, however many others there are.
    """
    if not step.is_request:
        return True
    within = [
        some(
            every(step.granted_behind(each), step.ranges.frontier <= each.from_),
            *(every(e.from_ <= each.from_, each.to <= e.to) for e in _elements(step.ranges)),
        )
        for each in _elements(step.after)
    ]
    return every(*within)


def keeps_its_number(step: Step) -> Any:
    """Only what `keep` cuts becomes two elements; nothing else becomes more than one."""
    if not step.is_request:
        return True
    before, after = len(_elements(step.ranges)), len(_elements(step.after))
    new = [choose(step.granted_behind(each), 1, 0) for each in step.granted]
    cut = [
        every(step.speaks_of(r), step.said("keep", lambda k, r=r: every(r.from_ < k, k < r.to)))  # type: ignore[misc]
        for r in step.ranges.open
    ]
    return after <= sum((choose(each, 1, 0) for each in cut), sum(new, before))


def frontier_monotone(step: Step) -> Any:
    """The frontier never falls while ranges go on."""
    return implies(step.go_on, step.ranges.frontier <= step.after.frontier)


def refines_leases(step: Step) -> Any:
    """Free -> held -> done; held -> pooled -> held: each only by whom it may. Spec: RefinesLeases.

    It says what must become of the offset, too: what its holder says counts.
    """
    before, after, x = step.ranges, step.after, step.x
    if not has_begun(before) or not has_begun(after):
        return True
    free_again = some(pooled(after, x), step.is_granted)
    new = step.granted
    same = [each for each in after.open if not any(each is one for one in new)]
    goals = [
        implies(done(before, x), done(after, x)),
        implies(free(before, x), some(free(after, x), step.is_granted)),
        implies(pooled(before, x), free_again),
    ]
    for r in before.open:
        stays = some(*(every(covers(e, x), e.id == r.id) for e in same if e.instance == r.instance))
        if not step.accepted:
            goals.append(implies(covers(r, x), stays))
            continue
        silent, ahead = step.is_silent(r.instance), step.before.claim.position <= x
        ends = some(step.says_done(r), every(silent, no(ahead)))
        back = some(every(step.gives_back(r), no(step.has_no_room(r))), every(silent, ahead))
        became = choose(ends, done(after, x), choose(back, free_again, stays))
        goals.append(implies(covers(r, x), became))
    return implies(step.go_on, every(*goals))


def gives_back_unbegun(step: Step) -> Any:
    """What the record gives back was not begun, and will not be: nobody may process it now."""
    if not step.accepted:
        return False
    free_again = some(pooled(step.after, step.x), step.is_granted)
    of = step.before.offset
    return some(
        *(
            every(covers(r, step.x), r.id == of.by, step.gives_back(r), free_again)
            for r in step.ranges.open
        )
    )


def is_given(step: Step) -> Any:
    """At most once the offset is granted: in a range, or to a consumer that owns alone.

    What the anchor is granted is reserved, and nobody's yet.
    """
    if step.is_request:
        judged = has_begun(step.ranges) and step.before.offset.judged(step.ranges)
        return every(step.is_granted, judged)
    if step.outcome.verdict is not Accepted.GRANTED or has_begun(step.ranges):
        return False
    return every(step.before.claim.position <= step.x, step.x < step.claim_after.position)


def at_most_once(step: Step) -> Any:
    """What somebody may process, or did, is granted to nobody, until a position is set."""
    still = every(step.before.offset.taken, no(gives_back_unbegun(step)))
    return no(every(is_given(step), still))


def pause_holds(step: Step) -> Any:
    """In a pause nobody owns, and nothing is granted."""
    if not step.is_request:
        return True
    grants = step.outcome.verdict is RangeAccepted.RANGE_GRANTED or step.granted
    return not grants or step.before.claim.owned


def refused_changes_nothing(step: Step) -> Any:
    """A ClaimingRange that is refused changes no range."""
    if not isinstance(step.outcome.verdict, RangeRefused):
        return True
    return _same(step, ("window", "frontier", "open", "pool"))


def _same(step: Step, fields: tuple[str, ...]) -> Any:
    return every(*(equal(getattr(step.ranges, each), getattr(step.after, each)) for each in fields))


def equal(one: Any, other: Any) -> Any:
    """They are the same, to the last field."""
    if one is None or other is None or isinstance(one, str):
        return one == other
    if isinstance(one, tuple):
        return len(one) == len(other) and every(*map(equal, one, other))
    if attrs.has(type(one)):
        names = [each.name for each in attrs.fields(type(one))]
        return every(*(equal(getattr(one, name), getattr(other, name)) for name in names))
    return one == other


def silent_forgotten(step: Step) -> Any:
    """After a request nobody is remembered who was silent; all others are, as they were."""
    before = {each.instance: each.ms for each in step.ranges.alive}
    after = {each.instance: each.ms for each in step.after.alive}
    if not has_begun(step.ranges) or not has_begun(step.after):
        return True
    others = [each for each in before if each != SENDER]
    if not {*after} <= {*before}:
        return False
    kept = [every(each in after, each in after and after[each] == before[each]) for each in others]
    if not step.accepted:
        return implies(step.go_on, every(*kept))
    gone = [
        choose(step.is_silent(name), name not in after, kept[n]) for n, name in enumerate(others)
    ]
    return every(*gone)


def sender_is_heard(step: Step) -> Any:
    """A request that counts is a sign of life; while ranges sleep, only of who holds some."""
    if not step.is_request:
        return True
    now = {each.instance: each.ms for each in step.after.alive}
    heard = SENDER in now and now[SENDER] == step.after.clock_ms
    if step.accepted:
        return heard
    if step.outcome.verdict is RangeRefused.NO_RANGE_TENURE and has_begun(step.ranges):
        holds = step.inputs.others.open_of[TOLD] > 0
        if any(each.instance == SENDER for each in step.ranges.open):
            holds = True
        return choose(holds, heard, _same(step, ("alive",)))
    return _same(step, ("alive",))


def clock_is_maximum(step: Step) -> Any:
    """Every record moves the clock, but a ClaimingRange before the key's first old record."""
    moved = step.after.clock_ms == higher(step.ranges.clock_ms, step.inputs.asked.timestamp_ms)
    if not step.is_request or step.inputs.looked_at.known:
        return moved
    new = is_new(step.before.claim)
    return choose(new, step.after.clock_ms == step.ranges.clock_ms, moved)


def is_new(claim: Claim) -> Any:
    """No old record came, of a claim of which nobody is known."""
    return every(
        claim.position == 0, claim.clock_ms == Claim().clock_ms, no(claim.position_set),
        no(claim.won_with_headers),
    )  # fmt: skip


def request_is_met(step: Step) -> Any:
    """Who asks gets the lowest of the pool, or what is behind the frontier, or hears why not."""
    outcome, after, limits = step.outcome, step.after, step.inputs.limits
    if not step.accepted:
        return outcome.guard is None
    count: Any = step.inputs.asked.message.count  # type: ignore[union-attr]
    same_frontier = after.frontier == step.ranges.frontier
    if not step.granted:
        asks_nothing = every(outcome.verdict is RangeAccepted.RANGE_REFRESHED, same_frontier)
        if outcome.guard is None:
            return every(asks_nothing, count == 0)
        many = _too_many(step, after)
        why = (
            many if outcome.guard is Unmet.TOO_MANY_OPEN else every(no(many), _full(step, after, 0))
        )
        return every(asks_nothing, count > 0, not after.pool, why)
    [new] = step.granted
    told = every(
        outcome.verdict is RangeAccepted.RANGE_GRANTED and outcome.guard is None,
        count > 0, new.id == step.inputs.asked.offset, new.instance == SENDER,
    )  # fmt: skip
    lowest = every(same_frontier, *(new.from_ < each.from_ for each in after.pool))
    length = lower(count, limits.range_messages_max)
    frontier = lower(step.ranges.frontier + length, _most(step))
    cut = every(
        not after.pool,
        new.from_ == step.ranges.frontier,
        new.to == frontier,
        after.frontier == frontier,
        no(_too_many(step, after, 1)),
        no(_full(step, after, 1)),
    )
    from_pool = new.to <= step.ranges.frontier
    return every(told, choose(from_pool, lowest, cut))


def _most(step: Step) -> Any:
    window: Any = step.ranges.window
    return lower(step.before.claim.position + window, OFFSET_MAX)


def _too_many(step: Step, after: Ranges, new: int = 0) -> Any:
    """Without what is new, the sender holds as many as it may."""
    own = sum(each.instance == SENDER for each in after.open) - new
    return own + step.inputs.others.open_of[ASKED] >= step.inputs.limits.open_ranges_max


def _full(step: Step, after: Ranges, new: int) -> Any:
    """There was no room, ahead of the position or in the claim."""
    room = step.ranges.frontier >= _most(step)
    number = len(after.open) + len(after.pool) - new + step.inputs.others.intervals[ASKED]
    return some(room, number >= step.inputs.limits.intervals_max)


def refusal_names_cause(step: Step) -> Any:
    """The first guard that does not pass says so."""
    if not step.is_request:
        return step.outcome.verdict is step.inputs.looked_at.verdict
    inputs = step.inputs
    version: Any = inputs.asked.message.version
    count: Any = inputs.asked.message.count  # type: ignore[union-attr]
    present: Any = inputs.record.headers.present
    bad = [every(present, step.said(each, lambda v: v == NOT_DECIMAL)) for each in DECIMAL]
    more = ("window", "done", "keep", "start", INTERVAL)
    bad += [step.said(each, lambda v: v == NOT_DECIMAL) for each in more]
    ahead = [step.said(each, lambda v: v >= inputs.asked.offset) for each in ("epoch", "seen")]
    speaks = some(*(inputs.said(each)[0] for each in ("done", "keep")))
    causes = {
        RangeRefused.UNKNOWN_VERSION: every(no(version == 0), no(version == 1)),
        RangeRefused.HEADER_NOT_DECIMAL: some(*bad),
        RangeRefused.HEADER_FROM_THE_FUTURE: every(present, some(*ahead)),
        RangeRefused.NO_RANGE_TENURE: not step.before.claim.owned or not has_begun(step.ranges),
        RangeRefused.SEEN_MISSING: every(speaks, no(inputs.said("seen")[0])),
        RangeRefused.NEGATIVE_COUNT: count < 0,
    }
    passed: list[Any] = []
    for verdict, cause in causes.items():
        if step.outcome.verdict is verdict:
            return every(*passed, cause)
        passed.append(no(cause))
    return every(step.accepted, *passed)


def tenure_begins(step: Step) -> Any:
    """A win with the header begins ranges at the position, or goes on; other wins end them."""
    if step.is_request:
        return True
    verdict, after = step.outcome.verdict, step.after
    same = _same(step, ("window", "frontier", "open", "pool", "alive"))
    void = equal(attrs.evolve(after, clock_ms=-1), Ranges())
    if verdict is Accepted.POSITION_SET:
        return void
    if verdict not in FENCED_WINS:
        return same
    shares = step.inputs.looked_at.message is ClaimingPartition and step.said(
        "window", lambda w: w >= 0
    )
    if not has_begun(after):
        return every(no(shares), void)
    window = step.inputs.said("window")[1]
    goes_on = has_begun(step.ranges) and step.ranges.window == window
    anew = every(
        after.window == window,
        after.frontier == step.claim_after.position,
        not _elements(after) and not after.alive,
    )
    return every(shares, choose(goes_on, same, anew) if isinstance(goes_on, Truth) else anew)


STEPS: Final[Mapping[str, Callable[[Step], Any]]] = {
    "PiecesLieWithin": pieces_lie_within,
    "KeepsItsNumber": keeps_its_number,
    "FrontierMonotone": frontier_monotone,
    "RefinesLeases": refines_leases,
    "AtMostOnce": at_most_once,
    "PauseHolds": pause_holds,
    "RefusedChangesNothing": refused_changes_nothing,
    "SilentForgotten": silent_forgotten,
    "SenderIsHeard": sender_is_heard,
    "ClockIsMaximum": clock_is_maximum,
    "RequestIsMet": request_is_met,
    "RefusalNamesCause": refusal_names_cause,
    "TenureBegins": tenure_begins,
}
"""What is true of every record."""
