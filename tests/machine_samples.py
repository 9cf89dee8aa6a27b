"""What a machine does in the situations of `MCMachine.tla`, as TLC went through them, in a file.

This room reads and writes `tests/data/machines.jsonl.gz` and says what Python does where a row says
what the specification does. It does not know how the rows were chosen
(`model_tests/transitions/sample.py` does).

A row is one of

    reader  what somebody who began in the middle knows after one more record
    read    what an instance remembers after one more record
    state   what an instance may do, what it would send, and what it would then remember
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from kafka_marshal import FENCED, Claim, ClaimKey, Headers, Record, Rules
from kafka_marshal.core.claims.suffix_reader import NOTHING, Field, Reader, read_record
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from tests.triples import MESSAGES, given, record_given, record_read

PATH = Path(__file__).parent / "data" / "machines.jsonl.gz"
KEY = ClaimKey("g", "t", 0)
"""The one claim that the models have."""
POSITION_SET, ASKED_FOR, EXPIRES_UNIX_S = 3, 4, 7
"""Spec: Sending. The position, the offset and the expiry that are sent there."""

Guards: TypeAlias = Mapping[str, Forbidden | Mapping[int, Forbidden | None] | None]


@attrs.frozen
class State:
    """Everything that an instance can be asked. Spec: ExportState."""

    may: Guards
    sends: Mapping[str, Send]
    remembers: Mapping[str, ConsumerState]


@attrs.frozen
class Row:
    """One situation and what the specification says of it."""

    rules: Rules
    me: InstanceConfig | None
    """Nobody: it is about a reader."""
    before: Reader | ConsumerState
    record: Record | None
    """Nothing: it is about a state."""
    said: Reader | ConsumerState | State

    @property
    def deed(self) -> str:
        """`reader`, `read` or `state`."""
        return "reader" if self.me is None else "read" if self.record is not None else "state"


def python(row: Row) -> Reader | ConsumerState | State:
    """What Python says."""
    if isinstance(row.before, Reader):
        assert row.record is not None
        return told(read_record(row.before, row.record, row.rules)[0])
    assert row.me is not None
    if row.record is not None:
        after = machine.after_read(row.me, row.before, row.record)
        return attrs.evolve(after, reader=told(after.reader))
    return state(row.me, row.before, row.said)


def told(reader: Reader) -> Reader:
    """-1 is nothing in the specification, and so it is in a comparison with `reached`."""
    return attrs.evolve(reader, reached=None) if reader.reached == -1 else reader


def state(me: InstanceConfig, consumer: ConsumerState, asked: object) -> State:
    """What it may do, would send, would remember; numbers are asked as they were there."""
    assert isinstance(asked, State)
    offsets, messages = asked.may["claim_messages"], asked.may["process"]
    assert isinstance(offsets, Mapping)
    assert isinstance(messages, Mapping)
    return State(
        may={
            "claim": machine.may_claim(me, consumer),
            "act_as_owner": machine.may_act_as_owner(me, consumer),
            "heartbeat": machine.may_heartbeat(me, consumer),
            "release": machine.may_release(me, consumer),
            "release_group": machine.may_release_group(me, consumer),
            "process_grant": machine.may_process_grant(me, consumer),
            "give_up": machine.may_give_up(me, consumer),
            "claim_messages": {n: machine.may_claim_messages(me, consumer, n) for n in offsets},
            "process": {n: machine.may_process(me, consumer, n) for n in messages},
        },
        sends={
            "claiming_partition": machine.claiming_partition_sent(me, consumer, KEY),
            "heartbeat": machine.heartbeat_sent(me, consumer, KEY),
            "releasing_partition": machine.releasing_partition_sent(me, consumer, KEY),
            "position": machine.position_sent(me, consumer, KEY, POSITION_SET),
            "claiming_messages": machine.claiming_messages_sent(me, consumer, KEY, ASKED_FOR),
            "release_group": machine.release_group_sent(me, KEY.group, EXPIRES_UNIX_S),
        },
        remembers={
            "claiming_partition": machine.after_claiming_partition(me, consumer),
            "release": machine.after_release(me, consumer),
            "claiming_messages": machine.after_claiming_messages(me, consumer, ASKED_FOR),
            "process": machine.after_process(me, consumer),
            "process_grant": machine.after_process_grant(me, consumer),
            "giving_up": machine.after_giving_up(me, consumer),
        },
    )


# --- the file -------------------------------------------------------------------------------------


@functools.cache
def read(path: Path = PATH) -> tuple[Row, ...]:
    """Every row in the file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return tuple(_row(json.loads(each)) for each in lines)


def write(rows: Iterable[Row], path: Path = PATH) -> None:
    """Write them sorted, so that the same rows are the same bytes."""
    text = "".join(f"{each}\n" for each in sorted(map(line, rows)))
    path.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))


DURATIONS = ("heartbeat_interval_ms", "pause_max_ms", "clock_rewind_max_ms")


def line(row: Row) -> str:
    """One row as JSON. What has its default value is left out."""
    written = {"durations": _json([getattr(row.rules, name) for name in DURATIONS])}
    if row.me is not None:
        written["me"] = _me_text(row.me)
    if row.record is not None:
        written["record"] = _record_text(row.record)
    written["before"] = _machine_text(row.before)
    said = row.said
    written["said"] = _state_text(said) if isinstance(said, State) else _machine_text(said)
    return _joined(written)


# Rows repeat their parts, so each part becomes text once.

_json = json.JSONEncoder(separators=(",", ":")).encode


def _joined(written: Mapping[str, str]) -> str:
    """The object with these fields, which are JSON already."""
    return "{" + ",".join(f'"{name}":{text}' for name, text in written.items()) + "}"


@functools.cache
def _me_text(me: InstanceConfig) -> str:
    return _json({**given(me, ("rules", "mode")), "mode": me.mode.value})


@functools.cache
def _record_text(record: Record) -> str:
    return _json(record_given(record))


@functools.cache
def _sent_text(sent: Send) -> str:
    return _json(
        {
            "type": type(sent.message).__name__,
            "message": given(sent.message),
            "headers": given(sent.headers),
        }
    )


@functools.cache
def _machine_text(value: Reader | ConsumerState) -> str:
    return _json(_machine_given(value))


def _machine_given(value: Reader | ConsumerState) -> dict[str, Any]:
    if isinstance(value, Reader):
        certain = sorted(value.certain.names)
        return {
            **given(value, ("claim", "certain")),
            "claim": given(value.claim),
            "certain": certain,
        }
    granted = [[each.start, each.stop] for each in value.granted]
    reader = _machine_given(value.reader)
    return {**given(value, ("reader", "granted")), "reader": reader, "granted": granted}


def _state_text(said: State) -> str:
    def answer(against: object) -> Any:
        if isinstance(against, Mapping):
            return {str(n): answer(each) for n, each in against.items()}
        return against.value if isinstance(against, Forbidden) else None

    return _joined(
        {
            "may": _json({name: answer(against) for name, against in said.may.items()}),
            "sends": _joined({name: _sent_text(sent) for name, sent in said.sends.items()}),
            "remembers": _joined(
                {name: _machine_text(after) for name, after in said.remembers.items()}
            ),
        }
    )


def _row(written: dict[str, Any]) -> Row:
    rules = attrs.evolve(FENCED, **dict(zip(DURATIONS, written["durations"], strict=True)))
    who = written.get("me")
    me = (
        None
        if who is None
        else InstanceConfig(**{**who, "mode": Mode(who["mode"]), "rules": rules})
    )
    record = record_read(written["record"]) if "record" in written else None
    before, said = written["before"], written["said"]
    if me is None:
        return Row(rules, me, _reader(before), record, _reader(said))
    after = _consumer(said) if record is not None else _state(said)
    return Row(rules, me, _consumer(before), record, after)


def _reader(written: dict[str, Any]) -> Reader:
    certain = NOTHING
    for name in written["certain"]:
        certain |= Field[name.upper()]
    return Reader(**{**written, "claim": Claim(**written["claim"]), "certain": certain})


def _consumer(written: dict[str, Any]) -> ConsumerState:
    granted = tuple(range(start, stop) for start, stop in written["granted"])
    return ConsumerState(**{**written, "reader": _reader(written["reader"]), "granted": granted})


def _state(written: dict[str, Any]) -> State:
    def answer(against: Any) -> Any:
        if isinstance(against, dict):
            return {int(n): answer(each) for n, each in against.items()}
        return None if against is None else Forbidden(against)

    return State(
        may={name: answer(against) for name, against in written["may"].items()},
        sends={
            name: Send(MESSAGES[sent["type"]](**sent["message"]), Headers(**sent["headers"]))
            for name, sent in written["sends"].items()
        },
        remembers={name: _consumer(after) for name, after in written["remembers"].items()},
    )
