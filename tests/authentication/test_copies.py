"""A copy of a valid record is authentic wherever it lies: the fold refuses what it would do."""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal import FENCED, Claim, ClaimKey, ReadTwice, Refused, Verdict, World
from kafka_marshal.authentication import Authenticity
from kafka_marshal.capture import RawRecord
from tests.authentication.signing import OURS, signed
from tests.replay.told import records

RULES = attrs.evolve(FENCED, heartbeat_interval_ms=4000)
KEY = ClaimKey("g", "events", 0)
TOLD = [
    "0 CP a1/A interval=4000",
    "1 HB a1/A 5 epoch=0 seen=0",
    "2 CM a1/A 9 epoch=0 seen=1",
    "3 RP a1/A 9 epoch=0 seen=2",
    "4 CP b1/B interval=4000",
    "5 HB b1/B 12 epoch=4 seen=4",
    "6 CM b1/B 15 epoch=4 seen=5",
]
"""A had the claim, and B has it."""
LOG = [signed(raw) for raw in records(TOLD)]


def folded(log: list[RawRecord]) -> tuple[Claim, Verdict]:
    """The claim in the end, and what the last record did."""
    world = World(RULES)
    verdict = [world.apply(raw.decoded()).verdict for raw in log][-1]
    assert not isinstance(verdict, ReadTwice)
    return world.claim(KEY), verdict


def copied(log: list[RawRecord], of: int, after_ms: int = 500) -> list[RawRecord]:
    """The log, and at its end one of its records once more."""
    last = log[-1]
    copy = attrs.evolve(log[of], offset=last.offset + 1, timestamp_ms=last.timestamp_ms + after_ms)
    assert OURS.verify(copy).authenticity is Authenticity.AUTHENTIC
    return [*log, copy]


@pytest.mark.parametrize("of", range(len(LOG)))
def test_a_copy_of_a_record_is_authentic_and_changes_neither_owner_nor_position(of: int) -> None:
    before, _ = folded(LOG)
    after, _ = folded(copied(LOG, of))
    assert after.owner_instance == before.owner_instance == "b1"
    assert (after.position, after.position_set) == (15, True)
    assert of == 4 or after.epoch == before.epoch


def test_a_copy_into_a_log_that_was_made_anew_is_refused() -> None:
    assert folded([LOG[0], attrs.evolve(LOG[5], offset=1)])[1] is (Refused.HEADER_FROM_THE_FUTURE)


def test_what_a_copy_can_do() -> None:
    """SECURITY.md lists these four."""
    before, _ = folded(LOG)
    beat, verdict = folded(copied(LOG, 5))
    assert verdict.value == "refreshed"
    assert beat.last_heartbeat_ms == (before.last_heartbeat_ms or 0) + 500

    own, verdict = folded(copied(LOG, 4))
    assert (verdict.value, own.owner_instance, own.position) == ("reclaimed", "b1", 15)
    assert own.epoch == LOG[-1].offset + 1

    gone, verdict = folded(copied(LOG[:4], 0))
    assert (verdict.value, gone.owner_instance, gone.position) == ("claimed", "a1", 9)

    paused = [*LOG, signed(attrs.evolve(records(["7 RG x1/X 8"])[0], offset=7))]
    again, verdict = folded(copied(paused, 7, after_ms=60_000))
    assert (verdict.value, again.owner_instance) == ("group_released", None)
    assert again.paused_until_ms is None
