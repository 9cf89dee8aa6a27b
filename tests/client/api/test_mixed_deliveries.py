"""Ways of taking messages are mixed: one is done when the way it was given out says so."""

from __future__ import annotations

from itertools import islice

import pytest

from kafka_marshal.client.api.consumer import Consumer, Message
from kafka_marshal.core.messages import ReleasingPartition
from tests.client.api.test_at_most_once import ranges, receipts
from tests.client.doubles import Kafka, until

ALO, AMO = "at_least_once", "at_most_once"
MESSAGES = 10

STORIES: dict[str, tuple[int, int]] = {
    # What is taken, how many are taken in all, and how many of them are done.
    "poll poll list": (4, 0),
    "poll list list": (5, 0),
    "poll rest list": (10, 0),
    "poll commit list list": (5, 3),
    "list poll": (3, 0),
    "list poll list": (5, 2),
    "list poll commit list": (5, 3),
    "loop poll": (3, 2),
    "loop poll loop": (5, 2),
    "loop poll commit": (3, 3),
    "loop list": (4, 2),
    "loop list list": (6, 4),
    "poll loop": (3, 0),
    "poll loop loop": (5, 0),
    "poll loop loop commit": (5, 5),
    "poll all": (10, 0),
    "list all": (10, 9),
    "loop rest list": (10, 10),
    "poll batch batch": (10, 0),
    "loop batch batch": (10, 10),
    "loop rest poll": (10, 2),
    "list within": (6, 5),
}
"""`poll` takes 1, `list` 2, `rest` and `all` what is left, `loop` leaves a loop in its 2nd
message, `within` takes a list within a loop."""


def take(consumer: Consumer, way: str) -> list[int]:
    messages: list[Message | None] = []
    match way:
        case "poll":
            messages = [consumer.poll(0.2)]
        case "list":
            messages = [*consumer.consume(2, 0.2)]
        case "rest":
            messages = [*consumer.consume(MESSAGES, 0.2)]
        case "loop":
            messages = [*islice(consumer, 2)]
        case "within":
            loop = iter(consumer)
            messages = [next(loop), *consumer.consume(2, 0.2), next(loop)]
        case "all":
            for message in consumer:
                messages.append(message)
                if message.offset == MESSAGES - 1:
                    break
        case "batch":
            messages = [
                each for batch in islice(consumer.batches(0.2), 1) for each in batch.messages
            ]
        case "commit":
            consumer.ack()
        case _:
            raise ValueError(way)
    return [message.offset for message in messages if message is not None]


@pytest.mark.parametrize("semantics", [ALO, AMO])
@pytest.mark.parametrize("story", STORIES)
def test_a_message_is_done_when_the_way_it_was_given_out_says_so(
    story: str, semantics: str
) -> None:
    """A list counted what `poll` had given before it as done: a crash then lost it."""
    kafka = Kafka()
    kafka.create("events", messages=MESSAGES)
    taken, done = STORIES[story]
    with kafka.consumer(semantics=semantics) as consumer:
        consumer.add_topic("events")
        until(lambda: consumer._fetcher._buffers.ready)
        found = [offset for way in story.split() for offset in take(consumer, way)]
        assert found == [*range(taken)]
    [release] = kafka.said(ReleasingPartition)
    if semantics == ALO:
        assert release.offset == done
    elif done < MESSAGES:
        assert ranges(receipts(kafka)) == [(done, MESSAGES, "released")]
