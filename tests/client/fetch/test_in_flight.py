"""A chunk in an application's hand: given out one by one or as lists, done, cut."""

from __future__ import annotations

import sys
import threading

import pytest
from confluent_kafka import Message as Fetched

from kafka_marshal import ClaimKey
from kafka_marshal.client.fetch.buffers import MessageChunk
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.fetch.split_fetch import offset_of
from kafka_marshal.client.message import Claim, Messages

KEY = ClaimKey("g", "t", 0)
CLAIM = Claim(KEY, "t", 0, epoch=7, position=3)


def hand_of(*offsets: int, by_commit: bool = False) -> InFlight:
    """A chunk from 3 on, that ends two beyond its last message."""
    messages = [Fetched(topic="t", partition=0, offset=offset) for offset in offsets]
    return InFlight(
        MessageChunk(CLAIM, messages, 3, offsets[-1] + 2), threading.Lock(), by_commit=by_commit
    )


def listed(in_flight: InFlight, maximum: int = 100) -> list[int]:
    return [offset_of(message) for message in in_flight.take(maximum)]


def test_one_by_one_asking_for_the_next_says_that_the_last_is_done() -> None:
    in_flight = hand_of(3, 4, 6)
    reached = [in_flight.next]
    for message in in_flight.taking:
        reached.append(in_flight.next)
        assert message.offset == in_flight.next
    assert reached == [3, 3, 4, 6]
    in_flight.finish()
    assert in_flight.next == 8


def test_of_a_list_nothing_is_done_before_the_next_is_asked_for_or_it_is_committed() -> None:
    in_flight = hand_of(3, 4, 6, 7, 9)
    assert listed(in_flight, 2) == [3, 4]
    assert in_flight.next == 3
    assert listed(in_flight, 2) == [6, 7]
    assert in_flight.next == 5
    in_flight.commit(6)
    assert in_flight.next == 7
    assert listed(in_flight) == [9]
    assert (in_flight.finished, in_flight.next) == (False, 8)
    in_flight.commit(None)
    assert (in_flight.finished, in_flight.next) == (True, 11)
    assert listed(in_flight) == []


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("maximum", [1, 2, 3])
def test_a_finished_chunk_holds_none_of_its_messages(maximum: int, cut: bool) -> None:
    messages = [Fetched(topic="t", partition=0, offset=offset) for offset in (3, 4)]
    before = [sys.getrefcount(message) for message in messages]
    in_flight = InFlight(MessageChunk(CLAIM, tuple(messages), 3, 5), threading.Lock())
    in_flight.take(maximum)
    if cut:
        in_flight.cut()
    in_flight.finish()
    assert [sys.getrefcount(message) for message in messages] == before


def test_a_list_goes_on_where_a_loop_was_left() -> None:
    in_flight = hand_of(3, 4, 6)
    assert next(in_flight.taking).offset == 3
    assert listed(in_flight) == [4, 6]
    assert in_flight.next == 4
    assert next(in_flight.taking, None) is None


def test_what_is_cut_ends_after_the_last_that_was_given_out() -> None:
    in_flight = hand_of(3, 4, 6, 7)
    assert listed(in_flight, 3) == [3, 4, 6]
    assert in_flight.cut() == 7
    assert listed(in_flight) == []
    assert in_flight.next == 7
    in_flight = hand_of(3, 4)
    assert in_flight.cut() == 3
    assert in_flight.finished


@pytest.mark.parametrize("as_list", [True, False])
def test_what_was_cut_and_then_committed_is_finished(as_list: bool) -> None:
    """Else nothing that comes after it would ever count."""
    in_flight = hand_of(3, 4, 6, 7, by_commit=True)
    if as_list:
        in_flight.take(2)
    else:
        assert [next(in_flight.taking).offset for _ in range(2)] == [3, 4]
    assert in_flight.cut() == 5
    in_flight.commit(3)
    assert (in_flight.finished, in_flight.next) == (False, 4)
    in_flight.commit(None)
    assert (in_flight.finished, in_flight.next) == (True, 5)


def test_what_is_abandoned_ends_where_it_is_done() -> None:
    in_flight = hand_of(3, 4, 6)
    in_flight.take(2)
    in_flight.commit(3)
    in_flight.abandon()
    assert (in_flight.finished, in_flight.end) == (True, 4)


def test_what_was_not_given_out_is_given_back() -> None:
    in_flight = hand_of(3, 4, 6, 7)
    assert [next(in_flight.taking).offset for _ in range(2)] == [3, 4]
    rest = in_flight.give_back()
    assert rest is not None
    assert [offset_of(message) for message in rest.messages] == [6, 7]
    assert (rest.start, rest.end) == (5, 9)
    assert next(in_flight.taking, None) is None
    assert (in_flight.next, in_flight.end, in_flight.finished) == (4, 5, False)
    assert in_flight.give_back() is None


def test_of_what_was_all_given_out_nothing_is_given_back() -> None:
    """What lies behind the last message stays with it."""
    in_flight = hand_of(3, 4)
    in_flight.take(2)
    assert in_flight.give_back() is None
    assert in_flight.end == 6


def test_what_was_committed_before_it_is_cut_is_finished() -> None:
    """Else nothing that comes after it would count before the next commit."""
    in_flight = hand_of(3, 4, 6, by_commit=True)
    next(in_flight.taking)
    in_flight.commit(None)
    assert not in_flight.finished
    in_flight.give_back()
    assert (in_flight.finished, in_flight.end) == (True, 4)


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
