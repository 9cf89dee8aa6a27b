"""How many ranges a shared claim comes to: `python -m benchmarks.fragmentation`.

The limits of ClaimingRange are frozen with the version of the message, so they are chosen before
it is sent: M (`intervals_max`), m (`open_ranges_max`) and n_max (`range_messages_max`). A fleet
works here on one partition, at least once, over the shipped reducer. Each participant holds a
range in hand, one ahead and one on order. Handlers take times that differ, some leave and give
back what they have not done, some crash and are silent, and new ones come in their place.

The first table has no limits, so it shows what a fleet needs. The second shows of how many requests
each limit refuses a grant. Seeded: it prints the same each time.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

import attrs

from kafka_marshal import FENCED, Claim, ClaimingPartition, Headers, Heartbeat, Message
from kafka_marshal.core.messages import NO_HEADERS, ClaimingRange, Offset, Partition
from kafka_marshal.core.ranges.messages import NO_RANGE_HEADERS, RangeHeaders, RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.ranges.reducer import claim_outcome, step
from kafka_marshal.core.ranges.state import Limits, OpenRange, Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted, Unmet
from kafka_marshal.range_codec import encode_checkpoint

RULES: Final = attrs.evolve(FENCED, heartbeat_interval_ms=5_000)
NO_LIMITS: Final = Limits(10**6, 10**6, 10_000)
WANTED: Final = 3
"""Ranges of one participant: in hand, ahead, on order."""
MESSAGES: Final = 100
"""As many offsets does a request ask for."""
AHEAD: Final = 32
"""The window holds as many ranges for each participant. It is wide, so that only limits refuse."""


@attrs.frozen
class Fleet:
    """One scenario."""

    name: str
    participants: int
    leaves: float = 0.0
    """How often a turn ends in a clean shutdown, which gives back, and a new start."""
    crashes: float = 0.0
    """How often it ends in a crash, and a new start."""
    gives_part: float = 0.0
    """How often a participant gives back the rest of a range that it has in hand."""
    stuck: int = 0
    """Participants whose handler never returns while they stay alive."""
    dies_at_once: float = 0.0
    """The part of the fleet that crashes in the middle of the run."""


FLEETS: Final = (
    Fleet("steady", 16),
    Fleet("steady", 64),
    Fleet("rolling restart", 64, leaves=0.02),
    Fleet("crashes", 64, crashes=0.005),
    Fleet("half of it crashes at once", 64, dies_at_once=0.5),
    Fleet("gives parts back", 64, gives_part=0.05),
    Fleet("two handlers are stuck", 64, stuck=2),
    Fleet("all of it", 64, 0.01, 0.003, 0.03, 2, 0.5),
    Fleet("all of it", 128, 0.01, 0.003, 0.03, 2, 0.5),
)


@attrs.define
class Run:
    """One fleet at work."""

    fleet: Fleet
    limits: Limits
    random: Random
    claim: Claim = attrs.field(factory=Claim)
    ranges: Ranges = attrs.field(factory=Ranges)
    offset: int = 0
    now_ms: int = 1_700_000_000_000
    living: list[str] = attrs.Factory(list)
    begun: int = 0
    wanted: int = 0
    guards: Counter[Unmet | None] = attrs.Factory(Counter)
    intervals: list[int] = attrs.Factory(list)
    open_max: int = 0
    pool_max: int = 0
    checkpoint_max: int = 0

    def work(self, turns: int) -> Run:
        """As many turns of some participant."""
        anchor = ClaimingPartition(1, 0, "anchor", "ranges", "g", "t", Partition(0))
        window = self.fleet.participants * AHEAD * MESSAGES
        self._land(anchor, Headers(True), RangeHeaders(window=window))
        self.living = [self._new() for _ in range(self.fleet.participants)]
        for turn in range(turns):
            if turn == turns // 2:
                self._many_die()
            self._turn(self.random.randrange(self.fleet.participants), turn)
            if turn % 8 == 0:
                at = Heartbeat(
                    *(1, 0, "anchor", "ranges", "g", "t", Partition(0), Offset(self.ranges.low))
                )
                self._land(at, Headers(True, epoch=self.claim.epoch))
        return self

    def _new(self) -> str:
        self.begun += 1
        return f"{self.begun:036}"

    def _many_die(self) -> None:
        for place in range(int(self.fleet.participants * self.fleet.dies_at_once)):
            self.living[place] = self._new()

    def _turn(self, place: int, turn: int) -> None:
        me, chance = self.living[place], self.random.random()
        # A third of the interval passes while each has one turn.
        self.now_ms += int(RULES.heartbeat_interval_ms / 3 / self.fleet.participants) + 1
        own = self.ranges.open_of(me)
        fleet = self.fleet
        if chance < fleet.crashes:
            self.living[place] = self._new()
        elif chance < fleet.crashes + fleet.leaves:
            keep = self._reached(own)
            self._asks(me, 0, RangeHeaders(done=keep, keep=keep))
            self.living[place] = self._new()
        elif place >= fleet.participants - fleet.stuck:
            self._asks(me, 0 if len(own) >= WANTED else MESSAGES)
        elif own and chance > 1 - fleet.gives_part:
            half = (own[0].from_ + own[0].to) // 2
            self._asks(me, 0, RangeHeaders(keep=half))
        else:
            done = self._reached(own)
            self._asks(me, MESSAGES if len(own) < WANTED else 0, RangeHeaders(done=done))

    def _reached(self, own: Sequence[OpenRange]) -> int:
        """Where the handler stands in the lowest range: mostly at its end, often within."""
        if not own:
            return 0
        lowest = min(own, key=lambda each: each.from_)
        return lowest.from_ + int((lowest.to - lowest.from_) * min(1, self.random.random() * 2))

    def _asks(self, me: str, count: int, said: RangeHeaders = NO_RANGE_HEADERS) -> None:
        message = ClaimingRange(1, 0, me, me, "g", "t", Partition(0), count)
        self._land(message, Headers(True, seen=self.offset - 1), said)
        self.open_max = max(self.open_max, len(self.ranges.open_of(me)))

    def _land(
        self,
        message: Message | ClaimingRange,
        headers: Headers = NO_HEADERS,
        said: RangeHeaders = NO_RANGE_HEADERS,
    ) -> None:
        record = RangesRecord(0, self.offset, self.now_ms, message, headers, said)
        outcome = step(self.ranges, self.claim, record, RULES, self.limits)
        if isinstance(message, ClaimingRange):
            assert isinstance(outcome.verdict, RangeAccepted)
            if message.count:
                self.wanted += 1
                self.guards[outcome.guard] += 1
        else:
            self.claim, _ = claim_outcome(self.claim, record, message, RULES)
        self.ranges = outcome.ranges
        self.offset += 1
        self.intervals.append(self.ranges.intervals)
        self.pool_max = max(self.pool_max, len(self.ranges.pool))
        if self.offset % 64 == 0:
            size = len(encode_checkpoint(FoldedState(self.claim, self.ranges)))
            self.checkpoint_max = max(self.checkpoint_max, size)


def needs(turns: int, seed: int) -> None:
    """Print what each fleet needs where nothing is limited."""
    print(
        f"{'without limits':28}{'instances':>10}{'intervals: p50':>16}{'max':>6}{'pool max':>10}"
        f"{'of one':>8}{'checkpoint':>12}"
    )
    for fleet in FLEETS:
        run = Run(fleet, NO_LIMITS, Random(seed)).work(turns)
        counts = sorted(run.intervals)
        print(
            f"{fleet.name:28}{fleet.participants:10}{counts[len(counts) // 2]:16}{counts[-1]:6}"
            f"{run.pool_max:10}{run.open_max:8}{run.checkpoint_max / 1000:9.1f} kB",
            flush=True,
        )


LIMITS: Final = tuple(
    Limits(intervals_max, open_ranges_max, 10_000)
    for intervals_max, open_ranges_max in ((64, 4), (192, 4), (256, 4), (512, 8))
)


def refusals(turns: int, seed: int) -> None:
    """Print of how many requests the limits refuse a grant."""
    heads = "".join(f"{each.intervals_max:>10}/{each.open_ranges_max}" for each in LIMITS)
    print(f"\n{'not granted, of requests: M/m':38}{heads}")
    for fleet in FLEETS:
        shares = ""
        for limits in LIMITS:
            run = Run(fleet, limits, Random(seed)).work(turns)
            refused = run.wanted - run.guards[None]
            shares += f"{refused / run.wanted:12.1%}"
        print(f"{fleet.name:28}{fleet.participants:10}{shares}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.fragmentation", description=__doc__)
    parser.add_argument("--turns", type=int, default=3000, help="turns of each fleet")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    needs(asked.turns, asked.seed)
    refusals(asked.turns, asked.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
