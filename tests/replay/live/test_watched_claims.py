"""What the kernel adds up comes to what a watch folds record by record: reports and checkpoints."""

from __future__ import annotations

import enum
import itertools
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from attrs import evolve
from tools.runs.by_day import sampled, seeds

from kafka_marshal import RuleSet
from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.live import watch as watch_module
from kafka_marshal.replay.live import watched_claims
from kafka_marshal.replay.live.folding import events_of, live_fold, taken_up
from kafka_marshal.replay.live.live_findings import LiveEvent
from kafka_marshal.replay.live.metrics import Metrics
from kafka_marshal.replay.live.watch import WatchOptions, watch
from kafka_marshal.replay.live.watched_claims import LiveBatch, WatchedClaims
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.state.partition_state import PartitionState, take_up
from kafka_marshal.testing.in_memory.kafka import InMemoryKafka
from kafka_marshal.testing.in_memory.partition import Stored
from tests.kernel import hostile
from tests.replay.findings.test_findings import STORIES
from tests.replay.fleets import fleet
from tests.replay.fold.test_run_length import LIE, judging, saying_intervals, sharing
from tests.replay.told import BOTH, INTERVAL_MS, beats, records

Told = list[tuple[int, int, str]]
"""Coordinating partition and offset of the record by which something happened, and its line."""


def plain(given: Any) -> Any:
    """All that a checkpoint holds of something, without which objects are one and the same."""
    match given:
        case None | bool() | int() | float() | str() | bytes() | enum.Enum():
            return given
        case Counter():
            return sorted(map(plain, given.items()))
        case dict():
            return [(plain(key), plain(value)) for key, value in given.items()]
        case set() | frozenset():
            return sorted(map(repr, map(plain, given)))
        case list() | tuple():
            return [*map(plain, given)]
        case _:
            pass
    if callable(given) and not attrs.has(type(given)):
        return repr(type(given))
    _, *held = given.__reduce_ex__(5)
    return type(given).__name__, plain(held[1] if len(held) > 1 else held)


class OneByOne:
    """The accounts of a watch that looks at each record by itself."""

    def __init__(self, states: dict[int, PartitionState]) -> None:
        self.states = states

    def fold(self, batch: Sequence[RawRecord]) -> Told:
        return [
            (raw.partition, raw.offset, event.json())
            for raw in batch
            for event in events_of(self.states[raw.partition], raw)
        ]


class ByKernel(WatchedClaims):
    """Those of a watch as it is."""

    def __init__(self, states: dict[int, PartitionState]) -> None:
        super().__init__(states)
        self.states = states
        self.singly = 0

    def _fold_one(self, *given: Any) -> list[LiveEvent]:
        self.singly += 1
        return super()._fold_one(*given)

    def fold(self, batch: Sequence[RawRecord]) -> Told:  # type: ignore[override]
        return [
            (raw.partition, raw.offset, event.json())
            for raw, events in super().fold(LiveBatch.of(batch))
            for event in events
        ]


def begun(raws: Iterable[RawRecord], how: JudgingOptions) -> dict[int, PartitionState]:
    numbers = {raw.partition for raw in raws}
    return {number: taken_up(None, LogPartition("log", number), how) for number in numbers}


def cut(raws: Sequence[RawRecord], chance: Random) -> list[Sequence[RawRecord]]:
    """Batches as they may come."""
    batches, begin = [], 0
    while begin < len(raws):
        size = chance.choice((1, 3, 40, 300))
        batches.append(raws[begin : begin + size])
        begin += size
    return batches


@attrs.frozen
class Seen:
    """What a comparison came to."""

    told: int
    """How much there was to report."""
    singly: int
    """How many records the kernel did not add up."""


def alike(
    raws: Sequence[RawRecord], how: JudgingOptions, seed: int = 0, *, looks: float = 0.3
) -> Seen:
    """Watch them in both ways; put both aside now and then, and go on from what was put aside."""
    chance = Random(seed)
    one_by_one, by_kernel = OneByOne(begun(raws, how)), ByKernel(begun(raws, how))
    told = singly = 0
    for batch in cut(raws, chance):
        expected = one_by_one.fold(batch)
        assert by_kernel.fold(batch) == expected
        told += len(expected)
        for number, state in one_by_one.states.items():
            other = live_fold(by_kernel.states[number])
            assert other.account.gauges() == live_fold(state).account.gauges()
        if chance.random() < looks:
            by_kernel.settle()
            assert plain(by_kernel.states) == plain(one_by_one.states)
            if chance.random() < 0.5:
                singly += by_kernel.singly
                one_by_one = OneByOne(pickle.loads(pickle.dumps(one_by_one.states)))
                by_kernel = ByKernel(pickle.loads(pickle.dumps(by_kernel.states)))
    by_kernel.settle()
    assert plain(by_kernel.states) == plain(one_by_one.states)
    return Seen(told, singly + by_kernel.singly)


def apart(raws: Sequence[RawRecord]) -> list[RawRecord]:
    """A topic of one coordinating partition is none of another."""
    names = (b"/t%d" % raw.partition for raw in raws)
    return [
        evolve(raw, value=raw.value and raw.value.replace(b"/t", name))
        for raw, name in zip(raws, names, strict=True)
    ]


@pytest.mark.parametrize("headers", [True, False], ids=["headers", "bare"])
@pytest.mark.parametrize("seed", seeds(1, 8))
def test_a_fleet_is_watched_the_same(seed: int, headers: bool) -> None:
    rule_sets = (BOTH, (RuleSet.FENCED,), (RuleSet.ORIGINAL,))[seed % 3]
    # Once a group was paused, its heartbeats are looked at one by one.
    raws = apart(fleet(seed, 1_500, headers=headers, pauses=seed % 2 == 1))
    assert alike(raws, judging(rule_sets), seed).told > 20


def test_a_claim_in_two_coordinating_partitions_is_watched_the_same() -> None:
    assert alike(fleet(3, 600), judging(), 3).told > 10


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_a_hostile_log_is_watched_the_same(seed: int) -> None:
    assert alike(list(hostile.log(seed, 250)), judging(), seed, looks=0.05).told > 20


@pytest.mark.parametrize(
    ("interval", "forced"),
    [
        (INTERVAL_MS, False),
        pytest.param(60_000, False, marks=pytest.mark.night),
        pytest.param(500, True, marks=pytest.mark.night),
    ],
)
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_groups_that_say_their_intervals_are_watched_the_same(
    seed: int, interval: int, forced: bool
) -> None:
    raws = apart(saying_intervals(fleet(seed, 1_000, pauses=False), Random(seed)))
    alike(raws, evolve(judging(interval=interval), forced=forced), seed)


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_log_with_ranges_is_watched_the_same(seed: int) -> None:
    assert alike(sharing(seed), judging(), seed).told > 5


@pytest.mark.night
@pytest.mark.parametrize("code", STORIES)
def test_a_finding_after_many_heartbeats_is_told_the_same(code: str) -> None:
    """Others go on meanwhile, ordinarily; one of them belongs to a client of the story."""
    story = records(STORIES[code][1])
    others = records(["0 CP a1/A p=7", "0 CP q1/Q p=8", *_turns(("a1/A", "7"), ("q1/Q", "8"))])
    both = sorted([*story, *others], key=lambda raw: raw.timestamp_ms)
    raws = [evolve(raw, offset=offset) for offset, raw in enumerate(both)]
    alike(raws, judging(), len(code))


def _turns(*who: tuple[str, str]) -> list[str]:
    """Heartbeats for a minute, of each in turn."""
    return [f"{second}.5 HB {name} 10 p={place}" for second in range(60) for name, place in who]


def in_memory(raws: Sequence[RawRecord]) -> InMemoryKafka:
    """A cluster whose coordination topic holds them."""
    kafka = InMemoryKafka(2)
    for raw in raws:
        log = kafka.topics["__marshal"][raw.partition]
        log.records += [None] * (raw.offset - log.high)
        log.records.append(Stored(raw.value, raw.headers, raw.timestamp_ms))
    return kafka


def counted(metrics: Metrics) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in metrics.collected.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_a_watch_writes_counts_and_commits_the_same_by_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle, and begun again from its checkpoint."""
    kafka = in_memory(apart(fleet(1, 2_500, pauses=False)))
    found = []
    for many in (1, 10**9):
        monkeypatch.setattr(watch_module, "MANY", many)
        out, folder = tmp_path / f"{many}.jsonl", tmp_path / f"{many}"
        numbers = []
        for batches in (1, 100):
            metrics, asked = Metrics(), itertools.count()
            watching = WatchOptions(
                kafka.settings(),
                "__marshal",
                judging(),
                checkpoint=folder,
                out=out,
                until_end=True,
                metrics=metrics,
            )
            watch(watching, lambda: next(asked) >= batches)  # noqa: B023
            numbers.append(counted(metrics))
        states = [plain(take_up(path)) for path in sorted(folder.glob("partition-*"))]
        found.append((out.read_bytes().splitlines(), numbers, states))
    by_kernel, one_by_one = found
    assert len(one_by_one[0]) > 50
    assert len(one_by_one[2]) == 2
    assert by_kernel == one_by_one


@pytest.mark.parametrize(("beats", "sizes"), [(99, [0, 100]), (98, [])], ids=["many", "few"])
def test_the_kernel_is_loaded_before_a_record_is_read(
    beats: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty batch loads it. Where few records are to be read it is not needed."""
    folded: list[int] = []

    class Seen(WatchedClaims):
        def fold(self, batch: LiveBatch) -> Iterator[tuple[RawRecord, list[LiveEvent]]]:
            folded.append(len(batch))
            return super().fold(batch)

    monkeypatch.setattr(watched_claims, "WatchedClaims", Seen)
    kafka = in_memory([evolve(raw, partition=0) for raw in quiet(beats)])
    watch(
        WatchOptions(kafka.settings(), "__marshal", judging(), until_end=True),
        lambda: False,
    )
    assert [*folded[:1], *([sum(folded)] if folded else [])] == sizes


def quiet(count: int) -> list[RawRecord]:
    """An owner's heartbeats and nothing else."""
    return records(["0 CP a1/A", *beats("a1/A", 1, 1 + 2 * count)])


ODD = (
    "HB a2/A 10",
    "HB b1/B 10",
    "HB a1/B 10",
    "HB a1/A 9",
    "HB a1/A -1",
    "HB a1/A 10 v=2",
    "HB a1/A 10 v=0",
    "HB a1/A 10 late=1700000024",
    "HB a1/A 10 at=90",
    "HB a1/A 10 at=13",
    "HB a1/A 10 stamp=create",
    "HB a1/A 10 seen=1",
    "HB a1/A 10 epoch=3 seen=3 interval=4000",
    "HB a1/A 10 epoch=0 seen=0 interval=4000",
    "HB a1/A 10 epoch=0",
    "HB a1/A 10 epoch=0 seen=99",
    "HB a1/A 10 epoch=99 seen=1",
    "HB a1/A 10 epoch=x seen=1",
    "HB a1/A 10 epoch=0 seen=1 supersedes=x",
    "HB a1/A 10 epoch=0 seen=1 interval=9000",
    "HB a1/A 10 epoch=0 seen=1 interval=0",
    "HB a1/A 0 epoch=0 seen=1 start=0",
    f"HB a1/A 10 epoch=0 seen=5 ranges-at={LIE}",
    "HB a1/A 10 g=other",
    "CP a1/A",
    "CP a2/A",
    "CM a1/A 20",
    "RP a1/A 10",
    "RG x1/X 40",
    "RG x1/X 40 v=9",
    "CR p1/P 5",
    "garbage",
)


@pytest.mark.parametrize(
    "said",
    [
        " epoch=0 seen=0 interval=4000",
        pytest.param("", marks=pytest.mark.night),
        pytest.param(" epoch=0 seen=0", marks=pytest.mark.night),
    ],
)
@pytest.mark.parametrize("odd", sampled(ODD, 2))
def test_what_comes_between_ordinary_heartbeats_is_watched_the_same(odd: str, said: str) -> None:
    """Time may go back with it, or an owner be silent before it."""
    begins = "0 CP a1/A" + said.replace(" epoch=0 seen=0", "")
    for second in (24, 12, 60):
        before = beats("a1/A", 1, 24, tail="10" + said)
        after = beats("a1/A", second + 1, second + 9, tail="10" + said)
        raws = records([begins, *before, f"{second} {odd}", *after])
        assert alike(raws, judging(), second).singly < len(raws) - 5


def test_a_position_that_moves_after_a_standstill_is_watched_the_same() -> None:
    still = beats("a1/A", 1, 200)
    moves = [f"{200 + 2 * count} HB a1/A {20 + count}" for count in range(20)]
    seen = alike(records(["0 CP a1/A", *still, *moves]), judging())
    assert seen.singly == 3, "the claim, the first heartbeat, and the first that moves"


def test_ordinary_heartbeats_are_not_looked_at_one_by_one() -> None:
    seen = alike(quiet(500), judging())
    assert (seen.told, seen.singly) == (1, 2), "the topic lies on another coordinating partition"


@pytest.mark.parametrize("kind", TimestampType)
def test_any_type_of_timestamp_is_watched_the_same(kind: TimestampType) -> None:
    raws = quiet(30)
    stamped = [evolve(raw, timestamp_type=kind) for raw in raws[10:20]]
    alike([*raws[:10], *stamped, *raws[20:]], judging())
    alike([evolve(raw, timestamp_type=kind) for raw in raws], judging())


@pytest.mark.night
def test_silences_are_taken_before_no_more_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_claims, "LOGGED_MAX", 300)
    alike(apart(fleet(1, 600, pauses=False)), judging(), 1)


@pytest.mark.night
def test_many_senders_are_forgotten_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_claims, "ADDRESSES_MAX", 5)
    alike(apart(fleet(1, 600, pauses=False)), judging(), 1)


@pytest.mark.night
@pytest.mark.parametrize("unix_s", [2**43, 10**15, 2**63 - 1])
@pytest.mark.parametrize("timestamp_ms", [2**53, 2**62, -1, -(2**61)])
def test_times_that_nobody_lives_in_are_watched_the_same(unix_s: int, timestamp_ms: int) -> None:
    raws = quiet(20)
    odd = [evolve(raw, timestamp_ms=timestamp_ms) for raw in raws[7:9]]
    late = [
        evolve(raw, value=(raw.value or b"").replace(b"/1700", b"/%d1700" % (unix_s // 10_000)))
        for raw in raws[12:14]
    ]
    alike([*raws[:7], *odd, *raws[9:12], *late, *raws[14:]], judging())


@pytest.mark.parametrize(
    ("forgotten", "of"),
    sampled(
        [
            ("heard", PartitionFold),
            ("draw", PartitionFold),
            ("silences_went_on", PartitionFold),
            ("silences_measured", PartitionFold),
            ("clock_went_on", PartitionFold),
            ("records_went_on", PartitionFold),
            ("went_on", PartitionFold),
            ("went_on", PartitionState),
            ("_close", WatchedClaims),
        ],
        4,
    ),
)
def test_a_sum_that_is_not_taken_is_noticed(
    forgotten: str, of: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above can fail."""
    monkeypatch.setattr(of, forgotten, lambda *_: True)
    says = forgotten == "heard"
    raws = fleet(0, 1_000, headers=says, pauses=False)
    if says:
        raws = saying_intervals(raws, Random(0))
    with pytest.raises(AssertionError):
        alike(apart(raws), judging())
