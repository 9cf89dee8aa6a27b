"""Marshal promises that an ordinary request, folded in one pass, comes to what `step` says."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, TypeAlias

import pytest

from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges import ordinary
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.ordinary import ordinary_request
from kafka_marshal.core.ranges.reducer import step
from kafka_marshal.core.ranges.verdicts import RangeAccepted, Unmet
from tests.core.ranges.walking import LIMITS, RULES, Walk, walk

AT_MOST_ONCE, AT_LEAST_ONCE = 0, 12
OnePass: TypeAlias = Callable[..., RangeOutcome | None]


@cache
def walks() -> list[Walk]:
    found = []
    for seed in range(6):
        for window in (AT_MOST_ONCE, AT_LEAST_ONCE):
            for honest in (True, False):
                walked = walk(seed, window, honest=honest)
                for _ in walked.steps(250):
                    pass
                found.append(walked)
    return found


def both(in_one_pass: OnePass) -> Iterator[tuple[RangeOutcome | None, RangeOutcome]]:
    """What each request of the walks did, in one pass and the long way."""
    for walked in walks():
        for (claim, ranges), record in zip(walked.history, walked.log, strict=True):
            if isinstance(record.message, ClaimingRange):
                short = in_one_pass(ranges, claim, record, record.message, RULES, LIMITS)
                yield short, step(ranges, claim, record, RULES, LIMITS)


def test_it_is_what_the_reducer_makes_of_it() -> None:
    for short, long in both(ordinary_request):
        assert short in (None, long)


def test_most_requests_are_ordinary_and_every_outcome_is_met() -> None:
    met: Counter[object] = Counter()
    for short, long in both(ordinary_request):
        if short is not None:
            met[short.verdict, short.guard] += 1
        met[short is not None, type(long.verdict)] += 1
    granted, refreshed = RangeAccepted.RANGE_GRANTED, RangeAccepted.RANGE_REFRESHED
    assert met.keys() >= {(granted, None), (refreshed, None), *((refreshed, why) for why in Unmet)}
    assert met[True, RangeAccepted] > met[False, RangeAccepted] > 0


MISTAKES = (
    ("said.keep is None", "True"),
    ("ranges.window is not None", "True"),
    ("claim.last_heartbeat_ms is not None", "True"),
    ("message.count >= 0", "True"),
    ("message.version in KNOWN_VERSIONS", "True"),
    ("said.done is None if seen is None else seen < offset", "True"),
    ("seen < offset", "seen <= offset"),
    ("(epoch is None or epoch < offset)", "True"),
    ("seen, epoch, headers", "epoch, headers"),
    ("said.window, said.done", "said.done"),
    ("said.window, said.done", "said.window"),
    ("max(ranges.clock_ms, claim.clock_ms, record.timestamp_ms)", "record.timestamp_ms"),
    ("> rules.stale_after_ms", "> 2 * rules.stale_after_ms"),
    ("at + 1 if", "at if"),
    ("in reversed(own)", "in own"),
    ("each.id > seen", "each.id >= seen"),
    ("each.id > seen or ", ""),
    ("or done <= each.from_", ""),
    ("if done < each.to", "if done <= each.to"),
    ("held -= 1", "pass"),
    ("pool = tuple(others)", "pass"),
    ("held >= limits.open_ranges_max", "held > limits.open_ranges_max"),
    ("len(open_) >= limits.intervals_max or ", ""),
    ("frontier = granted.to", "pass"),
    ("min(message.count, limits.range_messages_max)", "message.count"),
    ("min(wanted, most)", "wanted"),
)


@pytest.mark.parametrize(("right", "wrong"), MISTAKES)
def test_the_comparison_notices_a_mistake(right: str, wrong: str) -> None:
    source = inspect.getsource(ordinary)
    assert source.count(right) == 1
    mistaken: dict[str, Any] = {"__name__": "mistaken"}
    exec(compile(source.replace(right, wrong), "<mistaken>", "exec"), mistaken)

    with suppress(IndexError):  # that is noticed, too
        assert any(short not in (None, long) for short, long in both(mistaken["ordinary_request"]))
