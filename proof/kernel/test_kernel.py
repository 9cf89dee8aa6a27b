"""Marshal promises that the compiled steps are the reducer, and that the proof of it can fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from model_tests.mutants.hand_made import HandMade
from tests import triples
from tools.runs.by_day import sampled

from kafka_marshal import (
    Claim,
    ClaimingPartition,
    Heartbeat,
    Record,
    ReleaseGroup,
    ReleasingPartition,
    RuleSet,
)
from kafka_marshal.core.claims import original
from kafka_marshal.kernel import steps
from proof import mutants
from proof.kernel import prove as kernel
from proof.kernel.inputs import KernelCase, kernel_cases
from proof.kernel.prove import prove_kernel
from proof.properties import INVARIANT
from proof.prove import Result
from proof.smt.solver import smt
from proof.test_proof import beyond_symbols

OWNED = frozenset({"owner_instance", "owner_client", "epoch", "last_heartbeat_ms"})
PAUSED = frozenset({"pauser", "paused_until_ms"})
TEXT = Path(steps.__file__).read_text(encoding="utf-8")


def case(message: type, *known: frozenset[str], rules: RuleSet = RuleSet.FENCED) -> KernelCase:
    return KernelCase(message, frozenset().union(*known), rules, born=True)


def differences(result: Result) -> list[str]:
    return [each.property for each in result.refuted]


@pytest.mark.parametrize("solver", sampled(["z3", "cvc5"], 2))
def test_the_kernel_releases_a_group_as_the_reducer_does_by_either_solver(solver: str) -> None:
    result = prove_kernel(case(ReleaseGroup, OWNED, PAUSED), smt(solver))
    assert not result.refuted
    assert result.repeated == result.paths > 5


def test_the_kernel_takes_every_step_of_the_original_that_tlc_takes() -> None:
    cases = [each for each in kernel_cases() if each.rule_set is RuleSet.ORIGINAL]
    results = [prove_kernel(each, smt("z3")) for each in cases]
    assert not any(each.refuted for each in results)
    assert all(each.repeated == each.paths for each in results)
    assert {(each.case.message, name) for each in results for name in each.reached} >= {
        (type(each.record.message), each.verdict.value)
        for each in triples.read()
        if each.rules.rule_set is RuleSet.ORIGINAL
    }


@pytest.fixture
def anything_goes(monkeypatch: pytest.MonkeyPatch, request: Any) -> Iterator[None]:
    """Without one of the bounds that the kernel sets."""
    monkeypatch.setattr(steps, request.param[0], request.param[1])
    return (yield)


@pytest.mark.parametrize(
    ("anything_goes", "message"),
    [
        (("rules_fit", lambda *_: True), ReleaseGroup),
        (("first_wrong", lambda *_: (0, -1)), ReleaseGroup),
    ],
    indirect=["anything_goes"],
)
@pytest.mark.usefixtures("anything_goes")
def test_without_its_bounds_the_kernel_overflows(message: type) -> None:
    [difference] = differences(prove_kernel(case(message), smt("z3")))
    assert "Overflows" in difference


def test_an_epoch_is_an_offset_or_the_kernel_takes_an_absent_one_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    below = {**INVARIANT, "EpochIsInLog": lambda claim, last: claim.epoch <= last}
    monkeypatch.setattr(kernel, "INVARIANT", below)
    assert prove_kernel(case(Heartbeat, OWNED), smt("z3")).refuted


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ("clock_ms - claims[at, LAST_HEARTBEAT] > stale_ms", "clock_ms > stale_ms", "fenced"),
        ("and header[_SEEN] != NOT_DECIMAL", "", "heartbeat"),
        ("age_ms >= 0 and age_ms < stale_ms", "age_ms < stale_ms", "original"),
        ("max(claims[claim, POSITION], numbers[row])", "numbers[row]", "heartbeat"),
    ],
)
def test_a_mistake_in_the_kernel_is_refuted(written: str, instead: str, message: str) -> None:
    assert TEXT.count(written) == 1
    chosen = {
        "fenced": case(ClaimingPartition, OWNED),
        "heartbeat": case(Heartbeat, OWNED),
        "original": case(ClaimingPartition, OWNED - {"epoch"}, rules=RuleSet.ORIGINAL),
    }[message]
    mutated = mutants.kernel_of(TEXT.replace(written, instead))
    assert prove_kernel(chosen, smt("z3"), mutated).refuted


@pytest.mark.parametrize(
    ("written", "instead", "differs"),
    [
        ("next_in_group[claim] = first_of_group[group]", "pass", "next_in_group"),
        ("first_of_group[group] = claim", "pass", "first_of_group"),
        ("born[claim] = True", "pass", "born"),
    ],
)
def test_a_new_claim_that_is_not_listed_is_refuted(
    written: str, instead: str, differs: str
) -> None:
    assert TEXT.count(written) == 1
    mutated = mutants.kernel_of(TEXT.replace(written, instead))
    newborn = attrs.evolve(case(Heartbeat), born=False)
    [difference] = differences(prove_kernel(newborn, smt("z3"), mutated))
    assert f"{differs} differs" in difference


def test_a_loop_without_end_is_refuted() -> None:
    mutated = mutants.kernel_of(TEXT.replace("if each < 0:\n                    break", "pass"))
    [difference] = differences(prove_kernel(case(ReleaseGroup), smt("z3"), mutated))
    assert "Endless" in difference


def test_a_guard_that_the_invariant_implies_may_go() -> None:
    written = "        and header[_EPOCH_HEADER] < offset\n"
    assert TEXT.count(written) == 1
    mutated = mutants.kernel_of(TEXT.replace(written, ""))
    assert not prove_kernel(case(Heartbeat, OWNED), smt("z3"), mutated).refuted


@pytest.mark.parametrize("rule_set", RuleSet)
def test_a_new_claim_has_the_invariant_of_either_rules(rule_set: RuleSet) -> None:
    invariant = kernel.invariant(rule_set)
    assert [name for name, holds in invariant.items() if not holds(Claim(), -1)] == []


def test_a_field_that_no_case_of_the_original_has_is_noticed() -> None:
    right = original.claiming_partition

    def wins_an_epoch(claim: Claim, record: Record, *of: Any) -> Any:
        after, verdict = right(claim, record, *of)
        return attrs.evolve(after, epoch=record.offset), verdict

    mistake = HandMade("Epoch", "", original, "claiming_partition", wins_an_epoch)
    with mistake.made():
        result = prove_kernel(case(ClaimingPartition, rules=RuleSet.ORIGINAL), smt("z3"))
    assert differences(result)


def test_the_kernel_has_nothing_that_no_proxy_notices() -> None:
    assert beyond_symbols(TEXT) == []


def test_newborn_claims_begin_as_their_group_says() -> None:
    newborn = attrs.evolve(case(ReleasingPartition, PAUSED), born=False)
    assert newborn in kernel_cases()
    assert not prove_kernel(newborn, smt("z3")).refuted
