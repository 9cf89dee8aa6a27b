"""Skips records of the coordination topic that cannot change what a consumer knows.

Nearly all records of a log are heartbeats, and a reader that joins late has to read all of them. In
a run of heartbeats of one sender about one claim, the first decides whether the run is accepted,
and the last has its final position. The ones in between change nothing that the last does not
change, so the reader skips them.

A run ends with any other record about the claim or its group. It also ends with a heartbeat whose
position or timestamp is below the one before, or whose value is not in the usual form. A run may
grow until the reader takes the held records, so the longer a reader stays far behind, the less it
has to fold.

The result is exact if the log is known from its beginning:
`tests/client/connect/test_log_filter.py` compares every fold with the fold of the whole log. In a
suffix of the log nothing is skipped, since every record may count as a certificate.

The filter sees every offset, so it notices gaps: records that compaction removed, or a control
record. Everything after a gap is a suffix.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, Generic, Protocol, TypeVar

from attrs import define, field

from kafka_marshal.client.message import HasHeaders, HeaderPairs, headers_of
from kafka_marshal.core import wire

_ADDRESS_END: Final = len(wire.TIME) + len(wire.ADDRESS)
_FIELDS: Final = {
    layout.name.encode(): _ADDRESS_END + (layout.number is not None)
    for layout in wire.MESSAGES
    if layout.keyed
}
"""For each message about a single claim: the number of fields after its type."""
_OWNERS_HEADERS: Final = ("marshal-epoch", "marshal-seen", "marshal-clock")
_, _SEEN, _CLOCK = _OWNERS_HEADERS
_AMENDMENTS: Final = frozenset(header.name for header in wire.HEADERS if header.amends)
_START: Final = "marshal-start"
_INTERVAL: Final = "marshal-interval"
_NO_HEADERS: Final = b""
"""The epoch of a heartbeat without headers."""
_DIGITS_MAX: Final = 18
"""Numbers with at most this many digits fit in 64 bits."""
_SENDERS_MAX: Final = 1_000
"""The size of the sender cache. Its keys contain the time in seconds, so it would grow without end.
"""


class FetchedMessage(HasHeaders, Protocol):
    """The methods of a Kafka client's message that this module uses."""

    def partition(self) -> int | None:
        """The coordinating partition."""

    def offset(self) -> int | None:
        """Its offset."""

    def timestamp(self) -> tuple[int, int]:
        """The timestamp type, and Unix milliseconds."""

    def value(self) -> bytes | None:
        """The message, encoded."""


M = TypeVar("M", bound=FetchedMessage)


@define
class _Run(Generic[M]):
    """Consecutive heartbeats of one sender about one claim."""

    sender: bytes
    epoch: bytes
    position: bytes
    timestamp_ms: int
    headers: HeaderPairs
    """The headers of a heartbeat of the run that was examined in full."""
    last: M | None = None
    """The last heartbeat; None if the run has only its first one."""


@define
class _Held(Generic[M]):
    """The records of one coordinating partition that must be folded and were not taken yet."""

    kept: list[M] = field(factory=list)
    """Not in order: the last record of a run is added when the run ends."""
    runs: dict[bytes, _Run[M]] = field(factory=dict)
    """The open runs, by claim: "topic/partition"."""

    def end(self, about: bytes) -> None:
        """End the run about this claim, if there is one."""
        run = self.runs.pop(about, None)
        if run is not None and run.last is not None:
            self.kept.append(run.last)

    def end_all(self) -> None:
        """End all runs."""
        self.kept += [run.last for run in self.runs.values() if run.last is not None]
        self.runs.clear()


class LogFilter(Generic[M]):
    """Selects the records that a reader of one group has to fold."""

    def __init__(
        self,
        group: bytes,
        whole: Collection[int],
        fetched: Callable[[Collection[M]], None] = lambda messages: None,
    ) -> None:
        """`whole` are the coordinating partitions that are read from their beginning.

        In the others, every record of the group is kept. `fetched` receives all messages, before
        any are skipped.
        """
        self._whole = set(whole)
        self._in_value = b"/" + group + b"/"
        self._group = group
        self._fetched = fetched
        self._held: dict[int, _Held[M]] = {}
        self._intervals: dict[int, set[bytes]] = {}
        """By coordinating partition: the heartbeat intervals that records state. With more than
        one, the order of the records decides which one is valid, so nothing is skipped."""
        self._senders: dict[bytes, bytes] = {}
        """A cache: the sender of a value that begins with
        "Heartbeat/version/unix_s/instance/client"."""
        self._next: dict[int, int] = {}
        """The offset after the last one that was added, for partitions that are read from a known
        offset."""
        self._gaps: dict[int, list[int]] = {}
        """The offsets where gaps end that lie among or after the held records."""
        self._given_gaps: dict[int, list[int]] = {}

    def begin(self, partition: int, first: int) -> None:
        """Expect the next record of this partition at `first`; if it is later, there is a gap."""
        self._next[partition] = first

    def end(self, partition: int, end: int) -> None:
        """The partition was read to this offset: offsets below it without a record are a gap."""
        if self._next.get(partition, end) < end:
            self._gap(partition, end)

    @property
    def gapped(self) -> Collection[int]:
        """Partitions with a gap among their held records."""
        return self._gaps.keys()

    def gaps(self) -> dict[int, list[int]]:
        """For each partition, where gaps end among the records taken since the last call.

        Taken records below such an offset come before the gap, and the others after it.
        """
        found, self._given_gaps = self._given_gaps, {}
        return found

    @property
    def holds(self) -> bool:
        """Whether any record or gap was not taken yet."""
        return bool(self._held or self._gaps or self._given_gaps)

    def held(self, partition: int) -> int:
        """The number of records of a partition that `given` would return."""
        held = self._held.get(partition)
        return 0 if held is None else len(held.kept) + len(held.runs)

    def given(self, partitions: Iterable[int]) -> list[M]:
        """Take the records of these partitions that must be folded, in order of offset."""
        found: list[M] = []
        for partition in partitions:
            if partition in self._gaps:
                self._given_gaps[partition] = self._gaps.pop(partition)
            held = self._held.pop(partition, None)
            if held is not None:
                held.end_all()
                found += sorted(held.kept, key=_offset)
        return found

    def add(self, messages: Collection[M]) -> dict[int, M]:
        """Add more of the log: each partition in offset order, without errors.

        Returns the last message of each partition.
        """
        self._fetched(messages)
        # A consumer may have a million of them to read before it starts. So the ordinary one is
        # looked at here, and no more of it than is needed.
        group, senders = self._in_value, self._senders
        lasts: dict[int, M] = {}
        before: M | None = None
        now, expected = -1, -1
        held: _Held[M] = _Held()
        for message in messages:
            partition, offset = message.partition(), message.offset()
            if partition is None or offset is None:
                continue
            if partition != now:
                if before is not None:
                    lasts[now] = before
                self._reached(now, expected)
                now, expected = partition, self._next.get(partition, offset)
                held = self._held.setdefault(partition, _Held())
            if offset > expected and now in self._next:
                self._gap(now, offset)
            before, expected = message, offset + 1
            value = message.value()
            if value is None:
                continue
            head, of_group, tail = value.partition(group)
            if not of_group:
                continue
            about, _, position = tail.rpartition(b"/")
            run = held.runs.get(about)
            if (
                run is not None
                and (senders.get(head) or self._sender(head)) == run.sender
                and len(position) == len(run.position)
                and position >= run.position
                and position.isdigit()
            ):
                timestamp_ms, headers = message.timestamp()[1], headers_of(message)
                if timestamp_ms >= run.timestamp_ms and (
                    _are_plainly_as(headers, run.headers, offset)
                    or _epoch(headers, offset) == run.epoch
                ):
                    run.last, run.position, run.timestamp_ms = message, position, timestamp_ms
                    continue
            self._look_at(held, partition, message, value)
        if before is not None:
            lasts[now] = before
        self._reached(now, expected)
        return lasts

    def _reached(self, partition: int, end: int) -> None:
        if partition in self._next:
            self._next[partition] = end

    def _gap(self, partition: int, end: int) -> None:
        self._held.setdefault(partition, _Held()).end_all()
        self._gaps.setdefault(partition, []).append(end)
        self._next[partition] = end
        self._whole.discard(partition)

    def _look_at(self, held: _Held[M], partition: int, message: M, value: bytes) -> None:
        """Examine a record in full."""
        if partition not in self._whole:
            held.kept.append(message)
            return
        kind, *fields = value.split(b"/")
        if len(fields) > 4 and fields[4] != self._group:
            return
        about = self._about(kind, fields)
        if about is None:
            # A pause, or something odd that may be about any claim of the partition.
            held.end_all()
            held.kept.append(message)
            return
        if self._of_two_intervals(partition, message):
            held.end_all()
            held.kept.append(message)
            return
        sender = self._sender(value.rsplit(b"/", 4)[0])
        headers = headers_of(message)
        epoch = None if sender is None else _epoch(headers, _offset(message))
        if sender is None or epoch is None or not _is_plain(fields[-1]):
            held.end(about)
            held.kept.append(message)
            return
        run, timestamp_ms = held.runs.get(about), message.timestamp()[1]
        if (
            run is not None
            and (run.sender, run.epoch) == (sender, epoch)
            and int(run.position) <= int(fields[-1])
            and run.timestamp_ms <= timestamp_ms
        ):
            run.last, run.position, run.timestamp_ms = message, fields[-1], timestamp_ms
            return
        held.end(about)
        held.kept.append(message)
        held.runs[about] = _Run(sender, epoch, fields[-1], timestamp_ms, headers)

    def _of_two_intervals(self, partition: int, message: M) -> bool:
        """Whether the records of this partition state more than one heartbeat interval."""
        stated = self._intervals.setdefault(partition, set())
        for name, value in headers_of(message):
            if name == _INTERVAL and value:
                stated.add(value)
        return len(stated) > 1

    def _about(self, kind: bytes, fields: list[bytes]) -> bytes | None:
        """The claim that a message is about; None if it may be any, or its form is unusual."""
        if len(fields) != _FIELDS.get(kind):
            return None
        topic, partition = fields[5:7]
        # "00" is another way to write the same claim.
        plain = _is_plain(partition) and (partition == b"0" or not partition.startswith(b"0"))
        return topic + b"/" + partition if plain else None

    def _sender(self, head: bytes) -> bytes | None:
        """The sender of a heartbeat that begins like this; None for anything else."""
        kind, *fields = head.split(b"/")
        if kind != b"Heartbeat" or len(fields) != 4 or not _is_plain(fields[1]):
            return None
        if len(self._senders) >= _SENDERS_MAX:
            self._senders.clear()
        sender = self._senders[head] = b"/".join((fields[0], *fields[2:]))
        return sender


def _offset(message: FetchedMessage) -> int:
    offset = message.offset()
    return -1 if offset is None else offset


def _is_plain(number: bytes) -> bool:
    return number.isdigit() and len(number) <= _DIGITS_MAX


def _are_plainly_as(headers: HeaderPairs, before: HeaderPairs, offset: int) -> bool:
    """Quickly check that `_epoch` would return the same for both lists of headers.

    Nearly all heartbeats have three headers or, with the interval, four. False means only that
    `_epoch` has to decide.
    """
    if not headers or not before:
        return not headers and not before
    count = len(headers)
    if count != len(before) or headers[0] != before[0]:
        return False
    if count == 4:
        if headers[3] != before[3]:
            return False
    elif count != 3:
        return False
    seen_name, seen = headers[1]
    clock_name, clock = headers[2]
    return (
        seen_name == _SEEN
        and clock_name == _CLOCK
        and seen is not None
        and clock is not None
        and seen.isdigit()
        and clock.isdigit()
        and len(clock) <= _DIGITS_MAX
        and len(seen) <= _DIGITS_MAX
        and int(seen) < offset
    )


def _epoch(headers: HeaderPairs, offset: int) -> bytes | None:
    """The epoch of a heartbeat, together with the start and interval that its headers state.

    None if its headers are not in the usual form.
    """
    if headers and headers[-1][0] == wire.MAC_HEADER:  # it decides nothing
        headers = headers[:-1]
    if not headers:
        return _NO_HEADERS
    begun = interval = b""
    while headers[-1][0] in _AMENDMENTS:
        *headers, (name, value) = headers
        if not headers or (name == _START and not (value and _is_plain(value))):
            return None
        begun = b"begun" if name == _START else begun
        interval = value or b"" if name == _INTERVAL else interval
    epoch: bytes | None
    if len(headers) == 3:
        (first, epoch), (second, seen), (third, clock) = headers
        if (
            (first, second, third) != _OWNERS_HEADERS
            or not (seen and seen.isdigit() and len(seen) <= _DIGITS_MAX)
            or not (clock and clock.isdigit() and len(clock) <= _DIGITS_MAX)
            or int(seen) >= offset
        ):
            return None
    elif len(headers) == 1:
        ((first, epoch),) = headers
        if first != _OWNERS_HEADERS[0]:
            return None
    else:
        return None
    return b" ".join((epoch, begun, interval)) if epoch and _is_plain(epoch) else None
