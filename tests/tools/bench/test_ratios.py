"""Marshal promises that `make bench` reports ratios that fall, and benchmarks that are missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
from benchmarks.suite import ratios
from benchmarks.suite.figures import TARGET, Better, Figure, Target, chosen, read
from benchmarks.suite.ratios import Run, compared, of_figures

PARTS = ("client.noop", "watch")


def figure(ours: float, better: Better = Better.HIGHER, theirs: float = 100.0) -> Figure:
    return Figure("client.noop.fetched", "messages/s", better, ours, "1,000", {"poll()": theirs})


def run(parts: Mapping[str, ratios.Ratios], scale: str = "default", cores: int = 2) -> Run:
    return Run("2026-11-26 14:05", "0abc", scale, {"cpu": "one", "cores": cores}, 0.1, parts)


def of(*figures: Figure) -> Run:
    return run(of_figures({"client.noop": figures}))


def test_a_ratio_is_how_many_times_better_ours_is_in_both_directions() -> None:
    assert figure(150).ratios == {"poll()": 1.5}
    assert figure(50, Better.LOWER).ratios == {"poll()": 2.0}
    alone = attrs.evolve(figure(4, Better.LOWER), peers={})
    assert alone.ratios == {}
    assert attrs.evolve(alone, target=Target(2.0)).ratios == {TARGET: 0.5}


@pytest.mark.parametrize("better", Better)
@pytest.mark.parametrize(("part_left", "falls"), [(0.84, True), (0.86, False), (1.3, False)])
def test_a_fall_of_16_percent_is_reported_and_one_of_14_is_not(
    better: Better, part_left: float, falls: bool
) -> None:
    now = 80 * part_left if better is Better.HIGHER else 80 / part_left
    found = compared([of(figure(80, better))], of(figure(now, better)), PARTS)
    assert found.compared == 1
    assert [change.name for change in found.fell] == ["client.noop.fetched"] * falls
    assert found.ok is not falls
    assert (
        any("FELL       client.noop.fetched × poll(): " in each for each in found.lines()) is falls
    )


def test_what_fell_most_is_reported_first() -> None:
    before = run({"watch": {"a": {"x": 1.0, "y": 1.0, "z": 1.0}}})
    now = run({"watch": {"a": {"x": 0.8, "y": 0.2, "z": 0.5}}})
    assert [change.peer for change in compared([before], now, PARTS).fell] == ["y", "z", "x"]


def test_a_ratio_that_no_stored_run_has_is_new_and_no_error() -> None:
    before = run({"watch": {"a": {"x": 1.0}}})
    found = compared([before], run({"watch": {"a": {"x": 1.0}, "b": {"x": 3.0}}}), PARTS)
    assert found.ok
    assert found.lines()[1:] == ["new        b × x: 3.00, which no stored run has"]


def test_a_stored_ratio_that_is_missing_is_reported() -> None:
    before = run({"watch": {"a": {"x": 1.0, "y": 2.0}}})
    found = compared([before], run({"watch": {"a": {"x": 1.0}}}), PARTS)
    assert not found.ok
    assert found.lines()[1:] == ["VANISHED   a × y: 2.00 is stored, and this run has none"]


def test_a_part_that_is_gone_is_reported_and_one_that_was_not_asked_for_is_not() -> None:
    before = run({"watch": {"a": {"x": 1.0}}, "client.noop": {"b": {"x": 2.0}}})
    now = run({"watch": {"a": {"x": 1.0}}})
    assert compared([before], now, PARTS).ok
    assert [change.name for change in compared([before], now, ["watch"]).vanished] == ["b"]


def test_a_part_is_compared_with_the_last_run_of_its_scale_that_holds_it() -> None:
    stored = [
        run({"watch": {"gone": {"x": 9.0}}}),
        run({"watch": {"a": {"x": 2.0}}}),
        run({"client.noop": {"b": {"x": 5.0}}}),
        run({"watch": {"a": {"x": 7.0}}}, scale="quick"),
    ]
    found = compared(stored, run({"watch": {"a": {"x": 1.0}}}), PARTS)
    assert [(change.before, change.now) for change in found.fell] == [(2.0, 1.0)]


def test_a_lucky_day_is_no_measure_and_one_long_ago_is_none_either() -> None:
    days = [9.0, 2.0, 8.0, 2.1, 2.2, 1.9]
    stored = [run({"watch": {"a": {"x": ratio, TARGET: ratio}}}) for ratio in days]
    lucky = run({"watch": {"a": {TARGET: 50.0}}}, cores=64)
    now = run({"watch": {"a": {"x": 1.8, TARGET: 1.8}}})
    found = compared([*stored[:-1], lucky, stored[-1]], now, PARTS)
    assert (found.compared, found.fell) == (2, [])
    [worse, _] = compared(stored, run({"watch": {"a": {"x": 1.6, TARGET: 1.6}}}), PARTS).fell
    assert worse.before == 2.1


def test_a_fall_that_a_second_run_does_not_confirm_is_listed_as_that() -> None:
    before = run({"watch": {"a": {"x": 1.0, "y": 1.0, "z": 1.0}}})
    now = run({"watch": {"a": {"x": 0.5, "y": 0.5, "z": 0.5}}})
    again = {"watch": {"a": {"x": 0.9, "y": 0.8}}}
    found = ratios.confirmed(compared([before], now, PARTS), again)
    assert not found.ok
    assert found.lines() == [
        "3 ratios compared, 2 fell by more than 15%, 0 vanished, 0 new",
        "FELL       a × y: 1.00 before, 0.50 now (-50.0%), 0.80 in a second run",
        "FELL       a × z: 1.00 before, 0.50 now (-50.0%)",
        "fell once  a × x: 1.00 before, 0.50 now (-50.0%), 0.90 in a second run",
    ]
    once = compared([run({"watch": {"a": {"x": 1.0}}})], run({"watch": {"a": {"x": 0.5}}}), PARTS)
    assert ratios.confirmed(once, again).ok


def test_a_ratio_to_a_target_is_compared_on_one_machine_only() -> None:
    before, now = (
        {"watch": {"a": {TARGET: 2.0, "x": 2.0}}},
        {"watch": {"a": {TARGET: 1.0, "x": 2.0}}},
    )
    assert len(compared([run(before)], run(now), PARTS).fell) == 1
    found = compared([run(before)], run(now, cores=64), PARTS)
    assert found.ok
    assert [change.peer for change in found.elsewhere] == [TARGET]
    assert found.compared == 1


def test_a_peer_that_did_nothing_has_no_ratio_so_it_is_missing() -> None:
    nothing = of(figure(80, theirs=0.0))
    assert nothing.parts == {"client.noop": {}}
    assert not compared([of(figure(80))], nothing, PARTS).ok


def test_runs_are_kept_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "ratios.json"
    assert ratios.read(path) == []
    first, second = of(figure(80)), of(figure(90))
    for each in (first, second):
        ratios.store(each, path)
    assert ratios.read(path) == [first, second]


def test_a_target_is_a_value_or_a_ratio_to_a_peer_in_both_directions() -> None:
    for better, ours, target, reached in (
        (Better.HIGHER, 96.0, 95.0, True),
        (Better.LOWER, 106.0, 105.26, False),
    ):
        found = attrs.evolve(figure(ours, better), target=Target(0.95, "poll()"))
        assert found.target_value == pytest.approx(target, abs=0.01)
        assert found.reached is reached
        assert attrs.evolve(found, peers={}).reached is None
    assert attrs.evolve(figure(3, Better.LOWER), target=Target(2.0)).reached is False


def test_figures_that_a_kill_cut_off_are_left_out(tmp_path: Path) -> None:
    path, found = tmp_path / "figures.jsonl", attrs.evolve(figure(80), target=Target(1.0, "poll()"))
    assert read(path) == []
    line = json.dumps(found.as_json())
    path.write_text(f"{line}\n{line[:50]}")
    assert read(path) == [found]


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    assert chosen([], PARTS) == [*PARTS]
    with pytest.raises(LookupError, match=r"no such part: clien; there are client\.noop, watch"):
        chosen(["watch", "clien"], PARTS)
