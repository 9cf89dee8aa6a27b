"""`MCRangesSuffix.tla`: readers that begin at every offset of every log, and read checkpoints.

Which checkpoint counts, and from where it is folded on, is the package's word
(`kafka_marshal.core.ranges.reader`). The fold is `Storeys`, since time is free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import attrs

from kafka_marshal.core.messages import Heartbeat
from kafka_marshal.core.ranges import reader
from kafka_marshal.core.ranges.reader import FoldedState, LogEntry
from model_tests.explorer.ranges.environment import EnvironmentOfRanges
from model_tests.explorer.ranges.parts import Built, Moment, RangesState
from model_tests.explorer.ranges.records import ANCHOR
from model_tests.explorer.ranges.world import WorldOfRanges
from model_tests.ranges.from_tla import Landed


class Entry(NamedTuple):
    """A record of the log, and its checkpoint. Spec: LogEntry."""

    landed: Landed
    checkpoint: FoldedState | None

    @property
    def as_read(self) -> LogEntry:
        """As the package reads it."""
        return LogEntry(self.landed.record, self.checkpoint)


class SuffixState(NamedTuple):
    """Spec: TheLog; a log leads to one state of everything else."""

    entries: tuple[Entry, ...]
    state: RangesState


def checkpoint(moment: Moment) -> FoldedState:
    """What a sender had folded. Spec: Checkpoint."""
    return FoldedState(moment.claim, moment.ranges)


def folds_from(entry: LogEntry, first: int) -> int:
    """Spec: FoldsFrom."""
    return reader.folds_from(entry)


def checkpoint_of(history: Sequence[Moment], built: Built) -> FoldedState | None:
    """Every heartbeat of the anchor holds one. Spec: CheckpointOf."""
    if built.sender != ANCHOR or not isinstance(built.landed.record.message, Heartbeat):
        return None
    seen = built.landed.record.headers.seen
    return checkpoint(history[0 if seen is None else seen + 1])


def may_hold(history: Sequence[Moment], built: Built) -> Collection[FoldedState | None]:
    """What a record may hold for a checkpoint. Spec: MayHold."""
    return (checkpoint_of(history, built),)


def counting(entries: Sequence[Entry], first: int) -> list[tuple[LogEntry, FoldedState]]:
    """The checkpoints that a reader uses. Spec: Candidates."""
    return reader.checkpoints([entry.as_read for entry in entries[first:]], first)


class EnvironmentOfSuffixes:
    """The actions of one world."""

    def __init__(self, world: WorldOfRanges) -> None:
        self.ranges = EnvironmentOfRanges(world)

    def initial(self) -> SuffixState:
        """Spec: SuffixInit."""
        return SuffixState((), self.ranges.initial())

    def successors(self, suffix: SuffixState) -> list[SuffixState]:
        """Every state that can follow, once for each way. Spec: SuffixNext."""
        entries, state = suffix
        found = []
        for built in self.ranges.next_records(state):
            after = self.ranges.land(state, built)
            for held in may_hold(state.history, built):
                found.append(SuffixState((*entries, Entry(built.landed, held)), after))
        return found


def truth(suffix: SuffixState) -> FoldedState:
    """What a reader of the whole log has folded."""
    return FoldedState(suffix.state.latest.claim, suffix.state.latest.ranges)


def lying(suffix: SuffixState, first: int) -> list[bool]:
    """Of each checkpoint that counts for one who begins there: it lies. Spec: Noticed."""
    read = [entry.as_read for entry in suffix.entries[first:]]
    return [
        held != checkpoint(suffix.state.history[reader.folds_from(entry)])
        for entry, held in reader.checkpoints(read, first)
    ]


class JudgesOfSuffixes:
    """The properties of one model."""

    def __init__(self, environment: EnvironmentOfSuffixes, promised: Sequence[str]) -> None:
        self._storeys = environment.ranges.world.storeys
        self._named = [(name, OF_SUFFIX[name]) for name in promised]

    def broken(self, suffix: SuffixState) -> Iterator[str]:
        """The names of the properties that this state breaks."""
        return (name for name, holds in self._named if not holds(self, suffix))

    def candidates(self, entries: Sequence[Entry], first: int) -> set[FoldedState]:
        """What a reader that begins at `first` may take both for. Spec: Candidates."""
        return {
            self._folded_on(entries, state, folds_from(entry, first))
            for entry, state in counting(entries, first)
        }

    def _folded_on(self, entries: Sequence[Entry], state: FoldedState, offset: int) -> FoldedState:
        """Spec: FoldedOn."""
        for entry in entries[offset:]:
            claim, upper = self._storeys.step(state.claim, state.ranges, entry.landed)
            state = FoldedState(claim, upper.ranges)
        return state

    def by_first(self, suffix: SuffixState) -> list[tuple[int, set[FoldedState]]]:
        """What each reader may take both for, by where it begins."""
        firsts = range(1, len(suffix.entries) + 1)
        return [(first, self.candidates(suffix.entries, first)) for first in firsts]

    def suffix_exact(self, suffix: SuffixState) -> bool:
        """Spec: SuffixExact."""
        return all(found <= {truth(suffix)} for _, found in self.by_first(suffix))

    def lie_is_noticed(self, suffix: SuffixState) -> bool:
        """Spec: LieIsNoticed."""
        return all(
            found <= {truth(suffix)} or any(lying(suffix, first))
            for first, found in self.by_first(suffix)
        )

    def truth_protects(self, suffix: SuffixState) -> bool:
        """Spec: TruthProtects."""
        return all(
            found == {truth(suffix)} or len(found) != 1 or all(lying(suffix, first))
            for first, found in self.by_first(suffix)
        )

    def known_to_nobody(self, suffix: SuffixState) -> bool:
        """Spec: KnownToNobody."""
        return all(len(found) != 1 for _, found in self.by_first(suffix))

    def no_two_differ(self, suffix: SuffixState) -> bool:
        """Spec: NoTwoDiffer."""
        return all(len(found) < 2 for _, found in self.by_first(suffix))

    def no_refused_one_counts(self, suffix: SuffixState) -> bool:
        """Spec: NoRefusedOneCounts."""
        return not any(
            entry.checkpoint is not None
            and suffix.state.history[offset].claim.epoch != entry.landed.record.headers.epoch
            and any(
                reader.checkpoint_counts(entry.as_read, first) for first in range(1, offset + 1)
            )
            for offset, entry in enumerate(suffix.entries)
        )


OF_SUFFIX = {
    "SuffixExact": JudgesOfSuffixes.suffix_exact,
    "LieIsNoticed": JudgesOfSuffixes.lie_is_noticed,
    "TruthProtects": JudgesOfSuffixes.truth_protects,
    "KnownToNobody": JudgesOfSuffixes.known_to_nobody,
    "NoTwoDiffer": JudgesOfSuffixes.no_two_differ,
    "NoRefusedOneCounts": JudgesOfSuffixes.no_refused_one_counts,
}


# --- a world in which somebody lies ---------------------------------------------------------------


def may_lie(history: Sequence[Moment], built: Built) -> Collection[FoldedState | None]:
    """Spec: MayLie, Lied."""
    true = checkpoint_of(history, built)
    if true is None:
        return (None,)
    ranges = attrs.evolve(true.ranges, frontier=true.ranges.frontier + 1)
    return true, FoldedState(true.claim, ranges)


# --- rules left out -------------------------------------------------------------------------------


def frontier_only(moment: Moment) -> FoldedState:
    """It says how far ranges were cut, and not who holds what. Spec: FrontierOnly."""
    return FoldedState(moment.claim, attrs.evolve(moment.ranges, open=(), pool=()))


def from_its_landing(entry: LogEntry, first: int) -> int:
    """A checkpoint speaks of where it landed. Spec: FromItsLanding."""
    return entry.record.offset


def any_checkpoint(entry: LogEntry, first: int) -> bool:
    """Records before the suffix are not missed. Spec: AnyCheckpoint."""
    seen = entry.record.headers.seen
    return seen is None or seen < entry.record.offset


def from_the_suffix(entry: LogEntry, first: int) -> int:
    """Spec: FromTheSuffix."""
    seen = entry.record.headers.seen
    return max(0 if seen is None else seen + 1, first)


_counting = counting


def of_the_last(entries: Sequence[Entry], first: int) -> list[tuple[LogEntry, FoldedState]]:
    """The last checkpoint is taken, whatever others say. Spec: OfTheLast."""
    return _counting(entries, first)[-1:]
