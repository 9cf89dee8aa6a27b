"""Rows of the tables as the values that a page is made of, one function a kind.

This room knows columns and values; which rows a page shows it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.findings.records.senders import SenderClock
from kafka_marshal.replay.model.folded_log import CLAIM, ClaimName
from kafka_marshal.replay.model.rows import Row
from kafka_marshal.replay.report.base import data as page

LANE_MAX: Final = 2000
"""Tenures or marks of one lane to draw, the first ones, at most."""


def integer(value: object) -> int:
    """A column that is never null."""
    return cast("int", value)


def optional(value: object) -> int | None:
    """A column that may be null."""
    return cast("int | None", value)


def text_of(value: object) -> str:
    """Null is empty."""
    return "" if value is None else str(value)


def name_of(row: Row) -> ClaimName:
    """Which claim a row is about."""
    return tuple(row[column] for column in CLAIM)


def claim_id(name: ClaimName) -> page.ClaimId:
    """The claim of that name."""
    log, partition, group, topic, topic_partition = name
    return page.ClaimId(
        text_of(log), integer(partition), text_of(group), text_of(topic), integer(topic_partition)
    )


def lane_of(rules: str, rows: Mapping[str, list[Row]]) -> page.Lane:
    """What one rule set makes of a claim, from its rows by table."""
    drawn = rows["lanes"][0] if rows["lanes"] else None
    pauses: tuple[page.Pause, ...] = ()
    beats: tuple[int, ...] = ()
    if drawn is not None:
        beats = tuple(cast("list[int]", drawn["beats_ms"]))
        senders = text_of(drawn["pauses_by"]).split("\n")
        spans = zip(
            cast("list[int]", drawn["pauses_from_ms"]),
            cast("list[int]", drawn["pauses_until_ms"]),
            senders,
            strict=False,
        )
        pauses = tuple(page.Pause(begin, until, by) for begin, until, by in spans)
    return page.Lane(
        rules=rules,
        tenures=tuple(tenure_of(row) for row in rows["tenures"][:LANE_MAX]),
        marks=tuple(mark_of(row) for row in rows["marks"][:LANE_MAX]),
        pauses=pauses,
        beats_ms=beats,
    )


def tenure_of(row: Row) -> page.Tenure:
    """From a row of `tenures`."""
    lasts = row["to_offset"] is None
    return page.Tenure(
        owner_instance=text_of(row["owner_instance"]),
        owner_client=text_of(row["owner_client"]),
        from_offset=integer(row["from_offset"]),
        to_offset=optional(row["to_offset"]),
        from_ms=integer(row["from_ms"]),
        to_ms=optional(row["to_ms"]),
        position_from=optional(row["position_from"]),
        position_to=optional(row["position_to"]),
        began=text_of(row["began"]),
        ended=None if lasts else text_of(row["ended"]),
    )


def mark_of(row: Row) -> page.Mark:
    """From a row of `marks`."""
    return page.Mark(
        offset=integer(row["offset"]),
        at_ms=integer(row["timestamp_ms"]),
        kind=page.MarkKind(text_of(row["kind"])),
        sender_instance=text_of(row["sender_instance"]),
        sender_client=text_of(row["sender_client"]),
        guard=None if row["guard"] is None else text_of(row["guard"]),
        position=optional(row["position"]),
    )


def finding_of(row: Row) -> page.Finding:
    """From a row of `findings`."""
    proofs = cast("list[Row]", row.get("records") or [])
    rules, text = row.get("rules"), row.get
    return page.Finding(
        rules=None if rules is None else text_of(rules),
        code=text_of(row["code"]),
        severity=page.Severity(text_of(row["severity"])),
        property=None if text("property") is None else text_of(text("property")),
        sentence=text_of(row["sentence"]),
        log=text_of(row["log"]),
        coordinating_partition=optional(row.get("coordinating_partition")),
        group=None if text("group") is None else text_of(text("group")),
        topic=None if text("topic") is None else text_of(text("topic")),
        topic_partition=optional(row.get("topic_partition")),
        offset=optional(row.get("offset")),
        at_ms=optional(row.get("timestamp_ms")),
        records=tuple(proof_of(proof) for proof in proofs),
        what_to_do=CATALOGUE[text_of(row["code"])].what_to_do,
    )


def proof_of(row: Row) -> page.FindingRecord:
    """A record that proves a finding."""
    return page.FindingRecord(
        offset=integer(row["offset"]),
        at_ms=integer(row["timestamp_ms"]),
        type=text_of(row.get("type")) or "malformed",
        sender_instance=text_of(row.get("sender_instance")),
        sender_client=text_of(row.get("sender_client")),
        verdict=text_of(row.get("verdict")),
        text=text_of(row.get("value")),
    )


def sender_of(sender: SenderClock) -> page.SenderClock:
    """A sender's clock."""
    return page.SenderClock(
        sender.log,
        sender.instance,
        sender.client,
        sender.group,
        sender.records,
        sender.offset_min_ms,
        sender.offset_median_ms,
        sender.offset_max_ms,
    )


def group_of(row: Row) -> page.GroupSummary:
    """From a row of `groups`."""
    return page.GroupSummary(
        log=text_of(row["log"]),
        coordinating_partition=integer(row["coordinating_partition"]),
        group=text_of(row["group"]),
        rules=text_of(row["rules"]),
        claims=integer(row["claims"]),
        clients=integer(row["clients"]),
        instances=integer(row["instances"]),
        records=integer(row["records"]),
        tenures=integer(row["tenures"]),
        takeovers=integer(row["takeovers"]),
        refusals=integer(row["refusals"]),
        thefts=integer(row["thefts"]),
        unowned_longest_ms=optional(row["unowned_longest_ms"]),
    )


def divergence_of(row: Row) -> page.Divergence:
    """From a row of `divergences`."""

    def text(name: str) -> str | None:
        return None if row[name] is None else text_of(row[name])

    claim = page.ClaimId(
        text_of(row["log"]),
        integer(row["coordinating_partition"]),
        text_of(row["group"]),
        text_of(row["topic"]),
        integer(row["topic_partition"]),
    )
    return page.Divergence(
        claim=claim,
        offset=integer(row["offset"]),
        at_ms=integer(row["timestamp_ms"]),
        until_offset=optional(row["until_offset"]),
        until_ms=optional(row["until_ms"]),
        original_instance=text("original_instance"),
        original_client=text("original_client"),
        original_position=optional(row["original_position"]),
        fenced_instance=text("fenced_instance"),
        fenced_client=text("fenced_client"),
        fenced_position=optional(row["fenced_position"]),
        text=text_of(row["value"]),
    )
