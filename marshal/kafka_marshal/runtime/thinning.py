"""What of a coordination topic need not be folded: other groups, and heartbeats that say no more.

Nearly all of a log is heartbeats, and whoever joins late has all of them to read. Of a run of one
sender's heartbeats about one claim, the first one decides what becomes of all of them, and the last
one is how far they got: those between change nothing that the last one does not. A run is broken by
whatever else is about the claim or its group, by a heartbeat that falls behind the one before it,
and by anything that is not written the ordinary way.

Exact where the log is known from its beginning; `tests/runtime/test_thinning.py` holds every fold
to the fold of the whole log. Of a suffix every record may count, as a certificate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, Protocol, TypeVar

from attrs import define

_WITH_OFFSET: Final = frozenset({b"ReleasingPartition", b"ClaimingMessages"})
_OWNERS_HEADERS: Final = ("marshal-epoch", "marshal-seen", "marshal-clock")
_DIGITS_MAX: Final = 18
"""Numbers of no more digits are well within 64 bits."""


class Fetched(Protocol):
    """What is asked of a message of Kafka's client."""

    def partition(self) -> int | None:
        """Coordinating partition."""

    def offset(self) -> int | None:
        """Its offset."""

    def timestamp(self) -> tuple[int, int]:
        """Kind, and unix milliseconds."""

    def value(self) -> bytes | None:
        """The message, encoded."""

    def headers(self) -> Any:
        """In the order in which they were written."""


M = TypeVar("M", bound=Fetched)


@define
class _Run:
    """Heartbeats of one sender about one claim, with nothing about it in between."""

    sender: tuple[object, ...]
    last: int
    """Which record of the batch is the last one."""
    length: int
    position: int
    timestamp_ms: int


class Thinning:
    """Which records of one group a reader has to fold."""

    def __init__(self, group: bytes, whole: Collection[int]) -> None:
        """`whole` are the coordinating partitions that are read from their beginning.

        Of others every record of the group is kept.
        """
        self._whole = whole
        self._in_value = b"/" + group + b"/"
        self._group = group
        self._claims: dict[bytes, bytes | None] = {}
        """Of "instance/client/group/topic/partition" the last two; None where it is odd."""

    def kept(self, messages: Iterable[M]) -> list[M]:
        """Those of a batch that have to be folded. Each partition in offset order, no errors."""
        kept: list[M | None] = []
        runs: dict[tuple[int, bytes], _Run] = {}
        for message in messages:
            value, place = message.value(), message.partition()
            if value is None or place is None or self._in_value not in value:
                continue
            index = len(kept)
            kept.append(message)
            if place not in self._whole:
                continue
            about, said = self._read(value)
            if about is None:
                # A pause, or something odd that may be about any claim of the partition.
                for other in [each for each in runs if each[0] == place]:
                    del runs[other]
                continue
            at = (place, about)
            sender = None if said is None else _sender(message, said[0])
            if said is None or sender is None:
                runs.pop(at, None)
                continue
            position, timestamp_ms = said[1], message.timestamp()[1]
            run = runs.get(at)
            if (
                run is None
                or run.sender != sender
                or position < run.position
                or timestamp_ms < run.timestamp_ms
            ):
                runs[at] = _Run(sender, index, 1, position, timestamp_ms)
                continue
            if run.length > 1:
                kept[run.last] = None
            run.last, run.length = index, run.length + 1
            run.position, run.timestamp_ms = position, timestamp_ms
        return [message for message in kept if message is not None]

    def _read(self, value: bytes) -> tuple[bytes | None, tuple[tuple[bytes, bytes], int] | None]:
        """Which claim it is about, None if any; of a heartbeat who sent it, and its offset."""
        if value.startswith(b"Heartbeat/"):
            head, _, offset = value.rpartition(b"/")
            parts = head.split(b"/", 3)
            if len(parts) < 4 or not (_is_plain(offset) and _is_plain(parts[2])):
                return None, None
            return self._claim_of(parts[3]), ((parts[1], parts[3]), int(offset))
        parts = value.split(b"/", 3)
        if parts[0] == b"ClaimingPartition" and len(parts) == 4:
            return self._claim_of(parts[3]), None
        if parts[0] in _WITH_OFFSET and len(parts) == 4:
            return self._claim_of(parts[3].rpartition(b"/")[0]), None
        return None, None

    def _claim_of(self, address: bytes) -> bytes | None:
        if address not in self._claims:
            fields = address.split(b"/")
            plain = len(fields) == 5 and fields[2] == self._group and _is_plain(fields[4])
            # "00" is another way to write the same claim.
            plain = plain and (fields[4] == b"0" or not fields[4].startswith(b"0"))
            self._claims[address] = b"/".join(fields[3:]) if plain else None
        return self._claims[address]


def _is_plain(number: bytes) -> bool:
    return number.isdigit() and len(number) <= _DIGITS_MAX


def _sender(message: Fetched, who: tuple[bytes, bytes]) -> tuple[object, ...] | None:
    """Who sent a heartbeat, and under which epoch; None where the headers are not ordinary."""
    headers = message.headers()
    if not headers:
        return who
    offset = message.offset()
    names = tuple([name for name, _ in headers])
    if names != _OWNERS_HEADERS[: len(names)] or offset is None:
        return None
    for _, value in headers:
        if value is None or not _is_plain(value):
            return None
    if len(headers) > 1 and int(headers[1][1]) >= offset:
        return None
    return (who, len(headers), headers[0][1])
