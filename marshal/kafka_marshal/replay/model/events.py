"""What an observer of a log receives: a record, its effect on one claim, and the owner.

These are the values between the fold (`ruleset_fold`) and its observers (`tenures`, `findings`,
`lanes`, `divergences`). This module knows neither Spark nor the tables' files.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from attrs import define, field, frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.core.claims.verdicts import Accepted, ReadTwice, Refused
from kafka_marshal.core.messages import Message, Record
from kafka_marshal.core.ranges.messages import RangesMessage
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused
from kafka_marshal.core.state import Claim, ClaimKey, Rules, RuleSet
from kafka_marshal.replay.model.position_progress import PositionProgress
from kafka_marshal.replay.model.published import ProofRow
from kafka_marshal.replay.model.rows import readable_bytes


class Unknowable(enum.Enum):
    """The verdict on a record whose claim is uncertain, in a log that starts in the middle."""

    UNKNOWABLE = "unknowable"
    """The effect of the record cannot be known."""
    BECAME_CERTAIN = "became_certain"
    """From this record on the claim is certain, and has an owner."""


Judgement: TypeAlias = Accepted | Refused | ReadTwice | Unknowable | RangeAccepted | RangeRefused


@frozen
class LogPartition:
    """The place of a fold: one coordinating partition of one log."""

    log: str
    coordinating_partition: int


@define
class JudgedRecord:
    """One record and its verdict under a rule set, as a finding shows it. Never changed.

    It is not frozen, because one is made for every record, and freezing doubles the cost.
    """

    raw: RawRecord
    message: RangesMessage
    verdict: Judgement
    clock_ms: int
    """The latest timestamp of the coordinating partition so far, which reports give as the time."""

    @property
    def offset(self) -> int:
        """The record's log offset."""
        return self.raw.offset

    @property
    def sent_late_ms(self) -> int:
        """The time from writing the record to its arrival in the log, if both clocks agree."""
        return self.raw.timestamp_ms - self.message.unix_s * 1000

    def row(self) -> ProofRow:
        """The record as a proof in the table `findings`."""
        return ProofRow(
            offset=self.raw.offset,
            timestamp_ms=self.raw.timestamp_ms,
            type=type(self.message).__name__,
            sender_instance=self.message.instance_id,
            sender_client=self.message.client_id,
            verdict=self.verdict.value,
            value=readable_bytes(self.raw.value),
        )


@define
class Tenure:
    """One owner's uninterrupted ownership of a claim."""

    key: ClaimKey
    instance: str
    client: str
    epoch: int | None
    won_by: JudgedRecord
    last: JudgedRecord
    """The owner's last accepted record."""
    position_from: int
    pace: PositionProgress
    """The movement of its position."""
    records: int = 1
    longest_silence_ms: int = 0

    @property
    def last_ms(self) -> int:
        """Time of the owner's last accepted record."""
        return self.last.clock_ms


@define
class Event:
    """One record and one claim that it affects, under one rule set."""

    rules: Rules
    record: Record
    sighting: JudgedRecord
    verdict: Accepted | Refused
    key: ClaimKey
    before: Claim
    after: Claim
    tenure: Tenure | None
    """The tenure before the record."""
    tenure_after: Tenure | None = field(default=None)
    """The tenure after it; the same object if it continues."""
    last_word: JudgedRecord | None = field(default=None)
    """The last accepted record of the owner before this one."""
    silence_ms: int | None = field(default=None)
    """The owner's silence before this record, if it is an accepted record of the owner."""

    @property
    def message(self) -> Message:
        """The record's message."""
        return self.record.message

    @property
    def clock_ms(self) -> int:
        """The time by the coordinating partition's clock."""
        return self.sighting.clock_ms

    @property
    def is_original(self) -> bool:
        """Whether the original's rules were applied."""
        return self.rules.rule_set is RuleSet.ORIGINAL

    @property
    def ended(self) -> bool:
        """Whether a tenure ended with this record."""
        return self.tenure is not None and self.tenure is not self.tenure_after

    @property
    def began(self) -> bool:
        """Whether a tenure began with this record."""
        return self.tenure_after is not None and self.tenure is not self.tenure_after
