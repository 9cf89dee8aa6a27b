"""Every distinct (claim, record, next claim) that TLC explores, held against `step`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from tests import triples
from tests.kernel.kernel import stepped
from tests.triples import Triple

from kafka_marshal import Accepted, Refused, RuleSet, step
from kafka_marshal.core.claims.invariants import broken_by
from model_tests.transitions.exports import Exported
from model_tests.transitions.sample import chosen, situation


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


def test_the_kernel_takes_every_step_as_the_specification_does(
    exports: Mapping[str, Exported], share: Callable[[Sequence[Triple]], Sequence[Triple]]
) -> None:
    every = (triple for exported in exports.values() for triple in share(exported.triples))
    for triple, after, verdict in stepped(every):
        assert (after, verdict) == (triple.after, triple.verdict), triple


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


def test_the_sample_in_tests_is_what_the_export_gives(exports: Mapping[str, Exported]) -> None:
    """So that a change of the specification shows that `make triples` is to be run."""
    sample = chosen(exports)
    assert set(triples.read()) == set(sample), "make triples writes it anew"


def test_the_sample_shows_every_verdict(exports: Mapping[str, Exported]) -> None:
    exported = {situation(t) for each in exports.values() for t in each.triples}
    assert {situation(triple) for triple in triples.read()} == exported
