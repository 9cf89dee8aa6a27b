"""Every distinct step that TLC takes in worlds of `MCRanges.tla`, held against `step` of ranges.

These logs are a record or two shorter than the models'. `make model-full` holds all of them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from kafka_marshal.core.ranges.verdicts import RangeAccepted, Unmet
from model_tests.edges import consumer_edges
from model_tests.ranges import edges

SHORTER = {"MCRanges_AmoTwo": 4, "MCRanges_AloTwo": 4, "MCRanges_AmoClock": 3}
"""At most once, at least once, and by the clock; how long their logs are here."""


@pytest.mark.tlc
def test_ranges_take_every_step_as_the_specification_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kinds: Counter[str] = Counter()
    for name, log_max in SHORTER.items():
        held = edges.held(consumer_edges.find(name), log_max)
        assert held.partings == 0, held.first
        assert held.in_one_pass > 0
        kinds += held.kinds
        with capsys.disabled():
            print(
                f"\n  {name}: {held.rows:,} rows from {held.edges:,} edges, all as in Python, "
                f"{held.in_one_pass:,} of them also in one pass"
            )
    accepted = {verdict.value for verdict in RangeAccepted}
    unmet = {f"{RangeAccepted.RANGE_REFRESHED.value} ({reason.value})" for reason in Unmet}
    assert kinds.keys() >= accepted | unmet | {"no_range_tenure"}
