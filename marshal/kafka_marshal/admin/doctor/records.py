"""Checks the newest records: their partitions, timestamp types, and senders without headers."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_marshal.admin.doctor.finding import (
    CheckFinding,
    CheckSeverity,
    names,
    not_examined,
    numbers,
)
from kafka_marshal.admin.doctor.topic_sample import TopicSample
from kafka_marshal.client.connect.coordination_topic import BECAUSE
from kafka_marshal.core.state import Rules


def records(sample: TopicSample) -> Iterator[CheckFinding]:
    """Yield findings about the newest records."""
    yield from _misplaced_records(sample)
    if sample.of_another_log:
        yield CheckFinding(
            CheckSeverity.ERROR,
            "offsets",
            f"{sample.of_another_log:,} of {sample.owners_records:,} owners' records refer to an "
            f"offset that is not before their own: {names(sample.clients_of_another_log)}",
            "they were written to another log, of which this one is a mirror or a remainder: its "
            "epochs and positions mean nothing here",
            "stop all consumers, make a new coordination topic, and set positions "
            "(docs/how-to/mirrored-or-restored-cluster.md)",
        )
    yield from _gaps(sample)
    yield from _intervals(sample)
    yield from _windows(sample)
    if sample.create_time:
        yield CheckFinding(
            CheckSeverity.ERROR,
            "timestamps",
            f"{sample.create_time:,} of {sample.records:,} records carry the producer's time",
            BECAUSE["message.timestamp.type"],
            "set message.timestamp.type to LogAppendTime; it holds for new records",
        )
    if sample.malformed:
        yield CheckFinding(
            CheckSeverity.WARNING,
            "messages",
            f"{sample.malformed:,} of {sample.records:,} records hold no message of the protocol",
            "nothing by themselves, but a program writes to the topic that should not",
            "see who it is: `marshal replay` lists them",
        )
    yield from _authenticity(sample)
    if sample.without_headers:
        yield CheckFinding(
            CheckSeverity.NOTE,
            "headers",
            f"{sample.without_headers:,} of {sample.owners_records:,} owners' records carry no "
            f"headers: {names(sample.clients_without_headers)}",
            "for the claims of these clients what the original guarantees holds, and no more",
            "let them go on as clients of this package",
        )


def heads(sample: TopicSample, rules: Rules, now_ms: float) -> Iterator[CheckFinding]:
    """Partitions that began so lately that a pause of before may still hold (DefiniteWin)."""
    if sample.heads_not_read:
        which = numbers(sample.heads_not_read)
        reason = f"the head of partition {which} is gone, and no record was read"
        yield not_examined("head", reason, "raise --records")
    needed_ms = rules.pause_max_ms + rules.clock_rewind_max_ms
    short = {
        number
        for number, first_ms in sample.begun.items()
        if first_ms is None or now_ms - first_ms <= needed_ms
    }
    if short:
        hours, minutes = divmod(-(-needed_ms // 60_000), 60)
        needed = f"{hours:g} h {minutes:g} min"
        yield CheckFinding(
            CheckSeverity.NOTE,
            "head",
            f"the head of partition {numbers(short)} is gone, and less than {needed} is left",
            "a group that claims there for the first time, or after a long stop, waits in silence: "
            f"at least once {needed}, at most once until its position is set",
            "set its positions: marshal set-position GROUP TOPIC=WHERE",
        )


def _misplaced_records(sample: TopicSample) -> Iterator[CheckFinding]:
    misplaced = sample.misplaced
    if not misplaced:
        return
    worst = max(misplaced, key=lambda one: one.last_ms)
    before = sample.counted_before
    grown = f"; with {before} partitions they would be right" if before is not None else ""
    both = any(
        one.first_right_ms is not None and one.last_ms > one.first_right_ms for one in misplaced
    )
    yield CheckFinding(
        CheckSeverity.ERROR,
        "places",
        f"records of {names({one.topic for one in misplaced})} lie on partition {worst.partition}, "
        f"and by {sample.partitions} partitions belong on {worst.right_partition}{grown}"
        + ("; some are newer than records in the right place" if both else ""),
        "two consumers own one claim, each in its own log"
        if both
        else "claims have moved away from their history: owners and positions are forgotten",
        "never change the partition count; stop all consumers, and set positions anew",
    )


def _gaps(sample: TopicSample) -> Iterator[CheckFinding]:
    if not sample.gaps:
        return
    number, (first, end) = min(sample.gaps.items())
    others = sorted(set(sample.gaps) - {number})
    also = f"; also in partition {numbers(others)}" if others else ""
    which = f"offset {first:,} is" if end == first + 1 else f"offsets {first:,} to {end - 1:,} are"
    yield CheckFinding(
        CheckSeverity.WARNING,
        "gaps",
        f"{which} missing inside of partition {number}{also}: compacted, deleted, or the end of a "
        "transaction",
        "a consumer that reads on there loses its claims, and is certain of none until a living "
        "owner certifies it or its position is set",
        "set cleanup.policy to delete, and let nobody delete records of the topic or write "
        "transactions to it; if a group waits: marshal set-position GROUP TOPIC=WHERE",
    )


def _authenticity(sample: TopicSample) -> Iterator[CheckFinding]:
    if sample.not_authentic:
        yield CheckFinding(
            CheckSeverity.ERROR,
            "authentication",
            f"{sample.not_authentic:,} of {sample.records:,} records carry a MAC that is not their "
            f"own, cannot be read or is of an unknown key: {names(sample.clients_not_authentic)}",
            "somebody writes in another's name, or members have different keys",
            "find who may WRITE the topic; `marshal replay --keys` lists the records",
        )
    if sample.not_signed:
        yield CheckFinding(
            CheckSeverity.WARNING,
            "authentication",
            f"{sample.not_signed:,} of {sample.records:,} records carry no MAC: "
            f"{names(sample.clients_not_signed)}",
            "clients that require authentic records stop there",
            "give these clients the keys; where the log is older than its keys, set signed-since",
        )


def _intervals(sample: TopicSample) -> Iterator[CheckFinding]:
    for group, clients in sample.intervals.items():
        if len(clients) > 1:
            described = ", ".join(
                f"client {clients[interval_ms]} says {interval_ms / 1000:g} s"
                for interval_ms in sorted(clients)
            )
            yield CheckFinding(
                CheckSeverity.ERROR,
                "intervals",
                f"group {group} lives under {len(clients)} heartbeat intervals: {described}",
                "an owner that is dead to one is alive to another, and both process its messages",
                "stop the consumers that differ; to change the interval, stop all and start anew",
            )


def _windows(sample: TopicSample) -> Iterator[CheckFinding]:
    for key, windows in sample.windows_that_take_turns.items():
        yield CheckFinding(
            CheckSeverity.WARNING,
            "ranges",
            f"consumers ask for {key.topic}:{key.topic_partition} of group {key.group}, to share "
            f"it, under windows that take turns: {', '.join(f'{one:,}' for one in windows)}",
            "each win under another window ends all ranges: messages in hand are processed again, "
            "or, reserved at most once, by nobody",
            "give all consumers that share a claim the same window",
        )
