"""The kernel does to every record what the reducer does, and to every claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pytest
from tools.runs.by_day import seeds

from kafka_marshal import FENCED, ORIGINAL, Rules, World
from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.codec import MalformedRecord, decode
from kafka_marshal.core.claims.verdicts import ReadTwice, Refused, Verdict
from kafka_marshal.core.claims.world import OutOfOrder
from kafka_marshal.core.state import Claim, ClaimKey
from kafka_marshal.kernel import columns, steps
from kafka_marshal.kernel.fold import BeyondKernel, KernelFold
from tests import triples
from tests.kernel import hostile
from tests.kernel.kernel import arrays, stepped

CAPTURES = sorted(
    path
    for path in (Path(__file__).parents[1] / "data" / "captures").rglob("*.jsonl")
    if not path.name.endswith(".trace.jsonl")
)
EPOCH = "marshal-epoch"
RULES = [
    attrs.evolve(rules, heartbeat_interval_ms=4000, pause_max_ms=30_000)
    for rules in (FENCED, ORIGINAL)
]

Told: TypeAlias = list[Verdict | str]
"""What each record did."""


def by_kernel(raws: list[RawRecord], *folds: KernelFold, batch: int = 1000) -> list[Told]:
    """What each fold, of the same names, made of the records."""
    told: list[Told] = [[] for _ in folds]
    words = {steps.NO_MESSAGE: "malformed", steps.READ_TWICE: "read twice"}
    for begin in range(0, len(raws), batch):
        part = raws[begin : begin + batch]
        decoded = folds[0].names.decoded(*arrays(part))
        offsets = np.array([raw.offset for raw in part], np.int64)
        timestamps_ms = np.array([raw.timestamp_ms for raw in part], np.int64)
        for folded, its in zip(folds, told, strict=True):
            numbers = folded.apply(offsets, timestamps_ms, decoded)
            its += [words.get(each) or steps.VERDICTS[each] for each in numbers.tolist()]
    return told


def by_world(raws: Iterable[RawRecord], *worlds: World) -> list[Told]:
    """What each world made of the records."""
    told: list[Told] = [[] for _ in worlds]
    for raw in raws:
        try:
            record = raw.decoded()
        except MalformedRecord:
            record = None
        for world, its in zip(worlds, told, strict=True):
            verdict = "malformed" if record is None else world.apply(record).verdict
            its.append("read twice" if isinstance(verdict, ReadTwice) else verdict)
    return told


def alike(raws: list[RawRecord], every: Sequence[Rules], batch: int = 1000) -> None:
    """The kernel and the reducer agree, by each of these rules."""
    names = columns.NameCodes()
    folds, worlds = [KernelFold(rules, names) for rules in every], [World(rules) for rules in every]
    by_folds, by_worlds = by_kernel(raws, *folds, batch=batch), by_world(raws, *worlds)
    for folded, world, told, expected in zip(folds, worlds, by_folds, by_worlds, strict=True):
        if told != expected:
            for raw, ours, theirs in zip(raws, told, expected, strict=True):
                assert ours == theirs, raw
        assert folded.claims() == world.claims


@pytest.mark.parametrize("seed", seeds(3, 100))
def test_a_million_hostile_records_are_folded_as_by_the_reducer(seed: int) -> None:
    """By both rule sets; each log has every kind of record in it. All seeds are run by night."""
    alike(list(hostile.log(seed, 5_000)), RULES, batch=(1000, 7, 5_000)[seed % 3])


def test_partitions_that_lie_mixed_in_a_batch_are_folded_as_alone() -> None:
    logs = [list(hostile.log(seed, 2_000))[:1_800] for seed in (1, 2, 3)]
    mixed = [raw for together in zip(*logs, strict=True) for raw in together]
    names = columns.NameCodes()
    decoded = names.decoded(*arrays(mixed))
    offsets = np.array([raw.offset for raw in mixed], np.int64)
    timestamps_ms = np.array([raw.timestamp_ms for raw in mixed], np.int64)
    for number, raws in enumerate(logs):
        folded, alone = KernelFold(RULES[0], names), KernelFold(RULES[0])
        rows = np.arange(number, len(mixed), 3)
        told = folded.apply(offsets, timestamps_ms, decoded, rows)
        words = {steps.NO_MESSAGE: "malformed", steps.READ_TWICE: "read twice"}
        [expected] = by_kernel(raws, alone)
        assert [words.get(int(each)) or steps.VERDICTS[each] for each in told] == expected
        assert folded.claims() == alone.claims()


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.rule_set.value)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_capture_is_folded_as_by_the_reducer(path: Path, rules: Rules) -> None:
    raws = sorted(read_capture(path), key=lambda raw: (raw.partition, raw.offset))
    for partition in {raw.partition for raw in raws}:
        alike([raw for raw in raws if raw.partition == partition], [rules])


def test_every_transition_of_the_specification_is_the_kernels() -> None:
    """All the triples of the sample: the kernel comes to what TLC came to."""
    known = triples.read()
    for triple, after, verdict in stepped(known):
        assert (after, verdict) == (triple.after, triple.verdict), triple.record


def test_hostile_logs_reach_every_verdict() -> None:
    """Or the comparison above would prove little."""
    missing: set[Verdict | str] = {*steps.VERDICTS, "malformed", "read twice"}
    for seed in range(8):
        if missing:
            missing.difference_update(*by_world(hostile.log(seed, 6_000), *map(World, RULES)))
    assert not missing


def test_what_goes_back_is_refused_and_what_does_not_fit_too() -> None:
    folded = KernelFold()
    raws = [RawRecord(0, offset, 0, b"Heartbeat/1/5/i/c/g/t/0/4") for offset in (4, 3)]
    with pytest.raises(OutOfOrder, match="offset 3 came after offset 4"):
        by_kernel(raws, folded)
    with pytest.raises(BeyondKernel):
        by_kernel([RawRecord(0, 5, 2**60, b"Heartbeat/1/5/i/c/g/t/0/4")], folded)
    assert not folded.claims()


@pytest.mark.parametrize("name", ["heartbeat_interval_ms", "pause_max_ms"])
def test_durations_that_do_not_fit_are_refused(name: str) -> None:
    changed: dict[str, Any] = {name: 2**53 + 2}
    folded = KernelFold(attrs.evolve(FENCED, **changed))
    with pytest.raises(BeyondKernel, match=f"{name}=.* a duration is longer than 2\\^53 ms"):
        by_kernel([RawRecord(0, 5, 1, b"Heartbeat/1/5/i/c/g/t/0/4")], folded)


def test_an_epoch_that_the_log_has_not_reached_is_refused_even_if_it_is_the_claims() -> None:
    """A claim taken up from elsewhere may be ahead of a log that was made anew."""
    key = ClaimKey("g", "t", 0)
    claim = Claim(owner_instance="i", owner_client="c", epoch=7, last_heartbeat_ms=1, clock_ms=1)
    folded, raw = KernelFold(), RawRecord(0, 3, 2, b"Heartbeat/1/5/i/c/g/t/0/4", ((EPOCH, b"7"),))
    folded.put(key, attrs.evolve(claim, won_with_headers=True))
    assert by_kernel([raw], folded) == [[Refused.HEADER_FROM_THE_FUTURE]]


@pytest.mark.parametrize("tail", ["", "1", "1/5/i/c/g/t/0/4", "x/5/i/c/g/t/0/4/5", "1/5/i/c/g//0"])
def test_a_message_that_only_readers_of_ranges_know_is_malformed(tail: str) -> None:
    value = f"ClaimingRange/{tail}".encode()
    with pytest.raises(MalformedRecord):
        decode(value)
    beat = b"Heartbeat/1/9/i/c/g/t/0/4"
    values = pa.array([beat, value, b"ClaimingRang", None, beat], pa.binary())
    decoded = columns.NameCodes().decoded(values, None)
    malformed = columns.MALFORMED
    beats = int(decoded.kind[0])
    assert decoded.kind.tolist() == [beats, malformed, malformed, malformed, beats]
    assert beats != malformed


def test_a_slice_of_a_batch_is_decoded_as_its_rows_are() -> None:
    values = pa.array([b"Heartbeat/1/9/i/c/g/t/0/%d" % row for row in range(4)], pa.binary())
    headers = pa.array(
        [[{"key": "marshal-epoch", "value": b"%d" % row}] for row in range(4)],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    decoded = columns.NameCodes().decoded(values[2:], headers[2:])
    assert decoded.number.tolist() == [2, 3]
    assert decoded.headers[:, 0].tolist() == [2, 3]
