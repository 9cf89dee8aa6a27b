"""Compares what the log reports as done of a shared claim with what consumers processed.

`participants` judges each by itself. This room looks across them: at most once no message is begun
by two, and at least once the log calls nothing done that nobody has finished. Both follow from the
specification, so this is a second net under the first. It judges only what it can: of what somebody
did who was not recorded it says so.
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
"""How ranges are cut: all of them but for clocks and signs of life."""
OfRange: TypeAlias = tuple[str, ClaimKey, int]
"""A range by its holder's instance, its claim and its id."""


@define
class Offsets:
    """A set of offsets, as intervals in order, of which no two touch.

    >>> offsets = Offsets()
    >>> offsets.add(0, 5); offsets.add(5, 9); offsets.remove(3, 4); offsets.intervals
    [(0, 3), (4, 9)]
    >>> offsets.first_missing(0, 9), offsets.meets(3, 4)
    (3, False)
    """

    intervals: list[tuple[int, int]] = field(factory=list)

    def _touching(self, start: int, stop: int) -> slice:
        """The intervals that meet [start, stop), or touch it."""
        first = bisect_left(self.intervals, start, key=lambda each: each[1])
        last = first
        while last < len(self.intervals) and self.intervals[last][0] <= stop:
            last += 1
        return slice(first, last)

    def add(self, start: int, stop: int) -> None:
        """Have these, too."""
        if start >= stop:
            return
        place = self._touching(start, stop)
        for first, last in self.intervals[place]:
            start, stop = min(start, first), max(stop, last)
        self.intervals[place] = [(start, stop)]

    def remove(self, start: int, stop: int) -> None:
        """Have these no more."""
        place = self._touching(start, stop)
        rest: list[tuple[int, int]] = []
        for first, last in self.intervals[place]:
            rest += [(first, min(last, start)), (max(first, stop), last)]
        self.intervals[place] = [each for each in rest if each[0] < each[1]]

    def meets(self, start: int, stop: int) -> bool:
        """Whether any of these is there."""
        return any(
            first < stop and start < last
            for first, last in self.intervals[self._touching(start, stop)]
        )

    def first_missing(self, start: int, stop: int) -> int | None:
        """The first of these that is not there."""
        for first, last in self.intervals[self._touching(start, stop)]:
            if first > start:
                break
            start = max(start, last)
        return start if start < stop else None


def is_about(message: RangesMessage, key: ClaimKey) -> bool:
    """Whether a record belongs to the claim, or reaches all of its group."""
    if isinstance(message, ReleaseGroup):
        return message.group_id == key.group
    return message.key == key


def among(entry: Entry, keys: Collection[ClaimKey]) -> list[ClaimKey]:
    """Which of these claims the record is about."""
    ranged = entry.ranged
    if ranged is None:
        return []
    message = ranged.record.message
    if isinstance(message, ReleaseGroup):
        return [key for key in keys if key.group == message.group_id]
    return [message.key] if message.key in keys else []


def of_claim(entries: Iterable[Entry], key: ClaimKey) -> Iterator[RangesRecord]:
    """The records that are about the claim."""
    for entry in entries:
        if entry.ranged is not None and is_about(entry.ranged.record.message, key):
            yield entry.ranged.record


@define
class SharedLog:
    """One shared claim, as everybody reads it who has read everything."""

    key: ClaimKey
    rules: Rules
    state: FoldedState = field(factory=new_state)
    sets: list[int] = field(factory=list)
    """The offsets of the records that set its position by hand."""
    begun: dict[int, Offsets] = field(factory=dict)
    """At most once: what was begun, by how often the position was set before."""
    finished: Offsets = field(factory=Offsets)
    """At least once: what was finished, and what is not asked for."""
    unjudged: int = 0
    """As many offsets the log calls done on the word of somebody who was not recorded."""

    @classmethod
    def of(cls, entries: Iterable[Entry], key: ClaimKey, rules: Rules) -> SharedLog:
        """The claim after these records of the log, from its beginning on."""
        log = cls(key, rules)
        for record in of_claim(entries, key):
            log.fold(record)
        return log

    def fold(self, record: RangesRecord) -> FoldedState:
        """Take the next record of the claim; the state before it."""
        before = self.state
        self.state, verdict = outcome(before, record, self.rules)
        if verdict is Accepted.POSITION_SET:
            self.sets.append(record.offset)
        return before

    def begin(self) -> None:
        """From here on it is judged: what is done by now counts as finished."""
        for start, stop in _done(self.state):
            self.finished.add(start, stop)

    def append(self, record: RangesRecord, recorded: bool) -> int | None:
        """Fold one more record; the first offset that it calls done, and that nobody finished.

        Spec: NoneSkipped. `recorded` says that its sender was recorded.
        """
        before = self.fold(record)
        after = self.state
        if after.claim is before.claim and _CUT(after.ranges) == _CUT(before.ranges):
            return None
        if self.sets[-1:] == [record.offset]:
            # What lies behind is asked for anew, and what lies before never was.
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
        """Whether what this record calls done must have been finished by who was recorded."""
        if not before.claim.position_set or 0 in (before.ranges.window, after.ranges.window):
            return False
        if not recorded:
            self.unjudged += self._new(after)
            return False
        # A consumer that has all of the partition is judged by its own guards.
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
        """Somebody has finished these."""
        self.finished.add(start, stop)

    def begin_once(self, view: int, start: int, stop: int) -> bool:
        """At most once: whether nobody has begun any of these. Spec: AtMostOnce.

        Who has read of fewer positions set by hand begins what was granted before them.
        """
        begun = self.begun.setdefault(bisect_left(self.sets, view), Offsets())
        if begun.meets(start, stop):
            return False
        begun.add(start, stop)
        return True

    def take_back(self, view: int, start: int, stop: int) -> None:
        """At most once: nobody has begun these after all."""
        begun = self.begun.get(bisect_left(self.sets, view))
        if begun is not None:
            begun.remove(start, stop)


@define
class AllowedOnce:
    """At most once: what participants allowed their applications, against what these were given.

    A participant reports a whole range as begun, and takes back what was not handed over. When
    nothing more of the range will be handed over it records what was, unless it was killed before.
    """

    _allowed: dict[OfRange, Offsets] = field(factory=dict)
    """Begun, and not taken back, until it is known what was handed over."""
    _taken_back: dict[OfRange, int] = field(factory=dict)
    """As many messages, until it is known what was handed over."""

    def allow(self, one: OfRange, start: int, stop: int) -> None:
        """These may be handed over. Spec: Report."""
        self._allowed.setdefault(one, Offsets()).add(start, stop)

    def take_back(self, one: OfRange, start: int, stop: int) -> None:
        """None of these was handed over. Spec: TakeBack."""
        self._taken_back[one] = self._taken_back.get(one, 0) + stop - start
        self._allowed.setdefault(one, Offsets()).remove(start, stop)

    def hand_over(self, one: OfRange, pieces: Iterable[tuple[int, int]]) -> int | None:
        """These were handed over, and no others; the first that may not. Spec: BeginReported."""
        self._taken_back.pop(one, None)
        allowed = self._allowed.pop(one, Offsets())
        for start, stop in pieces:
            missing = allowed.first_missing(start, stop)
            if missing is not None:
                return missing
            allowed.remove(start, stop)
        return None

    def unknown(self, key: ClaimKey) -> int:
        """As many messages were taken back of ranges of which it is not known what was given."""
        return sum(count for (_, of, _), count in self._taken_back.items() if of == key)


def _done(state: FoldedState) -> list[tuple[int, int]]:
    """What the log calls done: everything below the position, and what nobody holds any more."""
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
