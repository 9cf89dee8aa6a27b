"""Every step that TLC takes in `MCGroupEvents.tla`, in Python's words, and a sample of them.

The sample is kept as TLC printed it (`steps.tsv.gz`), so it is read by the same translation as an
export, also where there is no Java. `python -m model_tests.groups.edges` writes it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from pathlib import Path

import attrs

from kafka_marshal.core.groups.events import At, EventRecord, Rebalanced, Reconciled
from kafka_marshal.core.groups.invariants import GroupStep
from kafka_marshal.core.groups.reducer import GroupOutcome, step
from kafka_marshal.core.groups.state import Controllership, Group, TopicPartition, is_due
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.edges import Export
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.scratch import Scratch
from model_tests import tlc_export
from model_tests.groups import exports, from_tla
from model_tests.transitions.sample import covering, side

SAMPLE = Path(__file__).parent / "steps.tsv.gz"


@attrs.frozen
class Row:
    """One step of `MCGroupEvents.tla`."""

    before: Controllership
    record: EventRecord
    said: GroupOutcome
    """What the specification makes of it."""

    def taken(self) -> GroupOutcome:
        """What the Python makes of it, now."""
        return step(self.before, self.record)

    def step_taken(self) -> GroupStep:
        """The step that the Python takes, to be judged."""
        return GroupStep(self.before, self.record, self.taken())


@attrs.frozen
class Held:
    """What came of one model's rows."""

    name: str
    edges: int
    """Transitions that TLC took."""
    rows: int
    partings: int
    """Rows that the Python takes otherwise."""
    first: str
    kinds: Counter[object]
    """How often each verdict was given."""


def of_groups(model: Model) -> bool:
    """It is a world of `MCGroupEvents.tla` that must hold."""
    return model.module.stem == "MCGroupEvents" and not model.must_fail


def exported(model: Model, folder: Path) -> Export:
    """Run TLC, and keep what the model exports. What it promises is `make spec`'s part."""
    return tlc_export.export(
        model.module,
        model.cfg,
        folder / f"{model.name}.tsv",
        workers=1,
        check_deadlock=model.deadlock_check,
        short=True,
        libraries=models.libraries(),
    )


def row(value: Value) -> Row:
    """One row, its columns as `MCGroupEvents.tla` writes them."""
    assert isinstance(value, tuple)
    before, record, outcome = value
    return Row(from_tla.controllership(before), from_tla.record(record), from_tla.outcome(outcome))


def held(model: Model) -> Held:
    """Every row of one model against the Python."""
    with Scratch("group-edges") as folder:
        export = exported(model, folder)
        kinds: Counter[object] = Counter()
        partings, rows, first = 0, 0, ""
        for each in map(row, export.read()):
            rows += 1
            kinds.update(verdicts(each.said))
            if each.taken() != each.said:
                partings += 1
                first = first or f"{each}\n  Python: {each.taken()}"
        return Held(model.name, export.calls, rows, partings, first, kinds)


def verdicts(outcome: GroupOutcome) -> list[object]:
    """Every verdict that an outcome gives."""
    return [outcome.verdict, *outcome.positions.values(), *outcome.releases.values()]


# --- the sample -----------------------------------------------------------------------------------


def situation(each: Row) -> Hashable:
    """What was asked, and roughly what came of it."""
    group = each.before.groups.get(each.record.group)
    rebalance = None if group is None else group.rebalance
    return type(each.record.event), each.said.verdict, rebalance


def answers(each: Row) -> tuple[Hashable, ...]:
    """Everything that a rule asks of a controllership and an event, and the effect."""
    before, record, said = each.before, each.record, each.said
    group, after = before.groups.get(record.group), said.controllership.groups.get(record.group)
    event = record.event
    named = getattr(event, "member", None)
    return (
        (side(record.epoch, before.epoch), side(record.number, before.number + 1)),
        (len(before.groups), before.epoch < 0, getattr(event, "supersedes", None) == before.epoch),
        None if group is None else (named in group.members, len(group.members), is_due(group)),
        None if group is None else _of_partitions(group, named),
        _of_reconciled(event, group) if isinstance(event, Reconciled) else None,
        len(event.target) if isinstance(event, Rebalanced) else None,
        getattr(event, "fresh", None),
        getattr(event, "count", None),
        tuple(sorted(each.value for each in {*said.positions.values()})),
        tuple(sorted(each.value for each in {*said.releases.values()})),
        None if group is None or after is None else _changed(group, after),
    )


def _of_partitions(group: Group, member: str | None) -> Hashable:
    """How the partitions stand, each once."""
    return frozenset(
        (
            each.owner is None,
            each.owner == member,
            each.owner == each.target,
            each.target in group.members,
            each.revoking > 0,
            each.tenure > 0,
            group.exists(tp),
        )
        for tp, each in group.partitions.items()
    )


def _of_reconciled(event: Reconciled, group: Group | None) -> Hashable:
    if group is None:
        return event.commits_only
    told = max((each.revoking for each in group.partitions.values()), default=0)
    known = {tp: at for tp, at in event.positions.items() if tp in group.partitions}
    return (
        event.commits_only,
        side(event.as_of, group.generation),
        side(event.as_of, told),
        frozenset(_of_position(group, tp, at) for tp, at in known.items()),
    )


def _of_position(group: Group, tp: TopicPartition, at: At) -> Hashable:
    state = group.partitions[tp]
    return side(at.tenure, state.tenure), side(at.offset, state.position)


def _changed(before: Group, after: Group) -> Hashable:
    """The names of the fields that are not what they were, and of its partitions'."""
    of_group = {f.name for f in attrs.fields(Group) if _differ(before, after, f.name)}
    of_partitions = {
        f.name
        for tp in before.partitions.keys() & after.partitions.keys()
        for f in attrs.fields(type(before.partitions[tp]))
        if _differ(before.partitions[tp], after.partitions[tp], f.name)
    }
    return tuple(sorted(of_group)), tuple(sorted(of_partitions))


def _differ(one: object, other: object, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def chosen(lines: Iterator[tuple[str, Row]]) -> list[str]:
    """Lines of an export that together show every two answers that occur in some situation."""
    return [line for line, _ in covering(lines, _situation, _answers, _line)]


def _situation(each: tuple[str, Row]) -> Hashable:
    return situation(each[1])


def _answers(each: tuple[str, Row]) -> tuple[Hashable, ...]:
    return answers(each[1])


def _line(each: tuple[str, Row]) -> str:
    return each[0]


def rows_of(path: Path) -> Iterator[tuple[str, Row]]:
    """Each line of an export, and what it is."""
    return ((line, row(value)) for line, value in exports.lines_of(path))


@cache
def sample() -> tuple[Row, ...]:
    """The rows of the sample."""
    return tuple(map(row, exports.values_of(SAMPLE)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the sample anew."""
    parser = argparse.ArgumentParser(prog="make triples", description=main.__doc__)
    parser.add_argument("--into", type=Path, help="a folder to write to, not this one")
    parser.add_argument("--only", nargs="+", metavar="MODEL", help="export these; needs --into")
    asked = parser.parse_args(arguments)
    if asked.only and not asked.into:
        parser.error("a sample of some models is not the one that is kept: --only needs --into")
    target = (asked.into or SAMPLE.parent) / SAMPLE.name
    with Scratch("group-edges") as folder:
        found = [
            each
            for model in models.read()
            if of_groups(model) and (asked.only is None or model.name in asked.only)
            for each in rows_of(exported(model, folder).path)
        ]
    kept = chosen(iter(found))
    exports.write(kept, target)
    print(f"{len(kept):,} of {len(found):,} rows in {SAMPLE.name}")


if __name__ == "__main__":
    main()
