"""Consumes a topic in both ways, under any supported Python: what `tools.support` runs.

    python support_smoke.py BOOTSTRAP TOPIC MESSAGES

It prints which versions it ran. One consumer takes half of the messages and is closed, and the next
one takes the rest. Exit code 0: every message came once.
"""

import platform
import sys

import confluent_kafka

import kafka_marshal
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.version import package_version


def consume(bootstrap: str, topic: str, semantics: str, client_id: str, least: int) -> list[int]:
    """The numbers that a consumer gets until these are enough."""
    got: list[int] = []
    with Consumer(
        bootstrap,
        group=f"{topic}-{semantics}",
        client_id=client_id,
        semantics=semantics,  # type: ignore[arg-type]
        batch=100,
        create_coordination_topic=True,
    ) as consumer:
        consumer.add_topic(topic)
        for batch in consumer.batches(timeout_s=60):
            got += [int(message.value or b"") for message in batch.messages]
            consumer.commit()
            if len(got) >= least:
                break
    return got


def main(bootstrap: str, topic: str, messages: int) -> int:
    """The exit code."""
    print(
        f"kafka-marshal {package_version()} in {kafka_marshal.__file__}, "
        f"Python {platform.python_version()}, confluent-kafka {confluent_kafka.__version__}, "
        f"librdkafka {confluent_kafka.libversion()[0]}"
    )
    for semantics in ("at_least_once", "at_most_once"):
        first = consume(bootstrap, topic, semantics, "first", messages // 2)
        second = consume(bootstrap, topic, semantics, "second", messages - len(first))
        if sorted(first + second) != list(range(messages)):
            print(f"{semantics}: {len(first)} and {len(second)} messages, wanted {messages}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
