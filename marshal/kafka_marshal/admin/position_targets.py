"""Parses position targets: `events=earliest`, `events:3=500`, `events:3=-100`, or a time.

Targets become offsets of existing partitions; an invalid one becomes an error of one sentence. It
knows the begin and end of data topics, but not how a position is set.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from attrs import frozen

from kafka_marshal.admin.view import View
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.codec import PARTITION_MAX, coordinating_partition
from kafka_marshal.core.claims.suffix_reader import Field
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import InvalidOption


@frozen
class PositionTarget:
    """A target as the user wrote it. A partition of None means all of them."""

    topic: str
    partition: int | None
    where: str
    """earliest, latest, an offset, `+N` or `-N` from the present position, or a time."""


@frozen
class PlannedPosition:
    """One position that is to be set."""

    key: ClaimKey
    coordinating_partition: int
    position: int | None
    """The claim's current position; None if the log does not show it for certain."""
    target: int
    low: int
    end: int


def claim_named(text: str) -> tuple[str, int | None]:
    """A topic, or one partition of it: `events`, `events:3`.

    Raises:
        InvalidOption: it is neither.

    >>> claim_named("events"), claim_named("events:3")
    (('events', None), ('events', 3))
    """
    topic, colon, number = text.partition(":")
    if topic and not colon:
        return topic, None
    if topic and number.isdecimal() and number.isascii() and int(number) <= PARTITION_MAX:
        return topic, int(number)
    raise InvalidOption(f"{text!r} must be written TOPIC or TOPIC:PARTITION")


def wish(text: str) -> PositionTarget:
    """Parse a target.

    Raises:
        InvalidOption: it is invalid.

    >>> wish("events:3=500")
    PositionTarget(topic='events', partition=3, where='500')
    """
    claim, equals, where = text.partition("=")
    if not claim or not equals or not where:
        raise InvalidOption(
            f"{text!r} must be written TOPIC=WHERE or TOPIC:PARTITION=WHERE, where WHERE is an "
            "offset, +N, -N, earliest, latest, or a time like 2026-01-31T22:00"
        )
    if _is_time(where):
        _unix_ms(where, text)
    return PositionTarget(*claim_named(claim), where)


def plan(
    wishes: Sequence[PositionTarget], group: str, cluster: ClusterClient, view: View
) -> list[PlannedPosition]:
    """The position of each named partition, in order.

    Raises:
        InvalidOption: a partition is named twice, does not exist, or has no such offset; or the
            target is `+N` or `-N` and the log has no current position.
        NotAuthorized: the user may not describe a topic, so it may exist.
        BrokerFailed: the cluster did not answer.
    """
    wanted: dict[tuple[str, int], str] = {}
    counts: dict[str, int] = {}
    for one in wishes:
        if one.topic not in counts:
            seen = cluster.topic(one.topic)
            if seen is None:
                raise InvalidOption(f"there is no topic {one.topic}")
            counts[one.topic] = len(seen.partitions)
        count = counts[one.topic]
        if one.partition is not None and one.partition >= count:
            raise InvalidOption(f"{one.topic} has partitions 0 to {count - 1}, not {one.partition}")
        for number in range(count) if one.partition is None else (one.partition,):
            if (one.topic, number) in wanted:
                raise InvalidOption(f"{one.topic}:{number} is named twice")
            wanted[one.topic, number] = one.where
    extents = cluster.all_extents(list(wanted))
    at_times = _at_times(wanted, cluster)
    planned = []
    for (topic, number), where in sorted(wanted.items()):
        extent = extents[topic, number]
        key = ClaimKey(group, topic, number)
        home = coordinating_partition(topic, view.partitions)
        reader = view.folds[home].claim(key)
        position = reader.claim.position if Field.POSITION in reader.certain else None
        named: Mapping[str, int] = {"earliest": extent.low, "latest": extent.high}
        counted = f"offset {where}"
        if where in named:
            target = named[where]
        elif is_offset(where):
            target = int(where)
        elif _is_relative(where):
            begun = key in view.folds[home].claims(group)
            target = _moved(key, position if begun else None, where)
            counted = f"{where} from position {position}, which is offset {target},"
        else:
            target = at_times.get((topic, number), extent.high)
        if not extent.low <= target <= extent.high:
            holds = f"{extent.low} to {extent.high - 1}"
            if extent.low == extent.high:
                holds = f"nothing and ends at offset {extent.high}"
            raise InvalidOption(f"{counted} is outside {topic}:{number}, which holds {holds}")
        planned.append(PlannedPosition(key, home, position, target, extent.low, extent.high))
    return planned


def _at_times(
    wanted: Mapping[tuple[str, int], str], cluster: ClusterClient
) -> dict[tuple[str, int], int]:
    times: dict[int, list[tuple[str, int]]] = {}
    for topic_partition, where in wanted.items():
        if _is_time(where):
            times.setdefault(_unix_ms(where, where), []).append(topic_partition)
    found: dict[tuple[str, int], int] = {}
    for at_ms, topic_partitions in times.items():
        found |= cluster.offsets_at(topic_partitions, at_ms)
    return found


def _moved(key: ClaimKey, position: int | None, where: str) -> int:
    if position is None:
        raise InvalidOption(
            f"{key.topic}:{key.topic_partition}={where} counts from the present position, and the "
            f"log says none for certain of group {key.group}: name an offset, earliest or latest"
        )
    return position + int(where)


def _is_time(where: str) -> bool:
    return where not in ("earliest", "latest") and not is_offset(where) and not _is_relative(where)


def _is_relative(text: str) -> bool:
    return text[:1] in ("+", "-") and is_offset(text[1:])


def is_offset(text: str) -> bool:
    """Digits that Kafka can hold."""
    return text.isdecimal() and text.isascii() and len(text) < 19


def _unix_ms(text: str, argument: str) -> int:
    """ISO 8601; without a zone it is UTC."""
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(
            f"{argument!r}: {text!r} is no offset, nor +N, -N, earliest, latest, or a time like "
            "2026-01-31T22:00"
        ) from None
    # Kafka uses negative times for special values.
    return max(0, int((at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp() * 1000))
