"""Whiteboard stories of groups: events typed by hand, outcomes written by the reducer.

A story is a text file. `#` lines are prose. A line that begins with `@` is a record: its offset,
its group or `-`, epoch and number as `3/7` or `-`, and its value. The indented lines below it are
what came of it, and `make golden` rewrites them.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.groups.events import ControllershipSnapshot, EventRecord
from kafka_marshal.core.groups.reducer import GroupOutcome, begun_at, step, stops_reader
from kafka_marshal.core.groups.state import Controllership, Group, TopicPartition, is_due
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.group_codec.records import EPOCH_HEADER, NUMBER_HEADER, decode_record


@attrs.frozen
class Told:
    """A story as it should read, and the verdicts that occur in it."""

    text: str
    verdicts: frozenset[object]


def tell(path: Path) -> Told:
    """The story in a file with every outcome computed anew."""
    now: Controllership | None = Controllership()
    verdicts: set[object] = set()
    lines: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("    "):
            continue
        lines.append(line)
        if line == "retention cuts the log here":
            now = None
        elif line.startswith("@"):
            try:
                record = _record(line)
            except MalformedRecord as error:
                lines.append(f"    malformed {error.field}: {error.reason}")
                continue
            if now is None:
                assert isinstance(record.event, ControllershipSnapshot)
                now = begun_at(record, record.event)
                lines.append(f"    begins here, {_controller(now)}")
                continue
            stops = stops_reader(now, record)
            outcome = step(now, record)
            verdicts |= {outcome.verdict, *outcome.positions.values(), *outcome.releases.values()}
            lines += [f"    {each}" for each in _outcome(now, record, outcome, stops)]
            now = outcome.controllership
        elif line and not line.startswith("#"):
            raise ValueError(f"{path}:{number}: neither prose, record nor outcome: {line!r}")
    return Told("\n".join(lines) + "\n", frozenset(verdicts))


def _record(line: str) -> EventRecord:
    offset, group, fence, value = line.removeprefix("@").split(maxsplit=3)
    epoch, _, number = fence.partition("/")
    pairs = [] if fence == "-" else [(EPOCH_HEADER, epoch), (NUMBER_HEADER, number)]
    key = None if group == "-" else group.encode()
    return decode_record(0, int(offset), 0, key, value.encode(), pairs)


def _outcome(
    before: Controllership, record: EventRecord, outcome: GroupOutcome, stops: bool
) -> list[str]:
    """What came of a record, a line each; a group is shown where it changed."""
    verdict, after = outcome.verdict, outcome.controllership
    kind = "accepted" if isinstance(verdict, GroupAccepted) else "refused"
    lines = [f"{kind} {verdict.value}" + (", and the reader stops" if stops else "")]
    of_each = [*outcome.positions.items(), *outcome.releases.items()]
    lines += [f"{_name(tp)} {each.value}" for tp, each in of_each]
    if after.epoch != before.epoch:
        lines.append(_controller(after))
    was, now = before.groups.get(record.group), after.groups.get(record.group)
    if now is not None and now != was:
        lines += [_group(record.group, now), *_partitions(was, now)]
    return lines


def _controller(now: Controllership) -> str:
    who = f"controller {now.controller_id} at {now.host}:{now.port}"
    return f"epoch {now.epoch}, number {now.number}, {who}"


def _group(name: str, group: Group) -> str:
    members = ", ".join(sorted(group.members)) or "nobody"
    due = ", a rebalance is due" if is_due(group) else ""
    return f"{name}: generation {group.generation}, {members}{due}"


def _partitions(was: Group | None, now: Group) -> list[str]:
    """The partitions that changed."""
    before = {} if was is None else was.partitions
    lines = [f"{_name(tp)}: gone" for tp in sorted(before.keys() - now.partitions.keys())]
    for tp, each in sorted(now.partitions.items()):
        if each != before.get(tp):
            owner = f"{each.owner} ({each.tenure})" if each.owner else "nobody"
            revoking = f", to let go since {each.revoking}" if each.revoking else ""
            target = f", target {each.target}" if each.target not in (None, each.owner) else ""
            lines.append(f"{_name(tp)}: {owner}{revoking}{target}, position {each.position}")
    return lines


def _name(tp: TopicPartition) -> str:
    return f"{tp.topic}/{tp.partition}"
