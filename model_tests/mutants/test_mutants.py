"""Every hand-made mutant is noticed by whom it names, and everything that judges has noticed one.

Over the sample of TLC's transitions, so without TLC. `make mutants` prints the same as a table, and
adds those that are generated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import pytest
from tests import machine_samples as machines
from tests import triples
from tests.triples import Triple
from tools.runs.by_day import one_of_each, sampled

from kafka_marshal import RuleSet
from kafka_marshal.core.claims.invariants import STEP_CHECKS, Property
from model_tests.mutants import generated, judges, operators, reducer, table, walked
from model_tests.mutants.generated import PACKAGE, SEARCHES, Change, Mutant, Search, Survivor
from model_tests.mutants.hand_made import HandMade, Killer, step
from model_tests.transitions.exports import Exported

BY_WHAT_THEY_BREAK = pytest.mark.parametrize(
    "mutant",
    one_of_each(reducer.MUTANTS, lambda mutant: mutant.killers(Killer.STEP)),
    ids=lambda mutant: mutant.name,
)
"""By day one for each property, or properties, that must notice; `make mutants` judges all."""


@BY_WHAT_THEY_BREAK
def test_a_mutant_of_the_reducer_is_not_the_specification(mutant: HandMade) -> None:
    assert judges.disagrees(mutant, triples.read())
    assert not judges.disagrees(UNCHANGED, triples.read()), "the mistake outlived its block"


@BY_WHAT_THEY_BREAK
def test_a_mutant_of_the_reducer_breaks_the_properties_it_names(mutant: HandMade) -> None:
    named = set(mutant.killers(Killer.STEP))
    assert named
    assert named <= judges.broken_under(mutant, triples.read())


UNCHANGED = HandMade("Unchanged", "R2 as a table", *reducer.R2, reducer.without())


@pytest.mark.parametrize("mutant", sampled(walked.HARMLESS, 3), ids=lambda mutant: mutant.name)
def test_a_mutant_that_names_no_property_is_not_the_specification(mutant: HandMade) -> None:
    assert judges.differs(mutant, machines.read())
    assert not judges.differs(UNCHANGED, machines.read()), "the mistake outlived its block"


def test_r2_with_no_guard_left_out_is_r2() -> None:
    assert not judges.disagrees(UNCHANGED, triples.read())


def test_every_judge_has_noticed_a_mutant() -> None:
    every = {holds: False for _, holds in (*judges.JUDGES, *judges.OF_THE_ORIGINAL)}
    for mutant in reducer.MUTANTS:
        with mutant.made():
            for taken in map(judges.taken_by_python, judges.of_one_log(triples.read())):
                is_original = taken.rules.rule_set is RuleSet.ORIGINAL
                for _, holds in judges.OF_THE_ORIGINAL if is_original else judges.JUDGES:
                    every[holds] = every[holds] or not holds(taken)
    assert all(every.values())


def test_every_property_of_a_step_kills_a_mutant() -> None:
    killing = {prop for mutant in reducer.MUTANTS for prop in mutant.killers(Killer.STEP)}
    judged = {prop for prop, _ in (*judges.JUDGES, *judges.OF_THE_ORIGINAL)}
    assert killing == set(STEP_CHECKS) | judged


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutants in table.HAND_MADE.values() for mutant in mutants]
    assert len(set(names)) == len(names)


@pytest.mark.night  # By day `test_triples` asks the properties of a step about every step.
def test_no_judge_finds_fault_with_a_step_of_the_specification(
    exports: Mapping[str, Exported], share: Callable[[Sequence[Triple]], Sequence[Triple]]
) -> None:
    for exported in exports.values():
        for triple in judges.of_one_log(share(exported.triples)):
            assert judges.broken(triple) == set()


def test_a_mutant_that_nobody_notices_is_said() -> None:
    mutant = attrs.evolve(UNCHANGED, name="Blind", killed_by=step(Property.FENCED))
    [row], wrong = table.of_hand_made("reducer", [mutant])
    assert row.killed_by == "NOTHING"
    assert wrong == ["Blind: Fenced does not notice", "Blind: nothing kills it"]


def test_the_table_says_what_tells_a_mistake_that_no_property_forbids() -> None:
    rows, wrong = table.of_hand_made("machines", walked.HARMLESS)
    assert {row.killed_by for row in rows} == {"no property, Consumer (TLC's rows)"}
    assert wrong == []


CHANGE = Change("core.claims.fenced.is_stale", "a > b", "a >= b")
OTHER = Change("core.claims.fenced.is_stale", "a > b", "a < b")


def test_a_survivor_that_is_not_listed_is_said_and_so_is_one_that_is_killed() -> None:
    mutants = [Mutant(CHANGE, "survived"), Mutant(OTHER, "killed")]
    assert generated.unexplained(mutants, [Survivor(CHANGE, "same")]) == []
    [new, gone] = generated.unexplained(mutants, [Survivor(OTHER, "same")])
    assert new.endswith("is not in survivors.toml: core.claims.fenced.is_stale: a > b  ->  a >= b")
    assert gone.endswith("does not survive: core.claims.fenced.is_stale: a > b  ->  a < b")


def test_two_mutants_with_one_change_need_two_reasons() -> None:
    mutants = [Mutant(CHANGE, "survived")] * 2
    assert len(generated.unexplained(mutants, [Survivor(CHANGE, "same")])) == 1


def test_a_function_that_no_test_calls_is_said_once() -> None:
    mutants = [Mutant(CHANGE, "no tests"), Mutant(OTHER, "no tests")]
    assert generated.unexplained(mutants, []) == [
        "no test calls core.claims.fenced.is_stale: 2 mutants"
    ]


def test_a_room_whose_score_is_below_the_limit_is_said() -> None:
    mutants = [Mutant(CHANGE, "survived")] + [Mutant(OTHER, "killed")] * 9
    _, wrong = table.of_generated(mutants, [Survivor(CHANGE, "same")])
    assert wrong == ["core: 90.0% of the generated are killed, not 95%"]


def test_every_survivor_on_the_list_is_written_as_it_stands_in_the_source() -> None:
    """The part of `make mutants` that takes no time: a line that is gone has no mutant."""
    for survivor in generated.survivors():
        file = generated.PACKAGE.joinpath(*survivor.change.module.split(".")).with_suffix(".py")
        source = file.read_text(encoding="utf-8")
        for line in survivor.change.was.splitlines():
            assert line in source, generated.in_words(survivor.change)


def test_what_only_mypy_reads_is_no_mutant(tmp_path: Path) -> None:
    file = tmp_path / "sample.py"
    file.write_text('def told(body):\n    return cast("int", body["a"])\n', encoding="utf-8")
    changed = [made.texts()[1][-1].strip() for made in operators.mutants(file)]
    assert 'return cast("int", None)' in changed
    assert all('cast("int", ' in line or line == 'return cast(body["a"])' for line in changed)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("core.groups.reducer.*", ["core/groups/reducer.py"]),
        ("core.groups.reducer.step", ["core/groups/reducer.py"]),
        ("core.groups.assignment.*", ["core/groups/assignment.py"]),
        ("core.nothing.x", []),
    ],
)
def test_only_modules_that_are_asked_for_are_searched(pattern: str, found: list[str]) -> None:
    assert [file for search in SEARCHES for file in search.files([pattern])] == found


def test_every_pure_module_is_searched_once() -> None:
    found = [Path(file).with_suffix("") for search in SEARCHES for file in search.files([])]
    modules = [".".join(file.parts) for file in found]
    assert len(modules) == len(set(modules))
    rooms = ("core", "machines", "rpc", "group_codec")
    pure = {path for room in rooms for path in PACKAGE.glob(f"{room}/**/*.py")}
    named = {generated.module_of(path) for path in pure if path.name != "__init__.py"}
    assert named <= {*modules}


def killed_by(test: str, work: Path) -> dict[str, set[bool]]:
    """Whether one test file kills what is generated of `core.state`, function by function."""
    search = Search(["core/state.py"], [test])
    made = generated.run(children=1, work=work, searches=[search])
    functions = {mutant.change.function for mutant in made}
    return {
        function: {mutant.killed for mutant in made if mutant.change.function == function}
        for function in functions
    }


def test_the_tests_kill_what_is_generated(tmp_path: Path) -> None:
    """Of a property and of a default of attrs, too, which mutmut alone would leave out."""
    killed = killed_by("tests/core/test_state.py", tmp_path / "mutants")
    assert killed["core.state.Claim.paused"] == {True}
    assert killed["core.state.milliseconds"] == {True}
    assert killed["core.state.Rules._twice_the_interval"] == {True}


@pytest.mark.night  # As `make mutants` is, which would list it.
def test_what_no_test_notices_survives(tmp_path: Path) -> None:
    killed = killed_by("tests/test_golden.py", tmp_path / "mutants")
    assert killed["core.state.milliseconds"] == {False}
