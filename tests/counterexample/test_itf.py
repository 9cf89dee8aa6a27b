import json

import attrs
import pytest
from hypothesis import given

from kafka_marshal.counterexample import Counterexample, itf
from tests.counterexample.sample import LATE_HEARTBEAT, counterexamples


@given(counterexamples())
def test_a_counterexample_survives_being_written_and_read(one: Counterexample) -> None:
    assert itf.loads(itf.dumps(one)) == one


def test_a_trace_has_the_shape_that_others_read() -> None:
    trace = json.loads(itf.dumps(attrs.evolve(LATE_HEARTBEAT, loop_back_to=2)))
    assert trace["#meta"]["format"] == "ITF"
    assert trace["vars"] == ["now"]
    assert trace["params"] == []
    assert trace["loop"] == 2
    assert [state["now"] for state in trace["states"]] == [0, 0, 0, 1, 2, 2]
    assert [state["#meta"]["index"] for state in trace["states"]] == list(range(6))
    assert trace["states"][5]["#meta"]["action"] == "Append"
    assert "loop" not in json.loads(itf.dumps(LATE_HEARTBEAT))


def test_every_state_sets_the_same_variables() -> None:
    trace = json.loads(itf.dumps(LATE_HEARTBEAT))
    for state in trace["states"]:
        assert set(state) - {"#meta"} == set(trace["vars"])


def test_an_integer_that_a_double_would_round_is_written_as_text() -> None:
    for number in (2**53, -(2**53), 10**30):
        assert itf.integer(number) == {"#bigint": str(number)}
    assert itf.integer(2**53 - 1) == 2**53 - 1


def test_a_trace_of_quint_is_read_with_its_actions() -> None:
    text = """{"#meta": {"format": "ITF", "source": "bank.qnt", "status": "ok"},
        "vars": ["n", "mbt::actionTaken"],
        "states": [{"#meta": {"index": 0}, "n": {"#bigint": "0"}, "mbt::actionTaken": "init"},
                   {"#meta": {"index": 1}, "n": {"#bigint": "1"}, "mbt::actionTaken": "up"}]}"""
    read = itf.loads(text)
    assert read.source == "bank.qnt"
    assert [step.action for step in read.steps] == ["init", "up"]
    assert read.participants == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"states": []}',
        '{"states": [1]}',
        '{"states": [{"#meta": {"kind": "unheard of"}}]}',
        '{"states": [{}], "loop": 7}',
        '{"states": [{"#meta": {"who": "nobody"}}]}',
    ],
)
def test_a_damaged_trace_is_named(text: str) -> None:
    with pytest.raises(itf.MalformedTraceError, match=r"^X\.itf\.json: "):
        itf.loads(text, "X.itf.json")
