"""At least once: asking for the next message says that the one before it is done.

    python examples/at_least_once.py localhost:9092 billing worker-1 orders

Start it twice, with two client ids, and each has half of the partitions. Kill one, and after two
heartbeat intervals the other goes on where it was. What was not reported as done comes once more.
"""

import signal
import sys

from kafka_marshal import Consumer


def main(bootstrap: str, group: str, client_id: str, topic: str) -> None:
    """Print messages until Ctrl-C or SIGTERM."""
    with Consumer(bootstrap, group_id=group, client_id=client_id) as consumer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.stop())
        consumer.add_topic(topic)
        for message in consumer:
            print(message.partition, message.offset, message.key, message.value)


if __name__ == "__main__":
    main(*sys.argv[1:])
