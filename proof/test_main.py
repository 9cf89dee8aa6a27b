"""Marshal promises that `make prove` never finds that all holds of nothing."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from kafka_marshal import Heartbeat
from proof import __main__ as command
from proof import jobs, mutants, reducer
from proof.jobs import Job
from proof.late import table as late_readers
from proof.late.inputs import Knows, LateCase
from proof.late.lemmas import LemmaResult
from proof.late.prove import LateResult
from proof.machine import table as machine
from proof.symbols import Escaped, NotDecided


def ended(arguments: str, capfd: Any) -> tuple[int, str, str]:
    """The exit code and the output."""
    try:
        code = command.main(arguments.split())
    except SystemExit as error:
        assert isinstance(error.code, int)
        code = error.code
    return code, *capfd.readouterr()


@pytest.mark.parametrize(
    ("arguments", "exists"),
    [
        ("--only Nonsense", "NoneSkipped"),
        ("--only Nonsense --cases 1", "SuffixExact"),
        ("--mutants --only Mutex", "NoSuperseded BelievesByClient"),
        ("--needed --only Mutex", "KeepsItsPromise"),
    ],
)
def test_a_name_of_nothing_is_an_error_that_lists_what_there_is(
    arguments: str, exists: str, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To name all that are generated takes seconds, and none of them is listed.
    monkeypatch.setattr(mutants, "_name", lambda each: each.function)
    code, _, said = ended(arguments, capfd)
    assert code == 2
    assert all(name in said for name in exists.split())


@pytest.mark.parametrize("number", ["0", "-1", "some"])
@pytest.mark.parametrize("of", ["cases", "jobs"])
def test_no_cases_or_processes_are_an_error(of: str, number: str, capfd: Any) -> None:
    code, _, said = ended(f"--{of} {number}", capfd)
    assert code == 2
    assert "give 1 or more" in said


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Mutex", "any number of clients"),
        ("SuffixExact", "SuffixExact of a reader of"),
        ("KernelIsReducer", "a step of the reducer"),
        ("RefinesLeases", "ranges, any number of them"),
        ("NoReleaseTime", "a step of the reducer"),
    ],
)
def test_one_case_of_any_part_is_proved(name: str, title: str, capfd: Any) -> None:
    code, said, _ = ended(f"--only {name} --cases 1 --jobs 1", capfd)
    assert code == 0
    assert title in said
    assert "all of what was asked holds" in said
    assert "0 jobs escaped, 0 jobs not decided" in said


@pytest.mark.parametrize("part", command.PARTS, ids=lambda part: part.__name__)
def test_so_many_of_each_kind_are_taken(part: Any) -> None:
    every = part.jobs(part.names())
    kinds = {each.kind for each in every}
    assert [each.kind for each in jobs.smallest(every, None)] == [each.kind for each in every]
    assert len(jobs.smallest(every, 1)) == len(kinds)
    assert {each.kind for each in jobs.smallest(every, 1)} == kinds


def escapes(solver: str) -> None:
    raise Escaped(solver)


def is_not_decided(solver: str) -> None:
    raise NotDecided(solver)


@pytest.mark.parametrize(
    ("run", "why"), [(escapes, "1 jobs escaped"), (is_not_decided, "1 jobs not decided")]
)
def test_a_job_that_proves_nothing_is_counted_apart(
    run: Any, why: str, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reducer, "jobs", lambda names: [Job("reducer", run)])
    code, said, _ = ended("--only NoReleaseTime --jobs 1", capfd)
    assert code == 1
    assert why in said


def test_a_property_that_nothing_asks_of_is_not_proved(capfd: Any) -> None:
    assert machine.show([], ["Mutex"], "z3", whole=False) == 1
    assert "never reached: Mutex" in capfd.readouterr().out
    assert reducer.show([], ["Fenced"], "z3", whole=False) == 1
    assert late_readers.show([], ["OwnerExact"], "z3", whole=False) == 1
    assert "never reached: OwnerExact" in capfd.readouterr().out


def test_a_lemma_with_nothing_to_show_is_not_proved(capfd: Any) -> None:
    nobody_sends = LemmaResult("SendersAreHonest", paths=9)
    someone_does = evolve(nobody_sends, reached=1)
    whole = LateResult(LateCase(Heartbeat, Knows.EVERYTHING), paths=1)
    both: list[Any] = [nobody_sends, whole]
    less = late_readers.show(both, ["OwnerExact"], "z3", whole=True)
    assert "never reached: SendersAreHonest" in capfd.readouterr().out
    assert late_readers.show([*both, someone_does], ["OwnerExact"], "z3", whole=True) == less - 1


def test_a_chosen_part_has_cases_and_names() -> None:
    assert late_readers.chosen(["SuffixExact"])
    assert not late_readers.chosen(["Mutex"])
