"""The limits on the size of a group's records and requests.

A group may grow only as far as all of them fit: its snapshot, and what a member says that owns all
partitions, since all others may die. Else nobody would know when it was too late: without a
snapshot the log loses its groups with its retention. This room does not know what is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from kafka_marshal.core.groups.events import (
    Event,
    GroupCreated,
    MemberRegistered,
    PartitionsCounted,
)
from kafka_marshal.core.groups.state import Group, GroupMember, Topic, TopicPartition, Wish
from kafka_marshal.rpc.codec import REQUEST_BYTES_MAX

GROWS: Final[tuple[type[Event], ...]] = (GroupCreated, MemberRegistered, PartitionsCounted)
"""Events after which a group may need larger records."""
_NAME_BYTES: Final = 251
"""Of the longest name of a topic, quoted."""
_PARTITION: Final = 4
"""Digits of a partition."""
_NUMBER: Final = 12
"""Digits of an event's number: a thousand a second for thirty years."""
_OFFSET: Final = 16
_FRAME: Final = 1_024
"""Whatever else is in a request."""
_STATE: Final = 512
"""Whatever else is in an event."""
_OF_PARTITION: Final = _PARTITION + len('{"topic":,"partition":},')
_BESIDE: Final = ',"owner":,"tenure":,"target":,"revoking":,"position":'
_OF_SNAPSHOT: Final = _OF_PARTITION + 2 * _NUMBER + _OFFSET + len(_BESIDE)
_OF_RECONCILED: Final = 2 * _OF_PARTITION + _NUMBER + _OFFSET + len(',"tenure":,"offset":')
"""It is held, and has a position."""
_OF_REQUEST: Final = 2 + 4 + 2 + 4 + 8 + 8
_OF_TOPIC: Final = _PARTITION + len(':{"count":,"topic_id":},')
_OF_MEMBER: Final = _NUMBER + len(':{"client_id":,"topics":[],"static":[],"joined_at":},')
_OF_WISH: Final = len(':{"topics":[],"static":[]},')


def event_bytes(group: Group) -> int:
    """The most bytes that an event of this group may have, as it is."""
    partitions, names, longest = _partitions(group)
    now = sum(map(_of_topic, group.topics.items()))
    members = sum(_name(name) + _of_member(each) for name, each in group.members.items())
    wishes = _wishes(group.members), _wishes(group.target_of.members)
    snapshot = _STATE + 2 * max(now, sum(map(_of_topic, group.target_of.topics.items())))
    snapshot += members + max(wishes)
    snapshot += names + partitions * (_OF_SNAPSHOT + 2 * longest)
    reconciled = _STATE + 2 * names + partitions * _OF_RECONCILED
    return max(snapshot, reconciled)


def request_bytes(group: Group) -> int:
    """The most bytes of a Register of one of its members, which may own all partitions."""
    partitions, names, _ = _partitions(group)
    wishes = max((_wish(one.topics, one.static) for one in group.members.values()), default=0)
    return _FRAME + wishes + 2 * names + partitions * _OF_REQUEST


def bytes_missing(group: Group, before: Group | None, event_bytes_max: int) -> int:
    """How large the records of a group may become that do not fit; 0: all do.

    One that has not fitted before may change as long as it grows no further.
    """
    for needs, most in ((event_bytes, event_bytes_max), (request_bytes, REQUEST_BYTES_MAX)):
        needed = needs(group)
        if needed > most and (before is None or needed > needs(before)):
            return needed
    return 0


def _partitions(group: Group) -> tuple[int, int, int]:
    """How many there are, the bytes of their topics' names, and those of the longest owner's."""
    total = sum(topic.count for topic in group.topics.values())
    names = sum(topic.count * _name(name) for name, topic in group.topics.items())
    gone = max(0, len(group.partitions) - total)  # their topics are
    owners = [*group.members, *group.target_of.members]
    return total + gone, names + gone * _NAME_BYTES, max(map(_name, owners), default=4)


def _of_topic(item: tuple[str, Topic]) -> int:
    name, topic = item
    return _OF_TOPIC + _name(name) + _name(topic.topic_id)


def _of_member(member: GroupMember) -> int:
    return _OF_MEMBER + _name(member.client_id) + _wish(member.topics, member.static)


def _wishes(members: Mapping[str, Wish] | Mapping[str, GroupMember]) -> int:
    return sum(
        _OF_WISH + _name(name) + _wish(one.topics, one.static) for name, one in members.items()
    )


def _wish(topics: frozenset[str], static: Iterable[TopicPartition]) -> int:
    named = sum(_OF_PARTITION + _NUMBER + len(',"number":') + _name(tp.topic) for tp in static)
    return _names(topics) + named


@lru_cache(1_024)
def _names(names: frozenset[str]) -> int:
    return sum(_name(one) + 1 for one in names)


@lru_cache(16_384)
def _name(name: str) -> int:
    return len(json.dumps(name, ensure_ascii=False).encode())
