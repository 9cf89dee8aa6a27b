"""Marshal promises that the proof is of the shipped reducer, and that it can fail."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from model_tests.mutants.generated import survivors
from model_tests.mutants.hand_made import HandMade
from tests import triples
from tests.triples import Triple

from kafka_marshal import (
    Claim,
    ClaimingPartition,
    Heartbeat,
    Refused,
    ReleaseGroup,
    ReleasingPartition,
    RuleSet,
)
from kafka_marshal.core.claims import fenced
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.messages import NO_HEADERS
from proof import mutants
from proof.inputs import HEADERS, MESSAGES, OPTIONAL, Case, Inputs, cases
from proof.properties import INVARIANT, PROVED
from proof.prove import differs, prove, reducer_now
from proof.smt.solver import Smt, smt
from proof.smt.terms import Valuation
from proof.symbols import Diverged, Escaped, Explorer, formula_of

OWNED = frozenset({"owner_instance", "owner_client", "epoch", "last_heartbeat_ms"})
PAUSED = frozenset({"pauser", "paused_until_ms"})
Z3 = smt("z3")


def of(*names: str) -> list[Any]:
    return [each for each in PROVED if each.name in names]


@pytest.mark.parametrize("solver", ["z3", "cvc5"])
def test_grants_and_the_lease_hold_of_a_release_by_either_solver(solver: str) -> None:
    result = prove(Case(ReleasingPartition, OWNED), smt(solver), of("AtMostOnce", "RefinesLease"))
    assert not result.refuted
    assert result.repeated == result.paths > 50
    assert set(result.reached) >= {"released", "position_set", "superseded", "forged"}


def test_every_path_is_taken_again_and_reaches_all_that_tlc_reaches() -> None:
    results = [prove(case, Z3, ()) for case in cases()]
    assert all(each.repeated == each.paths for each in results)
    reached = {(each.case.message, name) for each in results for name in each.reached}
    by_tlc = {
        (type(each.record.message), each.verdict.value)
        for each in triples.read()
        if each.rules.rule_set is RuleSet.FENCED
    }
    assert reached >= by_tlc


@pytest.mark.parametrize(
    ("left_out", "message", "known", "fails"),
    [
        ("EpochIsInLog", ClaimingPartition, OWNED, "MonotoneEpoch"),
        ("InAPauseNobodyOwns", Heartbeat, OWNED | PAUSED, "PauseHolds"),
        ("PositionAbove0WasSet", Heartbeat, frozenset[str](), "SetStaysSet"),
    ],
)
def test_each_part_of_the_invariant_is_needed(
    left_out: str, message: type, known: frozenset[str], fails: str
) -> None:
    less = {name: each for name, each in INVARIANT.items() if name != left_out}
    case = Case(message, known)
    assert prove(case, Z3, of(fails), less, until_refuted=True).refuted
    assert not prove(case, Z3, of(fails)).refuted


@pytest.mark.parametrize("name", ["NoSuperseded", "NoNotAhead", "StaleAtTwiceTheInterval"])
def test_a_mistake_is_refuted_with_a_story(name: str) -> None:
    mutant = next(each for each in mutants.by_hand() if each.name == name)
    judged = mutants.judge_by_hand(mutant)
    assert judged.verdict in {str(each.breaks) for each in mutant.killed_by}
    assert judged.story.startswith(f"{judged.verdict} is broken\n  rules ")


@pytest.mark.parametrize(("instead", "changes"), [(">=", False), ("<", True)])
def test_a_mutant_is_proved_equivalent_or_not(instead: str, changes: bool) -> None:
    text = Path(fenced.__file__).read_text(encoding="utf-8")
    mutated = text.replace(
        "timestamp_ms > claim.clock_ms", f"timestamp_ms {instead} claim.clock_ms"
    )
    assert mutated != text
    with mutants.made(mutated):
        assert differs(Case(Heartbeat, OWNED), Z3) is changes


@pytest.mark.parametrize("function", ["has_bad_headers", "header_guard"])
def test_a_mistake_in_what_no_step_asks_is_refuted_too(function: str) -> None:
    numbers = [
        number for number, each in enumerate(mutants.generated()) if each.function == function
    ]
    assert len(numbers) > 3
    judged = [mutants.judge_generated(number) for number in numbers[:2]]
    assert {each.verdict.partition(":")[0] for each in judged} <= {"HasBadHeaders", "NeverRaises"}


def test_no_prose_says_that_a_mutant_of_the_reducer_is_the_same() -> None:
    listed = [each for each in survivors() if each.change.module == "core.claims.fenced"]
    assert listed
    assert all(each.proved for each in listed)
    assert set(mutants.proved_survivors()) <= set(map(mutants._name, mutants.generated()))


def when_stale(claim: Claim, record: Any, message: Any, rules: Any) -> bool:
    return fenced.is_stale(claim, fenced.clock_advanced(claim, record), rules)


def below_the_position(claim: Claim, record: Any, message: Any, rules: Any) -> Any:
    return message.offset < claim.position


def when_expired(claim: Claim, record: Any, message: Any, rules: Any) -> Any:
    return message.expires_unix_s * 1000 <= fenced.clock_advanced(claim, record)


def when_shorter(claim: Claim, record: Any, message: Any, rules: Any) -> Any:
    until_ms = claim.paused_until_ms
    return until_ms is not None and message.expires_unix_s * 1000 < until_ms


@pytest.mark.parametrize(
    ("message", "attribute", "refuses", "breaks"),
    [
        (Heartbeat, "heartbeat", when_stale, "OwnerIsObeyed"),
        (Heartbeat, "heartbeat", below_the_position, "OwnerIsObeyed"),
        (ReleaseGroup, "release_group", when_expired, "PauseIsReplaced"),
        (ReleaseGroup, "release_group", when_shorter, "PauseIsReplaced"),
    ],
)
def test_what_must_be_accepted_may_not_be_refused(
    message: type, attribute: str, refuses: Any, breaks: str
) -> None:
    right = getattr(fenced, attribute)

    def strict(claim: Claim, record: Any, *of: Any) -> Any:
        if refuses(claim, record, *of):
            return fenced._refuse(claim, fenced.clock_advanced(claim, record), Refused.NOT_OWNER)
        return right(claim, record, *of)

    mistake = HandMade("TooStrict", "it refuses what it must accept", fenced, attribute, strict)
    known = OWNED | PAUSED if message is ReleaseGroup else OWNED
    with mistake.made():
        refuted = prove(Case(message, known), Z3, of(breaks), until_refuted=True).refuted
    assert [each.property for each in refuted] == [breaks]


def hashed(claim: Claim, *_: object) -> object:
    return {claim.owner_instance}


def as_an_int(claim: Claim, *_: object) -> object:
    return int(claim.position)


def by_topic(claim: Claim, record: Any, *_: object) -> object:
    return record.message.topic == "t"


def by_interval_header(claim: Claim, record: Any, *_: object) -> object:
    return record.headers.interval_ms


def by_coordinating_partition(claim: Claim, record: Any, *_: object) -> object:
    return record.partition == 1


def by_rewind(claim: Claim, record: Any, message: Any, rules: Any) -> object:
    return rules.clock_rewind_max_ms == 1


def whole_headers(claim: Claim, record: Any, *_: object) -> object:
    return record.headers == NO_HEADERS


def in_text(claim: Claim, *_: object) -> object:
    return f"{claim.position}"


ESCAPES = [
    *(hashed, as_an_int, by_topic, by_interval_header, in_text),
    *(by_coordinating_partition, by_rewind, whole_headers),
]


@pytest.mark.parametrize("escape", ESCAPES)
def test_nothing_escapes_from_the_symbols(escape: Any) -> None:
    right = fenced.heartbeat
    planted = HandMade(
        *("Escape", "it looks where a proxy cannot follow", fenced, "heartbeat"),
        instead=lambda *of: (escape(*of), right(*of))[1],
    )
    with planted.made(), pytest.raises(Escaped):
        prove(Case(Heartbeat, OWNED), Z3, ())


ENUMS = {"Accepted", "Refused", "RuleSet"}
NOT_FOLLOWED = {"isinstance", "type", "repr", "str", "id", "hash", "getattr", "hasattr", "vars"}


def beyond_symbols(text: str) -> list[str]:
    """What no proxy notices: a look at identity, at a class or at text, and errors that are met."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(ops=ops, comparators=others):
                found += [
                    ast.unparse(node)
                    for op, other in zip(ops, others, strict=True)
                    if isinstance(op, ast.Is | ast.IsNot)
                    and ast.unparse(other).partition(".")[0] not in {"None", *ENUMS}
                ]
            case ast.Try() | ast.JoinedStr():
                found.append(ast.unparse(node))
            case ast.Call(func=ast.Name(id=name)) if name in NOT_FOLLOWED:
                found.append(ast.unparse(node))
    return found


def test_the_reducer_has_nothing_that_no_proxy_notices() -> None:
    for module in (fenced, sys.modules[step.__module__]):
        assert beyond_symbols(Path(str(module.__file__)).read_text(encoding="utf-8")) == []
    planted = "a is b; isinstance(a, int); repr(a); f'{a}'\ntry: pass\nfinally: pass\na is None"
    assert len(beyond_symbols(planted)) == 5


def test_a_new_claim_has_the_invariant() -> None:
    assert [name for name, holds in INVARIANT.items() if not holds(Claim(), -1)] == []


def presences() -> Iterator[tuple[frozenset[str], Claim]]:
    """Each choice of the fields of a claim that are None, with a claim."""
    for chosen in itertools.product((False, True), repeat=len(OPTIONAL)):
        known = frozenset(itertools.compress(OPTIONAL, chosen))
        yield known, Claim(**dict.fromkeys(known, 0), clock_ms=0)  # type: ignore[arg-type]


def test_no_choice_of_fields_that_a_claim_may_have_is_left_out() -> None:
    possible = {
        (message, known)
        for message in MESSAGES
        for known, claim in presences()
        if all(holds(claim, 0) for holds in INVARIANT.values())
    }
    assert {(each.message, each.known) for each in cases()} == possible
    assert len(cases()) == len(possible)


def test_every_step_that_tlc_takes_is_one_of_those_that_are_proved() -> None:
    assumed = {}
    for case in cases():
        inputs = Inputs(Z3, case)
        of = [partial(each, inputs.claim, inputs.last) for each in INVARIANT.values()]
        assumed[case] = [*inputs.assumed, *(formula_of(Z3, each) for each in of)]
    taken = [each for each in triples.read() if each.rules.rule_set is RuleSet.FENCED]
    assert len(taken) > 1000
    # And the first record of a log, without a timestamp, under the shortest of rules.
    first = attrs.evolve(taken[0].record, offset=0, timestamp_ms=-1)
    rules = attrs.evolve(taken[0].rules, heartbeat_interval_ms=5e-324, pause_max_ms=1)
    least = attrs.evolve(taken[0], before=Claim(), record=first, rules=rules)
    for each in (*taken, least):
        values = values_of(each)
        known = frozenset(each for each in OPTIONAL if each in values)
        valuation = Valuation(lambda symbol: values[symbol.args[0]])  # noqa: B023
        for formula in assumed[Case(type(each.record.message), known)]:
            assert valuation.value(formula), (each, formula)


def values_of(taken: Triple) -> dict[str, Any]:
    """Of the symbols, by name. What is absent has none, or any."""
    record, rules = taken.record, taken.rules
    message, headers = attrs.asdict(record.message), attrs.asdict(record.headers)
    found = {**attrs.asdict(taken.before), **attrs.asdict(rules)}
    found |= {"offset": record.offset, "timestamp_ms": record.timestamp_ms}
    found |= {"last": record.offset - 1, "present": record.headers.present}
    for name in HEADERS:
        value = headers[name]
        found |= {f"has {name}": value is not None, f"header {name}": value or 0}
    if "offset" in message:
        found["message offset"] = message.pop("offset")
    found |= message
    return {name: value for name, value in found.items() if value is not None}


def test_a_case_of_which_nothing_is_left_proves_nothing() -> None:
    with pytest.raises(Escaped, match="nothing is left of it"):
        prove(Case(Heartbeat, OWNED), Z3, (), {"Never": lambda *_: False})


def test_code_that_depends_on_more_than_its_input_is_noticed() -> None:
    right, turn = fenced.heartbeat, itertools.count()
    planted = HandMade(
        *("Chance", "it asks another question each time", fenced, "heartbeat"),
        instead=lambda claim, *of: (bool(claim.position > next(turn)), right(claim, *of))[1],
    )
    with planted.made(), pytest.raises(Diverged):
        prove(Case(Heartbeat, OWNED), Z3, ())


def test_a_step_that_raises_is_refuted() -> None:
    mistake = HandMade(*("Raises", "it raises", fenced, "heartbeat"), instead=lambda *_: 1 / 0)
    with mistake.made():
        refuted = prove(Case(Heartbeat, OWNED), Z3).refuted
    assert [each.property for each in refuted] == [
        "NeverRaises: ZeroDivisionError('division by zero')"
    ]


def answers(solver: Smt, of: Any) -> list[Any]:
    inputs = Inputs(solver, Case(Heartbeat, OWNED))
    return list(Explorer(solver).explore(lambda: of(inputs)))


def test_an_explorer_takes_each_path_once() -> None:
    def sign(inputs: Inputs) -> int:
        position: Any = inputs.claim.position
        return 1 if position > 0 else 0 if position == 0 else -1

    assert sorted(answers(Z3, sign)) == [-1, 0, 1]


def test_the_reducer_is_as_it_ships_afterwards() -> None:
    assert reducer_now.fenced is fenced
    assert not hasattr(fenced._not_decimal, "__wrapped__")
    assert fenced._not_decimal.__module__ == fenced.__name__


def test_a_mistake_that_returns_no_claim_has_a_story_too() -> None:
    text = Path(fenced.__file__).read_text(encoding="utf-8")
    refusal = "return _refuse(claim, clock_ms, Refused.NEGATIVE_POSITION)"
    mutated = text.replace(refusal, "return None, Refused.NEGATIVE_POSITION")
    assert mutated != text
    with mutants.made(mutated):
        judged = mutants._refuted("x", "z3")
    assert judged is not None
    assert "claim -> None" in judged.story
