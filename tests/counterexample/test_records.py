import attrs
import pytest

from kafka_marshal.core.claims.verdicts import Accepted, Refused
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Offset,
    Partition,
    Record,
    ReleaseGroup,
)
from kafka_marshal.core.state import FENCED, ORIGINAL, Claim
from kafka_marshal.counterexample import LOG, StepKind, story_text
from kafka_marshal.counterexample.diagram import diagram
from kafka_marshal.counterexample.records import (
    claim_expression,
    from_judged,
    from_records,
    judge,
    record_expression,
)
from kafka_marshal.modelcheck import models, traces
from kafka_marshal.modelcheck.stories import itf
from kafka_marshal.modelcheck.tlc.values import Function

START_S = 1_795_215_534


def claims(instance: str, sent_s: int = 0) -> Message:
    return ClaimingPartition(
        1, START_S + sent_s, instance, instance[:1], "g", "events", Partition(0)
    )


def beats(instance: str, offset: int, sent_s: int = 0) -> Message:
    return Heartbeat(
        1,
        START_S + sent_s,
        instance,
        instance[:1],
        "g",
        "events",
        Partition(0),
        Offset(offset),
    )


def at(offset: int, landed_s: int, message: Message, headers: Headers | None = None) -> Record:
    return Record(0, offset, (START_S + landed_s) * 1000, message, headers or Headers())


LATE = [
    at(7, 0, claims("a1")),
    at(8, 130, claims("b1", sent_s=130)),
    at(9, 131, beats("a1", 5, sent_s=60)),
]


def test_a_late_heartbeat_is_told_from_its_records() -> None:
    told = story_text(from_records(LATE, "Fenced", "replay of last night", ORIGINAL))
    assert told.splitlines() == [
        "0  2026-11-20, UTC: nobody owns; position 0",
        "1  22:58:54.000  offset 7: a1's ClaimingPartition: Claimed, nobody owned; a1 owns",
        "2  23:01:04.000  offset 8: b1's ClaimingPartition: TookOver, the owner counts as stale; "
        "b1 owns instead of a1",
        "3  23:01:05.000  offset 9: a1's Heartbeat at 5: Overwritten, each heartbeat makes its "
        "sender the owner; a1 owns instead of b1; position 0 → 5; by its sender's clock it was "
        "written 71 s before",
        "   Fenced does not hold.",
    ]


def test_a_record_that_others_overtook_starts_where_it_was_written() -> None:
    steps = from_records(LATE, "Fenced", "x", ORIGINAL).steps
    assert [step.since for step in steps] == [None, None, None, 1]
    assert {step.kind for step in steps[1:]} == {StepKind.APPENDED}


def test_less_than_a_second_is_not_late() -> None:
    records = [at(0, 0, claims("a1")), at(1, 0, claims("b1")), at(2, 1, beats("a1", 0))]
    landed_at = attrs.evolve(records[1], timestamp_ms=START_S * 1000 + 999)
    steps = from_records([records[0], landed_at, records[2]], "Fenced", "x").steps
    assert [step.since for step in steps] == [None] * 4


def test_the_step_at_fault_is_the_one_that_breaks_the_property() -> None:
    records = [*LATE, at(10, 132, beats("a1", 6, sent_s=132))]
    assert from_records(records, "Fenced", "x", ORIGINAL).violated_at == 3
    assert from_records(records, "LiveOwner", "x", FENCED).violated_at == 4
    refused = [LATE[0], at(8, 1, claims("b1", 1)), at(9, 2, beats("a1", 1, 2))]
    assert from_records(refused, "LiveOwner", "x", FENCED).violated_at == 2


def test_a_refusal_is_told_with_its_guard() -> None:
    found = from_records([LATE[0], at(8, 1, claims("b1", 1))], "LiveOwner", "x", FENCED)
    assert found.steps[2].refused
    assert found.steps[2].verdict == "LiveOwner"
    assert "refused by LiveOwner, the owner is alive" in found.steps[2].sentence


def test_records_that_are_left_out_do_not_change_what_was_judged() -> None:
    judged = judge(LATE, ORIGINAL)
    found = from_judged([judged[0], judged[2]], "Fenced", "x")
    assert "a1 owns instead of b1" in found.steps[2].sentence
    state = found.steps[2].state
    assert state is not None
    assert state["before"] == claim_expression(judged[2].before)
    assert state["claim"] == claim_expression(judged[2].after)


def test_a_story_can_begin_in_the_middle() -> None:
    owned = Claim("a1", "a", 3, 5, START_S * 1000)
    found = from_records([at(9, 1, beats("a1", 6, 1))], None, "x", ORIGINAL, owned)
    assert found.steps[0].sentence == "2026-11-20, UTC: a1 owns, epoch 3; position 5"
    with pytest.raises(ValueError, match="without a record"):
        from_records([], None, "x")


def test_a_story_of_more_than_a_day_says_the_day_at_each_step() -> None:
    found = from_records([LATE[0], at(8, 86_400, claims("b1", 86_400))], None, "x")
    assert found.steps[0].sentence == "times in UTC: nobody owns; position 0"
    assert [step.time for step in found.steps[1:]] == [
        "2026-11-20 22:58:54.000",
        "2026-11-21 22:58:54.000",
    ]


def test_headers_are_told_by_their_names() -> None:
    carried = Headers(True, epoch=3, supersedes=-2, set_position=4)
    found = from_records([at(9, 1, beats("a1", 6, 1), carried)], None, "x")
    assert found.steps[1].label == (
        "Heartbeat at 6 (epoch 3, supersedes not decimal, set-position 4)"
    )


def test_a_pause_is_told_with_its_end() -> None:
    pause = ReleaseGroup(0, START_S, "admin", "admin", "g", "", Partition(0), START_S + 60)
    paused, ended = at(1, 0, pause), at(2, 61, claims("admin", 61))
    steps = from_records([LATE[0], paused, ended], None, "x").steps
    assert "paused for admin until 2026-11-20 22:59:54.000" in steps[2].sentence
    assert "the pause ends" in steps[3].sentence


def test_no_id_can_pass_for_another_or_for_the_log() -> None:
    strange = [LOG, "", "a\x1b[2J", f"{LOG} (an instance)"]
    records = [at(n, n, claims(name, n)) for n, name in enumerate(strange)]
    found = from_records(records, None, "x")
    assert len({who.name for who in found.participants}) == 5
    assert story_text(found).replace("\n", "").isprintable()


def test_states_have_the_fields_of_the_specification() -> None:
    folder = models.spec_folder()
    model = next(
        m
        for m in models.read(folder)
        if m.module.stem == "MCRecords" and m.violates == "MonotonePosition"
    )
    trace = traces.stored(folder, model)
    assert trace is not None
    first = from_records(LATE, None, "x").steps
    theirs = [itf.expression(trace.states[0].variables[name]) for name in ("claim", "last")]
    assert first[0].state is not None
    assert [first[0].state[name] for name in ("claim", "last")] == theirs
    last = trace.states[1].variables["last"]
    assert isinstance(last, Function)
    written = itf.expression(last["record"])
    assert isinstance(written, dict)
    ours = record_expression(LATE[0])
    assert isinstance(ours, dict)
    # The free models' choices are no fields of a record.
    assert set(written) - {"stale", "pause_over"} <= set(ours)
    for name in ("message", "headers"):
        inner = written[name], ours[name]
        assert isinstance(inner[0], dict)
        assert isinstance(inner[1], dict)
        assert set(inner[0]) <= set(inner[1])


def test_there_is_a_word_for_every_verdict() -> None:
    sentences = [verdict.sentence for verdict in (*Accepted, *Refused)]
    assert all(sentences)


def test_the_first_row_of_the_drawing_is_not_cut() -> None:
    drawn = str(diagram(from_records(LATE, "Fenced", "x", ORIGINAL)))
    assert "nobody owns; position 0" in drawn
    assert "…" not in drawn
