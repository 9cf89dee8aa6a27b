"""Reads runs from disk: one file, line by line; `folder` reads those of several files.

This module parses, and reports errors with file, line and field. It does not know which events are
allowed in a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from kafka_marshal.capture import (
    RawRecord,
    UnreadableSource,
    fields_of,
    headers_of,
    record_of,
    refuse_pipe,
    value_of,
)
from kafka_marshal.codec import MalformedRecord, decode, decode_headers
from kafka_marshal.core import wire
from kafka_marshal.core.messages import ClaimingRange, Message
from kafka_marshal.core.ranges.reader import LogEntry
from kafka_marshal.core.state import Rules
from kafka_marshal.machines.consumer.consumer import InstanceConfig
from kafka_marshal.machines.ranges.effects import SendRecord
from kafka_marshal.machines.ranges.participant import ANCHOR
from kafka_marshal.range_codec import is_claiming_range
from kafka_marshal.validate import run
from kafka_marshal.validate.run import (
    Appended,
    BeginsAt,
    Begun,
    Crashed,
    Fields,
    Finished,
    Gap,
    GaveUp,
    Gone,
    HandedOver,
    Leaves,
    Processed,
    Read,
    RecordedInstance,
    Run,
    RunEvent,
    Sent,
    Setting,
    Shares,
    Started,
    TookBack,
)

_PARTITION: Final = re.compile(r"[0-9]{1,10}")
LOG_FILE: Final = "log.jsonl"
"""The name, within a folder, of the log's capture; every other file holds instances' events."""


def is_run(path: Path) -> bool:
    """Whether the file is a recorded run, and not only a log.

    Raises:
        UnreadableSource: it is a pipe, cannot be opened, or is empty.
    """
    if path.is_dir():
        return True
    for _, line in numbered_lines(path):
        try:
            first = json.loads(line)
        except (ValueError, RecursionError):
            return False  # reading it as a capture reports what is wrong
        return isinstance(first, dict) and "run" in first
    raise UnreadableSource(f"{path}: the source is empty")


def read_run(path: Path) -> Run:
    """The run in a file; its events are read from disk on demand.

    Raises:
        UnreadableSource: it is a pipe, cannot be opened, or its first line is no setting. While the
            events are read: a line is no event.
    """
    numbered = numbered_lines(path)
    setting = _setting_of(path, numbered)
    return Run(setting, FileEvents(path, setting, numbered), _starts(path, setting))


def run_of(rows: Iterable[Fields], name: str = "run") -> Run:
    """The run of these lines; the first one is its setting."""
    numbered = iter(enumerate(rows, start=1))
    try:
        number, first = next(numbered)
    except StopIteration:
        raise UnreadableSource(f"{name}: the source is empty") from None
    setting = _setting(first, f"{name}:{number}")
    return Run(
        setting, (event_of(fields, f"{name}:{number}", setting) for number, fields in numbered)
    )


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
    try:
        refuse_pipe(path)
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.isspace():
                    yield number, line
    except OSError as error:
        raise UnreadableSource(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"{path}: not UTF-8 text (byte {error.start})") from None


def _setting_of(path: Path, numbered: Iterator[tuple[int, str]]) -> Setting:
    for number, line in numbered:
        where = f"{path}:{number}"
        return _setting(fields_of(line, where), where)
    raise UnreadableSource(f"{path}: the source is empty")


_MAY_START: Final = (b"started", b"shares", b"\\")
"""Found in every line that may start or share; JSON may write any letter as an escape."""


def _starts(path: Path, setting: Setting) -> list[Mapping[int, int]] | None:
    """The offsets at which instances begin, in their order; None if one of them shares a claim.

    It ends at an unreadable line, where the judge stops reading too.
    """
    found: list[Mapping[int, int]] = []
    try:
        for _, data in line_chunks(path):
            for line in _lines_with(data, _MAY_START):
                event = event_of(fields_of(line.decode("utf-8"), ""), "", setting)
                if isinstance(event, Shares):
                    return None
                if isinstance(event, Started):
                    found.append(event.first)
    except (UnreadableSource, UnicodeDecodeError):
        pass
    return found


def _lines_with(data: bytes, words: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that contain one of these words."""
    places = dict.fromkeys(words, -1)
    at = 0
    while at < len(data):
        for word, place in places.items():
            if place < at:
                place = data.find(word, at)
                places[word] = place if place >= 0 else len(data)
        place = min(places.values())
        if place == len(data):
            return
        end = data.find(b"\n", place) + 1 or len(data)
        yield data[data.rfind(b"\n", 0, place) + 1 : end]
        at = end


def line_chunks(path: Path, chunk_bytes: int = 1 << 22) -> Iterator[tuple[int, bytes]]:
    """Yield the lines after the setting, with line ends, in chunks of about this size.

    Each chunk comes with the number of its first line. Lines end as in `numbered_lines`.
    """
    number, before_setting = 1, True
    for data in _whole_lines(path, chunk_bytes):
        whole = _with_newlines(data)
        while before_setting and whole:
            line, _, whole = whole.partition(b"\n")
            before_setting = f"{line.decode('utf-8', 'replace')}\n".isspace()
            number += 1
        if whole:
            yield number, whole
            number += whole.count(b"\n")


def _whole_lines(path: Path, chunk_bytes: int) -> Iterator[bytes]:
    """Yield a file cut after line feeds; a missing line feed at its end is added."""
    try:
        with path.open("rb") as file:
            rest = b""
            while data := file.read(chunk_bytes):
                rest += data
                if cut := rest.rfind(b"\n") + 1:
                    yield rest[:cut]
                    rest = rest[cut:]
            if rest:
                yield rest + b"\n"
    except OSError as error:
        raise UnreadableSource(f"{path}: {error.strerror or error}") from None


def _with_newlines(data: bytes) -> bytes:
    if b"\r" not in data:
        return data
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


@frozen
class FileEvents:
    """The events in a file, read on demand."""

    path: Path
    setting: Setting
    _numbered: Iterator[tuple[int, str]] = field(repr=False, eq=False)

    def __iter__(self) -> Iterator[RunEvent]:
        return events_of_lines(self.path, self._numbered, self.setting)


def events_of_lines(
    path: Path, numbered: Iterable[tuple[int, str]], setting: Setting
) -> Iterator[RunEvent]:
    """Yield the events in lines of a file, given with their numbers."""
    members, partitions = setting.members, setting.partitions
    for number, line in numbered:
        where = f"{path}:{number}"
        if found := _READ_LINE.fullmatch(line):
            name, partition, offset = found[1], int(found[2]), int(found[3])
            if name in members and partition < partitions:
                fields: Fields = {"event": "read", "instance": name}
                fields |= {"partition": partition, "offset": offset}
                yield Read(where, fields, name, partition, offset)
                continue
        yield event_of(fields_of(line, where), where, setting)


_READ_LINE: Final = re.compile(
    r'\{"event": "read", "instance": "([^"\\\x00-\x1f]*)", '
    r'"partition": (0|[1-9][0-9]{0,9}), "offset": (0|[1-9][0-9]{0,17})\}\s*'
)
"""Matches two of three events, in their recorded form; parsing JSON takes three times as long."""


# --- the first line -------------------------------------------------------------------------------

_SETTING: Final = ("run", "rules", "coordination_partitions", "idempotent", "instances")
_RULES: Final = ("heartbeat_interval_s", "pause_max_s", "clock_rewind_max_s")
_INSTANCE: Final = (
    *("instance_id", "client_id", "group_id", "mode"),
    *("window", "batch", "start", "admin", "certifies"),
)


def _setting(fields: Fields, where: str) -> Setting:
    if fields.get("run") != run.FORM:
        raise UnreadableSource(f"{where}: field 'run' is not {run.FORM}: {fields.get('run')!r:.60}")
    _no_others(fields, _SETTING, where)
    rules = _rules(fields.get("rules"), where)
    members: dict[str, RecordedInstance] = {}
    instances = fields.get("instances")
    if not isinstance(instances, list):
        raise UnreadableSource(f"{where}: field 'instances' is not a list")
    for each in instances:
        member = _member(each, rules, where)
        if member.me.instance_id in members:
            raise UnreadableSource(
                f"{where}: field 'instances' has {member.me.instance_id!r:.60} twice"
            )
        members[member.me.instance_id] = member
    partitions = _integer(fields, "coordination_partitions", where, least=1, otherwise=1)
    return Setting(rules, members, partitions, _yes_or_no(fields, "idempotent", where, True))


def _rules(fields: object, where: str) -> Rules:
    if not isinstance(fields, dict):
        raise UnreadableSource(f"{where}: field 'rules' is not an object")
    _no_others(fields, _RULES, where)
    if "heartbeat_interval_s" not in fields:
        raise UnreadableSource(f"{where}: field 'heartbeat_interval_s' is missing")
    durations: dict[str, float] = {"pause_max_s": 86_400, "clock_rewind_max_s": 60}
    for name, seconds in fields.items():
        if not isinstance(seconds, int | float) or isinstance(seconds, bool):
            raise UnreadableSource(f"{where}: field {name!r} is not a number: {seconds!r:.60}")
        durations[name] = seconds
    try:
        return run.rules_of(**durations)
    except (ValueError, OverflowError) as error:
        raise UnreadableSource(f"{where}: field 'rules': {error}") from None


def _member(fields: object, rules: Rules, where: str) -> RecordedInstance:
    if not isinstance(fields, dict):
        raise UnreadableSource(f"{where}: field 'instances' holds something that is no object")
    _no_others(fields, _INSTANCE, where)
    mode = run.MODES.get(_text(fields, "mode", where))
    if mode is None:
        raise UnreadableSource(f"{where}: field 'mode' is not one of {', '.join(run.MODES)}")
    me = InstanceConfig(
        _text(fields, "instance_id", where),
        _text(fields, "client_id", where),
        mode,
        window=_integer(fields, "window", where, least=1, otherwise=1),
        batch=_integer(fields, "batch", where, least=1, otherwise=1),
        start=_integer(fields, "start", where, otherwise=0),
        admin=_yes_or_no(fields, "admin", where, False),
        certifies=_yes_or_no(fields, "certifies", where, True),
        rules=rules,
    )
    return RecordedInstance(me, _text(fields, "group_id", where))


def _no_others(fields: Mapping[str, object], known: tuple[str, ...], where: str) -> None:
    for name in fields:
        if name not in known:
            raise UnreadableSource(f"{where}: field {name!r:.60} is unknown here")


# --- events ---------------------------------------------------------------------------------------


def event_of(fields: Fields, where: str, setting: Setting) -> RunEvent:
    """The event of one line; `where` names it in errors.

    Raises:
        UnreadableSource: a field is missing, has the wrong type, or names no instance of the run.
    """
    kind = fields.get("event")
    parse = _PARSERS.get(kind) if isinstance(kind, str) else None
    if parse is None:
        raise UnreadableSource(f"{where}: field 'event' is none of {', '.join(_PARSERS)}")
    return parse(fields, where, setting)


def _appended(fields: Fields, where: str, _: Setting) -> Appended:
    return appended(record_of(fields, where), fields, where)


def appended(raw: RawRecord, fields: Fields, where: str) -> Appended:
    """A record of a capture as an event."""
    try:
        record = raw.decoded()
    except MalformedRecord:
        record = None
    ranged = _ranged(raw, None if record is None else record.message)
    return Appended(where, fields, raw.partition, raw.offset, record, ranged, _shared(ranged))


def _ranged(raw: RawRecord, message: Message | None) -> LogEntry | None:
    """The record as a reader of ranges decodes it, if that may matter."""
    if message is None:
        return raw.log_entry() if is_claiming_range(raw.value) else None
    if message.instance_id == ANCHOR or any(name in wire.OF_RANGES for name, _ in raw.headers):
        return raw.log_entry()
    return None


def _shared(entry: LogEntry | None) -> SendRecord | None:
    """The participant's record that this is; None if it is no participant's."""
    if entry is None:
        return None
    record = entry.record
    message = record.message
    if isinstance(message, ClaimingRange) or message.instance_id == ANCHOR:
        return run.of_ranges(message, record.headers, record.range_headers, entry.checkpoint)
    return None


def _sent(fields: Fields, where: str, setting: Setting) -> Sent:
    value, pairs = value_of(fields, where), headers_of(fields.get("headers"), where)
    try:
        message = decode(value)
    except MalformedRecord:
        message = None
    partition = _partition(fields, where, setting)
    ranged = _ranged(RawRecord(partition, 0, 0, value, pairs), message)
    return Sent(
        where,
        fields,
        _instance(fields, where, setting),
        partition,
        message,
        decode_headers(pairs),
        _shared(ranged),
    )


def _read(fields: Fields, where: str, setting: Setting) -> Read:
    name, partition, offset = fields.get("instance"), fields.get("partition"), fields.get("offset")
    if (
        type(name) is str
        and name in setting.members
        and type(partition) is int
        and 0 <= partition < setting.partitions
        and type(offset) is int
        and 0 <= offset < 2**63
    ):
        return Read(where, fields, name, partition, offset)  # nearly every event of a run
    return Read(
        where,
        fields,
        _instance(fields, where, setting),
        _partition(fields, where, setting),
        _integer(fields, "offset", where),
    )


def _gap(fields: Fields, where: str, setting: Setting) -> Gap:
    return Gap(
        where,
        fields,
        _instance(fields, where, setting),
        _partition(fields, where, setting),
        _integer(fields, "offset", where),
    )


def _processed(fields: Fields, where: str, setting: Setting) -> Processed:
    start = _integer(fields, "from", where)
    return Processed(
        *_of_claim(fields, where, setting),
        start,
        _integer(fields, "to", where, least=start + 1),
    )


def _started(fields: Fields, where: str, setting: Setting) -> Started:
    first: dict[int, int] = {}
    given = fields.get("first", {})
    if not isinstance(given, dict):
        raise UnreadableSource(f"{where}: field 'first' is no object of offsets by partition")
    for partition in given:
        if not (_PARTITION.fullmatch(partition) and int(partition) < setting.partitions):
            raise UnreadableSource(
                f"{where}: field 'first': {partition!r:.60} is not in 0..{setting.partitions - 1}"
            )
        first[int(partition)] = _integer(given, partition, where)
    return Started(where, fields, _instance(fields, where, setting), first)


def _crashed(fields: Fields, where: str, setting: Setting) -> Crashed:
    return Crashed(where, fields, _instance(fields, where, setting))


def _of_claim(fields: Fields, where: str, setting: Setting) -> tuple[str, Fields, str, str, int]:
    """Parse the common fields of every event about a claim."""
    return (
        where,
        fields,
        _instance(fields, where, setting),
        _text(fields, "topic", where),
        _integer(fields, "topic_partition", where),
    )


def _gave_up(fields: Fields, where: str, setting: Setting) -> GaveUp:
    shared = _yes_or_no(fields, "shared", where, False)
    return GaveUp(*_of_claim(fields, where, setting), shared)


def _begins_at(fields: Fields, where: str, setting: Setting) -> BeginsAt:
    return BeginsAt(*_of_claim(fields, where, setting), _integer(fields, "offset", where))


def _gone(fields: Fields, where: str, setting: Setting) -> Gone:
    return Gone(*_of_claim(fields, where, setting), _integer(fields, "below", where))


def _shares(fields: Fields, where: str, setting: Setting) -> Shares:
    return Shares(
        *_of_claim(fields, where, setting),
        _integer(fields, "view", where),
        _integer(fields, "start", where),
        _yes_or_no(fields, "known", where, True),
    )


def _of_range(
    fields: Fields, where: str, setting: Setting
) -> tuple[str, Fields, str, str, int, int]:
    return (*_of_claim(fields, where, setting), _integer(fields, "range", where))


def _from(
    fields: Fields, where: str, setting: Setting
) -> tuple[str, Fields, str, str, int, int, int]:
    return (*_of_range(fields, where, setting), _integer(fields, "from", where))


def _of_messages(
    kind: type[Begun | Finished], fields: Fields, where: str, setting: Setting
) -> Begun | Finished:
    begins = _from(fields, where, setting)
    return kind(*begins, _integer(fields, "to", where, least=begins[-1] + 1))


def _took_back(fields: Fields, where: str, setting: Setting) -> TookBack:
    return TookBack(*_from(fields, where, setting))


def _leaves(fields: Fields, where: str, setting: Setting) -> Leaves:
    return Leaves(*_of_claim(fields, where, setting))


def _handed_over(fields: Fields, where: str, setting: Setting) -> HandedOver:
    given = fields.get("messages")
    if not isinstance(given, list):
        raise UnreadableSource(f"{where}: field 'messages' is not a list")
    pieces = []
    for each in given:
        if not (isinstance(each, list) and len(each) == 2):
            raise UnreadableSource(f"{where}: field 'messages': {each!r:.60} is no pair of offsets")
        piece = dict(zip(("from", "to"), each, strict=True))
        start = _integer(piece, "from", where)
        pieces.append((start, _integer(piece, "to", where, least=start + 1)))
    return HandedOver(*_of_range(fields, where, setting), tuple(pieces))


_PARSERS: Final[Mapping[str, Callable[[Fields, str, Setting], RunEvent]]] = {
    "appended": _appended,
    "sent": _sent,
    "read": _read,
    "gap": _gap,
    "processed": _processed,
    "started": _started,
    "crashed": _crashed,
    "gave_up": _gave_up,
    "begins_at": _begins_at,
    "gone": _gone,
    "shares": _shares,
    "begun": partial(_of_messages, Begun),
    "finished": partial(_of_messages, Finished),
    "took_back": _took_back,
    "leaves": _leaves,
    "handed_over": _handed_over,
}


def _instance(fields: Fields, where: str, setting: Setting) -> str:
    name = _text(fields, "instance", where)
    if name not in setting.members:
        raise UnreadableSource(
            f"{where}: field 'instance': {name!r:.60} is not among the run's instances"
        )
    return name


def _partition(fields: Fields, where: str, setting: Setting) -> int:
    partition = _integer(fields, "partition", where)
    if partition >= setting.partitions:
        raise UnreadableSource(
            f"{where}: field 'partition' is not in 0..{setting.partitions - 1}: {partition}"
        )
    return partition


def _missing(name: str, where: str) -> UnreadableSource:
    return UnreadableSource(f"{where}: field {name!r} is missing")


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    text = fields.get(name)
    if text is None and name not in fields:
        raise _missing(name, where)
    if not isinstance(text, str):
        raise UnreadableSource(f"{where}: field {name!r} is not text: {text!r:.60}")
    return text


def _integer(
    fields: Mapping[str, Any], name: str, where: str, least: int = 0, otherwise: int | None = None
) -> int:
    number = fields.get(name, otherwise)
    if number is None and name not in fields:
        raise _missing(name, where)
    if type(number) is not int:
        raise UnreadableSource(f"{where}: field {name!r} is not an integer: {number!r:.60}")
    if not least <= number < 2**63:
        raise UnreadableSource(f"{where}: field {name!r} is not in {least}..2^63-1: {number!r:.60}")
    return number


def _yes_or_no(fields: Mapping[str, Any], name: str, where: str, otherwise: bool) -> bool:
    answer = fields.get(name, otherwise)
    if not isinstance(answer, bool):
        raise UnreadableSource(f"{where}: field {name!r} is neither true nor false: {answer!r:.60}")
    return answer
