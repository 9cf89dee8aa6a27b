"""Several consumers on one partition, and a database that refuses whose range was taken.

    python examples/shared_topic.py localhost:9092 billing worker-1 orders orders.db

Start it as often as you like, each time with another client id. Each consumer holds ranges of
offsets that are its own. Where one stood still for too long, another one has its range by now,
under a higher id. So each row remembers the id of the range that wrote it, and an older one changes
no row. In PostgreSQL the statement is the same.
"""

import signal
import sqlite3
import sys

from kafka_marshal import Consumer
from kafka_marshal.client.message import Message

TABLE = """
CREATE TABLE IF NOT EXISTS handled (
    topic TEXT, partition INTEGER, offset INTEGER, value BLOB, range_id INTEGER,
    PRIMARY KEY (topic, partition, offset))
"""
WRITE = """
INSERT INTO handled VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET value = excluded.value, range_id = excluded.range_id
WHERE range_id <= excluded.range_id
"""


def write(database: sqlite3.Connection, message: Message) -> bool:
    """Write what came of a message; False where a later range has written it."""
    assert message.range is not None
    place = (message.topic, message.partition, message.offset)
    with database:  # one transaction
        written = database.execute(WRITE, (*place, message.value, message.range.id))
    return written.rowcount == 1


def main(bootstrap: str, group: str, client_id: str, topic: str, path: str) -> None:
    """Write each message of a topic into a row, until Ctrl-C or SIGTERM."""
    database = sqlite3.connect(path, timeout=30)
    database.execute(TABLE)
    with Consumer(bootstrap, group_id=group, client_id=client_id) as consumer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.stop())
        consumer.add_topic(topic, share="ranges")
        for message in consumer:
            written = write(database, message)
            print(message.offset, "written" if written else "refused: a later range has it")


if __name__ == "__main__":
    main(*sys.argv[1:])
