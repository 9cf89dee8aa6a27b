"""Saves a session's knowledge of the log in a file, so the next start reads only newer records.

The file names its log, the rules and the version by which it was folded, and the last record of
each coordinating partition. If any of this has changed, the log is read as if there were no file:
it saves time, and correctness does not depend on it. It may be deleted at any time. This module
knows the file, but not the effect of a record.
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
from kafka_marshal.client.observe.logger import logger
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
"""How often the file is written, if there is anything new."""


class SnapshotRefused(Exception):
    """The file cannot be used; the message explains why."""


@frozen
class SnapshotOrigin:
    """The log, the group and the rules that a snapshot belongs to."""

    cluster: str
    topic: str
    topic_id: str
    partitions: int
    group: str
    rules: Rules
    required: str = ""
    """Which records had to be authentic, and by which keys; "": none."""


@frozen
class RecordMark:
    """Identifies a record, to check whether it is still there."""

    offset: int
    timestamp_ms: int
    sha256: str

    @classmethod
    def of(cls, raw: RawRecord) -> RecordMark:
        """The mark of this record."""
        value = b"" if raw.value is None else raw.value
        return cls(raw.offset, raw.timestamp_ms, hashlib.sha256(value).hexdigest())


@frozen
class PartitionSnapshot:
    """One coordinating partition."""

    first: int
    """Where reading once began; 0 if it has all of the log."""
    last: RecordMark
    """The last record that was read."""
    memory: PartitionMemory


class Snapshot:
    """The snapshot file of one session."""

    def __init__(self, path: Path, origin: SnapshotOrigin, environment: Environment = REAL) -> None:
        """Nothing is read or written yet.

        Raises:
            InvalidOption: its folder does not exist.
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
        """Return the valid part of it; other partitions are read from the log, from `firsts` on."""
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
        """The log was read and folded up to these records."""
        self._news |= bool(lasts)
        self._lasts.update(lasts)

    def pass_gap(self, partition: int, first: int) -> None:
        """Records are missing before this offset; the log is known from there on."""
        self._firsts[partition] = first

    def keep(
        self, memory: Callable[[], Mapping[int, PartitionMemory]], *, at_once: bool = False
    ) -> None:
        """Write it, if that is due. The file is always complete: the old one or the new one."""
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
            with suppress(OSError):  # where nothing can be written, nothing can be removed
                beside.unlink()
            if not self._broken:
                self._say(f"cannot be written: {error.strerror or error}")
            self._broken = True

    def drop(self) -> None:
        """The log lost records: the snapshot must not be used any more."""
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
    """Why the snapshot of a partition cannot be used; None if it can."""
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
    """The records at these offsets now, as far as brokers return them in time."""
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
    """The text of the file: a head, and the contents."""
    body = json.dumps(
        {
            "origin": _origin(origin),
            "partitions": {str(partition): _kept(each) for partition, each in kept.items()},
        }
    )
    head = {"format": FORMAT, "version": package_version(), "sha256": _digest(body)}
    return f"{json.dumps(head)}\n{body}\n"


def parsed(text: str, origin: SnapshotOrigin) -> dict[int, PartitionSnapshot]:
    """The contents of a file, by coordinating partition.

    Raises:
        SnapshotRefused: it is not a snapshot, is incomplete, or has another origin.
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
    """Its view, the claim, and which fields are certain, in the order of the format."""
    reader = consumer.reader
    claim, certain, *rest = attrs.astuple(reader, recurse=False)
    return [consumer.view, attrs.astuple(claim), certain.value, rest]


def _consumer_of(fields: Iterable[Any]) -> ConsumerState:
    view, claim, certain, rest = fields
    reader = _made(Reader, [_made(Claim, claim), Field(certain), *rest])
    return ConsumerState(reader, _of_kind(view, int))


_Made = TypeVar("_Made")


def _made(kind: type[_Made], values: Sequence[Any]) -> _Made:
    """An attrs value from its fields in order, each checked against its declared type."""
    pairs = zip(values, _KINDS[kind], strict=True)
    return kind(*(_of_kind(value, each) for value, each in pairs))


def _kinds(kind: type) -> tuple[Any, ...]:
    hints = get_type_hints(kind)
    return tuple(hints[each.name] for each in attrs.fields(kind))


_KINDS: Final[dict[type, tuple[Any, ...]]] = {
    kind: _kinds(kind) for kind in (Claim, Reader, RecordMark)
}


def _of_kind(value: Any, kind: Any) -> Any:
    """The value, if it has this type; numbers must fit 64 bits."""
    number = type(value) is int
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r:.60} is not {getattr(kind, '__name__', kind)}")
    if number and not -(2**63) <= value < 2**63:
        raise ValueError(f"{value!r:.60} does not fit 64 bits")
    return value
