"""Whether a cluster keeps what the protocol needs: settings, copies, permissions, clocks, places.

The checks are functions of facts: a topic's settings, its partitions, a sample of its records. This
room knows what each finding endangers and what to do. `examine` gathers the facts, changes nothing,
and says what it could not check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from attrs import field, frozen

from kafka_marshal.core.state import FENCED, Rules
from kafka_marshal.runtime.clocks import Clock, probed
from kafka_marshal.runtime.controls import ClusterClient, NotAllowed, TopicSeen
from kafka_marshal.runtime.errors import BrokerFailed
from kafka_marshal.runtime.reader import now_ms
from kafka_marshal.runtime.sample import SAMPLE_MAX, Sample, sample_of
from kafka_marshal.runtime.settings import Settings
from kafka_marshal.runtime.topic import (
    BECAUSE,
    retention_needed_ms,
    retention_suffices,
)

MESSAGE_BYTES_MIN: Final = 4096
"""A message of the protocol is a line of ids; with long names and headers it is below this."""
CLOCKS_APART_MS: Final = 1000
"""Clocks that differ by more are worth a word."""


class Severity(Enum):
    """How bad a finding is. The value is the name in output."""

    ERROR = "error"
    """The guarantees do not hold."""
    WARNING = "warning"
    """They hold until something else breaks."""
    NOTE = "note"
    """Worth knowing."""
    UNCHECKED = "unchecked"
    """Nobody could look."""


LOUD: Final = frozenset({Severity.ERROR, Severity.WARNING})
"""What exit code 1 is for."""


@frozen
class Finding:
    """One thing that is not as it should be, or that nobody could look at."""

    severity: Severity
    check: str
    found: str
    endangers: str
    do: str


@frozen
class Examined:
    """What the doctor says."""

    topic: str
    brokers: int
    partitions: int
    copies: int
    records: int
    """How many of the newest were looked at."""
    findings: tuple[Finding, ...]
    fine: tuple[str, ...] = field(default=())
    """The checks that found nothing."""


def examine(
    settings: Settings,
    topic: str,
    rules: Rules = FENCED,
    *,
    records_max: int = SAMPLE_MAX,
    probe: bool = False,
) -> Examined:
    """Look at everything that can be looked at without changing anything.

    With `probe` a topic of its own is created, appended to, and deleted, to compare clocks.

    Raises:
        BrokerFailed: the cluster cannot be reached.
    """
    cluster = ClusterClient(settings)
    brokers = cluster.brokers()
    try:
        seen = cluster.topic(topic)
    except NotAllowed:
        nothing = TopicSeen(topic, {}, frozenset())
        return Examined(topic, len(brokers), 0, 0, 0, tuple(permissions(nothing)))
    if seen is None:
        return Examined(topic, len(brokers), 0, 0, 0, (_missing(topic),))
    findings: dict[str, list[Finding]] = {}

    def checked(names: tuple[str, ...], found: Iterator[Finding]) -> None:
        findings.update({name: findings.get(name, []) for name in names})
        for one in found:
            findings.setdefault(one.check, []).append(one)

    checked(("copies", "leaders"), replication(seen, len(brokers)))
    checked(("permissions",), permissions(seen))
    try:
        hold = cluster.topic_settings(topic)
    except BrokerFailed as error:
        checked(("settings",), iter([unchecked("settings", str(error), "DESCRIBE_CONFIGS")]))
    else:
        checked((*BECAUSE, "max.message.bytes", "compression.type"), of_settings(hold, seen, rules))
    try:
        sample = sample_of(settings, topic, records_max)
    except BrokerFailed as error:
        sample = Sample(len(seen.partitions))
        checked(("records",), iter([unchecked("records", str(error), "READ")]))
    else:
        # Of a log that is empty nobody can say that all is well with its records.
        of_records = ("places", "timestamps", "messages", "headers", "clocks")
        checked(of_records if sample.records else (), records(sample))
        checked((), clocks_in_log(sample, rules, now_ms()))
    checked(("group permissions",) if sample.groups else (), _groups(cluster, sample))
    if probe:
        checked(("clocks now",), clocks(probed(settings, cluster, brokers), rules))
    else:
        checked((), iter([_not_probed()] if len(brokers) > 1 else []))
    return Examined(
        topic,
        len(brokers),
        len(seen.partitions),
        seen.copies,
        sample.records,
        tuple(one for found in findings.values() for one in found),
        tuple(name for name, found in findings.items() if not found),
    )


# --- the topic ------------------------------------------------------------------------------------


def _missing(topic: str) -> Finding:
    return Finding(
        Severity.ERROR,
        "topic",
        f"there is no topic {topic}",
        "nobody can claim anything",
        "create it with `marshal init`, or name it with --topic",
    )


def unchecked(check: str, reason: str, permission: str) -> Finding:
    """What could not be looked at, and the permission that it takes."""
    return Finding(
        Severity.UNCHECKED,
        check,
        reason,
        "what is wrong there stays unseen",
        f"examine it as a user who has {permission} on the topic",
    )


def of_settings(hold: Mapping[str, str], seen: TopicSeen, rules: Rules) -> Iterator[Finding]:
    """The topic's settings, one by one."""

    def wrong(name: str, severity: Severity, wanted: str) -> Finding:
        found = f"{name} is {hold.get(name) or 'not told'}"
        return Finding(severity, name, found, BECAUSE[name], f"set it to {wanted}")

    if hold.get("message.timestamp.type") != "LogAppendTime":
        yield wrong("message.timestamp.type", Severity.ERROR, "LogAppendTime")
    if hold.get("cleanup.policy") != "delete":
        yield wrong("cleanup.policy", Severity.ERROR, "delete")
    if not retention_suffices(hold.get("retention.ms", ""), rules):
        needed = f"at least {retention_needed_ms(rules)}, better twice that"
        yield wrong("retention.ms", Severity.ERROR, needed)
    if hold.get("retention.bytes", "-1") != "-1":
        yield wrong("retention.bytes", Severity.WARNING, "-1")
    if hold.get("unclean.leader.election.enable") != "false" and seen.copies > 1:
        yield wrong("unclean.leader.election.enable", Severity.ERROR, "false")
    yield from _in_sync(hold, seen)
    limit = hold.get("max.message.bytes", "")
    if limit.isdecimal() and int(limit) < MESSAGE_BYTES_MIN:
        yield Finding(
            Severity.WARNING,
            "max.message.bytes",
            f"max.message.bytes is {limit}",
            "heartbeats of consumers with long names are refused, and their claims taken",
            f"set it to at least {MESSAGE_BYTES_MIN}",
        )
    if hold.get("compression.type", "producer") not in ("producer", "uncompressed"):
        yield Finding(
            Severity.NOTE,
            "compression.type",
            f"compression.type is {hold['compression.type']}: the broker compresses every record",
            "nothing; each append takes a little longer",
            "leave it, or set it to producer",
        )
    version = hold.get("message.format.version", "")
    if version.startswith(("0.8", "0.9", "0.10")):
        yield Finding(
            Severity.ERROR,
            "message.format.version",
            f"message.format.version is {version}: records lose their headers",
            "without headers a late heartbeat cannot be told from the owner's",
            "set it to 0.11 or later",
        )


def _in_sync(hold: Mapping[str, str], seen: TopicSeen) -> Iterator[Finding]:
    text = hold.get("min.insync.replicas", "1")
    needed = int(text) if text.isdecimal() else 1
    name = "min.insync.replicas"
    if seen.copies > 1 and needed < 2:
        found = f"{name} is {needed}, with {seen.copies} copies"
        yield Finding(Severity.WARNING, name, found, BECAUSE[name], "set it to 2")
    if 1 < seen.copies <= needed:
        yield Finding(
            Severity.WARNING,
            name,
            f"{name} is {needed}, with {seen.copies} copies",
            "one broker down stops every heartbeat: nobody can claim, and at most once nobody "
            "consumes",
            f"keep {needed + 1} copies",
        )
    short = [n for n, one in seen.partitions.items() if len(one.in_sync) < needed]
    if short:
        yield Finding(
            Severity.ERROR,
            "copies",
            f"fewer than {needed} brokers have all of partition {_numbers(short)}",
            "nothing can be appended there: owners become stale",
            "bring the brokers back",
        )


def replication(seen: TopicSeen, brokers: int) -> Iterator[Finding]:
    """Copies and leaders of every partition."""
    leaderless = [n for n, one in seen.partitions.items() if one.leader is None]
    if leaderless:
        yield Finding(
            Severity.ERROR,
            "leaders",
            f"partition {_numbers(leaderless)} has no leader",
            "nobody can read or append there: its claims stand still",
            "bring the brokers back that have it",
        )
    behind = [n for n, one in seen.partitions.items() if len(one.in_sync) < len(one.replicas)]
    if behind:
        yield Finding(
            Severity.WARNING,
            "copies",
            f"not every copy of partition {_numbers(behind)} has all of it",
            "fewer brokers may be lost than the topic was made for",
            "look which broker is down or slow",
        )
    if seen.copies == 1:
        alone = brokers == 1
        yield Finding(
            Severity.NOTE if alone else Severity.WARNING,
            "copies",
            "there is one copy" + (", on the only broker" if alone else f" on {brokers} brokers"),
            "a broker that is lost takes tenures, grants and positions with it",
            "right for tries" if alone else "make it three with kafka-reassign-partitions",
        )


def permissions(seen: TopicSeen) -> Iterator[Finding]:
    """What the user of these settings may do."""
    if seen.allowed is None:
        yield unchecked("permissions", "the cluster does not say what is allowed", "DESCRIBE")
        return
    for name, endangers in {
        "READ": "who may not read the log cannot claim anything",
        "WRITE": "who may not append cannot claim, heartbeat or release",
        "DESCRIBE": "who may not see the topic finds no partition",
    }.items():
        if name not in seen.allowed:
            found = f"the user of these settings may not {name} the topic"
            yield Finding(Severity.ERROR, "permissions", found, endangers, f"allow {name}")


def _groups(cluster: ClusterClient, sample: Sample) -> Iterator[Finding]:
    for group in sorted(sample.groups)[:10]:
        allowed = cluster.allowed_of_group(group)
        if allowed is not None and "READ" not in allowed:
            yield Finding(
                Severity.WARNING,
                "group permissions",
                f"the user of these settings may not READ group {group}",
                "positions cannot be committed as the group's offsets: lag tools do not see them",
                "allow READ on the group",
            )


# --- the records ----------------------------------------------------------------------------------


def records(sample: Sample) -> Iterator[Finding]:
    """What the newest records say."""
    yield from _places(sample)
    if sample.create_time:
        yield Finding(
            Severity.ERROR,
            "timestamps",
            f"{sample.create_time:,} of {sample.records:,} records carry the producer's time",
            BECAUSE["message.timestamp.type"],
            "set message.timestamp.type to LogAppendTime; it holds for new records",
        )
    if sample.malformed:
        yield Finding(
            Severity.WARNING,
            "messages",
            f"{sample.malformed:,} of {sample.records:,} records hold no message of the protocol",
            "nothing by themselves; somebody writes to the topic who should not",
            "see who it is: `marshal replay` lists them",
        )
    if sample.without_headers:
        yield Finding(
            Severity.NOTE,
            "headers",
            f"{sample.without_headers:,} of {sample.owners_records:,} owners' records carry no "
            f"headers: {_names(sample.clients_without_headers)}",
            "for the claims of these clients what the original guarantees holds, and no more",
            "let them go on as clients of this package",
        )


def _places(sample: Sample) -> Iterator[Finding]:
    misplaced = sample.misplaced
    if not misplaced:
        return
    worst = max(misplaced, key=lambda one: one.last_ms)
    before = sample.counted_before
    grown = f"; with {before} partitions they would be right" if before is not None else ""
    both = any(
        one.first_right_ms is not None and one.last_ms > one.first_right_ms for one in misplaced
    )
    yield Finding(
        Severity.ERROR,
        "places",
        f"records of {_names({one.topic for one in misplaced})} lie on partition {worst.place}, "
        f"and by {sample.partitions} partitions belong on {worst.right_place}{grown}"
        + ("; some are newer than records in the right place" if both else ""),
        "two consumers own one claim, each in its own log"
        if both
        else "claims have moved away from their history: owners and positions are forgotten",
        "never change the partition count; stop all consumers, and set positions anew",
    )


def clocks_in_log(sample: Sample, rules: Rules, at_ms: int) -> Iterator[Finding]:
    """What the brokers' stamps say about their clocks."""
    if sample.stepped_back_ms > rules.clock_rewind_max_ms:
        yield Finding(
            Severity.ERROR,
            "clocks",
            f"timestamps of partition {sample.stepped_back_at} step back by "
            f"{sample.stepped_back_ms:,} ms",
            "a reader that began in the middle may take an owner that lives for gone",
            "let the brokers keep time together (NTP)",
        )
    elif sample.stepped_back_ms > 0:
        yield Finding(
            Severity.NOTE,
            "clocks",
            f"timestamps of partition {sample.stepped_back_at} step back by "
            f"{sample.stepped_back_ms:,} ms",
            f"nothing, below {int(rules.clock_rewind_max_ms):,} ms",
            "leave it",
        )
    ahead_ms = sample.last_ms - at_ms
    if ahead_ms > CLOCKS_APART_MS:
        yield Finding(
            Severity.WARNING,
            "clocks",
            f"the newest record is {ahead_ms:,} ms ahead of this machine's clock",
            "pauses end later, and consumers on this machine ask for claims too late",
            "let all keep time together (NTP)",
        )


def clocks(found: list[Clock], rules: Rules) -> Iterator[Finding]:
    """Brokers' clocks against each other, from one append to each."""
    silent = [one.broker for one in found if one.ahead_ms is None]
    if silent:
        yield Finding(
            Severity.UNCHECKED,
            "clocks now",
            f"broker {_numbers(silent)} did not stamp a record",
            "what is wrong there stays unseen",
            "look at the broker",
        )
    ahead = {one.broker: one.ahead_ms for one in found if one.ahead_ms is not None}
    if len(ahead) < 2:
        return
    apart_ms = max(ahead.values()) - min(ahead.values())
    doubt_ms = max(one.doubt_ms for one in found)
    if apart_ms - doubt_ms > CLOCKS_APART_MS:
        fastest, slowest = max(ahead, key=ahead.__getitem__), min(ahead, key=ahead.__getitem__)
        yield Finding(
            Severity.ERROR if apart_ms > rules.clock_rewind_max_ms else Severity.WARNING,
            "clocks now",
            f"broker {fastest} is {apart_ms:,} ms ahead of broker {slowest} (± {doubt_ms:,})",
            "when a partition changes its leader, owners look stale too early, or stay too long",
            "let the brokers keep time together (NTP)",
        )


def _not_probed() -> Finding:
    return Finding(
        Severity.UNCHECKED,
        "clocks now",
        "brokers' clocks were not compared: it takes an append to each",
        "with clocks apart an owner looks stale too early when a partition changes its leader",
        "`marshal doctor --probe` appends to a topic that it creates and deletes",
    )


def _numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _names(names: set[str] | frozenset[str]) -> str:
    shown = sorted(names)[:5]
    return ", ".join(shown) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
