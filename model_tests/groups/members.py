"""Everything that a member may do in worlds of `MCGroupWorld.tla`, in Python's words.

The model's module is extended by an export of its members. In each state it has what each of them
would ask, and what it would remember of one more message. It has how each takes every answer that
is on its way, also one that it must ignore. All rows are kept as TLC printed them
(`members.tsv.gz`), so they are held against the Python also where there is no Java.
`python -m model_tests.groups.members` writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from kafka_marshal.core.groups.events import At
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.machines.groups import group_member
from kafka_marshal.machines.groups.group_member import (
    GroupMemberState,
    MemberAnswer,
    MemberRequest,
)
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.scratch import Scratch
from model_tests import from_tla
from model_tests.from_tla import NONE
from model_tests.groups import exports
from model_tests.groups.from_tla import partitions, positions

SAMPLE = Path(__file__).parent / "members.tsv.gz"
AT_REST = {"Beginning": "AloneOne", "Ms": '{"m1"}', "LogMax": "6", "RewindsMax": "0"}
"""Here a member that has processed something hears what it knows. In no model it does."""
MODULE = """---- MODULE MembersOfGroupWorld ----
EXTENDS MCGroupWorld, Export
Asked(m, self) ==
    FirstTime(<<"Ask", self>>) =>
        Export(<<"Ask", self, RequestOf(m, self, 1, 0), AfterAsking(self)>>)
Heard(self, answer) ==
    FirstTime(<<"Hear", self, answer>>) =>
        Export(<<"Hear", self, answer,
                 <<IsOld(self, answer), IsClosed(self, answer), AfterAnswer(self, answer)>> >>)
Handled(self, tp) ==
    FirstTime(<<"Process", self, tp>>) => Export(<<"Process", self, tp, Processed(self, tp)>>)
ExportMembers ==
    \\A m \\in Ms :
        /\\ Asked(m, members[m])
        /\\ \\A answer \\in answers : answer.member = m => Heard(members[m], answer)
        /\\ \\A tp \\in members[m].holds : Handled(members[m], tp)
====
"""


@attrs.frozen
class Deed:
    """One thing that a member may do."""

    kind: str
    before: GroupMemberState
    what: object
    said: tuple[object, ...]
    """What the specification makes of it."""

    def taken(self) -> tuple[object, ...]:
        """What the Python makes of it, now."""
        match self.what:
            case None:
                asked = group_member.request_of(self.before)
                return asked, group_member.after_asking(self.before)
            case MemberAnswer() as answer:
                after = group_member.after_answer(self.before, answer)
                refused = group_member.is_old, group_member.is_closed
                return *(guard(self.before, answer) for guard in refused), _from_the_start(after)
            case TopicPartition() as tp:
                offset = self.before.at[tp].offset + 1
                return (group_member.processed(self.before, tp, offset),)
            case other:
                raise AssertionError(other)


def _from_the_start(member: GroupMemberState) -> GroupMemberState:
    """In the specification a partition without a position begins at 0."""
    told = {tp: At(one.tenure, max(one.offset, 0)) for tp, one in member.at.items()}
    return attrs.evolve(member, at=told)


def exported(model: Model, folder: Path, bounds: Mapping[str, str] = exports.NO_BOUNDS) -> Path:
    """The export of a world, run by TLC, perhaps in other bounds.

    In small worlds members commit nothing: what they would say is asked all the same.
    """
    return exports.exported("Members", MODULE, model, folder, bounds, as_defined=("Says",))


def deed(value: Value) -> Deed:
    """One row, its columns as `MODULE` writes them."""
    assert isinstance(value, tuple)
    kind, before, what, *said = value
    match kind:
        case "Ask":
            [after] = said
            return Deed("Ask", member(before), None, (request(what), member(after)))
        case "Hear":
            [heard] = said
            assert isinstance(heard, tuple)
            is_old, is_closed, after = heard
            return Deed("Hear", member(before), answer(what), (is_old, is_closed, member(after)))
        case _:
            [after] = said
            [tp] = partitions([what])
            return Deed("Process", member(before), tp, (member(after),))


def member(value: Value) -> GroupMemberState:
    """What a member remembers."""
    given = _fields(value, GroupMemberState)
    return GroupMemberState(
        **{**given, "holds": partitions(given["holds"]), "at": positions(given["at"])}
    )


def request(value: Value) -> MemberRequest:
    """What it asks; the model knows of whom, where to and when, too."""
    given = _fields(value, MemberRequest, "member", "to", "sent")
    return MemberRequest(
        given["connection"],
        None if given["as_of"] == NONE else given["as_of"],
        partitions(given["held"]),
        positions(given["positions"]),
    )


def answer(value: Value) -> MemberAnswer:
    """What it is answered; the model knows who it is, and when it asked, too."""
    given = _fields(value, MemberAnswer, "member", "sent")
    return MemberAnswer(**{**given, "own": positions(given["own"])})


def _fields(value: Value, kind: type[Any], *left_out: str) -> Mapping[str, Any]:
    given = dict(from_tla.fields(value))
    for name in left_out:
        given.pop(name)
    assert given.keys() == {field.name for field in attrs.fields(kind)}, kind
    return given


def kinds(rows: Iterable[Deed]) -> Counter[tuple[str, object]]:
    """How often each kind came, and of answers whether they were old or of a closed connection."""
    return Counter((row.kind, row.said[:2] if row.kind == "Hear" else None) for row in rows)


# --- the sample -----------------------------------------------------------------------------------


@cache
def sample() -> tuple[Deed, ...]:
    """Every row of every model, as it was last exported."""
    return tuple(map(deed, exports.values_of(SAMPLE)))


def all_lines() -> list[str]:
    """The lines of every model's export, each once, sorted."""
    known, lines = models.read(), set[str]()
    worlds = [(model, exports.NO_BOUNDS) for model in known if exports.of_timeless_worlds(model)]
    with Scratch("member-edges") as folder:
        for model, bounds in (*worlds, (models.find("MCGroupWorld_Rewind", known), AT_REST)):
            lines.update(line for line, _ in exports.lines_of(exported(model, folder, bounds)))
    return sorted(lines)


def main() -> None:
    """Write the sample anew."""
    lines = all_lines()
    exports.write(lines, SAMPLE)
    print(f"{len(lines):,} rows in {SAMPLE.name}")


if __name__ == "__main__":
    main()
