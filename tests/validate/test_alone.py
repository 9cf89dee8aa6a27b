"""A log alone: whatever the machines produce is explained, whatever they cannot produce is not."""

from __future__ import annotations

import random
from pathlib import Path

import attrs
import pytest
from tools.runs.simulate import Fleet

from kafka_marshal.capture import RawRecord, read_capture, record_of
from kafka_marshal.codec import encode_headers
from kafka_marshal.core.messages import Headers
from kafka_marshal.machines.consumer.consumer import Forbidden
from kafka_marshal.validate import Impossible, LogJudgement, Unexplained, validate_log
from kafka_marshal.validate.explain import Guard
from tests.validate.samples import BUSY, fleets, rows

CAPTURES = Path(__file__).parent.parent / "data" / "captures" / "original"


def log_of(seed: int, events: int, fleet: Fleet) -> list[RawRecord]:
    lines = rows(seed, events, fleet)[1:]
    return [record_of(line, "run") for line in lines if line["event"] == "appended"]


@pytest.mark.parametrize(
    "fleet", list(fleets()), ids=lambda f: f"{f.mode.value}-{f.certifies}-{f.idempotent}"
)
def test_what_the_machines_sent_is_explained_without_what_they_read(fleet: Fleet) -> None:
    """Also after timeouts, when records land twice, and in another order."""
    for seed in range(3):
        judgement = validate_log(log_of(seed, 4000, fleet))
        assert judgement.unexplained is None
        assert judgement.judged > 0.9 * judgement.records
        assert (judgement.late == 0) is fleet.idempotent


def test_a_log_whose_head_is_missing_is_judged_as_far_as_it_can_be() -> None:
    records = log_of(2, 4000, attrs.evolve(BUSY, partitions=1))
    judgement = validate_log(records[len(records) // 2 :])
    assert judgement.unexplained is None
    assert judgement.judged > 0
    assert judgement.unjudged > 0


@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_lacks_records_accuses_nobody(seed: int) -> None:
    """As one that was compacted, or of which a part was not copied."""
    records = log_of(seed, 3000, attrs.evolve(BUSY, partitions=1))
    gaps = random.Random(seed).sample(range(len(records)), 5)
    judgement = validate_log([raw for raw in records if raw.offset not in gaps])
    assert judgement.unexplained is None
    assert judgement.unjudged > 0 < judgement.judged


def test_logs_of_the_original_are_strangers() -> None:
    for path in CAPTURES.glob("*.jsonl"):
        if not path.name.endswith(".trace.jsonl"):
            judgement = validate_log(read_capture(path))
            assert judgement.explained
            assert judgement.strangers + judgement.releases == judgement.records > 0


# --- by hand --------------------------------------------------------------------------------------


def record(offset: int, kind: str, who: str, tail: str = "", **headers: int) -> RawRecord:
    client = "c" if who in ("i1", "i2") else who
    said = Headers(True, **headers)
    pairs = () if kind == "ReleaseGroup" else tuple(encode_headers(said))
    about = "/0" if kind == "ReleaseGroup" else "t/0"
    value = f"{kind}/{0 if kind == 'ReleaseGroup' else 1}/0/{who}/{client}/g/{about}{tail}"
    return RawRecord(0, offset, 1000 + offset, value.encode(), pairs)


def judged(*records: RawRecord) -> Unexplained | None:
    return validate_log(records).unexplained


def test_a_pause_of_ours_is_not_counted_as_the_originals() -> None:
    """A ReleaseGroup never has headers."""
    paused = [record(0, "ReleaseGroup", "x", "/20"), record(1, "ClaimingPartition", "x")]
    judgement = validate_log(paused)
    assert judgement.explained
    assert (judgement.strangers, judgement.releases, judgement.judged) == (0, 1, 1)


CLAIM = record(0, "ClaimingPartition", "i1")
BEAT = record(1, "Heartbeat", "i1", "/3", epoch=0, seen=0, clock=1000)
TAKEN = record(2, "ClaimingPartition", "i2", supersedes=0)
TAKEN_TOO_EARLY = record(2, "ClaimingPartition", "x")
OWN = {"epoch": 0, "seen": 1, "clock": 1001}

BY_HAND: dict[str, tuple[list[RawRecord], Guard | None]] = {
    "an owner's heartbeat": ([CLAIM, BEAT], None),
    "a late heartbeat of a predecessor": (
        [CLAIM, BEAT, TAKEN, record(3, "Heartbeat", "i1", "/4", **OWN)],
        None,
    ),
    "a heartbeat under an epoch that its sender knew to be over": (
        [
            *(CLAIM, BEAT, TAKEN),
            record(3, "Heartbeat", "i1", "/4", epoch=0, seen=2, clock=1002),
        ],
        Forbidden.NOT_OWNER,
    ),
    "an epoch that nobody won": (
        [CLAIM, record(1, "Heartbeat", "i1", "/3", epoch=5)],
        Forbidden.NOT_OWNER,
    ),
    "an epoch of somebody else": (
        [CLAIM, record(1, "Heartbeat", "i2", "/3", epoch=0)],
        Forbidden.NOT_OWNER,
    ),
    "anything after a release": (
        [
            *(CLAIM, BEAT, TAKEN_TOO_EARLY),
            record(3, "ReleasingPartition", "i1", "/3", **OWN),
            record(4, "Heartbeat", "i1", "/3", epoch=0, seen=2, clock=1002),
        ],
        Forbidden.RESIGNED,
    ),
    "a heartbeat that was sent before the release, and landed after it": (
        [
            *(CLAIM, BEAT, record(2, "ReleasingPartition", "i1", "/3", **OWN)),
            record(3, "Heartbeat", "i1", "/3", **OWN),
        ],
        None,
    ),
    "a claim by the owner, whose release was lost": (
        [CLAIM, BEAT, record(2, "ClaimingPartition", "i1", supersedes=0)],
        None,
    ),
    "a heartbeat that was sent before such a claim, and landed after it": (
        [
            *(CLAIM, BEAT, record(2, "ClaimingPartition", "i1", supersedes=0)),
            record(3, "Heartbeat", "i1", "/3", **OWN),
        ],
        None,
    ),
    "another claim before the first was read, which was given up": (
        [CLAIM, record(1, "ClaimingPartition", "i1")],
        None,
    ),
    "a claim that landed twice": (
        [
            CLAIM,
            BEAT,
            record(2, "Heartbeat", "i1", "/3", **OWN),
            record(3, "ClaimingPartition", "i1"),
        ],
        None,
    ),
    "a release that landed twice": (
        [
            *(CLAIM, BEAT, record(2, "ReleasingPartition", "i1", "/3", **OWN)),
            record(3, "ReleasingPartition", "i1", "/3", **OWN),
        ],
        None,
    ),
    "a claim that names a tenure of another client": (
        [CLAIM, BEAT, record(2, "ClaimingPartition", "x", supersedes=0)],
        Impossible.NOT_WHAT_IT_SENDS,
    ),
    "a sender that forgets what it saw": (
        [
            *(CLAIM, BEAT, record(2, "Heartbeat", "i1", "/3", **OWN)),
            record(3, "Heartbeat", "i1", "/4", epoch=0, seen=0, clock=1000),
        ],
        Impossible.VIEW_GOES_BACK,
    ),
    "an earlier heartbeat that landed later": (
        [
            *(CLAIM, record(1, "Heartbeat", "i1", "/4", epoch=0, seen=0, clock=1000)),
            record(2, "Heartbeat", "i1", "/3", epoch=0, seen=0, clock=1000),
        ],
        None,
    ),
    "a sender that saw what is not there": (
        [CLAIM, record(1, "Heartbeat", "i1", "/3", epoch=0, seen=7, clock=1000)],
        Impossible.NOT_APPENDED,
    ),
    "another clock": (
        [CLAIM, record(1, "Heartbeat", "i1", "/3", epoch=0, seen=0, clock=999)],
        Impossible.NOT_WHAT_IT_SENDS,
    ),
    "an owner that goes back": (
        [CLAIM, BEAT, record(2, "Heartbeat", "i1", "/2", **OWN)],
        Impossible.NOT_WHAT_IT_SENDS,
    ),
    "messages that were granted before": (
        [CLAIM, BEAT, record(2, "ClaimingMessages", "i1", "/3", **OWN)],
        Forbidden.NOTHING_AHEAD,
    ),
    "messages that are ahead": (
        [CLAIM, BEAT, record(2, "ClaimingMessages", "i1", "/4", **OWN)],
        None,
    ),
    "an administrator in its own pause": (
        [
            record(0, "ReleaseGroup", "a", "/999"),
            record(1, "ClaimingPartition", "a"),
            record(2, "ReleasingPartition", "a", "/7", epoch=1, set_position=7),
        ],
        None,
    ),
    "an administrator that paused nothing": (
        [CLAIM, record(1, "ReleasingPartition", "i1", "/7", epoch=0, set_position=7)],
        Forbidden.NOTHING_PAUSED,
    ),
    "a release that sets another position than it says": (
        [
            record(0, "ReleaseGroup", "a", "/999"),
            record(1, "ClaimingPartition", "a"),
            record(2, "ReleasingPartition", "a", "/7", epoch=1, set_position=8),
        ],
        Impossible.NOT_WHAT_IT_SENDS,
    ),
    "an owner without an epoch": (
        [CLAIM, record(1, "Heartbeat", "i1", "/3")],
        Impossible.NOT_WHAT_IT_SENDS,
    ),
    "a claim with an epoch": (
        [record(7, "ClaimingPartition", "i1", epoch=0)],
        Impossible.NOT_WHAT_IT_SENDS,
    ),
    "no headers after headers": (
        [CLAIM, attrs.evolve(BEAT, headers=())],
        Impossible.NOT_WHAT_IT_SENDS,
    ),
    "a header that is not decimal": (
        [CLAIM, attrs.evolve(BEAT, headers=(("marshal-epoch", b"x"),))],
        Impossible.NOT_WHAT_IT_SENDS,
    ),
    "an offset twice": ([CLAIM, attrs.evolve(BEAT, offset=0)], Impossible.OFFSET_TAKEN),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str) -> None:
    records, guard = BY_HAND[name]
    found = judged(*records)
    assert (found.guard if found is not None else None) is guard
    if found is not None:
        assert found.number == len(records)


def test_each_group_is_judged_by_the_interval_that_it_states() -> None:
    """The default would let `i1` live for two minutes, and accuse who took over from it."""
    records = [
        record(0, "ClaimingPartition", "i1", interval_ms=4000),
        record(1, "Heartbeat", "i1", "/3", epoch=0, seen=0, clock=1000, interval_ms=4000),
        record(2, "ClaimingPartition", "x", interval_ms=4000),
        record(3, "Heartbeat", "x", "/3", epoch=2, seen=2, clock=9002, interval_ms=4000),
    ]
    records = [
        attrs.evolve(r, timestamp_ms=1000 + r.offset + 8000 * (r.offset > 1)) for r in records
    ]
    judgement = validate_log(records)
    assert judgement.unexplained is None
    assert judgement.by_default is None
    assert validate_log([CLAIM]).by_default == "g"


def test_a_malformed_value_takes_its_place_and_says_nothing() -> None:
    judgement = validate_log([CLAIM, RawRecord(0, 1, 0, b"rubbish"), attrs.evolve(BEAT, offset=2)])
    assert judgement == LogJudgement(records=3, judged=2, malformed=1, by_default="g")
