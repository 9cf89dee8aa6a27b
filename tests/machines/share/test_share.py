"""Marshal promises that members of a group converge to a fair share, with few moves.

Stories first, then random groups: who is there, who comes, goes and comes back, who is slow.
`FairShare.tla` is where the rules are proved; here time passes, which it does not know.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_marshal.core.messages import (
    ClaimingPartition,
    Heartbeat,
    Offset,
    Partition,
    ReleaseGroup,
)
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.share.rules import Sharer
from kafka_marshal.machines.share.timing import (
    Decision,
    FairShare,
    GroupView,
    Owner,
    Request,
    ShareTiming,
    requests_after,
)
from tests.machines.share.sharing import (
    ENOUGH_S,
    PATIENCE,
    READS_WITHIN,
    Group,
    claims,
    comes_to_rest,
    moves_needed,
    spread,
)


def share_of(
    client: str,
    keys: frozenset[ClaimKey],
    static: frozenset[ClaimKey] = frozenset(),
    limit: int | None = None,
) -> FairShare:
    return FairShare(Sharer(f"{client}.1", client, keys, static, limit), PATIENCE)


def said(
    owners: dict[ClaimKey, str],
    requests: dict[str, ClaimKey] | None = None,
    *,
    asked: frozenset[ClaimKey] = frozenset(),
    giving: frozenset[ClaimKey] = frozenset(),
) -> GroupView:
    """By clients, all of them just heard of at 0; each is its first instance."""
    return GroupView(
        {key: Owner(f"{client}.1", client, 0) for key, client in owners.items()},
        {client: Request(key, 0) for client, key in (requests or {}).items()},
        asked,
        giving,
    )


# --- stories --------------------------------------------------------------------------------------

ONE, TWO, THREE, FOUR = sorted(claims(4))
ALL = claims(4)


def test_who_is_alone_asks_for_one_claim_and_for_the_rest_when_others_had_time() -> None:
    share = share_of("a", ALL)
    assert share.look(said({}), 0) == Decision(ask=(ONE,), look_again_ms=2_000)
    decision = share.look(said({ONE: "a"}), 100)
    assert decision.ask == ()
    assert decision.look_again_ms == 1_100
    assert share.look(said({ONE: "a"}), 1_100).ask == (TWO, THREE, FOUR)


def test_who_starts_together_asks_for_different_claims() -> None:
    first, second = share_of("a", ALL), share_of("b", ALL)
    now = said({ONE: "a"}, {"b": ONE})
    for share in (first, second):
        share.look(now, 0)
    assert first.look(now, 1_000).ask == (THREE,)
    assert second.look(now, 1_000).ask == (TWO, FOUR)


def test_who_has_less_names_a_claim_of_the_richest_and_waits_for_the_answer() -> None:
    share = share_of("c", ALL)
    owners = {ONE: "a", TWO: "b", THREE: "b", FOUR: "b"}
    assert share.look(said(owners), 0).request == TWO
    assert share.look(said(owners, asked=frozenset({TWO})), 0).request is None
    waiting = share.look(said(owners, {"c": TWO}), 10)
    assert (waiting.request, waiting.look_again_ms) == (None, 1_010)


def test_an_owner_with_two_more_gives_the_named_claim_and_one_with_one_more_keeps_it() -> None:
    rich, even = share_of("a", ALL), share_of("a", ALL)
    assert rich.look(said({ONE: "a", TWO: "a"}, {"b": TWO}), 0).give is None  # two are free
    owners = {ONE: "a", TWO: "a", THREE: "c", FOUR: "c"}
    assert rich.look(said(owners, {"b": TWO}), 0).give == TWO
    assert even.look(said({**owners, FOUR: "b"}, {"b": TWO}), 0).give is None


def test_an_owner_gives_no_more_than_it_must_while_a_release_is_under_way() -> None:
    share = share_of("a", ALL)
    owners = dict.fromkeys(ALL, "a")
    asks = {"b": ONE, "c": TWO}
    assert share.look(said(owners, asks), 0).give == ONE
    assert share.look(said(owners, asks, giving=frozenset({ONE})), 0).give == TWO
    third = {**asks, "d": THREE}
    assert share.look(said(owners, third, giving=frozenset({ONE, TWO})), 0).give is None


def test_a_static_claim_is_asked_for_whoever_is_poorer_and_never_given_away() -> None:
    share = share_of("b", ALL, static=frozenset({FOUR}))
    owners = {ONE: "b", TWO: "b", THREE: "b"}
    share.look(said(owners, {"a": ONE}), 0)
    assert share.look(said(owners, {"a": ONE}), 1_000).ask == (FOUR,)
    owns_all = {**owners, FOUR: "b"}
    assert share.look(said(owns_all, {"a": FOUR}), 1_000).give is None
    assert share.look(said(owns_all, {"a": ONE}), 1_000).give == ONE


def test_who_did_not_look_while_a_free_claim_was_offered_to_it_gets_another_turn() -> None:
    """The others may take no more: what it had missed was then offered to them for ever."""
    share, now = share_of("b", ALL), said({ONE: "a"}, {"b": ONE})
    share.look(now, 0)
    assert share.look(now, 2_500).ask == ()  # it is a's turn
    assert share.look(now, 4_500).ask != ()


def test_nobody_asks_beyond_its_limit() -> None:
    share = share_of("a", ALL, limit=2)
    share.look(said({ONE: "a"}), 0)
    assert share.look(said({ONE: "a"}), 1_000).ask == (TWO,)
    assert share.look(said({ONE: "a", TWO: "a"}), 1_000).ask == ()
    rich = {ONE: "a", TWO: "b", THREE: "b", FOUR: "b"}
    assert share_of("a", ALL, limit=1).look(said(rich), 0).request is None


def test_a_free_claim_that_is_not_taken_is_offered_to_the_next_poorest() -> None:
    share = share_of("b", ALL)
    now = said({ONE: "b", TWO: "b", THREE: "a"})
    assert share.look(now, 0).ask == ()
    waits = share.look(now, 1_999)
    assert (waits.ask, waits.look_again_ms) == ((), 2_000)
    assert share.look(now, 2_000).ask == (FOUR,)


def test_nobody_loses_patience_while_claims_are_being_taken() -> None:
    share = share_of("b", ALL)
    share.look(said({ONE: "b", TWO: "b"}), 0)
    share.look(said({ONE: "b", TWO: "b", THREE: "a"}), 1_900)
    assert share.look(said({ONE: "b", TWO: "b", THREE: "a"}), 3_800).ask == ()
    assert share.look(said({ONE: "b", TWO: "b", THREE: "a"}), 3_900).ask == (FOUR,)


def test_a_restarted_client_takes_over_what_it_owned_at_once_and_gives_none_of_it_before() -> None:
    share = FairShare(Sharer("a.2", "a", ALL), PATIENCE)
    now = said(dict.fromkeys(ALL, "a"), {"b": ONE})
    decision = share.look(now, 0)
    assert decision.ask == (ONE, TWO, THREE, FOUR)
    assert decision.give is None
    owns_one = said({ONE: "a"})
    again = FairShare(Sharer("a.2", "a", ALL), PATIENCE)
    assert again.look(owns_one, 0).ask == (ONE,)
    assert again.look(owns_one, 1_000).ask == (ONE, TWO, THREE, FOUR)
    limited = FairShare(Sharer("a.2", "a", ALL, limit=2), PATIENCE)
    assert limited.look(now, 0).ask == (ONE, TWO)
    assert limited.look(attrs.evolve(now, asked=frozenset({ONE})), 0).ask == (TWO,)
    full = attrs.evolve(
        now, owners={**now.owners, ONE: Owner("a.2", "a", 0), TWO: Owner("a.2", "a", 0)}
    )
    assert limited.look(full, 0).ask == ()


def test_a_request_that_nobody_answers_is_repeated_and_names_another_owner() -> None:
    share = share_of("c", ALL)
    owners = {ONE: "a", TWO: "a", THREE: "b", FOUR: "b"}
    named: list[ClaimKey] = []
    for at_ms in range(0, 7 * PATIENCE.renew_ms, PATIENCE.renew_ms):
        now = said(owners)
        now = attrs.evolve(
            now,
            owners={key: attrs.evolve(o, alive_ms=at_ms) for key, o in now.owners.items()},
            requests={"c": Request(named[-1], at_ms - PATIENCE.renew_ms)} if named else {},
        )
        request = share.look(now, at_ms).request
        assert request is not None
        named.append(request)
    assert named == [ONE, THREE, TWO, FOUR, ONE, TWO, THREE]


def test_who_owns_nothing_says_now_and_then_that_it_is_there() -> None:
    share = share_of("c", frozenset({ONE, TWO}))
    now = said({ONE: "a", TWO: "b"}, {"c": ONE})
    assert share.look(now, PATIENCE.renew_ms - 1).request is None
    assert share.look(now, PATIENCE.renew_ms).request == ONE


def test_who_was_not_heard_of_for_long_is_no_member() -> None:
    share = share_of("a", ALL)
    now = said({ONE: "a", TWO: "b"}, {"c": ONE})
    late = attrs.evolve(
        now, owners={**now.owners, ONE: Owner("a.1", "a", PATIENCE.stale_after_ms + 1)}
    )
    share.look(late, PATIENCE.stale_after_ms + 1)
    assert share.look(late, PATIENCE.stale_after_ms + 1_001).ask == (TWO, THREE, FOUR)


def test_who_has_its_share_or_its_limit_repeats_no_request() -> None:
    at_ms, asks = PATIENCE.renew_ms, {"c": TWO}
    full = share_of("c", ALL, limit=1)
    assert full.look(said({ONE: "c", TWO: "a", THREE: "a", FOUR: "a"}, asks), at_ms).request is None
    even = share_of("c", ALL)
    assert even.look(said({ONE: "c", TWO: "a", THREE: "a", FOUR: "b"}, asks), at_ms).request is None


def test_it_looks_again_when_the_next_thing_may_be_due_and_not_before() -> None:
    """Others had time, its request is renewed, owners and requests are stale, what is free is
    passed on.
    """
    share = share_of("c", frozenset({ONE, TWO}))
    now = said({ONE: "c", TWO: "a"}, {"c": TWO})
    now = attrs.evolve(now, requests={**now.requests, "b": Request(ONE, 500)})
    due = [0]
    for _ in range(6):
        again_ms = share.look(now, due[-1]).look_again_ms
        assert again_ms is not None
        due.append(again_ms)
    assert due == [0, 1_000, 8_000, 20_001, 20_501, 22_001, 24_001]
    assert share.look(now, 24_500).look_again_ms == 26_001


def test_who_was_heard_of_two_intervals_ago_and_no_longer_counts() -> None:
    owners, asks = {ONE: "a", TWO: "a", THREE: "a"}, {"b": ONE}
    share, at_ms = share_of("a", ALL), PATIENCE.stale_after_ms
    now = said({**owners, FOUR: "c"}, asks)
    assert share.look(now, at_ms).give == ONE
    assert share.look(now, at_ms + 1).give is None


def test_a_win_answers_a_request_and_a_refusal_is_one() -> None:
    ids = (1, 0, "a.1", "a", "g", "events", Partition(0))
    asked = requests_after({}, ClaimingPartition(*ids), 5, "b.1")
    assert asked == {"a": Request(ONE, 5)}
    assert requests_after(asked, ClaimingPartition(*ids), 6, "a.1") == {}
    group = ReleaseGroup(0, 0, "x.1", "x", "g", "", Partition(0), 9)
    assert requests_after(asked, group, 7, None) is asked
    beat = Heartbeat(*ids, Offset(1))
    assert requests_after(asked, beat, 8, "a.1") is asked
    other = ClaimingPartition(1, 0, "b.1", "b", "g", "events", Partition(0))
    assert requests_after(asked, other, 9, "b.1") is asked


def test_a_request_must_be_renewed_before_it_is_forgotten() -> None:
    with pytest.raises(ValueError, match="renew_ms is 5, not less than stale_after_ms, 5"):
        FairShare(Sharer("a.1", "a", ALL), ShareTiming(stale_after_ms=5, renew_ms=5))


# --- random groups --------------------------------------------------------------------------------

GROUPS = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def settled(draw: st.DrawFn) -> Group:
    """Up to seven members that share up to forty claims and have come to rest."""
    group = Group(claims(draw(st.integers(1, 40))), Random(draw(st.integers(0, 2**32))))
    for n in range(draw(st.integers(1, 7))):
        group.join(f"c{n}")
        group.run(draw(st.sampled_from((0, 0, 0.3, 3))))
    group.run(ENOUGH_S)
    group.moves = 0
    return group


@GROUPS
@given(settled(), st.integers(1, 3))
def test_members_that_come_get_their_share_in_few_moves(group: Group, more: int) -> None:
    assert spread(group) <= 1
    for n in range(min(more, 8 - len(group.members))):
        group.join(f"d{n}")
    comes_to_rest(group, moves_needed(group) + len(group.members))


@GROUPS
@given(settled(), st.booleans(), st.data())
def test_what_a_member_leaves_behind_is_shared_and_nothing_else_moves(
    group: Group, crashes: bool, data: st.DataObject
) -> None:
    if len(group.members) == 1:
        group.join("d")
        group.run(ENOUGH_S)
        group.moves = 0
    gone = data.draw(st.sampled_from(sorted(group.members)))
    (group.crash if crashes else group.leave)(gone)
    comes_to_rest(group, len(group.members))


@GROUPS
@given(settled(), st.data())
def test_a_client_that_restarts_in_time_moves_nothing(group: Group, data: st.DataObject) -> None:
    client = data.draw(st.sampled_from(sorted(group.members)))
    before = {key: owner.client_id for key, owner in group.owners.items()}
    group.crash(client)
    group.run(5)
    group.join(client, run=2)
    comes_to_rest(group, 0)
    assert {key: owner.client_id for key, owner in group.owners.items()} == before


@GROUPS
@given(st.integers(1, 8), st.integers(1, 40), st.integers(0, 2**32))
def test_members_that_start_together_move_nothing(members: int, keys: int, seed: int) -> None:
    """They wait a second for each other, so all must have read what was asked by then."""
    group = Group(claims(keys), Random(seed), reads_within=READS_WITHIN)
    for n in range(members):
        group.join(f"c{n}")
    comes_to_rest(group, 0)


@GROUPS
@given(st.integers(2, 5), st.integers(0, 2**32), st.data())
def test_limits_are_kept_and_the_others_take_the_rest(
    members: int, seed: int, data: st.DataObject
) -> None:
    group = Group(claims(20), Random(seed))
    limits = [data.draw(st.sampled_from((1, 3, None))) for _ in range(members - 1)]
    for n, limit in enumerate([*limits, None]):
        group.join(f"c{n}", limit=limit)
    group.run(ENOUGH_S)
    counts = group.counts()
    assert sum(counts.values()) == 20
    capped = [counts[f"c{n}"] for n, limit in enumerate(limits) if limit is not None]
    free = [count for client, count in counts.items() if group.members[client].me.limit is None]
    assert all(counts[f"c{n}"] <= limit for n, limit in enumerate(limits) if limit is not None)
    assert max(free) - min(free) <= 1
    assert not capped or max(capped) <= min(free) + 1


@GROUPS
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 12))
def test_members_of_different_topics_share_what_they_have_in_common(
    seed: int, orders: int, events: int
) -> None:
    both = claims(orders, "orders") | claims(events, "events")
    group = Group(both, Random(seed))
    group.join("a")
    group.run(5)
    group.join("b", keys=claims(orders, "orders"))
    group.join("c", keys=claims(events, "events"))
    group.run(ENOUGH_S)
    counts = group.counts()
    assert sum(counts.values()) == len(both)
    for other, topic in (("b", "orders"), ("c", "events")):
        # A member that does not read a topic cannot know how much the others own of it.
        shared = [o.client_id for key, o in group.owners.items() if key.topic == topic]
        assert shared.count("a") <= counts[other] + 1
    moves = group.moves
    group.run(30)
    assert group.moves == moves


def test_a_look_at_a_thousand_claims_of_fifty_members_takes_a_few_steps_for_each() -> None:
    """Not one for each pair of a claim and a member: steps are calls, which no load changes."""
    keys = sorted(claims(1_000))
    share = share_of("c0", frozenset(keys))
    now = said({key: f"c{n % 49 + 1}" for n, key in enumerate(keys)}, {"c0": keys[0]})
    share.look(now, 0)
    assert _calls(lambda: share.look(now, 1)) < 10 * len(keys)


def _calls(work: Callable[[], object]) -> int:
    """How many calls and returns of functions it takes."""
    events: list[str] = []
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(events)
