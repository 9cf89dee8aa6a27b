"""Walks keep every promise, and one that does not is printed as a test to paste.

Derandomized and short here; `make walks` goes on for minutes, by chance.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests import golden_story
from tools.runs.by_day import sampled

from kafka_marshal import Accepted, Refused
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.counterexample.model import spec_name
from kafka_marshal.machines.consumer.consumer import Forbidden
from model_tests.mutants import reducer, walked
from model_tests.mutants.hand_made import HandMade
from model_tests.walks import telling
from model_tests.walks.machine import Trouble, walk, watched
from model_tests.walks.moves import Move, Setting
from model_tests.walks.mutated import PATH, Found, mutants, read, written
from model_tests.walks.properties import WALKED, Broken
from model_tests.walks.search import search
from model_tests.walks.simulation import ACTIONS
from model_tests.walks.tours import TOURS, Tour

MUTANTS = {m.name: m for m in (*walked.MUTANTS, *walked.HARMLESS, *reducer.MUTANTS)}


def complain(problem: Broken | None) -> None:
    if problem is not None:
        notes = "\n".join(getattr(problem, "__notes__", ()))
        pytest.fail(f"{telling.told(problem)}\n{notes}", pytrace=False)


def test_no_walk_breaks_a_promise() -> None:
    problem, _ = search(60)
    complain(problem)


def test_a_machine_answers_as_the_log_says_it_must() -> None:
    """Whatever it is asked for. Walks that did next to nothing would prove nothing."""
    reached: set[str] = set()
    problem, _ = search(120, guards=True, seed=1, reached=reached)
    complain(problem)
    assert {*ACTIONS, "Append", "Read", "Tick"} <= reached


ENVIRONMENT = {
    *("Append", "AppendCopy", "Lose", "Read", "Crash", "Restart", "Join", "Stall", "Resume"),
    *("Tick", "StepBack", "SendAnything"),
}


@pytest.mark.parametrize("tour", TOURS, ids=lambda tour: tour.name)
def test_a_tour_goes_where_it_says(tour: Tour) -> None:
    """And every promise is kept on the way, the machines' answers too."""
    assert traversed(tour) == [where for _, where in tour.moves]


def traversed(tour: Tour) -> list[str]:
    """What comes of each move: a machine's guard, what a record did, or the action itself."""
    simulation = watched(tour.setting, guards=True)
    [steps] = [history.steps for history in simulation.histories.values()]
    came_of = []
    for move, _ in tour.moves:
        records = len(steps)
        result = simulation.take(move)
        if isinstance(result, Forbidden):
            came_of.append(result.value)
        elif len(steps) > records:
            came_of.append(spec_name(steps[-1].verdict))
        else:
            came_of.append(move.action if result else "nothing")
    return came_of


def test_tours_go_everywhere_and_leave_nothing_to_chance() -> None:
    """To every action, everything a record can do, every guard of reducer and machine."""
    reached = {where for tour in TOURS for _, where in tour.moves}
    forbidden = {each.value for each in Forbidden}
    made = {move.action for tour in TOURS for move, where in tour.moves if where not in forbidden}
    accepted = set(Accepted) - {*(Accepted.OVERWRITTEN, Accepted.IGNORED)}
    assert {spec_name(each) for each in (*accepted, *Refused)} <= reached
    assert forbidden - reached == {Forbidden.NOT_NEXT.value}
    assert made == {*ACTIONS, *ENVIRONMENT}


@pytest.mark.parametrize("found", read(), ids=lambda found: f"{found.mutant}-{found.breaks.value}")
def test_a_walk_shows_the_mutant_and_is_walked_safely_without_it(found: Found) -> None:
    only = {found.breaks}
    with MUTANTS[found.mutant].made():
        problem = telling.outcome(found.setting, found.moves, only)
    assert problem is not None
    assert problem.name == found.breaks.value
    complain(telling.outcome(found.setting, found.moves, guards=True))


def test_every_mutant_that_walks_must_notice_was_found() -> None:
    assert [(f.mutant, f.breaks) for f in read()] == [(m.name, prop) for m, prop in mutants()]


def test_a_search_would_write_the_file_as_it_stands() -> None:
    assert written(read()) == PATH.read_text(encoding="utf-8")


def test_every_property_of_a_walk_has_been_seen_to_fail() -> None:
    typed = {Property.PREDECESSOR_STAYS_OUT}
    assert {found.breaks for found in read()} | typed == WALKED


def test_what_a_dead_predecessor_had_in_flight_is_noticed_when_it_wins() -> None:
    moves = [
        Move("SendClaimingPartition", "a1", "g/t/0"),
        Move("Crash", "a1"),
        Move("Restart", "a"),
        Move("SendClaimingPartition", "a2", "g/t/0"),
        Move("Append", "a2"),
        Move("Append", "a1"),
    ]
    with MUTANTS["AnyRestart"].made():
        problem = telling.outcome(Setting(), moves, {Property.PREDECESSOR_STAYS_OUT})
    assert problem is not None
    walk(Setting(), moves, guards=True)


# --- what is printed ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem() -> Broken:
    """A machine that processes what it asks for, as a search with everything on finds it."""
    with MUTANTS["GrantNotAwaited"].made():
        found, walks = search(50, shrink=False)
    assert found is not None
    assert walks <= 50
    return found


def test_a_grant_that_is_not_awaited_is_named_at_most_once(problem: Broken) -> None:
    assert problem.name == Property.AT_MOST_ONCE.value


def test_a_walk_is_told_in_the_form_of_the_whiteboard_stories(problem: Broken) -> None:
    with MUTANTS["GrantNotAwaited"].made():
        story = telling.story(problem)
    assert golden_story.retold(story, "told again").text == story
    assert re.search(r"^@\d+ \d+ms ClaimingPartition/1/", story, re.MULTILINE)
    assert re.search(r"^    accepted claimed\n    [\w/]+: ", story, re.MULTILINE)
    assert re.search(r"^# .* processes what it was granted", story, re.MULTILINE)
    assert story.rstrip().endswith("now 2 times.")
    assert story in telling.told(problem)


def executed(source: str) -> None:
    """Run the test in a source as pytest would."""
    names: dict[str, Any] = {}
    exec(compile(source, "pasted", "exec"), names)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    test()


@pytest.mark.parametrize("mutant", ["GrantNotAwaited", "NobodyRefused", "AskedIgnored"])
def test_the_printed_test_fails_by_the_same_property_when_it_is_pasted(mutant: str) -> None:
    with MUTANTS[mutant].made():
        found, _ = search(200, guards=mutant == "AskedIgnored", shrink=False)
        assert found is not None
        source = telling.pasted(found)
        assert source in telling.told(found)
        with pytest.raises(Broken) as raised:
            executed(source)
    assert raised.value.name == found.name
    executed(source)


def test_records_of_strangers_can_be_pasted() -> None:
    """Messages and headers as Python, and a header that is no number in the story."""
    found = next(f for f in read() if any(move.sent for move in f.moves))
    with MUTANTS[found.mutant].made():
        problem = telling.outcome(found.setting, found.moves, {found.breaks})
        assert problem is not None
        source = telling.pasted(problem)
    assert "from kafka_marshal.core.messages import " in source
    executed(source)


def test_the_counterexample_is_named_by_its_property(problem: Broken) -> None:
    counterexample = telling.counterexample(problem, "seed 7")
    assert (counterexample.violated, counterexample.source) == ("AtMostOnce", "seed 7")


def test_hypothesis_says_how_to_see_it_again(problem: Broken) -> None:
    assert any("@reproduce_failure(" in note for note in problem.__notes__)


def test_a_seed_is_the_same_search() -> None:
    with MUTANTS["NobodyRefused"].made():
        once, again = (search(400, seed=3, shrink=False) for _ in range(2))
    assert once[1] == again[1]
    assert repr(once[0]) == repr(again[0])


def test_a_walk_that_needs_every_move_is_left_as_it_is() -> None:
    with MUTANTS["WinMoves"].made():
        problem, _ = search(20, shrink=False)
        assert problem is not None
        shorter = telling.shortened(problem)
    assert shorter.simulation is not None
    assert len(shorter.simulation.moves) == 2


# --- mistakes that no property forbids ------------------------------------------------------------


@pytest.mark.parametrize("mutant", sampled(walked.HARMLESS, 3), ids=lambda mutant: mutant.name)
def test_no_property_forbids_what_is_harmless(mutant: HandMade) -> None:
    with mutant.made():
        problem, _ = search(20, shrink=False)
    complain(problem)


@pytest.mark.parametrize(
    ("mutant", "forbidden"),
    sampled(
        [
            ("AskedIgnored", Forbidden.AWAITS_READ_BACK),
            ("NeverLost", Forbidden.STOPPED),
            ("ResignedIgnored", Forbidden.RESIGNED),
            ("WindowIgnored", Forbidden.BEYOND_WINDOW),
        ],
        2,
    ),
)
def test_a_guard_that_is_left_out_is_named(mutant: str, forbidden: Forbidden) -> None:
    """R6 breaks no property, and shows here."""
    with MUTANTS[mutant].made():
        problem, _ = search(
            600, frozenset(), guards=True, sure=(Trouble.TWIN,), seed=1, shrink=False
        )
    assert problem is not None
    assert problem.name == "Forbidden" + forbidden.name.title().replace("_", "")
