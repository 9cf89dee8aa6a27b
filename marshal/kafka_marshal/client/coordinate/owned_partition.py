"""One owned claim, from its win until nothing refers to it any more.

Its machine, what is fetched of it, what the application has of it in hand, its heartbeats, its
release: each is reached from here, and nowhere else. So what comes late of a tenure that is over
never meets the next one of the same partition. Two threads meet here: the application's takes
chunks, the coordinator's looks how far it got.
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
    """Until when it is waited for, by the steady clock; None where its outcome is not known."""


@define(eq=False)
class OwnedPartition:
    """All that is known of a claim of ours."""

    claim: Claim
    machine: TenureMachine
    fetched: FetchedPartition
    watched: WatchedClaim
    """Its heartbeats."""
    next: int = 0
    """Everything below is done."""
    allowed_end: int = 0
    paused: bool = False
    """The application wants nothing of it for now."""
    handlers_left: bool = False
    """Handlers have some of it in hand whose `run` has ended."""
    withdrawn: bool = False
    """What was fetched of it and not begun was given back."""
    abandoned: bool = False
    """At most once: nothing more of it will be processed, whatever is granted."""
    notified: bool = False
    """The coordinator was notified that the application got further, and has not looked yet."""
    notified_ms: int = 0
    """When what it was notified of last had been taken, by the steady clock."""
    drained: bool = False
    """It is lost, and nothing of it is in hand."""
    release: SentRelease | None = None
    """None while none was sent, and when it was read back."""
    unconfirmed: bool = False
    """It ended before the log had what was done of it, and no commit has reported that yet."""
    answered: int = 0
    """A commit has reported what became of everything below, after it was lost."""
    busy: bool = False
    """Something of it was in work when it was last looked."""
    _lock: Lock = field(kw_only=True)
    """Held while hands come and go."""
    _given: int = field(default=0, init=False)
    """How many messages of hands that are gone `newly_given` has not counted."""
    _hands: deque[InFlight] = field(factory=deque, init=False)
    _given_of_range: list[tuple[int, int]] = field(factory=list, init=False)
    """Of a range: what was given out of hands that are gone, as intervals."""

    @property
    def untouched(self) -> bool:
        """Nothing of it is in hand, and `newly_given` has counted all that was.

        It holds no lock, so a chunk that is being taken just now may count as not in hand. Who must
        know that asks for the `hands`.
        """
        return not self._hands and not self._given

    @property
    def hands(self) -> list[InFlight]:
        """What is in hand now, in the order in which it was taken."""
        with self._lock:
            return list(self._hands)

    def take(self, in_flight: InFlight, kept: Callable[[FetchedPartition, InFlight], bool]) -> bool:
        """The application has taken this; it is in hand if it is `kept`. Any thread may say so."""
        with self._lock:
            found = kept(self.fetched, in_flight)
            if found:
                self._hands.append(in_flight)
            return found

    def reached(self) -> int:
        """Up to where the application is done now. Forgets the hands that are finished."""
        with self._lock:
            offset = self.next
            while self._hands and self._hands[0].finished and not self._hands[0].abandoned:
                done = self._hands.popleft()
                self._given += done.newly_given()
                if self.claim.range is not None:
                    _add(self._given_of_range, done.start, done.end)
                offset = max(offset, done.end)
            first = self._hands[0] if self._hands else None
        return offset if first is None else max(offset, first.next)

    def newly_given(self) -> int:
        """How many more messages the application was given since this was last asked."""
        with self._lock:
            before, self._given = self._given, 0
            return before + sum(in_flight.newly_given() for in_flight in self._hands)

    @property
    def handed_over(self) -> list[tuple[int, int]]:
        """Of a range at most once: what was given out by now, as intervals, in that order."""
        with self._lock:
            found = list(self._given_of_range)
            for in_flight in self._hands:
                _add(found, in_flight.start, in_flight.given_end)
            return found

    @property
    def given_end(self) -> int:
        """Below this everything was given out. Any thread may ask."""
        return max([self.next, *(in_flight.given_end for in_flight in self.hands)])

    @property
    def given_out(self) -> bool:
        """Of a range: whether the application was given the last of it, to process by itself."""
        hands, its = self.hands, self.claim.range
        if its is None or not hands or hands[-1].handled:
            return False
        return hands[-1].end >= its.end and not hands[-1].left

    @property
    def in_hand(self) -> bool:
        """Whether the application is not done with something of it."""
        return any(not in_flight.finished for in_flight in self.hands)

    @property
    def may_land(self) -> bool:
        """Its release was sent, not read back, and nobody is known to have won the claim since."""
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
        """Nothing of it is given out for now, for whichever reason."""
        return self.paused or self.claim.silent

    @property
    def may_go_on(self) -> bool:
        """Nothing keeps it from being given out."""
        return not (self.withheld or self.handlers_left)

    def cut(self) -> list[int]:
        """Give out no more of what is in hand. Returns where each hand ends now."""
        return [in_flight.cut() for in_flight in self.hands]

    @property
    def handled(self) -> list[InFlight]:
        """What a `run` took and is not done with."""
        return [each for each in self.hands if each.handled and not each.finished]

    def hands_from(self, first: InFlight) -> list[InFlight]:
        """This one and those that were taken after it; none if it is not in hand any more."""
        hands = self.hands
        return hands[hands.index(first) :] if first in hands else []

    def forget(self, hands: Collection[InFlight]) -> None:
        """These are not in hand any more, and never will be done."""
        with self._lock:
            self._hands = deque(in_flight for in_flight in self._hands if in_flight not in hands)

    def standing(
        self, end: int | None, buffered: tuple[int, int], *, others_busy: bool
    ) -> ClaimProgress:
        """How far it is.

        Args:
            end: where its partition ended when it was last looked; None before that.
            buffered: how many messages wait in its buffer, and their bytes.
            others_busy: whether something of any claim of ours is in work.
        """
        hands = [] if self.untouched else self.hands
        return ClaimProgress(
            self.next,
            max(end or 0, self.allowed_end),
            sum(
                max(0, in_flight.end - in_flight.next)
                for in_flight in hands
                if not in_flight.finished
            ),
            *buffered,
            paused=self.withheld,
            awaits_turn=others_busy and not self.busy,
        )


def _add(pieces: list[tuple[int, int]], start: int, end: int) -> None:
    """One more interval, which may touch the last."""
    if pieces and pieces[-1][1] == start:
        start = pieces.pop()[0]
    if start < end:
        pieces.append((start, end))


class OwnedPartitions:
    """All of which something may still come, or be asked. Any thread may look one up."""

    def __init__(self) -> None:
        self._of_claim: dict[Claim, OwnedPartition] = {}
        self._of_key: dict[ClaimKey, list[OwnedPartition]] = {}
        """In the order in which they were won."""

    def __iter__(self) -> Iterator[OwnedPartition]:
        """Those that are not drained, as they were when this was asked."""
        return iter([each for each in self.all if not each.drained])

    def __len__(self) -> int:
        """How many are not drained."""
        return sum(1 for _ in self)

    @property
    def all(self) -> list[OwnedPartition]:
        """Also those that are drained."""
        return list(self._of_claim.copy().values())

    def begin(self, tenure: OwnedPartition) -> None:
        """It was won. A release of the one before it has been decided by that."""
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
        """The last that was won of this key."""
        found = self.of_key(key)
        return found[-1] if found else None

    def drained(self, tenure: OwnedPartition, *, counts: bool) -> None:
        """Nothing of it is in hand any more; `counts`: its end, if the log has it, is to be known.

        Of one key the tenure that came furthest is the one whose end a commit names.
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
        """Forget it, if nobody asks for it any more."""
        if tenure.over and self._of_claim.pop(tenure.claim, None) is not None:
            of_key = self._of_key[tenure.claim.key]
            of_key.remove(tenure)
            if not of_key:
                del self._of_key[tenure.claim.key]
