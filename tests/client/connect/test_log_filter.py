"""A log that is thinned folds to what the whole of it folds to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from attrs import evolve, frozen

from kafka_marshal import ClaimKey, MalformedRecord
from kafka_marshal.admin.fold import ClaimsFold
from kafka_marshal.capture import HeaderPairs, RawRecord, read_capture
from kafka_marshal.client.connect.log_filter import LogFilter
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode, after_read
from tests.kernel import hostile

ME = InstanceConfig("me", "me", Mode.AT_LEAST_ONCE)
CAPTURES = Path(__file__).parent.parent.parent / "data" / "captures" / "original"


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


def folded(records: Iterable[RawRecord], group: str) -> dict[ClaimKey, ConsumerState]:
    """What a consumer of the group knows of each claim."""
    newborn, claims = ConsumerState(), dict[ClaimKey, ConsumerState]()
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
            key = message.key
            claims[key] = after_read(ME, claims.get(key, newborn), record)
    return claims


def thin(
    records: list[RawRecord], group: str, whole: bool = True, chance: Random | None = None
) -> list[RawRecord]:
    """What is left of a log; where there is chance, it comes in pieces and is given at any time."""
    places = {raw.partition for raw in records}
    log_filter = LogFilter[MockMessage](group.encode(), places if whole else ())
    left, given = [*map(MockMessage, records)], list[MockMessage]()
    while chance and left:
        size = chance.randrange(60)
        log_filter.add(left[:size])
        left = left[size:]
        if chance.random() < 0.2:
            given += log_filter.given(places)
    log_filter.add(left)
    return [message.raw for message in [*given, *log_filter.given(places)]]


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


def test_a_run_goes_on_until_what_is_held_is_given() -> None:
    log_filter = LogFilter[MockMessage](b"g", {0})
    messages = [MockMessage(beat(n, n, epoch=0, seen=0, clock=5)) for n in range(1, 13)]
    for at in range(0, 9, 3):
        log_filter.add(messages[at : at + 3])
    assert numbers(message.raw for message in log_filter.given({0})) == [1, 9]
    log_filter.add(messages[9:])
    assert numbers(message.raw for message in log_filter.given({0})) == [10, 12]
    assert not log_filter.given({0})


def test_what_is_given_is_in_the_order_of_the_log() -> None:
    """A run that is broken late ends before the first one of another."""
    texts = ["a/0/1", "b/0/1", "a/0/2", "b/0/2", "c/0/1", "a/0/0"]
    records = [beat(n, 0, value=f"Heartbeat/1/9/i/c/g/{text}") for n, text in enumerate(texts)]
    assert numbers(thin(records, "g")) == [0, 1, 2, 3, 4, 5]


def test_each_partition_is_held_by_itself() -> None:
    log_filter = LogFilter[MockMessage](b"g", {0, 1})
    raws = [evolve(beat(n // 2, n // 2, epoch=0), partition=n % 2) for n in range(20)]
    log_filter.add([*map(MockMessage, raws)])
    assert log_filter.held(0) == log_filter.held(1) == 2
    assert numbers(message.raw for message in log_filter.given({1})) == [0, 9]
    assert (log_filter.held(0), log_filter.held(1)) == (2, 0)


@pytest.mark.parametrize(
    ("instance", "client", "group", "topic"),
    [("g", "c", "g", "t"), ("i", "g", "g", "t"), ("i", "c", "g", "g"), ("g", "g", "g", "g")],
)
def test_names_that_are_the_same_are_not_mistaken(
    instance: str, client: str, group: str, topic: str
) -> None:
    text = f"Heartbeat/1/9/{instance}/{client}/{group}/{topic}/0/"
    assert numbers(thin([beat(n, 0, value=f"{text}{n}") for n in range(5)], "g")) == [0, 4]


def test_a_topic_that_is_called_as_the_group_is_not_of_the_group() -> None:
    records = [beat(n, 0, value=f"Heartbeat/1/9/i/c/h/g/0/{n}") for n in range(5)]
    assert not thin(records, "g")


def test_a_run_goes_on_where_its_offset_has_a_digit_more() -> None:
    assert numbers(thin([beat(n, n) for n in range(8, 13)], "g")) == [8, 12]


def pairs(*values: bytes | None, first: str = "epoch") -> tuple[tuple[str, bytes | None], ...]:
    names = (first, "seen", "clock")
    return tuple((f"marshal-{name}", value) for name, value in zip(names, values, strict=False))


AMENDED: Final = (("marshal-interval", b"4000"), ("marshal-start", b"0"))
PLAIN: Final = (
    (),
    pairs(b"0"),
    pairs(b"0", b"1", b"5"),
    (*pairs(b"0"), AMENDED[0]),
    (*pairs(b"0", b"1", b"5"), AMENDED[0]),
    (*pairs(b"0", b"1", b"5"), *AMENDED),
)
"""Headers of heartbeats that make a run."""
AGE = b"9" * 25


@pytest.mark.parametrize("headers", PLAIN)
def test_heartbeats_of_plain_headers_make_a_run(headers: HeaderPairs) -> None:
    records = [evolve(beat(n, n), headers=headers) for n in range(3, 10)]
    assert numbers(thin(records, "g")) == [3, 9]


def test_a_heartbeat_that_begins_to_say_where_its_sender_began_is_kept() -> None:
    records = [evolve(beat(n, n), headers=pairs(b"0")) for n in range(3, 10)]
    records[3] = evolve(records[3], headers=(*pairs(b"0"), AMENDED[1]))
    assert numbers(thin(records, "g")) == [3, 5, 6, 7, 9]


ODD: Sequence[Mapping[str, Any]] = (
    {"value": b"Heartbeat/1/4/i/c/g/t/0/2"},
    {"timestamp_ms": 1},
    {"headers": pairs(b"1")},
    {"headers": pairs(b"1", b"1", b"5")},
    {"headers": pairs(b"0", b"6", b"5")},
    {"headers": pairs(b"0", b"x", b"5")},
    {"headers": pairs(b"0", b"1", b"x")},
    {"headers": pairs(b"0", AGE, b"5")},
    {"headers": pairs(b"0", b"1", AGE)},
    {"headers": pairs(b"0", b"0" * 24 + b"1", b"5")},
    {"headers": (*pairs(b"0"), ("marshal-supersedes", b"1"), ("marshal-clock", b"5"))},
    {"headers": (*pairs(b"0", b"1"), ("marshal-supersedes", b"1"))},
    {"headers": pairs(b"0", None, b"5")},
    {"headers": pairs(b"0", b"1", None)},
    {"headers": pairs(b"x")},
    {"headers": pairs(AGE)},
    {"headers": pairs(None)},
    {"headers": pairs(b"0", first="supersedes")},
    {"headers": pairs(b"0", b"1", b"5", first="supersedes")},
    {"headers": (*pairs(b"0"), ("marshal-set-position", b"1"))},
    {"headers": (*pairs(b"0", b"1", b"5"), ("marshal-start", b"x"))},
    {"headers": (*pairs(b"0", b"1", b"5"), ("marshal-interval", b"5000"))},
    {"headers": (*pairs(b"0", b"1", b"5"), ("marshal-interval", b"5000"), AMENDED[1])},
    {"headers": AMENDED},
    {"value": b"Heartbeat/1/4/j/c/g/t/0/6"},
    {"value": b"Heartbeat/1/4/i/d/g/t/0/6"},
    {"value": b"Heartbeat/0/4/i/c/g/t/0/6"},
    {"value": b"Heartbeat/x/4/i/c/g/t/0/6"},
    {"value": b"Heartbeat/1/x/i/c/g/t/0/6"},
    {"value": b"Heartbeat/1/4/i/c/g/t/0/+6"},
    {"value": b"Heartbeat/1/4/i/c/g/t/0/x"},
    {"value": b"Heartbeat/1/4/i/c/g/t/0/" + AGE},
    {"value": "Heartbeat/1/4/i/c/g/t/0/٣".encode()},
    {"value": b"Heartbeat/1/4/i/c/g/t/00/6"},
    {"value": b"Heartbeat/1/4/i/c/g/t/0"},
    {"value": b"ClaimingPartition/1/4/i/c/g/t/0"},
    {"value": b"ReleasingPartition/1/4/i/c/g/t/0/6"},
    {"value": b"ReleaseGroup/0/4/x/x/g//0/9"},
    {"value": b"Nonsense/0/4/x/x/g/t/0/9"},
)


@pytest.mark.parametrize("headers", PLAIN)
def test_a_run_is_broken_by_what_may_be_obeyed_otherwise(headers: HeaderPairs) -> None:
    for odd in ODD:
        records = [evolve(beat(n, n), headers=headers) for n in range(3, 10)]
        records[3] = evolve(records[3], **odd)
        assert {5, 6} <= {*numbers(thin(records, "g"))}, odd


def test_of_many_senders_not_all_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_marshal.client.connect.log_filter._SENDERS_MAX", 3)
    assert numbers(thin([beat(n, n) for n in range(100, 150)], "g")) == [100, 149]


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
    assert folded(thin(records, "g", chance=Random(seed)), "g") == folded(records, "g")


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
    kept = thin(records, "g", chance=chance)
    assert len(kept) < len(records)
    assert folded(kept, "g") == folded(records, "g")


@pytest.mark.parametrize("seed", range(20))
def test_a_thinned_log_says_the_same_of_the_group_s_interval(seed: int) -> None:
    """Whether an owner of one interval lives when somebody of another asks is not left out."""
    chance = Random(seed)
    records, now_ms, epochs = list[RawRecord](), 1000, dict[tuple[int, str], int]()
    for offset in range(300):
        now_ms += chance.choice((0, 2_000, 2_000, 2_000, 15_000))
        who = chance.choice("aab") if offset > 60 else "a"
        partition, interval = int(who == "b"), {"a": b"4000", "b": b"20000"}[who]
        said, text = ("marshal-interval", interval), f"1/9/{who}i/{who}/g/t/{partition}"
        epoch = epochs.get((partition, who))
        if epoch is None or chance.random() < 0.02:
            value, pairs = f"ClaimingPartition/{text}", (said,)
            epochs[partition, who] = offset
        else:
            value = f"Heartbeat/{text}/{offset}"
            pairs = (("marshal-epoch", b"%d" % epoch), said)  # type: ignore[assignment]
        records.append(RawRecord(0, offset, now_ms, value.encode(), pairs))
    for at in (60, 120, 300):
        folds = []
        for read in (records[:at], thin(records[:at], "g", chance=chance)):
            fold = ClaimsFold(0)
            for raw in read:
                fold.apply(raw.decoded())
            folds.append((dict(fold.claims("g")), fold.intervals.of("g")))
        assert folds[0] == folds[1]
    assert len(thin(records[:60], "g")) < 60


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


def gapped(*batches: Iterable[int], first: int = 0) -> tuple[list[int], dict[int, list[int]]]:
    """The offsets that are given of heartbeats at these ones, and where each gap ends."""
    log_filter = LogFilter[MockMessage](b"g", {0})
    log_filter.begin(0, first)
    for batch in batches:
        log_filter.add([MockMessage(beat(n, n, epoch=0, seen=0, clock=5)) for n in batch])
    return numbers(message.raw for message in log_filter.given({0})), log_filter.gaps()


def test_where_offsets_are_missing_no_run_goes_on_and_the_rest_is_a_suffix() -> None:
    assert gapped(range(5), range(5, 9)) == ([0, 1, 8], {})
    assert gapped(range(5), range(6, 9)) == ([0, 1, 4, 6, 7, 8], {0: [6]})
    assert gapped([*range(5), *range(6, 9)]) == ([0, 1, 4, 6, 7, 8], {0: [6]})
    assert gapped(range(3, 5), first=3) == ([3, 4], {})
    assert gapped(range(3, 5)) == ([3, 4], {0: [3]}), "the head is missing"


def test_what_lies_between_two_gaps_is_a_suffix_too() -> None:
    assert gapped([0, 1, 3, 4, 6, 7]) == ([0, 1, 3, 4, 6, 7], {0: [3, 6]})
    assert gapped([0, 1], [3, 4], [6], [7]) == ([0, 1, 3, 4, 6, 7], {0: [3, 6]})


def test_a_gap_at_the_end_is_one_and_is_given_once() -> None:
    log_filter = LogFilter[MockMessage](b"g", {0})
    log_filter.begin(0, 0)
    log_filter.end(0, 0)
    assert (list(log_filter.gapped), log_filter.gaps()) == ([], {})
    log_filter.add([MockMessage(beat(n, n)) for n in (0, 1)])
    log_filter.end(0, 2)
    assert not log_filter.gapped
    log_filter.end(0, 5)
    assert list(log_filter.gapped) == [0]
    assert log_filter.gaps() == {}, "nothing of it was given yet"
    assert numbers(message.raw for message in log_filter.given({0})) == [0, 1]
    assert log_filter.gaps() == {0: [5]}
    assert log_filter.gaps() == {}
    log_filter.add([MockMessage(beat(5, 5))])
    assert not log_filter.gapped


def test_a_gap_of_one_partition_leaves_others_alone() -> None:
    log_filter = LogFilter[MockMessage](b"g", {0, 1})
    records = [beat(n, n, epoch=0, seen=0, clock=5) for n in range(6)]
    log_filter.begin(0, 0)
    log_filter.begin(1, 0)
    messages = [MockMessage(evolve(raw, partition=1)) for raw in records]
    log_filter.add([*messages, *(MockMessage(raw) for raw in records if raw.offset != 2)])
    given = [(one.raw.partition, one.raw.offset) for one in log_filter.given((0, 1))]
    assert given == [(0, 0), (0, 1), (0, 3), (0, 4), (0, 5), (1, 0), (1, 1), (1, 5)]
    assert log_filter.gaps() == {0: [3]}
