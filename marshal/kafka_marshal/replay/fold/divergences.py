"""Where the two rule sets diverge, claim by claim.

Both worlds fold the same record; this module compares their states of its claims. A divergence
begins with the record after which they disagree. It ends with the next record after which they
agree again, or disagree in another way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from kafka_marshal.core.state import Claim, ClaimKey
from kafka_marshal.replay.model.events import JudgedRecord
from kafka_marshal.replay.model.published import DivergenceRow

View: TypeAlias = tuple[str | None, str | None, int]
"""The owner's instance and client, and the position."""


def _view(claim: Claim) -> View:
    if claim.owned:
        return claim.owner_instance, claim.owner_client, claim.position
    return None, None, claim.position


def _agree(fenced: Claim, original: Claim) -> bool:
    """Whether both have the same owner and position: the common case, which needs no views."""
    return (
        fenced.position == original.position
        and fenced.owner_instance == original.owner_instance
        and fenced.owner_client == original.owner_client
        and fenced.owned
        and original.owned
    )


class Divergences:
    """The divergences of one coordinating partition. Each is reported when it ends."""

    def __init__(self) -> None:
        self._open: dict[ClaimKey, tuple[View, View, DivergenceRow]] = {}
        self._parted: set[ClaimKey] = set()

    def observe(
        self,
        key: ClaimKey,
        fenced: Claim,
        original: Claim,
        judged: tuple[JudgedRecord, JudgedRecord],
    ) -> DivergenceRow | None:
        """Compare after one record, with verdicts (fenced, original); return a row that ended."""
        going_on = self._open.get(key)
        if going_on is None and _agree(fenced, original):
            return None
        views = _view(fenced), _view(original)
        if going_on is None:
            if views[0] != views[1]:
                self._open[key] = (*views, self._row(key, *views, judged))
            return None
        if going_on[:2] == views:
            return None
        if views[0] == views[1]:
            del self._open[key]
        else:
            self._open[key] = (*views, self._row(key, *views, judged))
        ended_by = judged[0].raw
        return attrs.evolve(
            going_on[2], until_offset=ended_by.offset, until_ms=ended_by.timestamp_ms
        )

    def go_on(self, key: ClaimKey, fenced: Claim, original: Claim) -> bool:
        """Whether the two agree on this claim: a heartbeat that both accept keeps it so."""
        return key not in self._open and _agree(fenced, original)

    def at_the_end(self) -> Iterator[DivergenceRow]:
        """Yield the divergences that are open at the end of the log."""
        for _, _, row in self._open.values():
            yield row

    def _row(
        self, key: ClaimKey, fenced: View, original: View, judged: tuple[JudgedRecord, JudgedRecord]
    ) -> DivergenceRow:
        first = key not in self._parted
        self._parted.add(key)
        by_fenced, by_original = judged
        parted = [
            name
            for name, differs in (
                ("owner", fenced[:2] != original[:2]),
                ("position", fenced[2] != original[2]),
            )
            if differs
        ]
        proof = by_fenced.row()
        return DivergenceRow(
            group=key.group,
            topic=key.topic,
            topic_partition=key.topic_partition,
            offset=proof.offset,
            timestamp_ms=proof.timestamp_ms,
            first=first,
            differ_in=" and ".join(parted),
            fenced_instance=fenced[0],
            fenced_client=fenced[1],
            fenced_position=fenced[2],
            original_instance=original[0],
            original_client=original[1],
            original_position=original[2],
            fenced_verdict=by_fenced.verdict.value,
            original_verdict=by_original.verdict.value,
            value=proof.value,
        )
