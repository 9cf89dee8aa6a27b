"""Marshal promises that a reader knows when it knows the log, and judges its own events once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_marshal.core.groups.events import (
    ControllershipSnapshot,
    ControllerStarted,
    EventRecord,
    GroupSnapshot,
)
from kafka_marshal.core.groups.state import Controllership
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.group_codec.events import encode_event
from kafka_marshal.machines.groups.control import controlled_log
from kafka_marshal.machines.groups.control.controlled_log import (
    ControlledLog,
    ControllerConfig,
    LogKnowledge,
)
from kafka_marshal.machines.groups.effects import AskEnd
from tests.machines.groups.desk import Desk, at

START = EventRecord(0, 0, 0, ControllerStarted(-1, 1, "a", 9))
SNAPSHOT = ControllershipSnapshot(1, "a", 9)


def reading(begin: int = 0, *, at_position: bool = False) -> ControlledLog:
    """Somebody who has begun to read, and has asked for the end."""
    log = ControlledLog(ControllerConfig(9, "b", 9), 0, [])
    log.begin(begin, at_position=at_position)
    log.ask(0)
    return log


def questions(log: ControlledLog) -> list[int]:
    """The tokens by which it has asked for the end."""
    return [effect.token for effect in log.out if isinstance(effect, AskEnd)]


# --- how far it has read --------------------------------------------------------------------------


def test_behind_a_gap_a_reader_is_at_the_end() -> None:
    log = reading()
    log.end_is(1, 5)
    known = []
    for offset in (4, 5):
        log.reached(offset)
        known.append(log.knowledge)
    assert known == [LogKnowledge.SOME, LogKnowledge.ALL]
    log.reached(2)
    assert log.read(START, 0) is None  # it lies before what was reached


def test_a_record_is_folded_once_and_by_nobody_who_has_not_begun() -> None:
    assert ControlledLog(ControllerConfig(9, "b", 9), 0, []).read(START, 0) is None
    log = reading()
    assert log.read(START, 0) is not None
    view = log.view
    assert log.read(START, 0) is None
    assert log.view is view


def test_who_begins_anew_waits_for_no_end_from_before() -> None:
    log = reading()
    log.end_is(1, 5)
    log.begin(0, at_position=False)
    log.end_is(1, 5)  # once more, and late
    log.ask(0)
    log.end_is(2, 0)
    assert log.knowledge is LogKnowledge.ALL


def test_a_question_without_an_answer_is_asked_again_after_a_second() -> None:
    log = reading()
    assert questions(log) == [1]
    log.ask(999)
    assert questions(log) == [1]
    log.ask(1_000)
    assert questions(log) == [1, 2]


@pytest.mark.parametrize("begin", [0, 1])
def test_a_reader_begins_in_the_middle_at_the_snapshot_at_the_claims_position(begin: int) -> None:
    log = reading(begin, at_position=True)
    outcome = log.read(EventRecord(0, begin, 0, SNAPSHOT, "", epoch=0, number=7), 0)
    if begin:
        assert outcome is not None
        assert outcome.verdict is GroupAccepted.SNAPSHOT_TAKEN
        assert log.view == Controllership(0, 7, 1, "a", 9)
    else:  # where the log is whole a snapshot is an event like others
        assert log.view == Controllership()


# --- what it sent ---------------------------------------------------------------------------------


def owner() -> tuple[Desk, int, int]:
    """A server, and a member of it that owns everything: its connection and tenure."""
    desk = Desk(2).serve().create()
    connection, _ = desk.join("m1")
    desk.pass_ms(100)
    return desk, connection, desk.group.generation


def begins_anew(desk: Desk) -> None:
    desk.unread[0] = 0
    desk.do(0, desk.servers[0].begins(0, 0, desk.now_ms, at_position=False))


def may_not_compete(desk: Desk) -> None:
    desk.sent[0].clear()
    desk.do(0, desk.servers[0].unclaimed(0, desk.now_ms))


def is_deposed(desk: Desk) -> None:
    desk.sent[0].clear()
    desk.serve(1)
    desk.do(1, desk.servers[1].unclaimed(0, desk.now_ms))


def nothing_happens(desk: Desk) -> None:
    desk.settled()


@pytest.mark.parametrize(
    "happens", [nothing_happens, begins_anew, may_not_compete, is_deposed], ids=lambda f: f.__name__
)
def test_what_was_judged_before_it_was_sent_is_not_judged_again(
    happens: Callable[[Desk], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, connection, tenure = owner()
    desk.ask("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 5)))
    happens(desk)
    desk.do(0, desk.servers[0].claimed(0, desk.now_ms))
    desk.pass_ms(1_200, 0)
    assert desk.servers[0].serves(0)
    monkeypatch.setattr(controlled_log, "step", None)
    desk.ask("CommitOffsets", desk.connect(), PositionsV1=at(t0=(tenure, 6)))
    assert len(desk.sent[0]) == 1
    desk.land()
    desk.read()
    assert desk.questions[0] == []  # an event of its own says as much as the end of the log
    assert desk.servers[0].view(0) == desk.state


@pytest.mark.parametrize("less", [0, 1])
def test_an_event_may_be_as_large_as_the_log_takes(less: int) -> None:
    desk = Desk().serve().create()
    size = len(encode_event(GroupSnapshot(desk.group)))
    other = desk.start(event_bytes_max=size - less, snapshot_interval_ms=1_000)
    desk.settled().serve(other).pass_ms(1_500, other)
    assert len(desk.positions) == 1 - less
    assert desk.too_large == [(GroupSnapshot, size)] * less


@pytest.mark.parametrize("serves", [False, True])
def test_who_does_not_know_what_landed_competes_again_after_a_second(serves: bool) -> None:
    if serves:
        desk, connection, tenure = owner()
        desk.ask("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 5)))
    else:
        desk = Desk()
        desk.do(0, desk.servers[0].claimed(0, desk.now_ms))
        desk.confirm()
        desk.confirm()
    [lost] = desk.sent[0]
    desk.sent[0].clear()
    desk.do(0, desk.servers[0].append_failed(lost, desk.now_ms))
    starts = []
    for _ in range(10):
        desk.confirm()
        starts.append(len(desk.sent[0]))
        desk.now_ms += 100
        desk.tick()
    assert starts == [0] * 10
    desk.confirm()
    assert [type(record.event) for record in desk.sent[0]] == [ControllerStarted]
    desk.settled(0)
    assert desk.servers[0].serves(0)
