import json
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from tests.modelcheck.test_values import values

from kafka_marshal.counterexample import LOG, Counterexample, Step, StepKind, story_text
from kafka_marshal.counterexample.itf import MalformedTraceError
from kafka_marshal.modelcheck import models, traces
from kafka_marshal.modelcheck.stories import counterexamples, itf, stories
from kafka_marshal.modelcheck.tlc.output import TlcState, Trace
from kafka_marshal.modelcheck.tlc.values import Function, ModelValue, Value, parse, record

FOLDER = models.spec_folder()
KEPT = [model for model in models.read() if traces.is_kept(model)]


Kept: TypeAlias = list[tuple[models.Model, Trace, Counterexample]]


@pytest.fixture(scope="module")
def kept() -> Kept:
    """Each kept counterexample as TLC printed it, and its story."""
    found = []
    for model in KEPT:
        trace = traces.stored(FOLDER, model)
        assert trace is not None
        told = counterexamples.of_trace(trace, model.violates, model.name, model.about)
        found.append((model, trace, told))
    return found


def test_every_kept_counterexample_is_told_as_it_always_was(kept: Kept) -> None:
    for model, trace, found in kept:
        assert story_text(found) == stories.story_text(trace, model.violates), model.name


def test_whatever_lands_in_the_log_is_drawn_from_where_it_was_sent(kept: Kept) -> None:
    for model, trace, found in kept:
        is_drawn_from_where_it_was_sent(model, trace, found)


def is_drawn_from_where_it_was_sent(
    model: models.Model, trace: Trace, found: Counterexample
) -> None:
    for step, state in zip(found.steps, trace.states, strict=True):
        assert step.action == state.action, model.name
        if step.kind is StepKind.APPENDED:
            assert step.target == LOG, model.name
            assert step.offset is not None, model.name
            assert step.verdict is not None, model.name
        if step.action == "Append":
            assert step.since is not None, model.name
            sent = found.steps[step.since]
            assert sent.kind is StepKind.SENT, model.name
            assert sent.who == step.who == step.source, model.name
        if model.name.startswith("MCRecords") and step.number > 0:
            # Nothing but records, each by somebody.
            assert step.kind is StepKind.APPENDED, model.name
            assert step.who in {who.name for who in found.participants}, model.name
        # Members that share are numbers, and so are instances of Interval.tla.
        named = not {"memories", "sending"} & state.variables.keys()
        if named and step.action in (
            "Read",
            "Process",
            "ProcessGrant",
            "Crash",
            "Stall",
            "Resume",
        ):
            assert step.who is not None, model.name
            assert step.sentence.startswith(f"{step.who} "), model.name


def test_a_state_can_be_read_back_from_the_trace(kept: Kept) -> None:
    for model, trace, found in kept:
        for step, state in zip(found.steps, trace.states, strict=True):
            assert step.state is not None
            written = json.loads(json.dumps(step.state))
            read = {name: itf.value(text) for name, text in written.items()}
            assert read == state.variables, model.name


@given(values)
def test_a_value_survives_being_an_expression(value: Value) -> None:
    text = json.dumps(itf.expression(value))
    assert itf.value(json.loads(text)) == value
    assert json.dumps(itf.expression(itf.value(json.loads(text)))) == text


@pytest.mark.parametrize(
    ("value", "expression"),
    [
        ("9007199254740993", {"#bigint": "9007199254740993"}),
        ("<<1, TRUE>>", [1, True]),
        ("{2, 1}", {"#set": [1, 2]}),
        ('[a |-> "x"]', {"a": "x"}),
        ("(0 :> 1)", {"#map": [[0, 1]]}),
        ('("#set" :> 1)', {"#map": [["#set", 1]]}),
        ("n1", {"#unserializable": "n1"}),
    ],
)
def test_expressions_are_those_of_the_format(value: str, expression: object) -> None:
    assert itf.expression(parse(value)) == expression


def test_expressions_of_other_tools_are_read() -> None:
    assert itf.value({"#tup": [{"#bigint": "-3"}, "x"]}) == (-3, "x")
    assert itf.value({"#map": [[1, "a"], [2, "b"]]}) == ("a", "b")
    assert itf.value({"#unserializable": "Nobody"}) == ModelValue("Nobody")


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "1.5",
        '{"#bigint": 7}',
        '{"#bigint": "seven"}',
        '{"#map": [[1]]}',
        '{"#set": 1}',
        '{"#unserializable": "[Int -> Int]"}',
        '{"#new": 1}',
    ],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(MalformedTraceError, match="no expression"):
        itf.value(json.loads(text))


def sent(instance: str, offset: int = 0) -> Value:
    text = f"""[headers |-> [epoch |-> -1], message |-> [type |-> "Heartbeat",
        instance_id |-> "{instance}", client_id |-> "c", offset |-> {offset}]]"""
    return parse(text)


def stored(instance: str, offset: int, message_offset: int = 0) -> Value:
    found = sent(instance, message_offset)
    assert isinstance(found, Function)
    return record(offset=offset, **{str(name): field for name, field in found.items()})


def steps(*states: tuple[str, dict[str, Value]]) -> tuple[Step, ...]:
    """Tell a module that nobody knows, and that keeps a log and outboxes."""
    now: dict[str, Value] = {
        "log": (),
        "outbox": record(a1=(), b1=()),
        "mood": record(a1="calm", b1="calm"),
        "weather": "fine",
    }
    made = [TlcState("", dict(now))]
    for action, changes in states:
        now |= changes
        made.append(TlcState(action, dict(now)))
    return counterexamples.of_trace(Trace(tuple(made)), "P", "a test").steps


def test_who_acted_is_the_instance_at_which_something_changed() -> None:
    told = steps(
        ("Sulk", {"mood": record(a1="calm", b1="sad")}),
        ("Storm", {"mood": record(a1="wet", b1="wet")}),
        ("Rain", {"weather": "rain"}),
    )
    assert [(step.who, step.kind) for step in told[1:]] == [
        ("b1", StepKind.OTHER),
        (None, StepKind.OTHER),
        (None, StepKind.OTHER),
    ]


def test_what_a_step_reads_is_not_guessed_from_its_words() -> None:
    told = steps(("Read", {"mood": record(a1="calm", b1="reads offset 9")}))
    assert (told[1].kind, told[1].who, told[1].offset) == (StepKind.READ, "b1", None)


def test_records_of_one_sender_keep_their_order_unless_the_network_does_not() -> None:
    both = record(a1=(sent("a1", 1), sent("a1", 2)), b1=())
    told = steps(
        ("SendHeartbeat", {"outbox": record(a1=(sent("a1", 1),), b1=())}),
        ("SendHeartbeat", {"outbox": both}),
        ("Append", {"outbox": record(a1=(sent("a1", 1),), b1=()), "log": (stored("a1", 0, 2),)}),
        (
            "Append",
            {"outbox": record(a1=(), b1=()), "log": (stored("a1", 0, 2), stored("a1", 1, 1))},
        ),
    )
    assert [step.since for step in told] == [None, None, None, 2, 1]
    assert [step.offset for step in told[3:]] == [0, 1]


def test_a_copy_is_drawn_from_where_the_record_was_sent() -> None:
    told = steps(
        ("SendHeartbeat", {"outbox": record(a1=(sent("a1"),), b1=())}),
        ("AppendCopy", {"log": (stored("a1", 0),)}),
        ("Append", {"log": (stored("a1", 0), stored("a1", 1)), "outbox": record(a1=(), b1=())}),
    )
    assert [step.since for step in told[2:]] == [1, 1]
    assert {step.who for step in told[1:]} == {"a1"}


def test_a_record_that_is_lost_is_drawn_from_where_it_was_sent() -> None:
    told = steps(
        ("SendHeartbeat", {"outbox": record(a1=(), b1=(sent("b1"),))}),
        ("Lose", {"outbox": record(a1=(), b1=())}),
    )
    assert (told[2].kind, told[2].who, told[2].since, told[2].target) == (
        StepKind.LOST,
        "b1",
        1,
        None,
    )


def test_a_log_that_is_cut_acts_itself() -> None:
    told = steps(
        ("SendHeartbeat", {"outbox": record(a1=(sent("a1"),), b1=())}),
        ("Append", {"log": (stored("a1", 0),), "outbox": record(a1=(), b1=())}),
        ("Truncate", {"log": ()}),
    )
    assert (told[3].kind, told[3].who) == (StepKind.OTHER, LOG)


def test_a_model_without_instances_has_a_story_and_no_lifelines() -> None:
    trace = Trace((TlcState("", {"hour": 1}), TlcState("Up", {"hour": 2})), back_to=1)
    found = counterexamples.of_trace(trace, None, "Clock")
    assert found.participants == ()
    assert found.loop_back_to == 1
    assert found.violated_at is None
    assert story_text(found) == stories.story_text(trace)


def test_an_instance_that_never_does_anything_has_no_lifeline() -> None:
    idle = TlcState("", {"log": (), "outbox": record(a1=(), b1=())})
    sends = TlcState("SendHeartbeat", {"log": (), "outbox": record(a1=(), b1=(sent("b1"),))})
    found = counterexamples.of_trace(Trace((idle, sends)), "P", "a test")
    assert [who.name for who in found.participants] == ["b1", LOG]


def test_clients_are_known_by_what_they_sent() -> None:
    document = Path(__file__).parent / "data" / "document_amo.json"
    trace = traces.loads(document.read_text())
    found = counterexamples.of_trace(trace, "AtMostOnce", "a file")
    assert [(who.name, who.about) for who in found.participants] == [
        ("a1", "client a"),
        ("b1", "client b"),
        (LOG, ""),
    ]
    processed = [step for step in found.steps if step.kind is StepKind.PROCESSED]
    assert [step.who for step in processed] == ["a1", "b1"]
    read = next(step for step in found.steps if step.kind is StepKind.READ)
    assert (read.source, read.target, read.offset) == (LOG, "a1", 0)
