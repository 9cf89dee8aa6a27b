"""Assignment strategies: which member of a group gets which partition.

A strategy is a pure function of what each member wants, the number of partitions of each topic, and
the current owners. It returns a target: the next owner of every partition of a topic that some
member wants, and of every static partition that exists. The order of the input does not matter.

All three give a static partition to the member that asked for it first in the log. It counts as
part of that member's share. A target is balanced if no other has a smaller sum of squares of the
members' counts. If every member wants every topic, counts then differ by at most one. `range`
balances each topic separately.

This module knows neither events nor state. It does not know when a rebalance is due, or how an
owner releases a partition: it computes the end of the move, not the way.

>>> from types import SimpleNamespace
>>> a, b = (SimpleNamespace(topics={"orders"}, static={}) for _ in range(2))
>>> sticky_assignor({"a": a, "b": b}, {"orders": 3}, {("orders", 0): "b", ("orders", 1): "b"})
{('orders', 0): 'b', ('orders', 1): 'b', ('orders', 2): 'a'}
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import inf
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import attrs
from attrs import field

TopicPartition: TypeAlias = tuple[str, int]
Target: TypeAlias = dict[TopicPartition, str]
"""The next owner of each partition."""


class Wishes(Protocol):
    """What a member wants."""

    @property
    def topics(self) -> Collection[str]:
        """Topics whose partitions it shares with the other members that want them."""

    @property
    def static(self) -> Mapping[TopicPartition, int]:
        """Partitions that it requested by number, and the number of the requesting event."""


Members: TypeAlias = Mapping[str, Wishes]
Strategy: TypeAlias = Callable[[Members, Mapping[str, int], Mapping[TopicPartition, str]], Target]
"""Members, partitions of each topic, current owners -> target."""


# --- the strategies -------------------------------------------------------------------------------


def range_assignor(
    members: Members, partitions: Mapping[str, int], owners: Mapping[TopicPartition, str]
) -> Target:
    """Divide each topic evenly, in runs of adjacent partitions; current owners do not count.

    Like Kafka's RangeAssignor: the remainder of a topic goes to the first members. So if the same
    members want several topics with the same number of partitions, partitions with the same number
    have the same owner, unless one is static. With n topics counts differ by up to n.
    """
    target = static_owners(members, partitions)
    of_topic = Counter((topic, member) for (topic, _), member in target.items())
    for topic, wanting in _wanting(members, partitions).items():
        shared = [place for place in _places(topic, partitions) if place not in target]
        loads = {member: of_topic[topic, member] for member in wanting}
        takers = Counter(_quotas(wanting, loads, len(shared))).elements()
        target.update(zip(shared, takers, strict=True))
    return target


def round_robin_assignor(
    members: Members, partitions: Mapping[str, int], owners: Mapping[TopicPartition, str]
) -> Target:
    """Deal the partitions out one by one, in turn; current owners do not count.

    Like Kafka's RoundRobinAssignor: members take turns in order of their ids, and a member that
    does not want the topic is skipped. A static partition uses up one of its owner's turns.
    """
    target = static_owners(members, partitions)
    owed = Counter(target.values())
    ids = sorted(members)
    index_of = {member: index for index, member in enumerate(ids)}
    turn = 0
    for topic, wanting in _wanting(members, partitions).items():
        indexes = [index_of[member] for member in wanting]
        for place in _places(topic, partitions):
            if place in target:
                continue
            while True:
                index = indexes[bisect_left(indexes, turn) % len(indexes)]
                turn = index + 1
                if not owed[ids[index]]:
                    break
                owed[ids[index]] -= 1
            target[place] = ids[index]
    return target


def sticky_assignor(
    members: Members, partitions: Mapping[str, int], owners: Mapping[TopicPartition, str]
) -> Target:
    """Return the balanced target that moves the fewest partitions.

    A partition moves if its owner is a member that wants it and the target names another one. No
    balanced target has fewer moves, even if members want different topics. Kafka's StickyAssignor
    does not guarantee that. So a target is a fixed point: assigned again, it does not change.
    """
    static = static_owners(members, partitions)
    loads = Counter(static.values())
    target: Target = {}
    for share in _shares(members, partitions):
        shared = [
            place
            for topic in share.topics
            for place in _places(topic, partitions)
            if not static or place not in static
        ]
        if len(share.wishes) == 1:
            [(ids, _)] = share.wishes
            target.update(_levelled(sorted(ids), loads, shared, owners))
        else:
            placement = _Placement.of(share, loads, shared, owners)
            placement.spread()
            placement.improve()
            target.update(placement.target())
    target.update(static)
    return target


STRATEGIES: Final[Mapping[str, Strategy]] = MappingProxyType(
    {
        "range": range_assignor,
        "round_robin": round_robin_assignor,
        "sticky": sticky_assignor,
    }
)
"""Strategies by the name that is given when a group is created."""


# --- what all of them need ------------------------------------------------------------------------


def static_owners(members: Members, partitions: Mapping[str, int]) -> Target:
    """Return the owner of each static partition: among those that want it, the first to ask."""
    first: dict[TopicPartition, tuple[int, str]] = {}
    for member, wishes in members.items():
        for place, number in wishes.static.items():
            first[place] = min(first.get(place, (number, member)), (number, member))
    return {
        (topic, partition): member
        for (topic, partition), (_, member) in first.items()
        if 0 <= partition < partitions.get(topic, 0)
    }


def _places(topic: str, partitions: Mapping[str, int]) -> Iterator[TopicPartition]:
    return product([topic], range(partitions[topic]))


def _wanting(members: Members, partitions: Mapping[str, int]) -> dict[str, list[str]]:
    """The members that want each existing topic; both in order."""
    wanting: dict[str, list[str]] = {}
    for member in sorted(members):
        for topic in set(members[member].topics):
            if topic in partitions:
                wanting.setdefault(topic, []).append(member)
    return dict(sorted(wanting.items()))


def _level(loads: Iterable[int], units: int) -> tuple[int, int]:
    """The level to which this many units fill all, and how many units are then left.

    >>> _level([0, 0, 5], 7)
    (3, 1)
    """
    below, sum_below = 0, 0
    for load in sorted(loads):
        if load * below - sum_below > units:
            break
        below, sum_below = below + 1, sum_below + load
    return divmod(units + sum_below, below)


def _quotas(ids: Sequence[str], loads: Mapping[str, int], units: int) -> dict[str, int]:
    """How many units each gets, so that loads are as even as possible.

    The remainder goes to those that come first.
    """
    level, left = _level((loads[member] for member in ids), units)
    able = [member for member in ids if loads[member] <= level]
    quotas = dict.fromkeys(ids, 0)
    for member in able:
        quotas[member] = level - loads[member]
    for member in able[:left]:
        quotas[member] += 1
    return quotas


# --- sticky: who shares with whom -----------------------------------------------------------------


@attrs.define(eq=False)
class _Share:
    """Topics, and the members that want some of them; no other member wants them."""

    topics: list[str]
    wishes: list[tuple[list[str], frozenset[str]]]
    """Groups of members that want the same, and what they want."""


def _shares(members: Members, partitions: Mapping[str, int]) -> list[_Share]:
    """Divide a group into parts without a common topic: each is balanced separately."""
    alike: dict[frozenset[str], list[str]] = {}
    for member, wishes in members.items():
        alike.setdefault(frozenset(wishes.topics), []).append(member)
    existing: dict[frozenset[str], list[str]] = {}
    known = frozenset(partitions)
    for topics, ids in alike.items():
        existing.setdefault(topics & known, []).extend(ids)
    shares: list[_Share] = []
    for topics, ids in existing.items():
        if not topics:
            continue
        joined = [share for share in shares if not topics.isdisjoint(share.topics)]
        shares = [share for share in shares if topics.isdisjoint(share.topics)]
        shares.append(
            _Share(
                sorted(topics.union(*(share.topics for share in joined))),
                [(ids, topics), *(wish for share in joined for wish in share.wishes)],
            )
        )
    return shares


# --- sticky, where all want the same --------------------------------------------------------------


def _levelled(
    ids: list[str],
    static_loads: Mapping[str, int],
    shared: list[TopicPartition],
    owners: Mapping[TopicPartition, str],
) -> Target:
    """Keep what fits under each member's quota, and give the rest to members below theirs.

    A few passes over all partitions, each of them one C call: a group of 10,000 members and 100,000
    partitions takes tens of milliseconds.
    """
    target = {place: owners.get(place) for place in shared}
    held = Counter(target.values())
    loads = {member: static_loads.get(member, 0) for member in ids}
    level, _ = _level(loads.values(), len(shared))
    # One more goes to those that would let it go otherwise.
    first = sorted(ids, key=lambda member: loads[member] + held[member] <= level)
    quotas = _quotas(first, loads, len(shared))
    surplus = {m: held[m] - quota for m, quota in quotas.items() if held[m] > quota}
    pool = []
    # Backwards: a member keeps its first partitions.
    for place, holder in reversed(target.items()):
        if holder not in quotas:
            pool.append(place)
        elif surplus and holder in surplus:
            pool.append(place)
            surplus[holder] -= 1
            if not surplus[holder]:
                del surplus[holder]
    pool.reverse()
    target.update(zip(pool, _turns(ids, quotas, held), strict=True))
    return target  # type: ignore[return-value]  # what nobody held was in the pool


def _turns(
    ids: list[str], quotas: Mapping[str, int], held: Mapping[str | None, int]
) -> Iterator[str]:
    """Yield members below their quota in turn, those with the fewest first."""
    needy = [member for member in ids if held[member] < quotas[member]]
    for count in range(max(quotas.values())):
        for member in needy:
            if held[member] <= count < quotas[member]:
                yield member


# --- sticky, where wishes differ ------------------------------------------------------------------

_Item: TypeAlias = tuple[int, int]
"""The index of the topic, and the partition."""
_ROOT: Final = -1
"""The predecessor of a node where a path begins."""


@attrs.define(eq=False)
class _Placement:
    """The placement of partitions, while chains of moves improve it.

    A minimum-cost flow: the sum of squares of the loads counts first, then the moves. A chain moves
    a partition of one member to another, one of that member to a third, and so on. The placement is
    optimal when no chain and no cycle of moves improves it (the negative cycle theorem), so the
    result is exact.

    Members and topics are numbered in order. A node is a member or a topic: a move goes from a
    member through a topic to a member that wants it.
    """

    ids: list[str]
    topics: list[str]
    wanting: list[list[int]]
    """By topic."""
    loads: list[int]
    home: dict[_Item, int]
    """Its owner, if that is a member that wants it. Elsewhere it counts as moved."""
    own: list[dict[int, set[_Item]]] = field(init=False)
    """By member and topic: partitions placed at their home."""
    away: list[dict[int, set[_Item]]] = field(init=False)
    """By member and topic: partitions placed elsewhere, or without a home."""
    back: list[dict[int, set[_Item]]] = field(init=False)
    """By member and home: partitions placed elsewhere."""

    def __attrs_post_init__(self) -> None:
        self.own = [defaultdict(set) for _ in self.ids]
        self.away = [defaultdict(set) for _ in self.ids]
        self.back = [defaultdict(set) for _ in self.ids]

    @classmethod
    def of(
        cls,
        share: _Share,
        static_loads: Mapping[str, int],
        shared: Iterable[TopicPartition],
        owners: Mapping[TopicPartition, str],
    ) -> _Placement:
        """Leave owned partitions with their owners, and give the rest to the poorest members."""
        wants = {member: topics for ids, topics in share.wishes for member in ids}
        ids = sorted(wants)
        index_of = {member: index for index, member in enumerate(ids)}
        topic_of = {topic: index for index, topic in enumerate(share.topics)}
        wanting: list[list[int]] = [[] for _ in share.topics]
        for index, member in enumerate(ids):
            for topic in wants[member]:
                wanting[topic_of[topic]].append(index)
        loads = [static_loads.get(member, 0) for member in ids]
        placement = cls(ids, share.topics, wanting, loads, {})
        free: dict[int, list[_Item]] = {}
        for place in shared:
            topic, partition = place
            item, owner = (topic_of[topic], partition), owners.get(place)
            if owner is not None and topic in wants.get(owner, ()):
                placement.home[item] = index_of[owner]
                placement._add(index_of[owner], item)
            else:
                free.setdefault(item[0], []).append(item)
        # Topics first that few want.
        for topic_index in sorted(free, key=lambda topic: (len(wanting[topic]), topic)):
            heap = [(loads[index], index) for index in wanting[topic_index]]
            heapq.heapify(heap)
            for item in free[topic_index]:
                index = heap[0][1]
                placement._add(index, item)
                heapq.heapreplace(heap, (loads[index], index))
        return placement

    def target(self) -> Target:
        """The placement as a target."""
        return {
            (self.topics[topic], partition): member
            for index, member in enumerate(self.ids)
            for placed in (self.own[index], self.away[index])
            for items in placed.values()
            for topic, partition in items
        }

    def spread(self) -> None:
        """Move partitions directly from members with many to members with few, while that helps.

        This leaves less to `improve`, which finds the optimum but examines every member for it.
        """
        poorest = [[(self.loads[index], index) for index in wanting] for wanting in self.wanting]
        for heap in poorest:
            heapq.heapify(heap)
        richest = [(-load, index) for index, load in enumerate(self.loads)]
        heapq.heapify(richest)
        while richest:
            load, giver = heapq.heappop(richest)
            if -load != self.loads[giver]:
                continue
            choices = []
            for topic in sorted({*self.own[giver], *self.away[giver]}):
                heap = poorest[topic]
                # Who takes has an entry that is too low, and who gives one that is too high. But
                # nobody gives to a giver: none that is left has more than one more than it.
                while heap[0][0] != self.loads[heap[0][1]]:
                    heapq.heapreplace(heap, (self.loads[heap[0][1]], heap[0][1]))
                choices.append((heap[0], topic))
            if not choices:
                continue
            (least, taker), topic = min(choices)
            if least + 2 > self.loads[giver]:
                continue
            self._move(giver, self._dispensable(giver, topic), taker)
            for index in (giver, taker):
                heapq.heappush(richest, (-self.loads[index], index))

    def improve(self) -> None:
        """Carry out chains and cycles of moves that improve it, until there are none."""
        while found := self._improvements():
            for path in found:
                self._carry_out(path)

    def _improvements(self) -> list[list[int]]:
        """Find chains of moves without a common member, or one cycle."""
        members = len(self.ids)
        # One more in the sum of squares costs more than all moves.
        dear = len(self.home) + 1
        costs: list[float] = [inf] * (members + len(self.topics))
        before = [_ROOT] * len(costs)
        heap: list[tuple[float, int]] = []
        for index in range(members):
            if self.own[index] or self.away[index]:
                # What it costs that the first member of a chain has one less.
                costs[index] = -dear * (2 * self.loads[index] - 1)
                heapq.heappush(heap, (costs[index], index))
        while heap:
            cost, node = heapq.heappop(heap)
            if cost > costs[node]:
                continue
            for after, reached in self._steps(cost, node):
                if reached < costs[after]:
                    ring = _ring(before, node, after, members)
                    if ring:
                        return [ring]
                    costs[after], before[after] = reached, node
                    heapq.heappush(heap, (reached, after))
        better = sorted(
            (change, index)
            for index in range(members)
            if (change := costs[index] + dear * (2 * self.loads[index] + 1)) < 0
        )
        used: set[int] = set()
        chains = []
        for _, index in better:
            chain = _path(before, index)
            if used.isdisjoint(chain):
                used.update(chain)
                chains.append(chain)
        return chains

    def _steps(self, cost: float, node: int) -> Iterator[tuple[int, float]]:
        """Yield the possible next steps of a chain that has reached this node, and their costs."""
        members = len(self.ids)
        if node >= members:
            for index in self.wanting[node - members]:
                yield index, cost
            return
        for topic in self.away[node]:
            yield members + topic, cost
        for topic in self.own[node]:
            yield members + topic, cost + 1
        for index in self.back[node]:
            yield index, cost - 1

    def _carry_out(self, path: Sequence[int]) -> None:
        members = len(self.ids)
        giver = path[0]
        topic = None
        # From the end, because a member gives what it held before.
        moves = []
        for node in path[1:]:
            if node >= members:
                topic = node - members
                continue
            back = self.back[giver]
            item = max(back[node]) if topic is None else self._dispensable(giver, topic)
            moves.append((giver, item, node))
            giver, topic = node, None
        for move in moves:
            self._move(*move)

    def _dispensable(self, giver: int, topic: int) -> _Item:
        """The last of those with the lowest cost: a member keeps its first partitions."""
        return max(self.away[giver].get(topic) or self.own[giver][topic])

    def _move(self, giver: int, item: _Item, taker: int) -> None:
        self._remove(giver, item)
        self._add(taker, item)

    def _add(self, index: int, item: _Item) -> None:
        home = self.home.get(item)
        self.loads[index] += 1
        if home == index:
            self.own[index][item[0]].add(item)
            return
        self.away[index][item[0]].add(item)
        if home is not None:
            self.back[index][home].add(item)

    def _remove(self, index: int, item: _Item) -> None:
        home = self.home.get(item)
        self.loads[index] -= 1
        if home == index:
            _discard(self.own[index], item[0], item)
            return
        _discard(self.away[index], item[0], item)
        if home is not None:
            _discard(self.back[index], home, item)


def _discard(items_of: dict[int, set[_Item]], key: int, item: _Item) -> None:
    items_of[key].discard(item)
    if not items_of[key]:
        del items_of[key]


def _path(before: Sequence[int], node: int) -> list[int]:
    path = [node]
    while (node := before[node]) != _ROOT:
        path.append(node)
    path.reverse()
    return path


def _ring(before: Sequence[int], node: int, after: int, members: int) -> list[int]:
    """The cycle that a step from `node` to `after` closes, from a member to itself; or nothing."""
    path = _path(before, node)
    if after not in path:
        return []
    ring = path[path.index(after) :]
    if after >= members:
        ring = [*ring[1:], after]
    return [*ring, ring[0]]
