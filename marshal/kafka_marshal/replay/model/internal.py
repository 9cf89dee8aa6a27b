"""Rows of a fold for `summary.json` and the report; they are not written as tables.

This module does not know how rows are computed, nor how they are stored (`rows`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from attrs import field, frozen

from kafka_marshal.replay.model.published import ClaimRow, Coordinating, GroupRow
from kafka_marshal.replay.model.rows import Row


def _integers(given: Iterable[int]) -> tuple[int, ...]:
    return tuple(given)


@frozen(kw_only=True)
class GroupCountsRow(GroupRow):
    """Counts of one group in one coordinating partition."""

    claims: int
    clients: Annotated[int, "distinct client ids that sent for the group"]
    instances: Annotated[int, "distinct instance ids that sent for the group"]
    records: int
    tenures: int
    takeovers: int
    refusals: int
    thefts: int
    unowned_longest_ms: Annotated[
        int | None, "how long one of its claims was free after an owner, at most; null: never"
    ]
    heartbeat_interval_ms: float
    intervals_said_ms: tuple[int, ...] = field(converter=_integers)


@frozen(kw_only=True)
class SenderRow(Row):
    """How far one sender's clock differs from the broker's: a histogram."""

    group: str
    instance: str
    client: str
    offset_min_ms: int
    offset_max_ms: int
    buckets: tuple[int, ...] = field(converter=_integers)
    counts: tuple[int, ...] = field(converter=_integers)


@frozen
class ClockStatistics:
    """One sender's clock over a whole log: message time minus the broker's.

    Above 0 the sender's clock is ahead. A message holds whole seconds, so a perfect clock and a
    fast network give a median near -500.
    """

    log: str
    group: str
    instance: str
    client: str
    records: int
    offset_min_ms: int
    offset_median_ms: int
    offset_max_ms: int

    @property
    def off_ms(self) -> int:
        """The estimated error of the clock, in ms.

        Cutting a time to whole seconds costs half a second on average, which is corrected here.
        """
        return self.offset_median_ms + 500


@frozen(kw_only=True)
class PartitionRow(Row):
    """Facts about one coordinating partition of one log.

    The last six are counts for a log that starts in the middle; for a whole log they are null.
    """

    coordinating_partition: Coordinating = -1
    records: int
    malformed: int
    first_offset: int
    last_offset: int
    from_ms: int
    to_ms: int
    create_time: int
    type_not_stated: int
    duplicates: int
    conflicting: int
    gaps: int
    missing: int
    claims_known_later: int | None = None
    claims_never_known: int | None = None
    known_from_first: int | None = None
    known_from_last: int | None = None
    unknowable: int | None = None
    claims_ranges_unjudged: int | None = None


@frozen(kw_only=True)
class MarkRow(ClaimRow):
    """Records with a glyph on the timeline."""

    offset: int
    timestamp_ms: int
    kind: str
    sender_instance: str
    sender_client: str
    guard: str | None
    position: int | None
    note: str = ""


@frozen(kw_only=True)
class RangeRow(ClaimRow):
    """A range of a shared claim that one instance held, from its request to its end."""

    offset: Annotated[int, "log offset of the request that was granted them"]
    start: Annotated[int, "the first of them"]
    end: Annotated[int, "the next one after the last"]
    instance: str
    client: str
    from_ms: int
    to_ms: Annotated[int | None, "null if they are still held when the log ends"]
    ended: Annotated[
        str,
        "`done`, `given_back`, `taken` (from a silent holder, into the pool), `lost` (forgotten, "
        "at most once), `void` (the ranges of the claim ended); `held` when the log ends",
    ]


@frozen(kw_only=True)
class LaneRow(ClaimRow):
    """Heartbeats and pauses of one claim's timeline, and the claim's counts."""

    records: Annotated[int, "as in `claims`"]
    tenures: int
    takeovers: int
    marks: int
    unowned_ms: Annotated[int, "from the end of each tenure to the beginning of the next"]
    free_since_ms: Annotated[int | None, "when the last tenure ended, if none followed"]
    beats_ms: tuple[int, ...] = field(converter=_integers)
    pauses_from_ms: tuple[int, ...] = field(converter=_integers)
    pauses_until_ms: tuple[int, ...] = field(converter=_integers)
    pauses_by: str
