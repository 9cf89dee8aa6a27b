"""Parses the lines of a run into numbers if they are in the ordinary form. Compiled.

The ordinary form is that of `json.dumps` for `validate.run`, in ASCII without escapes. Every other
line is ODD, and `validate.reading` reads it. For ordinary lines both have the same result.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import numba
import numpy as np
import pyarrow as pa

from kafka_marshal.core import wire
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.kernel.columns import (
    ABSENT,
    HEADER_COLUMNS,
    MALFORMED,
    Bytes,
    Codes,
    Ints,
    NameCodes,
    RecordColumns,
    Small,
    TextCodes,
)
from kafka_marshal.kernel.parsing import intern_in, look_up
from kafka_marshal.kernel.steps import BOUND

(ODD, READ, SENT, APPENDED, PROCESSED, STARTED, CRASHED, GAVE_UP, KINDS) = range(9)
"""The event of a line. For STARTED, nothing else is read here."""
_KINDS: Final = ("read", "sent", "appended", "processed", "started", "crashed", "gave_up")

_u = np.uint64
_compiled = numba.njit(cache=True, nogil=True)


def _text(text: str) -> Bytes:
    return np.frombuffer(text.encode(), dtype=np.uint8)


_BEGINNINGS: Final = tuple(
    _text(f'{{"event": "{kind}", ' + ('"partition": ' if kind == "appended" else '"instance": "'))
    for kind in _KINDS
)
_PARTITION: Final = _text(', "partition": ')
_OFFSET: Final = _text(', "offset": ')
_TIMESTAMP: Final = _text(', "timestamp_ms": ')
_STAMPED: Final = _text(', "timestamp_type": 2')
_VALUE: Final = _text(', "value": "')
_HEADERS: Final = _text(', "headers": {"')
_TOPIC: Final = _text(', "topic": "')
_OF_TOPIC: Final = '", "topic_partition": '
_TOPIC_PARTITION: Final = _text(_OF_TOPIC)
_FROM: Final = _text(', "from": ')
_TO: Final = _text(', "to": ')
_VERSION_HEADER: Final = len(HEADER_COLUMNS)
_NAMES: Final = tuple(
    _text(f'{name}": "') for name in (*(header.name for header in wire.HEADERS), "marshal-version")
)
"""`marshal-version` only shows that there are headers."""
_LEAST: Final = (*(header.least for header in wire.HEADERS), 0)
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_NEWLINE: Final = ord("\n")
_SLASH: Final = ord("/")


class EventColumns(NamedTuple):
    """Lines, and their records."""

    kind: Small
    who: Codes
    """By line: the index of the recorded instance."""
    place: Ints
    """The coordinating partition; or the topic and its partition, by `EventLines.topics`."""
    first: Ints
    """The offset; or the first message."""
    second: Ints
    """The timestamp; or the end of the messages."""
    value: Codes
    """By line: the index of its record."""
    line: Ints
    """By line: its start. One more item is the end of the last one."""
    message: Small
    """By record, like the following: its kind, as in `RecordColumns`."""
    version: Ints
    unix_s: Ints
    number: Ints
    address: Codes
    present: Small
    headers: Ints


class EventLines:
    """Parses the lines of a run. Names are codes, assigned in order of occurrence."""

    def __init__(
        self, instances: Sequence[str], names: NameCodes, never: Sequence[str] = ()
    ) -> None:
        """`instances` are the recorded instances of the run.

        A record sent under a name of `never` is not ordinary.
        """
        self.names = names
        self._never = [names.instances.code(each) for each in never]
        self._salt = np.frombuffer(os.urandom(16), np.uint64)
        self._instances = TextCodes(self._salt, *instances)
        self.topics = TextCodes(self._salt)
        """Topics with their partitions, as in the lines."""

    def topic(self, code: int) -> tuple[str, int]:
        """The topic and partition of a code."""
        topic, _, partition = self.topics.names()[code].rpartition(_OF_TOPIC)
        return topic, int(partition)

    def columns(self, data: Bytes) -> EventColumns:
        """Parse whole lines. `data` ends with a line end."""
        ends = np.flatnonzero(data == _NEWLINE) + 1
        count = len(ends)
        line = np.zeros(count + 1, np.int64)
        line[1:] = ends
        kind, who = np.zeros(count, np.int8), np.zeros(count, np.int32)
        place, first, second = (np.zeros(count, np.int64) for _ in range(3))
        value = np.full(count, -1, np.int32)
        values_max = count + 1
        pool, ends_of_values = np.empty(len(data), np.uint8), np.zeros(values_max + 1, np.int64)
        present = np.zeros(values_max, np.int8)
        headers = np.full((values_max, len(HEADER_COLUMNS)), ABSENT, np.int64)
        self.topics.make_room(count, len(data))
        values = _take_apart(
            data, line, kind, who, place, first, second, value, pool, ends_of_values, present,
            headers, self._salt, self._instances.arrays, self.topics.arrays,
        )  # fmt: skip
        said = self._decoded(pool, ends_of_values[: values + 1])
        odd = (
            (said.kind == MALFORMED)
            | (said.number < 0)
            | (said.version < 0)
            | (np.abs(said.unix_s) >= BOUND // 1000)
            | ((said.kind == wire.number_of(ReleaseGroup)) & (said.number >= BOUND // 1000))
        )
        if values and self._never:
            odd |= np.isin(self.names.table[:, 0][said.address], self._never)
        if odd.any():
            kind[np.isin(value, np.flatnonzero(odd))] = ODD
        return EventColumns(
            kind, who, place, first, second, value, line,
            said.kind, said.version, said.unix_s, said.number, said.address,
            present[:values], headers[:values],
        )  # fmt: skip

    def _decoded(self, pool: Bytes, ends: Ints) -> RecordColumns:
        count = len(ends) - 1
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(pool)]
        return self.names.decoded(pa.Array.from_buffers(pa.large_binary(), count, buffers), None)


@_compiled
def _is_there(data, at, end, word):  # type: ignore[no-untyped-def]
    size = _u(len(word))
    if end - at < size:
        return False
    for i in range(size):  # noqa: SIM110  (numba knows no generators)
        if data[at + i] != word[i]:
            return False
    return True


@_compiled
def _text_end(data, at, end):  # type: ignore[no-untyped-def]
    """The index of the quote after a text; `end` if there is none, or the text is not plain."""
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            return at
        if byte == _BACKSLASH or byte < 32 or byte >= 127:
            return end
        at += _u(1)
    return end


@_compiled
def _has_slash(data, at, end):  # type: ignore[no-untyped-def]
    while at < end:
        if data[at] == _SLASH:
            return True
        at += _u(1)
    return False


@_compiled
def _number(data, at, end):  # type: ignore[no-untyped-def]
    """A number in JSON, and its end; -1 if it is none, or has over 18 digits."""
    begin = at
    number = np.int64(0)
    while at < end and data[at] >= 48 and data[at] <= 57:
        if at - begin >= _u(18):
            return np.int64(-1), end
        number = number * 10 + np.int64(data[at] - 48)
        at += _u(1)
    if at == begin or (data[begin] == 48 and at - begin > _u(1)):
        return np.int64(-1), end
    return number, at


@_compiled
def _labelled(data, at, end, label):  # type: ignore[no-untyped-def]
    """The number after this label, and its end; -1 if it is missing."""
    if not _is_there(data, at, end, label):
        return np.int64(-1), end
    return _number(data, at + _u(len(label)), end)


@_compiled
def _is_end(data, at, end):  # type: ignore[no-untyped-def]
    """Whether the object and its line end here."""
    return end - at == _u(2) and data[at] == 125


@_compiled
def _read_headers(data, at, end, headers):  # type: ignore[no-untyped-def]
    """Headers with known names, each at most once; their end, or `end`."""
    while True:
        column = -1
        for number, name in enumerate(_NAMES):
            if _is_there(data, at, end, name):
                column = number
                at += _u(len(name))
                break
        if column < 0:
            return end
        number, at = _number(data, at, end)
        if number < _LEAST[column] or at >= end or data[at] != _QUOTE:
            return end
        if column < _VERSION_HEADER:
            if headers[column] != ABSENT:
                return end
            headers[column] = number
        at += _u(1)
        if end - at < _u(3):
            return end
        if data[at] == 125:
            return at + _u(1)
        if data[at] != 44 or data[at + _u(1)] != 32 or data[at + _u(2)] != _QUOTE:
            return end
        at += _u(3)


@_compiled
def _read_record(data, at, end, pool, used, headers):  # type: ignore[no-untyped-def]
    """Parse value and headers in the ordinary form.

    Returns the end of the pool, or -1, and whether there are headers.
    """
    odd = np.int64(-1)
    if not _is_there(data, at, end, _VALUE):
        return odd, False
    begin = at + _u(len(_VALUE))
    at = _text_end(data, begin, end)
    if at >= end:
        return odd, False
    stop = at
    at += _u(1)
    present = _is_there(data, at, end, _HEADERS)
    if present:
        at = _read_headers(data, at + _u(len(_HEADERS)), end, headers)
    if not _is_end(data, at, end):
        headers[:] = ABSENT
        return odd, False
    for i in range(stop - begin):
        pool[_u(used) + i] = data[begin + i]
    return used + np.int64(stop - begin), present


@_compiled
def _take_apart(  # type: ignore[no-untyped-def]
    data, line, kinds, whos, places, firsts, seconds, values, pool, ends, presents, headers,
    salt, instances, topics,
):  # fmt: skip
    """Fill the columns; return the number of records."""
    value, used = 0, np.int64(0)
    for row in range(len(kinds)):
        begin, end = _u(line[row]), _u(line[row + 1])
        kind, place = ODD, np.int64(-1)
        at = begin
        for number, beginning in enumerate(_BEGINNINGS):
            if _is_there(data, begin, end, beginning):
                kind = number + 1
                at = begin + _u(len(beginning))
                break
        if kind == ODD:
            continue
        if kind == STARTED:
            kinds[row] = kind
            continue
        if kind == APPENDED:
            place, at = _number(data, at, end)
            offset, at = _labelled(data, at, end, _OFFSET)
            timestamp_ms, at = _labelled(data, at, end, _TIMESTAMP)
            if _is_there(data, at, end, _STAMPED):
                at += _u(len(_STAMPED))
            if place < 0 or offset < 0 or timestamp_ms < 0 or timestamp_ms >= BOUND:
                continue
            filled, present = _read_record(data, at, end, pool, used, headers[value])
            if filled < 0:
                continue
            used = filled
            firsts[row], seconds[row] = offset, timestamp_ms
        else:
            name_end = _text_end(data, at, end)
            if name_end >= end:
                continue
            who = look_up(instances, data, at, name_end, salt)
            if who < 0:
                continue
            whos[row] = who
            at = name_end + _u(1)
            if kind == CRASHED:
                if _is_end(data, at, end):
                    kinds[row] = kind
                continue
            if kind in (READ, SENT):
                place, at = _labelled(data, at, end, _PARTITION)
                if place < 0:
                    continue
            if kind == READ:
                offset, at = _labelled(data, at, end, _OFFSET)
                if offset >= 0 and _is_end(data, at, end):
                    kinds[row], places[row], firsts[row] = kind, place, offset
                continue
            if kind in (PROCESSED, GAVE_UP):
                if not _is_there(data, at, end, _TOPIC):
                    continue
                topic = at + _u(len(_TOPIC))
                at = _text_end(data, topic, end)
                if _has_slash(data, topic, at):  # no claim's text
                    continue
                partition, at = _labelled(data, at, end, _TOPIC_PARTITION)
                if partition < 0:
                    continue
                topic_end = at
                if kind == PROCESSED:
                    start, at = _labelled(data, at, end, _FROM)
                    stop, at = _labelled(data, at, end, _TO)
                    if start < 0 or stop <= start:
                        continue
                    firsts[row], seconds[row] = start, stop
                if not _is_end(data, at, end):
                    continue
                kinds[row], places[row] = kind, intern_in(topics, data, topic, topic_end, salt)
                continue
            filled, present = _read_record(data, at, end, pool, used, headers[value])
            if filled < 0:
                continue
            used = filled
        kinds[row], places[row], values[row] = kind, place, value
        presents[value] = present
        value += 1
        ends[value] = used
    return value
