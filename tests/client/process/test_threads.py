"""A signal's handler may raise into a thread that waits, and no lock is left in a wrong state."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest
from tools.simulate.interrupts import Interrupted, interrupted_at

from kafka_marshal.client.connect.threads import OPERATING_SYSTEM, Answer

PLACES = 30


def interrupts(do: Callable[[], object], place: int) -> bool:
    """Whether an exception at this place ended the call."""
    try:
        with interrupted_at(place):
            do()
    except Interrupted:
        return True
    return False


def elsewhere(do: Callable[[], object]) -> None:
    """Do it in another thread, which must not wait for ever."""
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive()


def test_a_wait_for_a_condition_may_be_interrupted_anywhere() -> None:
    lock = OPERATING_SYSTEM.rlock()
    condition = OPERATING_SYSTEM.condition(lock)

    def wait() -> None:
        with lock:
            condition.wait(0.001)

    def notify() -> None:
        with lock:
            condition.notify()

    assert {interrupts(wait, place) for place in range(1, PLACES)} == {True, False}
    elsewhere(notify)
    assert not interrupts(wait, PLACES)


def test_a_condition_gives_a_lock_back_as_often_as_it_is_held() -> None:
    lock = OPERATING_SYSTEM.rlock()
    condition, came = OPERATING_SYSTEM.condition(lock), []

    def notify() -> None:
        with lock:
            condition.notify_all()

    with lock, lock:
        threading.Thread(target=notify).start()
        came.append(condition.wait(10.0))
    elsewhere(notify)
    assert came == [True]


def test_a_condition_wakes_as_many_threads_as_it_is_told() -> None:
    """One message wakes one of 32 workers that wait for messages."""
    lock = OPERATING_SYSTEM.rlock()
    condition, woken = OPERATING_SYSTEM.condition(lock), queue.SimpleQueue[bool]()
    asleep = queue.SimpleQueue[None]()

    def wait() -> None:
        with lock:
            asleep.put(None)
            woken.put(condition.wait(10.0))

    def notify(n: int) -> None:
        with lock:
            condition.notify(n)

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
        asleep.get(timeout=10.0)
    notify(1)
    assert woken.get(timeout=10.0)
    notify(2)
    assert [woken.get(timeout=10.0), woken.get(timeout=10.0)] == [True, True]
    with pytest.raises(queue.Empty):
        woken.get(timeout=0.1)
    notify(10)
    for thread in threads:
        thread.join()
    assert [woken.get_nowait(), woken.get_nowait()] == [True, True]


@pytest.mark.parametrize("place", range(1, PLACES))
def test_a_thread_that_is_woken_and_interrupted_wakes_another_one(place: int) -> None:
    lock = OPERATING_SYSTEM.rlock()
    condition, woken = OPERATING_SYSTEM.condition(lock), queue.SimpleQueue[bool]()

    def notify() -> None:
        with lock:
            condition.notify()

    notifying = threading.Thread(target=notify)

    def wait_behind_it() -> None:
        with lock:
            notifying.start()
            woken.put(condition.wait(10.0))

    waiting = threading.Thread(target=wait_behind_it)
    with lock:
        waiting.start()
        interrupted = interrupts(lambda: condition.wait(10.0), place)
    if not interrupted:
        notify()
    waiting.join()
    notifying.join()
    assert woken.get_nowait()


def test_a_wait_for_an_event_may_be_interrupted_anywhere() -> None:
    event = OPERATING_SYSTEM.event()
    found = {interrupts(lambda: event.wait(0.001), place) for place in range(1, PLACES)}
    assert found == {True, False}
    elsewhere(event.set)
    assert event.wait()


def test_an_event_wakes_every_thread_that_waits() -> None:
    event, woken = OPERATING_SYSTEM.event(), list[bool]()
    waiting = [threading.Thread(target=lambda: woken.append(event.wait(10.0))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    event.set()
    for thread in waiting:
        thread.join()
    assert woken == [True] * 3


@pytest.mark.parametrize("place", range(1, PLACES))
def test_who_answers_waits_for_nobody_that_was_interrupted(place: int) -> None:
    answer, event = Answer[int](), OPERATING_SYSTEM.event()
    interrupts(lambda: answer.tell(event), place)
    elsewhere(lambda: answer.set_result(7))
    assert answer.result() == 7


def test_an_answer_counts_once() -> None:
    answer, cancelled = Answer[int](), Answer[int]()
    answer.set_result(1)
    answer.set_exception(KeyError())
    assert (answer.result(), answer.cancel(), answer.cancelled()) == (1, False, False)
    assert (cancelled.cancel(), cancelled.cancelled(), cancelled.done()) == (True, True, True)
