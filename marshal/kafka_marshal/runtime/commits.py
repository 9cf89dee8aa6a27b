"""What a `commit` waits for: that the log has what the application is done with.

One thread settles commits (`engine`), any other may wait. This room decides when a commit is over,
and how; it does not know how the log is read.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from typing import Final

from attrs import define, field

from kafka_marshal.client.effects import Lost, Released
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.runtime.errors import ClaimLost
from kafka_marshal.runtime.log import OutcomeUnknown
from kafka_marshal.runtime.message import Claim

OURS: Final = frozenset(Released) - {Released.BY_OTHERS}
"""Why this consumer itself releases a claim, with a record that says how far it is."""


@define(eq=False)
class Commit:
    """How far each claim is to be in the log.

    >>> claim = Claim(ClaimKey("g", "orders", 0), "orders", 0, epoch=7, position=10)
    >>> commit = Commit({claim: 12})
    >>> commit.settled(()), commit.left == [claim]
    (False, True)
    >>> claim.committed = 12
    >>> commit.settled(()), commit.future.result()
    (True, None)
    """

    done: dict[Claim, int]
    """Below this the application is done."""
    future: Future[None] = field(factory=Future, init=False)
    """Ends when the log has all of it, or cannot get it any more."""

    @property
    def left(self) -> list[Claim]:
        """Claims that are not that far in the log, as far as was read back."""
        return [claim for claim, end in self.done.items() if claim.committed < end]

    def settled(self, unread: Collection[ClaimKey]) -> bool:
        """Whether it is over. `unread`: claims whose release was sent and not read back.

        The future then fails with ClaimLost, or with OutcomeUnknown where a release may still land,
        if there is a claim that is gone and not that far in the log.
        """
        left = self.left
        if any(claim.owned or claim.key in unread for claim in left):
            return False
        by_us = [each for each in left if each.lost is Lost.RELEASED and each.released in OURS]
        lost = [claim for claim in left if claim not in by_us]
        if lost:
            self.future.set_exception(ClaimLost(self.told(lost)))
        elif left:
            self.future.set_exception(OutcomeUnknown(self.told(left)))
        else:
            self.future.set_result(None)
        return True

    def told(self, claims: Collection[Claim]) -> str:
        """Which of these is how far."""
        return "; ".join(
            f"{claim.topic}/{claim.partition}, epoch {claim.epoch}: done below {self.done[claim]}, "
            f"and in the log below {claim.committed}"
            + ("" if claim.lost is None else f", when the claim was lost ({claim.lost.value})")
            for claim in claims
        )
