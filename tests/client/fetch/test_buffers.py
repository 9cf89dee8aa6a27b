"""What was fetched and not handed over: bounds, turns, ranges, gaps."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.simulate.interrupts import Interrupted, interrupted_at

from kafka_marshal import ClaimKey
from kafka_marshal.client.fetch.buffers import BufferLimits, Buffers, MessageChunk, joined

ONE, TWO = ClaimKey("g", "t", 1), ClaimKey("g", "t", 2)


def buffers(messages: int = 100, size: int = 1000, in_all: int = 1000) -> Buffers[ClaimKey, int]:
    """Messages that are their offsets, of one byte each."""
    return Buffers(lambda offset: offset, len, BufferLimits(messages, size, bytes_in_all=in_all))


def taken(of: Buffers[ClaimKey, int], maximum: int = 100) -> list[tuple[int, Sequence[int], int]]:
    found: list[tuple[int, Sequence[int], int]] = []
    while (chunk := of.take(maximum)) is not None:
        found.append((chunk.key.topic_partition, list(chunk.messages), chunk.end))
    return found


def test_nothing_is_handed_over_before_it_was_allowed() -> None:
    of = buffers()
    of.open(ONE, 0)
    assert of.add(ONE, [0, 1, 2]) == 3
    assert of.take(10) is None
    of.allow(ONE, range(0, 2))
    assert of.ready
    assert taken(of) == [(1, [0, 1], 2)]
    of.allow(ONE, range(2, 5))
    assert taken(of) == [(1, [2], 3)]
    of.add(ONE, [3, 4, 5])
    assert taken(of) == [(1, [3, 4], 5)]


def test_claims_take_turns() -> None:
    of = buffers()
    for key in (ONE, TWO):
        of.open(key, 0)
        of.allow(key, range(0, 10))
        of.add(key, [0, 1, 2, 3])
    assert [key for key, *_ in taken(of, 2)] == [1, 2, 1, 2]


def test_of_a_lane_the_lowest_goes_first_and_a_lane_takes_one_turn() -> None:
    of: Buffers[object, int] = Buffers(lambda offset: offset, len)
    for key, begin, lane in (
        (20, 20, "lane"),
        (0, 0, "lane"),
        ("other", 0, None),
        (10, 10, "lane"),
    ):
        of.open(key, begin, lane)
        of.allow(key, range(begin, begin + 10))
        of.add(key, [*range(begin, begin + 10)])
    assert of.ready_beside(20)
    keys = []
    while (chunk := of.take(5)) is not None:
        keys.append(chunk.key)
    assert keys == [0, "other", 0, "other", 10, 10, 20, 20]
    of.open("other", 0)
    of.open(30, 30, "lane")
    of.open(40, 40, "lane")
    for key in (30, 40):
        of.allow(key, range(key, key + 1))
        of.add(key, [key])
    assert not of.ready_beside(30)
    of.drop(40)
    assert of.ready
    of.drop(30)
    assert not of.ready


def test_what_was_cut_is_neither_handed_over_nor_counted() -> None:
    of = buffers()
    of.open(ONE, 0)
    of.allow(ONE, range(0, 20))
    for begin in (0, 4, 8):
        of.add(ONE, [*range(begin, begin + 4)])
    of.cut(ONE, 6)
    assert of.waiting(ONE) == of.waiting_bytes(ONE) == 6
    of.cut(ONE, 9)
    assert taken(of) == [(1, [0, 1, 2, 3, 4, 5], 6)]
    of.allow(ONE, range(9, 12))
    of.cut(ONE, 0)
    assert taken(of) == []
    of.cut(TWO, 0)


def test_a_cut_frees_what_is_full() -> None:
    of = buffers(messages=4)
    of.open(ONE, 0)
    of.allow(ONE, range(0, 20))
    of.add(ONE, [0, 1, 2, 3])
    assert of.full == {ONE}
    of.cut(ONE, 2)
    assert of.full == frozenset()


def test_what_is_put_back_comes_next_of_its_claim_after_the_others() -> None:
    of = buffers()
    of.open(ONE, 0)
    of.allow(ONE, range(0, 5))
    of.add(ONE, [0, 1, 2, 3, 4, 5])
    chunk = of.take(4)
    assert chunk is not None
    of.open(TWO, 0)
    of.allow(TWO, range(0, 1))
    assert not of.ready_beside(ONE)
    of.add(TWO, [0])
    assert of.ready_beside(ONE)
    of.put_back(MessageChunk(ONE, chunk.messages[1:], 1, chunk.end))
    assert of.waiting(ONE) == of.waiting_bytes(ONE) == 5
    assert taken(of) == [(2, [0], 1), (1, [1, 2, 3, 4], 5)]
    of.allow(ONE, range(5, 6))
    assert taken(of) == [(1, [5], 6)]


def test_what_is_put_back_after_a_seek_is_dropped() -> None:
    of = buffers()
    of.open(ONE, 0)
    of.allow(ONE, range(0, 9))
    of.add(ONE, [0, 1, 2])
    assert taken(of) == [(1, [0, 1, 2], 3)]
    of.open(ONE, 7)
    of.put_back(MessageChunk(ONE, [1, 2], 1, 3))
    of.allow(ONE, range(0, 9))
    of.add(ONE, [7, 8])
    assert taken(of) == [(1, [7, 8], 9)]


def test_what_was_fetched_in_pieces_is_handed_over_in_one() -> None:
    of = buffers()
    of.open(ONE, 0)
    of.allow(ONE, range(0, 8))
    for offsets in ([0, 1], [2], [5, 6, 7], [8]):
        of.add(ONE, offsets)
    assert taken(of, 4) == [(1, [0, 1, 2, 5], 6), (1, [6, 7], 8)]
    of.allow(ONE, range(8, 20))
    assert taken(of, 4) == [(1, [8], 9)]


def test_of_a_lost_claim_nothing_is_handed_over() -> None:
    of = buffers()
    for key in (ONE, TWO):
        of.open(key, 0)
        of.allow(key, range(0, 10))
        of.add(key, [0, 1])
    assert of.waiting(ONE) == 2
    assert of.drop(ONE) == 2
    assert of.drop(ONE) == 0
    assert of.add(ONE, [2]) is None
    assert taken(of) == [(2, [0, 1], 2)]


def test_of_a_claim_that_is_lost_but_for_a_grant_only_that_is_kept() -> None:
    of = buffers(messages=6, in_all=8)
    of.open(ONE, 0)
    of.open(TWO, 0)
    of.add(TWO, [0, 1])
    of.allow(ONE, range(0, 4))
    of.add(ONE, [0, 1, 2, 5])
    of.add(ONE, [6, 7])
    assert of.full == {ONE}
    assert of.end_at(ONE, 4) == 3
    assert (of.waiting(ONE), of.waiting_bytes(ONE)) == (3, 3)
    assert not of.full
    assert of.add(ONE, [8, 9]) is None, "it was fetched up to its end before"
    assert of.end_at(ONE, 4) == 0
    assert taken(of, 2) == [(1, [0, 1], 2), (1, [2], 4)]
    assert of.waits, "the other has some"
    assert of.end_at(ClaimKey("g", "t", 3), 4) == 0


def test_what_is_fetched_of_it_later_is_cut_at_its_end() -> None:
    of = buffers()
    of.open(ONE, 0)
    of.allow(ONE, range(0, 4))
    of.add(ONE, [0])
    assert of.end_at(ONE, 4) == 0
    assert of.add(ONE, [1, 2, 5]) == 4
    assert of.waiting(ONE) == 3
    assert taken(of) == [(1, [0, 1, 2], 4)]
    of.open(TWO, 0)
    of.allow(TWO, range(0, 4))
    of.end_at(TWO, 4)
    assert of.add(TWO, [7, 8]) == 4
    assert taken(of) == [(2, [], 4)]
    assert not of.waits


def test_a_claim_won_anew_begins_at_its_position() -> None:
    of = buffers()
    of.open(ONE, 0)
    of.allow(ONE, range(0, 10))
    of.add(ONE, [0, 1])
    of.open(ONE, 7)
    assert of.take(10) is None
    assert of.add(ONE, [5, 6]) is None
    of.allow(ONE, range(7, 9))
    of.add(ONE, [7, 8])
    assert taken(of) == [(1, [7, 8], 9)]


def test_a_full_buffer_is_fetched_again_when_half_of_it_is_free() -> None:
    of = buffers(messages=4)
    of.open(ONE, 0)
    of.allow(ONE, range(0, 100))
    of.add(ONE, [0, 1, 2])
    assert not of.full
    of.add(ONE, [3])
    assert of.full == {ONE}
    of.take(1)
    assert of.full == {ONE}
    of.take(1)
    assert not of.full


def test_a_buffer_is_full_by_its_bytes() -> None:
    of = buffers(size=4)
    of.open(ONE, 0)
    of.allow(ONE, range(0, 100))
    of.add(ONE, [0, 1, 2])
    assert not of.full
    of.add(ONE, [3])
    assert of.full == {ONE}
    assert of.waiting_bytes(ONE) == 4
    of.take(1)
    assert of.full == {ONE}
    of.take(1)
    assert not of.full
    assert of.waiting_bytes(ONE) == 2


def test_all_buffers_together_are_bounded() -> None:
    of = buffers(in_all=10)
    for key in (ONE, TWO):
        of.open(key, 0)
        of.allow(key, range(0, 100))
    of.add(ONE, [0, 1, 2, 3, 4, 5])
    assert not of.full
    of.add(TWO, [0, 1, 2, 3, 4, 5])
    assert of.full == {TWO}
    of.drop(ONE)
    of.take(1)
    assert not of.full


def test_offsets_without_messages_are_passed_over() -> None:
    of = buffers()
    of.open(ONE, 0)
    of.allow(ONE, range(0, 10))
    of.add(ONE, [2, 5])
    assert taken(of) == [(1, [2, 5], 6)]
    assert of.nothing_below(ONE, 12) == 12
    assert of.nothing_below(ONE, 12) is None
    assert taken(of) == [(1, [], 10)]
    of.allow(ONE, range(10, 20))
    assert taken(of) == [(1, [], 12)]


def test_of_two_ranges_apart_what_lies_between_is_left_out() -> None:
    of = buffers()
    of.open(ONE, 0)
    of.add(ONE, list(range(10)))
    of.allow(ONE, range(0, 2))
    of.allow(ONE, range(5, 7))
    assert taken(of) == [(1, [0, 1], 2), (1, [5, 6], 7)]
    assert of.waiting(ONE) == 3


@given(st.sets(st.integers(0, 40), max_size=20).map(sorted), st.integers(0, 2**32))
def test_everything_allowed_is_handed_over_once_and_in_order(offsets: list[int], seed: int) -> None:
    chance = Random(seed)
    of = buffers(messages=5)
    of.open(ONE, 0)
    given_out: list[int] = []
    added = allowed = end = 0
    while added < len(offsets) or allowed < 50:
        match chance.randrange(3):
            case 0 if added < len(offsets):
                count = chance.randint(1, 4)
                of.add(ONE, offsets[added : added + count])
                added += count
            case 1 if allowed < 50:
                more = chance.randint(1, 20)
                of.allow(ONE, range(allowed, allowed + more))
                allowed += more
            case _:
                chunk = of.take(chance.randint(1, 5))
                if chunk is not None:
                    assert chunk.start == end
                    end = chunk.end
                    assert all(chunk.start <= offset < chunk.end for offset in chunk.messages)
                    assert chunk.end <= allowed
                    given_out += chunk.messages
                    if chunk.messages and chance.randrange(2):
                        kept = chance.randrange(len(chunk.messages))
                        rest = chunk.messages[kept:]
                        end = given_out[-len(rest) - 1] + 1 if kept else chunk.start
                        del given_out[-len(rest) :]
                        of.put_back(MessageChunk(ONE, rest, end, chunk.end))
    while (chunk := of.take(7)) is not None:
        given_out += chunk.messages
    assert given_out == offsets
    assert of.waiting(ONE) == 0
    assert not of.full


def test_ranges_that_touch_are_one_and_others_stay_apart() -> None:
    assert joined([range(2, 3)], range(3, 5)) == [range(2, 5)]
    assert joined([range(2, 9)], range(3, 5)) == [range(2, 9)]
    assert joined([range(2, 3), range(8, 9)], range(4, 5)) == [
        range(2, 3),
        range(4, 5),
        range(8, 9),
    ]


def test_it_is_known_whether_anything_waits() -> None:
    of, waits = buffers(), []
    for key, offsets in ((ONE, [0, 1, 2]), (TWO, [0, 1])):
        assert of.waiting(key) == of.waiting_bytes(key) == 0
        of.open(key, 0)
        of.allow(key, range(0, 10))
        waits.append(of.waits)
        of.add(key, offsets)
        waits.append(of.waits)
        of.drop(key)
    assert waits == [False, True, False, True]
    for key, offsets in ((ONE, [0, 1, 2]), (TWO, [0, 1])):
        of.open(key, 0)
        of.allow(key, range(0, 10))
        of.add(key, offsets)
    of.drop(ONE)
    chunk = of.take(10)
    assert chunk is not None
    waits.append(of.waits)
    of.open(ONE, 0)
    of.allow(ONE, range(0, 10))
    of.add(ONE, [0, 1, 2])
    of.put_back(MessageChunk(TWO, chunk.messages[1:], 1, chunk.end))
    assert taken(of, 3) == [(1, [0, 1, 2], 3), (2, [1], 2)]
    assert [*waits[4:], of.waits] == [False, False]


def test_what_a_lost_claim_had_makes_nothing_full() -> None:
    of = buffers(in_all=10)
    of.open(ONE, 0)
    of.add(ONE, list(range(10)))
    of.drop(ONE)
    assert not of.full
    of.open(ONE, 0)
    of.add(ONE, list(range(9)))
    assert not of.full
    of.add(ONE, [9])
    assert of.full == {ONE}
    of.drop(ONE)
    assert not of.full


def test_what_others_have_counts_when_a_claim_is_lost() -> None:
    of = buffers(in_all=10)
    for key, count in ((ONE, 4), (TWO, 5)):
        of.open(key, 0)
        of.add(key, list(range(count)))
    of.drop(ONE)
    of.open(ONE, 0)
    of.add(ONE, list(range(4)))
    assert not of.full
    of.add(ONE, [4])
    assert of.full == {ONE}


def test_what_was_handed_over_before_it_was_measured_hides_nothing() -> None:
    of = buffers(size=4)
    of.open(ONE, 0)
    of.allow(ONE, range(0, 10))
    of.add(ONE, [0])
    of.take(1)
    of.add(ONE, [1, 2, 3, 4])
    assert of.full == {ONE}


def test_ranges_that_are_allowed_one_after_the_other_are_one() -> None:
    of = buffers()
    of.allow(ONE, range(0, 4))
    of.open(ONE, 0)
    of.add(ONE, list(range(10)))
    of.allow(ONE, range(2, 4))
    of.allow(ONE, range(4, 6))
    assert taken(of) == [(1, [2, 3, 4, 5], 6)]


def test_the_last_messages_reach_to_where_the_log_is_known_to_hold_no_more() -> None:
    of = buffers()
    of.open(ONE, 0)
    of.add(ONE, [0])
    assert of.nothing_below(ONE, 9) == 9
    of.allow(ONE, range(0, 20))
    assert taken(of) == [(1, [0], 9)]


def test_messages_are_counted_by_their_own_sizes_and_found_by_their_offsets() -> None:
    of: Buffers[ClaimKey, str] = Buffers(lambda message: len(message), lambda ms: len("".join(ms)))
    of.open(ONE, 0)
    of.allow(ONE, range(0, 4))
    of.add(ONE, ["22", "333", "55555"])
    assert of.waiting_bytes(ONE) == 10
    assert of.take(1) == MessageChunk(ONE, ["22"], 0, 3)
    assert of.waiting_bytes(ONE) == 7, "a third of them is a third of what they had"
    assert of.take(2) == MessageChunk(ONE, ["333"], 3, 4)
    assert of.waiting_bytes(ONE) == 4


def test_what_was_taken_before_anybody_asks_how_much_there_is_fills_nothing() -> None:
    of = buffers(messages=4)
    of.open(ONE, 0)
    of.allow(ONE, range(0, 100))
    of.add(ONE, [0, 1, 2, 3])
    of.take(1)
    assert not of.full
    assert of.waiting_bytes(ONE) == 3


def test_what_is_taken_of_one_makes_room_for_all() -> None:
    of = buffers(in_all=10)
    for key in (ONE, TWO):
        of.open(key, 0)
        of.add(key, [0, 1, 2, 3, 4, 5])
    assert of.full == {TWO}
    of.allow(TWO, range(0, 100))
    of.take(2)
    assert of.full == {TWO}, "ten are as many as there may be"
    of.take(1)
    assert not of.full
    of.add(TWO, [6])
    assert of.full == {TWO}


def test_what_was_fetched_before_a_range_is_left_out_and_fills_nothing() -> None:
    of = buffers(messages=4)
    of.open(ONE, 0)
    of.add(ONE, [0, 1, 2, 3])
    assert of.full == {ONE}
    of.nothing_below(ONE, 9)
    of.allow(ONE, range(5, 8))
    assert of.take(10) == MessageChunk(ONE, (), 5, 8)
    assert not of.full
    of.allow(ONE, range(12, 14))
    of.add(ONE, [10, 11, 13])
    assert of.take(10) == MessageChunk(ONE, [13], 12, 14)


@pytest.mark.parametrize("step", ["take", "add"])
def test_an_interrupt_leaves_no_half_a_step_that_another_thread_would_meet(step: str) -> None:
    steps: dict[str, Callable[[Buffers[ClaimKey, int]], object]] = {
        "take": lambda of: of.take(10),
        "add": lambda of: of.add(ONE, [2, 3]),
    }
    for place in range(1, 100):
        of = buffers()
        for key in (ONE, TWO):
            of.open(key, 0)
            of.add(key, [0, 1])
            of.allow(key, range(10))
        try:
            with interrupted_at(place):
                steps[step](of)
        except Interrupted:
            for key in (ONE, TWO):
                of.drop(key)
            assert of.take(10) is None
            assert not of.waits
        else:
            assert place > 5
            return
