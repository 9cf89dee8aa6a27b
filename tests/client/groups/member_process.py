"""A member of a group in a process of its own: a line for what it was handed, and what it commits.

python -m tests.client.groups.member_process BOOTSTRAP CONTROLLERS GROUP NAME TOPIC
"""

from __future__ import annotations

import json
import os
import signal
import sys
from threading import Event

from kafka_marshal import Fenced, GroupConsumer
from kafka_marshal.client.connect.log_writer import OutcomeUnknown

SESSION_S = 2.0
IN_HAND = 20
"""The most messages that are handed out and not committed."""


def main(bootstrap: str, controllers: str, group: str, name: str, topic: str) -> None:
    """Consume until SIGTERM. SIGUSR1: die with messages in hand, as of kill -9."""
    stop, die = Event(), Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: die.set())
    with GroupConsumer(
        bootstrap,
        controllers=controllers,
        group_id=group,
        client_id=name,
        session_timeout_s=SESSION_S,
    ) as consumer:
        consumer.add_topic(topic)
        handed: list[tuple[int, int, int]] = []
        while not stop.is_set():
            messages = consumer.poll(0.1, max_messages=IN_HAND)
            handed = [(each.partition, each.tenure, each.offset) for each in messages]
            if handed:
                print(json.dumps({"handed": handed}), flush=True)
                if die.is_set():
                    os.kill(os.getpid(), signal.SIGKILL)
            try:
                consumer.commit()
            except (Fenced, OutcomeUnknown) as error:
                print(json.dumps({"refused": str(error)}), flush=True)
            else:
                if handed:
                    print(json.dumps({"committed": handed}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
