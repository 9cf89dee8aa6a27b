"""Corners of the original's rules that neither the captures nor the models reach."""

import attrs
import pytest

from kafka_marshal import ORIGINAL, Accepted, Claim, Record, Refused, ReleasingPartition, step
from kafka_marshal.core.claims.original import claimed


@pytest.mark.parametrize(
    ("last_heartbeat_ms", "interval_ms", "is_claimed"),
    [
        # Always at 8,999 ms, which is second 8.
        (1000, 3500.5, True),  # 7 s, not 7.999: below 7.001 s
        (1999, 3250, False),  # 7 s, not 6.001: above 6.5 s
        (1000, 3500, False),  # exactly twice the interval
        (8000, 3500, True),
        (9000, 3500, False),  # a clock that is ahead
    ],
)
def test_the_original_counts_whole_seconds(
    last_heartbeat_ms: int, interval_ms: float, is_claimed: bool
) -> None:
    rules = attrs.evolve(ORIGINAL, heartbeat_interval_ms=interval_ms)
    assert claimed(Claim(last_heartbeat_ms=last_heartbeat_ms), 8999, rules) is is_claimed


def released(group: str) -> tuple[Claim, Accepted | Refused]:
    """What a release without ids does to a claim that nobody ever touched."""
    message = ReleasingPartition(1, 5, "", "", group, "t", 0, 7)  # type: ignore[arg-type]
    return step(Claim(), Record(0, 3, 6000, message), ORIGINAL)


def test_the_originals_untouched_claim_belongs_to_whoever_has_no_ids_and_no_group() -> None:
    assert released(group="") == (
        Claim(position=7, clock_ms=6000, last_release_ms=5000),
        Accepted.RELEASED,
    )


def test_the_originals_untouched_claim_is_not_of_any_named_group() -> None:
    assert released(group="g") == (Claim(clock_ms=6000), Refused.NOT_OWNER)
