"""Checks the coordination topic: its settings, replicas and leaders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_marshal.admin.doctor.finding import CheckFinding, CheckSeverity, numbers
from kafka_marshal.client.connect.admin_client import TopicDescription
from kafka_marshal.client.connect.coordination_topic import (
    BECAUSE,
    retention_needed_ms,
    retention_suffices,
)
from kafka_marshal.client.connect.settings import SHARED_TOPIC_BYTES_MIN, TOPIC_BYTES_MIN
from kafka_marshal.core.state import Rules
from kafka_marshal.errors import init_command


def missing(bootstrap: str, topic: str) -> CheckFinding:
    """The finding that there is no coordination topic."""
    return CheckFinding(
        CheckSeverity.ERROR,
        "topic",
        f"there is no topic {topic}",
        "nobody can claim anything",
        f"make it with: {init_command(bootstrap, topic)}",
    )


def of_settings(
    hold: Mapping[str, str], seen: TopicDescription, rules: Rules
) -> Iterator[CheckFinding]:
    """The topic's settings, one by one."""

    def wrong(name: str, severity: CheckSeverity, wanted: str) -> CheckFinding:
        found = f"{name} is {hold.get(name) or 'not reported'}"
        return CheckFinding(severity, name, found, BECAUSE[name], f"set it to {wanted}")

    if hold.get("message.timestamp.type") != "LogAppendTime":
        yield wrong("message.timestamp.type", CheckSeverity.ERROR, "LogAppendTime")
    if hold.get("cleanup.policy") != "delete":
        yield wrong("cleanup.policy", CheckSeverity.ERROR, "delete")
    if not retention_suffices(hold.get("retention.ms", ""), rules):
        needed = f"at least {retention_needed_ms(rules)}, better twice that"
        yield wrong("retention.ms", CheckSeverity.ERROR, needed)
    if hold.get("retention.bytes", "-1") != "-1":
        yield wrong("retention.bytes", CheckSeverity.WARNING, "-1")
    if hold.get("unclean.leader.election.enable") != "false" and seen.copies > 1:
        yield wrong("unclean.leader.election.enable", CheckSeverity.ERROR, "false")
    yield from _in_sync(hold, seen)
    limit = hold.get("max.message.bytes", "")
    if limit.isdecimal() and int(limit) < TOPIC_BYTES_MIN:
        yield CheckFinding(
            CheckSeverity.WARNING,
            "max.message.bytes",
            f"max.message.bytes is {limit}",
            "heartbeats with long names, or sent together, are refused, and their consumer ends",
            f"set it to at least {SHARED_TOPIC_BYTES_MIN}",
        )
    elif limit.isdecimal() and int(limit) < SHARED_TOPIC_BYTES_MIN:
        yield CheckFinding(
            CheckSeverity.NOTE,
            "max.message.bytes",
            f"max.message.bytes is {limit}",
            "nothing, unless consumers share partitions: heartbeats with hundreds of ranges are "
            "refused, and their consumer ends",
            f"set it to at least {SHARED_TOPIC_BYTES_MIN} before partitions are shared",
        )
    if hold.get("compression.type", "producer") not in ("producer", "uncompressed"):
        yield CheckFinding(
            CheckSeverity.NOTE,
            "compression.type",
            f"compression.type is {hold['compression.type']}: the broker compresses every record",
            "nothing; each append takes a little longer",
            "leave it, or set it to producer",
        )
    version = hold.get("message.format.version", "")
    if version.startswith(("0.8", "0.9", "0.10")):
        yield CheckFinding(
            CheckSeverity.ERROR,
            "message.format.version",
            f"message.format.version is {version}: records lose their headers",
            "without headers a late heartbeat cannot be told from the owner's",
            "set it to 0.11 or later",
        )


def _in_sync(hold: Mapping[str, str], seen: TopicDescription) -> Iterator[CheckFinding]:
    text = hold.get("min.insync.replicas", "1")
    needed = int(text) if text.isdecimal() else 1
    name = "min.insync.replicas"
    if seen.copies > 1 and needed < 2:
        found = f"{name} is {needed}, with {seen.copies} copies"
        yield CheckFinding(CheckSeverity.WARNING, name, found, BECAUSE[name], "set it to 2")
    if 1 < seen.copies <= needed:
        yield CheckFinding(
            CheckSeverity.WARNING,
            name,
            f"{name} is {needed}, with {seen.copies} copies",
            "one broker down stops every heartbeat: nobody can claim, and at most once nobody "
            "consumes",
            f"keep {needed + 1} copies",
        )
    short = [n for n, one in seen.partitions.items() if len(one.in_sync) < needed]
    if short:
        yield CheckFinding(
            CheckSeverity.ERROR,
            "copies",
            f"fewer than {needed} brokers have all of partition {numbers(short)}",
            "nothing can be appended there: owners become stale",
            "bring the brokers back",
        )


def replication(seen: TopicDescription, brokers: int) -> Iterator[CheckFinding]:
    """Copies and leaders of every partition."""
    leaderless = [n for n, one in seen.partitions.items() if one.leader is None]
    if leaderless:
        yield CheckFinding(
            CheckSeverity.ERROR,
            "leaders",
            f"partition {numbers(leaderless)} has no leader",
            "nobody can read or append there: its claims stand still",
            "bring the brokers back that have it",
        )
    behind = [n for n, one in seen.partitions.items() if len(one.in_sync) < len(one.replicas)]
    if behind:
        yield CheckFinding(
            CheckSeverity.WARNING,
            "copies",
            f"not every copy of partition {numbers(behind)} has all of it",
            "fewer brokers may be lost than the topic was made for",
            "look which broker is down or slow",
        )
    if seen.copies == 1:
        alone = brokers == 1
        yield CheckFinding(
            CheckSeverity.NOTE if alone else CheckSeverity.WARNING,
            "copies",
            "there is one copy" + (", on the only broker" if alone else f" on {brokers} brokers"),
            "a broker that is lost takes tenures, grants and positions with it",
            "right for tries" if alone else "make it three with kafka-reassign-partitions",
        )
