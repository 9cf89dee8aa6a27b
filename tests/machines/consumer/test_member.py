"""One instance and all its claims: what it asks for, gives back, and hands over."""

import attrs
import pytest

from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import ClaimingMessages, ClaimingPartition, Record
from kafka_marshal.core.state import FENCED
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.consumer import (
    ConsumerState,
    InstanceConfig,
    Mode,
    claiming_partition_sent,
    release_group_sent,
)
from kafka_marshal.machines.consumer.driver import Driver, Timing
from kafka_marshal.machines.consumer.effects import Lost, Process, ReleaseReason, Send, Won
from kafka_marshal.machines.consumer.member import Member
from kafka_marshal.machines.share.timing import ShareTiming
from tests.machines.town import PLACES, Town, key

ALONE = Claiming(fair_share=False)
ADMIN = InstanceConfig("x1", "x", Mode.AT_LEAST_ONCE, admin=True)


def start(town: Town, name: str, claiming: Claiming = ALONE, **topics: int) -> Member:
    member = town.join(name, claiming)
    for topic, partitions in topics.items():
        town.do(name, member.add_topic(topic, partitions, town.now_ms))
    return member


def test_who_is_alone_claims_everything_at_once() -> None:
    town = Town()
    member = start(town, "a1", events=5, orders=2)
    assert set(member.owned) == {key("events", n) for n in range(5)} | {
        key("orders", n) for n in range(2)
    }
    assert member.coordinating_partitions == {
        coordinating_partition(topic, PLACES) for topic in ("events", "orders")
    }


def test_nothing_is_asked_for_before_every_place_was_read_to_its_end() -> None:
    town = Town()
    member = town.join("a1", ALONE)
    names = ["a", "b", "c", "d"]
    for topic in names:
        member.add_topic(topic, 1, 0)
    places = sorted(member.coordinating_partitions)
    assert len(places) > 1
    assert member.caught_up(places[0], 0) == []
    asked = [effect for place in places[1:] for effect in member.caught_up(place, 0)]
    assert len(asked) == len(names)


def test_partitions_that_a_topic_gets_are_claimed_too() -> None:
    town = Town()
    member = start(town, "a1", events=1)
    town.do("a1", member.add_topic("events", 3, town.now_ms))
    assert len(member.owned) == 3


def test_what_was_asked_for_by_number_is_claimed_and_nothing_else() -> None:
    town = Town()
    member = town.join("a1", ALONE)
    town.do("a1", member.add_topic("events", 3, 0, only=[2]))
    assert set(member.owned) == {key("events", 2)}
    with pytest.raises(ValueError, match="topic events has 3 partitions, and no 3"):
        member.add_topic("events", 3, 0, only=[3])


def test_no_more_is_owned_than_the_limit_and_what_is_fixed_does_not_count() -> None:
    town = Town()
    member = start(town, "a1", Claiming(fair_share=False, claims_max=2), events=5)
    assert len(member.owned) == 2
    town.do("a1", member.add_topic("orders", 2, 0, only=[0, 1]))
    assert len(member.owned) == 4
    start(town, "b1", events=5)
    assert len(town.members["b1"].owned) == 3


def test_a_dead_members_claims_are_taken_when_they_are_stale() -> None:
    town = Town()
    start(town, "a1", events=3)
    start(town, "b1", events=3)
    town.deaf.add("a1")
    town.pass_time(110_000)
    assert set(town.owners("events").values()) == {"a1"}
    town.pass_time(20_000)
    assert set(town.owners("events").values()) == {"b1"}
    town.deaf.clear()
    town.settle()
    assert [one.effect for one in town.told["a1"]][-3:] == [Lost.TAKEN] * 3


@pytest.mark.parametrize(("fast", "waits_ms"), [(True, 0), (False, 120_001)])
def test_a_restarted_client_comes_back_at_once_if_it_may(fast: bool, waits_ms: int) -> None:
    town = Town()
    start(town, "a1", events=3)
    town.deaf.add("a1")
    claiming = Claiming(fair_share=False, fast_reclaim=fast)
    member = start(town, "a2", claiming, events=3)
    if waits_ms:
        town.pass_time(waits_ms - 1)
        assert set(town.owners("events").values()) == {"a1"}
        town.pass_time(1)
    assert len(member.owned) == 3


def test_what_its_own_client_owned_comes_first() -> None:
    town = Town()
    member = town.join("a1", ALONE)
    town.do("a1", member.add_topic("events", 5, 0, only=[4]))
    town.deaf.add("a1")
    again = start(town, "a2", Claiming(fair_share=False, claims_max=1), events=5)
    assert set(again.owned) == {key("events", 4)}


def test_a_client_id_that_is_used_twice_stops_the_first_of_the_two() -> None:
    town = Town()
    first = start(town, "a1", events=2)
    start(town, "a2", events=2)
    assert Lost.ID_USED_TWICE in [one.effect for one in town.told["a1"]]
    town.pass_time(600_000)
    assert not first.owned
    assert set(town.owners("events").values()) == {"a2"}


def test_who_owns_partition_0_claims_the_whole_topic() -> None:
    town = Town()
    whole = Claiming(fair_share=False, whole_topics=True, claims_max=1)
    first = start(town, "a1", whole, events=4, orders=4)
    second = start(town, "b1", whole, events=4, orders=4)
    assert {one.topic for one in first.owned} == {"events"}
    assert {one.topic for one in second.owned} == {"orders"}
    assert (len(first.owned), len(second.owned)) == (4, 4)
    town.do("a1", first.release(key("events", 0), town.now_ms))
    assert not first.owned
    assert set(town.owners("events").values()) == {None}


def test_what_was_given_back_is_not_asked_for_again_for_a_while() -> None:
    town = Town()
    member = start(town, "a1", events=2)
    town.do("a1", member.release(key("events", 0), town.now_ms))
    assert member.driver(key("events", 0)).released is ReleaseReason.ASKED
    town.do("a1", member.add_topic("events", 2, town.now_ms))
    town.pass_time(119_999)
    assert set(member.owned) == {key("events", 1)}
    town.pass_time(1)
    assert len(member.owned) == 2


def test_a_claim_that_falls_behind_is_given_back_if_that_is_wanted() -> None:
    for wanted in (True, False):
        town = Town()
        claiming = Claiming(fair_share=False, release_when_behind=wanted)
        member = start(town, "a1", claiming, events=1)
        for beat in range(1, 8):
            town.do("a1", member.extent(key("events", 0), 0, 1000 * beat, town.now_ms))
            town.pass_time(60_000)
        lost = [one.effect for one in town.told["a1"] if isinstance(one.effect, Lost)]
        assert lost == ([Lost.RELEASED] if wanted else [])


def test_a_pause_ends_all_claims_and_reaches_those_that_are_first_seen_later() -> None:
    town = Town()
    member = start(town, "a1", events=2)
    place = coordinating_partition("events", PLACES)
    town.append(release_group_sent(ADMIN, "g", 60), place)
    town.settle()
    assert [one.effect for one in town.told["a1"]][-2:] == [Lost.PAUSED] * 2
    town.do("a1", member.add_topic("events", 3, town.now_ms))
    town.pass_time(59_999)
    assert set(town.owners("events").values()) == {None}
    town.pass_time(1)
    assert len(member.owned) == 3


def test_other_groups_and_topics_on_a_wrong_partition_do_not_concern_it() -> None:
    town = Town()
    other = Member(InstanceConfig("z1", "z", Mode.AT_LEAST_ONCE), "other", PLACES, ALONE)
    other.add_topic("events", 1, 0)
    for one in other.caught_up(coordinating_partition("events", PLACES), 0):
        town.append(one.effect)  # type: ignore[arg-type]
    stranger = Member(InstanceConfig("z1", "z", Mode.AT_LEAST_ONCE), "g", PLACES, ALONE)
    stranger.add_topic("events", 1, 0)
    for one in stranger.caught_up(coordinating_partition("events", PLACES), 0):
        wrong = (coordinating_partition("events", PLACES) + 1) % PLACES
        town.append(one.effect, wrong)  # type: ignore[arg-type]
    assert len(start(town, "a1", events=1).owned) == 1


def test_stop_gives_everything_up_when_what_is_in_hand_is_finished() -> None:
    town = Town()
    member = start(town, "a1", events=2)
    town.do("a1", member.messages_available(key("events", 0), 5, 0))
    town.do("a1", member.stop(0))
    assert set(member.owned) == {key("events", 0)}
    assert member.gave_back == 2, "also the claim of which something is in hand"
    assert member.drained is False
    town.do("a1", member.done(key("events", 0), 5, 0))
    assert bool(member.drained) is True
    assert set(town.owners("events").values()) == {None}
    assert (
        town.worlds[coordinating_partition("events", PLACES)].claim(key("events", 0)).position == 5
    )
    town.do("a1", member.add_topic("bills", 1, town.now_ms))
    town.pass_time(600_000)
    assert member.drained


def test_a_commit_tells_the_log_what_is_done_and_when_the_next_heartbeat_is_due() -> None:
    town = Town()
    member = start(town, "a1", events=1)
    town.do("a1", member.messages_available(key("events", 0), 5, 0))
    town.do("a1", member.done(key("events", 0), 3, 0))
    owned = town.worlds[coordinating_partition("events", PLACES)]
    assert owned.claim(key("events", 0)).position == 0
    town.pass_time(30_000)
    town.do("a1", member.commit(key("events", 0), town.now_ms))
    assert owned.claim(key("events", 0)).position == 3
    assert member.next_timer_ms == town.now_ms + 60_000


def test_each_claim_is_handed_over_from_its_position_or_from_the_start_policy() -> None:
    town = Town()
    member = town.join("a1", ALONE)
    town.do("a1", member.add_topic("events", 2, 0, start=lambda partition: 7 * partition))
    won = {one.key.topic_partition: one.effect for one in town.told["a1"]}
    assert {n: effect.position for n, effect in won.items() if isinstance(effect, Won)} == {
        0: 0,
        1: 7,
    }


def batches(town: Town) -> list[int]:
    log = town.logs[coordinating_partition("events", PLACES)]
    return [r.message.offset for r in log if isinstance(r.message, ClaimingMessages)]


def test_at_most_once_one_batch_is_in_hand_and_the_next_waits_for_it_to_be_taken() -> None:
    town = Town()
    member = town.join("a1", Claiming(fair_share=False, transactions_per_s=1000), Mode.AT_MOST_ONCE)
    town.do("a1", member.add_topic("events", 1, 0))
    town.do("a1", member.messages_available(key("events", 0), 25, 0))
    town.pass_time(1000)
    assert batches(town) == [10]
    assert town.processed["a1"] == [(0, n) for n in range(10)]
    town.do("a1", member.done(key("events", 0), 10, town.now_ms))
    town.pass_time(1000)
    assert batches(town) == [10, 20]
    town.do("a1", member.done(key("events", 0), 20, town.now_ms))
    town.pass_time(1000)
    assert batches(town) == [10, 20, 25]


def test_at_most_once_a_batch_is_what_came_since_the_last_transaction() -> None:
    town = Town()
    claiming = Claiming(fair_share=False, transactions_per_s=10)
    member = town.join("a1", claiming, Mode.AT_MOST_ONCE, batch=1000)
    town.do("a1", member.add_topic("events", 1, 0))
    for end in range(1, 101):  # one message in 10 ms
        town.do("a1", member.messages_available(key("events", 0), end, town.now_ms))
        town.pass_time(10)
        if town.processed["a1"]:
            town.do("a1", member.done(key("events", 0), len(town.processed["a1"]), town.now_ms))
    assert batches(town) == [1, *range(10, 101, 10)]


def test_at_most_once_a_batch_of_which_all_is_gone_is_in_nobodys_hand() -> None:
    town = Town()
    member = town.join("a1", Claiming(fair_share=False, transactions_per_s=1000), Mode.AT_MOST_ONCE)
    town.do("a1", member.add_topic("events", 1, 0))
    claim = key("events", 0)
    asked = member.extent(claim, 1000, 1005, 0)
    town.do("a1", asked + member.done(claim, 1000, 0))  # before it reads what was granted
    town.do("a1", member.messages_available(claim, 1005, 0))
    town.pass_time(1000)
    assert batches(town) == [1000, 1005]


def test_after_a_truncation_nothing_is_owned_and_nothing_is_asked_for() -> None:
    town = Town()
    member = start(town, "a1", events=2)
    lost = member.truncated()
    assert {one.effect for one in lost} == {Lost.LOG_LOST_RECORDS}
    assert [one.key for one in lost] == [key("events", 0), key("events", 1)]
    assert not member.owned
    assert member.timer(10**9) == []


def test_after_a_gap_nothing_is_certain_until_an_owner_shows_what_it_saw() -> None:
    town = Town()
    start(town, "a1", events=1)
    member = start(town, "b1", events=1)
    place = coordinating_partition("events", PLACES)
    first = town.views["a1"][place]
    assert member.driver(key("events", 0)).consumer.reader.known
    assert member.pass_gap(place, first, town.now_ms) == []
    assert not member.driver(key("events", 0)).consumer.reader.known
    town.do("b1", member.add_topic("events", 2, town.now_ms))
    assert not member.driver(key("events", 1)).consumer.reader.known, "it was first heard of later"
    town.pass_time(60_000)
    assert member.driver(key("events", 0)).consumer.known.owner_client == "a"
    assert member.driver(key("events", 0)).consumer.reader.known


def test_an_owner_that_finds_a_gap_has_lost_what_it_owned_and_asks_no_sooner_than_it_may() -> None:
    town = Town()
    member = start(town, "a1", events=2)
    place = coordinating_partition("events", PLACES)
    first = town.views["a1"][place]
    lost = member.pass_gap(place, first, town.now_ms)
    assert [one.effect for one in lost] == [Lost.UNCERTAIN] * 2
    assert not member.owned
    assert member.pass_gap(PLACES, first, town.now_ms) == [], "it does not read that one"


@pytest.mark.parametrize("only", [None, [0]])
@pytest.mark.parametrize("name", ["a1", "b1"])
def test_where_nothing_is_left_of_the_log_it_asks_when_it_has_read_to_the_end(
    name: str, only: list[int] | None
) -> None:
    town = Town()
    for each in ("a1", "b1"):
        town.do(each, town.join(each, ALONE).add_topic("events", 1, 0, only=only))
    member, place = town.members[name], coordinating_partition("events", PLACES)
    member.pass_gap(place, 50, town.now_ms)
    assert member.timer(town.now_ms) == []
    [asked] = member.caught_up(place, town.now_ms)
    assert isinstance(asked.effect, Send)
    assert isinstance(asked.effect.message, ClaimingPartition)


def test_a_request_whose_fate_nobody_knows_is_made_again() -> None:
    member = Member(InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE), "g", 1, ALONE)
    member.add_topic("events", 1, 0)
    [asked] = member.caught_up(0, 0)
    assert member.timer(60_000) == []
    assert member.outcome_unknown(asked.effect, 60_000) == []  # type: ignore[arg-type]
    at_ms = member.next_timer_ms
    assert at_ms == 65_000
    [again] = member.timer(at_ms)
    assert isinstance(again.effect.message, ClaimingPartition)  # type: ignore[union-attr]


def test_the_timing_is_that_of_its_drivers() -> None:
    me = InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE)
    assert Member(me, "g", 1).timing == Driver(me, key("events", 0)).timing
    quick = Timing(heartbeat_every_ms=20_000, ask_again_after_ms=7)
    assert Member(me, "g", 1, timing=quick).timing == quick


def test_members_that_start_together_share_without_giving_anything_back() -> None:
    town = Town()
    for name in ("a1", "b1", "c1"):
        member = town.join(name)
        member.add_topic("events", 9, 0)
    town.settle()
    town.pass_time(2_000)
    counts = [len(member.owned) for member in town.members.values()]
    assert counts == [3, 3, 3]
    assert not any(isinstance(one.effect, Lost) for told in town.told.values() for one in told)


def test_who_comes_later_is_given_a_share_and_no_more_is_moved_than_that() -> None:
    town = Town()
    first = start(town, "a1", Claiming(), events=10)
    town.pass_time(2_000)
    assert len(first.owned) == 10
    second = start(town, "b1", Claiming(), events=10)
    town.pass_time(10_000)
    assert (len(first.owned), len(second.owned)) == (5, 5)
    assert [one.effect for one in town.told["a1"]].count(Lost.RELEASED) == 5
    third = start(town, "c1", Claiming(), events=10)
    town.pass_time(10_000)
    counts = sorted(len(member.owned) for member in (first, second, third))
    assert counts == [3, 3, 4]
    lost = [one for told in town.told.values() for one in told if one.effect is Lost.RELEASED]
    assert len(lost) == 8


def test_who_leaves_has_its_share_taken_by_those_who_stay() -> None:
    town = Town()
    for name in ("a1", "b1", "c1"):
        start(town, name, Claiming(), events=9)
    town.pass_time(10_000)
    town.do("c1", town.members["c1"].stop(town.now_ms))
    town.pass_time(10_000)
    assert [len(member.owned) for member in town.members.values()] == [5, 4, 0] or [
        len(member.owned) for member in town.members.values()
    ] == [4, 5, 0]
    town.deaf.add("a1")
    town.pass_time(200_000)
    assert len(town.members["b1"].owned) == 9


def test_whole_topics_are_shared_as_one_each() -> None:
    town = Town()
    whole = Claiming(whole_topics=True)
    first = start(town, "a1", whole, events=3, orders=3)
    town.pass_time(2_000)
    assert len(first.owned) == 6
    second = start(town, "b1", whole, events=3, orders=3)
    town.pass_time(20_000)
    assert (len(first.owned), len(second.owned)) == (3, 3)
    assert len({one.topic for one in second.owned}) == 1


def test_a_paused_group_is_left_alone_until_the_pause_is_over() -> None:
    town = Town()
    start(town, "a1", Claiming(), events=4)
    start(town, "b1", Claiming(), events=4)
    town.pass_time(10_000)
    until_s = town.now_ms // 1000 + 60
    place = coordinating_partition("events", PLACES)
    town.append(release_group_sent(ADMIN, "g", until_s), place)
    town.settle()
    before = len(town.logs[place])
    town.pass_time(until_s * 1000 - town.now_ms - 1)
    assert len(town.logs[place]) == before
    town.pass_time(20_000)
    assert sorted(len(member.owned) for member in town.members.values()) == [2, 2]


HOUR_MS = 3_600_000
each_claiming = pytest.mark.parametrize("claiming", [ALONE, Claiming()], ids=["alone", "shared"])


@each_claiming
@pytest.mark.parametrize("ahead_ms", [-(10**15), -HOUR_MS, HOUR_MS])
def test_a_dead_member_is_replaced_in_time_wherever_ones_own_clock_begins(
    ahead_ms: int, claiming: Claiming
) -> None:
    town = Town(now_ms=100 * HOUR_MS, ahead_ms={"b1": ahead_ms})
    start(town, "a1", claiming, events=4)
    second = town.join("b1", claiming)
    town.do("b1", second.add_topic("events", 4, town.now_ms + ahead_ms))
    town.pass_time(60_000)
    town.deaf.add("a1")
    town.pass_time(110_000)
    assert len(second.owned) < 4
    town.pass_time(20_000)
    assert len(second.owned) == 4


@each_claiming
def test_a_brokers_clock_that_is_put_back_moves_nothing(claiming: Claiming) -> None:
    """Nobody takes a living owner for a dead one, so nobody asks for its claims."""
    town = Town(now_ms=100 * HOUR_MS)
    for name in ("a1", "b1"):
        start(town, name, claiming, events=4)
    town.pass_time(60_000)
    owners = town.owners("events")
    town.now_ms -= HOUR_MS
    town.ahead_ms = dict.fromkeys(town.members, HOUR_MS)
    before = sum(map(len, town.logs))
    town.pass_time(600_000)
    assert town.owners("events") == owners
    news = [record for log in town.logs for record in log][before:]
    assert not any(isinstance(record.message, ClaimingPartition) for record in news)


def test_who_comes_when_all_are_gone_waits_for_nothing() -> None:
    """Its first request says what time it is, at every coordinating partition."""
    town = Town(now_ms=100 * HOUR_MS)
    topics = {"events": 3, "orders": 2, "a": 1}
    start(town, "a1", Claiming(), **topics)
    town.pass_time(60_000)
    town.deaf.add("a1")
    town.now_ms += HOUR_MS
    assert len(town.members["a1"].coordinating_partitions) > 1
    second = start(town, "b1", Claiming(), **topics)
    town.pass_time(6_000)
    assert len(second.owned) == 6


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000])
def test_a_share_does_not_hang_on_how_its_own_clock_is_set(ahead_ms: int) -> None:
    town = Town(now_ms=7_200_000)
    start(town, "a1", Claiming(), events=4)
    town.pass_time(2_000)
    town.ahead_ms["b1"] = ahead_ms
    second = town.join("b1")
    town.do("b1", second.add_topic("events", 4, town.now_ms + ahead_ms))
    town.pass_time(20_000)
    assert len(second.owned) == 2


def test_a_dead_members_share_is_taken_after_two_of_the_groups_own_intervals() -> None:
    town = Town()
    for name in ("a1", "b1"):
        town.join(name, Claiming(), interval_ms=10_000).add_topic("events", 4, 0)
    town.settle()
    town.pass_time(40_000)
    assert [len(member.owned) for member in town.members.values()] == [2, 2]
    town.deaf.add("a1")
    town.pass_time(10_000)
    assert len(town.members["b1"].owned) == 2
    town.pass_time(15_000)
    assert len(town.members["b1"].owned) == 4


def test_a_topic_that_is_removed_is_given_up_and_may_be_added_again() -> None:
    town = Town()
    member = start(town, "a1", events=3, orders=1)
    town.do("a1", member.messages_available(key("events", 2), 5, 0))
    town.do("a1", member.remove_topic("events", 0))
    assert set(member.owned) == {key("events", 2), key("orders", 0)}, "one has a batch in hand"
    town.pass_time(600_000)
    assert town.owners("events")[0] is None
    town.do("a1", member.add_topic("events", 3, town.now_ms))
    assert {key("events", 0), key("events", 1)} <= set(member.owned)
    town.do("a1", member.done(key("events", 2), 5, town.now_ms))
    town.pass_time(60_000)
    assert len(member.owned) == 4


def test_a_removed_topic_leaves_its_share_to_the_others_and_is_nobodys_share() -> None:
    town = Town()
    for name in ("a1", "b1"):
        start(town, name, Claiming(), events=4)
    town.pass_time(10_000)
    members = town.members
    assert [len(member.owned) for member in members.values()] == [2, 2]
    town.do("a1", members["a1"].remove_topic("events", town.now_ms))
    town.pass_time(30_000)
    assert [len(member.owned) for member in members.values()] == [0, 4]


def test_what_is_handed_back_of_a_claim_that_is_given_up_frees_it() -> None:
    town = Town()
    member = start(town, "a1", events=1)
    claim = key("events", 0)
    town.do("a1", member.messages_available(claim, 5, 0))
    town.do("a1", member.release(claim, 0))
    assert set(member.owned) == {claim}
    town.do("a1", member.hand_back(claim, 0, 0))
    assert not member.owned
    assert town.owners("events") == {0: None}


def test_partitions_by_number_are_asked_for_as_soon_as_they_are_added() -> None:
    town = Town()
    member = start(town, "a1", events=1)
    asked = member.add_topic("events", 3, town.now_ms, only=[1, 2])
    assert [one.key for one in asked] == [key("events", 1), key("events", 2)]
    assert all(isinstance(one.effect, Send) for one in asked)


@pytest.mark.parametrize("mode", list(Mode))
def test_where_another_lives_no_message_makes_it_ask(mode: Mode) -> None:
    town = Town()
    start(town, "a1", events=1)
    waiting = town.join("b1", ALONE, mode)
    town.do("b1", waiting.add_topic("events", 1, 0, only=[0]))
    assert waiting.extent(key("events", 0), 3, 5, town.now_ms) == []
    assert waiting.messages_available(key("events", 0), 5, town.now_ms) == []


def test_heartbeats_are_as_frequent_as_its_timing_says() -> None:
    me = InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE)
    member = Member(me, "g", 1, ALONE, Timing(heartbeat_every_ms=20_000))
    member.add_topic("events", 1, 0)
    [asked] = member.caught_up(0, 0)
    assert isinstance(asked.effect, Send)
    member.record(Record(0, 0, 5, asked.effect.message, asked.effect.headers), 5)
    member.caught_up(0, 5)
    assert member.driver(key("events", 0)).next_timer_ms == 20_005


def test_a_member_whose_client_id_is_used_twice_asks_for_nothing_more() -> None:
    town = Town()
    limited = Claiming(fair_share=False, claims_max=1)
    first = start(town, "a1", limited, events=2)
    start(town, "b1", events=2)
    start(town, "a2", limited, events=2)
    assert Lost.ID_USED_TWICE in [one.effect for one in town.told["a1"]]
    town.deaf |= {"a2", "b1"}
    town.pass_time(600_000)
    assert not first.owned
    assert first.next_timer_ms is None


def test_after_a_truncation_what_others_owned_is_not_asked_for_either() -> None:
    town = Town()
    limited = Claiming(fair_share=False, claims_max=1)
    start(town, "a1", limited, events=2)
    second = start(town, "b1", events=2)
    assert len(second.owned) == 1
    town.deaf.add("a1")
    second.truncated()
    town.pass_time(600_000)
    assert not second.owned
    assert second.drained


def test_a_pause_that_is_over_keeps_no_newcomer_waiting() -> None:
    town = Town(now_ms=100_000)
    town.append(release_group_sent(ADMIN, "g", 60), coordinating_partition("events", PLACES))
    assert len(start(town, "a1", events=2).owned) == 2


@pytest.mark.parametrize("only", [None, [0, 1]])
def test_a_place_without_news_takes_the_time_from_another(only: list[int] | None) -> None:
    """One record of another group, of a claim of its own, shows what time it is for all places."""
    places = {coordinating_partition(topic, PLACES): topic for topic in ("t", "u", "v", "w", "x")}
    (quiet, topic), (busy, other) = sorted(places.items())[:2]
    town = Town()
    dead = town.join("dead", ALONE)
    town.do("dead", dead.add_topic(topic, 2, 0))
    member = Member(InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE), "g", PLACES, ALONE)
    member.add_topic(topic, 2, 0, only=only)
    member.add_topic(other, 1, 0, only=[])
    member.add_topic(other, 1, 0)
    for record in town.logs[quiet]:
        member.record(record, 0)
    effects = [
        one
        for place in sorted(member.coordinating_partitions)
        for one in member.caught_up(place, 0)
    ]
    assert {one.key.topic for one in effects} == {other}
    stranger = town.logs[quiet][0]
    message = attrs.evolve(stranger.message, group_id="h")
    assert member.record(Record(busy, 0, 500_000, message, stranger.headers), 10) == []
    asked = member.caught_up(busy, 10)
    assert sorted(one.key for one in asked) == [key(topic, 0), key(topic, 1)]


def test_at_most_once_what_came_while_all_of_a_batch_went_is_asked_for_at_once() -> None:
    town = Town()
    member = town.join("a1", Claiming(fair_share=False), Mode.AT_MOST_ONCE)
    town.do("a1", member.add_topic("events", 1, 0))
    claim = key("events", 0)
    effects = member.extent(claim, 1000, 1005, 0) + member.done(claim, 1000, 0)
    town.deaf.add("a1")
    town.do("a1", effects + member.messages_available(claim, 1005, 0))
    place = coordinating_partition("events", PLACES)
    granted = member.record(town.logs[place][-1], 0)
    assert [type(one.effect) for one in granted] == [Process, Send, Send]
    asked = granted[-1].effect
    assert isinstance(asked, Send)
    assert isinstance(asked.message, ClaimingMessages)
    assert asked.message.offset == 1005


def test_at_most_once_every_claim_whose_turn_has_come_asks() -> None:
    town = Town()
    member = town.join("a1", Claiming(fair_share=False), Mode.AT_MOST_ONCE)
    town.do("a1", member.add_topic("events", 2, 0))
    for n in (0, 1):
        town.do("a1", member.messages_available(key("events", n), 10, 0))
        town.do("a1", member.done(key("events", n), 10, 0))
        town.do("a1", member.messages_available(key("events", n), 20, 0))
    assert batches(town) == [10, 10]
    asked = member.timer(1_000)
    assert sorted(one.key for one in asked) == [key("events", 0), key("events", 1)]


def test_a_share_is_no_more_than_the_limit_and_what_is_fixed_does_not_count() -> None:
    town = Town()
    member = start(town, "a1", Claiming(claims_max=2), events=5)
    town.do("a1", member.add_topic("orders", 2, 0, only=[1]))
    town.pass_time(30_000)
    assert key("orders", 1) in member.owned
    assert len(member.owned) == 3


def test_whoever_has_much_gives_at_once_what_several_ask_for() -> None:
    town = Town()
    first = start(town, "a1", Claiming(), events=6)
    town.pass_time(10_000)
    assert len(first.owned) == 6
    town.deaf.add("a1")
    for name in ("b1", "c1"):
        start(town, name, Claiming(), events=6)
    town.deaf.clear()
    town._reads("a1")
    assert list(town.owners("events").values()).count(None) == 2, "both before it reads of either"
    town.settle()
    owners = list(town.owners("events").values())
    assert owners.count("a1") == 4
    given = [n for n, owner in town.owners("events").items() if owner != "a1"]
    assert {first.driver(key("events", n)).released for n in given} == {ReleaseReason.SHARED}


def test_who_gives_a_whole_topic_back_says_that_its_partitions_went_with_it() -> None:
    town = Town()
    whole = Claiming(fair_share=False, whole_topics=True)
    member = start(town, "a1", whole, events=3)
    assert len(member.owned) == 3
    town.do("a1", member.release(key("events", 0), town.now_ms))
    assert not member.owned
    assert [member.driver(key("events", n)).released for n in range(3)] == [
        ReleaseReason.ASKED,
        ReleaseReason.WITH_ITS_TOPIC,
        ReleaseReason.WITH_ITS_TOPIC,
    ]
    town.pass_time(60_000)
    assert not member.owned
    town.pass_time(60_000)
    assert len(member.owned) == 3
    town.do("a1", member.add_topic("orders", 3, town.now_ms, only=[1]))
    assert len(member.owned) == 4, "what is asked for by number follows nobody"
    town.do("a1", member.remove_topic("events", town.now_ms))
    assert set(member.owned) == {key("orders", 1)}


def test_a_partition_that_is_still_in_hand_stays_if_its_topic_comes_back() -> None:
    town = Town()
    whole = Claiming(fair_share=False, whole_topics=True)
    member = start(town, "a1", whole, events=2)
    town.do("a1", member.messages_available(key("events", 1), 5, 0))
    town.do("a1", member.release(key("events", 0), 0))
    assert not member.driver(key("events", 1)).wants
    town.pass_time(120_000)
    assert set(member.owned) == {key("events", 0), key("events", 1)}
    assert member.driver(key("events", 1)).wants
    town.do("a1", member.done(key("events", 1), 5, town.now_ms))
    assert len(member.owned) == 2
    assert [one.effect for one in town.told["a1"]].count(Lost.RELEASED) == 1


def test_a_whole_topic_comes_back_after_a_pause() -> None:
    town = Town()
    member = start(town, "a1", Claiming(fair_share=False, whole_topics=True), events=3)
    place = coordinating_partition("events", PLACES)
    town.append(release_group_sent(ADMIN, "g", 60), place)
    town.settle()
    assert not member.owned
    released = [member.driver(key("events", n)).released for n in range(3)]
    assert released == [ReleaseReason.BY_OTHERS] * 3, "they did not follow the first"
    town.pass_time(60_000)
    assert len(member.owned) == 3


def test_a_whole_topic_comes_back_once_its_owner_is_certain_again() -> None:
    town = Town()
    other = start(town, "b1", events=2)
    town.do("b1", other.stop(0))
    place = coordinating_partition("events", PLACES)
    whole = Claiming(fair_share=False, whole_topics=True)
    member = town.join("a1", whole, firsts={place: len(town.logs[place])})
    town.do("a1", member.add_topic("events", 2, 0))
    assert not member.owned, "it does not know who owned before"
    town.append(release_group_sent(ADMIN, "g", 0), place)
    town.settle()
    assert len(member.owned) == 2
    me = InstanceConfig("c1", "c", Mode.AT_LEAST_ONCE)
    town.append(claiming_partition_sent(me, ConsumerState(), key("events", 0)))
    town.settle()
    assert not member.owned
    assert [one.effect for one in town.told["a1"]][-2:] == [Lost.UNCERTAIN, Lost.RELEASED]
    town.pass_time(FENCED.pause_max_ms + HOUR_MS)  # no pause that it has not read can last longer
    assert len(member.owned) == 2


def test_what_is_fixed_counts_as_a_part_of_the_share() -> None:
    town = Town()
    first = town.join("a1", Claiming())
    town.do("a1", first.add_topic("events", 6, 0, only=[0, 1]))
    town.do("a1", first.add_topic("events", 6, 0))
    second = start(town, "b1", Claiming(), events=6)
    town.pass_time(60_000)
    assert (len(first.owned), len(second.owned)) == (3, 3)
    assert {key("events", 0), key("events", 1)} <= set(first.owned)


@pytest.mark.parametrize(("claims_max", "freed", "asked"), [(2, 1, []), (3, 2, [2])])
def test_a_request_that_is_on_its_way_is_not_repeated_and_counts_against_the_limit(
    claims_max: int, freed: int, asked: list[int]
) -> None:
    town = Town()
    member = start(town, "a1", Claiming(claims_max=claims_max), events=1)
    other = town.join("b1", ALONE)
    town.do("b1", other.add_topic("events", 3, 0, only=[freed]))
    town.pass_time(2_000)
    town.deaf.add("a1")
    on_its_way = member.add_topic("events", 3, town.now_ms)
    assert [one.key.topic_partition for one in on_its_way] == [3 - freed]
    [place] = member.coordinating_partitions
    news = len(town.logs[place])
    town.do("b1", other.stop(town.now_ms))
    for record in town.logs[place][news:]:
        member.record(record, town.now_ms)
    assert town.owners("events") == {0: "a1", freed: None}
    more = member.caught_up(place, town.now_ms)
    assert [one.key.topic_partition for one in more] == asked


def test_a_claim_wanted_again_while_it_is_given_up_is_asked_for_after_that() -> None:
    town = Town()
    member = start(town, "a1", events=1)
    claim = key("events", 0)
    town.do("a1", member.messages_available(claim, 5, 0))
    town.do("a1", member.remove_topic("events", 0))
    town.do("a1", member.add_topic("events", 1, 0))
    assert member.driver(claim).wants is False, "its batch is in hand"
    town.do("a1", member.done(claim, 5, 0))
    assert set(member.owned) == {claim}
    assert [type(one.effect) for one in town.told["a1"]] == [Won, Lost, Won]


def test_where_a_limit_leaves_room_a_removed_topic_makes_it_at_once() -> None:
    town = Town()
    member = start(town, "a1", Claiming(fair_share=False, claims_max=1), events=1, orders=1)
    assert set(member.owned) == {key("events", 0)}
    effects = member.remove_topic("events", 0)
    assert [one.key for one in effects if isinstance(one.effect, Send)] == [
        key("events", 0),
        key("orders", 0),
    ]
    town.do("a1", effects)
    assert set(member.owned) == {key("orders", 0)}


def test_where_a_limit_leaves_room_what_is_given_back_makes_it_at_once() -> None:
    town = Town()
    member = start(town, "a1", Claiming(fair_share=False, claims_max=1), events=2)
    effects = member.release(key("events", 0), 0) + member.timer(0)
    assert [one.key for one in effects if isinstance(one.effect, Send)] == [
        key("events", 0),
        key("events", 1),
    ]


@pytest.mark.parametrize(("moved_ms", "asks"), [(999, False), (1_000, True)])
def test_where_the_logs_clock_was_a_second_later_than_it_seemed_it_looks_again(
    moved_ms: int, asks: bool
) -> None:
    town = Town()
    start(town, "a1", events=1)
    waiting = start(town, "b1", events=1)
    [place] = waiting.coordinating_partitions
    stale_at_ms = 120_001
    assert waiting.next_timer_ms == stale_at_ms
    stranger = town.logs[place][0]
    message = attrs.evolve(stranger.message, group_id="h")
    record = Record(place, len(town.logs[place]), stale_at_ms, message, stranger.headers)
    waiting.record(record, stale_at_ms - moved_ms)
    assert bool(waiting.caught_up(place, stale_at_ms - moved_ms)) is asks


def test_at_most_once_few_requests_make_no_few_heartbeats() -> None:
    town = Town()
    seldom = Claiming(fair_share=False, transactions_per_s=0.01)
    member = town.join("a1", seldom, Mode.AT_MOST_ONCE)
    claim = key("events", 0)
    town.do("a1", member.add_topic("events", 1, 0))
    town.do("a1", member.messages_available(claim, 10, 0))
    assert member.next_timer_ms == 60_000
    again = town.join("a2", seldom, Mode.AT_MOST_ONCE)
    town.do("a2", again.add_topic("events", 1, 0))
    assert [one.effect for one in town.told["a1"]][-1] is Lost.ID_USED_TWICE
    assert set(again.owned) == {claim}


def test_each_place_is_read_from_where_it_is_told() -> None:
    member = Member(InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE), "g", 1, firsts={0: 7})
    member.add_topic("events", 1, 0)
    assert member.driver(key("events", 0)).consumer.view == 7


def test_at_most_once_all_claims_together_make_as_many_requests_as_they_may() -> None:
    town = Town()
    seldom = Claiming(fair_share=False, transactions_per_s=1)
    member = town.join("a1", seldom, Mode.AT_MOST_ONCE)
    town.do("a1", member.add_topic("events", 2, 0))
    town.do("a1", member.messages_available(key("events", 0), 10, 0))
    assert member.next_timer_ms == 2_000, "one of two in a second"


def test_heartbeats_that_follow_on_progress_are_no_beats_of_falling_behind() -> None:
    town = Town()
    member = start(town, "a1", Claiming(fair_share=False, release_when_behind=True), events=1)
    claim = key("events", 0)
    town.pass_time(630_000)
    for n in range(1, 9):
        town.do("a1", member.messages_available(claim, 1000 * n, town.now_ms))
        town.do("a1", member.done(claim, 5 * n, town.now_ms))
    assert member.driver(claim).wants
    for n in range(9, 14):
        town.pass_time(60_000)
        town.do("a1", member.messages_available(claim, 1000 * n, town.now_ms))
    assert not member.driver(claim).wants
    assert member.driver(claim).released is ReleaseReason.BEHIND


@pytest.mark.parametrize("only", [None, [0, 1]])
@pytest.mark.parametrize("sooner", [0, 1])
def test_each_claim_that_was_given_back_is_taken_when_its_time_has_come(
    sooner: int, only: list[int] | None
) -> None:
    town = Town()
    member = start(town, "a1", removed=1)
    town.do("a1", member.add_topic("events", 2, 0, only=only))
    town.do("a1", member.remove_topic("removed", 0))
    town.do("a1", member.release(key("events", sooner), town.now_ms))
    town.pass_time(30_000)
    town.do("a1", member.release(key("events", 1 - sooner), town.now_ms))
    assert not member.owned
    town.pass_time(90_000)
    assert set(member.owned) == {key("events", sooner)}
    town.pass_time(30_000)
    assert len(member.owned) == 2


def test_claims_by_number_that_were_given_back_together_come_back_together() -> None:
    town = Town()
    member = town.join("a1", ALONE)
    town.do("a1", member.add_topic("events", 2, 0, only=[0, 1]))
    town.do("a1", member.release(key("events", 0), 0) + member.release(key("events", 1), 0))
    assert not member.owned
    town.pass_time(120_000)
    assert len(member.owned) == 2


def test_what_is_given_back_and_still_in_hand_is_not_wanted_again() -> None:
    town = Town()
    member = start(town, "a1", events=1)
    claim = key("events", 0)
    town.do("a1", member.messages_available(claim, 5, 0))
    town.do("a1", member.release(claim, 0))
    town.pass_time(600_000)
    town.do("a1", member.add_topic("orders", 1, town.now_ms))
    assert not member.driver(claim).wants
    assert claim in member.owned


@pytest.mark.parametrize(
    ("every_ms", "settle_ms", "grace_ms"),
    [(60_000, 1_000, 5_000), (2_003, 500, 2_003), (5_001, 1_000, 5_000), (400, 100, 400)],
)
def test_a_share_is_as_patient_as_the_heartbeats_are_frequent(
    every_ms: int, settle_ms: int, grace_ms: int
) -> None:
    me = InstanceConfig("a1", "a", Mode.AT_LEAST_ONCE)
    member = Member(me, "g", 1, timing=Timing(heartbeat_every_ms=every_ms))
    patience = member._share.patience
    assert patience == ShareTiming(int(me.rules.stale_after_ms), every_ms, settle_ms, grace_ms)


@pytest.mark.parametrize("known_before", [False, True])
def test_what_its_participants_claim_alone_it_only_folds(known_before: bool) -> None:
    town = Town()
    member = town.join("a1", ALONE)
    shared = key("events", 0)
    place = coordinating_partition("events", PLACES)
    member.begin_to_read(place, 0)
    if known_before:
        others = InstanceConfig("b1", "b", Mode.AT_LEAST_ONCE)
        sent = claiming_partition_sent(others, ConsumerState(), shared)
        assert member.record(Record(place, 0, 1_000, sent.message, sent.headers), 0) == []
    member.stand_by("events")
    alone = claiming_partition_sent(member.me, ConsumerState(), shared)
    landed = Record(place, 1, 60_000_000, alone.message, alone.headers)
    assert member.record(landed, 0) == []
    assert member.caught_up(place, 0) == []
    assert member.next_timer_ms is None
    assert member.folded(shared).owner_instance == member.me.instance_id
    assert member.stop(0) == []
    assert member.drained
