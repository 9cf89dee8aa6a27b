"""Which message a worker may begin: order by partition, by key, or none."""

from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_marshal import ClaimKey
from kafka_marshal.client.process.work_queues import Order, StartedMessage, WorkQueues

ONE, TWO = ClaimKey("g", "t", 1), ClaimKey("g", "t", 2)
Message = tuple[str | None, int]


def lanes(order: Order) -> WorkQueues[Message]:
    return WorkQueues(order, key_of=lambda message: message[0])


def begun(of: WorkQueues[Message]) -> list[StartedMessage[Message]]:
    found = []
    while (one := of.begin()) is not None:
        found.append(one)
    return found


@pytest.mark.parametrize(
    ("order", "at_once"),
    [(Order.PARTITION, [0]), (Order.KEY, [0, 2, 3, 4]), (Order.NONE, [0, 1, 2, 3, 4])],
)
def test_what_may_be_begun_at_once(order: Order, at_once: list[int]) -> None:
    of = lanes(order)
    of.add(ONE, [("a", 0), ("a", 1), ("b", 2), (None, 3), (None, 4)])
    assert [one.message[1] for one in begun(of)] == at_once
    assert of.waiting == 5 - len(at_once)


def test_claims_take_turns_and_do_not_wait_for_each_other() -> None:
    of = lanes(Order.PARTITION)
    of.add(ONE, [("a", 0), ("a", 1)])
    of.add(TWO, [("a", 2)])
    first, second = begun(of)
    assert (first.message[1], second.message[1]) == (0, 2)
    of.finished(first)
    assert [one.message[1] for one in begun(of)] == [1]


def test_a_claim_that_waits_is_passed_over_and_the_others_keep_their_turns() -> None:
    of = lanes(Order.PARTITION)
    keys = [ClaimKey("g", "t", n) for n in range(4)]
    for n, each in enumerate(keys):
        of.add(each, [(None, n)])
    assert of.begin(lambda _: False) is None
    first = of.begin(lambda each: each in (keys[1], keys[3]))
    assert first is not None
    assert first.key == keys[1]
    assert [one.key for one in begun(of)] == [keys[2], keys[3], keys[0]]


def test_one_key_in_two_partitions_is_two_lanes() -> None:
    of = lanes(Order.KEY)
    of.add(ONE, [("a", 0)])
    of.add(TWO, [("a", 1)])
    assert len(begun(of)) == 2


def test_of_a_lost_claim_nothing_more_is_begun_and_what_is_in_hand_frees_nothing() -> None:
    of = lanes(Order.KEY)
    of.add(ONE, [("a", 0), ("a", 1), ("b", 2)])
    first = of.begin()
    assert first is not None
    assert (of.waiting_of(ONE), of.waiting_of(TWO)) == (2, 0)
    assert of.drop(ONE) == 2
    assert of.drop(ONE) == 0
    assert first.dropped
    of.add(ONE, [("a", 10), ("a", 11)])
    again = of.begin()
    assert again is not None
    of.finished(first)
    assert of.begin() is None
    of.finished(again)
    assert [one.message[1] for one in begun(of)] == [11]
    assert of.waiting == 0


@given(st.sampled_from(Order), st.integers(0, 2**32))
def test_everything_is_begun_once_and_nothing_overtakes_in_its_lane(
    order: Order, seed: int
) -> None:
    chance = Random(seed)
    of = lanes(order)
    in_hand: list[StartedMessage[Message]] = []
    done: dict[ClaimKey, list[Message]] = {ONE: [], TWO: []}
    added = 0
    while added < 30 or of.waiting or in_hand:
        choice = chance.randrange(3)
        if choice == 0 and added < 30:
            of.add(chance.choice((ONE, TWO)), [(chance.choice(("a", "b", None)), added)])
            added += 1
        elif choice == 1 and (one := of.begin()) is not None:
            if order is not Order.NONE and one.message[0] is not None:
                busy = {
                    other.message[0] if order is Order.KEY else None
                    for other in in_hand
                    if other.key == one.key
                }
                assert (one.message[0] if order is Order.KEY else None) not in busy
            in_hand.append(one)
        elif choice == 2 and in_hand:
            one = in_hand.pop(chance.randrange(len(in_hand)))
            done[cast("ClaimKey", one.key)].append(one.message)
            of.finished(one)
    assert sorted(number for each in done.values() for _, number in each) == list(range(30))
    for each in done.values():
        if order is Order.PARTITION:
            assert each == sorted(each, key=lambda message: message[1])
        if order is Order.KEY:
            for name in ("a", "b"):
                numbers = [number for key, number in each if key == name]
                assert numbers == sorted(numbers)
