"""A record says by which right it was written, and a reader drops what came too late."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from examples.fenced_transform import Fences, read, transformed

from kafka_marshal import Fence, InvalidOption, MalformedRecord, Producer
from kafka_marshal.client.message import Claim, Message, Range
from kafka_marshal.core.messages import Partition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.testing import Broker
from tests.client.crew import Stage, until

WITHIN_S = 60.0
KEY = ClaimKey("billing", "orders", Partition(3))


class Fetched:
    """What a message asks of that of Kafka's client."""

    def offset(self) -> int:
        return 41


def test_a_consumer_that_was_replaced_writes_and_a_reader_drops_it(kafka_broker: Broker) -> None:
    """A zombie: it stands still until its claim is another's, and goes on with what it has."""
    stage = Stage(kafka_broker)
    source, to = stage.topic(1, 4), stage.topic(1, 0)
    every: dict[str, Any] = {"heartbeat_interval_s": 0.5}
    go_on = threading.Event()
    with Producer(kafka_broker.bootstrap) as producer, stage.consumer("w1", **every) as zombie:

        def writes(*messages: Message) -> None:
            records = (transformed(message, to) for message in messages)
            producer.send(*records, fence=messages[0]).result(WITHIN_S)

        zombie.add_topic(source)
        first, *in_hand = zombie.consume(2, WITHIN_S)
        writes(first)
        zombie._coordinator.do(lambda: go_on.wait(WITHIN_S))
        try:
            with stage.consumer("w2", **every) as successor:
                successor.add_topic(source)
                until(lambda: successor.claims)
                writes(*successor.consume(4, WITHIN_S))
                successor.ack()
                assert zombie.claims[0].owned  # as far as it knows
                writes(*in_hand)
        finally:
            go_on.set()
    found = list(read(kafka_broker.bootstrap, to))
    values = [value for _, value, _ in found]
    assert values == [b"0", b"0", b"1", b"2", b"3", b"1"], "a topic cannot refuse the zombie"
    assert [admitted for _, _, admitted in found] == [True] * 5 + [False]


def test_the_names_of_a_fence_are_apart_and_the_newest_tenure_counts() -> None:
    fences = Fences()

    def admits(name: str, tenure: int) -> bool:
        return fences.admits([Fence(name, tenure).header])

    assert [admits("a", 5), admits("a", 9), admits("a", 5), admits("a", 9)] == [
        True,
        True,
        False,
        True,
    ]
    assert admits("b", 1)
    assert fences.admits(None)
    # A copied header is not the one that counts.
    assert not fences.admits([Fence("a", 9).header, Fence("a", 8).header])


def test_a_fence_is_that_of_a_claim_a_message_or_a_name() -> None:
    claim = Claim(KEY, "orders", 3, epoch=17, position=0)
    shared = Claim(KEY, "orders", 3, epoch=21, position=0, range=Range(21, 40, 50))
    fetched: Any = Fetched()
    assert Fence.of(claim) == Fence.of(Message(fetched, claim)) == Fence("billing/orders/3", 17)
    assert Fence.of(Message(fetched, shared)) == Fence("billing/orders/3/41", 21)
    assert Fence.of(("table", 3)) == Fence.of(Fence("table", 3))
    with pytest.raises(InvalidOption, match=r"billing/orders/3 is shared.*give the message"):
        Fence.of(shared)


@pytest.mark.parametrize(
    "token",
    [("name", -1), ("name", 2**63), ("", 1), ("\ud800", 1), (b"name", 1), (1, 2, 3), "name", None],
)
def test_what_is_no_token_is_named(token: Any) -> None:
    with pytest.raises(InvalidOption, match="fence"):
        Fence.of(token)


@pytest.mark.parametrize("value", [None, b"", b"17", b"-1 a", b"9999999999999999999 a", b"x a"])
def test_a_header_that_is_no_fence_is_refused_and_not_taken_for_none(value: bytes | None) -> None:
    with pytest.raises(MalformedRecord, match="malformed header marshal-fence"):
        Fence.in_headers([("marshal-fence", value)])
