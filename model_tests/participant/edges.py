"""What participants of `MCParticipant.tla` may do, as TLC exports it, and whether Python agrees.

A row is one participant in one situation: the answers of every guard, what each allowed action
sends and remembers; or a record that it reads next. Time is the clock's here, as Python has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.ranges import participant as machine
from kafka_marshal.machines.ranges.effects import SendRecord
from kafka_marshal.machines.ranges.participant import (
    HeldRange,
    Participant,
    ParticipantConfig,
    ParticipantForbidden,
)
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.tlc.values import Value
from model_tests import from_tla, tlc_export
from model_tests.edges import consumer_edges
from model_tests.explorer import configuration
from model_tests.from_tla import PASSES, snake
from model_tests.ranges import from_tla as ranges_from_tla

MODULE = Path(__file__).parent / "ParticipantEdges.tla"
KEY = ClaimKey("g", "t", 0)
BY_THE_CLOCK = {
    "RecordSaysStale": "ClockSaysStale",
    "RecordSaysPaused": "ClockSaysPaused",
    "RecordSaysSilent": "ClockSaysSilent",
    "AnySilent": "NoChoice",
}


@attrs.frozen
class Row:
    """One row of `ParticipantEdges.tla`; `what` is still a TLA+ value."""

    me: ParticipantConfig
    before: Participant
    kind: str
    what: Any


# --- values ---------------------------------------------------------------------------------------


@cache
def participant(value: Value) -> Participant:
    """A participant; fails if a field is missing or new."""
    given = from_tla.fields(value)
    assert set(given) == {field.name for field in attrs.fields(Participant)}
    held = sorted((_held(each) for each in given["held"]), key=lambda each: each.id)
    return Participant(
        from_tla.claim(given["claim"]),
        ranges_from_tla.ranges(given["ranges"]),
        given["view"],
        tuple(held),
        given["asked"],
        given["requested"],
        given["leaving"],
    )


def _held(value: Value) -> HeldRange:
    given = from_tla.fields(value)
    named = {"from_" if name == "from" else name: number for name, number in given.items()}
    assert set(named) == {field.name for field in attrs.fields(HeldRange)}
    return HeldRange(**named)


def config(bounds: Any, value: Value) -> ParticipantConfig:
    """Who a participant is, and the bounds of its model."""
    heartbeat_interval_ms, pause_max_ms, *limits = bounds
    rules = from_tla.rules("fenced", heartbeat_interval_ms, pause_max_ms)
    given = from_tla.fields(value)
    return ParticipantConfig(**given, rules=rules, limits=ranges_from_tla.limits(*limits))


def forbidden(name: Value) -> ParticipantForbidden | None:
    """What a guard says; fails if Python has no such reason."""
    return None if name == PASSES else ParticipantForbidden(snake(str(name)))


@cache
def sent(value: Value) -> SendRecord:
    """What a participant sends, without what only readers from the middle look at."""
    given = from_tla.fields(value)
    return SendRecord(
        ranges_from_tla.message(given["message"]),
        from_tla.headers(given["headers"]),
        ranges_from_tla.range_headers(given["range_headers"]),
    )


def as_specified(send: SendRecord) -> SendRecord:
    """A record without the clock and the checkpoint, which `Participant.tla` does not know."""
    headers = attrs.evolve(send.headers, clock=None)
    return attrs.evolve(send, headers=headers, checkpoint=None)


# --- both sides -----------------------------------------------------------------------------------

Answer = tuple[object, ...]


def specified(row: Row) -> object:
    """What the row says."""
    if row.kind == "Read":
        return participant(row.what[1])
    given = from_tla.fields(row.what)
    answers: dict[object, object] = {}
    for name, said in given.items():
        if name == "leaving":
            answers[name] = participant(said)
        elif name in ("begin", "finish"):
            answers.update({(name, id_, x): _answer(each) for id_, x, each in said})
        elif name in ("reserve", "ask_range"):
            answers.update({(name, number): _answer(each) for number, each in _by_number(said)})
        else:
            answers[name] = _answer(said)
    return answers


def _by_number(said: Any) -> Iterator[tuple[int, Any]]:
    """A function of numbers; TLC writes one from 1 on as a sequence."""
    if isinstance(said, tuple):
        return iter(enumerate(said, start=1))
    return iter(said.items())


def _answer(said: Any) -> Answer:
    may, *more = said
    if may != PASSES:
        return (forbidden(may),)
    if len(more) == 2:
        return (None, sent(more[0]), participant(more[1]))
    return (None, participant(more[0]))


def python(row: Row) -> object:
    """What the machine does in the place of what the row says."""
    me, before = row.me, row.before
    if row.kind == "Read":
        return machine.after_read(me, before, ranges_from_tla.landed(row.what[0]).record)
    given = from_tla.fields(row.what)
    m = machine
    answers: dict[object, object] = {
        "claim_anchor": _sending(
            m.may_claim_anchor(me, before),
            lambda: m.claim_anchor_sent(me, before, KEY),
            lambda: m.after_claiming(me, before),
        ),
        "claim_alone": _sending(
            m.may_claim_alone(me, before),
            lambda: m.claim_alone_sent(me, before, KEY),
            lambda: m.after_claiming(me, before),
        ),
        "release_alone": _sending(
            m.may_release_alone(me, before),
            lambda: m.release_alone_sent(me, before, KEY),
            lambda: before,
        ),
        "beat_anchor": _sending(
            m.may_beat_anchor(me, before),
            lambda: m.beat_anchor_sent(me, before, KEY),
            lambda: before,
        ),
        "speak": _sending(
            m.may_speak(me, before), lambda: m.speak_sent(me, before, KEY), lambda: before
        ),
        "give_back": _sending(
            m.may_give_back(me, before),
            lambda: m.give_back_sent(me, before, KEY),
            lambda: m.after_give_back(me, before),
        ),
        "leaving": m.after_leaving(me, before),
        "give_up": _remembering(m.may_give_up(me, before), lambda: m.after_giving_up(me, before)),
    }
    for offset, _ in _by_number(given["reserve"]):
        answers["reserve", offset] = _sending(
            m.may_reserve(me, before, offset),
            lambda offset=offset: m.reserve_sent(me, before, KEY, offset),  # type: ignore[misc]
            lambda: before,
        )
    for count, _ in _by_number(given["ask_range"]):
        answers["ask_range", count] = _sending(
            m.may_ask_range(me, before, count),
            lambda count=count: m.ask_range_sent(me, before, KEY, count),  # type: ignore[misc]
            lambda: m.after_ask_range(me, before),
        )
    for id_, x, _ in given["begin"]:
        against = m.may_begin(me, before, id_, x)
        answers["begin", id_, x] = _remembering(
            against,
            lambda id_=id_, x=x: m.after_begin(me, before, id_, x),  # type: ignore[misc]
        )
        against = m.may_finish(me, before, id_, x)
        answers["finish", id_, x] = _remembering(
            against,
            lambda id_=id_, x=x: m.after_finish(me, before, id_, x),  # type: ignore[misc]
        )
    return answers


def _sending(
    against: ParticipantForbidden | None,
    send: Callable[[], SendRecord],
    after: Callable[[], Participant],
) -> Answer:
    return (against,) if against is not None else (None, as_specified(send()), after())


def _remembering(against: ParticipantForbidden | None, after: Callable[[], Participant]) -> Answer:
    return (against,) if against is not None else (None, after())


def differs(row: Row) -> bool:
    """The machine says otherwise. One that fails has answered something else, too."""
    try:
        return python(row) != specified(row)
    except (AssertionError, ValueError):
        return True


def parting(row: Row) -> str:
    """In words, what differs."""
    ours, theirs = python(row), specified(row)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = [key for key in theirs if ours.get(key) != theirs[key]]
        ours, theirs = {k: ours.get(k) for k in keys}, {k: theirs[k] for k in keys}
    return f"{row.me}\n{row.before}\n  specified {theirs}\n  Python    {ours}"


# --- rows -----------------------------------------------------------------------------------------


def reasons(rows: list[Row]) -> Counter[ParticipantForbidden | None]:
    """How often each guard answers what."""
    found: Counter[ParticipantForbidden | None] = Counter()
    for row in rows:
        if row.kind == "May":
            said = specified(row)
            assert isinstance(said, dict)
            found.update(each[0] for each in said.values() if isinstance(each, tuple))
    return found


def exported(name: str, folder: Path, **bounds: int | str) -> list[Row]:
    """Run TLC on a model of `MCParticipant.tla`, by the clock, with other bounds."""
    model = consumer_edges.find(name)
    text = configuration.without_promises(model.cfg)
    for free, clock in BY_THE_CLOCK.items():
        text = text.replace(f"<- {free}", f"<- {clock}")
    for constant, number in bounds.items():
        text = re.sub(rf"{constant} (=|<-) \w+", rf"{constant} \1 {number}", text)
    cfg = folder / f"{name}.cfg"
    cfg.write_text(f"{text}INVARIANT ExportParticipants\n", encoding="utf-8")
    target = folder / f"{name}.tsv"
    export = tlc_export.export(
        MODULE, cfg, target, check_deadlock=False, short=True, libraries=models.libraries()
    )
    values: Iterator[Any] = export.read()
    return [
        Row(config(bounds_, me), participant(before), kind, what)
        for bounds_, me, before, kind, what in values
    ]
