"""Saves a session's knowledge of the log in a file, so the next start reads only newer records.

The file says of which log it is, by which rules and in which version it was folded, and of each
coordinating partition which record was the last one. Where any of that is not so any more the log
is read as if there were no file: it saves time, and nobody has to trust it. It may be deleted at
any time. This room knows the file, and not what a record does.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

import attrs
from attrs import frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.client.connect.environment import REAL, Environment
from kafka_marshal.client.connect.reader import (
    CONNECT_S,
    CoordinationReader,
    OffsetsGone,
    Watermarks,
)
from kafka_marshal.client.observe.logging_observer import logger
from kafka_marshal.core.claims.suffix_reader import Field, Reader
from kafka_marshal.core.state import Claim, ClaimKey, Rules
from kafka_marshal.errors import InvalidOption
from kafka_marshal.machines.consumer.consumer import ConsumerState
from kafka_marshal.machines.consumer.memory import PartitionMemory
from kafka_marshal.machines.share.timing import Request
from kafka_marshal.markup import visible
from kafka_marshal.version import package_version

FORMAT: Final = 2
EVERY_S: Final = 60.0
"""So often it is written, where there is something new."""


class SnapshotRefused(Exception):
    """The file does not say what can be gone on with; the message says why."""


@frozen
class SnapshotOrigin:
    """Which log it is of, whose claims, and by which rules they are judged."""

    cluster: str
    topic: str
    topic_id: str
    partitions: int
    group: str
    rules: Rules
    required: str = ""
    """What had to be authentic of what was read, and by which keys; "": nothing."""


@frozen
class RecordMark:
    """A record, so that one can tell whether it is still there."""

    offset: int
    timestamp_ms: int
    sha256: str

    @classmethod
    def of(cls, raw: RawRecord) -> RecordMark:
        """This one."""
        value = b"" if raw.value is None else raw.value
        return cls(raw.offset, raw.timestamp_ms, hashlib.sha256(value).hexdigest())


@frozen
class PartitionSnapshot:
    """One coordinating partition."""

    first: int
    """Where reading began, once; 0 is all of the log."""
    last: RecordMark
    """The last record that was read."""
    memory: PartitionMemory


class Snapshot:
    """One session's file."""

    def __init__(self, path: Path, origin: SnapshotOrigin, environment: Environment = REAL) -> None:
        """Nothing is read or written yet.

        Raises:
            InvalidOption: there is no folder for it.
        """
        if not path.parent.is_dir():
            raise InvalidOption(f"snapshot {path}: there is no folder {path.parent}")
        self.path, self.origin = path, origin
        self._firsts: dict[int, int] = {}
        self._lasts: dict[int, RecordMark | RawRecord] = {}
        self._news = self._broken = False
        self._environment = environment
        self._due_at = environment.monotonic() + EVERY_S

    def begin(
        self, tail: CoordinationReader, extents: Mapping[int, Watermarks], firsts: Mapping[int, int]
    ) -> dict[int, PartitionSnapshot]:
        """What of it still holds: of the other partitions the log is read, from `firsts` on."""
        found: dict[int, PartitionSnapshot] = {}
        try:
            found = parsed(self.path.read_text(encoding="utf-8"), self.origin)
        except FileNotFoundError:
            self._say("there is none yet", expected=True)
        except (OSError, UnicodeDecodeError) as error:
            self._say(f"not used, it cannot be read: {error}")
        except SnapshotRefused as reason:
            self._say(f"not used, {reason}")
        for partition, kept in list(found.items()):
            against = unfit(kept, extents[partition], firsts[partition])
            if against is not None:
                self._say(f"not used for partition {partition}, {against}")
                del found[partition]
        there = marks_at(
            tail,
            {partition: kept.last.offset for partition, kept in found.items()},
            self._environment,
        )
        for partition, kept in list(found.items()):
            if there.get(partition) != kept.last:
                at = kept.last.offset
                gone = "is another one now" if partition in there else "is not there"
                self._say(f"not used for partition {partition}, its record {at} {gone}")
                del found[partition]
        self._firsts = {**firsts, **{partition: kept.first for partition, kept in found.items()}}
        self._lasts = {partition: kept.last for partition, kept in found.items()}
        if found:
            claims = sum(len(kept.memory.claims) for kept in found.values())
            left = sum(extents[n].high - kept.last.offset - 1 for n, kept in found.items())
            self._say(f"{claims} claims taken up, {left} records came since", expected=True)
        return found

    def read(self, lasts: Mapping[int, RawRecord]) -> None:
        """The log was read and folded to these records."""
        self._news |= bool(lasts)
        self._lasts.update(lasts)

    def pass_gap(self, partition: int, first: int) -> None:
        """The log is known from this offset on; before it records are missing."""
        self._firsts[partition] = first

    def keep(
        self, memory: Callable[[], Mapping[int, PartitionMemory]], *, at_once: bool = False
    ) -> None:
        """Write it, where that is due. What stands there is the old one or the new one, whole."""
        now_s = self._environment.monotonic()
        if not self._news or not (at_once or now_s >= self._due_at):
            return
        self._due_at, self._news = now_s + EVERY_S, False
        kept = {
            partition: PartitionSnapshot(
                self._firsts[partition],
                last if isinstance(last, RecordMark) else RecordMark.of(last),
                one,
            )
            for partition, one in memory().items()
            if (last := self._lasts.get(partition)) is not None
        }
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.{id(self):x}")
        try:
            with self._environment.open_file(beside, "w") as file:
                file.write(written(self.origin, kept))
            beside.replace(self.path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            if not self._broken:
                self._say(f"cannot be written: {error.strerror or error}")
            self._broken = True

    def drop(self) -> None:
        """The log is not what it was: nobody may go on with this."""
        self._news, self._lasts = False, {}
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            self._say(f"cannot be deleted: {error.strerror or error}")

    def _say(self, what: str, *, expected: bool = False) -> None:
        extra = {"event": "snapshot", "group": self.origin.group}
        log = logger.info if expected else logger.warning
        log("snapshot %s: %s", self.path, what, extra=extra)


# --- whether it still holds -----------------------------------------------------------------------


def unfit(kept: PartitionSnapshot, extent: Watermarks, first: int) -> str | None:
    """Why nobody can go on from there; None if one can."""
    following = kept.last.offset + 1
    if following > extent.high:
        return f"it was read to {following} and the log ends at {extent.high}"
    if kept.last.offset < extent.low:
        return f"it was read to {following} and the log begins at {extent.low}"
    if following < first:
        return f"it was read to {following} and reading begins at {first} (coordination_read_max)"
    return None


def marks_at(
    tail: CoordinationReader, offsets: Mapping[int, int], environment: Environment = REAL
) -> dict[int, RecordMark]:
    """The records that lie there now, as far as brokers give them in time."""
    ends = {partition: offset + 1 for partition, offset in offsets.items()}
    deadline = environment.deadline(CONNECT_S)
    found: dict[int, RecordMark] = {}
    with suppress(OffsetsGone):  # since it was looked where the log begins and ends
        for batch in tail.records(offsets, ends, lambda: not deadline.left_s):
            of_these = (raw for raw in batch if raw.offset == offsets[raw.partition])
            found.update((raw.partition, RecordMark.of(raw)) for raw in of_these)
    return found


# --- the file -------------------------------------------------------------------------------------


def written(origin: SnapshotOrigin, kept: Mapping[int, PartitionSnapshot]) -> str:
    """The text of a file: what it is, and what it says."""
    body = json.dumps(
        {
            "origin": _origin(origin),
            "partitions": {str(partition): _kept(each) for partition, each in kept.items()},
        }
    )
    head = {"format": FORMAT, "version": package_version(), "sha256": _digest(body)}
    return f"{json.dumps(head)}\n{body}\n"


def parsed(text: str, origin: SnapshotOrigin) -> dict[int, PartitionSnapshot]:
    """What a file says, by coordinating partition.

    Raises:
        SnapshotRefused: it is no such file, or not whole, or not of this origin.
    """
    head_line, _, body = text.partition("\n")
    try:
        head = json.loads(head_line)
        if not isinstance(head, dict) or "format" not in head:
            raise SnapshotRefused("it is no snapshot")
        if (head["format"], head.get("version")) != (FORMAT, package_version()):
            raise SnapshotRefused(
                f"it was written by version {visible(str(head.get('version')), 60)}, and this is "
                f"{package_version()}"
            )
        if head.get("sha256") != _digest(body.rstrip("\n")):
            raise SnapshotRefused("it is not whole")
        fields = json.loads(body)
        ours, theirs = _origin(origin), fields["origin"]
        differ = sorted(name for name in ours if ours[name] != theirs.get(name))
        if differ:
            raise SnapshotRefused(f"it is of another {', '.join(differ)}")
        found = {
            int(partition): _kept_of(each, origin.group)
            for partition, each in fields["partitions"].items()
        }
        if not set(found) <= set(range(origin.partitions)):
            raise ValueError(f"of {origin.partitions} partitions it names {max(found)}")
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SnapshotRefused(f"it is no snapshot: {visible(str(error), 200)}") from None


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def _origin(origin: SnapshotOrigin) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(json.dumps(attrs.asdict(origin), default=_value))
    return fields


def _value(named: object) -> object:
    assert isinstance(named, enum.Enum)
    return named.value


def _kept(kept: PartitionSnapshot) -> dict[str, Any]:
    memory = kept.memory
    return {
        "first": kept.first,
        "last": attrs.asdict(kept.last),
        "newborn": _consumer(memory.newborn),
        "claims": [
            [key.topic, key.topic_partition, *_consumer(each)]
            for key, each in memory.claims.items()
        ],
        "requests": [
            [client, one.key.topic, one.key.topic_partition, one.at_ms]
            for client, one in memory.requests.items()
        ],
    }


def _kept_of(fields: Mapping[str, Any], group: str) -> PartitionSnapshot:
    claims = {
        _key_of(group, topic, number): _consumer_of(known)
        for topic, number, *known in fields["claims"]
    }
    requests = {
        _of_kind(client, str): Request(_key_of(group, topic, number), _of_kind(at_ms, int))
        for client, topic, number, at_ms in fields["requests"]
    }
    memory = PartitionMemory(_consumer_of(fields["newborn"]), claims, requests)
    last = _made(RecordMark, [fields["last"][each.name] for each in attrs.fields(RecordMark)])
    return PartitionSnapshot(_of_kind(fields["first"], int), last, memory)


def _key_of(group: str, topic: Any, number: Any) -> ClaimKey:
    if _of_kind(number, int) < 0:
        raise ValueError(f"partition {number}")
    return ClaimKey(group, _of_kind(topic, str), number)


def _consumer(consumer: ConsumerState) -> list[Any]:
    """Its view, the claim, and what of it is certain. Their order is the format's."""
    reader = consumer.reader
    claim, certain, *rest = attrs.astuple(reader, recurse=False)
    return [consumer.view, attrs.astuple(claim), certain.value, rest]


def _consumer_of(fields: Iterable[Any]) -> ConsumerState:
    view, claim, certain, rest = fields
    reader = _made(Reader, [_made(Claim, claim), Field(certain), *rest])
    return ConsumerState(reader, _of_kind(view, int))


_Made = TypeVar("_Made")


def _made(kind: type[_Made], values: Sequence[Any]) -> _Made:
    """A value of ours from its fields in order, each of the kind that it is declared as."""
    pairs = zip(values, _KINDS[kind], strict=True)
    return kind(*(_of_kind(value, each) for value, each in pairs))


def _kinds(kind: type) -> tuple[Any, ...]:
    hints = get_type_hints(kind)
    return tuple(hints[each.name] for each in attrs.fields(kind))


_KINDS: Final[dict[type, tuple[Any, ...]]] = {
    kind: _kinds(kind) for kind in (Claim, Reader, RecordMark)
}


def _of_kind(value: Any, kind: Any) -> Any:
    """The value, if it is one of that kind, and a number if it fits 64 bits."""
    number = type(value) is int
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r:.60} is not {getattr(kind, '__name__', kind)}")
    if number and not -(2**63) <= value < 2**63:
        raise ValueError(f"{value!r:.60} does not fit 64 bits")
    return value
