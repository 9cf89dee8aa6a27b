from __future__ import annotations

import math

import attrs
import pytest

from kafka_marshal import FENCED, ORIGINAL, Claim, Rules, RuleSet
from kafka_marshal.core.state import milliseconds


def test_the_defaults_are_the_protocols() -> None:
    assert (FENCED.rule_set, ORIGINAL.rule_set) == (RuleSet.FENCED, RuleSet.ORIGINAL)
    for rules in (FENCED, ORIGINAL):
        assert rules.heartbeat_interval_ms == 60_000
        assert rules.stale_after_ms == 120_000
        assert rules.pause_max_ms == 24 * 60 * 60 * 1000


@pytest.mark.parametrize("duration", ["heartbeat_interval_ms", "pause_max_ms"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_a_duration_is_finite_and_greater_than_0(duration: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{duration} must be .* greater than 0, not {value!r}$"):
        Rules(RuleSet.FENCED, **{duration: value})  # type: ignore[arg-type]


def test_a_brokers_clock_may_never_step_back_but_not_by_less() -> None:
    assert attrs.evolve(FENCED, clock_rewind_max_ms=0).clock_rewind_max_ms == 0
    with pytest.raises(ValueError, match=r"^clock_rewind_max_ms must be at least 0, not -1$"):
        attrs.evolve(FENCED, clock_rewind_max_ms=-1)


@pytest.mark.parametrize("interval_ms", [0.5, 1, 2.5])
def test_an_interval_may_be_any_number_greater_than_0(interval_ms: float) -> None:
    assert attrs.evolve(FENCED, heartbeat_interval_ms=interval_ms).stale_after_ms == 2 * interval_ms


@pytest.mark.parametrize(("seconds", "exactly"), [(1.001, 1001.0), (0.1, 100.0), (60, 60_000.0)])
def test_seconds_are_milliseconds_exactly_as_written(seconds: float, exactly: float) -> None:
    assert milliseconds(seconds) == exactly


def test_a_claim_is_nobodys_and_not_paused_before_its_first_record() -> None:
    claim = Claim()
    assert (claim.owned, claim.paused, claim.won_with_headers) == (False, False, False)
    assert (claim.position, claim.clock_ms) == (0, -1)


def test_a_pause_is_over_at_its_expiry_and_not_after_it() -> None:
    claim = Claim(pauser="a1", paused_until_ms=9000)
    assert attrs.evolve(claim, clock_ms=8999).paused
    assert not attrs.evolve(claim, clock_ms=9000).paused


def test_a_claim_has_no_other_fields_and_is_a_key() -> None:
    claim = Claim(position=3)
    assert {claim: "here"}[Claim(position=3)] == "here"
    with pytest.raises(AttributeError):
        claim.offset = 3  # type: ignore[attr-defined]
