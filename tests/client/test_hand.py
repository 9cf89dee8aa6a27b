"""A chunk in an application's hand: given out one by one or as lists, done, cut."""

from __future__ import annotations

import pytest
from confluent_kafka import Message as Fetched

from kafka_marshal import ClaimKey
from kafka_marshal.client.fetch.buffers import Chunk
from kafka_marshal.client.fetch.in_flight import Hand
from kafka_marshal.client.fetch.split_fetch import offset_of
from kafka_marshal.client.message import Claim, Messages

KEY = ClaimKey("g", "t", 0)
CLAIM = Claim(KEY, "t", 0, epoch=7, position=3)


def hand_of(*offsets: int, by_commit: bool = False) -> Hand:
    """A chunk from 3 on, that ends two beyond its last message."""
    messages = [Fetched(topic="t", partition=0, offset=offset) for offset in offsets]
    return Hand(Chunk(CLAIM, messages, 3, offsets[-1] + 2), by_commit=by_commit)


def listed(hand: Hand, maximum: int = 100) -> list[int]:
    return [offset_of(message) for message in hand.take(maximum)]


def test_one_by_one_asking_for_the_next_says_that_the_last_is_done() -> None:
    hand = hand_of(3, 4, 6)
    reached = [hand.next]
    for message in hand.taking:
        reached.append(hand.next)
        assert message.offset == hand.next
    assert reached == [3, 3, 4, 6]
    hand.finish()
    assert hand.next == 8


def test_of_a_list_nothing_is_done_before_the_next_is_asked_for_or_it_is_committed() -> None:
    hand = hand_of(3, 4, 6, 7, 9)
    assert listed(hand, 2) == [3, 4]
    assert hand.next == 3
    assert listed(hand, 2) == [6, 7]
    assert hand.next == 5
    hand.commit(6)
    assert hand.next == 7
    assert listed(hand) == [9]
    assert (hand.finished, hand.next) == (False, 8)
    hand.commit(None)
    assert (hand.finished, hand.next) == (True, 11)
    assert listed(hand) == []


def test_a_list_goes_on_where_a_loop_was_left() -> None:
    hand = hand_of(3, 4, 6)
    assert next(hand.taking).offset == 3
    assert listed(hand) == [4, 6]
    assert hand.next == 4
    assert next(hand.taking, None) is None


def test_what_is_cut_ends_after_the_last_that_was_given_out() -> None:
    hand = hand_of(3, 4, 6, 7)
    assert listed(hand, 3) == [3, 4, 6]
    assert hand.cut() == 7
    assert listed(hand) == []
    assert hand.next == 7
    hand = hand_of(3, 4)
    assert hand.cut() == 3
    assert hand.finished


@pytest.mark.parametrize("as_list", [True, False])
def test_what_was_cut_and_then_committed_is_finished(as_list: bool) -> None:
    """Else nothing that comes after it would ever count."""
    hand = hand_of(3, 4, 6, 7, by_commit=True)
    if as_list:
        hand.take(2)
    else:
        assert [next(hand.taking).offset for _ in range(2)] == [3, 4]
    assert hand.cut() == 5
    hand.commit(3)
    assert (hand.finished, hand.next) == (False, 4)
    hand.commit(None)
    assert (hand.finished, hand.next) == (True, 5)


def test_what_is_abandoned_ends_where_it_is_done() -> None:
    hand = hand_of(3, 4, 6)
    hand.take(2)
    hand.commit(3)
    hand.abandon()
    assert (hand.finished, hand.end) == (True, 4)


def test_what_was_not_given_out_is_given_back() -> None:
    hand = hand_of(3, 4, 6, 7)
    assert [next(hand.taking).offset for _ in range(2)] == [3, 4]
    rest = hand.give_back()
    assert rest is not None
    assert [offset_of(message) for message in rest.messages] == [6, 7]
    assert (rest.start, rest.end) == (5, 9)
    assert next(hand.taking, None) is None
    assert (hand.next, hand.end, hand.finished) == (4, 5, False)
    assert hand.give_back() is None


def test_of_what_was_all_given_out_nothing_is_given_back() -> None:
    """What lies behind the last message stays with it."""
    hand = hand_of(3, 4)
    hand.take(2)
    assert hand.give_back() is None
    assert hand.end == 6


def test_what_was_committed_before_it_is_cut_is_finished() -> None:
    """Else nothing that comes after it would count before the next commit."""
    hand = hand_of(3, 4, 6, by_commit=True)
    next(hand.taking)
    hand.commit(None)
    assert not hand.finished
    hand.give_back()
    assert (hand.finished, hand.end) == (True, 4)


def test_messages_are_read_as_a_list() -> None:
    messages = Messages(hand_of(3, 4, 6).take(9), CLAIM)
    assert [message.offset for message in messages] == [3, 4, 6]
    assert (len(messages), bool(messages), messages.claim) == (3, True, CLAIM)
    assert messages[-1].offset == 6
    assert messages[0].epoch == 7
    assert [message.offset for message in messages[1:]] == [4, 6]
    assert [message.offset for message in reversed(messages)] == [6, 4, 3]
    assert repr(messages) == "Messages(t/0 offsets 3 to 6)"


def test_no_messages_are_of_no_claim() -> None:
    none = Messages((), None)
    assert (list(none), len(none), bool(none), repr(none)) == ([], 0, False, "Messages()")
    with pytest.raises(LookupError, match="no claim"):
        _ = none.claim
