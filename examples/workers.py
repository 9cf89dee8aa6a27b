"""At least once, in many threads: in order of the key, with retries and a dead-letter topic.

    python examples/workers.py localhost:9092 shipping worker-1 parcels parcels-failed

Heartbeats never wait for a handler, and a message that fails holds up its own key alone.
"""

import signal
import sys

from kafka_marshal import Consumer
from kafka_marshal.client.message import Message


def handle(message: Message) -> None:
    """Whatever it raises is tried again three times, and then goes to the dead letters."""
    number = int(message.value or b"")
    # In one piece: many threads write.
    sys.stdout.write(f"{message.partition} {message.offset} {message.key!r} {number}\n")


def main(bootstrap: str, group: str, client_id: str, topic: str, dead_letters: str) -> None:
    """Handle messages until Ctrl-C or SIGTERM, and say what became of them."""
    with Consumer(bootstrap, group_id=group, client_id=client_id) as consumer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.stop())
        consumer.add_topic(topic)
        print(consumer.run(handle, workers=16, order="key", dead_letter_topic=dead_letters))


if __name__ == "__main__":
    main(*sys.argv[1:])
