"""Checks that the settings of `__marshal_groups` are those that its rules need.

It reads no records. `core.groups` knows the effect of an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kafka_marshal.admin.doctor import permissions
from kafka_marshal.admin.doctor import topic as of_topic
from kafka_marshal.admin.doctor.doctor import Examination
from kafka_marshal.admin.doctor.finding import CheckFinding, CheckSeverity, unchecked
from kafka_marshal.client.connect.admin_client import (
    ClusterClient,
    NotAuthorized,
    TopicDescription,
)
from kafka_marshal.client.connect.coordination_topic import (
    FOR_EVER,
    TopicSpec,
    settings_for,
)
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.groups.event_log import GROUPS_TOPIC, PARTITIONS, RETENTION_MS
from kafka_marshal.errors import BrokerFailed

BECAUSE: Final[Mapping[str, str]] = {
    "partitions": "a group belongs to the partition that its name and this count give: with "
    "another count its members find a controller that does not know it",
    "message.timestamp.type": "time must be the broker's: a replay shows when something happened "
    "by the clocks of controllers",
    "cleanup.policy": "a group is the fold of all its events; compaction takes some out",
    "retention.ms": "snapshots come every quarter of it, and if no controller runs for longer, "
    "groups and their positions are gone",
    "retention.bytes": "a size says nothing about time: a busy hour cuts off what the snapshots of "
    "other groups said",
    "min.insync.replicas": "what only one broker has written is gone with it: members, grants and "
    "positions",
    "unclean.leader.election.enable": "a leader that is behind cuts off the log's end, so two "
    "members own one partition",
}
"""Why each setting matters."""
_ERRORS: Final = frozenset({"partitions", "cleanup.policy", "unclean.leader.election.enable"})
"""Without these the guarantees do not hold; without the others they do until something breaks."""


def of_settings(hold: Mapping[str, str], seen: TopicDescription) -> Iterator[CheckFinding]:
    """Yield differences from a controller's settings, except longer retention, more replicas."""
    wanted = settings_for(TopicSpec(seen.name, PARTITIONS, retention_ms=RETENTION_MS), seen.copies)
    for name, value in {"partitions": str(PARTITIONS), **wanted}.items():
        is_now = str(len(seen.partitions)) if name == "partitions" else hold.get(name, "")
        if name in BECAUSE and not _suffices(name, is_now, value, seen.copies):
            severity = CheckSeverity.ERROR if name in _ERRORS else CheckSeverity.WARNING
            do = f"set it to {value}"
            if name == "partitions":
                do = (
                    f"delete the topic if its groups may go, and let it have {value} from the start"
                )
            found = f"{name} is {is_now or 'not reported'}"
            yield CheckFinding(severity, name, found, BECAUSE[name], do)


def _suffices(name: str, is_now: str, wanted: str, copies: int) -> bool:
    if name == "retention.ms":
        return is_now == str(FOR_EVER) or (is_now.isdecimal() and int(is_now) >= int(wanted))
    if name == "min.insync.replicas":
        return is_now.isdecimal() and int(wanted) <= int(is_now) < max(2, copies)
    # One copy alone can be no leader that is behind.
    return is_now == wanted or (name == "unclean.leader.election.enable" and copies == 1)


def examine_groups(settings: Settings, topic: str = GROUPS_TOPIC) -> Examination:
    """Look at the log of groups, without reading or changing it.

    Raises:
        BrokerFailed: the cluster cannot be reached.
    """
    cluster = ClusterClient(settings)
    brokers = len(cluster.brokers())
    try:
        seen = cluster.topic(topic)
    except NotAuthorized:
        return Examination(topic, brokers, 0, 0, 0, (permissions.unseen(topic),))
    if seen is None:
        missing = CheckFinding(
            CheckSeverity.ERROR,
            "topic",
            f"there is no topic {topic}",
            "no group can have a controller",
            f"start a controller, which makes it, or create it with {PARTITIONS} partitions",
        )
        return Examination(topic, brokers, 0, 0, 0, (missing,))
    found = [*of_topic.replication(seen, brokers), *permissions.on_topic(seen)]
    checks = ["copies", "leaders", "permissions"]
    try:
        found += of_settings(cluster.topic_settings(topic), seen)
        checks += BECAUSE
    except BrokerFailed as error:
        found.append(unchecked("settings", str(error), "DESCRIBE_CONFIGS"))
    wrong = {one.check for one in found}
    fine = tuple(check for check in checks if check not in wrong)
    return Examination(topic, brokers, len(seen.partitions), seen.copies, 0, tuple(found), fine)
