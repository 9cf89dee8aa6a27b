"""Every distinct (claim, record, next claim) that TLC explores, held against `step`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import pytest

from kafka_marshal import Accepted, Claim, Record, Refused, Rules, RuleSet, step
from kafka_marshal.core import fenced, original
from kafka_marshal.core.invariants import broken_by
from model_tests.conftest import Exported, Triple


def disagreements(exports: Mapping[str, Exported]) -> list[Triple]:
    """The triples of which the reducer says otherwise."""
    return [
        triple
        for exported in exports.values()
        for triple in exported.triples
        if step(triple.before, triple.record, triple.rules) != (triple.after, triple.verdict)
    ]


def test_the_reducer_takes_every_step_as_the_specification_does(
    exports: Mapping[str, Exported], capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = disagreements(exports)
    assert wrong == [], f"{len(wrong)} disagree, the first: {wrong[0]}"
    with capsys.disabled():
        print()
        for name, exported in exports.items():
            refused = sum(isinstance(triple.verdict, Refused) for triple in exported.triples)
            print(
                f"  {name}: {len(exported.triples):,} triples, {refused:,} of them refused, "
                f"from {exported.edges:,} edges, all as in Python"
            )


def test_every_verdict_is_among_the_triples(exports: Mapping[str, Exported]) -> None:
    seen = {triple.verdict for exported in exports.values() for triple in exported.triples}
    assert seen == set(Accepted) | set(Refused)


def test_no_triple_of_the_fenced_rules_breaks_a_property_of_a_step(
    exports: Mapping[str, Exported],
) -> None:
    for exported in exports.values():
        for each in exported.triples:
            if each.rules.rule_set is RuleSet.FENCED and reachable(each):
                assert broken_by(each.before, each.record, each.after, each.verdict) == []


def reachable(triple: Triple) -> bool:
    """The models identify logs that led to the same claim, so a claim's epoch is below the log's
    end; that is all a step needs to know."""
    return triple.before.epoch is None or triple.before.epoch < triple.record.offset


def stale_at_twice_the_interval(claim: Claim, clock_ms: int, rules: Rules) -> bool:
    return (
        claim.last_heartbeat_ms is not None
        and clock_ms - claim.last_heartbeat_ms >= rules.stale_after_ms
    )


def clock_that_goes_back(claim: Claim, record: Record) -> int:
    return record.timestamp_ms


def always(*_: object) -> bool:
    return True


def never(*_: object) -> bool:
    return False


def nobody_is_refused(claim: Claim, record: Record) -> None:
    return None


def instance_is_enough(claim: Claim, record: Record) -> Refused | None:
    """Drop the epoch from R2."""
    if not claim.owned:
        return Refused.NOBODY_OWNS
    owner = record.message.instance_id == claim.owner_instance
    return None if owner else Refused.NOT_OWNER


def claimed_at_twice_the_interval(claim: Claim, now_ms: int, rules: Rules) -> bool:
    if claim.last_heartbeat_ms is None:
        return False
    age_s = now_ms // 1000 - claim.last_heartbeat_ms // 1000
    return 0 <= age_s * 1000 <= rules.stale_after_ms


MUTANTS: list[tuple[object, str, Callable[..., object]]] = [
    (fenced, "is_stale", stale_at_twice_the_interval),
    (fenced, "is_stale", always),
    (fenced, "clock_advanced", clock_that_goes_back),
    (fenced, "_restart_takeover", always),
    (fenced, "_restart_takeover", never),
    (fenced, "_is_fast_reclaim", always),
    (fenced, "_is_fast_reclaim", never),
    (fenced, "_from_the_future", never),
    (fenced, "_refuse_unless_owner", nobody_is_refused),
    (fenced, "_refuse_unless_owner", instance_is_enough),
    (original, "claimed", claimed_at_twice_the_interval),
    (original, "claimed", never),
]


@pytest.mark.parametrize(
    ("module", "name", "mutant"), MUTANTS, ids=lambda part: getattr(part, "__name__", str(part))
)
def test_a_mutant_of_the_reducer_is_caught(
    exports: Mapping[str, Exported],
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    name: str,
    mutant: Callable[..., object],
) -> None:
    monkeypatch.setattr(module, name, mutant)
    assert disagreements(exports)


def test_a_field_that_is_not_carried_over_is_caught(
    exports: Mapping[str, Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = fenced._refuse

    def forgets_the_clock(claim: Claim, clock_ms: int, guard: Refused) -> tuple[Claim, object]:
        _, verdict = refuse(claim, clock_ms, guard)
        return attrs.evolve(claim), verdict

    monkeypatch.setattr(fenced, "_refuse", forgets_the_clock)
    assert disagreements(exports)
