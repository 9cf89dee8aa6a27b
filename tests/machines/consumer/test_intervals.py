"""Two heartbeat intervals in one group: who goes on, who stops, and how a group comes to another.

Stories of whole members; what decides is `kafka_marshal.machines.consumer.intervals`. Spec: Yields.
"""

from __future__ import annotations

import pytest

from kafka_marshal.core.messages import (
    ClaimingPartition,
    Headers,
    Heartbeat,
    Offset,
    Partition,
    Record,
    ReleasingPartition,
)
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode, release_group_sent
from kafka_marshal.machines.consumer.intervals import Intervals, OwnerReport
from kafka_marshal.machines.consumer.member import Member
from tests.machines.town import Town, key

SLOW_MS, FAST_MS = 60_000, 10_000
ADMIN = InstanceConfig("x1", "x", Mode.AT_LEAST_ONCE, admin=True)


def start(
    town: Town, name: str, interval_ms: int | None, partitions: int = 2, claims_max: int = 2
) -> Member:
    claiming = Claiming(fair_share=False, claims_max=claims_max)
    member = town.join(name, claiming, interval_ms=interval_ms)
    town.do(name, member.add_topic("events", partitions, town.now_ms))
    return member


def differs(member: Member) -> tuple[str, float] | None:
    found = member.differs
    return None if found is None else (found.client_id, found.interval_ms)


def silent(town: Town, name: str) -> None:
    """It was killed."""
    town.deaf.add(name)


@pytest.mark.parametrize(("first", "second"), [(SLOW_MS, FAST_MS), (FAST_MS, SLOW_MS)])
def test_a_newcomer_yields_to_live_owners_and_does_not_disturb_them(
    first: int, second: int
) -> None:
    town = Town()
    holder = start(town, "a1", first)
    town.pass_time(first // 4)
    epochs = [holder.driver(key("events", n)).consumer.known.epoch for n in range(2)]
    newcomer = start(town, "b1", second)
    town.pass_time(10 * SLOW_MS)
    assert differs(newcomer) == ("a", first)
    assert differs(holder) is None
    assert not newcomer.owned
    assert [holder.driver(key("events", n)).consumer.known.epoch for n in range(2)] == epochs
    assert all(record.message.client_id == "a" for log in town.logs for record in log)


def test_a_group_that_was_stopped_begins_with_another_interval_at_once() -> None:
    """The way to change it: stop all, then start."""
    town = Town()
    start(town, "a1", SLOW_MS)
    town.do("a1", town.members["a1"].stop(town.now_ms))
    silent(town, "a1")
    newcomer = start(town, "b1", FAST_MS)
    assert len(newcomer.owned) == 2


def test_a_group_that_was_killed_begins_with_another_interval_once_all_are_dead_to_all() -> None:
    town = Town()
    start(town, "a1", SLOW_MS)
    silent(town, "a1")
    town.pass_time(SLOW_MS)
    newcomer = start(town, "b1", FAST_MS)
    assert newcomer.waits_for(town.now_ms) is not None
    town.pass_time(2 * SLOW_MS)
    assert not newcomer.owned, "nobody knows how long the last heartbeat has lain there"
    assert newcomer.waits_for(town.now_ms) is not None
    assert newcomer.waits_for(town.now_ms + 1) is None
    town.pass_time(1)
    assert len(newcomer.owned) == 2
    assert newcomer.waits_for(town.now_ms) is None
    assert differs(newcomer) is None


def test_of_two_that_come_at_once_the_earlier_claim_stays() -> None:
    town = Town()
    first = town.join("a1", Claiming(fair_share=False, claims_max=1), interval_ms=SLOW_MS)
    second = town.join("b1", Claiming(fair_share=False, claims_max=1), interval_ms=FAST_MS)
    for name, partition in (("a1", 0), ("b1", 1)):
        town._carry_out(name, town.members[name].add_topic("events", 2, 0, only=[partition]))
    town.settle()
    assert len(first.owned) == 1
    assert differs(second) == ("a", SLOW_MS)
    town.pass_time(10 * SLOW_MS)
    assert differs(first) is None


def test_one_that_slept_while_its_group_came_to_another_interval_yields() -> None:
    """It still owns a claim that nobody else has asked for, and must not go on with it."""
    town = Town()
    sleeper = start(town, "a1", SLOW_MS)
    silent(town, "a1")
    town.pass_time(2 * SLOW_MS)
    newcomer = start(town, "b1", FAST_MS, claims_max=1)
    town.pass_time(3 * SLOW_MS)
    assert len(newcomer.owned) == 1
    town.deaf.clear()
    town.pass_time(0)
    town.settle()
    assert differs(sleeper) == ("b", FAST_MS)
    town.pass_time(10 * SLOW_MS)
    assert differs(newcomer) is None


def test_a_pause_does_not_give_the_group_to_another_interval() -> None:
    """Its owners live on, and claim again when it is over."""
    town = Town()
    holder = start(town, "a1", SLOW_MS)
    town.pass_time(SLOW_MS // 4)
    for place in holder.coordinating_partitions:
        town.append(release_group_sent(ADMIN, "g", 1), place)
    town.deaf.add("a1")
    newcomer = start(town, "b1", FAST_MS)
    assert not newcomer.owned
    town.deaf.clear()
    town.settle()
    town.pass_time(SLOW_MS)
    assert differs(newcomer) == ("a", SLOW_MS)
    assert len(holder.owned) == 2


def test_a_win_says_who_lives_also_before_its_first_heartbeat() -> None:
    """Else somebody whose claim came later, and was won as others judge, would have it too."""
    intervals = Intervals(FAST_MS)
    message = ClaimingPartition(1, 0, "i1", "c1", "g", "events", Partition(0))
    intervals.won(Record(0, 5, 0, message, Headers(True, interval_ms=SLOW_MS)))
    found = intervals.differs(25_000)
    assert found == OwnerReport("i1", "c1", SLOW_MS, 0)


def test_a_newcomer_waits_for_a_winner_whose_first_heartbeat_it_has_not_read() -> None:
    town = Town()
    winner = town.join("a1", Claiming(fair_share=False), interval_ms=SLOW_MS)
    winner.add_topic("events", 1, 0)
    town.deaf.add("a1")
    town._carry_out(
        "a1", [one for n in winner.coordinating_partitions for one in winner.caught_up(n, 0)]
    )
    newcomer = start(town, "b1", FAST_MS)
    assert not newcomer.owned
    waits_for = newcomer.waits_for(town.now_ms)
    assert waits_for is not None
    assert (waits_for.client_id, waits_for.interval_ms) == ("a", SLOW_MS)


def test_whoever_says_no_interval_is_unknown_and_differs_from_nobody() -> None:
    """Version 0.1.0 writes none, and stays in the fleet for a while."""
    town = Town()
    old = start(town, "a1", None, claims_max=1)
    newcomer = start(town, "b1", SLOW_MS)
    town.pass_time(10 * SLOW_MS)
    assert (len(old.owned), len(newcomer.owned)) == (1, 1)
    assert differs(newcomer) is None


# --- what one record says -------------------------------------------------------------------------

KEY = ClaimKey("g", "events", 0)


def beat(offset: int, epoch: int | None, interval_ms: int | None, at_ms: int = 0) -> Record:
    message = Heartbeat(1, 0, "i1", "c1", "g", "events", Partition(0), Offset(5))
    return Record(0, offset, at_ms, message, Headers(True, epoch=epoch, interval_ms=interval_ms))


@pytest.mark.parametrize(
    "record",
    [
        beat(9, 4, None),
        beat(9, None, SLOW_MS),
        beat(9, -2, SLOW_MS),
        beat(9, 9, SLOW_MS),
    ],
    ids=["no interval", "no epoch", "an epoch that is not decimal", "an epoch that is to come"],
)
def test_a_heartbeat_that_proves_no_tenure_proves_no_interval(record: Record) -> None:
    intervals = Intervals(FAST_MS)
    intervals.read(record)
    assert intervals.alive == []
    assert intervals.until_ms is None


def test_a_heartbeat_of_an_earlier_tenure_keeps_nobody_alive() -> None:
    intervals = Intervals(FAST_MS)
    intervals.lives(KEY, OwnerReport("i2", "c2", SLOW_MS, 0), epoch=7)
    intervals.read(beat(9, 4, SLOW_MS, at_ms=50_000))
    assert intervals.alive == [OwnerReport("i2", "c2", SLOW_MS, 0)]


@pytest.mark.parametrize("own_ms", [FAST_MS, 30_000])
def test_owners_live_for_twice_the_larger_interval(own_ms: int) -> None:
    intervals = Intervals(own_ms)
    intervals.lives(KEY, OwnerReport("i2", "c2", SLOW_MS, 0), epoch=7)
    assert intervals.until_ms == 2 * SLOW_MS + 1
    assert intervals.differs(2 * SLOW_MS) is not None
    assert intervals.differs(2 * SLOW_MS + 1) is None


# --- what is heard of a group, without members ----------------------------------------------------


def said(instance: str, interval_ms: int, at_ms: int) -> OwnerReport:
    return OwnerReport(instance, instance[0], interval_ms, at_ms)


def released(instance: str, partition: int, epoch: int) -> Record:
    message = ReleasingPartition(
        1, 0, instance, instance[0], "g", "events", Partition(partition), Offset(0)
    )
    return Record(0, 99, 9000, message, Headers(True, epoch=epoch))


KEYS = [ClaimKey("g", "events", n) for n in range(3)]


def test_intervals_are_named_in_the_order_in_which_they_began() -> None:
    heard = Intervals(SLOW_MS)
    slow, fast = said("a1", SLOW_MS, 1000), said("b1", FAST_MS, 2000)
    heard.lives(KEYS[0], slow, 5)
    heard.lives(KEYS[1], fast, 3)
    assert heard.alive == [fast, slow]
    assert heard.lived_at(1000 + 2 * SLOW_MS) == [fast, slow]
    assert heard.lived_at(1001 + 2 * SLOW_MS) == [fast]
    assert heard.lived_at(2001 + 2 * SLOW_MS) == []


def test_our_own_live_as_long_as_the_slowest_of_the_group() -> None:
    heard = Intervals(FAST_MS)
    slow, fast = said("a1", SLOW_MS, 0), said("b1", FAST_MS, 0)
    heard.lives(KEYS[0], slow, 3)
    heard.lives(KEYS[1], fast, 5)
    assert heard.lived_at(2 * SLOW_MS) == [slow, fast]
    assert heard.until_ms == 2 * SLOW_MS + 1, "those who differ came before ours"


def test_of_several_who_differ_the_first_is_named() -> None:
    heard = Intervals(SLOW_MS)
    later, first = said("a1", FAST_MS, 0), said("b1", 2 * FAST_MS, 0)
    heard.lives(KEYS[0], later, 7)
    heard.lives(KEYS[1], first, 5)
    assert heard.differs(0) == first


def test_a_tenure_that_says_two_intervals_is_not_before_itself() -> None:
    heard = Intervals(SLOW_MS)
    heard.lives(KEYS[0], said("a1", SLOW_MS, 0), 5)
    heard.lives(KEYS[0], said("a1", FAST_MS, 0), 5)
    assert heard.differs(0) is None


def test_of_two_words_at_one_time_the_second_is_the_last() -> None:
    heard = Intervals(SLOW_MS)
    first, second = said("a1", SLOW_MS, 1000), said("b1", SLOW_MS, 1000)
    heard.lives(KEYS[0], first, 1)
    heard.lives(KEYS[1], second, 2)
    assert heard.alive == [second]
    heard.lives(KEYS[0], said("a1", SLOW_MS, 999), 1)
    assert heard.alive == [second]


@pytest.mark.parametrize("instance_and_epoch", [("b1", 5), ("a1", 4)])
def test_only_the_owner_ends_its_tenure(instance_and_epoch: tuple[str, int]) -> None:
    instance, epoch = instance_and_epoch
    heard = Intervals(SLOW_MS)
    slow = said("a1", SLOW_MS, 1000)
    heard.lives(KEYS[0], slow, 5)
    heard.read(released(instance, 0, epoch))
    assert heard.alive == [slow]
    heard.read(released("a1", 0, 5))
    assert heard.alive == []


def test_an_interval_lasts_until_its_last_tenure_ends() -> None:
    heard = Intervals(SLOW_MS)
    other = said("x1", 2 * SLOW_MS, 500)
    heard.lives(KEYS[0], other, 1)
    words = [said(f"{'abc'[n]}1", SLOW_MS, 1000 * (n + 1)) for n in range(3)]
    for n, word in enumerate(words):
        heard.lives(KEYS[n], word, n + 2)
    heard.read(released("c1", 2, 4))
    assert heard.alive == [other, words[1]], "the latest of the others, whatever their order"
    heard.read(released("b1", 1, 3))
    assert heard.alive == [other, words[0]]
    heard.read(released("a1", 0, 2))
    assert heard.alive == [other]


def test_an_interval_that_was_dead_begins_anew() -> None:
    heard = Intervals(SLOW_MS)
    heard.lives(KEYS[0], said("a1", SLOW_MS, 0), 1)
    heard.lives(KEYS[1], said("b1", FAST_MS, 0), 2)
    later_ms = 10 * SLOW_MS
    fast, slow = said("b1", FAST_MS, later_ms), said("a1", SLOW_MS, later_ms)
    heard.lives(KEYS[1], fast, 2, offset=40)
    heard.lives(KEYS[0], slow, 1, offset=50)
    assert heard.alive == [fast, slow]
    heard.lives(KEYS[0], said("a1", SLOW_MS, 2 * later_ms), 60)
    heard.lives(KEYS[1], said("b1", FAST_MS, 2 * later_ms), 2, offset=61)
    assert [each.interval_ms for each in heard.alive] == [SLOW_MS, FAST_MS]
