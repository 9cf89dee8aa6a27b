"""What time a coordinating partition has, as far as its reader can tell."""

from kafka_marshal.machines.consumer.log_clock import AT_ONCE, LogClock


def test_before_any_record_everything_is_due_at_once() -> None:
    assert LogClock().own_ms(10**15) == AT_ONCE


def test_time_goes_on_from_the_last_record_that_was_read() -> None:
    clock = LogClock()
    assert clock.read(1_000, now_ms=7) == 0
    assert clock.own_ms(1_500) == 507
    clock.read(900, now_ms=8)
    assert clock.own_ms(1_500) == 608, "a broker's clock that was put back"


def test_it_says_how_much_later_it_is_than_it_seemed() -> None:
    clock = LogClock()
    clock.read(1_000, now_ms=0)
    assert clock.read(1_100, now_ms=100) == 0
    assert clock.read(1_150, now_ms=200) == 0, "read late, and not later"
    assert clock.read(9_150, now_ms=200) == 8_000


def test_it_is_current_once_a_record_came_after_the_end_was_read() -> None:
    clock = LogClock()
    clock.read(1_000, now_ms=0)
    assert not clock.current
    clock.caught_up()
    assert not clock.current
    clock.read(1_001, now_ms=0)
    assert clock.current


def test_it_borrows_from_a_clock_that_is_later_and_from_no_other() -> None:
    old, live, unread = LogClock(), LogClock(), LogClock()
    old.read(1_000, now_ms=0)
    live.read(5_000, now_ms=0)
    assert old.borrow(live)
    assert old.own_ms(5_000) == 0
    assert not old.borrow(live)
    assert not live.borrow(old)
    assert not old.borrow(unread)
    assert not unread.borrow(live)
