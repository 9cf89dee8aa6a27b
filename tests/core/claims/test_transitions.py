"""The specification's own answers, as TLC gave them, in the sample that `make triples` wrote.

`model_tests/transitions/test_triples.py` does the same with every transition, and runs TLC for it.
"""

from kafka_marshal import Accepted, Refused, RuleSet, step
from kafka_marshal.core.claims.invariants import broken_by
from tests import triples


def test_the_reducer_takes_the_sampled_steps_as_the_specification_does() -> None:
    for each in triples.read():
        assert step(each.before, each.record, each.rules) == (each.after, each.verdict)


def test_no_sampled_step_of_the_fenced_rules_breaks_a_property_of_a_step() -> None:
    for each in triples.read():
        is_of_one_log = each.before.epoch is None or each.before.epoch < each.record.offset
        if each.rules.rule_set is RuleSet.FENCED and is_of_one_log:
            assert broken_by(each.before, each.record, each.after, each.verdict) == []


def test_the_sample_has_every_verdict_of_both_rule_sets() -> None:
    assert {each.verdict for each in triples.read()} == set(Accepted) | set(Refused)
    assert {each.rules.rule_set for each in triples.read()} == set(RuleSet)
