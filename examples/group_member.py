"""A member of a group with a controller: it reads no log of claims, and commits what it has done.

    marshal init --bootstrap localhost:9092
    marshal controller --bootstrap localhost:9092 --listen localhost:9393
    python examples/group_member.py localhost:9092 localhost:9393 billing worker-1 orders

Start it twice, with two client ids, and each has half of the partitions. Kill one, and after a
session timeout the other goes on where it had committed.
"""

import signal
import sys
from threading import Event

from kafka_marshal import Fenced, GroupConsumer


def main(bootstrap: str, controllers: str, group: str, client_id: str, topic: str) -> None:
    """Print messages until Ctrl-C or SIGTERM."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with GroupConsumer(
        bootstrap, controllers=controllers, group_id=group, client_id=client_id
    ) as consumer:
        consumer.add_topic(topic)
        while not stop.is_set():
            for message in consumer.poll(1.0):
                # A store of results can refuse a writer whose tenure is below one that it saw.
                print(message.partition, message.offset, message.tenure, message.value)
            try:
                consumer.commit()
            except Fenced as error:
                print(error, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
