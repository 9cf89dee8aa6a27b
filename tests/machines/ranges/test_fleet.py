"""Marshal promises that participants share a claim: each message is processed, whatever fails.

Each run is one seed, and prints it where it fails: `World(setting, seed).run()` repeats it.
"""

from __future__ import annotations

import attrs
import pytest
from tools.runs.by_day import seeds

from tests.machines.ranges.fleet import Faults, Setting, World

AT_MOST_ONCE, AT_LEAST_ONCE = 0, 400

NETWORK = Faults(loses=0.05, doubles=0.05, late=0.05)
EVERYTHING = Faults(0.03, 0.03, 0.03, 20_000, 9_000, 9_000, 9_000, 20_000)
FAULTS = {
    "nothing fails": Faults(),
    "records are late, lost and doubled": NETWORK,
    "crashes": attrs.evolve(NETWORK, crash_every_ms=4_000),
    "stalls": attrs.evolve(NETWORK, stall_every_ms=4_000),
    "clean restarts": attrs.evolve(NETWORK, leave_every_ms=3_000),
    "pauses": attrs.evolve(NETWORK, pause_every_ms=15_000),
    "everything": EVERYTHING,
}
SHARED = Setting(participants=3, messages=800, per_second=20, handler_ms=10)


@pytest.mark.parametrize("seed", seeds(1, 2))
@pytest.mark.parametrize("window", [AT_MOST_ONCE, AT_LEAST_ONCE])
@pytest.mark.parametrize("faults", FAULTS)
def test_a_fleet_processes_everything_once_faults_stop(faults: str, window: int, seed: int) -> None:
    world = World(attrs.evolve(SHARED, window=window, faults=FAULTS[faults]), seed).run()
    assert world.broken == []
    assert world.lost == []


@pytest.mark.parametrize("faults", ["nothing fails", "records are late, lost and doubled"])
def test_at_most_once_nothing_is_lost_unless_somebody_crashes(faults: str) -> None:
    world = World(attrs.evolve(SHARED, window=AT_MOST_ONCE, faults=FAULTS[faults]), 1).run()
    assert world.unprocessed == []


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_large_fleet_says_only_a_few_times_where_to_begin(seed: int) -> None:
    setting = attrs.evolve(SHARED, window=AT_LEAST_ONCE, participants=32, lives_ms=4_000)
    world = World(setting, seed).run()
    starts = [record for record, _ in world.log if record.headers.start is not None]
    assert 1 <= len(starts) <= 6
    assert world.finished


def test_at_least_once_nothing_is_repeated_unless_somebody_fails() -> None:
    for name in ("nothing fails", "records are late, lost and doubled", "clean restarts"):
        world = World(attrs.evolve(SHARED, window=AT_LEAST_ONCE, faults=FAULTS[name]), 1).run()
        assert world.repeated == 0, name


@pytest.mark.parametrize("seed", [2, 3])  # in which it gets the claim
@pytest.mark.parametrize("window", [AT_MOST_ONCE, AT_LEAST_ONCE])
def test_a_consumer_that_knows_no_ranges_takes_over_and_gives_back(window: int, seed: int) -> None:
    faults = attrs.evolve(NETWORK, all_stall_every_ms=25_000)
    setting = attrs.evolve(SHARED, window=window, faults=faults, others=1, messages=2_000)
    world = World(setting, seed).run()
    assert world.broken == []
    assert world.lost == []
    assert world.effects["Won"] > 0
    assert world.effects["TenureBegan"] > 0


def test_participants_begin_where_the_start_policy_says() -> None:
    world = World(attrs.evolve(SHARED, start=1_000, faults=NETWORK), 1).run()
    assert world.broken == []
    assert world.unprocessed == []
    assert min(world.begun) == 1_000


@pytest.mark.parametrize("window", [AT_MOST_ONCE, 100_000])
def test_an_idle_group_sends_one_record_an_interval_for_each_and_one_for_the_anchor(
    window: int,
) -> None:
    hour_ms, participants = 3_600_000, 8
    setting = Setting(window, participants, messages=0, interval_ms=60_000, lives_ms=hour_ms)
    world = World(setting, 1).run()
    settled = [r for r, _ in world.log if r.timestamp_ms - world.log[0][0].timestamp_ms > 60_000]
    assert len(settled) / 59 <= (participants + 1) * 1.15


@pytest.mark.parametrize("window", [AT_MOST_ONCE, 100_000])
def test_a_busy_participant_sends_one_record_for_each_range(window: int) -> None:
    """A range takes `range_ms` at full pace. The reserve and its heartbeats come on top."""
    setting = Setting(
        *(window, 4, 4_000, 800),
        handler_ms=4,
        interval_ms=60_000,
        lives_ms=7_000,
    )
    world = World(setting, 1).run()
    assert world.unprocessed == []
    began_ms = world.log[0][0].timestamp_ms
    steady = [r for r, _ in world.log if 2_000 <= r.timestamp_ms - began_ms < 5_000]
    a_second = len(steady) / 3
    assert a_second <= 4 * (1_000 / setting.range_ms) * (1.25 if window else 1.8)


def test_more_that_stay_than_the_limits_allow_still_share() -> None:
    limits = attrs.evolve(SHARED.limits, intervals_max=4, open_ranges_max=2)
    setting = attrs.evolve(
        SHARED, window=AT_LEAST_ONCE, participants=6, limits=limits, faults=EVERYTHING
    )
    world = World(setting, 1).run()
    assert world.broken == []
    assert world.lost == []


def test_a_run_is_repeated_by_its_seed() -> None:
    setting = attrs.evolve(SHARED, faults=EVERYTHING, messages=100, lives_ms=20_000)
    first, again, other = (World(setting, seed).run().log for seed in (1, 1, 2))
    assert first == again
    assert first != other
