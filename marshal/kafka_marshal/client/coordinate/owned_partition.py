"""One owned claim, from its win until nothing refers to it any more.

Its machine, its buffer, the messages that the application is processing, its heartbeats and its
release can all be reached from here, and only from here. So a late input of a finished tenure never
affects the next tenure of the same partition. Two threads use it: the application's takes chunks,
and the coordinator's checks their progress.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator

from attrs import define, field

from kafka_marshal.client.connect.threads import Lock
from kafka_marshal.client.coordinate.commits import has
from kafka_marshal.client.coordinate.tenure_machine import TenureMachine
from kafka_marshal.client.fetch.fetched_partition import FetchedPartition
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health import ClaimProgress
from kafka_marshal.client.observe.health_monitor import WatchedClaim
from kafka_marshal.core.state import ClaimKey


@define(eq=False)
class SentRelease:
    """A release of the claim that was sent, until it is read back."""

    until_ms: float | None = math.inf
    """How long to wait for it, by the steady clock; None if its outcome is unknown."""


@define(eq=False)
class OwnedPartition:
    """Everything about a claim that we own or owned."""

    claim: Claim
    machine: TenureMachine
    fetched: FetchedPartition
    watched: WatchedClaim
    """Its heartbeats."""
    next: int = 0
    """The next offset: everything below is done."""
    allowed_end: int = 0
    paused: bool = False
    """The application has paused it."""
    handlers_left: bool = False
    """Handlers of a `run` that has ended are still processing some of it."""
    withdrawn: bool = False
    """Fetched messages that were not begun have been given back."""
    abandoned: bool = False
    """At most once: no more of it will be processed, whatever is granted."""
    notified: bool = False
    """The coordinator was notified of progress, and has not checked it yet."""
    notified_ms: int = 0
    """When the chunk of the last notification was taken, by the steady clock."""
    drained: bool = False
    """It is lost, and the application has no messages of it."""
    release: SentRelease | None = None
    """None if none was sent, or after it was read back."""
    unconfirmed: bool = False
    """It ended before the log held its position, and no commit has reported that yet."""
    answered: int = 0
    """A commit has reported the outcome of everything below, after it was lost."""
    busy: bool = False
    """The application was processing some of it at the last check."""
    _lock: Lock = field(kw_only=True)
    """Held while chunks are added and removed."""
    _newly_delivered: int = field(default=0, init=False)
    """Delivered messages of removed chunks that `newly_delivered` has not counted."""
    _chunks: deque[InFlight] = field(factory=deque, init=False)
    _delivered_of_range: list[tuple[int, int]] = field(factory=list, init=False)
    """For a range: what was delivered of removed chunks, as intervals."""

    @property
    def untouched(self) -> bool:
        """Whether the application has no messages of it, and `newly_delivered` counted all it had.

        It takes no lock, so it may miss a chunk that is being taken at this moment. To be certain,
        use `chunks`.
        """
        return not self._chunks and not self._newly_delivered

    @property
    def chunks(self) -> list[InFlight]:
        """The chunks that the application is processing, in the order in which it took them."""
        with self._lock:
            return list(self._chunks)

    def take(self, in_flight: InFlight, kept: Callable[[FetchedPartition, InFlight], bool]) -> bool:
        """Add a chunk that the application has taken, if it is `kept`. Any thread may call this."""
        with self._lock:
            found = kept(self.fetched, in_flight)
            if found:
                self._chunks.append(in_flight)
            return found

    def reached(self) -> int:
        """The next offset after what the application has finished. Removes finished chunks."""
        with self._lock:
            offset = self.next
            while self._chunks and self._chunks[0].finished and not self._chunks[0].abandoned:
                done = self._chunks.popleft()
                self._newly_delivered += done.newly_delivered()
                if self.claim.range is not None:
                    _add(self._delivered_of_range, done.start, done.end)
                offset = max(offset, done.end)
            first = self._chunks[0] if self._chunks else None
        return offset if first is None else max(offset, first.next)

    def newly_delivered(self) -> int:
        """The number of messages delivered since the last call."""
        with self._lock:
            before, self._newly_delivered = self._newly_delivered, 0
            return before + sum(in_flight.newly_delivered() for in_flight in self._chunks)

    @property
    def delivered(self) -> list[tuple[int, int]]:
        """For a range at most once: the delivered offsets as intervals, in order."""
        with self._lock:
            found = list(self._delivered_of_range)
            for in_flight in self._chunks:
                _add(found, in_flight.start, in_flight.delivered_end)
            return found

    @property
    def delivered_end(self) -> int:
        """Everything below this offset was delivered. Any thread may ask."""
        return max([self.next, *(in_flight.delivered_end for in_flight in self.chunks)])

    @property
    def range_delivered(self) -> bool:
        """For a range: whether its last message was delivered, for the application to process."""
        chunks, its = self.chunks, self.claim.range
        if its is None or not chunks or chunks[-1].handled:
            return False
        return chunks[-1].end >= its.end and not chunks[-1].left

    @property
    def unfinished(self) -> bool:
        """Whether the application has messages of it that it has not finished."""
        return any(not in_flight.finished for in_flight in self.chunks)

    @property
    def may_land(self) -> bool:
        """Its release was sent and not read back, and no later win of the claim is known."""
        if self.release is None:
            return False
        machine = self.machine
        return not machine.certain or machine.known.epoch == self.claim.epoch

    @property
    def awaited(self) -> bool:
        """Its release was sent, and is about to be read back."""
        return self.may_land and self.release is not None and self.release.until_ms is not None

    @property
    def over(self) -> bool:
        """Whether to forget it: it is drained, and no release or commit waits for the log."""
        return self.drained and self.release is None and not self.unconfirmed

    @property
    def withheld(self) -> bool:
        """Whether, for any reason, nothing of it is delivered now."""
        return self.paused or self.claim.silent

    @property
    def may_go_on(self) -> bool:
        """Whether nothing prevents its delivery."""
        return not (self.withheld or self.handlers_left)

    def cut(self) -> list[int]:
        """Deliver no more of the current chunks. Returns where each chunk ends now."""
        return [in_flight.cut() for in_flight in self.chunks]

    @property
    def handled(self) -> list[InFlight]:
        """The chunk that a `run` took and has not finished."""
        return [each for each in self.chunks if each.handled and not each.finished]

    def chunks_from(self, first: InFlight) -> list[InFlight]:
        """This chunk and those taken after it; empty if it was removed."""
        chunks = self.chunks
        return chunks[chunks.index(first) :] if first in chunks else []

    def forget(self, chunks: Collection[InFlight]) -> None:
        """Remove these chunks, which will never be finished."""
        with self._lock:
            self._chunks = deque(in_flight for in_flight in self._chunks if in_flight not in chunks)

    def progress(
        self, end: int | None, buffered: tuple[int, int], *, others_busy: bool
    ) -> ClaimProgress:
        """Its progress.

        Args:
            end: its partition's end offset when it was last looked up; None before that.
            buffered: the number of messages in its buffer, and their bytes.
            others_busy: whether the application is processing messages of any claim of ours.
        """
        chunks = [] if self.untouched else self.chunks
        return ClaimProgress(
            self.next,
            max(end or 0, self.allowed_end),
            sum(
                max(0, in_flight.end - in_flight.next)
                for in_flight in chunks
                if not in_flight.finished
            ),
            *buffered,
            paused=self.withheld,
            awaits_turn=others_busy and not self.busy,
        )


def _add(pieces: list[tuple[int, int]], start: int, end: int) -> None:
    """Append an interval, which may touch the last one."""
    if pieces and pieces[-1][1] == start:
        start = pieces.pop()[0]
    if start < end:
        pieces.append((start, end))


class OwnedPartitions:
    """All owned partitions that may still receive inputs or calls. Any thread may look one up."""

    def __init__(self) -> None:
        self._of_claim: dict[Claim, OwnedPartition] = {}
        self._of_key: dict[ClaimKey, list[OwnedPartition]] = {}
        """In the order in which they were won."""

    def __iter__(self) -> Iterator[OwnedPartition]:
        """A snapshot of those that are not drained."""
        return iter([each for each in self.all if not each.drained])

    def __len__(self) -> int:
        """The number of those that are not drained."""
        return sum(1 for _ in self)

    @property
    def all(self) -> list[OwnedPartition]:
        """All of them, drained or not."""
        return list(self._of_claim.copy().values())

    def begin(self, tenure: OwnedPartition) -> None:
        """Add one that was won. The win decides the fate of a release of the one before it."""
        for older in self.of_key(tenure.claim.key):
            older.release = None
            self.end_if_over(older)
        # Who finds it among our claims may ask for its partition.
        self._of_key.setdefault(tenure.claim.key, []).append(tenure)
        self._of_claim[tenure.claim] = tenure

    def of(self, claim: Claim) -> OwnedPartition | None:
        """The one of this claim, if it is not drained."""
        tenure = self._of_claim.get(claim)
        return None if tenure is None or tenure.drained else tenure

    def any_of(self, claim: Claim) -> OwnedPartition | None:
        """The one of this claim, drained or not."""
        return self._of_claim.get(claim)

    def of_key(self, key: ClaimKey) -> list[OwnedPartition]:
        """Those of one key, the newest last."""
        return list(self._of_key.get(key, ()))

    def newest(self, key: ClaimKey) -> OwnedPartition | None:
        """The one of this key that was won last."""
        found = self.of_key(key)
        return found[-1] if found else None

    def drained(self, tenure: OwnedPartition, *, counts: bool) -> None:
        """Mark it as drained; `counts`: whether commits must learn if the log holds its end.

        Of the tenures of a key, a commit names the end of the one that came furthest.
        """
        tenure.drained = True
        tenure.unconfirmed = counts and not has(tenure.claim, tenure.next)
        ranged = tenure.claim.range is not None
        # Ranges of one key are of different offsets, so each counts.
        for other in () if ranged else self.of_key(tenure.claim.key):
            if other is not tenure and other.unconfirmed and tenure.unconfirmed:
                behind = other if other.next <= tenure.next else tenure
                behind.unconfirmed = False
                self.end_if_over(other)
        self.end_if_over(tenure)

    def end_if_over(self, tenure: OwnedPartition) -> None:
        """Forget it, if nothing waits for it any more."""
        if tenure.over and self._of_claim.pop(tenure.claim, None) is not None:
            of_key = self._of_key[tenure.claim.key]
            of_key.remove(tenure)
            if not of_key:
                del self._of_key[tenure.claim.key]
