"""Everything that ever happened to one claim, for those who see all of the log.

It answers what a claim was after any number of records; what should have been is not its business.
"""

from __future__ import annotations

import bisect

from kafka_marshal.core.claims.verdicts import WINS
from kafka_marshal.core.state import Claim
from kafka_marshal.counterexample.records import RecordOutcome


class History:
    """The records of one claim in offset order, each with what it did."""

    def __init__(self) -> None:
        self.steps: list[RecordOutcome] = []
        self._offsets: list[int] = []
        self._wins: list[int] = []

    def append(self, judged: RecordOutcome) -> None:
        """The next record of the claim's log."""
        self.steps.append(judged)
        self._offsets.append(judged.record.offset)
        if judged.verdict in WINS:
            self._wins.append(judged.record.offset)

    def before(self, view: int) -> Claim:
        """The claim as the records below this offset made it."""
        read = bisect.bisect_left(self._offsets, view)
        return self.steps[read - 1].after if read else Claim()

    def tenure_at(self, view: int) -> int | None:
        """The offset of the last win below this offset. Spec: TenureOf."""
        begun = bisect.bisect_left(self._wins, view)
        return self._wins[begun - 1] if begun else None

    def judged(self, offset: int) -> RecordOutcome:
        """The record at this offset, which is one of the claim's."""
        return self.steps[bisect.bisect_left(self._offsets, offset)]
