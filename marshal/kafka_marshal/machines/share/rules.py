"""The rules of fair share: what a member asks for and gives back, given what it has read.

Spec: module Share. Nothing here decides who owns a claim: the log does, and it refuses requests
that should not have been made. There is no new message. A member that wants more asks for a claim
that somebody else owns: the request is refused and changes nothing, but everybody has read who
wants. The owner of the named claim gives it back if it owns at least two more than the asker. So
every move makes the difference smaller, and one request moves one claim. A free claim is offered to
the poorest; members that have read as much offer the same claims to the same members.

This room knows no time: `timing` decides what is stale or overdue. A member is a client, no matter
which of its instances runs; of two that are alike the lower name comes first.

>>> first, second = ClaimKey("g", "events", 0), ClaimKey("g", "events", 1)
>>> seen = ShareView(Sharer("b1", "b", frozenset({first, second})), {first: "a", second: "a"}, {})
>>> claims_to_ask(seen, ShareMemory(), offered_to_me(seen, {})), claim_to_name(seen, frozenset())
((), ClaimKey(group='g', topic='events', topic_partition=0))
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

import attrs
from attrs import field, frozen

from kafka_marshal.core.state import ClaimKey


@frozen
class Sharer:
    """Who shares. Spec: `me` in Share; of one group."""

    instance_id: str
    client_id: str
    keys: frozenset[ClaimKey]
    """The claims that it may own: of topics that it subscribes to, the static ones too."""
    static: frozenset[ClaimKey] = frozenset()
    """Of them those that it asked for by name: asked for whenever free, and never given away."""
    limit: int | None = None
    """The most claims that it takes; None for no limit."""


@frozen
class ShareMemory:
    """What a member remembers. Spec: NewMemory."""

    asked: frozenset[ClaimKey] = frozenset()
    """What it asked for and has not read back. Spec: AskedFor."""
    giving: frozenset[ClaimKey] = frozenset()
    """What it has begun to give back, and has not read that it is free."""
    passed_over: frozenset[ClaimKey] = frozenset()
    """Claims that it named in vain."""


# --- who there is ---------------------------------------------------------------------------------


@attrs.define(eq=False)
class ShareView:
    """What a member has read: who owns each claim, and who asked in vain. Spec: `seen` in Share.

    Stale owners and old requests are left out before. Clients, not instances. What is counted is
    counted once, so one of these is made for each look.
    """

    me: Sharer
    owners: Mapping[ClaimKey, str]
    """What is not here is free."""
    requests: Mapping[str, ClaimKey]
    counts: Mapping[str, int] = field(init=False)
    """How many claims each known member owns. Spec: KnownMembers, CountOf."""
    able: Mapping[str, frozenset[str]] = field(init=False)
    """By topic, who is known to own such claims. Spec: CanOwn."""

    def __attrs_post_init__(self) -> None:
        me = self.me.client_id
        counts, able = Counter({me: 0}), {key.topic: {me} for key in self.me.keys}
        for key, client in self.owners.items():
            counts[client] += 1
            able[key.topic].add(client)
        for client, key in self.requests.items():
            if key in self.me.keys:
                counts.setdefault(client, 0)
                able[key.topic].add(client)
        self.counts = counts
        self.able = {topic: frozenset(clients) for topic, clients in able.items()}

    @property
    def mine(self) -> int:
        """How many claims it owns itself."""
        return self.counts[self.me.client_id]

    @cached_property
    def free(self) -> tuple[ClaimKey, ...]:
        """Claims that nobody owns, in order. Spec: FreeClaims."""
        return tuple(sorted(self.me.keys - self.owners.keys()))

    @cached_property
    def named(self) -> frozenset[ClaimKey]:
        """Claims that others ask for. Spec: IsNamed."""
        me = self.me.client_id
        return frozenset(key for client, key in self.requests.items() if client != me)


def is_announced(seen: ShareView) -> bool:
    """The others can know of it. Spec: IsAnnounced."""
    me = seen.me
    return seen.mine > 0 or seen.requests.get(me.client_id) in me.keys


def _below_limit(seen: ShareView) -> bool:
    return seen.me.limit is None or seen.mine < seen.me.limit


# --- what is free is offered to the poorest -------------------------------------------------------


def offers(seen: ShareView, overdue: Mapping[ClaimKey, int]) -> dict[ClaimKey, str]:
    """To whom each free claim is offered. Spec: Offers, Offered, AtRank.

    Args:
        overdue: how often a claim was passed on to the next poorest; 0 where it is not there.
    """
    counts, found = dict(seen.counts), {}
    heaps: dict[frozenset[str], list[tuple[int, str]]] = {}
    for key in seen.free:
        if key in seen.me.static:
            continue
        able = seen.able[key.topic]
        if able not in heaps:
            heaps[able] = sorted((counts[client], client) for client in able)
        taker = _at_rank(heaps[able], counts, overdue.get(key, 0))
        found[key] = taker
        counts[taker] += 1
    return found


def _at_rank(heap: list[tuple[int, str]], counts: Mapping[str, int], rank: int) -> str:
    """The member with `rank` poorer members before it. Spec: AtRank.

    Ranks wrap around: the poorest member may have missed its turn and gets another one. Counts
    only grow, so an entry of the heap is too low at most, and is corrected when it comes up.
    """
    while heap[0][0] != counts[heap[0][1]]:
        heapq.heapreplace(heap, (counts[heap[0][1]], heap[0][1]))
    place = rank % len(heap)
    if place == 0:
        return heap[0][1]
    return sorted((counts[client], client) for _, client in heap)[place][1]


def offered_to_me(seen: ShareView, overdue: Mapping[ClaimKey, int]) -> tuple[ClaimKey, ...]:
    """Spec: OfferedToMe; in order."""
    me = seen.me.client_id
    return tuple(key for key, taker in offers(seen, overdue).items() if taker == me)


def room(seen: ShareView, memory: ShareMemory, offered: Iterable[ClaimKey]) -> int:
    """How many more it may ask for. Spec: Room.

    What it asked for and did not expect to get, it may get.
    """
    static = seen.me.static.intersection(seen.free)
    asked = sum(seen.owners.get(key) != seen.me.client_id for key in memory.asked)
    share = len({*offered, *static})
    limit = share if seen.me.limit is None else seen.me.limit - seen.mine
    more = min(share, limit) - asked
    if is_announced(seen):
        return more
    return 1 if more > 0 and not memory.asked else 0


def claims_to_ask(
    seen: ShareView, memory: ShareMemory, offered: Iterable[ClaimKey]
) -> tuple[ClaimKey, ...]:
    """What it asks for, of what is free; static claims first. Spec: ClaimsToAsk.

    Who is not announced asks for one: others may begin at the same moment, and it knows of none.
    """
    offered = tuple(offered)
    static = sorted(seen.me.static.intersection(seen.free))
    new = [key for key in (*static, *offered) if key not in memory.asked]
    return tuple(new[: max(0, room(seen, memory, offered))])


# --- what it asks for although somebody owns it ---------------------------------------------------

DIFFERENCE = 2
"""How many more claims an owner must have than the asker. With one, a move would only change
places. Spec: Difference."""


def others_claims(seen: ShareView) -> Iterable[ClaimKey]:
    """Spec: OthersClaims."""
    return (key for key, owner in seen.owners.items() if owner != seen.me.client_id)


def topics_for_poorer(seen: ShareView) -> frozenset[str]:
    """Topics of which somebody poorer wants claims, and goes first. Spec: IsForPoorer."""
    me = seen.me
    poorer = {
        client
        for client, key in seen.requests.items()
        if client != me.client_id and key in me.keys and seen.counts[client] < seen.mine
    }
    return frozenset(topic for topic, able in seen.able.items() if poorer & able)


def gettable(seen: ShareView) -> frozenset[ClaimKey]:
    """Claims whose owner would give them. Spec: Gettable, IsRicher."""
    enough = seen.mine + DIFFERENCE
    richer = {client for client, count in seen.counts.items() if count >= enough}
    if not richer:
        return frozenset()
    taken = topics_for_poorer(seen)
    return frozenset(
        key for key, owner in seen.owners.items() if owner in richer and key.topic not in taken
    )


def is_hungry(seen: ShareView) -> bool:
    """Somebody would give it something. Spec: IsHungry."""
    return _below_limit(seen) and bool(gettable(seen))


def is_waiting(seen: ShareView) -> bool:
    """Its request stands, and there is reason to wait for the answer. Spec: IsWaiting."""
    return seen.requests.get(seen.me.client_id) in gettable(seen)


def wants_to_name(seen: ShareView, memory: ShareMemory, offered: Iterable[ClaimKey]) -> bool:
    """It asks for a claim that somebody owns. Spec: WantsToName.

    Also who is not hungry says that it is there, if nobody can know.
    """
    if memory.asked or not _below_limit(seen) or claims_to_ask(seen, memory, offered):
        return False
    if not is_announced(seen):
        return any(True for _ in others_claims(seen))
    return is_hungry(seen) and not is_waiting(seen)


def untried(
    seen: ShareView, keys: frozenset[ClaimKey], passed_over: frozenset[ClaimKey]
) -> frozenset[ClaimKey]:
    """An owner that did not answer may not give anything; one claim of it may be static.

    Spec: Untried.
    """
    silent = {seen.owners.get(key) for key in passed_over}
    of_others = frozenset(key for key in keys if seen.owners[key] not in silent)
    return of_others or keys - passed_over or keys


def claim_to_name(seen: ShareView, passed_over: frozenset[ClaimKey]) -> ClaimKey:
    """The richest's; of its claims one that nobody else asks for. Spec: ClaimToName, IsBetter."""
    keys = gettable(seen) if is_hungry(seen) else frozenset(others_claims(seen))
    owners, counts, named = seen.owners, seen.counts, seen.named
    return min(
        untried(seen, keys, passed_over),
        key=lambda key: (-counts[owners[key]], owners[key], key in named, key),
    )


def passed_over_after(seen: ShareView, memory: ShareMemory) -> frozenset[ClaimKey]:
    """What it passes over once its request was in vain; all anew after all of them.

    Spec: PassedOver.
    """
    asked_for = seen.requests[seen.me.client_id]
    tried = memory.passed_over | {asked_for}
    return frozenset({asked_for}) if gettable(seen) <= tried else tried


# --- what it gives back ---------------------------------------------------------------------------


def on_the_way(seen: ShareView, memory: ShareMemory, asker: str) -> int:
    """What is on its way to be free, or free, is counted as the asker's. Spec: OnTheWay."""
    return _giving(seen, memory) + sum(asker in seen.able[key.topic] for key in seen.free)


def _giving(seen: ShareView, memory: ShareMemory) -> int:
    return sum(seen.owners.get(key) == seen.me.client_id for key in memory.giving)


def is_worth_giving(seen: ShareView, memory: ShareMemory, asker: str) -> bool:
    """It owns at least two more than the asker, also when all this has landed.

    Spec: IsWorthGiving.
    """
    keeps = seen.mine - _giving(seen, memory)
    return keeps >= seen.counts[asker] + on_the_way(seen, memory, asker) + DIFFERENCE


def claims_to_give(seen: ShareView, memory: ShareMemory) -> frozenset[ClaimKey]:
    """Claims of its own that somebody asks for who should have them. Spec: ClaimsToGive."""
    me = seen.me
    return frozenset(
        key
        for asker, key in seen.requests.items()
        if asker != me.client_id
        and seen.owners.get(key) == me.client_id
        and key not in me.static
        and key not in memory.giving
        and is_worth_giving(seen, memory, asker)
    )
