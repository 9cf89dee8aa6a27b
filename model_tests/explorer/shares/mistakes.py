"""Mistakes of a member that shares, those that configurations of `MCFairShare.tla` make.

The explorer finds the same property broken after as many states as TLC. `SLIPS` are others, which
break none of them in these worlds; the graph is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_marshal import ClaimKey
from kafka_marshal.machines.share import rules as fairness
from kafka_marshal.machines.share.rules import ShareMemory, ShareView
from model_tests.mutants.hand_made import HandMade


def all_free(seen: ShareView, overdue: Mapping[ClaimKey, int]) -> tuple[ClaimKey, ...]:
    """Spec: AllFree."""
    return seen.free


def need_not_announce(seen: ShareView) -> bool:
    """Spec: NeedNotAnnounce."""
    return True


def gives_anything(seen: ShareView, memory: ShareMemory) -> frozenset[ClaimKey]:
    """Spec: GivesAnything."""
    me = seen.me.client_id
    own = {key for key, owner in seen.owners.items() if owner == me} - memory.giving
    askers = seen.requests.keys() - {me}
    worth = any(fairness.is_worth_giving(seen, memory, asker) for asker in askers)
    return frozenset(own) if worth else frozenset()


def nothing_under_way(seen: ShareView, memory: ShareMemory, asker: str) -> int:
    """Spec: NothingUnderWay."""
    return 0


def nobody_is_poorer(seen: ShareView) -> frozenset[str]:
    """Spec: NobodyIsPoorer."""
    return frozenset()


def gives_nothing(seen: ShareView, memory: ShareMemory) -> frozenset[ClaimKey]:
    """Spec: GivesNothing."""
    return frozenset()


def names_nothing(seen: ShareView, memory: ShareMemory, offered: Iterable[ClaimKey]) -> bool:
    """Spec: NamesNothing."""
    return False


def all_anew(
    seen: ShareView, keys: frozenset[ClaimKey], passed_over: frozenset[ClaimKey]
) -> frozenset[ClaimKey]:
    """Spec: AllAnew."""
    return keys


def _mistake(about: str, attribute: str, instead: object) -> tuple[HandMade, ...]:
    name = getattr(instead, "__name__", attribute)
    camel = "".join(part.capitalize() for part in name.split("_"))
    return (HandMade(camel, about, fairness, attribute, instead),)


AS_SPECIFIED: Mapping[tuple[str, str], tuple[HandMade, ...]] = {
    ("Difference", "One"): _mistake("one more than the asker is enough", "DIFFERENCE", 1),
    ("OfferedToMe", "AllFree"): _mistake(
        "it asks for everything that is free", "offered_to_me", all_free
    ),
    ("IsAnnounced", "NeedNotAnnounce"): _mistake(
        "it does not make itself known first", "is_announced", need_not_announce
    ),
    ("ClaimsToGive", "GivesAnything"): _mistake(
        "whoever is rich gives something", "claims_to_give", gives_anything
    ),
    ("ClaimsToGive", "GivesNothing"): _mistake(
        "it gives nothing back", "claims_to_give", gives_nothing
    ),
    ("OnTheWay", "NothingUnderWay"): _mistake(
        "what is under way is not counted", "on_the_way", nothing_under_way
    ),
    ("IsForPoorer", "NobodyIsPoorer"): _mistake(
        "it goes before the poorer", "topics_for_poorer", nobody_is_poorer
    ),
    ("WantsToName", "NamesNothing"): _mistake(
        "it keeps its wishes to itself", "wants_to_name", names_nothing
    ),
    ("Untried", "AllAnew"): _mistake("it names the same claim again", "untried", all_anew),
}
"""By what a cfg replaces and by what."""


def first_to_name(seen: ShareView, passed_over: frozenset[ClaimKey]) -> ClaimKey:
    """Not the richest's."""
    return min(fairness.gettable(seen) or fairness.others_claims(seen))


def gives_static(seen: ShareView, memory: ShareMemory) -> frozenset[ClaimKey]:
    """It gives away what it asked for by name."""
    me = seen.me.client_id
    return frozenset(
        key
        for asker, key in seen.requests.items()
        if asker != me
        and seen.owners.get(key) == me
        and key not in memory.giving
        and fairness.is_worth_giving(seen, memory, asker)
    )


SLIPS: Mapping[str, tuple[HandMade, ...]] = {
    "MCFairShare_TwoComeToSix": _mistake(
        "it does not look at who is richest", "claim_to_name", first_to_name
    ),
    "MCFairShare_StaticAndLimit": _mistake(
        "static claims are given away", "claims_to_give", gives_static
    ),
}
"""By the model whose graph notices."""
