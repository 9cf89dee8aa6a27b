"""The content of a report as plain values, from which the page is built.

This room knows no HTML. The pipeline fills it from its tables, a test by hand.

Conventions. Times are unix milliseconds, UTC, and names end in `_ms`; offsets are Kafka offsets in
the coordination topic, except `position`, which counts in the data topic (next to consume). Rule
sets are "fenced" or "original". `log` is the name of the log a record came from: a capture's file
name, or the name of a source that holds one log. Two logs may hold the same partitions and offsets,
so every key carries it. Text may be any `str`, lone surrogates included; the page escapes it. Order
of tuples is the order on the page where a field says so, and free elsewhere.
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
    """How bad a finding is."""

    ERROR = "error"
    """A property of the protocol was broken: a message may be processed twice, or not."""
    WARNING = "warning"
    """Nothing was broken, but the rules had to refuse something, or stood close to it."""
    INFO = "info"
    """Worth knowing when the rest is read."""


class MarkKind(enum.StrEnum):
    """What a record did to a claim that is worth a glyph: its name, and what the page calls it.

    Loudest first. Ordinary heartbeats are `beats`.
    """

    sentence: str

    def __new__(cls, name: str, sentence: str = "") -> Self:
        """Take the name for the value, and the sentence beside it."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.sentence = sentence
        return made

    THEFT = "theft", "stolen from a live owner"
    """A record made its sender the owner although another client's owner was live
    (`overwritten` under `original`). Drawn loudest."""
    TAKEOVER = "takeover", "takeover from a stale owner"
    """ClaimingPartition won over a stale owner (`took_over`)."""
    RESTART = "restart", "same client, another instance"
    """Another instance of the owner's client came in (`restarted`, `fast_reclaimed`)."""
    REFUSAL = "refusal", "refused"
    """The record was refused; `guard` says by what."""
    PAUSE = "pause", "group released and paused"
    """ReleaseGroup reached the claim."""
    PAUSE_BROKEN = "pause_broken", "pause broken"
    """Ownership was won, or kept, by somebody else than the pauser within a pause."""
    POSITION_SET = "position_set", "position set by the admin"
    """The admin set the position."""
    POSITION_BACK = "position_back", "position moved back"
    """The position fell, and no admin did it."""


MARK_OF: Final = {
    Accepted.TOOK_OVER: MarkKind.TAKEOVER,
    Accepted.RESTARTED: MarkKind.RESTART,
    Accepted.FAST_RECLAIMED: MarkKind.RESTART,
    Accepted.GROUP_RELEASED: MarkKind.PAUSE,
    Accepted.POSITION_SET: MarkKind.POSITION_SET,
}
"""The marks of verdicts that are always marked."""


@frozen
class ClaimId:
    """Which claim: one state machine, one row of the timeline."""

    log: str
    coordinating_partition: int
    """Partition of the coordination topic that holds the claim's records."""
    group: str
    topic: str
    topic_partition: int
    """Partition of the data topic."""


@frozen
class TenureBar:
    """One owner's unbroken ownership of a claim: a bar. Unowned time is the space between.

    Of a row of `tenures` it is what a lane draws: thousands of bars share their lane's claim.
    """

    owner_instance: str
    owner_client: str
    from_offset: int
    """Offset of the record that began it."""
    to_offset: int | None
    """Offset of the record that ended it; None while it lasts at the end of the log."""
    from_ms: int
    to_ms: int | None
    """Time of the record that ended it; None while it lasts: drawn to the end of the log."""
    position_from: int | None
    """The claim's position right after the beginning; None when not known."""
    position_to: int | None
    """The last position of the tenure; None when not known."""
    began: str
    """How it began: the value of `Accepted` (`claimed`, `took_over`, `overwritten`, ...)."""
    ended: str | None
    """How it ended: the value of `Accepted` of the ending record; None while it lasts."""


@frozen
class RecordGlyph:
    """One record that deserves a glyph on the lane."""

    offset: int
    at_ms: int
    kind: MarkKind
    sender_instance: str
    sender_client: str
    guard: str | None = None
    """Value of `Refused` for a refusal, else None."""
    position: int | None = None
    """The claim's position after the record; None when not known."""
    text: str = ""
    """One sentence for the tooltip, without offset, time and sender, which are shown anyway.
    Empty: the page says what the kind means."""


@frozen
class Pause:
    """A span in which only the pauser may win the claim."""

    from_ms: int
    until_ms: int | None
    """The expiry, or earlier when the pauser's own win ended it; None: past the end of the log."""
    by: str
    """Instance that sent the ReleaseGroup."""


@frozen
class RangeBar:
    """Offsets that one instance held of a shared claim."""

    offset: int
    """Log offset of the request that was granted them."""
    start: int
    end: int
    """The next one after the last."""
    instance: str
    client: str
    from_ms: int
    to_ms: int | None
    """None: held when the log ends."""
    ended: str
    """done, given_back, taken, lost, void or held."""


@frozen
class Lane:
    """What one rule set makes of one claim."""

    rules: RuleSetName
    tenures: tuple[TenureBar, ...] = ()
    """In order of `from_offset`."""
    marks: tuple[RecordGlyph, ...] = ()
    """In order of offset."""
    pauses: tuple[Pause, ...] = ()
    beats_ms: tuple[int, ...] = ()
    """Times of the owner's accepted records (win, heartbeat, grant), ascending. Drawn as hairlines
    in the bar, and the bar fades where its owner was stale. Empty: neither is drawn."""
    ranges: tuple[RangeBar, ...] = ()
    """Of a shared claim who held which offsets, in order of offset."""


@frozen
class ClaimTimeline:
    """One claim under every rule set of the report. Sorted by key on the page."""

    claim: ClaimId
    lanes: tuple[Lane, ...]
    """One per rule set of `ReportData.rules`; drawn original first."""
    records: int | None = None
    """Records of the claim's key; None when not counted."""


@frozen
class FindingRecord:
    """A record that proves a finding."""

    offset: int
    at_ms: int
    type: str
    """`Heartbeat`, `ClaimingPartition`, ...; `malformed` when it has none."""
    sender_instance: str
    sender_client: str
    verdict: str
    """Value of `Accepted`, `Refused` or `ReadTwice`, or empty when it says nothing."""
    text: str
    """The record's value as text. Bytes that are not UTF-8 as surrogate escapes."""


@frozen
class Finding:
    """Something worth reporting. On the page those of one cause stand together; see `causes`."""

    rules: RuleSetName | None
    """Under which rule set; None for a fact of the input (gap, duplicate, CreateTime, clock)."""
    code: str
    """snake_case, as in the `findings` table: `late_heartbeat_stole`."""
    severity: Severity
    property: str | None
    """The property it breaks or defends, by its name in the specification: `Fenced`; None when
    there is none."""
    sentence: str
    """What happened, in plain words, without the records' texts."""
    log: str
    coordinating_partition: int | None = None
    """None when the finding is about the whole log."""
    group: str | None = None
    topic: str | None = None
    topic_partition: int | None = None
    """None (with `topic`) when the finding is about a group, a sender or the input."""
    offset: int | None = None
    """The record that is the finding's place on the timeline; None: the first of `records`."""
    at_ms: int | None = None
    """Its time; None: that of the first of `records`."""
    records: tuple[FindingRecord, ...] = ()
    """In order of offset."""
    what_to_do: str = ""
    """What somebody who runs the consumers does about findings of this code."""


@frozen
class Divergence:
    """A stretch of one claim's log over which the two rule sets say the same two different things.

    It begins with a record and ends with the next record after which they agree again or differ in
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
    """Owner under `original`; None when nobody owns."""
    original_client: str | None
    original_position: int | None
    fenced_instance: str | None
    """Owner under `fenced`; None when nobody owns."""
    fenced_client: str | None
    fenced_position: int | None
    text: str = ""
    """The value of the record that parted them."""

    @property
    def owners_differ(self) -> bool:
        """They name another owner; else only the position differs."""
        return (self.original_instance, self.original_client) != (
            self.fenced_instance,
            self.fenced_client,
        )


@frozen
class ReportLog:
    """One log of the input: a figure of timelines, the worst log first, else in this order."""

    name: str
    records: int
    from_ms: int | None
    """Time of its first record; None when it has none. With `to_ms` the span of its time axis."""
    to_ms: int | None
    partitions: int
    """Coordinating partitions that hold a record."""
    malformed: int = 0
    create_time: bool = False
    """Some record carries CreateTime: the stamps are the producers', not the broker's."""


@frozen
class Counts:
    """How much was replayed, everything included, also what the page leaves out."""

    records: int
    malformed: int
    claims: int
    groups: int
    senders: int
    """Distinct instances."""
    findings: int
    """Of all severities; when above `len(ReportData.findings)` the page says that it shows some."""
    divergences: int
    """As `findings`."""


@frozen
class ReportData:
    """Everything the page says."""

    title: str
    """The topic and its cluster as far as they are known, else the files. The time is added."""
    sources: tuple[str, ...]
    """The SOURCE arguments as given."""
    rules: tuple[RuleSetName, ...]
    """One or both rule sets."""
    heartbeat_interval_s: float
    """The longest by which a group was judged."""
    from_ms: int | None
    """Time of the first record of all logs; None when there is no record."""
    to_ms: int | None
    counts: Counts
    logs: tuple[ReportLog, ...] = ()
    caveats: tuple[str, ...] = ()
    """Sentences that limit what the page may be read to say: CreateTime, missing head, gaps,
    claims left out for size."""
    groups: tuple[GroupCountsRow, ...] = ()
    claims: tuple[ClaimTimeline, ...] = ()
    """The claims to draw. Keep it to some hundreds; of more, `scale` tells what there is."""
    findings: tuple[Finding, ...] = ()
    """Keep it to some hundreds, the worst first."""
    senders: tuple[ClockStatistics, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    """Only with both rule sets. Keep it to some hundreds."""
    heartbeat_intervals_s: tuple[float, ...] = ()
    """Each by which a group was judged, the longest last."""
    scale: Scale | None = None
    """Of more than can be drawn: totals, and what is drawn when asked. Then `claims` is empty."""
