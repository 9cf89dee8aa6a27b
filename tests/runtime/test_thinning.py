"""A log that is thinned folds to what the whole of it folds to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from attrs import frozen

from kafka_marshal import ClaimKey, MalformedRecord
from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.client.consumer import Consumer, Me, Mode, after_read
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.runtime.thinning import Thinning
from tests.kernel import hostile

ME = Me("me", "me", Mode.AT_LEAST_ONCE)
CAPTURES = Path(__file__).parent.parent / "data" / "captures" / "original"


@frozen
class MockMessage:
    """A record as Kafka's client gives it."""

    raw: RawRecord

    def partition(self) -> int:
        return self.raw.partition

    def offset(self) -> int:
        return self.raw.offset

    def timestamp(self) -> tuple[int, int]:
        return 2, self.raw.timestamp_ms

    def value(self) -> bytes | None:
        return self.raw.value

    def headers(self) -> list[tuple[str, bytes]] | None:
        return list(self.raw.headers) or None  # type: ignore[arg-type]


def folded(records: Iterable[RawRecord], group: str) -> dict[ClaimKey, Consumer]:
    """What a consumer of the group knows of each claim."""
    newborn, claims = Consumer(), dict[ClaimKey, Consumer]()
    last = -1
    for raw in records:
        try:
            record = raw.decoded()
        except MalformedRecord:
            continue
        message = record.message
        if message.group_id != group or record.offset <= last:
            continue
        last = record.offset
        if isinstance(message, ReleaseGroup):
            newborn = after_read(ME, newborn, record)
            claims = {key: after_read(ME, each, record) for key, each in claims.items()}
        else:
            key = ClaimKey(message.group_id, message.topic, message.partition)
            claims[key] = after_read(ME, claims.get(key, newborn), record)
    return claims


def thin(records: list[RawRecord], group: str, whole: bool = True) -> list[RawRecord]:
    places = {raw.partition for raw in records} if whole else set()
    thinning = Thinning(group.encode(), places)
    return [kept.raw for kept in thinning.kept(map(MockMessage, records))]


def beat(offset: int, position: int, *, ms: int = 0, value: str = "", **headers: int) -> RawRecord:
    pairs = tuple((f"marshal-{name}", b"%d" % number) for name, number in headers.items())
    text = value or f"Heartbeat/1/{offset}/i/c/g/t/0/{position}"
    return RawRecord(0, offset, ms or 1000 + offset, text.encode(), pairs)


def numbers(records: Iterable[RawRecord]) -> list[int]:
    return [raw.offset for raw in records]


def test_of_a_run_its_first_and_its_last_are_kept() -> None:
    records = [beat(n, n, epoch=0, seen=n - 1, clock=5) for n in range(1, 9)]
    assert numbers(thin(records, "g")) == [1, 8]
    assert numbers(thin(records, "other")) == []
    assert numbers(thin(records, "g", whole=False)) == list(range(1, 9))


@pytest.mark.parametrize(
    "odd",
    [
        beat(4, 2, epoch=0),
        beat(4, 4, ms=1, epoch=0),
        beat(4, 4, epoch=1),
        beat(4, 4),
        beat(4, 4, epoch=0, seen=4),
        beat(4, 4, epoch=0, supersedes=1),
        beat(4, 4, value="Heartbeat/1/4/j/c/g/t/0/4", epoch=0),
        beat(4, 4, value="Heartbeat/1/4/i/d/g/t/0/4", epoch=0),
        beat(4, 4, value="Heartbeat/0/4/i/c/g/t/0/4", epoch=0),
        beat(4, 4, value="Heartbeat/1/4/i/c/g/t/0/+4", epoch=0),
        beat(4, 4, value="ClaimingPartition/1/4/i/c/g/t/0"),
        beat(4, 4, value="ReleaseGroup/0/4/x/x/g//0/9"),
        beat(4, 4, value="Heartbeat/1/4/i/c/g/t/00/4", epoch=0),
    ],
)
def test_a_run_is_broken_by_what_may_be_obeyed_otherwise(odd: RawRecord) -> None:
    records = [beat(n, n, epoch=0) if n != 4 else odd for n in range(1, 8)]
    kept = numbers(thin(records, "g"))
    assert 4 in kept
    assert 3 in kept


def test_a_claim_does_not_break_the_runs_of_others() -> None:
    records = [beat(n, n, value=f"Heartbeat/1/{n}/i/c/g/t/{n % 2}/{n}", epoch=0) for n in range(10)]
    assert numbers(thin(records, "g")) == [0, 1, 8, 9]


@pytest.mark.parametrize("seed", range(40))
def test_a_thinned_log_folds_as_the_whole_one_whatever_is_in_it(seed: int) -> None:
    records, offsets = [], set[int]()
    for raw in hostile.log(seed, 600):
        if raw.offset not in offsets:
            offsets.add(raw.offset)
            records += [raw]
    assert folded(thin(records, "g"), "g") == folded(records, "g")


@pytest.mark.parametrize("seed", range(40))
def test_a_thinned_log_of_runs_folds_as_the_whole_one(seed: int) -> None:
    """Heartbeats of a few senders who come and go, so that runs are long and owners change."""
    chance = Random(seed)
    records, now_ms, epoch = list[RawRecord](), 1000, 0
    sender, headers = ("i", "c"), True
    for offset in range(500):
        now_ms += chance.choice((0, 5, 20, 70_000))
        dice = chance.random()
        if dice < 0.06:
            sender, headers = chance.choice((("i", "c"), ("j", "c"), ("k", "d"))), dice < 0.04
        text = f"1/{offset}/{sender[0]}/{sender[1]}/g/t/0"
        if dice > 0.97:
            pairs = (("marshal-version", b"1"),) if headers else ()
            records.append(
                RawRecord(0, offset, now_ms, f"ClaimingPartition/{text}".encode(), pairs)
            )
            epoch = offset
        elif dice > 0.955:
            until = now_ms // 1000 + 60
            records.append(
                RawRecord(0, offset, now_ms, f"ReleaseGroup/0/1/x/x/g//0/{until}".encode())
            )
        else:
            named = {"epoch": epoch, "seen": offset - 1, "clock": 5} if headers and epoch else {}
            position = offset - chance.choice((0, 0, 0, 1))
            records.append(
                beat(offset, 0, ms=now_ms, value=f"Heartbeat/{text}/{position}", **named)
            )
    kept = thin(records, "g")
    assert len(kept) < len(records)
    assert folded(kept, "g") == folded(records, "g")


CAPTURED = [path for path in sorted(CAPTURES.glob("*.jsonl")) if ".trace" not in path.name]


@pytest.mark.parametrize("path", CAPTURED, ids=lambda path: path.stem)
def test_a_capture_folds_the_same_when_it_is_thinned(path: Path) -> None:
    by_place: dict[int, list[RawRecord]] = {}
    for raw in read_capture(path):
        by_place.setdefault(raw.partition, []).append(raw)
    for records in by_place.values():
        groups: Counter[str] = Counter()
        for raw in records:
            fields = (raw.value or b"").decode("utf-8", "replace").split("/")
            groups[fields[5] if len(fields) > 5 else ""] += 1
        for group in groups:
            assert folded(thin(records, group), group) == folded(records, group)
