"""The consumer of docs/tutorial.md: it prints what it claims, loses and processes.

    python examples/tutorial.py 127.0.0.1:19092 worker-1

Its heartbeat interval is 3 s, so that the claims of a killed consumer are free after 6 s. The
default, 60 s, makes less traffic.
"""

import signal
import sys
import time

from kafka_marshal import Consumer


def show(line: str) -> None:
    """Print a line whole: on_claimed and on_lost are called in a thread of their own."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(bootstrap: str, client_id: str) -> None:
    """Process the topic orders slowly, until Ctrl-C or SIGTERM."""
    with Consumer(
        bootstrap,
        group_id="billing",
        client_id=client_id,
        heartbeat_interval_s=3,
        on_claimed=lambda claim: show(f"claimed {claim.partition} from {claim.position}"),
        on_lost=lambda claim, why: show(f"lost {claim.partition} since it was {why.value}"),
    ) as consumer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.stop())
        consumer.add_topic("orders")
        for message in consumer:
            time.sleep(0.01)
            if message.offset % 100 == 0:
                show(f"processed {message.partition} {message.offset}")


if __name__ == "__main__":
    main(*sys.argv[1:])
