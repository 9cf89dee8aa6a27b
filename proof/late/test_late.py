"""Marshal promises that whatever a late reader calls certain is so, and that the proof can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from tools.runs.by_day import sampled

from kafka_marshal import (
    FENCED,
    Claim,
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    Record,
    ReleasingPartition,
)
from kafka_marshal.core.claims import suffix_reader
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.suffix_reader import Field, Knowledge, Reader, read_record
from kafka_marshal.core.messages import Headers, Offset, Partition, ReleaseGroup
from proof.late import mutants
from proof.late.consequences import PROVED
from proof.late.inputs import Knows, LateCase
from proof.late.lemmas import prove_lemma
from proof.late.prove import OF_THE_LOG, late_beginning, prove_late
from proof.late.symbols import Flags
from proof.smt.solver import smt
from proof.symbols import Escaped
from proof.test_proof import beyond_symbols

Z3 = smt("z3")
NOT_OWNER = Knows.NOT_THE_OWNER


@pytest.mark.parametrize("solver", sampled(["cvc5", "z3"], 2))
def test_what_a_reader_knows_of_a_release_of_the_group_is_exact_by_either_solver(
    solver: str,
) -> None:
    result = prove_late(LateCase(ReleaseGroup, NOT_OWNER), smt(solver))
    assert not result.refuted
    assert result.repeated == result.paths > 5


def test_a_reader_may_begin_anywhere_and_a_promise_is_kept_from_seen_on() -> None:
    for name in ("BeginsAnywhere", "IsPromisedAtSeen"):
        result = prove_lemma(name, NOT_OWNER, Z3)
        assert not result.refuted
        assert result.reached


def test_what_the_consumer_writes_is_true() -> None:
    result = prove_lemma("SendersAreHonest", Knows.EVERYTHING, Z3)
    assert not result.refuted
    assert result.reached > 50


@pytest.mark.parametrize(
    "name", ["ClockIgnoredByTheKnowing", "PassedHead", "RequestDisplacesNobody", "SeenAnything"]
)
def test_a_mistake_of_a_late_reader_is_refuted_with_a_story(name: str) -> None:
    _, breaks, story = mutants.judge(name)
    assert breaks in PROVED
    assert story.startswith(f"{breaks} is broken\n  rules ")


@pytest.mark.parametrize(
    ("was", "becomes", "message", "breaks"),
    [
        ("undecided=None,", "undecided=reader.undecided,", ReleaseGroup, "OnlyDoubtRemembers"),
        ("reached=None,", "reached=reader.reached,", ReleaseGroup, "OnlyDoubtRemembers"),
        ("alive_ms=None,", "alive_ms=reader.alive_ms,", ReleaseGroup, "OnlyDoubtRemembers"),
        (
            "undecided=record.offset, alive_ms=claim.clock_ms",
            "undecided=record.offset + 1, alive_ms=claim.clock_ms",
            *(ClaimingPartition, "DoubtIsOfTheLog"),
        ),
        (
            "claim=guess, alive_ms=claim.clock_ms",
            "claim=guess, alive_ms=claim.clock_ms + 1",
            *(Heartbeat, "DoubtIsOfTheLog"),
        ),
    ],
)
def test_what_a_reader_remembers_of_its_doubt_is_of_the_log(
    was: str, becomes: str, message: type, breaks: str
) -> None:
    mistake = mutants.Mistake(breaks, message, NOT_OWNER, ((was, becomes),))
    with mistake.made():
        result = prove_late(LateCase(message, NOT_OWNER), Z3, names=[breaks], until_refuted=True)
    assert [each.property for each in result.refuted] == [breaks]


def test_every_mistake_is_an_edit_of_what_ships() -> None:
    for each in mutants.MISTAKES:
        assert each.text() != Path(str(each.module.__file__)).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("left_out", "message", "fails"),
    [
        ("ClockIsBelow", ReleaseGroup, "UnpausedIsRight"),
        ("PauseIsCut", ReleaseGroup, "PausesEnd"),
    ],
)
def test_a_part_of_the_relation_is_needed(left_out: str, message: type, fails: str) -> None:
    case = LateCase(message, NOT_OWNER)
    assert prove_late(case, Z3, names=[fails], without=[left_out], until_refuted=True).refuted
    assert not prove_late(case, Z3, names=[fails]).refuted


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("NamesItsWin", Heartbeat),
        ("KeepsItsPromise", Heartbeat),
        ("ReleaseSawNoLess", ReleasingPartition),
        (OF_THE_LOG, ReleaseGroup),
    ],
)
def test_only_honest_headers_are_promised_to_be_exact(without: str, message: type) -> None:
    case = LateCase(message, NOT_OWNER)
    assert prove_late(case, Z3, without=[without], until_refuted=True).refuted


def sent(offset: int, kind: Any, **headers: int) -> Record:
    """A record of i1 under epoch 1, one second after the one before it."""
    about = 1, 0, "i1", "c1", "g", "t", Partition(0)
    message = kind(*about) if kind is ClaimingPartition else kind(*about, Offset(5))
    return Record(0, offset, offset * 1000, message, Headers(True, **headers))


def folded(log: list[Record], first: int) -> tuple[Claim, Reader]:
    """By who reads all of it, and by who begins at an offset."""
    claim, reader = Claim(), Reader.beginning_at(first)
    for record in log:
        claim, _ = step(claim, record, FENCED)
        if record.offset >= first:
            reader, _ = read_record(reader, record, FENCED)
    return claim, reader


@pytest.mark.parametrize("says", [False, True])
def test_a_release_must_say_no_less_than_the_heartbeat_that_lands_after_it(says: bool) -> None:
    saw = {"seen": 1, "clock": 1000}
    log = [
        sent(1, ClaimingPartition),
        sent(2, ReleasingPartition, epoch=1, **(saw if says else {})),
        sent(3, Heartbeat, epoch=1, **saw),  # sent before the release
    ]
    claim, reader = folded(log, 2)
    assert not claim.owned
    assert reader.knowledge is Knowledge.KNOWN
    assert reader.claim.owned is not says


def test_after_a_release_that_may_have_set_the_position_back_a_reader_has_a_lower_bound() -> None:
    about = 1, 0, "admin", "admin", "g", "t", Partition(0)

    def by_admin(offset: int, message: Any, **headers: int) -> Record:
        return Record(0, offset, offset * 1000, message, Headers(True, **headers))

    saw = {"epoch": 1, "seen": 1, "clock": 1000}
    log = [
        Record(0, 0, 0, ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), 100)),
        by_admin(1, ClaimingPartition(*about)),
        by_admin(2, Heartbeat(*about, Offset(7)), epoch=1),
        by_admin(3, ReleasingPartition(*about, Offset(3)), **saw),
    ]
    claim, reader = folded(log, 2)
    assert claim.position == 3
    assert Field.POSITION not in reader.certain
    assert reader.claim.position <= claim.position
    log += [
        by_admin(4, ClaimingPartition(*about)),
        by_admin(5, Heartbeat(*about, Offset(3)), epoch=4, seen=4, clock=4000),
    ]
    claim, reader = folded(log, 2)
    assert Field.POSITION in reader.certain
    assert reader.claim.position == claim.position == 3
    kept = next(each for each in mutants.MISTAKES if each.name == "HigherPositionKept")
    with kept.made():
        _, reader = folded(log, 2)
    assert Field.POSITION in reader.certain
    assert reader.claim.position == 7


def test_the_late_reader_has_nothing_that_no_proxy_notices() -> None:
    text = Path(str(suffix_reader.__file__)).read_text(encoding="utf-8")
    found = beyond_symbols(text)
    assert {each for each in found if not each.startswith("isinstance(")} == {
        "reader.certain is EVERYTHING",  # one case of three
        "str(field.name)",  # a name of a constant
    }
    assert all("message, " in each for each in found if each.startswith("isinstance("))


def test_what_is_certain_is_never_looked_at_as_a_whole() -> None:
    flags = Flags(Z3, {each: Z3.api.BoolVal(True) for each in Field})
    for of in (hash, bool, lambda one: one == Field.OWNER):
        with pytest.raises(Escaped):
            of(flags)


def test_a_case_of_which_nothing_is_left_proves_nothing() -> None:
    case = LateCase(ClaimingMessages, NOT_OWNER)
    with late_beginning(case, Z3) as (inputs, explorer):
        assert explorer.feasible
        explorer.assume(attrs.evolve(inputs.sent).is_request.formula)
        assert explorer.feasible
