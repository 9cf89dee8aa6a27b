"""Pending `commit` calls: each waits until the log holds the application's position.

One thread settles commits (`coordinator`), any other may wait. This room decides when a commit is
over, and how; it does not know how the log is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Final

from attrs import define, field

from kafka_marshal.client.connect.log_writer import OutcomeUnknown
from kafka_marshal.client.message import Claim, token_in_words
from kafka_marshal.errors import ClaimLost
from kafka_marshal.machines.consumer.effects import Lost

UNKNOWN: Final = (Lost.LOG_LOST_RECORDS, Lost.UNCERTAIN)
"""Why a claim is lost of which nobody knows how far it is in the log."""


def has(claim: Claim, end: int) -> bool:
    """Whether the log has that everything below is done; not where it lost records since."""
    return claim.committed >= end and claim.lost is not Lost.LOG_LOST_RECORDS


@define(eq=False)
class Commit:
    """How far each claim is to be in the log.

    >>> from kafka_marshal.core.state import ClaimKey
    >>> claim = Claim(ClaimKey("g", "orders", 0), "orders", 0, epoch=7, position=10)
    >>> commit, nothing = Commit({claim: 12}), lambda claim: False
    >>> commit.settled(nothing, nothing), commit.left == [claim]
    (False, True)
    >>> claim.committed = 12
    >>> commit.settled(nothing, nothing), commit.future.result()
    (True, None)
    """

    done: dict[Claim, int] = field(factory=dict)
    """Below this the application is done."""
    future: Future[None] = field(factory=Future, init=False)
    """Ends when the log has all of it, or cannot get it any more. Cancelled where nobody waits."""

    @property
    def left(self) -> list[Claim]:
        """Claims that are not that far in the log, as far as was read back."""
        return [claim for claim, end in self.done.items() if not has(claim, end)]

    def settled(self, awaited: Callable[[Claim], bool], may_land: Callable[[Claim], bool]) -> bool:
        """Whether it is over, also because nobody waits any more.

        The future then fails with ClaimLost if there is a claim that is gone and not that far in
        the log; with OutcomeUnknown where nobody knows how far it is.

        Args:
            awaited: its release was sent, and is about to be read back.
            may_land: its release was sent, and nothing that was read decides about it.
        """
        if self.future.cancelled():
            return True
        left = self.left
        if any(claim.owned or awaited(claim) for claim in left):
            return False
        lost = [claim for claim in left if claim.lost not in UNKNOWN and not may_land(claim)]
        if not self.future.set_running_or_notify_cancel():
            return True
        if lost:
            self.future.set_exception(ClaimLost(self.progress_of(lost)))
        elif left:
            self.future.set_exception(OutcomeUnknown(self.progress_of(left)))
        else:
            self.future.set_result(None)
        return True

    def progress_of(self, claims: Collection[Claim]) -> str:
        """How far each of these claims is, in words."""
        return "; ".join(
            f"{claim.topic}/{claim.partition}, {token_in_words(claim)}: done below "
            f"{self.done[claim]}, and in the log below {claim.committed}"
            + ("" if claim.lost is None else f", when the claim was lost ({claim.lost.value})")
            for claim in claims
        )
