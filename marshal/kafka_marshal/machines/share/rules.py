"""The rules of fair share: what a member asks for and gives back, given what it has read.

Spec: module Share. Nothing here decides who owns a claim: the log does, and it refuses requests
that should not have been sent. There is no new message. A member that wants more asks for a claim
of another owner: the request is refused and changes nothing, but every member has read who wants
more. The owner of that claim gives it back if it owns at least two more than the asker. So every
move makes the difference smaller, and one request moves one claim. A free claim is offered to the
member with the fewest; members that have read the same records agree on all offers.

This module knows no time: `timing` decides what is stale or overdue. A member is a client, no
matter which of its instances runs; of two equal ones the lower name comes first.

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
    """The member that shares, in one group. Spec: `me` in Share."""

    instance_id: str
    client_id: str
    keys: frozenset[ClaimKey]
    """The claims that it may own: of the topics that it subscribes to, and static ones."""
    static: frozenset[ClaimKey] = frozenset()
    """The static ones among them: asked for whenever they are free, and never given away."""
    limit: int | None = None
    """The most claims that it takes; None for no limit."""


@frozen
class ShareMemory:
    """What a member remembers. Spec: NewMemory."""

    asked: frozenset[ClaimKey] = frozenset()
    """Requests that it has not read back. Spec: AskedFor."""
    giving: frozenset[ClaimKey] = frozenset()
    """Claims that it has begun to give back, and has not read as free."""
    passed_over: frozenset[ClaimKey] = frozenset()
    """Claims that it requested in vain."""


# --- who there is ---------------------------------------------------------------------------------


@attrs.define(eq=False)
class ShareView:
    """What a member has read: each claim's owner, and refused requests. Spec: `seen` in Share.

    Stale owners and old requests must be left out. It contains clients, not instances. Counts are
    computed once, so create one of these for each decision.
    """

    me: Sharer
    owners: Mapping[ClaimKey, str]
    """Claims that are missing are free."""
    requests: Mapping[str, ClaimKey]
    counts: Mapping[str, int] = field(init=False)
    """The number of claims of each known member. Spec: KnownMembers, CountOf."""
    able: Mapping[str, frozenset[str]] = field(init=False)
    """By topic, the members known to be able to own such claims. Spec: CanOwn."""

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
        """The number of claims that it owns itself."""
        return self.counts[self.me.client_id]

    @cached_property
    def free(self) -> tuple[ClaimKey, ...]:
        """Claims without an owner, in order. Spec: FreeClaims."""
        return tuple(sorted(self.me.keys - self.owners.keys()))

    @cached_property
    def named(self) -> frozenset[ClaimKey]:
        """Claims that others ask for. Spec: IsNamed."""
        me = self.me.client_id
        return frozenset(key for client, key in self.requests.items() if client != me)


def is_announced(seen: ShareView) -> bool:
    """Whether the others can know about it. Spec: IsAnnounced."""
    me = seen.me
    return seen.mine > 0 or seen.requests.get(me.client_id) in me.keys


def _below_limit(seen: ShareView) -> bool:
    return seen.me.limit is None or seen.mine < seen.me.limit


# --- what is free is offered to the poorest -------------------------------------------------------


def offers(seen: ShareView, overdue: Mapping[ClaimKey, int]) -> dict[ClaimKey, str]:
    """The member that each free claim is offered to. Spec: Offers, Offered, AtRank.

    Args:
        overdue: how often a claim was passed on to the next member; 0 if it is missing.
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
    """The member with `rank` members before it that own fewer claims. Spec: AtRank.

    Ranks wrap around: the member with the fewest claims may have missed its turn and gets another
    one. Counts only grow, so an entry of the heap is at most too low, and is corrected when it
    comes up.
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
    """How many more claims it may ask for. Spec: Room.

    Claims that it asked for without expecting to get them count, because it may get them.
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
    """The free claims to ask for; static claims first. Spec: ClaimsToAsk.

    A member that is not announced asks for a single one: others may begin at the same moment, and
    it knows none of them.
    """
    offered = tuple(offered)
    static = sorted(seen.me.static.intersection(seen.free))
    new = [key for key in (*static, *offered) if key not in memory.asked]
    return tuple(new[: max(0, room(seen, memory, offered))])


# --- what it asks for although somebody owns it ---------------------------------------------------

DIFFERENCE = 2
"""How many more claims an owner must have than the asker. With one, a move would only swap the two.
Spec: Difference."""


def others_claims(seen: ShareView) -> Iterable[ClaimKey]:
    """Spec: OthersClaims."""
    return (key for key, owner in seen.owners.items() if owner != seen.me.client_id)


def topics_for_poorer(seen: ShareView) -> frozenset[str]:
    """Topics of which a member with fewer claims wants some, and goes first. Spec: IsForPoorer."""
    me = seen.me
    poorer = {
        client
        for client, key in seen.requests.items()
        if client != me.client_id and key in me.keys and seen.counts[client] < seen.mine
    }
    return frozenset(topic for topic, able in seen.able.items() if poorer & able)


def gettable(seen: ShareView) -> frozenset[ClaimKey]:
    """Claims whose owner would give them away. Spec: Gettable, IsRicher."""
    enough = seen.mine + DIFFERENCE
    richer = {client for client, count in seen.counts.items() if count >= enough}
    if not richer:
        return frozenset()
    taken = topics_for_poorer(seen)
    return frozenset(
        key for key, owner in seen.owners.items() if owner in richer and key.topic not in taken
    )


def is_hungry(seen: ShareView) -> bool:
    """Whether another member would give it a claim. Spec: IsHungry."""
    return _below_limit(seen) and bool(gettable(seen))


def is_waiting(seen: ShareView) -> bool:
    """Whether its request stands, and waiting for the answer makes sense. Spec: IsWaiting."""
    return seen.requests.get(seen.me.client_id) in gettable(seen)


def wants_to_name(seen: ShareView, memory: ShareMemory, offered: Iterable[ClaimKey]) -> bool:
    """Whether it asks for a claim that has an owner. Spec: WantsToName.

    A member that is not hungry also does, to announce itself, if the others cannot know about it.
    """
    if memory.asked or not _below_limit(seen) or claims_to_ask(seen, memory, offered):
        return False
    if not is_announced(seen):
        return any(True for _ in others_claims(seen))
    return is_hungry(seen) and not is_waiting(seen)


def untried(
    seen: ShareView, keys: frozenset[ClaimKey], passed_over: frozenset[ClaimKey]
) -> frozenset[ClaimKey]:
    """An owner that did not respond may be unable to give: a claim of it may be static.

    Spec: Untried.
    """
    silent = {seen.owners.get(key) for key in passed_over}
    of_others = frozenset(key for key in keys if seen.owners[key] not in silent)
    return of_others or keys - passed_over or keys


def claim_to_name(seen: ShareView, passed_over: frozenset[ClaimKey]) -> ClaimKey:
    """A claim of the richest owner that no other member asks for. Spec: ClaimToName, IsBetter."""
    keys = gettable(seen) if is_hungry(seen) else frozenset(others_claims(seen))
    owners, counts, named = seen.owners, seen.counts, seen.named
    return min(
        untried(seen, keys, passed_over),
        key=lambda key: (-counts[owners[key]], owners[key], key in named, key),
    )


def passed_over_after(seen: ShareView, memory: ShareMemory) -> frozenset[ClaimKey]:
    """The claims to skip after a request in vain; empty again once all were tried.

    Spec: PassedOver.
    """
    asked_for = seen.requests[seen.me.client_id]
    tried = memory.passed_over | {asked_for}
    return frozenset({asked_for}) if gettable(seen) <= tried else tried


# --- what it gives back ---------------------------------------------------------------------------


def on_the_way(seen: ShareView, memory: ShareMemory, asker: str) -> int:
    """Claims that are free, or about to be, count as the asker's. Spec: OnTheWay."""
    return _giving(seen, memory) + sum(asker in seen.able[key.topic] for key in seen.free)


def _giving(seen: ShareView, memory: ShareMemory) -> int:
    return sum(seen.owners.get(key) == seen.me.client_id for key in memory.giving)


def is_worth_giving(seen: ShareView, memory: ShareMemory, asker: str) -> bool:
    """Whether it owns at least two more than the asker, even when all requests have landed.

    Spec: IsWorthGiving.
    """
    keeps = seen.mine - _giving(seen, memory)
    return keeps >= seen.counts[asker] + on_the_way(seen, memory, asker) + DIFFERENCE


def claims_to_give(seen: ShareView, memory: ShareMemory) -> frozenset[ClaimKey]:
    """Its own claims that a member asks for who should have them. Spec: ClaimsToGive."""
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
