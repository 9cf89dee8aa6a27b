"""Marshal promises that the rules of fair share ask, name and give as they say, one look at a time.

`FairShare.tla` proves what they come to; here is what each of them answers.
"""

from __future__ import annotations

from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.share.rules import (
    ShareMemory,
    Sharer,
    ShareView,
    claim_to_name,
    gettable,
    offers,
    room,
    topics_for_poorer,
)
from tests.machines.share.sharing import claims

ONE, TWO, THREE, FOUR, FIVE, SIX = sorted(claims(6))
EVENTS = frozenset({ONE, TWO, THREE, FOUR, FIVE, SIX})
ORDERS = claims(3, "orders")


def seen(
    owners: dict[ClaimKey, str],
    requests: dict[str, ClaimKey] | None = None,
    *,
    keys: frozenset[ClaimKey] = EVENTS,
    static: frozenset[ClaimKey] = frozenset(),
) -> ShareView:
    """As client a has read it."""
    return ShareView(Sharer("a1", "a", keys, static), owners, requests or {})


def test_who_asks_is_known_and_owns_nothing_yet() -> None:
    assert seen({ONE: "b"}, {"c": TWO}).counts == {"a": 0, "b": 1, "c": 0}
    assert seen({ONE: "b", TWO: "b"}, {"b": THREE}).counts == {"a": 0, "b": 2}


def test_a_claim_is_named_by_others_and_not_by_the_own_request() -> None:
    assert seen({ONE: "b", TWO: "b"}, {"a": ONE, "c": TWO}).named == {TWO}


def test_a_free_claim_is_offered_to_the_poorest_unless_it_is_static() -> None:
    now = seen({THREE: "b", FOUR: "a", FIVE: "a", SIX: "b"}, static=frozenset({ONE}))
    assert offers(now, {}) == {TWO: "a"}
    assert offers(now, {TWO: 1}) == {TWO: "b"}


def test_there_is_room_for_what_is_offered_and_an_own_claim_taken_over_needs_none() -> None:
    assert room(seen({}), ShareMemory(), ()) == 0
    assert room(seen({}), ShareMemory(), (ONE, TWO)) == 1, "nobody knows of it"
    known = seen({ONE: "a"})
    assert room(known, ShareMemory(asked=frozenset({ONE})), (TWO, THREE)) == 2
    assert room(known, ShareMemory(asked=frozenset({TWO})), (TWO, THREE)) == 1


def test_claims_of_the_richest_are_named_first_and_of_them_those_that_nobody_else_names() -> None:
    owners = {ONE: "b", TWO: "b", THREE: "c", FOUR: "c", FIVE: "c"}
    assert claim_to_name(seen(owners), frozenset()) == THREE
    assert claim_to_name(seen(owners, {"d": THREE}), frozenset()) == FOUR


def test_who_is_poorer_goes_first_in_the_topics_that_it_reads() -> None:
    first, second, third = sorted(ORDERS)
    owners = {first: "a", ONE: "b", TWO: "b", THREE: "b", second: "b", third: "c"}
    both = EVENTS | ORDERS
    alone = seen(owners, keys=both)
    assert topics_for_poorer(alone) == frozenset()
    assert gettable(alone) == {ONE, TWO, THREE, second}
    poorer = seen(owners, {"d": ONE}, keys=both)
    assert topics_for_poorer(poorer) == {"events"}
    assert gettable(poorer) == {second}
    assert claim_to_name(poorer, frozenset()) == second
    equal = seen({**owners, FOUR: "d"}, {"d": ONE}, keys=both)
    assert topics_for_poorer(equal) == frozenset()
