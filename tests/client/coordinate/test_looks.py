"""Marshal promises that a consumer with nothing in hand rests, and misses nothing that is taken."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

import pytest

from kafka_marshal import Consumer
from kafka_marshal.client.coordinate.consumer_loop import ConsumerLoop
from kafka_marshal.client.coordinate.inputs import Input
from kafka_marshal.client.coordinate.ownership import Ownership
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health import Heartbeats, LateHeartbeat
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler


def test_claims_are_looked_at_rarely_until_something_of_them_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look, looked = Ownership.look, list[float]()
    scheduler = Scheduler(1)
    clock = scheduler.clock

    def noted(held: Ownership) -> None:
        looked.append(clock.monotonic())
        look(held)

    monkeypatch.setattr(Ownership, "look", noted)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders")
    with Consumer(settings=kafka.settings(), group_id="g", client_id="c1") as consumer:
        consumer.add_topic("orders")
        consumer.poll(timeout_s=5.0)
        looked.clear()
        assert consumer.poll(timeout_s=30.0) is None
        assert len(looked) <= 2, "what the start has left, and no more before a heartbeat is late"
        for phase_s in (0.0, 0.1, 0.3, 0.6):
            scheduler.sleep(phase_s)
            kafka.produce("orders", 1)
            assert consumer.poll(timeout_s=5.0) is not None
            taken_s = clock.monotonic()
            scheduler.sleep(2.0)
            times = [taken_s, *(at_s for at_s in looked if at_s > taken_s)]
            gaps = [after - before for before, after in pairwise(times)]
            assert len(times) > 7
            assert max(gaps) < 0.26
            assert consumer.poll(timeout_s=2.0) is None, "it is done, and nothing is in hand"


def test_a_claim_is_given_back_for_a_share_although_nothing_of_it_is_in_hand() -> None:
    scheduler = Scheduler(1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders", partitions=2, messages=10)
    first, second = (
        Consumer(settings=kafka.settings(), group_id="g", client_id=client) for client in "ab"
    )
    with first, second:
        first.add_topic("orders")
        scheduler.sleep(10.0)
        assert len(first.claims) == 2
        second.add_topic("orders")
        scheduler.sleep(10.0)
        assert len(first.claims) == len(second.claims) == 1


def test_who_gives_many_claims_up_looks_once_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    look, looked = Heartbeats.look, list[Heartbeats]()

    def noted(heartbeats: Heartbeats, now_ms: int) -> LateHeartbeat | None:
        looked.append(heartbeats)
        return look(heartbeats, now_ms)

    kafka = InMemoryKafka(scheduler=Scheduler(1))
    kafka.create("orders", partitions=40)
    with Consumer(settings=kafka.settings(), group_id="g", client_id="c1") as consumer:
        consumer.add_topic("orders")
        consumer.poll(timeout_s=10.0)
        assert len(consumer.claims) == 40
        monkeypatch.setattr(Heartbeats, "look", noted)
    assert len(looked) <= 3 * 40, "in all looks until the end, and when each is lost"


def test_a_late_heartbeat_is_noticed_soon_although_nothing_is_in_hand() -> None:
    late: list[float] = []
    scheduler = Scheduler(1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders")

    class Late(Observer):
        def late(self, claim: Claim, _: LateHeartbeat) -> None:
            late.append(scheduler.clock.monotonic())

    with Consumer(
        settings=kafka.settings(),
        group_id="g",
        client_id="c1",
        heartbeat_interval_s=0.5,
        observers=[Late()],
    ) as consumer:
        consumer.add_topic("orders")
        consumer.poll(timeout_s=5.0)
        for phase_s in (0.0, 0.1, 0.2, 0.3):
            scheduler.sleep(2.0 + phase_s)
            late.clear()
            kafka.hold_log()
            cut_s = scheduler.clock.monotonic()
            scheduler.sleep(3.0)
            kafka.flow()
            assert late
            assert late[0] - cut_s < 1.3, "one interval after it was due, and a look"


def test_who_follows_a_range_at_most_once_wakes_no_other_thread_for_each_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle, handled = ConsumerLoop.handle, Counter[str]()

    def counted(loop: ConsumerLoop, given: Input, now_ms: int) -> None:
        handled[type(given).__name__] += 1
        handle(loop, given, now_ms)

    scheduler = Scheduler(1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders")
    with Consumer(
        settings=kafka.settings(), group_id="g", client_id="c1", semantics="at_most_once"
    ) as consumer:
        consumer.add_topic("orders", share="ranges")
        kafka.produce("orders", 100)
        messages = iter(consumer)
        assert len([*islice(messages, 100)]) == 100
        scheduler.sleep(2.0)
        monkeypatch.setattr(ConsumerLoop, "handle", counted)
        for expected in range(100, 600):  # in a second
            scheduler.sleep(0.002)
            kafka.produce("orders", 1)
            assert next(messages).offset == expected
        monkeypatch.undo()
    print(handled)
    assert handled["MessagesFetched"] < 50, "a range begins, and it ends"
    assert 50 < handled["Progressed"] < 200, "every 10 ms"
