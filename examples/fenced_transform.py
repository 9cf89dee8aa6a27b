"""Consume, transform, produce; and a reader that drops what a consumer wrote after it was replaced.

    python examples/fenced_transform.py transform localhost:9092 billing worker-1 orders bills
    python examples/fenced_transform.py read localhost:9092 bills

The topic `bills` exists, with at least as many partitions as `orders`.

Start `transform` as often as you like, each time with another client id. A consumer that stood
still for too long does not know that somebody else goes on with its partition, and writes what it
has in hand. A topic cannot refuse that. So each record carries the epoch of the claim under which
it was made, and who reads drops a record whose epoch is over.

At least once: what a consumer had in hand when it was replaced comes twice, under both epochs. The
header `source-offset` says of which message each record was made.
"""

import signal
import sys
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import TopicPartition

from kafka_marshal import Consumer, Fence, Producer, ProducerRecord
from kafka_marshal.client.message import Message


class Fences:
    """The newest tenure of each name, as far as one partition was read, in its order."""

    def __init__(self) -> None:
        self.newest: dict[str, int] = {}

    def admits(self, headers: Any) -> bool:
        """Whether nobody with a newer tenure wrote before. A record without a fence is admitted."""
        fence = Fence.in_headers(headers or [])
        if fence is None:
            return True
        newest = self.newest.get(fence.name, fence.tenure)
        self.newest[fence.name] = max(newest, fence.tenure)
        return fence.tenure >= newest


def transformed(message: Message, to: str) -> ProducerRecord:
    """What is made of a message: in the partition of its number, so all epochs write into one."""
    value = (message.value or b"").upper()
    headers = [("source-offset", str(message.offset))]
    return ProducerRecord(to, value, message.key, message.partition, headers)


def transform(bootstrap: str, group: str, client_id: str, topic: str, to: str) -> None:
    """Transform a topic until Ctrl-C or SIGTERM."""
    with (
        Producer(bootstrap) as producer,
        Consumer(bootstrap, group_id=group, client_id=client_id) as consumer,
    ):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.stop())
        consumer.add_topic(topic)
        for batch in consumer.batches():
            if not batch.messages:
                continue
            records = [transformed(message, to) for message in batch.messages]
            # Asking for the next batch says that this one is done: so it must lie there before.
            sent = producer.send(*records, fence=batch.claim).result(60)
            print(f"{len(sent)} records of {topic}/{batch.claim.partition}")


def read(bootstrap: str, topic: str) -> Iterator[tuple[int, bytes | None, bool]]:
    """Every record of a topic now: its partition, its value, and whether it is admitted.

    It reads from the beginning, so the fences need not be kept. A reader that goes on from a
    position keeps them beside it, in the same transaction.
    """
    reader = KafkaConsumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    try:
        for partition in sorted(reader.list_topics(topic, 30).topics[topic].partitions):
            fences, place = Fences(), TopicPartition(topic, partition, 0)
            end = reader.get_watermark_offsets(place, 30)[1]
            reader.assign([place])
            offset: int | None = -1
            while offset is not None and offset + 1 < end:
                message = reader.poll(30)
                if message is None or message.error():
                    raise SystemExit(f"{topic}/{partition}: no broker answers")
                offset = message.offset()
                yield partition, message.value(), fences.admits(message.headers())
    finally:
        reader.close()


def main(command: str, *words: str) -> None:
    """Transform, or print what is admitted."""
    if command == "transform":
        transform(*words)
    else:
        for partition, value, admitted in read(*words):
            print(partition, value, "admitted" if admitted else "dropped: its epoch is over")


if __name__ == "__main__":
    main(*sys.argv[1:])
