"""The limits on the size of a group's records and requests.

A group may grow only while all of them fit: its snapshot, and the request of a member that owns all
partitions after the others have died. Without this check, a group could be lost unnoticed: without
a snapshot it disappears from the log with the retention. This module does not know what is sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

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
_SUMMED_MAX: Final = 64
Members: TypeAlias = Mapping[str, Wish] | Mapping[str, GroupMember]
NOBODY: Final[Members] = MappingProxyType({})


@frozen
class _Sums:
    """Sizes in bytes over the members of a group, or over the members of its target."""

    of: Members = NOBODY
    names: int = 0
    """Bytes of their names and subscriptions."""
    clients: int = 0
    longest: int = 4
    """Bytes of the longest name; at least those of null."""
    widest: int = 0
    """Bytes of the largest subscription."""

    @property
    def wishes(self) -> int:
        """Bytes of their subscriptions, with the members' names."""
        return self.names + len(self.of) * _OF_WISH


_NONE: Final = _Sums()
_SUMMED: Final[dict[int, _Sums]] = {}
"""The last sums, by the identity of their input: for 1,000 members a sum takes milliseconds."""


def event_bytes(group: Group, before: Group | None = None) -> int:
    """The most bytes that an event of this group may have, as it is.

    It costs less where the group was measured `before`, and has only more members now.
    """
    members = _sums(group.members, NOBODY if before is None else before.members)
    target = _sums(group.target_of.members)
    partitions, names = _partitions(group)
    longest = max(members.longest, target.longest)
    now = sum(map(_of_topic, group.topics.items()))
    snapshot = _STATE + 2 * max(now, sum(map(_of_topic, group.target_of.topics.items())))
    snapshot += members.names + members.clients + len(group.members) * _OF_MEMBER
    snapshot += members.wishes
    snapshot += names + partitions * (_OF_SNAPSHOT + 2 * longest)
    reconciled = _STATE + 2 * names + partitions * _OF_RECONCILED
    return max(snapshot, reconciled)


def request_bytes(group: Group) -> int:
    """The most bytes of a Register of one of its members, which may own all partitions."""
    partitions, names = _partitions(group)
    return _FRAME + _sums(group.members).widest + 2 * names + partitions * _OF_REQUEST


def bytes_missing(group: Group, before: Group | None, event_bytes_max: int) -> int:
    """How large the records of a group may become that do not fit; 0: all do.

    One that has not fitted before may change as long as it grows no further.
    """
    needed = event_bytes(group, before)
    if needed > event_bytes_max and (before is None or needed > event_bytes(before)):
        return needed
    needed = request_bytes(group)
    if needed > REQUEST_BYTES_MAX and (before is None or needed > request_bytes(before)):
        return needed
    return 0


def _sums(members: Members, before: Members = NOBODY) -> _Sums:
    """The sums of these members: of some more than `before`, only the new ones are added."""
    known = _SUMMED.get(id(members))
    if known is not None and known.of is members:
        return known
    base = _SUMMED.get(id(before), _NONE)
    if base.of is not before or any(members.get(name) is not one for name, one in before.items()):
        base = _NONE
    names, clients, longest, widest = base.names, base.clients, base.longest, base.widest
    for name, one in members.items():
        if name not in base.of:
            size, wish = _name(name), _wish(one.topics, one.static)
            names, longest, widest = names + size + wish, max(longest, size), max(widest, wish)
            clients += _name(one.client_id) if isinstance(one, GroupMember) else 0
    if len(_SUMMED) >= _SUMMED_MAX:
        _SUMMED.clear()
    found = _SUMMED[id(members)] = _Sums(members, names, clients, longest, widest)
    return found


def _partitions(group: Group) -> tuple[int, int]:
    """How many there are, and the bytes of their topics' names."""
    total = sum(topic.count for topic in group.topics.values())
    names = sum(topic.count * _name(name) for name, topic in group.topics.items())
    gone = max(0, len(group.partitions) - total)  # their topics are
    return total + gone, names + gone * _NAME_BYTES


def _of_topic(item: tuple[str, Topic]) -> int:
    name, topic = item
    return _OF_TOPIC + _name(name) + _name(topic.topic_id)


def _wish(topics: frozenset[str], static: Iterable[TopicPartition]) -> int:
    named = sum(_OF_PARTITION + _NUMBER + len(',"number":') + _name(tp.topic) for tp in static)
    return _names(topics) + named


@lru_cache(1_024)
def _names(names: frozenset[str]) -> int:
    return sum(_name(one) + 1 for one in names)


@lru_cache(16_384)
def _name(name: str) -> int:
    return len(json.dumps(name, ensure_ascii=False).encode())
