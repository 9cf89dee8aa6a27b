"""The coordination topic: its required settings, and how an existing topic differs from them.

The required settings follow from the rules alone, as plain values; `admin_client` creates and
describes topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import field, frozen

from kafka_marshal.client.connect.admin_client import (
    ClusterClient,
    NotAuthorized,
    TopicDescription,
    TopicExists,
)
from kafka_marshal.client.connect.reader import CONNECT_S
from kafka_marshal.client.connect.settings import Settings, settings_from
from kafka_marshal.core.state import FENCED, Rules
from kafka_marshal.errors import COORDINATION_TOPIC, BrokerFailed, InvalidOption

PARTITIONS: Final = 10
"""The number of partitions of a new topic. Each data topic maps to one of them, so the number must
never change."""
COPIES_MAX: Final = 3
RETENTION_MS: Final = 7 * 24 * 3600 * 1000
"""The retention of a new topic, or twice the required one if that is more."""
_SEGMENTS: Final = 7
"""The number of segments in the retention. Kafka deletes whole segments, so the log is a seventh
longer."""
_SEGMENT_MS_MIN: Final = 60_000
FOR_EVER: Final = -1
_AGAIN_S: Final = 0.05


def retention_needed_ms(rules: Rules = FENCED) -> int:
    """How much of the log a reader needs that begins at its head.

    For a claim without certificate it must be sure that no earlier pause is still in force and no
    earlier owner alive. This takes the longest pause, twice the heartbeat interval, and the time by
    which a broker's clock may step back in between (`core.claims.suffix_reader`, DefiniteWin).

    >>> retention_needed_ms() / 60_000  # minutes: a day, 2 × 60 s, and a minute
    1443.0
    """
    needed = rules.pause_max_ms + rules.stale_after_ms + rules.clock_rewind_max_ms
    return int(-(-needed // 1))


@frozen
class TopicSpec:
    """The required settings of a coordination topic."""

    name: str
    partitions: int | None = None
    """None: ten for a new topic, any number for an existing one."""
    copies: int | None = None
    """None: one on each broker, at most three; more are fine."""
    retention_ms: int | None = None
    """None: seven days, or twice the required retention; a longer one is fine."""
    rules: Rules = FENCED


@frozen
class TopicDifference:
    """A setting of a topic that differs from the required one."""

    what: str
    is_now: str
    wanted: str
    because: str


@frozen
class EnsuredTopic:
    """The topic as it is now, and whether it was created."""

    topic: str
    partitions: int
    copies: int
    created: bool
    settings: Mapping[str, str]
    """The relevant settings in force."""
    differences: tuple[TopicDifference, ...] = field(default=())


def written(copies: int) -> int:
    """min.insync.replicas: the number of replicas that must be written for an append.

    Two if there are two or more: a log that loses its end loses tenures and grants, while one that
    is not available only stops.
    """
    return min(2, copies)


def settings_for(wanted: TopicSpec, copies: int) -> dict[str, str]:
    """The settings of a new topic with this many replicas."""
    retention_ms = wanted.retention_ms
    if retention_ms is None:
        retention_ms = max(RETENTION_MS, 2 * retention_needed_ms(wanted.rules))
    segment_ms = max(_SEGMENT_MS_MIN, retention_ms // _SEGMENTS)
    return {
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "retention.bytes": str(FOR_EVER),
        **({} if retention_ms == FOR_EVER else {"segment.ms": str(segment_ms)}),
        "min.insync.replicas": str(written(copies)),
        "unclean.leader.election.enable": "false",
    }


BECAUSE: Final[Mapping[str, str]] = {
    "message.timestamp.type": "time must be the broker's: with the producers' clocks an owner that "
    "lives is displaced",
    "cleanup.policy": "a claim is the fold of all its records; compaction takes some out",
    "retention.ms": "a reader that begins where the log begins must see longer than the longest "
    "pause, a silence of two intervals and a step back of a clock",
    "retention.bytes": "a size says nothing about time: busy hours would cut off records that are "
    "needed",
    "min.insync.replicas": "what only one broker has written is gone with it: tenures and grants",
    "unclean.leader.election.enable": "a leader that is behind cuts off the log's end: tenures and "
    "grants, so two consumers own one claim",
}
"""The reason for each setting."""


def create_coordination_topic(
    cluster: str | Sequence[str] | Mapping[str, str] | Settings,
    topic: str = COORDINATION_TOPIC,
    *,
    partitions: int | None = None,
    copies: int | None = None,
    retention_ms: int | None = None,
    rules: Rules = FENCED,
) -> bool:
    """Create the coordination topic, as `marshal init` does, unless it exists.

    Several processes may do so at once. An existing topic is neither checked nor changed; `marshal
    init` prints how it differs.

    Args:
        cluster: `host:port,...`, a list of `host:port`, or settings of librdkafka.
        topic: its name.
        partitions: the number of partitions; ten if None. It must never change afterwards.
        copies: replicas of each partition; None: one on each broker, at most three.
        retention_ms: how long records are kept; None: seven days, or twice the required time.
        rules: heartbeat interval and longest pause of the fleet, which give the required time.

    Returns:
        Whether this call created it.

    Raises:
        InvalidOption: no cluster, more replicas than brokers, or a retention that is too short.
        BrokerFailed: the cluster did not answer, or refused.
    """
    wanted = TopicSpec(topic, partitions, copies, retention_ms, rules)
    return ensure(ClusterClient(settings_from(cluster)), wanted)[1]


def ensure(cluster: ClusterClient, wanted: TopicSpec) -> tuple[TopicDescription, bool]:
    """Return the topic and whether this call created it, when each partition has a leader.

    Raises:
        InvalidOption: more replicas than brokers, or a retention that is too short.
        BrokerFailed: the cluster did not answer, or refused.
    """
    found = cluster.topic(wanted.name, spreads_s=0)
    if found is not None:
        return found, False
    copies = _copies(cluster, wanted)
    try:
        settings = settings_for(wanted, copies)
        cluster.create_topic(wanted.name, wanted.partitions or PARTITIONS, copies, settings)
        created = True
    except TopicExists:
        created = False
    environment = cluster.settings.environment
    deadline = environment.deadline(CONNECT_S)
    while (found := _begun(cluster, wanted.name)) is None or not found.led:
        if not deadline.left_s:
            raise BrokerFailed(
                f"{cluster.settings.bootstrap}: topic {wanted.name} was created, and after "
                f"{CONNECT_S:g} s not every partition of it has a leader: see marshal doctor"
            )
        environment.threads.sleep(_AGAIN_S)
    return found, created


def _begun(cluster: ClusterClient, name: str) -> TopicDescription | None:
    """The new topic; None while no broker knows it, or it has no leader."""
    try:
        return cluster.topic(name)
    except NotAuthorized:
        raise
    except BrokerFailed:
        return None


def _copies(cluster: ClusterClient, wanted: TopicSpec) -> int:
    """The number of replicas for a new topic; raises if that is not possible."""
    _check_retention(wanted)
    brokers = len(cluster.brokers())
    if wanted.copies is not None and wanted.copies > brokers:
        raise InvalidOption(
            f"{wanted.copies} copies of {wanted.name}: the cluster has {brokers} "
            f"broker{'s' if brokers > 1 else ''}"
        )
    return wanted.copies or min(COPIES_MAX, brokers)


def _check_retention(wanted: TopicSpec) -> None:
    needed_ms = retention_needed_ms(wanted.rules)
    retention_ms = wanted.retention_ms
    if retention_ms is not None and retention_ms != FOR_EVER and retention_ms < needed_ms:
        raise InvalidOption(
            f"the retention must be at least {needed_ms // 1000} s: the longest pause, two "
            "heartbeat intervals and a minute"
        )


def init(cluster: ClusterClient, wanted: TopicSpec) -> EnsuredTopic:
    """Create the topic; if it exists, return how it differs, and change nothing.

    Raises:
        InvalidOption: more replicas than brokers, or a retention that is too short.
        BrokerFailed: the cluster did not answer, or refused.
    """
    copies = _copies(cluster, wanted)
    found, created = ensure(cluster, wanted)
    if created:
        settings = settings_for(wanted, copies)
        return EnsuredTopic(
            wanted.name, len(found.partitions), copies, created=True, settings=settings
        )
    hold = cluster.topic_settings(wanted.name)
    shown = {name: hold[name] for name in settings_for(wanted, copies) if name in hold}
    return EnsuredTopic(
        wanted.name,
        len(found.partitions),
        found.copies,
        created=False,
        settings=shown,
        differences=tuple(differences(wanted, found, hold, len(cluster.brokers()))),
    )


def differences(
    wanted: TopicSpec, found: TopicDescription, hold: Mapping[str, str], brokers: int
) -> list[TopicDifference]:
    """How a topic differs from the required settings. Safer settings are not differences."""
    differs = []
    partitions = len(found.partitions)
    if wanted.partitions not in (None, partitions):
        differs.append(
            TopicDifference(
                "partitions",
                str(partitions),
                str(wanted.partitions),
                "each data topic has its place by this count: who changes it moves claims away "
                "from their history",
            )
        )
    copies = wanted.copies or min(COPIES_MAX, brokers)
    if found.copies != copies if wanted.copies else found.copies < copies:
        because = "a broker that is lost must not take the log with it"
        differs.append(TopicDifference("copies", str(found.copies), str(copies), because))
    for name, value in settings_for(wanted, found.copies).items():
        is_now = hold.get(name, "")
        if name in BECAUSE and not _good_enough(wanted, name, is_now, value):
            enough = name == "retention.ms" and retention_suffices(is_now, wanted.rules)
            because = "so it was asked for" if enough else BECAUSE[name]
            differs.append(TopicDifference(name, is_now or "not reported", value, because))
    return differs


def _good_enough(wanted: TopicSpec, name: str, is_now: str, value: str) -> bool:
    if name == "retention.ms" and wanted.retention_ms is None:
        return retention_suffices(is_now, wanted.rules)
    if name == "min.insync.replicas":
        return is_now.isdecimal() and int(is_now) >= int(value)
    return is_now == value


def retention_suffices(value: str, rules: Rules) -> bool:
    """Whether a `retention.ms` keeps enough of the log."""
    return value == str(FOR_EVER) or (
        value.isdecimal() and int(value) >= retention_needed_ms(rules)
    )
