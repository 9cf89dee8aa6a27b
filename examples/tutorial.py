"""The consumer of docs/tutorial.md: it prints what it claims, loses and processes.

    python examples/tutorial.py 127.0.0.1:19092 worker-1

Its heartbeat interval is 3 s, so that the claims of a killed consumer are free after 6 s. The
default, 60 s, makes less traffic.
"""

import signal
import sys
import time
from functools import partial

from kafka_marshal import Consumer

show = partial(print, flush=True)


def main(bootstrap: str, client_id: str) -> None:
    """Process the topic orders slowly, until Ctrl-C or SIGTERM."""
    with Consumer(
        bootstrap,
        group_id="billing",
        client_id=client_id,
        heartbeat_interval_s=3,
        on_claimed=lambda claim: show("claimed", claim.partition, "from", claim.position),
        on_lost=lambda claim, reason: show("lost", claim.partition, "since it was", reason.value),
    ) as consumer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.stop())
        consumer.add_topic("orders")
        for message in consumer:
            time.sleep(0.01)
            if message.offset % 100 == 0:
                show("processed", message.partition, message.offset)


if __name__ == "__main__":
    main(*sys.argv[1:])
