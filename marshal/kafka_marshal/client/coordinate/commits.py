"""Pending `commit` calls: each waits until the log holds the application's position.

One thread settles commits (`coordinator`); any other may wait for them. This module decides when a
commit ends, and with which result. It does not know how the log is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from attrs import define, field

from kafka_marshal.client.connect.log_writer import OutcomeUnknown
from kafka_marshal.client.connect.threads import Answer
from kafka_marshal.client.message import Claim, token_in_words
from kafka_marshal.errors import ClaimLost
from kafka_marshal.machines.consumer.effects import Lost

UNKNOWN: Final = (Lost.LOG_LOST_RECORDS, Lost.UNCERTAIN)
"""The reason for a claim whose position in the log is unknown."""


def has(claim: Claim, end: int) -> bool:
    """Whether the log holds this position or a later one; false if it lost records since."""
    return claim.committed >= end and claim.lost is not Lost.LOG_LOST_RECORDS


@define(eq=False)
class Commit:
    """The position that each claim must reach in the log.

    >>> from kafka_marshal.core.state import ClaimKey
    >>> claim = Claim(ClaimKey("g", "orders", 0), "orders", 0, epoch=7, position=10)
    >>> commit, nothing = Commit({claim: 12}), lambda claim: False
    >>> commit.settled(nothing, nothing), commit.left == [claim]
    (False, True)
    >>> claim.committed = 12
    >>> commit.settled(nothing, nothing), commit.answer.result()
    (True, None)
    """

    done: dict[Claim, int] = field(factory=dict)
    """The position to commit for each claim."""
    answer: Answer[None] = field(factory=Answer, init=False)
    """Comes when the log holds all positions, or cannot any more. Cancelled if no one waits for it.
    """

    @property
    def left(self) -> list[Claim]:
        """The claims whose position is not in the log yet, as far as it was read back."""
        return [claim for claim, end in self.done.items() if not has(claim, end)]

    def settled(self, awaited: Callable[[Claim], bool], may_land: Callable[[Claim], bool]) -> bool:
        """Whether the commit has ended, also because no one waits for it any more.

        Its answer is ClaimLost if a claim is gone before its position was in the log. It
        is OutcomeUnknown if it is unknown which position the log holds.

        Args:
            awaited: returns whether the claim's release was sent and is about to be read back.
            may_land: returns whether the claim's release was sent, and its outcome is still open.
        """
        if self.answer.cancelled():
            return True
        left = self.left
        if any(claim.owned or awaited(claim) for claim in left):
            return False
        lost = [claim for claim in left if claim.lost not in UNKNOWN and not may_land(claim)]
        if lost:
            self.answer.set_exception(ClaimLost(self.progress_of(lost)))
        elif left:
            self.answer.set_exception(OutcomeUnknown(self.progress_of(left)))
        else:
            self.answer.set_result(None)
        return True

    def progress_of(self, claims: Collection[Claim]) -> str:
        """A sentence about the positions of these claims."""
        return "; ".join(
            f"{claim.topic}/{claim.partition}, {token_in_words(claim)}: done below "
            f"{self.done[claim]}, and in the log below {claim.committed}"
            + ("" if claim.lost is None else f", when the claim was lost ({claim.lost.value})")
            for claim in claims
        )
