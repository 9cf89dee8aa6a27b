"""Runs all checks of a cluster: settings, replicas, permissions, clocks, partitions.

`examine` gathers the facts, changes nothing, and reports what it could not examine. The other
modules decide which facts are wrong, what they endanger, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
from attrs import field, frozen

from kafka_marshal.admin.doctor import client_settings, clocks, permissions, records
from kafka_marshal.admin.doctor import topic as of_topic
from kafka_marshal.admin.doctor.broker_clocks import probed
from kafka_marshal.admin.doctor.finding import LOUD, CheckFinding, CheckSeverity, unchecked
from kafka_marshal.admin.doctor.topic_sample import SAMPLE_MAX, TopicSample, sample_of
from kafka_marshal.client.connect.admin_client import ClusterClient, NotAuthorized
from kafka_marshal.client.connect.coordination_topic import BECAUSE
from kafka_marshal.client.connect.reader import now_ms
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.core.group_intervals import LivedUnder, OtherInterval
from kafka_marshal.core.state import FENCED, Rules
from kafka_marshal.errors import BrokerFailed, contradicted

__all__ = ["LOUD", "CheckFinding", "CheckSeverity", "Examination", "examine"]

GROUPS_MAX: Final = 10
"""The most groups to query."""


@frozen
class Examination:
    """The doctor's result."""

    topic: str
    brokers: int
    partitions: int
    copies: int
    records: int
    """How many of the newest were looked at."""
    findings: tuple[CheckFinding, ...]
    fine: tuple[str, ...] = field(default=())
    """The checks that found nothing."""


def examine(
    settings: Settings,
    topic: str,
    rules: Rules = FENCED,
    *,
    records_max: int = SAMPLE_MAX,
    probe: bool = False,
    interval_given: bool = False,
) -> Examination:
    """Examine everything that can be examined without changing anything.

    The heartbeat interval is the longest in the newest records, or that of `rules` if they state
    none. With `interval_given` they must not state another one. With `probe` a separate topic is
    created, appended to, and deleted, to compare clocks.

    Raises:
        BrokerFailed: the cluster cannot be reached.
        InvalidOption: the log contradicts the given interval.
    """
    cluster = ClusterClient(settings)
    brokers = cluster.brokers()
    try:
        seen = cluster.topic(topic)
    except NotAuthorized:
        return Examination(topic, len(brokers), 0, 0, 0, (permissions.unseen(topic),))
    if seen is None:
        missing = of_topic.missing(settings.bootstrap, topic)
        return Examination(topic, len(brokers), 0, 0, 0, (missing,))
    findings: dict[str, list[CheckFinding]] = {}

    def checked(names: tuple[str, ...], found: Iterator[CheckFinding]) -> None:
        findings.update({name: findings.get(name, []) for name in names})
        for one in found:
            findings.setdefault(one.check, []).append(one)

    checked((), client_settings.of_client(settings.values))
    checked(("copies", "leaders"), of_topic.replication(seen, len(brokers)))
    checked(("permissions",), permissions.on_topic(seen))
    hold: Mapping[str, str] | BrokerFailed
    try:
        hold = cluster.topic_settings(topic)
    except BrokerFailed as error:
        hold = error
    sample, unread = TopicSample(len(seen.partitions)), None
    try:
        sample = sample_of(settings, topic, records_max)
    except BrokerFailed as error:
        unread = str(error)
    rules = _at_the_logs_interval(rules, sample, given=interval_given)
    if isinstance(hold, BrokerFailed):
        checked(("settings",), iter([unchecked("settings", str(hold), "DESCRIBE_CONFIGS")]))
    else:
        checked(
            (*BECAUSE, "max.message.bytes", "compression.type"),
            of_topic.of_settings(hold, seen, rules),
        )
    if unread is not None:
        checked(("records",), iter([unchecked("records", unread, "READ")]))
    else:
        # For an empty log, the records cannot be reported as correct.
        names: tuple[str, ...] = (
            *("places", "offsets", "gaps", "timestamps", "messages", "headers", "clocks"),
            *(() if settings.keyring is None else ("authentication",)),
        )
        checked(names if sample.records else (), records.records(sample))
        checked(("head",), records.heads(sample, rules, now_ms()))
        checked((), clocks.in_log(sample, rules, now_ms()))
    groups = sorted(sample.groups)[:GROUPS_MAX]
    allowed = {group: cluster.allowed_of_group(group) for group in groups}
    checked(("group permissions",) if groups else (), permissions.on_groups(allowed))
    if probe:
        checked(("clocks now",), _probed(settings, cluster, brokers, rules))
    else:
        checked((), iter([clocks.not_compared()] if len(brokers) > 1 else []))
    return Examination(
        topic,
        len(brokers),
        len(seen.partitions),
        seen.copies,
        sample.records,
        tuple(one for found in findings.values() for one in found),
        tuple(name for name, found in findings.items() if not found),
    )


def _at_the_logs_interval(rules: Rules, sample: TopicSample, *, given: bool) -> Rules:
    intervals = sample.intervals
    given_ms = rules.heartbeat_interval_ms
    for group, clients in intervals.items() if given else ():
        if given_ms not in clients:
            longest_ms = max(clients)
            lived_under = LivedUnder(longest_ms, clients[longest_ms], -1)
            raise contradicted(OtherInterval(given_ms, group, lived_under))
    longest_ms = max((one for clients in intervals.values() for one in clients), default=given_ms)
    return attrs.evolve(rules, heartbeat_interval_ms=longest_ms)


def _probed(
    settings: Settings, cluster: ClusterClient, brokers: Sequence[int], rules: Rules
) -> Iterator[CheckFinding]:
    try:
        probe = probed(settings, cluster, brokers)
    except BrokerFailed as error:
        yield unchecked(
            "clocks now", str(error), "CREATE, WRITE and DELETE", "topics marshal-doctor-*"
        )
        return
    yield from clocks.between_brokers(probe.clocks, rules)
    if probe.left is not None:
        yield clocks.left_behind(*probe.left)
