"""When the end of a shared partition is followed, and when it is looked at again."""

import pytest

from kafka_marshal.client.fetch.shared_partition import (
    FAILED_MAX_S,
    LEAD,
    LOOK_MAX_S,
    LOOK_MIN_S,
    REPORT_S,
    WATCH_S,
    SharedPartition,
)

EVENTS = ("events", 0)


def at_rate(rate: int, until_s: float = 10.0) -> SharedPartition:
    """One that has had messages at this rate from 0 s on, and was looked at ten times a second."""
    one = SharedPartition(EVENTS)
    for tenth in range(int(10 * until_s) + 1):
        one.saw(tenth * rate // 10, tenth / 10)
    return one


def test_nothing_is_fetched_before_the_end_was_seen() -> None:
    one = SharedPartition(EVENTS)
    assert one.begin(5, 7.0) is None
    assert one.due_s == 7.0


def test_what_is_there_is_fetched_from_where_it_lacks() -> None:
    one = at_rate(1_000)
    assert one.begin(9_000, 10.0) == 9_000
    assert one.begin(10_000, 10.0) == 10_000
    assert one.due_s is None


def test_the_end_is_followed_when_a_range_is_about_to_begin() -> None:
    one = at_rate(10_000)
    lead = 199
    assert one.begin(100_000 + lead, 10.0) == 100_000
    assert one.begin(100_000 + lead + 10, 10.0) is None
    assert one.due_s == pytest.approx(10.0 + LOOK_MIN_S)


def test_the_further_a_range_lies_the_less_often_the_end_is_looked_at() -> None:
    one = at_rate(1_000)
    due = []
    for ahead in (100, 200, 10_000):
        assert one.begin(10_000 + ahead, 10.0) is None
        assert one.due_s is not None
        due.append(one.due_s - 10.0)
    assert due == pytest.approx([(100 - LEAD) / 2_000, (200 - LEAD) / 2_000, LOOK_MAX_S])


def test_the_end_of_an_idle_partition_is_followed_however_far_the_range_lies() -> None:
    one = at_rate(0)
    assert one.begin(10_000, 10.0) == 0
    one.next = 0
    assert one.begin(10_000, 60.0) == 0


def test_a_partition_that_was_busy_is_idle_after_seconds_without_messages() -> None:
    one = at_rate(10_000)
    for tenth in range(40):
        one.saw(100_000, 10.1 + tenth / 10)
    assert one.begin(200_000, 14.0) == 100_000


def test_an_old_end_is_not_followed_before_it_was_looked_at() -> None:
    one = at_rate(0)
    assert one.begin(20, 11.0) is None
    assert one.due_s == 11.0


def test_who_follows_goes_on_while_little_is_dropped_and_jumps_where_much_is() -> None:
    one = at_rate(0)
    one.next = 0
    one.saw(20, 10.0)
    assert one.begin(20, 10.0) == 0
    assert one.begin(25, 10.0) == 0
    one.saw(5_000, 10.001)
    assert one.begin(4_000, 10.001) == 4_000


def test_a_lower_range_is_fetched_from_where_it_begins() -> None:
    one = at_rate(1_000)
    one.next = 5_000
    assert one.begin(4_999, 10.0) == 4_999


def test_nothing_more_is_fetched_while_buffers_are_full_or_no_range_lacks_anything() -> None:
    one = at_rate(1_000)
    one.next = 5_000
    assert one.begin(None, 10.0) is None
    one.full = True
    assert one.begin(5_000, 10.0) is None
    assert one.due_s is None


def test_a_watched_end_is_looked_at_now_and_then_while_nothing_is_fetched() -> None:
    one = SharedPartition(EVENTS, watched=True)
    assert one.begin(None, 1.0) is None
    assert one.due_s == 1.0
    one.saw(10, 1.0)
    assert one.begin(None, 1.5) is None
    assert one.due_s == 1.0 + WATCH_S


def test_a_look_that_failed_is_repeated_ever_later_until_one_succeeds() -> None:
    one = SharedPartition(EVENTS)
    waits = []
    for _ in range(7):
        one.failed(1.0)
        assert one.begin(5, 1.0) is None
        assert one.due_s is not None
        waits.append(one.due_s - 1.0)
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, FAILED_MAX_S, FAILED_MAX_S])
    one.saw(5, 9.0)
    assert one.begin(5, 9.0) == 5


def test_an_end_that_steps_back_says_nothing_about_what_arrives() -> None:
    one = at_rate(1_000)
    one.saw(50, 10.5)
    assert one.rate == 0.0
    assert one.begin(10_000, 10.5) == 50


def test_an_end_is_reported_when_it_moves_and_not_too_often() -> None:
    one = SharedPartition(EVENTS)
    assert one.report(1.0) is None
    one.saw(5, 1.0)
    assert one.report(1.0) == 5
    one.saw(6, 1.01)
    assert one.report(1.01) is None
    assert one.report(1.0 + REPORT_S) == 6
    assert one.report(9.0) is None
