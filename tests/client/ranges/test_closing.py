"""Marshal promises that who is closed with messages in hand gives back what it has not begun."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_marshal.client.ranges.shared_claims import (
    RangeFinished,
    RangeMachine,
    SharedClaim,
    SharedClaimEffect,
)
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.ranges.driver import Identity, ParticipantDriver
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler
from tests.client.ranges.test_topics_added_later import consumer, polled


@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
def test_who_is_closed_with_messages_in_hand_leaves_the_rest_to_others_at_once(
    semantics: str, acknowledged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(1)
    kafka = InMemoryKafka(1, scheduler)
    kafka.create("orders", messages=20)
    with consumer(kafka, "c1", semantics=semantics) as first:
        first.add_topic("orders", share="ranges")
        messages = [first.poll(timeout_s=5.0) for _ in range(3)]
        assert [each and each.offset for each in messages] == [0, 1, 2]
        if acknowledged:
            first.ack()
        began_s = scheduler.clock.monotonic()
    assert scheduler.clock.monotonic() < began_s + 1.0  # simulated: it waits for the log alone
    assert "messages 3 to" not in caplog.text, "they are given back"
    repeated = semantics == "at_least_once" and not acknowledged
    with consumer(kafka, "c2", semantics=semantics) as second:
        second.add_topic("orders", share="ranges")
        begin = 0 if repeated else 3
        assert polled(second, 30) == [("orders", at) for at in range(begin, 20)]


@pytest.mark.parametrize(
    "call",
    [
        lambda claim: claim.leave(0),
        lambda claim: claim.take_back(7, 20, 0),
        lambda claim: claim.recalled(7, 20, 0),
        lambda claim: claim.timer(0),
        lambda claim: claim.caught_up(0),
    ],
    ids=["leave", "take_back", "recalled", "timer", "caught_up"],
)
def test_a_range_that_ends_with_no_record_after_it_is_finished_at_once(
    call: Callable[[SharedClaim], list[SharedClaimEffect]],
) -> None:
    """Who left last waited for its release in vain, for 30 s (simulation, seed 20261135)."""
    driver = ParticipantDriver(Identity("i1", "c1"), ClaimKey("g", "orders", 0), 0, 0)
    claim = SharedClaim(driver)
    claim.ranges[7] = RangeMachine(claim, 7, 20)  # cut to what is done, so it is not held any more
    assert RangeFinished(7) in [each.effect for each in call(claim)]
    assert not claim.ranges
