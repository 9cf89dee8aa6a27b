"""The original beside ours: its decoder, and its client, as far as recorded data shows them.

Its code is not here. `Decoder` is a model of how it reads a record, held to the vectors and
captures that its own code made. They hold no ClaimingMessages; there the model is the protocol
document's. `Original` follows the rules that its own handlers were recorded to follow
(`kafka_marshal.core.claims.original`), by its own clock in whole seconds, and writes no headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import attrs
from attrs import define, field, frozen

from kafka_marshal import ORIGINAL, World
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims import original
from kafka_marshal.core.messages import (
    NO_HEADERS,
    ClaimingPartition,
    Heartbeat,
    Message,
    Offset,
    Partition,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.machines.consumer.effects import Send
from tests.machines.town import PLACES, Town, key

# --- what it reads --------------------------------------------------------------------------------


class Invalid(Exception):
    """It drops the record, and says this."""


@frozen
class Decoder:
    """How the original reads a record's value. Each field is what a mutant may get wrong."""

    knows_groups: bool
    """e79661b, the last with an administrator; 80cc6d1 has forgotten ReleaseGroup."""
    fields: tuple[tuple[str, str, int], ...] = (
        ("Heartbeat", "hb", 9),
        ("ClaimingPartition", "cp", 8),
        ("ReleasingPartition", "rp", 9),
        ("ClaimingMessages", "cm", 9),
        ("ReleaseGroup", "rg", 9),
    )
    least: int = 8
    numbers: tuple[tuple[str, str, int], ...] = (
        ("Version", "version", 1),
        ("Time", "timestamp", 2),
        ("PartID", "partID", 7),
    )
    texts: tuple[tuple[str, int], ...] = (
        ("InstanceID", 3),
        ("ClientID", 4),
        ("GroupID", 5),
        ("Topic", 6),
    )
    number: str = r"[+-]?[0-9]+"
    bits: int = 64
    groups_name_no_topic: bool = True
    length_before_partition: bool = False

    def read(self, value: bytes) -> tuple[str, dict[str, int | str]]:
        """The type's word, and its fields by their names in Go.

        Raises:
            Invalid: it does not read this.
        """
        parts = value.decode("utf-8", "surrogateescape").split("/")
        if len(parts) < self.least:
            raise Invalid("Invalid message (length)")
        [kind] = [one for one in self.fields if one[0] == parts[0]] or [("", "", 0)]
        if self.length_before_partition:
            self._check_length(kind, parts)
        read: dict[str, int | str] = {
            name: self._integer(parts[at], word) for name, word, at in self.numbers
        }
        read |= {name: parts[at] for name, at in self.texts}
        word, short, count = kind
        if not count or (word == "ReleaseGroup" and not self.knows_groups):
            raise Invalid("Invalid message")
        self._check_length(kind, parts)
        if word == "ReleaseGroup":
            if self.groups_name_no_topic and (read["Topic"] or read["PartID"]):
                raise Invalid("Invalid ReleaseGroup message (Topic, PartID must be empty)")
            read["MsgExpireTime"] = self._integer(parts[8], "rg expire")
        elif count == 9:
            read["CurrentOffset"] = self._integer(parts[8], f"{short} offset")
        return word, read

    @staticmethod
    def _check_length(kind: tuple[str, str, int], parts: list[str]) -> None:
        word, short, count = kind
        if word and len(parts) != count:
            raise Invalid(f"Invalid message ({short} length)")

    def _integer(self, text: str, word: str) -> int:
        if not re.fullmatch(self.number, text):
            raise Invalid(f"Invalid message ({word})")
        number = int(text)
        if not -(2 ** (self.bits - 1)) <= number < 2 ** (self.bits - 1):
            raise Invalid(f"Invalid message ({word})")
        return number


READS_GROUPS = Decoder(knows_groups=True)
READS_NO_GROUPS = Decoder(knows_groups=False)

GO_NAMES = {
    "Version": "version",
    "Time": "unix_s",
    "InstanceID": "instance_id",
    "ClientID": "client_id",
    "GroupID": "group_id",
    "Topic": "topic",
    "PartID": "partition",
    "CurrentOffset": "offset",
    "MsgExpireTime": "expires_unix_s",
}


def as_it_reads(message: Message) -> tuple[str, dict[str, int | str]]:
    """A message of ours, by the original's names."""
    fields = {
        name: getattr(message, ours) for name, ours in GO_NAMES.items() if hasattr(message, ours)
    }
    return type(message).__name__, fields


# --- what it does ---------------------------------------------------------------------------------


class Surroundings(Protocol):
    """What an original knows of where it is: time, a topic, and the log of claims."""

    @property
    def now_ms(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def place(self) -> int: ...
    @property
    def logs(self) -> Mapping[int, Sequence[Record]] | Sequence[Sequence[Record]]: ...
    def end_of(self, partition: int) -> int: ...
    def send(self, message: Message) -> None: ...
    def append(self, send: Send) -> None: ...


@define
class Original:
    """One instance of the original: what it believes, sends and consumes."""

    town: Surroundings
    instance: str
    client: str
    partitions: int
    world: World
    interval_ms: int = 60_000
    clock_ahead_ms: int = 0
    """How far its own clock is ahead; it asks no other."""
    knows_groups: bool = True
    alive: bool = True
    wire: list[Send] | None = None
    """What it sent and has not landed, while its connection is slow."""
    read: int = 0
    at_work: dict[int, int] = field(factory=dict)
    """The partitions that it consumes, and how far it is."""
    beats: dict[int, int] = field(factory=dict)
    processed: list[tuple[int, int]] = field(factory=list)

    @property
    def now_ms(self) -> int:
        return self.town.now_ms + self.clock_ahead_ms

    def look(self) -> None:
        """Read everything, with the time of its own clock."""
        log = self.town.logs[self.town.place]
        for record in log[self.read :]:
            if self.knows_groups or not isinstance(record.message, ReleaseGroup):
                self.world.apply(attrs.evolve(record, timestamp_ms=self.now_ms))
        self.read = len(log)

    def owner(self, partition: int) -> str | None:
        """Whom it takes for the owner."""
        claim = self.world.claim(key(self.town.topic, partition))
        held = original.claimed(claim, self.now_ms, self.world.rules)
        return claim.owner_instance if held else None

    def turn(self) -> None:
        """What it does every now and then: heartbeats for what it owns, and claims what is free."""
        if not self.alive:
            return
        self.look()
        for partition in range(self.partitions):
            claim = self.world.claim(key(self.town.topic, partition))
            if claim.paused_until_ms is not None and self.now_ms < claim.paused_until_ms:
                self.at_work.pop(partition, None)
            elif self.owner(partition) == self.instance:
                self._consume(partition, claim.position)
            else:
                self.at_work.pop(partition, None)
                if self.owner(partition) is None:
                    self.claim(partition)
        self.look()

    def _consume(self, partition: int, position: int) -> None:
        if partition not in self.at_work:
            self.at_work[partition] = position
            self.beats[partition] = self.now_ms - self.interval_ms
        begin = self.at_work[partition]
        end = max(begin, self.town.end_of(partition))
        self.processed += [(partition, offset) for offset in range(begin, end)]
        self.at_work[partition] = end
        if self.now_ms - self.beats[partition] >= self.interval_ms:
            self.beat(partition)

    def claim(self, partition: int) -> None:
        self._send(ClaimingPartition(*self._address(partition)))

    def beat(self, partition: int) -> None:
        """A heartbeat: how far it got, or as far as the log says."""
        self.beats[partition] = self.now_ms
        position = self.at_work.get(partition)
        if position is None:
            position = self.world.claim(key(self.town.topic, partition)).position
        self._send(Heartbeat(*self._address(partition), Offset(position)))

    def land(self) -> None:
        """What is on the wire arrives."""
        landing, self.wire = self.wire or [], None
        for one in landing:
            self.town.append(one)

    def _send(self, message: Message) -> None:
        if self.wire is None:
            self.town.send(message)
        else:
            self.wire.append(Send(message, NO_HEADERS))

    def release(self) -> None:
        """It terminates, and gives everything back."""
        for partition, position in self.at_work.items():
            self._send(ReleasingPartition(*self._address(partition), Offset(position)))
        self.alive, self.at_work = False, {}

    def fast_reclaim(self) -> None:
        """At its start: what its client owned is its own, by a bare heartbeat."""
        self.look()
        for partition in range(self.partitions):
            claim = self.world.claim(key(self.town.topic, partition))
            if self.owner(partition) is not None and claim.owner_client == self.client:
                self.beat(partition)

    def _address(self, partition: int) -> tuple[int, int, str, str, str, str, Partition]:
        unix_s = self.now_ms // 1000
        topic = self.town.topic
        return (1, unix_s, self.instance, self.client, "g", topic, Partition(partition))


@define
class Mixed(Town):
    """A town with a topic that grows by a message a second, and originals at it."""

    now_ms: int = 1_000_000
    """At 0 an original takes every owner for nobody."""
    topic: str = "events"
    originals: dict[str, Original] = field(factory=dict)
    crowded: dict[int, set[frozenset[str]]] = field(factory=dict)
    """Who was ever at work at a partition together."""
    end: int = 0
    per_s: int = 1
    """How many messages come in a second."""

    @property
    def place(self) -> int:
        return coordinating_partition(self.topic, PLACES)

    def end_of(self, partition: int) -> int:
        """All partitions of the topic are equally long."""
        return self.end

    def original(
        self,
        name: str,
        partitions: int = 3,
        *,
        interval_ms: int = 60_000,
        clock_ahead_ms: int = 0,
        knows_groups: bool = True,
    ) -> Original:
        """Instance o1 is of client o. It has read the log from its beginning."""
        rules = attrs.evolve(ORIGINAL, heartbeat_interval_ms=interval_ms)
        one = Original(self, name, name[0], partitions, World(rules), interval_ms)
        one.clock_ahead_ms, one.knows_groups = clock_ahead_ms, knows_groups
        self.originals[name] = one
        return one

    def send(self, message: Message, place: int | None = None) -> None:
        """Append it as an original does."""
        self.append(Send(message, NO_HEADERS), self.place if place is None else place)

    def at_work(self, partition: int) -> frozenset[str]:
        """Everybody who works on its messages now, whether or not by right."""
        claim = key(self.topic, partition)
        return frozenset(
            {name for name, one in self.originals.items() if partition in one.at_work and one.alive}
            | {
                name
                for name, member in self.members.items()
                if name not in self.deaf and claim in member.owned
            }
        )

    def pass_time(self, ms: int) -> None:
        """A second at a time: a message comes, everybody reads, works and tells."""
        for _ in range(ms // 1000):
            self.end += self.per_s
            Town.pass_time(self, 1000)
            for one in list(self.originals.values()):
                one.turn()
            self.settle()
            for name in self.members:
                self._work(name)
            for partition in range(8):
                together = self.at_work(partition)
                if len(together) > 1:
                    self.crowded.setdefault(partition, set()).add(together)

    def _work(self, name: str) -> None:
        if name in self.deaf:
            return
        member = self.members[name]
        for claim in list(member.owned):
            self.do(name, member.messages_available(claim, self.end, self.now_ms))
            done = [
                offset + 1
                for partition, offset in self.processed[name]
                if partition == claim.topic_partition
            ]
            self.do(name, member.done(claim, max(done, default=0), self.now_ms))

    def verdicts(self) -> list[tuple[Message, object]]:
        """The fenced rules' verdict on each record of the topic's place."""
        world = World(self.worlds[self.place].rules)
        return [(one.message, world.apply(one).verdict) for one in self.logs[self.place]]

    def by(self, sender: str) -> list[object]:
        """The fenced rules' verdict on each record of this instance."""
        return [said for message, said in self.verdicts() if message.instance_id == sender]

    def everything(self) -> list[tuple[int, int]]:
        """All messages that anybody processed, as often as they were."""
        ours = [done for name in self.members for done in self.processed[name]]
        return ours + [done for one in self.originals.values() for done in one.processed]


def twice(processed: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Messages that were processed more than once."""
    seen: set[tuple[int, int]] = set()
    return {one for one in processed if one in seen or seen.add(one)}  # type: ignore[func-returns-value]
