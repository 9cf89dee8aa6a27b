"""Marshal promises that a partition's ranges are each key's fold, whatever else lies in its log."""

from __future__ import annotations

import pytest

from kafka_marshal import ReadTwice, World
from kafka_marshal.capture import RawRecord
from kafka_marshal.core.claims.world import OutOfOrder
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused
from kafka_marshal.core.ranges.world import RangesWorld
from kafka_marshal.core.state import ClaimKey
from tests.core.ranges.walking import LIMITS, RULES, walk

KEY = ClaimKey("g", "t", 0)


class Partition:
    """A coordinating partition: its claims, and their ranges."""

    def __init__(self) -> None:
        self.world = World(RULES)
        self.ranges = RangesWorld(self.world, LIMITS)

    def fold(self, record: RangesRecord) -> object:
        """The verdict."""
        if isinstance(record.message, ClaimingRange):
            outcome = self.ranges.apply(record, record.message)
            return outcome.verdict if isinstance(outcome, RangeOutcome) else outcome
        claims = self.world.apply(record.without_ranges(record.message))
        for each in claims.transitions:
            self.ranges.observe(record, each.key, claims.verdict)
        return claims.verdict


@pytest.mark.parametrize("honest", [True, False], ids=["honest", "hostile"])
@pytest.mark.parametrize("seed", range(12))
def test_ranges_of_a_partition_are_what_every_record_by_itself_made_of_them(
    seed: int, honest: bool
) -> None:
    """The clock, too, which is moved late here and by every record there."""
    walked, partition, shared = walk(seed, seed % 2 * 12, honest=honest), Partition(), False
    for number, _ in enumerate(walked.steps(150)):
        verdict = partition.fold(walked.log[-1])
        shared = shared or walked.ranges.has_begun
        where = f"walk({seed}), record {number}"
        assert partition.ranges.of(KEY) == (walked.ranges if shared else None), where
        assert partition.world.claim(KEY) == walked.claim, where
        if isinstance(walked.log[-1].message, ClaimingRange):
            assert verdict in walked.verdicts


CP, RG = "ClaimingPartition/1/1/a/ranges/g/t/0", "ReleaseGroup/0/1/x/x/g//0/0"
ASKS = "ClaimingRange/1/1/p/p/g/t/0/4"


def told(offset: int, at_ms: int, value: str, **headers: str) -> RangesRecord:
    pairs = tuple((f"marshal-{name}", text.encode()) for name, text in headers.items())
    return RawRecord(0, offset, at_ms, value.encode(), pairs).decoded_with_ranges()


def test_ranges_are_nothing_before_the_first_range_tenure_and_then_always_something() -> None:
    partition = Partition()
    partition.fold(told(0, 10, CP))
    assert partition.fold(told(1, 20, ASKS)) is RangeRefused.NO_RANGE_TENURE
    assert partition.ranges.of(KEY) is None
    partition.fold(told(2, 30, CP, ranges="7"))
    assert partition.ranges.of(KEY) == Ranges(window=7, clock_ms=30)
    partition.fold(told(3, 40, CP))
    assert partition.ranges.of(KEY) == Ranges(clock_ms=40)


def test_a_request_before_a_pause_of_the_group_leaves_nothing_and_one_after_it_its_time() -> None:
    times = {ASKS: 90, RG: 10}
    for order, clock_ms in (((ASKS, RG), 10), ((RG, ASKS), 90)):
        partition = Partition()
        for offset, value in enumerate(order):
            partition.fold(told(offset, times[value], value))
        partition.fold(told(2, 5, CP, ranges="7"))
        ranges = partition.ranges.of(KEY)
        assert ranges is not None
        assert ranges.clock_ms == clock_ms


def test_a_request_makes_no_claim() -> None:
    partition = Partition()
    partition.fold(told(0, 10, ASKS))
    assert partition.world.claims == {}


def test_a_request_read_twice_is_folded_once() -> None:
    partition = Partition()
    partition.fold(told(0, 10, CP, ranges="7"))
    assert partition.fold(told(1, 10, ASKS)) is RangeAccepted.RANGE_GRANTED
    once = partition.ranges.of(KEY)
    assert partition.fold(told(1, 10, ASKS)) is ReadTwice.DUPLICATE
    assert partition.fold(told(1, 10, ASKS, seen="0")) is ReadTwice.CONFLICTING_DUPLICATE
    assert partition.fold(told(1, 10, CP)) is ReadTwice.CONFLICTING_DUPLICATE
    assert partition.ranges.of(KEY) == once
    with pytest.raises(OutOfOrder, match="offset 0 came after offset 1"):
        partition.fold(told(0, 10, ASKS))


def test_ranges_of_a_claim_are_not_its_neighbours() -> None:
    partition = Partition()
    partition.fold(told(0, 10, CP, ranges="7"))
    partition.fold(told(1, 10, CP.replace("t/0", "t/1"), ranges="7"))
    partition.fold(told(2, 10, ASKS))
    other = partition.ranges.of(ClaimKey("g", "t", 1))
    assert other is not None
    assert other.open == ()
