"""Compares checkpoints of shared claims with the state that the replay folded.

A heartbeat may contain a checkpoint: a claim and its ranges as its sender had folded them, through
`marshal-seen`. A reader that begins in the middle relies on it. A replay of the whole log does not:
it stores the state of each shared claim after its latest records, and compares. This module does
not fold (see `ranges`), and does not know who sent a checkpoint, or why it is wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import Final, Protocol

from attrs import define, field

from kafka_marshal.core.ranges.reader import FoldedState, differing
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.state import Claim, ClaimKey
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.model.phrasing import claim_name, clock, times

STATES_MAX: Final = 1024
"""The number of states per claim. A checkpoint about earlier records cannot be compared."""
_LISTS: Final = {"open": "its open ranges", "pool": "its pool", "alive": "who is alive, and when"}


class StatesOfRun(Protocol):
    """The states of a shared claim after each record of a run that was folded in one step."""

    def after(self, offset: int) -> FoldedState:
        """The claim after the record at this offset of the run."""


@define
class RecentStates:
    """The states of one shared claim after each of its latest records.

    None stands for a claim that is not shared; its records are not stored until it is shared again.
    """

    _states: deque[tuple[int, tuple[Claim, Ranges] | StatesOfRun | None]] = field(
        factory=lambda: deque(maxlen=STATES_MAX)
    )
    _complete: bool = True
    """No state was dropped, so the claim was not shared before the first of them."""

    def add(self, offset: int, state: tuple[Claim, Ranges] | None) -> None:
        """The claim after the record at this offset."""
        if state is None and (not self._states or self._states[-1][1] is None):
            return
        if len(self._states) == self._states.maxlen:
            self._complete = False
        self._states.append((offset, state))

    def add_run(self, offsets: Sequence[int], states: StatesOfRun) -> None:
        """The claim after the records at these offsets."""
        self._complete &= len(self._states) + len(offsets) <= STATES_MAX
        self._states.extend(zip(offsets, repeat(states)))

    def reach(self, seen: int) -> bool:
        """Whether the state after this offset is known."""
        return self._complete or self._states[0][0] <= seen

    def after(self, seen: int) -> FoldedState | None:
        """The claim after every record up to this offset, which must be within `reach`."""
        at = bisect_right(self._states, seen, key=itemgetter(0))
        if not at:
            return None
        offset, state = self._states[at - 1]
        if state is None:
            return None
        return FoldedState(*state) if isinstance(state, tuple) else state.after(offset)


def differences(said: FoldedState, folded: FoldedState) -> tuple[str, ...]:
    """Describes the fields in which a checkpoint differs from a fold.

    >>> from kafka_marshal.core.ranges.state import Ranges
    >>> from kafka_marshal.core.state import Claim
    >>> one = FoldedState(Claim(position=4), Ranges(window=0, frontier=7))
    >>> differences(one, FoldedState(Claim(position=5), Ranges(window=0, frontier=7)))
    ('position 4 instead of 5',)
    """
    found = []
    for part, name in differing(said, folded):
        is_, was = (getattr(getattr(each, part), name) for each in (said, folded))
        words = name if part == "claim" else _of_ranges(name)
        found.append(_LISTS.get(name) or f"{words} {_said(is_)} instead of {_said(was)}")
    return tuple(found)


def _of_ranges(name: str) -> str:
    """The name of a field of ranges; a claim has a clock, too."""
    return "the ranges' clock_ms" if name == "clock_ms" else name


def _said(value: object) -> str:
    return "nothing" if value is None else str(value)


def differs(key: ClaimKey, seen: int, fields: Sequence[str] | None, case: Case) -> str:
    """The sentence about a wrong checkpoint. `fields` None: the claim was not shared."""
    first = case.first_seen
    if fields is None:
        why = "Nobody shared the claim then."
    else:
        why = f"It differs from the log in {'; '.join(fields)}."
    return (
        f"A heartbeat at offset {first.offset} ({clock(first.clock_ms)}) holds a checkpoint of "
        f"{claim_name(key)} as of offset {seen}. {why}{_and_more(case)} A consumer that begins to "
        f"read in the middle, at offset {seen + 1} or before, may believe it."
    )


def too_old(key: ClaimKey, seen: int, case: Case) -> str:
    """The sentence about a checkpoint that cannot be compared."""
    first = case.first_seen
    return (
        f"A heartbeat at offset {first.offset} ({clock(first.clock_ms)}) holds a checkpoint of "
        f"{claim_name(key)} as of offset {seen}, which is more than {STATES_MAX:,} records of the "
        f"claim ago. It was not compared.{_and_more(case)}"
    )


def _and_more(case: Case) -> str:
    if case.count == 1:
        return ""
    return (
        f" {times(case.count - 1, 'more heartbeat')} did so, up to offset {case.last_seen.offset}."
    )
