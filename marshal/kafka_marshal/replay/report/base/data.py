"""The content of a report as plain values, from which the page is built.

This module knows no HTML. The pipeline fills it from its tables, and tests by hand.

Conventions. Times are unix milliseconds, UTC, and names end in `_ms`. Offsets are Kafka offsets in
the coordination topic, except `position`, which is the next offset to consume in the data topic.
Rule sets are "fenced" or "original". `log` is the name of the log that a record comes from: a
capture's file name, or the name of a source that holds one log. Two logs may have the same
partitions and offsets, so every key contains it. Text may be any `str`, including lone surrogates;
the page escapes it. The order of tuples is the order on the page if a field states that, and has no
meaning otherwise.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from attrs import frozen

from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.replay.model.internal import ClockStatistics, GroupCountsRow

if TYPE_CHECKING:
    from kafka_marshal.replay.report.base.scale import Scale

FENCED: Final = "fenced"
ORIGINAL: Final = "original"

RuleSetName: TypeAlias = str
"""`FENCED` or `ORIGINAL`."""


class Severity(enum.StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """A property of the protocol was violated: messages may be processed twice, or not at all."""
    WARNING = "warning"
    """No property was violated, but the rules had to refuse something, or were close to it."""
    INFO = "info"
    """Additional information."""


class MarkKind(enum.StrEnum):
    """A record's effect on a claim that has a glyph: its name, and its wording on the page.

    In order of importance. Ordinary heartbeats are `beats`.
    """

    sentence: str

    def __new__(cls, name: str, sentence: str = "") -> Self:
        """Make a kind with the name as its value."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.sentence = sentence
        return made

    THEFT = "theft", "stolen from a live owner"
    """A record made its sender the owner although another client's owner was live (`overwritten`
    under `original`). The most prominent glyph."""
    TAKEOVER = "takeover", "takeover from a stale owner"
    """A ClaimingPartition won over a stale owner (`took_over`)."""
    RESTART = "restart", "same client, another instance"
    """Another instance of the owner's client took over (`restarted`, `fast_reclaimed`)."""
    REFUSAL = "refusal", "refused"
    """The record was refused; `guard` holds the reason."""
    PAUSE = "pause", "group released and paused"
    """A ReleaseGroup affected the claim."""
    PAUSE_BROKEN = "pause_broken", "pause broken"
    """During a pause, ownership was won or kept by a client other than the pauser."""
    POSITION_SET = "position_set", "position set by the admin"
    """An administrator set the position."""
    POSITION_BACK = "position_back", "position moved back"
    """The position moved back, and no administrator did that."""


MARK_OF: Final = {
    Accepted.TOOK_OVER: MarkKind.TAKEOVER,
    Accepted.RESTARTED: MarkKind.RESTART,
    Accepted.FAST_RECLAIMED: MarkKind.RESTART,
    Accepted.GROUP_RELEASED: MarkKind.PAUSE,
    Accepted.POSITION_SET: MarkKind.POSITION_SET,
}
"""The marks of verdicts that always have one."""


@frozen
class ClaimId:
    """The identity of a claim, which is one state machine and one row of the timeline."""

    log: str
    coordinating_partition: int
    """Partition of the coordination topic that holds the claim's records."""
    group: str
    topic: str
    topic_partition: int
    """Partition of the data topic."""


@frozen
class TenureBar:
    """One owner's uninterrupted ownership of a claim, drawn as a bar. Gaps are unowned time.

    It has the columns of a row of `tenures` that a lane needs: thousands of bars share one claim.
    """

    owner_instance: str
    owner_client: str
    from_offset: int
    """Offset of the record that began it."""
    to_offset: int | None
    """Offset of the record that ended it; None if it is open at the end of the log."""
    from_ms: int
    to_ms: int | None
    """Time of the record that ended it; None if it is open: drawn to the end of the log."""
    position_from: int | None
    """The claim's position after the first record; None if unknown."""
    position_to: int | None
    """The last position of the tenure; None if unknown."""
    began: str
    """How it began: the value of `Accepted` (`claimed`, `took_over`, `overwritten`, ...)."""
    ended: str | None
    """How it ended: the value of `Accepted` of the last record; None if it is open."""


@frozen
class RecordGlyph:
    """One record with a glyph on the lane."""

    offset: int
    at_ms: int
    kind: MarkKind
    sender_instance: str
    sender_client: str
    guard: str | None = None
    """The value of `Refused` for a refusal, else None."""
    position: int | None = None
    """The claim's position after the record; None if unknown."""
    text: str = ""
    """One sentence for the tooltip, without offset, time and sender, which are always shown. Empty:
    the page shows the meaning of the kind."""


@frozen
class Pause:
    """A time span in which only the pauser may win the claim."""

    from_ms: int
    until_ms: int | None
    """Its expiry, or the earlier end by the pauser's own win; None: after the end of the log."""
    by: str
    """The instance that sent the ReleaseGroup."""


@frozen
class RangeBar:
    """A range of a shared claim that one instance held."""

    offset: int
    """Log offset of the request that was granted it."""
    start: int
    end: int
    """The offset after the last one of the range."""
    instance: str
    client: str
    from_ms: int
    to_ms: int | None
    """None: held at the end of the log."""
    ended: str
    """done, given_back, taken, lost, void or held."""


@frozen
class Lane:
    """The result of one rule set for one claim."""

    rules: RuleSetName
    tenures: tuple[TenureBar, ...] = ()
    """In order of `from_offset`."""
    marks: tuple[RecordGlyph, ...] = ()
    """In order of offset."""
    pauses: tuple[Pause, ...] = ()
    beats_ms: tuple[int, ...] = ()
    """Times of the owner's accepted records (win, heartbeat, grant), ascending. Drawn as hairlines
    in the bar, and the bar fades while its owner was stale. Empty: neither is drawn."""
    ranges: tuple[RangeBar, ...] = ()
    """For a shared claim: its ranges with their holders, in order of offset."""


@frozen
class ClaimTimeline:
    """One claim under every rule set of the report. Sorted by key on the page."""

    claim: ClaimId
    lanes: tuple[Lane, ...]
    """One per rule set of `ReportData.rules`; drawn original first."""
    records: int | None = None
    """The number of records with the claim's key; None if not counted."""


@frozen
class FindingRecord:
    """A record that proves a finding."""

    offset: int
    at_ms: int
    type: str
    """`Heartbeat`, `ClaimingPartition`, ...; `malformed` if its value is no message."""
    sender_instance: str
    sender_client: str
    verdict: str
    """The value of `Accepted`, `Refused` or `ReadTwice`; empty if there is none."""
    text: str
    """The record's value as text. Bytes that are not UTF-8 are surrogate escapes."""


@frozen
class Finding:
    """A finding. The page groups findings of one cause; see `causes`."""

    rules: RuleSetName | None
    """The rule set; None for a fact of the input (gap, duplicate, CreateTime, clock)."""
    code: str
    """snake_case, as in the `findings` table: `late_heartbeat_stole`."""
    severity: Severity
    property: str | None
    """The specification's name of the property that it violates or protects: `Fenced`; None if
    there is none."""
    sentence: str
    """What happened, in plain words, without the records' texts."""
    log: str
    coordinating_partition: int | None = None
    """None if the finding is about the whole log."""
    group: str | None = None
    topic: str | None = None
    topic_partition: int | None = None
    """None (with `topic`) if the finding is about a group, a sender or the input."""
    offset: int | None = None
    """The offset of the finding's mark on the timeline; None: the first of `records`."""
    at_ms: int | None = None
    """The time of the finding's mark; None: that of the first of `records`."""
    records: tuple[FindingRecord, ...] = ()
    """In order of offset."""
    what_to_do: str = ""
    """What an operator should do about findings of this code."""


@frozen
class Divergence:
    """A part of one claim's log in which the two rule sets have the same two different results.

    It begins with a record. It ends with the next record after which they agree again, or differ in
    another way (then the next divergence begins there).
    """

    claim: ClaimId
    offset: int
    at_ms: int
    until_offset: int | None
    """None: they still differ at the end of the log."""
    until_ms: int | None
    """None: as `until_offset`."""
    original_instance: str | None
    """The owner under `original`; None if there is none."""
    original_client: str | None
    original_position: int | None
    fenced_instance: str | None
    """The owner under `fenced`; None if there is none."""
    fenced_client: str | None
    fenced_position: int | None
    text: str = ""
    """The value of the record after which they differ."""

    @property
    def owners_differ(self) -> bool:
        """Whether the owners differ; else only the positions do."""
        return (self.original_instance, self.original_client) != (
            self.fenced_instance,
            self.fenced_client,
        )


@frozen
class ReportLog:
    """One log of the input: a figure of timelines. The worst log comes first, else this order."""

    name: str
    records: int
    from_ms: int | None
    """Time of its first record; None without records. With `to_ms`, the span of its time axis."""
    to_ms: int | None
    partitions: int
    """The number of coordinating partitions with records."""
    malformed: int = 0
    create_time: bool = False
    """Whether a record has CreateTime: then timestamps are the producers', not the broker's."""


@frozen
class Counts:
    """The size of the replay, including everything that the page leaves out."""

    records: int
    malformed: int
    claims: int
    groups: int
    senders: int
    """The number of distinct instances."""
    findings: int
    """The number of findings of all severities; if `ReportData.findings` has fewer, the page says
    so."""
    divergences: int
    """The same for divergences."""
    claims_unjudged: int = 0
    """The claims that were uncertain when the log ended, under the fenced rules: the log does not
    have its head."""


@frozen
class ReportData:
    """The content of the page."""

    title: str
    """The topic and its cluster if known, else the files. The time is added."""
    sources: tuple[str, ...]
    """The SOURCE arguments as given."""
    rules: tuple[RuleSetName, ...]
    """One or both rule sets."""
    heartbeat_interval_s: float
    """The longest heartbeat interval of a group."""
    from_ms: int | None
    """Time of the first record of all logs; None if there is no record."""
    to_ms: int | None
    counts: Counts
    logs: tuple[ReportLog, ...] = ()
    caveats: tuple[str, ...] = ()
    """Sentences about the limits of the page's content: CreateTime, missing head, gaps, claims left
    out for size."""
    groups: tuple[GroupCountsRow, ...] = ()
    claims: tuple[ClaimTimeline, ...] = ()
    """The claims to draw, at most some hundreds; if there are more, `scale` describes them."""
    findings: tuple[Finding, ...] = ()
    """At most some hundreds, the worst first."""
    senders: tuple[ClockStatistics, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    """Only with both rule sets. At most some hundreds."""
    heartbeat_intervals_s: tuple[float, ...] = ()
    """All heartbeat intervals of groups, the longest last."""
    scale: Scale | None = None
    """For a replay that is too large to draw: totals, and details on demand. Then `claims` is
    empty."""
