"""Compares what the log reports as done of a shared claim with what consumers processed.

`participants` judges each one by itself. This module compares them with each other. At most once,
no message is begun by two of them. At least once, the log reports no message as done that nobody
has finished. Both follow from the specification, so this is a second safety net. It does not judge,
and reports, what depends on instances that were not recorded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter
from typing import Final, TypeAlias

from attrs import define, field

from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import ClaimingRange, ReleaseGroup
from kafka_marshal.core.ranges.messages import RangesMessage, RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState, outcome
from kafka_marshal.core.ranges.state import OFFSET_MAX
from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.machines.ranges.participant import ANCHOR
from kafka_marshal.validate.log import Entry
from kafka_marshal.validate.participants import new_state

_CUT: Final = attrgetter("window", "frontier", "open", "pool")
"""The division into ranges: all of them except clocks and signs of life."""
OfRange: TypeAlias = tuple[str, ClaimKey, int]
"""A range: its holder's instance, its claim and its id."""


@define
class Offsets:
    """A set of offsets, as sorted intervals with gaps between them.

    >>> offsets = Offsets()
    >>> offsets.add(0, 5); offsets.add(5, 9); offsets.remove(3, 4); offsets.intervals
    [(0, 3), (4, 9)]
    >>> offsets.first_missing(0, 9), offsets.meets(3, 4)
    (3, False)
    """

    intervals: list[tuple[int, int]] = field(factory=list)

    def _touching(self, start: int, stop: int) -> slice:
        """The intervals that overlap or touch [start, stop)."""
        first = bisect_left(self.intervals, start, key=lambda each: each[1])
        last = first
        while last < len(self.intervals) and self.intervals[last][0] <= stop:
            last += 1
        return slice(first, last)

    def add(self, start: int, stop: int) -> None:
        """Add these offsets."""
        if start >= stop:
            return
        place = self._touching(start, stop)
        for first, last in self.intervals[place]:
            start, stop = min(start, first), max(stop, last)
        self.intervals[place] = [(start, stop)]

    def remove(self, start: int, stop: int) -> None:
        """Remove these offsets."""
        place = self._touching(start, stop)
        rest: list[tuple[int, int]] = []
        for first, last in self.intervals[place]:
            rest += [(first, min(last, start)), (max(first, stop), last)]
        self.intervals[place] = [each for each in rest if each[0] < each[1]]

    def meets(self, start: int, stop: int) -> bool:
        """Whether any of these offsets is in the set."""
        return any(
            first < stop and start < last
            for first, last in self.intervals[self._touching(start, stop)]
        )

    def first_missing(self, start: int, stop: int) -> int | None:
        """The first of these offsets that is not in the set."""
        for first, last in self.intervals[self._touching(start, stop)]:
            if first > start:
                break
            start = max(start, last)
        return start if start < stop else None


def is_about(message: RangesMessage, key: ClaimKey) -> bool:
    """Whether a record belongs to the claim, or affects its whole group."""
    if isinstance(message, ReleaseGroup):
        return message.group_id == key.group
    return message.key == key


def among(entry: Entry, keys: Collection[ClaimKey]) -> list[ClaimKey]:
    """The claims among these that the record affects."""
    ranged = entry.ranged
    if ranged is None:
        return []
    message = ranged.record.message
    if isinstance(message, ReleaseGroup):
        return [key for key in keys if key.group == message.group_id]
    return [message.key] if message.key in keys else []


def of_claim(entries: Iterable[Entry], key: ClaimKey) -> Iterator[RangesRecord]:
    """Yield the records that affect the claim."""
    for entry in entries:
        if entry.ranged is not None and is_about(entry.ranged.record.message, key):
            yield entry.ranged.record


@define
class SharedLog:
    """One shared claim, for a reader that has read everything."""

    key: ClaimKey
    rules: Rules
    state: FoldedState = field(factory=new_state)
    sets: list[int] = field(factory=list)
    """The offsets of the records that set its position manually."""
    begun: dict[int, Offsets] = field(factory=dict)
    """At most once: the begun messages, by the number of manual positions before."""
    finished: Offsets = field(factory=Offsets)
    """At least once: the finished messages, and those that are not judged."""
    unjudged: int = 0
    """The number of offsets that are done according to instances that were not recorded."""

    @classmethod
    def of(cls, entries: Iterable[Entry], key: ClaimKey, rules: Rules) -> SharedLog:
        """The claim after these records, which are the log from its beginning on."""
        log = cls(key, rules)
        for record in of_claim(entries, key):
            log.fold(record)
        return log

    def fold(self, record: RangesRecord) -> FoldedState:
        """Fold the next record of the claim; return the state before it."""
        before = self.state
        self.state, verdict = outcome(before, record, self.rules)
        if verdict is Accepted.POSITION_SET:
            self.sets.append(record.offset)
        return before

    def begin(self) -> None:
        """Judge from here on: everything done by now counts as finished."""
        for start, stop in _done(self.state):
            self.finished.add(start, stop)

    def append(self, record: RangesRecord, recorded: bool) -> int | None:
        """Fold one more record; return the first offset that it falsely reports as done.

        Spec: NoneSkipped. `recorded`: whether its sender was recorded.
        """
        before = self.fold(record)
        after = self.state
        if after.claim is before.claim and _CUT(after.ranges) == _CUT(before.ranges):
            return None
        if self.sets[-1:] == [record.offset]:
            # Messages after the position must be processed again; those before it never will be.
            self.finished.remove(after.claim.position, OFFSET_MAX)
            self.finished.add(0, after.claim.position)
            return None
        if not self._asks_for_all(before, after, record, recorded):
            for start, stop in _done(after):
                self.finished.add(start, stop)
        for start, stop in _done(after):
            missing = self.finished.first_missing(start, stop)
            if missing is not None:
                return missing
        self.finished.add(0, after.claim.position)
        return None

    def _asks_for_all(
        self, before: FoldedState, after: FoldedState, record: RangesRecord, recorded: bool
    ) -> bool:
        """Whether all that this record reports as done must be finished by recorded instances."""
        if not before.claim.position_set or 0 in (before.ranges.window, after.ranges.window):
            return False
        if not recorded:
            self.unjudged += self._new(after)
            return False
        # A consumer that owns the whole partition is judged by its own guards.
        return isinstance(record.message, ClaimingRange) or record.message.instance_id == ANCHOR

    def _new(self, after: FoldedState) -> int:
        count = 0
        for start, stop in _done(after):
            missing = self.finished.first_missing(start, stop)
            while missing is not None:
                end = next((each[0] for each in self.finished.intervals if each[0] > missing), stop)
                count += min(end, stop) - missing
                missing = self.finished.first_missing(min(end, stop), stop)
        return count

    # --- what participants do -----------------------------------------------------------------

    def finish(self, start: int, stop: int) -> None:
        """An instance has finished these messages."""
        self.finished.add(start, stop)

    def begin_once(self, view: int, start: int, stop: int) -> bool:
        """At most once: begin these; returns whether none was begun before. Spec: AtMostOnce.

        An instance that has read fewer manual positions begins messages granted before them.
        """
        begun = self.begun.setdefault(bisect_left(self.sets, view), Offsets())
        if begun.meets(start, stop):
            return False
        begun.add(start, stop)
        return True

    def take_back(self, view: int, start: int, stop: int) -> None:
        """At most once: these were not begun after all."""
        begun = self.begun.get(bisect_left(self.sets, view))
        if begun is not None:
            begun.remove(start, stop)


@define
class AllowedOnce:
    """At most once: what participants allowed, compared with what their applications received.

    A participant reports a whole range as begun, and takes back what was not handed over. At the
    end of the range it records what was handed over, unless it was killed before.
    """

    _allowed: dict[OfRange, Offsets] = field(factory=dict)
    """Begun and not taken back, until the handed over messages are known."""
    _taken_back: dict[OfRange, int] = field(factory=dict)
    """The number of messages taken back, until the handed over messages are known."""

    def allow(self, one: OfRange, start: int, stop: int) -> None:
        """These messages may be handed over. Spec: Report."""
        self._allowed.setdefault(one, Offsets()).add(start, stop)

    def take_back(self, one: OfRange, start: int, stop: int) -> None:
        """None of these messages was handed over. Spec: TakeBack."""
        self._taken_back[one] = self._taken_back.get(one, 0) + stop - start
        self._allowed.setdefault(one, Offsets()).remove(start, stop)

    def hand_over(self, one: OfRange, pieces: Iterable[tuple[int, int]]) -> int | None:
        """Exactly these were handed over; return the first that was not allowed.

        Spec: BeginReported.
        """
        self._taken_back.pop(one, None)
        allowed = self._allowed.pop(one, Offsets())
        for start, stop in pieces:
            missing = allowed.first_missing(start, stop)
            if missing is not None:
                return missing
            allowed.remove(start, stop)
        return None

    def unknown(self, key: ClaimKey) -> int:
        """The number of messages taken back of ranges whose handed over messages are unknown."""
        return sum(count for (_, of, _), count in self._taken_back.items() if of == key)


def _done(state: FoldedState) -> list[tuple[int, int]]:
    """What the log reports as done: all below the position, and messages in no open range."""
    claim, ranges = state.claim, state.ranges
    done = [(0, claim.position)]
    if not ranges.has_begun or ranges.window == 0:
        return done
    left = [(each.from_, each.to) for each in ranges.open]
    left += [(each.from_, each.to) for each in ranges.pool]
    at = claim.position
    for start, stop in sorted(left):
        done.append((at, start))
        at = max(at, stop)
    done.append((at, ranges.frontier))
    return [each for each in done if each[0] < each[1]]
