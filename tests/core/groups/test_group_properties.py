"""Random logs of groups: the properties hold, folds agree, and each property can fail."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_marshal.core.groups import reducer
from kafka_marshal.core.groups.events import (
    At,
    ControllershipSnapshot,
    ControllerStarted,
    Event,
    EventRecord,
    GroupDeleted,
    MemberLeft,
    MemberRegistered,
    PartitionsCounted,
    PartitionsRewound,
    Rebalanced,
    Reconciled,
)
from kafka_marshal.core.groups.invariants import (
    STATE_CHECKS,
    STEP_CHECKS,
    GroupProperty,
    GroupStep,
    broken,
    impossible,
    numbers_below,
)
from kafka_marshal.core.groups.state import (
    Controllership,
    Group,
    GroupMember,
    GroupPartition,
    Rebalance,
    TargetOf,
    Topic,
    TopicPartition,
    Wish,
)
from kafka_marshal.core.groups.verdicts import (
    GroupAccepted,
    GroupRefused,
    OfAPosition,
    OfARelease,
    Verdict,
)
from kafka_marshal.core.messages import NOT_DECIMAL
from tests.core.groups.walking import Walk, folded

P = GroupProperty
SEEDS = range(6)


@pytest.mark.parametrize("honest", [True, False], ids=["honest", "hostile"])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_walk_breaks_a_property(seed: int, honest: bool) -> None:
    for number, breaks in enumerate(Walk(seed, honest=honest).steps(300)):
        assert breaks == set(), f"Walk({seed}, honest={honest}), record {number}"


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.booleans())
def test_no_seed_breaks_a_property(seed: int, honest: bool) -> None:
    for breaks in Walk(seed, honest=honest).steps(80):
        assert breaks == set()


def test_walks_meet_every_verdict() -> None:
    met: set[object] = set()
    for seed in SEEDS:
        walk = Walk(seed, honest=False)
        for _ in walk.steps(400):
            pass
        met |= walk.met
    # A snapshot of a group that is not known is a late reader's.
    assert {*GroupAccepted, *GroupRefused, *OfAPosition, *OfARelease} - met <= {
        GroupAccepted.SNAPSHOT_TAKEN,
        GroupAccepted.SNAPSHOT_DIFFERS,
    }


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_a_log_folds_to_the_same_whenever_it_is_folded(seed: int) -> None:
    walk = Walk(seed, honest=False)
    for _ in walk.steps(100):
        pass
    assert folded(walk.records) == walk.now == folded(copy.deepcopy(walk.records))


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.booleans())
def test_who_begins_at_a_snapshot_knows_what_everybody_knows(seed: int, honest: bool) -> None:
    walk = Walk(seed, honest=honest)
    for _ in walk.steps(120):
        pass
    for begin in walk.snapshots[:3]:
        first, *rest = walk.records[begin:]
        assert isinstance(first.event, ControllershipSnapshot)
        late = reducer.begun_at(first, first.event)
        for record in rest:
            late = reducer.step(late, record).controllership
        groups = len(folded(walk.records[:begin]).groups)
        if len(rest) >= groups:
            assert late == walk.now, f"Walk({seed}, honest={honest}), from record {begin}"


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.booleans())
def test_every_group_that_a_fold_has_is_possible(seed: int, honest: bool) -> None:
    walk = Walk(seed, honest=honest)
    for _ in walk.steps(60):
        for group in walk.now.groups.values():
            assert impossible(group) is None
            assert numbers_below(group, walk.now.number)


# --- each property has been seen to fail ----------------------------------------------------------

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
WISH = Wish(frozenset({"t"}), {})
HELD, FREE = GroupPartition("m1", 4, "m1", 0, 5), GroupPartition(None, 2, None, 0, 0)
RIGHT = Group(
    session_timeout_ms=10_000,
    rebalance=Rebalance.INCREMENTAL,
    strategy="range",
    ephemeral=False,
    topics={"t": Topic(1, "T")},
    members={"m1": GroupMember("c", WISH.topics, WISH.static, 3)},
    generation=4,
    rebalanced_at=4,
    target_of=TargetOf({"m1": WISH}, {"t": Topic(1, "T")}),
    partitions={T0: HELD},
)
MOVES = attrs.evolve(HELD, target="m2", revoking=4)
OF_NO_TOPIC = attrs.evolve(HELD, target=None)
"""It need not be let go, although its topic is gone."""
TWO = {
    "members": {**RIGHT.members, "m2": RIGHT.members["m1"]},
    "target_of": TargetOf({"m1": WISH, "m2": WISH}, RIGHT.topics),
}


def test_the_right_group_is_possible() -> None:
    assert impossible(RIGHT) is None
    assert numbers_below(RIGHT, 4)
    assert not numbers_below(RIGHT, 3)
    asks_late = {"m1": attrs.evolve(RIGHT.members["m1"], static={T0: 5})}
    assert not numbers_below(attrs.evolve(RIGHT, members=asks_late), 4)
    never_asked = {"m1": attrs.evolve(RIGHT.members["m1"], static={T0: 0})}
    assert not numbers_below(attrs.evolve(RIGHT, members=never_asked), 4)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (P.PARTITIONS_ARE_THE_TOPICS, {"partitions": {}}),
        (P.PARTITIONS_ARE_THE_TOPICS, {"partitions": {T0: HELD, T1: HELD}}),
        (P.PARTITIONS_ARE_THE_TOPICS, {"topics": {"t": Topic(1, "T"), "gone": Topic(0, "")}}),
        (P.PARTITIONS_ARE_THE_TOPICS, {"topics": {}, "partitions": {T0: OF_NO_TOPIC}}),
        (P.OWNER_IS_MEMBER, {"partitions": {T0: GroupPartition("m9", 4, "m9", 0, 5)}}),
        (P.GENERATION_IS_THE_LATEST, {"generation": 3}),
        (P.OWNED_WAS_GRANTED, {"partitions": {T0: GroupPartition("m1", 0, "m1", 0, 5)}}),
        (P.OWNED_WAS_GRANTED, {"partitions": {T0: GroupPartition("m1", 4, "m1", 0, -2)}}),
        (P.KEPT_BY_ITS_TARGET, {"partitions": {T0: attrs.evolve(HELD, target=None)}}),
        (P.KEPT_BY_ITS_TARGET, {"partitions": {T0: attrs.evolve(HELD, revoking=4)}}),
        (
            P.KEPT_BY_ITS_TARGET,
            {"rebalance": Rebalance.EAGER, "partitions": {T0: attrs.evolve(HELD, target=None)}},
        ),
        (P.REVOKING_IS_OWNED, {"partitions": {T0: attrs.evolve(FREE, revoking=4)}}),
        (P.IS_SETTLED, {"partitions": {T0: attrs.evolve(FREE, target="m1")}}),
        (P.NOTHING_UNASSIGNED, {"partitions": {T0: attrs.evolve(FREE, target="m9")}}),
        (P.ALL_OR_NONE, {"rebalance": Rebalance.EAGER, "partitions": {T0: MOVES, T1: HELD}}),
        (P.ALL_OR_NONE, {"rebalance": Rebalance.EAGER, "rebalanced_at": 5, "generation": 5}),
    ],
)
def test_a_group_that_no_fold_has_is_impossible(
    name: GroupProperty, changes: Mapping[str, Any]
) -> None:
    if T1 in changes.get("partitions", {}) and name is P.ALL_OR_NONE:
        two = {"t": Topic(2, "T")}
        changes = {**changes, **TWO, "topics": two}
    assert impossible(attrs.evolve(RIGHT, **changes)) is name


NOW = Controllership(7, 4, 1, "c1", 9090, {"g": RIGHT, "h": RIGHT})


def step_of(
    event: Event, verdict: Verdict = GroupAccepted.RECONCILED, now: Group = RIGHT, **changes: Any
) -> GroupStep:
    """A step that counts `event`, and leaves the group and the rest like this."""
    record = EventRecord(0, 20, 0, event, "g", changes.pop("in_epoch", 7), changes.pop("named", 5))
    before = attrs.evolve(NOW, groups={**NOW.groups, "g": changes.pop("was", RIGHT)})
    after = attrs.evolve(before, number=5, groups={**before.groups, "g": now})
    outcome = reducer.GroupOutcome(attrs.evolve(after, **changes), verdict)
    return GroupStep(before, record, outcome)


def taken(event: Event, *args: Any, **changes: Any) -> set[GroupProperty]:
    """What such a step breaks, apart from what it leaves."""
    step = step_of(event, *args, **changes)
    return {name for name, holds in STEP_CHECKS.items() if not holds(step)}


def having(partition: GroupPartition, generation: int = 5, **changes: Any) -> Group:
    return attrs.evolve(RIGHT, partitions={T0: partition}, generation=generation, **changes)


FREED = having(FREE)


def grown(added: GroupPartition) -> Group:
    return attrs.evolve(RIGHT, topics={"t": Topic(2, "T")}, partitions={T0: HELD, T1: added})


def joined() -> Group:
    """A rebalance is due."""
    return attrs.evolve(RIGHT, target_of=TargetOf())


GROWS = PartitionsCounted("t", 2, "T")
AT_9 = attrs.evolve(HELD, position=9)
GRANTED_OLD = attrs.evolve(HELD, owner="m2", target="m2")
"""As it is granted to m2, but under the old tenure."""
COMMIT = Reconciled("m1", 4, None, {T0: At(4, 9)})
SAYS_NOTHING = attrs.evolve(COMMIT, positions={})
LET_GO, REWIND = Reconciled("m1", 4, frozenset(), {}), PartitionsRewound({T0: 2}, "")
START = ControllerStarted(7, 2, "c2", 9090)
BEGINS_ANEW = MemberRegistered("m1", "c", WISH.topics, frozenset(), True)


def test_right_steps_break_nothing() -> None:
    assert taken(COMMIT, now=having(AT_9, 4)) == set()
    freed = having(GroupPartition("m2", 5, "m2", 0, 5))
    assert taken(LET_GO, was=having(MOVES, 4), now=freed) == set()
    rewound = having(attrs.evolve(HELD, position=2, tenure=5))
    assert taken(REWIND, GroupAccepted.REWOUND, now=rewound) == set()
    assert taken(START, GroupAccepted.STARTED, epoch=20, in_epoch=NOT_DECIMAL) == set()
    assert taken(COMMIT, GroupRefused.DEPOSED, number=4) == set()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (P.REFUSED_CHANGES_NOTHING, lambda: taken(COMMIT, GroupRefused.DEPOSED)),
        (P.NUMBERS_UNBROKEN, lambda: taken(COMMIT, number=6)),
        (P.NUMBERS_UNBROKEN, lambda: taken(COMMIT, named=4)),
        (P.CONTROLLER_FENCED, lambda: taken(COMMIT, in_epoch=6)),
        (P.CONTROLLER_FENCED, lambda: taken(COMMIT, epoch=20)),
        (P.CONTROLLER_FENCED, lambda: taken(START, GroupAccepted.STARTED)),
        (
            P.FAILOVER_KEEPS_GENERATION,
            lambda: taken(START, GroupAccepted.STARTED, having(HELD), epoch=20),
        ),
        (P.GROUPS_APART, lambda: taken(COMMIT, groups={"g": RIGHT})),
        (P.GENERATION_GROWS, lambda: taken(COMMIT, now=having(HELD, 3))),
        (P.GENERATION_GROWS, lambda: taken(LET_GO, now=having(MOVES, 4))),
        (P.REVOKE_BEFORE_ASSIGN, lambda: taken(LET_GO, now=having(FREE))),
        (
            P.REVOKE_BEFORE_ASSIGN,
            lambda: taken(attrs.evolve(LET_GO, as_of=3), was=having(MOVES, 4), now=having(FREE)),
        ),
        (
            P.REVOKE_BEFORE_ASSIGN,
            lambda: taken(MemberLeft("m2", ""), GroupAccepted.LEFT, now=having(FREE)),
        ),
        (
            P.REVOKE_BEFORE_ASSIGN,
            lambda: taken(COMMIT, was=grown(HELD), now=grown(FREE)),
        ),
        (
            P.REVOKE_BEFORE_ASSIGN,
            lambda: taken(REWIND, GroupAccepted.REWOUND, now=having(FREE)),
        ),
        *(
            (P.REVOKE_BEFORE_ASSIGN, lambda was=was, event=event: taken(event, was=was, now=FREED))
            for was, event in (
                (having(MOVES, 4), attrs.evolve(BEGINS_ANEW, member="m2")),
                (having(MOVES, 4), attrs.evolve(BEGINS_ANEW, fresh=False)),
                (RIGHT, BEGINS_ANEW),
                (having(MOVES, 4), attrs.evolve(LET_GO, held=frozenset({T0}))),
                (having(MOVES, 4), attrs.evolve(LET_GO, held=None)),
            )
        ),
        (P.TENURE_IS_OF_ONE_OWNER, lambda: taken(COMMIT, now=having(attrs.evolve(HELD, tenure=3)))),
        (
            P.TENURE_IS_OF_ONE_OWNER,
            lambda: taken(LET_GO, was=having(MOVES, 4), now=having(GRANTED_OLD)),
        ),
        (
            P.COMMIT_FENCED,
            lambda: taken(attrs.evolve(COMMIT, member="m2"), now=having(AT_9)),
        ),
        (P.COMMIT_FENCED, lambda: taken(COMMIT, now=having(attrs.evolve(HELD, position=8)))),
        (P.COMMIT_FENCED, lambda: taken(MemberLeft("m2", ""), now=having(AT_9))),
        *(
            (P.COMMIT_FENCED, lambda moved=moved: taken(SAYS_NOTHING, was=grown(HELD), now=moved))
            for moved in (grown(AT_9), attrs.evolve(grown(HELD), partitions={T0: AT_9, T1: HELD}))
        ),
        (
            P.COMMIT_FENCED,
            lambda: taken(
                attrs.evolve(COMMIT, positions={T0: At(3, 9)}),
                now=having(AT_9),
            ),
        ),
        (P.OFFSETS_MONOTONE, lambda: taken(COMMIT, now=having(attrs.evolve(HELD, position=1)))),
        (P.OFFSETS_MONOTONE, lambda: taken(COMMIT, now=attrs.evolve(RIGHT, partitions={}))),
        (P.NOT_EMPTY_IS_KEPT, lambda: taken(GroupDeleted(), GroupAccepted.DELETED, groups={})),
        (P.NEW_TOPIC_BEGINS_ANEW, lambda: taken(GROWS, now=grown(HELD))),
        (P.NEW_TOPIC_BEGINS_ANEW, lambda: taken(GROWS, now=grown(attrs.evolve(FREE, position=3)))),
        (
            P.NEW_TOPIC_BEGINS_ANEW,
            lambda: taken(GROWS, now=attrs.evolve(RIGHT, topics={"t": Topic(1, "U")})),
        ),
        (P.REBALANCE_IS_RIGHT, lambda: taken(Rebalanced({T0: "m1"}))),
        (
            P.REBALANCE_IS_RIGHT,
            lambda: taken(Rebalanced({T0: "m1"}), was=joined(), now=joined()),
        ),
        (
            P.REBALANCE_IS_RIGHT,
            lambda: taken(Rebalanced({T1: "m9"}), was=joined(), now=RIGHT),
        ),
        (P.REWIND_STICKS, lambda: taken(REWIND, GroupAccepted.REWOUND)),
        (
            P.REWIND_STICKS,
            lambda: taken(REWIND, GroupAccepted.REWOUND, having(attrs.evolve(HELD, position=2))),
        ),
    ],
)
def test_a_wrong_step_breaks_its_property(
    name: GroupProperty, found: Callable[[], set[GroupProperty]]
) -> None:
    assert name in found()


def test_a_step_is_judged_by_what_it_does_and_by_what_it_leaves() -> None:
    stolen = having(attrs.evolve(HELD, owner="m9"))
    assert broken(step_of(COMMIT, now=stolen)) == {
        P.REVOKE_BEFORE_ASSIGN,
        P.TENURE_IS_OF_ONE_OWNER,
        P.OWNER_IS_MEMBER,
        P.KEPT_BY_ITS_TARGET,
    }


def test_every_property_has_a_check() -> None:
    assert {*STATE_CHECKS, *STEP_CHECKS} == {*GroupProperty}
