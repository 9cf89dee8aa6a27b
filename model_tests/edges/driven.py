"""Rows of `Edges.tla` driven through the machine: the same effects, the same next state.

This room says where the machine and the specification part. It does not know where rows come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, assert_never

import attrs

from kafka_marshal import ClaimingMessages, ClaimingPartition, Heartbeat, ReleaseGroup
from kafka_marshal import ReleasingPartition as Release
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.scratch import Scratch
from model_tests import from_tla
from model_tests.edges.consumer_edges import Deed, Deeds, Row, export, stored
from model_tests.explorer.claims.instance import Instance, Sending


@attrs.frozen
class Parting:
    """Where the machine does something else than the specification."""

    row: Row
    python: object
    """What the machine does in the place of what the row says."""

    def __str__(self) -> str:
        row = self.row
        specified = f"specified {row.what} then {row.after}"
        return f"{row.deed} of {row.who}\n  {row.before}\n  {specified}\n  Python {self.python}"


def partings(deeds: Deeds) -> Iterator[Parting]:
    """Every row of which the machine says otherwise."""
    with deeds.replaced.made():
        for row in deeds.rows:
            python, specified = drive(row, deeds)
            if python != specified:
                yield Parting(row, python)


def differs(deeds: Deeds) -> bool:
    """Some row is not as the machine says. A machine that fails has answered something else too."""
    try:
        return any(True for _ in partings(deeds))
    except (AssertionError, ValueError):
        return True


def drive(row: Row, deeds: Deeds) -> tuple[object, object]:
    """What the machine does in the situation of a row, and what the row says."""
    who = row.who
    if row.deed is Deed.READER:
        python = deeds.fold.read_record(from_tla.reader(row.before), stored(row.what))
        return python, from_tla.reader(row.after)
    assert who is not None
    if row.deed is Deed.START:
        assert isinstance(row.before, int)
        return ConsumerState.beginning_at(row.before), from_tla.consumer(row.after)
    before = from_tla.consumer(row.before)
    match row.deed:
        case Deed.SEND:
            sent = from_tla.sent(row.what)
            return ways_to_send(who, before, sent), [Sending(sent, from_tla.consumer(row.after))]
        case Deed.GIVE_UP:
            return [*who.give_up(before)], [from_tla.consumer(row.after)]
        case Deed.READ:
            return who.read(before, stored(row.what)), from_tla.consumer(row.after)
        case Deed.GAP:
            assert isinstance(row.what, int)
            return who.gap(before, row.what), from_tla.consumer(row.after)
        case Deed.PROCESS:
            return ways_to_process(who, before), [
                (_messages(row.what), from_tla.consumer(row.after))
            ]
        case Deed.MAY:
            return answers(who, before, row.what), spoken(row.what)
        case _:
            assert_never(row.deed)


def ways_to_send(who: Instance, before: ConsumerState, sent: Send) -> list[Sending]:
    """What it may send of this kind, at the offset or expiry that was sent."""
    match sent.message:
        case ClaimingPartition():
            return [*who.claiming_partition(before)]
        case Heartbeat():
            return [*who.heartbeat(before)]
        case Release(offset=offset):
            return [*who.releasing_partition(before, [offset])]
        case ClaimingMessages(offset=offset):
            return [*who.claiming_messages(before, [offset])]
        case ReleaseGroup(expires_unix_s=expires_unix_s):
            return [*who.release_group(before, expires_unix_s)]
        case _:
            assert_never(sent.message)


def ways_to_process(
    who: Instance, before: ConsumerState
) -> list[tuple[frozenset[int], ConsumerState]]:
    """The messages that it may process now, and what it then remembers."""
    one = [(frozenset({message}), after) for message, after in who.process(before)]
    granted = [
        (frozenset(m for each in ranges for m in each), after)
        for ranges, after in who.process_grant(before)
    ]
    return one + granted


def _messages(value: Value) -> frozenset[int]:
    assert isinstance(value, frozenset)
    return frozenset(m for m in value if isinstance(m, int))


Answers = Mapping[str, Forbidden | dict[int, Forbidden | None] | None]


def answers(who: Instance, before: ConsumerState, asked: Value) -> Answers:
    """What every guard of the machine says, for the arguments that the row asked about."""
    me = who.me
    simple: dict[str, Callable[[], Forbidden | None]] = {
        "claim": lambda: machine.may_claim(me, before),
        "heartbeat": lambda: machine.may_heartbeat(me, before),
        "release": lambda: machine.may_release(me, before),
        "release_group": lambda: machine.may_release_group(me, before),
        "process_grant": lambda: machine.may_process_grant(me, before),
        "give_up": lambda: machine.may_give_up(me, before),
        "act_as_owner": lambda: machine.may_act_as_owner(me, before),
    }
    with_number: dict[str, Callable[[int], Forbidden | None]] = {
        "claim_messages": lambda offset: machine.may_claim_messages(me, before, offset),
        "process": lambda message: machine.may_process(me, before, message),
    }
    given = from_tla.fields(asked)
    assert set(given) == set(simple) | set(with_number)
    return {name: guard() for name, guard in simple.items()} | {
        name: {number: guard(number) for number in given[name]}
        for name, guard in with_number.items()
    }


def spoken(asked: Value) -> Answers:
    """What every guard of the specification says."""

    def answer(said: Any) -> Forbidden | dict[int, Forbidden | None] | None:
        if isinstance(said, Mapping):
            return {number: from_tla.forbidden(each) for number, each in said.items()}
        return from_tla.forbidden(said)

    return {name: answer(said) for name, said in from_tla.fields(asked).items()}


def reasons(deeds: Iterable[Deeds]) -> set[Forbidden]:
    """Every reason against that some guard gives in these rows."""
    found: set[Forbidden | None] = set()
    for each in deeds:
        for row in each.rows:
            if row.deed is Deed.MAY:
                for said in spoken(row.what).values():
                    found |= set(said.values()) if isinstance(said, dict) else {said}
    return {reason for reason in found if reason is not None}


@attrs.frozen
class Driven:
    """What became of the rows that a model exported."""

    name: str
    rows: int
    edges: int
    partings: int
    first: str
    """The first parting, in words."""


def of_model(model: Model) -> Driven:
    """Export what the instances of a model do, and drive each row through the machine."""
    with Scratch("edges") as desk:
        deeds = export(model, desk, readers=model.module.stem == "MCSuffix")
    parted = list(partings(deeds))
    first = str(parted[0]) if parted else ""
    return Driven(model.name, len(deeds.rows), deeds.edges, len(parted), first)
