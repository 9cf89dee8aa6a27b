"""A group of members that share, in a world of chance: a log of few words, and time that passes.

Two lines here do what the log does with a record, as in `FairShare.tla`. Where the claim is free,
or its owner's client's, or stale, the asker wins; otherwise it is refused. Members read when chance
lets them, and what they send lands later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

import attrs

from kafka_marshal.core.messages import ClaimingPartition, Offset, Partition, ReleasingPartition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.share.rules import Sharer
from kafka_marshal.machines.share.timing import (
    FairShare,
    GroupView,
    Owner,
    Request,
    ShareTiming,
    requests_after,
)

PATIENCE = ShareTiming(stale_after_ms=20_000, renew_ms=8_000, settle_ms=1_000, grace_ms=2_000)
TICK_MS = 100
READS_EVERY = 3
"""A member reads at every third tick, on average."""
READS_WITHIN = 5
"""Ticks: with what a request takes to land it is less than `settle_ms`."""
LANDS_WITHIN = 4
DRAINS_WITHIN = 12
"""Ticks until what was sent is in the log; until a claim that is given back is released."""


def claims(count: int, topic: str = "events") -> frozenset[ClaimKey]:
    """`count` claims of one topic."""
    return frozenset(ClaimKey("g", topic, partition) for partition in range(count))


@attrs.define
class Member:
    """One running instance, and what it has under way."""

    share: FairShare
    asked: dict[ClaimKey, int] = attrs.field(factory=dict)
    """Until which tick each request is on its way."""
    giving: dict[ClaimKey, int] = attrs.field(factory=dict)
    stopping: bool = False
    read_at: int = 0
    """The tick at which it read last."""

    @property
    def me(self) -> Sharer:
        return self.share.me


@attrs.define
class Group:
    """The log, by what it says, and the members."""

    keys: frozenset[ClaimKey]
    chance: Random
    patience: ShareTiming = PATIENCE
    reads_within: int | None = None
    """Ticks until a member reads again at the latest; None: whenever chance lets it."""
    now: int = 0
    owners: dict[ClaimKey, Owner] = attrs.field(factory=dict)
    requests: Mapping[str, Request] = attrs.field(factory=dict)
    members: dict[str, Member] = attrs.field(factory=dict)
    moves: int = 0
    records: int = 0

    @property
    def now_ms(self) -> int:
        return self.now * TICK_MS

    def join(
        self,
        client: str,
        *,
        keys: Iterable[ClaimKey] | None = None,
        static: Iterable[ClaimKey] = (),
        limit: int | None = None,
        run: int = 1,
    ) -> None:
        own = self.keys if keys is None else frozenset(keys)
        me = Sharer(f"{client}.{run}", client, own, frozenset(static), limit)
        self.members[client] = Member(FairShare(me, self.patience))

    def crash(self, client: str) -> None:
        """Its claims go stale."""
        del self.members[client]

    def leave(self, client: str) -> None:
        """In order: everything is released."""
        member = self.members.pop(client)
        for key in [key for key, owner in self.owners.items() if owner.client_id == client]:
            self._release(member.me, key)

    def counts(self) -> Counter[str]:
        """How many claims each running member owns."""
        owned = Counter(dict.fromkeys(self.members, 0))
        owned.update(o.client_id for o in self.owners.values() if o.client_id in self.members)
        return owned

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds * 1000 / TICK_MS)):
            self.tick()

    def tick(self) -> None:
        """A tenth of a second."""
        self.now += 1
        for key, owner in self.owners.items():
            member = self.members.get(owner.client_id)
            if member is not None and member.me.instance_id == owner.instance_id:
                self.owners[key] = attrs.evolve(owner, alive_ms=self.now_ms)
        order = sorted(self.members)
        self.chance.shuffle(order)
        for client in order:
            member = self.members[client]
            for key in [key for key, at in member.asked.items() if at <= self.now]:
                del member.asked[key]
                self._ask(member.me, key)
            for key in [key for key, at in member.giving.items() if at <= self.now]:
                del member.giving[key]
                self._release(member.me, key)
            late = self.reads_within is not None and self.now - member.read_at >= self.reads_within
            if self.chance.randrange(READS_EVERY) == 0 or late:
                member.read_at = self.now
                self._look(member)

    def _look(self, member: Member) -> None:
        said = GroupView(
            {key: owner for key, owner in self.owners.items() if key in member.me.keys},
            self.requests,
            frozenset(member.asked),
            frozenset(member.giving),
        )
        decision = member.share.look(said, self.now_ms)
        asks = (*decision.ask, *([decision.request] if decision.request else []))
        # What one member sends lands in its order.
        lands = max([self.now, *member.asked.values()]) + self.chance.randint(1, LANDS_WITHIN)
        for key in asks:
            assert key not in member.asked
            assert key in member.me.keys
            member.asked[key] = lands
        if decision.give is not None:
            assert decision.give not in member.me.static
            assert self.owners[decision.give].instance_id == member.me.instance_id
            member.giving[decision.give] = self.now + self.chance.randint(1, DRAINS_WITHIN)
            self.moves += 1

    def _ask(self, me: Sharer, key: ClaimKey) -> None:
        self.records += 1
        owner = self.owners.get(key)
        if (
            owner is None
            or owner.client_id == me.client_id
            or self.now_ms - owner.alive_ms > self.patience.stale_after_ms
        ):
            self.owners[key] = Owner(me.instance_id, me.client_id, self.now_ms)
        message = ClaimingPartition(1, 0, me.instance_id, me.client_id, *_address(key))
        by = self.owners[key].instance_id
        self.requests = requests_after(self.requests, message, self.now_ms, by)

    def _release(self, me: Sharer, key: ClaimKey) -> None:
        self.records += 1
        if key in self.owners and self.owners[key].instance_id == me.instance_id:
            del self.owners[key]
        ids = (1, 0, me.instance_id, me.client_id)
        message = ReleasingPartition(*ids, *_address(key), Offset(0))
        self.requests = requests_after(self.requests, message, self.now_ms, None)


def _address(key: ClaimKey) -> tuple[str, str, Partition]:
    return (key.group, key.topic, Partition(key.topic_partition))


ENOUGH_S = 60
"""In which any of these groups has come to rest."""


def spread(group: Group) -> int:
    """How many more the richest member owns than the poorest."""
    counts = group.counts()
    return max(counts.values()) - min(counts.values())


def comes_to_rest(group: Group, moves_max: int) -> None:
    """It is even, after `moves_max` moves at most, and then nothing moves any more."""
    group.run(ENOUGH_S)
    assert spread(group) <= 1
    assert sum(group.counts().values()) == len(group.keys)
    assert group.moves <= moves_max
    moves = group.moves
    group.run(30)
    assert group.moves == moves


def moves_needed(group: Group) -> int:
    """The fewest moves that make it even."""
    counts, low = sorted(group.counts().values()), len(group.keys) // len(group.members)
    over = sum(max(0, count - low - 1) for count in counts)
    return max(over, sum(max(0, low - count) for count in counts))
