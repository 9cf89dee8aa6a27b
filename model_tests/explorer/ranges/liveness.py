"""`MCRangesLiveness.tla`: everybody sees the present, and what exists is passed in the end.

Every step leads on and none leads back, so a behaviour ends in some state and stays there. An
assumption of fairness says in which states it may stay. What must come in the end must have come
there: so it is judged like an invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from kafka_marshal import Claim
from kafka_marshal.core.messages import (
    ClaimingPartition,
    ClaimingRange,
    Headers,
    Heartbeat,
    Partition,
)
from kafka_marshal.core.ranges.messages import (
    NO_RANGE_HEADERS,
    RangeHeaders,
    RangesMessage,
    RangesRecord,
)
from kafka_marshal.core.ranges.state import Ranges
from model_tests.explorer.configuration import Configuration
from model_tests.explorer.ranges import world as world_of_ranges
from model_tests.explorer.ranges.records import ANCHOR, PRESENT, owners_message, sent_by
from model_tests.ranges.free_time import Storeys
from model_tests.ranges.from_tla import Landed


@attrs.frozen
class WorldOfFairness:
    """Who takes part; names are the specification's."""

    storeys: Storeys
    window: int
    participants: tuple[str, ...]
    immortal: str
    end: int
    specification: str


def world_of(cfg: Configuration) -> WorldOfFairness:
    """What a configuration says."""
    [specification] = cfg.names("SPECIFICATION")
    return WorldOfFairness(
        world_of_ranges.storeys(cfg),
        cfg.number("Window"),
        world_of_ranges.names(cfg, "Participants"),
        cfg.assigned["Immortal"].strip('"'),
        cfg.number("End"),
        specification,
    )


class FairState(NamedTuple):
    """Spec: vars."""

    claim: Claim
    ranges: Ranges
    up: frozenset[str]
    processed: tuple[frozenset[int], ...]
    broken_by_step: str | None = None

    def held(self, i: str) -> set[int]:
        """Spec: Held."""
        return {x for each in self.ranges.open_of(i) for x in range(each.from_, each.to)}

    @property
    def free(self) -> int:
        """How many reasons there are for SomethingIsFree: TLC takes a way for each."""
        dead = [each for each in self.ranges.open if each.instance not in self.up]
        return bool(self.ranges.pool) + len(dead)

    @property
    def next_offset(self) -> int:
        """Spec: NextOffset."""
        assert self.claim.epoch is not None
        return 1 + max([self.claim.epoch, *(each.id for each in self.ranges.open)])


def wants(environment: EnvironmentOfFairness, state: FairState, i: str) -> int:
    """For how many reasons; also with its hands full of ranges without messages. Spec: Wants."""
    room = state.ranges.frontier < state.claim.position + environment.world.window
    return state.free + room


def wants_empty_handed(environment: EnvironmentOfFairness, state: FairState, i: str) -> int:
    """Spec: WantsEmptyHanded."""
    return 0 if state.held(i) else _wants(environment, state, i)


_wants = wants

Action = Callable[["EnvironmentOfFairness", FairState, str], list[FairState]]


class EnvironmentOfFairness:
    """The actions of one world."""

    def __init__(self, world: WorldOfFairness, promised: Sequence[str] = ()) -> None:
        self.world = world
        self._promised = promised

    def initial(self) -> FairState:
        """Spec: Init."""
        world = self.world
        message = ClaimingPartition(*sent_by(ANCHOR), "t", Partition(0))
        more = RangeHeaders(window=world.window)
        record = RangesRecord(0, 0, 0, message, PRESENT, more)
        first = Claim(position_set=True)
        claim, upper = world.storeys.step(first, Ranges(), Landed(record))
        nothing = (frozenset[int](),) * len(world.participants)
        return FairState(claim, upper.ranges, frozenset(world.participants), nothing)

    def successors(self, state: FairState) -> list[FairState]:
        """Every state that can follow, once for each way. Spec: Next."""
        found = []
        for i in self.world.participants:
            if i in state.up:
                found += [after for action in ACTIONS for after in action(self, state, i)]
                if i != self.world.immortal:
                    found.append(state._replace(up=state.up - {i}))
        return [each._replace(broken_by_step=self._broken_by(state, each)) for each in found]

    def processed(self, state: FairState, i: str) -> frozenset[int]:
        """What one has processed. Spec: processed."""
        return state.processed[self.world.participants.index(i)]

    def unprocessed(self, state: FairState, i: str) -> set[int]:
        """Spec: Unprocessed."""
        return {x for x in state.held(i) if x < self.world.end} - self.processed(state, i)

    def work(self, state: FairState, i: str) -> list[FairState]:
        """Spec: Work."""
        left = self.unprocessed(state, i)
        if not left:
            return []
        n = self.world.participants.index(i)
        now = state.processed[n] | {min(left)}
        return [state._replace(processed=(*state.processed[:n], now, *state.processed[n + 1 :]))]

    def say_done(self, state: FairState, i: str) -> list[FairState]:
        """Spec: SayDone."""
        return self._tells(state, self.ranging(state, i, 0))

    def ask(self, state: FairState, i: str) -> list[FairState]:
        """Spec: Ask."""
        if self.unprocessed(state, i):
            return []
        return wants(self, state, i) * self._tells(state, self.ranging(state, i, 1))

    def beat(self, state: FairState, i: str) -> list[FairState]:
        """Spec: Beat."""
        low = state.ranges.low
        if low <= state.claim.position:
            return []
        headers = Headers(present=True, epoch=state.claim.epoch, seen=state.next_offset - 1)
        message = owners_message(Heartbeat, ANCHOR, low)
        return [self._lands(state, self._record(state, message, headers))]

    def ranging(self, state: FairState, i: str, count: int) -> Landed:
        """Spec: Ranging, DoneBy."""
        held = state.held(i)
        left = held - self.processed(state, i)
        done = min(left) if left else 1 + max(held) if held else None
        headers = Headers(present=True, seen=state.next_offset - 1)
        message = ClaimingRange(*sent_by(i), "t", Partition(0), count)
        return self._record(state, message, headers, RangeHeaders(done=done))

    def _record(
        self,
        state: FairState,
        message: RangesMessage,
        headers: Headers,
        more: RangeHeaders = NO_RANGE_HEADERS,
    ) -> Landed:
        """Spec: Record. Who is dead is silent."""
        record = RangesRecord(0, state.next_offset, 0, message, headers, more)
        return Landed(record, silent=frozenset(self.world.participants) - state.up)

    def _lands(self, state: FairState, landed: Landed) -> FairState:
        """Spec: Lands."""
        claim, upper = self.world.storeys.step(state.claim, state.ranges, landed)
        return state._replace(claim=claim, ranges=upper.ranges)

    def _tells(self, state: FairState, landed: Landed) -> list[FairState]:
        """Nothing for a record that changes only signs of life. Spec: Tells."""
        after = self._lands(state, landed)
        return [] if after.ranges.open == state.ranges.open else [after]

    def _broken_by(self, before: FairState, after: FairState) -> str | None:
        judges = ((name, OF_STEP[name]) for name in self._promised if name in OF_STEP)
        return next((name for name, holds in judges if not holds(self, before, after)), None)


ACTIONS: Sequence[Action] = (
    EnvironmentOfFairness.work,
    EnvironmentOfFairness.say_done,
    EnvironmentOfFairness.ask,
    EnvironmentOfFairness.beat,
)


def nobody_takes_what_a_dead_one_held(
    environment: EnvironmentOfFairness, before: FairState, after: FairState
) -> bool:
    """Spec: NobodyTakesWhatADeadOneHeld."""
    return all(
        other.id == each.id or other.from_ != each.from_
        for each in before.ranges.open
        if each.instance not in before.up
        for other in after.ranges.open
    )


def nobody_takes_with_full_hands(
    environment: EnvironmentOfFairness, before: FairState, after: FairState
) -> bool:
    """Spec: NobodyTakesWithFullHands."""
    most = environment.world.storeys.limits.open_ranges_max
    held = [
        (before.ranges.open_of(i), after.ranges.open_of(i)) for i in environment.world.participants
    ]
    return all(len(had) < most or len(has) <= len(had) for had, has in held)


OF_STEP: Mapping[str, Callable[[EnvironmentOfFairness, FairState, FairState], bool]] = {
    "NobodyTakesWhatADeadOneHeld": nobody_takes_what_a_dead_one_held,
    "NobodyTakesWithFullHands": nobody_takes_with_full_hands,
}
EVERYTHING_PROCESSED = "EverythingProcessed"

WORKS, SAYS, ASKS, BEATS = ACTIONS
FAIR: Mapping[str, tuple[Action, ...]] = {
    "FairSpec": (WORKS, SAYS, ASKS, BEATS),
    "WithoutWork": (SAYS, ASKS, BEATS),
    "WithoutSaying": (WORKS, ASKS, BEATS),
    "WithoutAsking": (WORKS, SAYS, BEATS),
    "WithoutBeating": (WORKS, SAYS, ASKS),
    "StuckHolder": (SAYS, ASKS, BEATS),
}
"""By SPECIFICATION: what everybody does who has not died. Under StuckHolder one works, too."""


class JudgesOfFairness:
    """The properties of one model."""

    def __init__(self, environment: EnvironmentOfFairness, promised: Sequence[str]) -> None:
        self._environment = environment
        self._judges_the_end = EVERYTHING_PROCESSED in promised

    def broken(self, state: FairState) -> Iterator[str]:
        """The names of the properties that this state breaks, or a behaviour that ends in it."""
        if state.broken_by_step is not None:
            yield state.broken_by_step
        if self._judges_the_end and self.may_stay(state) and not self.everything_processed(state):
            yield EVERYTHING_PROCESSED

    def may_stay(self, state: FairState) -> bool:
        """Nothing that fairness asks for is left to do. Spec: Works, Says, Asks, Beats."""
        environment, world = self._environment, self._environment.world
        if world.specification == "StuckHolder" and environment.unprocessed(state, world.immortal):
            return False
        return not any(
            action(environment, state, i)
            for action in FAIR[world.specification]
            for i in world.participants
            if i in state.up
        )

    def everything_processed(self, state: FairState) -> bool:
        """Spec: EverythingProcessed, Passed."""
        end = self._environment.world.end
        processed = frozenset[int]().union(*state.processed)
        return state.claim.position >= end and processed.issuperset(range(end))
