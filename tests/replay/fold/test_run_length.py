"""A collapsed log comes to what the log comes to: every row of every table, for any senders."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve, fields
from tools.runs.by_day import sampled, seeds

from kafka_marshal import RuleSet
from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.claims import world
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.verdicts import Verdict
from kafka_marshal.core.messages import Record, ReleaseGroup
from kafka_marshal.core.ranges.reader import FoldedState, after
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.state import FENCED, Claim, ClaimKey, Rules
from kafka_marshal.range_codec import CLAIMING_RANGE, encode_checkpoint
from kafka_marshal.replay.errors import SourcesOverlap
from kafka_marshal.replay.fold import ruleset_fold
from kafka_marshal.replay.fold.collapsed import run_length as collapse
from kafka_marshal.replay.fold.collapsed.joined_runs import RunOfRows
from kafka_marshal.replay.fold.collapsed.request_runs import items_in_runs
from kafka_marshal.replay.fold.collapsed.run_length import COLLAPSED_SCHEMA, items_of, rows_of
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.fold.steady_claims import SteadyClaims
from kafka_marshal.replay.model.chunk_items import ChunkFacts, HeartbeatRun, SingleRecord
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Row, arrow_rows
from kafka_marshal.replay.model.tables import OF_CLAIMS, SENDERS
from kafka_marshal.replay.one_process.sorting import sorted_rows
from kafka_marshal.replay.sources.columns import batch_of, cells_of
from tests.kernel import hostile
from tests.replay.findings.test_findings import STORIES
from tests.replay.fleets import fleet
from tests.replay.fold.test_partition_fold import NAMES, capture, interval_ms
from tests.replay.told import BOTH, INTERVAL_MS, beats, records

RULES = evolve(FENCED, heartbeat_interval_ms=INTERVAL_MS)


def judging(rule_sets: tuple[RuleSet, ...] = BOTH, interval: float = INTERVAL_MS) -> JudgingOptions:
    return JudgingOptions(rule_sets, interval, coordination_partitions=2)


def told(accounts: Iterable[PartitionFold]) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for partition_fold in accounts:
        partition_fold.close()
        for table, of_table in partition_fold.drain().tables(OF_CLAIMS):
            if table is SENDERS:  # its numbers are cut to 64 bits, here or there
                of_table = table.rows(arrow_rows(table, of_table).to_pylist())
            rows.update(of_table)
    return rows


@functools.cache
def fed_fleet(seed: int, rule_sets: tuple[RuleSet, ...]) -> Counter[Row]:
    """The rows of a fleet, record by record; they do not depend on the size of chunks."""
    return fed(a_fleet(seed), judging(rule_sets))


def a_fleet(seed: int) -> list[RawRecord]:
    return in_order(fleet(seed, 5_000, headers=seed % 2 == 0, pauses=seed > 1))


def in_order(raws: Iterable[RawRecord]) -> list[RawRecord]:
    return sorted(raws, key=lambda raw: raw.offset)


def fed(raws: Sequence[RawRecord], how: JudgingOptions) -> Counter[Row]:
    accounts: dict[int, PartitionFold] = {}
    for raw in sorted(raws, key=lambda raw: (raw.partition, raw.offset)):
        accounts.setdefault(
            raw.partition, PartitionFold(LogPartition("log", raw.partition), how)
        ).feed(raw)
    return told(accounts.values())


def parts_of(item: Any) -> Iterator[Any]:
    """What a fold takes, and what it is made of."""
    yield item
    if isinstance(item, RunOfRows):
        yield from item.parts()
    if isinstance(item, SteadyClaims):
        for number in item.numbers.tolist():
            for part in item.parts(number):
                yield from parts_of(part)


class Chunked:
    """A log in chunks, collapsed one by one and taken as after a shuffle.

    `window` is how many rows are looked at together for runs; 0: as many as records are a chunk.
    Not `joined` takes each row by itself, as a replay with a checkpoint does.
    """

    def __init__(
        self,
        raws: Sequence[RawRecord],
        size: int,
        interval: float,
        forced: bool = False,
        window: int = 0,
        joined: bool = True,
    ) -> None:
        self.kinds: Counter[type] = Counter()
        self.expanded = 0
        self.raws: dict[tuple[int, int], RawRecord] = {}
        for raw in raws:
            with suppress(MalformedRecord):
                raw.decoded()
                self.raws.setdefault((raw.partition, raw.offset), raw)
        self.items: list[tuple[int, Any]] = []
        rows = [
            batch
            for number, begin in enumerate(range(0, len(raws), size))
            for batch in rows_of(
                number,
                [batch_of("log", 0, [cells_of(raw) for raw in raws[begin : begin + size]])],
                interval,
                forced=forced,
            )
        ]
        order = ("partition", "offset", "input_order")
        sorted_table = sorted_rows(pa.Table.from_batches(rows), order)
        for batch in sorted_table.to_batches(window or size):
            in_runs = functools.partial(items_in_runs, interval_ms=interval, forced=forced)
            for _, partition, item in in_runs(batch) if joined else items_of(batch):
                self.kinds.update(map(type, parts_of(item)))
                self.items.append((partition, item))

    def expand(self, run: HeartbeatRun) -> list[SingleRecord]:
        self.expanded += 1
        return [
            SingleRecord(self.raws[run.last.partition, offset], clock)
            for offset, clock in zip(run.offsets.tolist(), run.clocks_ms.tolist(), strict=True)
        ]

    def told(self, how: JudgingOptions) -> Counter[Row]:
        accounts: dict[int, PartitionFold] = {}
        for partition, item in self.items:
            partition_fold = accounts.setdefault(
                partition, PartitionFold(LogPartition("log", partition), how)
            )
            partition_fold.take(item, self.expand)
        return told(accounts.values())


def alike(raws: list[RawRecord], how: JudgingOptions, *sizes: int, window: int = 0) -> Chunked:
    """The log in chunks of each size, which all come to the same; returns the last."""
    one_by_one, ordered = fed(raws, how), in_order(raws)
    interval_ms, forced = how.heartbeat_interval_ms, how.forced
    found = [Chunked(ordered, size, interval_ms, forced, window) for size in sizes]
    for size, chunked in zip(sizes, found, strict=True):
        assert chunked.told(how) == one_by_one, size
    return found[-1]


@pytest.mark.parametrize(
    ("size", "rule_sets"),
    sampled(
        [
            *((311, BOTH), (5_000, BOTH), (311, (RuleSet.FENCED,))),
            *((5_000, (RuleSet.ORIGINAL,)), (311, (RuleSet.ORIGINAL,)), (5_000, (RuleSet.FENCED,))),
        ],
        3,
    ),
    ids=str,
)
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_fleet_is_told_the_same_from_its_runs(
    seed: int, size: int, rule_sets: tuple[RuleSet, ...]
) -> None:
    chunked = Chunked(a_fleet(seed), size, INTERVAL_MS)
    assert chunked.told(judging(rule_sets)) == fed_fleet(seed, rule_sets)
    assert chunked.kinds[HeartbeatRun] > 100
    assert chunked.kinds[SingleRecord] < 4_000
    assert chunked.expanded  # by zombies, mostly


def test_a_run_is_folded_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []

    def counted(claim: Claim, record: Record, rules: Rules) -> tuple[Claim, Verdict]:
        steps.append(record.offset)
        return step(claim, record, rules)

    monkeypatch.setattr(ruleset_fold, "step", counted)
    monkeypatch.setattr(world, "step", counted)
    raws = records(["0 CP a1/A", *beats("a1/A", 1, 90), "90 RP a1/A 10"])
    chunked = Chunked(raws, 1_000, INTERVAL_MS)
    chunked.told(judging((RuleSet.FENCED,)))
    assert (chunked.kinds[HeartbeatRun], chunked.expanded) == (1, 0)
    assert len(steps) == chunked.kinds[HeartbeatRun] + chunked.kinds[SingleRecord]


def test_a_heartbeat_after_a_silence_is_folded_by_itself_without_reading_its_chunk_again() -> None:
    after = [line for begin in range(1, 200, 40) for line in beats("a1/A", begin, begin + 9)]
    chunked = alike(records(["0 CP a1/A", *after]), judging(), 1_000)
    assert (chunked.kinds[HeartbeatRun], chunked.kinds[SingleRecord]) == (5, 1 + 4)
    assert chunked.expanded == 0


def saying_intervals(raws: Iterable[RawRecord], chance: Random) -> list[RawRecord]:
    """A third of the claims are another group's; what both say changes, and some say nothing."""
    told, says = [], {"g": b"4000", "h": b"1000"}
    for raw in raws:
        value = raw.value or b""
        group = "h" if b"/t4/" in value or b"/t5/" in value else "g"
        if chance.random() < 0.0005:
            says[group] = chance.choice((b"1000", b"4000", b"20000"))
        headers = raw.headers
        if value.startswith((b"ClaimingPartition", b"Heartbeat")) and chance.random() < 0.999:
            headers = (*headers, ("marshal-interval", says[group]))
        value = value.replace(b"/g/", f"/{group}/".encode())
        told.append(evolve(raw, value=value, headers=headers))
    return told


@pytest.mark.parametrize(
    ("interval", "forced"),
    sampled(
        [
            *((INTERVAL_MS, False), (500, False), (60_000, False)),
            *((500, True), (INTERVAL_MS, True), (60_000, True)),
        ],
        3,
    ),
)
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_groups_that_say_their_intervals_are_told_the_same_from_runs(
    seed: int, interval: int, forced: bool
) -> None:
    # By day the first seed alone, and half of it.
    raws = saying_intervals(fleet(seed, 5_000 if seed else 2_500), Random(seed))
    how = evolve(judging(interval=interval), forced=forced)
    chunked = alike(raws, how, 700)
    assert chunked.kinds[HeartbeatRun] > 5


def sharing(seed: int) -> list[RawRecord]:
    """A claim that two share under window 0, among the heartbeats of its anchor and of others.

    The position moves with each heartbeat, and what a request finds depends on it. Few heartbeats
    hold a checkpoint, as of a little while ago, and of those every second one lies.
    """
    chance = Random(seed)
    lines = ["0 CP anchor/ranges ranges=0", "0 CP a1/A p=1", "0 CP b1/B topic=logs"]
    position, last = 0, 0
    for second in range(1, 400):
        position += chance.choice((0, 3))
        lines.append(f"{second} HB anchor/ranges {position} epoch=0")
        lines.append(f"{second} HB a1/A 5 p=1")
        lines.append(f"{second} HB b1/B {second} topic=logs")
        if chance.random() < 0.05:
            last = len(lines)
            lines.append(f"{second} CR {chance.choice(('p1/P', 'q1/Q'))} {chance.randrange(-1, 9)}")
    assert last > 1000
    return with_checkpoints(records(lines), chance)


def with_checkpoints(raws: list[RawRecord], chance: Random) -> list[RawRecord]:
    held: list[RawRecord] = []
    states = [FoldedState(Claim(), Ranges())]
    for raw in raws:
        record = raw.decoded_with_ranges()
        beats = raw.offset > 9 and b"/ranges/g/" in (raw.value or b"")
        if beats and chance.random() < 0.03:
            seen = raw.offset - chance.randrange(1, 9)
            state = states[seen + 1]
            if len(held) % 2:
                state = evolve(state, ranges=evolve(state.ranges, frontier=99))
            checkpoint = ("marshal-ranges-at", encode_checkpoint(state))
            headers = (*raw.headers, ("marshal-seen", b"%d" % seen), checkpoint)
            raw = evolve(raw, headers=headers)
            record = raw.decoded_with_ranges()
        held.append(raw)
        assert not isinstance(record.message, ReleaseGroup)
        is_about = record.message.key == ClaimKey("g", "events", 0)
        states.append(after(states[-1], record, RULES) if is_about else states[-1])
    return held


@pytest.mark.parametrize("size", sampled([50, 400, 5_000], 2))
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_log_with_ranges_is_told_the_same_from_its_runs(seed: int, size: int) -> None:
    chunked = alike(sharing(seed), judging(), size)
    assert chunked.kinds[HeartbeatRun] >= 800 // size, "of claims that nobody shares"
    found = {row.code for row in chunked.told(judging()) if isinstance(row, FindingRow)}
    assert {"range_lost", "checkpoint_differs"} <= found


@pytest.mark.parametrize("version", [b"/1/", b"/+1/"], ids=["ordinary", "odd"])
def test_what_a_request_finds_is_not_what_a_run_of_heartbeats_leaves(version: bytes) -> None:
    """Nobody shares the claim, so that it is refused; the row says where the claim stood."""
    lines = ["0 CP a1/A"]
    for second in range(1, 60):
        lines += [f"{second} HB a1/A {3 * second} epoch=0", f"{second} HB b1/B 5 p=1"]
        if second % 10 == 7:
            lines.append(f"{second} CR p1/P 5")
    raws = [
        evolve(raw, value=raw.value.replace(b"/1/", version, 1))
        if raw.value is not None and raw.value.startswith(CLAIMING_RANGE)
        else raw
        for raw in records(lines)
    ]
    alike(raws, judging(), 1_000)


LIE = "1/=a1/=ranges/0/0/1/1/1///0/9/4/1/1/p1/1/1/1/0/4/0/0"


@pytest.mark.parametrize("window", ["", " ranges=9"], ids=["nobody shares", "shared"])
def test_a_checkpoint_is_seen_and_compared_wherever_chunks_begin(window: str) -> None:
    """Ordinary heartbeats come before it, that hold none."""
    quiet = beats("a1/A", 1, 21, tail="10 epoch=0 seen=0")
    late = beats("a1/A", 23, 43, tail="10 epoch=0 seen=0")
    state = FoldedState(Claim(), Ranges())
    for raw in records([f"0 CP a1/A{window}", *quiet])[:6]:
        state = after(state, raw.decoded_with_ranges(), RULES)
    for text in (LIE, encode_checkpoint(state).decode()):
        holds = f"21 HB a1/A 10 epoch=0 seen=5 ranges-at={text}"
        raws = records([f"0 CP a1/A{window}", *quiet, holds, *late])
        differ = not window or text == LIE
        for size in (11, 12, 1_000):
            chunked = alike(raws, judging(), size)
            found = [row.code for row in chunked.told(judging()) if isinstance(row, FindingRow)]
            assert ("checkpoint_differs" in found) is differ


def test_without_ranges_a_value_that_is_no_message_breaks_no_run() -> None:
    lines = ["0 CP a1/A", *beats("a1/A", 1, 30), "30 garbage", *beats("a1/A", 31, 60)]
    chunked = alike(records(lines), judging(), 1_000)
    assert chunked.kinds[HeartbeatRun] == 1


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_hostile_log_is_told_the_same_from_its_runs(seed: int) -> None:
    raws = list(hostile.log(seed, 3_000 if seed else 1_000))
    once = list({raw.offset: raw for raw in raws}.values())
    alike(once, judging(), 500)


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_chunk_that_holds_records_again_is_told_the_same_from_its_runs(seed: int) -> None:
    raws = [*hostile.log(seed, 1_500 if seed else 300), *fleet(seed, 500)]
    chance = Random(seed)
    again = [raw for raw in raws if chance.random() < 0.1]
    others = [evolve(raw, value=b"no message") for raw in again[::3]]
    mixed = [*others, *raws, *again]
    chunked = alike(mixed, judging(), len(mixed))
    assert chunked.kinds[HeartbeatRun] > 10
    unsorted = Chunked(again + raws, len(mixed), INTERVAL_MS)
    assert unsorted.told(judging()) == fed(again + raws, judging())
    assert unsorted.kinds[HeartbeatRun] > 10


SAID_S = [2**43 // 1000, 2**44, 10**15, 10**18 - 1, 2**63 - 1]
STAMPED_MS = [0, 2**43, 2**62, -1, -(2**61)]


# By day each once.
@pytest.mark.parametrize(("unix_s", "timestamp_ms"), sampled(product(SAID_S, STAMPED_MS), 6))
def test_times_that_nobody_lives_in_do_not_keep_a_chunk_from_its_runs(
    unix_s: int, timestamp_ms: int
) -> None:
    raws = [
        evolve(raw, timestamp_type=TimestampType.LOG_APPEND_TIME)
        for raw in records(["0 CP a1/A", *beats("a1/A", 1, 90)])
    ]
    last = raws[-1].offset
    value = b"ClaimingPartition/1/%d/i/c/g/t/3" % unix_s
    far = [
        RawRecord(raws[0].partition, last + n, timestamp_ms, value, (), raws[0].timestamp_type)
        for n in (1, 2)
    ]
    chunked = alike([*raws, *far], judging(), 1_000)
    assert chunked.kinds[HeartbeatRun] == 1


def test_captures_and_stories_are_told_the_same_from_their_runs() -> None:
    for name in NAMES:
        alike(capture(name), judging(interval=interval_ms(name)), 20)
    for story in STORIES.values():
        for lines in story[1:]:
            once = list({raw.offset: raw for raw in records(lines)}.values())
            alike(once, judging(), 7)


def test_senders_whose_names_are_no_text_are_told_the_same_from_their_runs() -> None:
    raws = fleet(1, 600)
    for odd in ("\udcff", "\\xff", "é", "\udc80"):
        name = odd.encode("utf-8", "surrogateescape")
        alike(
            [evolve(raw, value=(raw.value or b"").replace(b"/c", b"/" + name)) for raw in raws],
            judging(),
            311,
        )


def test_what_a_chunk_holds_travels_in_columns() -> None:
    names = [each.name for each in COLLAPSED_SCHEMA.field("facts").type.value_type]
    assert names == [each.name for each in fields(ChunkFacts)]
    raws = records(["0 CP a1/A", *beats("a1/A", 1, 90)])
    (facts,) = (it for *_, it in Chunked(raws, 99, INTERVAL_MS).items if isinstance(it, ChunkFacts))
    (clock,) = facts.clocks
    assert facts.records == sum(facts.types) == sum(clock.counts) == len(raws)


def test_the_clock_of_a_claim_is_the_latest_of_a_run_and_not_its_last() -> None:
    beats = [f"{second} HB a1/A {second}" for second in (1, 2, 3, 4, 2.5)]
    chunked = alike(records(["0 CP a1/A", *beats]), judging(), 100)
    assert chunked.kinds[HeartbeatRun] == 1


def test_chunks_that_overlap_or_are_not_in_order_are_refused() -> None:
    raws = fleet(1, 400)
    alike(raws, judging(), 100)
    for again in (raws + raws[100:101], raws[50:] + raws[:50]):
        with pytest.raises(SourcesOverlap):
            Chunked(again, 100, INTERVAL_MS).told(judging())


def test_more_senders_than_are_remembered_are_told_the_same_from_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collapse, "_ADDRESSES_READ_MAX", 5)
    alike(fleet(1, 1_000), judging(), 311)
