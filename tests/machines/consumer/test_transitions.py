"""The specification's own answers about readers and machines, in the sample of `make triples`.

`model_tests/transitions/test_machines.py` does the same with every row, and runs TLC for it.
"""

from collections.abc import Mapping

from kafka_marshal.core.claims.suffix_reader import Knowledge, Reader
from kafka_marshal.machines.consumer.consumer import Forbidden
from tests import machine_samples as machines
from tests.machine_samples import State


def test_a_machine_does_as_the_specification_does() -> None:
    for each in machines.read():
        if each.deed != "reader":
            assert machines.python(each) == each.said


def test_the_sample_has_every_reason_against() -> None:
    reasons: set[object] = set()
    for each in machines.read():
        if isinstance(each.said, State):
            for against in each.said.may.values():
                reasons |= set(against.values()) if isinstance(against, Mapping) else {against}
    assert reasons == set(Forbidden) | {None}


def test_the_sample_has_readers_that_know_nothing_guess_and_know() -> None:
    said = [each.said for each in machines.read() if isinstance(each.said, Reader)]
    assert {reader.knowledge for reader in said} == set(Knowledge)
