"""`MCRangesCut.tla`: `MCRanges`, and once the log loses its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafka_marshal.core.ranges.verdicts import RangeAccepted
from model_tests.explorer.ranges.environment import EnvironmentOfRanges
from model_tests.explorer.ranges.parts import Built, Lease, Notes, RangesState
from model_tests.explorer.ranges.properties import JudgesOfRanges
from model_tests.explorer.ranges.world import WorldOfRanges

NONE_GRANTED_LATE = "NoneGrantedLate"
"""What must be reached."""


class CutState(NamedTuple):
    """Spec: WithTheLate."""

    state: RangesState
    late: frozenset[Built] = frozenset()
    """What was under way when the log was cut; nothing before that. Spec: late."""
    granted_late: bool = False
    """The last record was granted a range after the cut, from a view. Spec: NoneGrantedLate."""


def lost(instance: str) -> str:
    """Who holds what was granted in the part that is lost. Spec: Lost."""
    return f"{instance} before"


def lease_of(lease: Lease, length: int) -> Lease:
    """Spec: LeaseOf."""
    kept = lease.id < length - 1
    return lease if kept else lease._replace(instance=lost(lease.instance))


def told_of(notes: Notes, length: int) -> Notes:
    """Of leases whose records are still there, and of those that are lost. Spec: ToldOf."""
    seen = length - 2
    kept = (
        note._replace(seen=None if seen < 0 or note.seen is None else min(seen, note.seen))
        for note in notes
    )
    return frozenset(kept) | {note._replace(instance=lost(note.instance)) for note in notes}


class EnvironmentOfCuts:
    """The actions of one world."""

    def __init__(self, world: WorldOfRanges, promised: Sequence[str] = ()) -> None:
        self._ranges = EnvironmentOfRanges(world)
        self._judged = NONE_GRANTED_LATE in promised

    def initial(self) -> CutState:
        """Spec: CutInit."""
        return CutState(self._ranges.initial())

    def successors(self, cut: CutState) -> list[CutState]:
        """Every state that can follow, once for each way. Spec: CutNext."""
        ranges = self._ranges
        landing = [*ranges.next_records(cut.state)]
        landing += self.land_late(cut)
        found = [self._after(cut, built) for built in landing]
        return found if cut.late else [*found, *self.truncate(cut.state)]

    def truncate(self, state: RangesState) -> Iterator[CutState]:
        """Spec: Truncate."""
        records = self._ranges.records
        under_way = records.buildable(state, 0)
        for length in range(1, len(state.history)):
            late = (records.says(built, told_of(built.notes, length)) for built in under_way)
            cut = state._replace(
                history=state.history[:length],
                leases=frozenset(lease_of(lease, length) for lease in state.leases),
                said=told_of(state.said, length),
                set_at=None,
            )
            yield CutState(cut, frozenset(late))

    def land_late(self, cut: CutState) -> Iterator[Built]:
        """Spec: LandLate."""
        state, ranges = cut.state, self._ranges
        if state.appended < ranges.world.log_max:
            for built in cut.late:
                yield ranges.records.lands_at(built, state.appended, ranges.at(state, 0))

    def _after(self, cut: CutState, built: Built) -> CutState:
        state, ranges = cut.state, self._ranges
        late = False
        if self._judged and cut.late and built.landed.record.headers.seen is not None:
            verdict = ranges.landing(state.latest, built).upper.verdict
            late = verdict is RangeAccepted.RANGE_GRANTED
        return CutState(ranges.land(state, built), cut.late, late)


class JudgesOfCuts:
    """The properties of one model."""

    def __init__(self, world: WorldOfRanges, promised: Sequence[str]) -> None:
        of_ranges = [name for name in promised if name != NONE_GRANTED_LATE]
        self._ranges = JudgesOfRanges(world, of_ranges)

    def broken(self, cut: CutState) -> Iterator[str]:
        """The names of the properties that this state breaks."""
        yield from self._ranges.broken(cut.state)
        if cut.granted_late:
            yield NONE_GRANTED_LATE
