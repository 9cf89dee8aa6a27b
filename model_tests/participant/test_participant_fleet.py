"""Marshal promises that a fleet notices a participant that breaks a rule: its checks can fail."""

from __future__ import annotations

import attrs
import pytest
from tests.machines.ranges.fleet import Faults, Setting, World
from tools.runs.by_day import sampled

from model_tests.participant.mutants import MUTANTS

AT_MOST_ONCE = Setting(
    participants=3,
    messages=600,
    per_second=60,
    handler_ms=30,
    faults=Faults(loses=0.05, doubles=0.05, leave_every_ms=1_500),
    faults_end_ms=20_000,
    lives_ms=60_000,
)
AT_LEAST_ONCE = attrs.evolve(AT_MOST_ONCE, window=300)
BREAKS = {
    "TakesItAtOnce": (AT_MOST_ONCE, "AtMostOnce"),
    "TakesWhatOthersGet": (AT_MOST_ONCE, "AtMostOnce"),
    "ForgetsItsPromise": (AT_MOST_ONCE, "AtMostOnce"),
    "KeepsNothing": (AT_MOST_ONCE, "AtMostOnce"),
    "BegunIsDone": (AT_LEAST_ONCE, "NoneSkipped"),
    "AnchorSaysTheFrontier": (AT_LEAST_ONCE, "NoneSkipped"),
    "TheHighestCounts": (AT_LEAST_ONCE, "NoneSkipped"),
}
"""A mistake of `participant_mutants`, where it is made, and what it breaks."""
SEEDS = range(6)


@pytest.mark.parametrize("name", BREAKS)
def test_a_fleet_notices_who_breaks_a_rule(name: str) -> None:
    [mutant] = [each for each in MUTANTS if each.name == name]
    setting, promise = BREAKS[name]
    with mutant.made():
        for seed in SEEDS:
            broken = World(setting, seed).run().broken
            if broken:
                assert broken[0].startswith(promise), broken
                return
    pytest.fail(f"no seed of {SEEDS} notices")


# By day `tests/machines/ranges/test_fleet.py` has fleets at least once, too.
@pytest.mark.parametrize("setting", sampled([AT_MOST_ONCE, AT_LEAST_ONCE], 2))
def test_nothing_is_broken_without_a_mistake(setting: Setting) -> None:
    for seed in SEEDS:
        world = World(setting, seed).run()
        assert world.broken == [], seed
        assert world.lost == [], seed
