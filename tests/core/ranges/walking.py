"""Random logs of one claim that is shared, folded as they grow, and what is known of who did what.

In an honest log everybody says what is true of a view that may be old: late, doubled and overtaken
records are all there. In a hostile one anybody says anything. A walk is named by its seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import attrs

from kafka_marshal import (
    FENCED,
    Accepted,
    Claim,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal import step as claim_step
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.messages import (
    NO_HEADERS,
    NOT_DECIMAL,
    ClaimingRange,
    Message,
    Offset,
    Partition,
)
from kafka_marshal.core.ranges import reducer
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.invariants import (
    RangesProperty,
    RangesStep,
    broken_by,
    position_is_low,
)
from kafka_marshal.core.ranges.messages import (
    NO_RANGE_HEADERS,
    RangeHeaders,
    RangesMessage,
    RangesRecord,
)
from kafka_marshal.core.ranges.state import OFFSET_MAX, Limits, Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from tests.core.ranges.brute_force import Cells

RULES = attrs.evolve(FENCED, heartbeat_interval_ms=1000, pause_max_ms=5000)
LIMITS = Limits(intervals_max=5, open_ranges_max=3, range_messages_max=9)
ANCHOR, PARTICIPANTS, OTHER, ADMIN = "anchor", ("p", "q", "r"), "other", "admin"
PRESENT = Headers(present=True)
COUNTS = (0, 1, 2, 5, 9, 40)


@attrs.define
class Lease:
    """Offsets that an instance may process, and what it reported of them."""

    id: int
    instance: str
    from_: int
    to: int
    done: int = 0
    """Everything below is processed."""
    never: int = OFFSET_MAX
    """Nothing at or above will ever be."""

    @property
    def may(self) -> range:
        """What may be processed under it."""
        return range(self.from_, min(self.to, self.never))


@attrs.frozen
class Built:
    """A record before it has an offset, and the view that it was built from."""

    message: RangesMessage
    headers: Headers = NO_HEADERS
    range_headers: RangeHeaders = NO_RANGE_HEADERS


@attrs.define
class Walk:
    """One log, and everything that became of it."""

    random: Random
    window: int
    honest: bool
    claim: Claim = attrs.field(factory=Claim)
    ranges: Ranges = attrs.field(factory=Ranges)
    history: list[tuple[Claim, Ranges]] = attrs.Factory(list)
    """Before each record."""
    log: list[RangesRecord] = attrs.Factory(list)
    cells: Cells = attrs.field(factory=lambda: Cells(LIMITS, RULES.stale_after_ms))
    leases: list[Lease] = attrs.Factory(list)
    passed: set[int] = attrs.Factory(set)
    """At least once: processed, or skipped by the administrator."""
    now_ms: int = 10_000
    verdicts: set[object] = attrs.Factory(set)
    again: Built | None = None

    # --- what is sent ----------------------------------------------------------------------------

    def view(self) -> int:
        """How many records a sender has read: nearly all, or few."""
        length = len(self.history)
        late = self.random.choice((0, 0, 0, 1, 2, 4, 9, self.random.randint(0, length)))
        return max(0, length - late)

    def at(self, view: int) -> tuple[Claim, Ranges]:
        return self.history[view] if view < len(self.history) else (self.claim, self.ranges)

    def built(self) -> Built:
        """The next record that somebody sends; now and then one that lands again."""
        if self.again is not None and self.random.random() < 0.04:
            return self.again
        kinds = (self.requested, self.anchored, self.by_others, self.by_an_administrator)
        [kind] = self.random.choices(kinds, (70, 25, 3, 2))
        made = kind()
        self.again = made if self.honest and isinstance(made.message, Heartbeat) else self.again
        return made

    def requested(self) -> Built:
        """A participant asks, and says what it has done, or gives back."""
        who, view = self.random.choice(PARTICIPANTS), self.view()
        seen = view - 1
        ours = [each for each in self.at(view)[1].open if each.instance == who]
        offsets = sorted({o for each in ours for o in (each.from_, each.to - 1, each.to)})
        said = NO_RANGE_HEADERS
        count, about = self.random.choice(COUNTS), self.random.random()
        if offsets and about < 0.4:
            done = self.random.choice(offsets) + self.random.choice((0, 0, 1))
            if self.is_true(who, seen, done=done):
                said = RangeHeaders(done=done)
        elif offsets and about < 0.7:
            keep = self.random.choice(offsets) - self.random.choice((0, 0, 1))
            if keep >= 0 and self.is_true(who, seen, keep=keep):
                said, count = RangeHeaders(keep=keep), 0
        headers = attrs.evolve(PRESENT, seen=seen) if seen >= 0 else PRESENT
        if said != NO_RANGE_HEADERS and seen < 0:
            said = NO_RANGE_HEADERS
        return Built(claiming_range(who, count), headers, said)

    def is_true(self, who: str, seen: int, done: int = 0, keep: int = OFFSET_MAX) -> bool:
        """It contradicts no earlier record of its sender."""
        spoken = [each for each in self.leases if each.instance == who and each.id <= seen]
        return not self.honest or all(
            min(done, each.to) <= max(each.never, each.from_)
            and max(keep, each.from_) >= min(each.done, each.to)
            for each in spoken
        )

    def anchored(self) -> Built:
        """The anchor claims, moves the position, reserves, or rarely releases."""
        view = self.view()
        claim, ranges = self.at(view)
        headers = attrs.evolve(PRESENT, epoch=claim.epoch, seen=view - 1 if view else None)
        if not self.claim.owned or self.random.random() < 0.1:
            return Built(
                message(ClaimingPartition, ANCHOR), PRESENT, RangeHeaders(window=self.window)
            )
        if claim.owner_instance != ANCHOR or not ranges.has_begun:
            return Built(claiming_range(self.random.choice(PARTICIPANTS), 1), PRESENT)
        at = claim.position if self.window == 0 else ranges.low
        if self.random.random() < 0.08:
            return Built(message(ReleasingPartition, ANCHOR, at), headers)
        if self.window == 0 and self.random.random() < 0.6:
            ahead = ranges.frontier + self.random.choice((1, 5, 20))
            return Built(message(ClaimingMessages, ANCHOR, ahead), headers)
        return Built(message(Heartbeat, ANCHOR, at), headers)

    def by_others(self) -> Built:
        """One that knows no ranges claims, and works a message at a time."""
        view = self.view()
        claim, _ = self.at(view)
        if claim.owner_instance != OTHER:
            return Built(message(ClaimingPartition, OTHER), PRESENT)
        kind = ClaimingMessages if self.window == 0 else Heartbeat
        headers = attrs.evolve(PRESENT, epoch=claim.epoch)
        return Built(message(kind, OTHER, claim.position + 1), headers)

    def by_an_administrator(self) -> Built:
        """An administrator pauses, claims, and sets the position."""
        if self.claim.pauser is None or self.random.random() < 0.3:
            until_s = self.now_ms // 1000 + self.random.choice((0, 2, 9))
            return Built(ReleaseGroup(0, 0, ADMIN, ADMIN, "g", "", Partition(0), until_s))
        if self.claim.owner_instance != ADMIN:
            return Built(message(ClaimingPartition, ADMIN), PRESENT)
        to = self.random.choice((0, self.claim.position // 2, self.claim.position + 3))
        headers = attrs.evolve(PRESENT, epoch=self.claim.epoch, set_position=to)
        return Built(message(ReleasingPartition, ADMIN, to), headers)

    def garbled(self, built: Built) -> Built:
        """A hostile sender's: numbers that make no sense, headers that are missing."""
        length = len(self.history)

        def number() -> int | None:
            return self.random.choice((None, NOT_DECIMAL, 0, 3, length - 1, length, 60))

        what, headers = self.random.randrange(9), built.headers
        if isinstance(built.message, ReleasingPartition):
            what = self.random.choice((what, 8))
        if what <= 2:
            said: dict[str, Any] = {("seen", "epoch", "set_position")[what]: number()}
            return attrs.evolve(built, headers=attrs.evolve(headers, **said))
        if what <= 5:
            field = ("window", "done", "keep")[what - 3]
            headers_of_ranges = attrs.evolve(built.range_headers, **{field: number()})
            return attrs.evolve(built, range_headers=headers_of_ranges)
        if what == 6:
            version = self.random.choice((0, 2, -1))
            return attrs.evolve(built, message=attrs.evolve(built.message, version=version))
        if isinstance(built.message, ReleasingPartition):
            return attrs.evolve(built, headers=attrs.evolve(headers, set_position=0))
        if isinstance(built.message, ClaimingRange):
            count = self.random.choice((-1, 10**6, OFFSET_MAX))
            return attrs.evolve(built, message=attrs.evolve(built.message, count=count))
        return built

    # --- what becomes of it ----------------------------------------------------------------------

    def steps(self, records: int) -> Iterator[set[object]]:
        """Fold as many records; after each, what it broke."""
        for _ in range(records):
            built = self.built()
            if not self.honest and self.random.random() < 0.25:
                built = self.garbled(built)
            self.now_ms += self.random.choice((0, 50, 300, 300, 700, -400, 2000, 2001))
            yield self.fold(built)

    def fold(self, built: Built) -> set[object]:
        """Fold one record: the names of what it broke; `brute force` if that says otherwise."""
        offset = len(self.history)
        record = RangesRecord(0, offset, self.now_ms, *attrs.astuple(built, recurse=False))
        claim, ranges = self.claim, self.ranges
        outcome = reducer.step(ranges, claim, record, RULES, LIMITS)
        after = self.claim_after(record)
        self.history.append((claim, ranges))
        self.log.append(record)
        self.claim, self.ranges = after, outcome.ranges
        self.verdicts |= {outcome.verdict, outcome.guard}
        broken: set[object] = set(
            broken_by(RangesStep(ranges, claim, record, outcome, after, RULES, LIMITS))
        )
        if not self.agrees(claim, record, outcome):
            broken.add("brute force")
        return broken | (
            self.broken_by_an_honest_log(claim, record, outcome) if self.honest else set()
        )

    def claim_after(self, record: RangesRecord) -> Claim:
        """As an older reader folds it."""
        if isinstance(record.message, ClaimingRange):
            return self.claim
        older = Record(0, record.offset, record.timestamp_ms, record.message, record.headers)
        return claim_step(self.claim, older, RULES)[0]

    def agrees(self, claim: Claim, record: RangesRecord, outcome: RangeOutcome) -> bool:
        """The fold that goes offset by offset comes to the same."""
        guard = outcome.guard.value if outcome.guard else None
        if isinstance(record.message, ClaimingRange):
            said = self.cells.new(claim, record)
        else:
            said = outcome.verdict.value, None
            self.cells.old(record, self.claim.position, said[0])
        return said == (outcome.verdict.value, guard) and self.cells.is_like(self.ranges)

    def broken_by_an_honest_log(
        self, claim: Claim, record: RangesRecord, outcome: RangeOutcome
    ) -> set[object]:
        """What depends on everybody saying the truth."""
        sender, said = record.message.instance_id, record.range_headers
        seen = record.headers.seen
        if isinstance(record.message, ClaimingRange):
            for lease in self.leases:
                if lease.instance == sender and seen is not None and lease.id <= seen:
                    lease.done = max(lease.done, said.done or 0)
                    lease.never = min(lease.never, OFFSET_MAX if said.keep is None else said.keep)
                    self.passed |= {*range(lease.from_, min(lease.to, lease.done))}
        if outcome.verdict is Accepted.POSITION_SET:
            self.leases, self.passed = [], {*range(self.claim.position)}
        if outcome.verdict is Accepted.REFRESHED and sender == OTHER:
            self.passed |= {*range(self.claim.position)}
        broken: set[object] = set()
        for lease in self.granted(claim, record, outcome):
            if any(range_overlaps(lease.may, each.may) for each in self.leases):
                broken.add(Property.AT_MOST_ONCE)
            self.leases.append(lease)
        if self.window == 0:
            return broken & {Property.AT_MOST_ONCE}
        if not position_is_low(self.claim, self.ranges):
            broken.add(RangesProperty.POSITION_IS_LOW)
        done = {*range(self.ranges.frontier if self.ranges.has_begun else 0)}
        for held in self.ranges.open:
            done -= {*range(held.from_, held.to)}
        for free in self.ranges.pool:
            done -= {*range(free.from_, free.to)}
        if not ({*range(self.claim.position)} | done) <= self.passed:
            broken.add(Property.NONE_SKIPPED)
        return broken - {Property.AT_MOST_ONCE}

    def granted(self, claim: Claim, record: RangesRecord, outcome: RangeOutcome) -> Iterator[Lease]:
        """What the sender may process from here on."""
        sender = record.message.instance_id
        if outcome.verdict is RangeAccepted.RANGE_GRANTED:
            for each in self.ranges.open:
                if each.id == record.offset:
                    yield Lease(each.id, sender, each.from_, each.to)
        if outcome.verdict is Accepted.GRANTED and sender != ANCHOR:
            yield Lease(record.offset, sender, claim.position, self.claim.position)


def range_overlaps(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


def claiming_range(who: str, count: int) -> ClaimingRange:
    return ClaimingRange(1, 0, who, who, "g", "t", Partition(0), count)


def message(kind: type[Message], who: str, *offset: int) -> Message:
    client = "ranges" if who == ANCHOR else who
    return kind(1, 0, who, client, "g", "t", Partition(0), *map(Offset, offset))


def walk(seed: int, window: int, *, honest: bool) -> Walk:
    """A walk by its seed."""
    return Walk(Random(seed), window, honest)
