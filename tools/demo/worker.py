"""One consumer of the demo's fleet: takes orders one by one, and says what it owns."""

import signal
import sys
import time

from kafka_marshal.client.api.consumer import Claim, Consumer
from kafka_marshal.machines.consumer.effects import Lost

BEAT_S = 2.0
"""The fleet's heartbeat interval: an owner that is silent for more than twice this loses claims."""


def say(client: str, text: str) -> None:
    """One line, at once."""
    print(f"  {client}: {text}", flush=True)


def main() -> None:
    """Consume until SIGTERM."""
    bootstrap, group, client, topic = sys.argv[1:]

    def claimed(claim: Claim) -> None:
        say(
            client,
            f"claimed {claim.topic}/{claim.partition}, epoch {claim.epoch}, "
            f"from offset {claim.position}",
        )

    def lost(claim: Claim, reason: Lost) -> None:
        say(client, f"lost {claim.topic}/{claim.partition}: {reason.value}")

    done = 0
    with Consumer(
        bootstrap,
        group_id=group,
        client_id=client,
        heartbeat_interval_s=BEAT_S,
        on_claimed=claimed,
        on_lost=lost,
    ) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        consumer.add_topic(topic)
        for _ in consumer:
            time.sleep(0.002)
            done += 1
    say(client, f"ends in order, after {done} orders")


if __name__ == "__main__":
    main()
