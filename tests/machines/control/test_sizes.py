"""Marshal promises that whatever a group may become, its records and requests fit."""

from __future__ import annotations

import json
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from kafka_marshal.core.groups.events import At, Event, GroupSnapshot, Rebalanced, Reconciled
from kafka_marshal.core.groups.state import (
    Group,
    GroupMember,
    GroupPartition,
    Rebalance,
    TargetOf,
    Topic,
    TopicPartition,
    Wish,
)
from kafka_marshal.core.values import evolved
from kafka_marshal.group_codec.events import FORMS
from kafka_marshal.machines.groups.control.sizes import bytes_missing, event_bytes, request_bytes
from kafka_marshal.rpc.codec import BY_NAME, REQUEST_BYTES_MAX, RpcRequest, encode_request

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
NUMBERS = st.integers(1, 10**11)


@st.composite
def groups(draw: st.DrawFn) -> Group:
    """A group of which each partition has an owner, and everything long numbers."""
    counts = draw(st.dictionaries(NAMES, st.integers(1, 40), min_size=1, max_size=5))
    topics = {name: Topic(count, draw(NAMES)) for name, count in counts.items()}
    tps = [TopicPartition(name, number) for name in counts for number in range(counts[name])]

    def member() -> GroupMember:
        static = draw(st.dictionaries(st.sampled_from(tps), NUMBERS, max_size=3))
        wants = draw(st.frozensets(st.sampled_from([*counts]) | NAMES, max_size=4))
        return GroupMember(draw(NAMES), wants, static, draw(NUMBERS))

    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    members = {name: member() for name in names}
    before = {name: member().wish for name in draw(st.lists(NAMES, max_size=6, unique=True))}
    named, number = [*members, *before], draw(NUMBERS)

    def owned() -> GroupPartition:
        owner, target = draw(st.sampled_from(names)), draw(st.sampled_from(named))
        return GroupPartition(owner, number, target, number, draw(st.integers(0, 10**16 - 1)))

    each = [owned() for _ in range(3)]
    partitions = {tp: each[at % 3] for at, tp in enumerate(tps)}
    target_of = TargetOf(before or {name: one.wish for name, one in members.items()}, topics)
    return Group(
        10**6, Rebalance.INCREMENTAL, "round_robin", True, topics, members, number, number,
        target_of, partitions,
    )  # fmt: skip


def size_of(event: Event) -> int:
    """How large it is in the log, also of a group that no log comes to."""
    written = {"event": type(event).__name__, "version": 1, **FORMS[type(event)].write(event)}
    return len(json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode())


def register(group: Group, name: str) -> int:
    """How large the request of a member is that owns all partitions."""
    member = group.members[name]
    places = [{"Topic": tp.topic, "Partition": tp.partition} for tp in group.partitions]
    body = {
        "ConsumerGroup": "g" * 249,
        "ConsumerId": name,
        "Generation": group.generation,
        "Topics": [*member.topics],
        "Static": [{"Topic": tp.topic, "Partition": tp.partition} for tp in member.static],
        "Held": places,
        "Positions": [{**one, "Offset": 10**15, "Tenure": group.generation} for one in places],
    }
    asked = RpcRequest(BY_NAME["RegisterConsumer"], 1, 1, member.client_id, body)  # type: ignore[arg-type]
    return len(encode_request(asked))


@given(groups())
def test_no_record_and_no_request_is_larger_than_its_bound(group: Group) -> None:
    for name in group.members:
        assert size_of(evolved(reconciled(group), member=name)) <= event_bytes(group)
        assert register(group, name) <= request_bytes(group)
    most = max(group.target_of.members, key=lambda one: len(repr(one).encode()))
    target = Rebalanced(dict.fromkeys(group.partitions, most))
    assert size_of(target) <= event_bytes(group)
    assert size_of(GroupSnapshot(group)) <= event_bytes(group)


def large(
    members: int,
    partitions: int,
    name: str = "a-topic-with-a-name",
    member: str = "worker",
    event: int = 10**6,
    position: int = 10**9,
) -> Group:
    """A group in balance; every event has this number."""
    topics = {name: Topic(partitions, "A" * 22)}
    ids = [f"{member}-{number}-0123456789ab" for number in range(members)]
    wish = Wish(frozenset(topics))
    known = {one: GroupMember("worker", wish.topics, {}, event) for one in ids}
    owned = {
        TopicPartition(name, number): GroupPartition(
            ids[number % members], event, ids[number % members], event, position
        )
        for number in range(partitions)
    }
    target_of = TargetOf(dict.fromkeys(ids, wish), topics)
    return Group(
        30_000, Rebalance.INCREMENTAL, "sticky", False, topics, known, event, event, target_of,
        owned,
    )  # fmt: skip


def reconciled(group: Group) -> Reconciled:
    """Of a member that holds all partitions."""
    ats = {tp: At(one.tenure, one.position) for tp, one in group.partitions.items()}
    return Reconciled(next(iter(group.members)), group.generation, frozenset(ats), ats)


def test_a_bound_holds_where_all_is_as_long_as_it_gets_and_is_not_far_above() -> None:
    longest = partial(large, event=10**12 - 1, position=10**16 - 1)
    for group in (
        longest(1, 4_000),
        longest(1, 4_000, "x" * 249, "m"),  # a member says more than a snapshot
        longest(2, 900, "x", "m" * 249),
        evolved(longest(2, 900, "x" * 249, "m" * 249), topics={}),  # they are gone
    ):
        is_ = max(size_of(GroupSnapshot(group)), size_of(reconciled(group)))
        assert is_ <= event_bytes(group) < 1.02 * is_ + 2_000
    small = large(1, 1)
    wants = GroupMember("c", frozenset({"x" * 2_000}), {}, 1)
    two = evolved(small, members={"m": wants, "n": GroupMember("c", frozenset(), {}, 1)})
    assert register(two, "m") <= request_bytes(two) < register(two, "m") + 2_000


def test_a_bound_counts_what_the_target_was_made_of() -> None:
    long, short = large(1, 900, "x", "m" * 249), large(1, 900, "x", "m")
    [name] = long.target_of.members
    late = evolved(short, target_of=long.target_of)
    for group in (late, evolved(long, target_of=short.target_of)):  # who owns all has died since
        assert size_of(Rebalanced(dict.fromkeys(group.partitions, name))) <= event_bytes(group)
        assert size_of(GroupSnapshot(group)) <= event_bytes(group)
    topics = {f"t{number}": Topic(1, "A" * 2_000) for number in range(200)}
    for group in (
        evolved(short, topics=topics, partitions={}),
        evolved(short, partitions={}, target_of=TargetOf({}, topics)),
    ):
        assert size_of(GroupSnapshot(group)) <= event_bytes(group)


def test_a_bound_is_not_far_above_what_a_large_group_needs() -> None:
    for group in (large(10, 900), large(1_000, 900), large(100, 4_000)):
        is_ = size_of(GroupSnapshot(group))
        assert is_ <= event_bytes(group) < 1.25 * is_


def test_sums_of_a_group_that_grew_are_those_of_the_whole_group() -> None:
    group = large(3, 20)
    event_bytes(group)
    late, other = GroupMember("c" * 9, frozenset("ab"), {}, 9), GroupMember("c", frozenset(), {}, 9)
    [first, *rest] = group.members
    for members in (
        {**group.members, "m" * 70: late},
        {**group.members, first: late},  # it wants something else
        {**{name: group.members[name] for name in rest}, "m": other, "n": other},
    ):
        grown, again = (evolved(group, members=dict(members)) for _ in range(2))
        assert event_bytes(grown, group) == event_bytes(again)
        assert request_bytes(grown) == request_bytes(again)
        group = grown


def test_1000_members_fit_and_so_do_4000_partitions_but_not_both() -> None:
    assert not bytes_missing(large(1_000, 2_000), None, 998_976)
    assert not bytes_missing(large(100, 4_000), None, 998_976)
    both = large(1_000, 4_000, "x" * 40)
    assert bytes_missing(both, None, 998_976) == event_bytes(both)
    assert not bytes_missing(both, both, 998_976)  # as it was before


def test_a_request_has_a_bound_of_its_own() -> None:
    group = large(1, 4_000, "x" * 120)
    assert event_bytes(group) < 2 * 10**6
    assert bytes_missing(group, None, 2 * 10**6) == request_bytes(group) > REQUEST_BYTES_MAX
    assert not bytes_missing(group, group, 2 * 10**6)


def test_partitions_of_a_topic_that_is_gone_count_while_somebody_owns_them() -> None:
    group = evolved(large(2, 100, "x" * 249), topics={})
    assert size_of(GroupSnapshot(group)) <= event_bytes(group)
