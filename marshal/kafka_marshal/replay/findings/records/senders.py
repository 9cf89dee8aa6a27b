"""Senders under any rules: one client id used twice, and clocks that are off.

These are facts of the log. A sender's clock is measured over all coordinating partitions, so a fold
only gathers its histogram, and the finding is made when all are in.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import attrs
from attrs import define, field

from kafka_marshal.capture import TimestampType
from kafka_marshal.core.messages import Message, ReleaseGroup
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.catalogue import CATALOGUE, WARNING
from kafka_marshal.replay.model.chunk_items import BUCKET_MS, ChunkFacts
from kafka_marshal.replay.model.events import JudgedRecord
from kafka_marshal.replay.model.internal import ClockStatistics, GroupCountsRow, SenderRow
from kafka_marshal.replay.model.phrasing import span, times, who
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import readable

RECORDS_MIN: Final = 3
"""Records by which to judge a clock, at least."""
OFF_MIN_MS: Final = 2000


@define
class _Client:
    """The instances that spoke under one client id of one group, oldest first."""

    first_unix_s: dict[str, int] = field(factory=dict)
    newest: str | None = None
    newest_began: JudgedRecord | None = None
    claims: dict[str, set[ClaimKey]] = field(factory=lambda: defaultdict(set))


class Instances:
    """Two instances of one client id that speak in turns."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], _Client] = {}
        self._cases: dict[tuple[str, str, str, str], tuple[Case, _Client]] = {}
        self._begun = 0
        """How many cases `begun` has given."""

    def observe(self, sighting: JudgedRecord) -> None:
        """A record written before the newer instance began is merely late, and no finding."""
        message = sighting.message
        name = message.group_id, message.client_id
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = _Client()
        instance = message.instance_id
        if not isinstance(message, ReleaseGroup):
            client.claims[instance].add(message.key)
        if instance == client.newest:
            return
        if instance not in client.first_unix_s:
            client.first_unix_s[instance] = message.unix_s
            client.newest, client.newest_began = instance, sighting
            return
        newest = client.newest or ""
        if message.unix_s < client.first_unix_s[newest] or client.newest_began is None:
            return
        entry = self._cases.get((*name, instance, newest))
        if entry is None:
            case = self._opened(sighting, client.newest_began)
            entry = self._cases[(*name, instance, newest)] = case, client
        entry[0].add(sighting)

    def goes_on(self, message: Message) -> bool:
        """One more record of this sender about a claim of its own is nothing to note."""
        return self.newest(message.group_id, message.client_id) == message.instance_id

    def newest(self, group: str, client: str) -> str | None:
        """The instance of a client that began last; None before the first."""
        known = self._clients.get((group, client))
        return None if known is None else known.newest

    @property
    def at_once(self) -> bool:
        """Two instances of a client spoke in turns."""
        return bool(self._cases)

    def spoke(self, group: str, client: str, instance: str, keys: Iterable[ClaimKey]) -> None:
        """An instance spoke for these claims."""
        known = self._clients.get((group, client))
        if known is not None:
            known.claims[instance].update(keys)

    def _opened(self, older: JudgedRecord, newer: JudgedRecord) -> Case:
        message = older.message
        return Case(
            "two_instances_of_one_client",
            message.group_id,
            None,
            None,
            message.instance_id,
            message.client_id,
            partial(_at_once, newer),
            [newer],
        )

    def begun(self) -> Iterator[FindingRow]:
        """The findings that began since this was last asked, as they stand now."""
        if len(self._cases) > self._begun:
            fresh = itertools.islice(self._rows(), self._begun, None)
            self._begun = len(self._cases)
            yield from fresh

    def at_the_end(self) -> Iterator[FindingRow]:
        """The findings."""
        return self._rows()

    def _rows(self) -> Iterator[FindingRow]:
        """An error where both spoke for one claim, and then about that claim."""
        for (_, _, older, newer), (case, client) in self._cases.items():
            shared = client.claims[older] & client.claims[newer]
            row = case.row()
            if not shared:
                row = attrs.evolve(row, severity=WARNING)
            elif len(shared) == 1:
                (key,) = shared
                row = attrs.evolve(row, topic=key.topic, topic_partition=key.topic_partition)
            yield row


def _at_once(newer: JudgedRecord, case: Case) -> str:
    return (
        f"Two instances of client {case.client} of group {case.group} were at work at once: "
        f"{case.instance} spoke {times(case.count, 'more time')} (offset "
        f"{case.first_seen.offset} to {case.last_seen.offset}) after "
        f"{newer.message.instance_id} had begun at offset {newer.offset}. A client id must be "
        f"used once."
    )


class Clocks:
    """Histograms of every sender's clock against the broker's, in one coordinating partition."""

    def __init__(self) -> None:
        self._senders: dict[tuple[str, str, str], _Clock] = {}

    def observe(self, sighting: JudgedRecord) -> None:
        """Only the broker's stamps say anything about a sender's clock."""
        if sighting.raw.timestamp_type is not TimestampType.LOG_APPEND_TIME:
            return
        message = sighting.message
        name = message.group_id, message.instance_id, message.client_id
        known = self._senders.get(name)
        if known is None:
            known = self._senders[name] = _Clock()
        known.add(-sighting.sent_late_ms)

    def facts(self, facts: ChunkFacts) -> None:
        """Add what a whole chunk says of everybody's clock."""
        for row in facts.clocks:
            name = row.group, row.instance, row.client
            self._senders.setdefault(name, _Clock()).add_row(row)

    def went_on(
        self, name: tuple[str, str, str], least_ms: int, most_ms: int, buckets: Mapping[int, int]
    ) -> None:
        """Add how far a sender's clock was ahead in some records, and in how many by how much.

        `name` is group, instance and client; a bucket is `BUCKET_MS` wide.
        """
        known = self._senders[name]
        known.least_ms = min(known.least_ms, least_ms)
        known.most_ms = max(known.most_ms, most_ms)
        known.histogram.update(buckets)

    def at_the_end(self) -> Iterator[SenderRow]:
        """Rows of the table `senders`."""
        for name, seen in self._senders.items():
            group, instance, client = map(readable, name)  # as they are in a chunk's facts
            buckets = sorted(seen.histogram)
            yield SenderRow(
                group=group,
                instance=instance,
                client=client,
                offset_min_ms=seen.least_ms,
                offset_max_ms=seen.most_ms,
                buckets=buckets,
                counts=(seen.histogram[bucket] for bucket in buckets),
            )


@define
class _Clock:
    histogram: Counter[int] = field(factory=Counter)
    least_ms: int = 2**63 - 1
    most_ms: int = -(2**63)

    def add(self, offset_ms: int) -> None:
        self.histogram[offset_ms // BUCKET_MS] += 1
        self.least_ms = min(self.least_ms, offset_ms)
        self.most_ms = max(self.most_ms, offset_ms)

    def add_row(self, row: SenderRow) -> None:
        self.least_ms = min(self.least_ms, row.offset_min_ms)
        self.most_ms = max(self.most_ms, row.offset_max_ms)
        for bucket, count in zip(row.buckets, row.counts, strict=True):
            self.histogram[bucket] += count


def merged(rows: Iterable[SenderRow]) -> list[ClockStatistics]:
    """The clocks of all senders, over all coordinating partitions of each log."""
    together: dict[tuple[str, str, str, str], _Clock] = {}
    for row in rows:
        name = row.log, row.group, row.instance, row.client
        together.setdefault(name, _Clock()).add_row(row)
    return [
        ClockStatistics(
            *name, seen.histogram.total(), seen.least_ms, _median_ms(seen), seen.most_ms
        )
        for name, seen in sorted(together.items())
    ]


def _median_ms(seen: _Clock) -> int:
    half, passed = seen.histogram.total() / 2, 0
    for bucket in sorted(seen.histogram):
        passed += seen.histogram[bucket]
        if passed >= half:
            middle = bucket * BUCKET_MS + BUCKET_MS // 2
            return max(seen.least_ms, min(seen.most_ms, middle))
    raise AssertionError("a sender without records")


def clock_findings(
    clocks: Iterable[ClockStatistics],
    heartbeat_interval_ms: float,
    groups: Iterable[GroupCountsRow] = (),
) -> Iterator[FindingRow]:
    """Senders whose clock is off by so much that the original's rules misjudge its claims.

    `groups` are rows of the table `groups`: they say a group's heartbeat interval; that of others
    is `heartbeat_interval_ms`.
    """
    intervals_ms = {(row.log, row.group): row.heartbeat_interval_ms for row in groups}
    kind = CATALOGUE["sender_clock_off"]
    for sender in clocks:
        interval_ms = intervals_ms.get((sender.log, sender.group), heartbeat_interval_ms)
        limit_ms = max(OFF_MIN_MS, interval_ms / 2)
        if sender.records < RECORDS_MIN or abs(sender.off_ms) <= limit_ms:
            continue
        if sender.off_ms > 0:
            meaning = "is ahead of the broker's"
        else:
            meaning = "is behind the broker's, or its records take that long to land"
        yield FindingRow(
            log=sender.log,
            code=kind.code,
            severity=kind.severity,
            group=sender.group,
            instance=sender.instance,
            client=sender.client,
            count=sender.records,
            sentence=(
                f"The clock of {who(sender.instance, sender.client)} of group {sender.group} "
                f"{meaning}: {span(abs(sender.off_ms))} in the median of "
                f"{times(sender.records, 'record')} "
                f"({sender.offset_min_ms / 1000:+.1f} to {sender.offset_max_ms / 1000:+.1f} s)."
            ),
        )
