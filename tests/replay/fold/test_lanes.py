"""Marshal promises that the page draws a claim as paused only while it is."""

from __future__ import annotations

from kafka_marshal import RuleSet
from kafka_marshal.replay.model.tables import LANES
from tests.replay.told import BEGIN_S, records, replayed

OWNED = ("0 CP a1/A", "1 HB a1/A 10 epoch=0 seen=0")


def paused(*lines: str) -> list[tuple[int, int]]:
    """The pauses that are drawn, in seconds of the log."""
    [lane] = replayed(records([*OWNED, *lines]), rule_sets=(RuleSet.FENCED,))[LANES]
    drawn = zip(lane.pauses_from_ms, lane.pauses_until_ms, strict=True)
    return [(begin // 1000 - BEGIN_S, until // 1000 - BEGIN_S) for begin, until in drawn]


def test_a_pause_is_drawn_until_it_expires_whenever_the_claim_is_won_after_that() -> None:
    assert paused("2 RG x1/X 20") == [(2, 20)]
    assert paused("2 RG x1/X 20", "30 CP a1/A") == [(2, 20)]
    assert paused("2 RG x1/X 20", "30 RG x1/X 40") == [(2, 20), (30, 40)]


def test_a_pause_is_drawn_until_its_pauser_wins_the_claim() -> None:
    assert paused("2 RG x1/X 20", "5 CP x1/X", "6 RP x1/X 10") == [(2, 5)]


def test_a_pause_that_another_release_of_the_group_replaces_is_drawn_until_then() -> None:
    """`pause` and `set-position` replace their first one when its time was a guess."""
    assert paused("2 RG x1/X 20", "3 RG x1/X 30", "5 CP x1/X") == [(2, 3), (3, 5)]
    assert paused("2 RG x1/X 20", "5 RG x1/X 4") == [(2, 5)]
