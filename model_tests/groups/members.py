"""Everything that a member may do in worlds of `MCGroupWorld.tla`, in Python's words.

The model's module is extended by an export of its members. In each state it has what each of them
would ask, and what it would remember of one more message. It has how each takes every answer that
is on its way, also one that it must ignore. All rows are kept as TLC printed them
(`members.tsv.gz`), so they are held against the Python also where there is no Java.
`python -m model_tests.groups.members` writes them.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
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
from kafka_marshal.modelcheck import edges, models
from kafka_marshal.modelcheck.edges import Export
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc.output import TlcResult
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.scratch import Scratch
from model_tests import from_tla
from model_tests.explorer import configuration
from model_tests.from_tla import NONE
from model_tests.groups.from_tla import partitions, positions

SAMPLE = Path(__file__).parent / "members.tsv.gz"
NO_BOUNDS: Mapping[str, str] = {}
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


def of_timeless_worlds(model: Model) -> bool:
    """It is a world of `MCGroupWorld.tla` that must hold, and no time passes in it."""
    if model.module.stem != "MCGroupWorld" or model.must_fail:
        return False
    return "Timeout" not in configuration.read(model.cfg).substituted


def exported(model: Model, folder: Path, bounds: Mapping[str, str] = NO_BOUNDS) -> Path:
    """Run TLC on a model, perhaps in other bounds; returns the export.

    What the model promises is `make spec`'s part.
    """
    module, cfg = folder / "MembersOfGroupWorld.tla", folder / f"{model.name}.cfg"
    module.write_text(MODULE, encoding="utf-8")
    told = configuration.read(model.cfg)
    lines = ["SPECIFICATION Spec", "CONSTANTS"]
    assigned = {name: bounds.get(name, value) for name, value in told.assigned.items()}
    lines += [f"  {name} = {value}" for name, value in assigned.items()]
    # In small worlds members commit nothing: what they would say is asked all the same.
    substituted = {name: by for name, by in told.substituted.items() if name != "Says"}
    substituted |= {name: bounds[name] for name in substituted.keys() & bounds.keys()}
    lines += [f"  {name} <- {by}" for name, by in substituted.items()]
    cfg.write_text("\n".join([*lines, "INVARIANT ExportMembers", ""]), encoding="utf-8")
    target = folder / f"{model.name}.tsv"
    libraries = [*models.libraries(), model.module.parent]
    export = edges.export(module, cfg, target, check_deadlock=False, libraries=libraries)
    return export.path


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


def deeds(path: Path) -> Iterator[Deed]:
    """What the lines of an export are."""
    return map(deed, Export(path, 0, 0, _NO_RUN).read())


_NO_RUN: TlcResult = None  # type: ignore[assignment]  # `read` asks only for the path


@contextmanager
def unpacked() -> Iterator[Path]:
    """The sample, as TLC printed it."""
    with Scratch("member-sample") as folder:
        path = folder / SAMPLE.stem
        path.write_bytes(gzip.decompress(SAMPLE.read_bytes()))
        yield path


@cache
def sample() -> tuple[Deed, ...]:
    """Every row of every model, as it was last exported."""
    with unpacked() as path:
        return tuple(deeds(path))


def _lines(path: Path) -> set[str]:
    return {*path.read_text("utf-8").splitlines(keepends=True)}


def all_lines() -> list[str]:
    """The lines of every model's export, each once, sorted."""
    lines = set[str]()
    with Scratch("member-edges") as folder:
        for model in models.read():
            if of_timeless_worlds(model):
                lines |= _lines(exported(model, folder))
        lines |= _lines(
            exported(models.find("MCGroupWorld_Rewind", models.read()), folder, AT_REST)
        )
    return sorted(lines)


def main() -> None:
    """Write the sample anew."""
    lines = all_lines()
    SAMPLE.write_bytes(gzip.compress("".join(lines).encode("utf-8"), mtime=0))
    print(f"{len(lines):,} rows in {SAMPLE.name}")


if __name__ == "__main__":
    main()
