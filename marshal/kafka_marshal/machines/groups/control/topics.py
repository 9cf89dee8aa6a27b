"""The topics that the groups of a partition consume: when to count partitions, and the result.

This module appends nothing: it returns the events that `housekeeping` tries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from kafka_marshal.core.groups.events import PartitionsCounted
from kafka_marshal.core.groups.guards import count_guard
from kafka_marshal.core.groups.state import PARTITIONS_MAX, Group, Topic
from kafka_marshal.core.groups.verdicts import GroupRefused

DOUBT_MS: Final = 5_000
"""After how long it looks again at a topic that seems to be gone: its positions go with it."""


def topics_of(group: Group) -> set[str]:
    """The topics that a group has, and those that its members want."""
    topics = set(group.topics)
    for member in group.members.values():
        topics |= member.topics
        topics.update(tp.topic for tp in member.static)
    return topics


@define(eq=False)
class TopicCounts:
    """Each topic, as the cluster last had it."""

    counted: dict[str, Topic] = field(factory=dict)
    """A count of 0: there is no such topic."""
    look_at_ms: int | None = None
    """When to look at all of them again; None: now."""
    _doubted: dict[str, Topic] = field(factory=dict)

    def is_due(self, now_ms: int) -> bool:
        """It is time to look."""
        return self.look_at_ms is None or now_ms >= self.look_at_ms

    def saw(self, topic: str, now: Topic, now_ms: int, groups: Iterable[Group]) -> None:
        """The cluster's answer about a topic.

        Two answers must agree that a topic is gone or was created again: its positions are lost by
        that, and a broker that has just started may know no topic.
        """
        known = [group.topics[topic] for group in groups if topic in group.topics]
        is_bad = any(now.count == 0 or now.topic_id != each.topic_id for each in known)
        if is_bad and self._doubted.get(topic) != now:
            self._doubted[topic] = now
            again_ms = now_ms + DOUBT_MS
            self.look_at_ms = (
                again_ms if self.look_at_ms is None else min(self.look_at_ms, again_ms)
            )
            return
        self._doubted.pop(topic, None)
        self.counted[topic] = now

    def due(self, group: Group) -> Iterator[PartitionsCounted]:
        """The counts to write down for a group, as it is.

        A topic that was created again is gone first. The new one is counted once no member owns a
        partition of the old one. Kafka never removes partitions: a broker that reports fewer for
        the same topic is behind.
        """
        total = sum(topic.count for topic in group.topics.values())
        for name in sorted(topics_of(group) & self.counted.keys()):
            now = self.counted[name]
            event = PartitionsCounted(name, now.count, now.topic_id)
            refused = count_guard(group, event)
            if refused is GroupRefused.REMADE:
                yield PartitionsCounted(name, 0, group.topics[name].topic_id)
            elif refused is None:
                known = group.topics.get(name)
                total += now.count - (known.count if known else 0)
                if total <= PARTITIONS_MAX:
                    yield event
