"""Marshal promises that the proof is of the shipped machine, and of nothing that cannot fail."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from model_tests.mutants import walked
from model_tests.mutants.hand_made import HandMade
from tools.runs.by_day import sampled

from kafka_marshal import ClaimingMessages, Heartbeat
from kafka_marshal.core.claims import fenced, suffix_reader
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.verdicts import RELEASES
from kafka_marshal.machines.consumer import consumer as machine
from proof.inputs import Case, cases
from proof.machine import mutants
from proof.machine.inputs import OWNERS, MachineCase, doings, readings
from proof.machine.instance import does, follows, reads, starts, two_act, unites
from proof.machine.invariant import LOG, OWNER, PROMISE, TENURE
from proof.machine.prove import HYPOTHESES, append
from proof.machine.table import Task, run, tasks
from proof.properties import INVARIANT
from proof.symbols import Escaped
from proof.test_proof import beyond_symbols

SPEC = Path(__file__).parents[2] / "spec"
READS_ON = next(
    each
    for each in readings()
    if each.claim.known == each.becomes == OWNERS[2] and each.granted and not each.resigned
    if each.mode is machine.Mode.AT_LEAST_ONCE
)
AT_MOST_ONCE = next(
    each
    for each in doings()
    if each.mode is machine.Mode.AT_MOST_ONCE and each.claim.known == OWNERS[2]
)
APPENDED: list[Task] = [job for job in tasks() if job[0] is append]


def appended(message: str, *known: str) -> Task:
    """The case of this message and these fields of the claim."""
    return next(
        job
        for job in APPENDED
        if job[1][0].message.__name__ == message and job[1][0].known == OWNERS[2].union(known)
    )


@pytest.mark.parametrize("solver", sampled(["z3", "cvc5"], 2))
@pytest.mark.parametrize(
    "job",
    [(two_act, ()), (follows, ()), (starts, ()), (unites, ()), (reads, (READS_ON,))],
    ids=["Mutex", "bounds", "start", "union", "read"],
)
def test_it_holds_by_either_solver(job: Task, solver: str) -> None:
    outcome = run(job, solver)
    assert sum(outcome.paths.values()) > 0
    assert not outcome.broken


def at_the_start(taken: Any, claim: Any, record: Any, message: Any, *_: Any) -> Any:
    after, verdict = taken
    return attrs.evolve(after, position=0), verdict


def where_it_says(taken: Any, claim: Any, record: Any, message: Any, *_: Any) -> Any:
    after, verdict = taken
    return attrs.evolve(after, position=message.offset), verdict


@pytest.mark.parametrize(
    ("attribute", "instead", "message", "breaks"),
    [
        ("claiming_messages", at_the_start, "ClaimingMessages", "GrantsAreApart"),
        ("claiming_partition", at_the_start, "ClaimingPartition", "GrantsAreApart"),
        ("heartbeat", where_it_says, "Heartbeat", "EachPrefixStaysOne"),
    ],
)
def test_a_position_that_goes_back_is_refuted(
    attribute: str, instead: Any, message: str, breaks: str
) -> None:
    with planted(attribute, instead, of=fenced).made():
        broken = run(appended(message), until=frozenset({breaks})).broken
    assert breaks in {each.property for each in broken}


def planted(attribute: str, instead: Any, of: Any = machine) -> HandMade:
    """A mistake in the machine, or in the reducer."""
    right = getattr(of, attribute)
    return HandMade("Planted", "", of, attribute, lambda *args: instead(right(*args), *args))


def skips_one(after: Any, me: Any, consumer: Any, record: Any) -> Any:
    return attrs.evolve(after, next=after.next + 1)


def test_reading_is_by_the_shipped_after_read() -> None:
    with planted("after_read", skips_one).made():
        broken = {each.property for each in run((reads, (READS_ON,))).broken}
    assert "ProcessedIsPrefix" in broken


def folds_twice(after: Any, me: Any, consumer: Any, record: Any, *_: Any) -> Any:
    suffix_reader.read_record(after.reader, record, me.rules)
    return after


def test_a_reader_that_folds_anything_else_escapes() -> None:
    with planted("after_fold", folds_twice).made(), pytest.raises(Escaped, match="another record"):
        run((reads, (READS_ON,)))


def by_what_a_record_says(after: Any, me: Any, consumer: Any, record: Any, *_: Any) -> Any:
    return after if record.headers.interval_ms is None else consumer


def by_what_it_says(sent: Any, me: Any, *_: Any) -> Any:
    return sent if sent.headers.interval_ms == 5 else attrs.evolve(sent, headers=sent.headers)


@pytest.mark.parametrize(
    ("attribute", "instead", "task"),
    [
        ("after_fold", by_what_a_record_says, (reads, (READS_ON,))),
        ("heartbeat_sent", by_what_it_says, (does, (AT_MOST_ONCE,))),
    ],
)
def test_the_machine_decides_nothing_by_an_interval(
    attribute: str, instead: Any, task: Task
) -> None:
    with planted(attribute, instead).made(), pytest.raises(Escaped, match=r"depends on .*interval"):
        run(task)


def by_its_pause(after: Any, me: Any, consumer: Any, *_: Any) -> Any:
    return attrs.evolve(after, next=0) if consumer.known.pauser == me.instance_id else after


def by_the_pause_that_it_reads(after: Any, me: Any, *_: Any) -> Any:
    return attrs.evolve(after, next=0) if after.known.paused else after


def by_a_verdict(after: Any, me: Any, consumer: Any, record: Any, reader: Any, verdict: Any) -> Any:
    return attrs.evolve(after, next=0) if verdict in RELEASES else after


@pytest.mark.parametrize("mistake", [by_its_pause, by_the_pause_that_it_reads, by_a_verdict])
def test_who_reads_decides_by_no_pause_and_by_no_verdict_but_a_grant(mistake: Any) -> None:
    case = attrs.evolve(READS_ON, granted=False)
    assert not run((reads, (case,))).broken
    with planted("after_fold", mistake).made(), pytest.raises(Escaped):
        run((reads, (case,)))


def test_the_machine_has_nothing_that_no_proxy_notices() -> None:
    text = Path(str(machine.__file__)).read_text(encoding="utf-8")
    found = beyond_symbols(text)
    assert all(
        each.startswith(("isinstance(message", "isinstance(record.message"))
        for each in found
        if not each.startswith("me.mode is ")
    )
    assert set(re.findall(r"verdict is (\S+)", text)) == {"Accepted.GRANTED"}


def test_cases_that_are_left_out_are_none() -> None:
    def key(case: MachineCase) -> tuple[object, ...]:
        return case.claim, case.resigned, case.granted, case.becomes

    here = {key(each) for each in readings()}
    messages = Heartbeat, ClaimingMessages
    some = itertools.product(messages, OWNERS, OWNERS, (False, True), (False, True))
    for message, before, after, resigned, granted in some:
        case = MachineCase(Case(message, before), resigned, becomes=after, granted=granted)
        if key(case) not in here:
            with pytest.raises(Escaped, match="nothing is left of it"):
                run((reads, (case,)))
    for claim in cases():
        case = MachineCase(claim, resigned=True)
        if claim.message is Heartbeat and case not in doings():
            with pytest.raises(Escaped, match="nothing is left of it"):
                run((does, (case,)))


COUNTERMODELS: list[tuple[str, Task, str]] = [
    ("OwnIdentity", appended("Heartbeat"), "NoneSkipped"),
    ("OneRunPerIdentity", (starts, ()), "ProcessesWhatItWasGranted"),
    ("LogIsKept", (two_act, ()), "Mutex"),
    ("KnowsThePosition", (reads, (READS_ON,)), "NextInWindow"),
    ("AdministratorsStartAtZero", appended("Heartbeat"), "NoneSkipped"),
    ("AtLeastOnce", (does, (AT_MOST_ONCE,)), "AsksNoGrants"),
]


# By night `make prove-full` leaves each one out, too.
@pytest.mark.parametrize(("left_out", "job", "breaks"), sampled(COUNTERMODELS, 2))
def test_each_hypothesis_is_needed(left_out: str, job: Task, breaks: str) -> None:
    without, until = frozenset({left_out}), frozenset({breaks})
    broken = run(job, without=without, until=until).broken
    assert breaks in {each.property for each in broken}
    assert not run(job, until=until).broken


def test_every_hypothesis_has_its_countermodel() -> None:
    assert {name for name, _, _ in COUNTERMODELS} == set(HYPOTHESES)


@pytest.mark.parametrize("name", ["BelievesByClient", "CommitsOneAhead"])
def test_a_mistake_of_the_machine_is_refuted_with_a_story(name: str) -> None:
    broken = mutants.refute(next(each for each in mutants.concerned() if each.name == name))
    assert broken is not None
    assert broken.story().startswith(f"{broken.property} is broken by ")


def test_every_mistake_that_concerns_the_proof_is_listed() -> None:
    late_or_harmless = {
        *("OwnClocks", "CertifiesWithoutPosition", "SeenOffByOne", "AnotherClock"),
        *("AskedIgnored", "SupersedesNothing", "NeverLost", "DoubtfulGrants"),
    }
    names = {each.name for each in (*walked.MACHINE, *walked.HARMLESS)}
    assert names - late_or_harmless == {each.name for each in mutants.concerned()}


def operators(module: str) -> set[str]:
    text = (SPEC / "lemmas" / f"{module}.tla").read_text(encoding="utf-8")
    return set(re.findall(r"^(\w+)(?:\([^)]*\))?\s*==", text, re.MULTILINE))


def conjuncts(module: str, of: str) -> list[str]:
    text = (SPEC / "lemmas" / f"{module}.tla").read_text(encoding="utf-8")
    [body] = re.findall(rf"^{of}(?:\([^)]*\))? ==\n((?: +/\\ .*\n)+)", text, re.MULTILINE)
    return re.findall(r"/\\ (\w+)", body)


def test_the_specification_has_the_same_invariant_under_the_same_names() -> None:
    assert conjuncts("Invariant", "MachineInvariant") == [*LOG, *TENURE, *OWNER, *PROMISE]
    apart = {"InAPauseNobodyOwns"}  # where time is measured
    assert set(conjuncts("ClaimInvariant", "IsSound")) == set(INVARIANT) - apart
    assert operators("ClaimInvariant") == {*INVARIANT, "IsSound"}


def test_each_conjunct_is_broken_on_purpose() -> None:
    broken = {path.stem.split("_")[2] for path in SPEC.glob("models/MCInvariant/*Broken*.cfg")}
    assert broken == {*LOG, *TENURE, *OWNER, *PROMISE}
    of_claims = SPEC.glob("models/MCRecords/MCRecords_Broken_ReducerInvariant_*.cfg")
    assert {path.stem.split("_")[3] for path in of_claims} == set(INVARIANT)


def test_the_machine_is_as_it_ships_afterwards() -> None:
    shipped: Any = vars(machine)
    assert not {"range", "int"} & shipped.keys()
    assert vars(suffix_reader)["step"] is step
    assert Path(shipped["acts"].__code__.co_filename) == Path(str(machine.__file__))
