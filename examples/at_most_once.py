"""At most once: a batch is handed over only after the log has granted it to us, and to nobody else.

    python examples/at_most_once.py localhost:9092 texting worker-1 reminders

Whatever a consumer has in hand when it dies is not processed, by anybody: `marshal receipts texting
reminders` prints which messages that may be.
"""

import signal
import sys

from kafka_marshal import Consumer


def main(bootstrap: str, group: str, client_id: str, topic: str) -> None:
    """Print batches until Ctrl-C or SIGTERM."""
    with Consumer(
        bootstrap, group_id=group, client_id=client_id, semantics="at_most_once", batch=100
    ) as consumer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.stop())
        consumer.add_topic(topic)
        for batch in consumer.batches():
            print(f"{batch.claim.partition}: {batch.start} to {batch.end - 1}")
            for message in batch.messages:
                print("  ", message.value)


if __name__ == "__main__":
    main(*sys.argv[1:])
