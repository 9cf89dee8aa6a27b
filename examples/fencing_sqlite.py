"""A fencing token: the database itself refuses a consumer that has lost its claim.

    python examples/fencing_sqlite.py localhost:9092 billing worker-1 orders totals.db

A consumer that stood still for too long does not know that somebody else goes on with its
partition. What it writes then would be counted twice. Every claim has an epoch that grows with each
owner. So each row remembers the highest epoch that wrote it, and the position up to which it has
counted. The update of anybody older changes no row. In PostgreSQL the statements are the same.
"""

import signal
import sqlite3
import sys

from kafka_marshal import Consumer
from kafka_marshal.client.message import Message

TABLE = """
CREATE TABLE IF NOT EXISTS totals (
    topic TEXT, partition INTEGER, total INTEGER, next_offset INTEGER, epoch INTEGER,
    PRIMARY KEY (topic, partition))
"""
FIRST = "INSERT INTO totals VALUES (?, ?, 0, 0, ?) ON CONFLICT DO NOTHING"
COUNT = """
UPDATE totals SET total = total + ?, next_offset = ?, epoch = ?
WHERE topic = ? AND partition = ? AND epoch <= ? AND next_offset <= ?
"""


class Fenced(Exception):
    """A later epoch has written this row: the claim is not ours any more."""


def count(database: sqlite3.Connection, message: Message) -> bool:
    """Add the message to its partition's total, once; False if that was done before.

    Raises:
        Fenced: somebody with a later epoch goes on from here.
    """
    place, epoch, offset = (message.topic, message.partition), message.epoch, message.offset
    with database:  # one transaction
        database.execute(FIRST, (*place, epoch))
        amount = int(message.value or b"0")
        changed = database.execute(COUNT, (amount, offset + 1, epoch, *place, epoch, offset))
        if changed.rowcount:
            return True
        found = database.execute(
            "SELECT epoch FROM totals WHERE topic = ? AND partition = ?", place
        ).fetchone()
    if found[0] > epoch:
        raise Fenced(
            f"{message.topic}/{message.partition}: epoch {epoch} is over, {found[0]} is on"
        )
    return False  # processed again after a crash: it is in the total already


def main(bootstrap: str, group: str, client_id: str, topic: str, path: str) -> None:
    """Sum the numbers in a topic until Ctrl-C or SIGTERM; each counts exactly once."""
    database = sqlite3.connect(path)
    database.execute(TABLE)
    with Consumer(bootstrap, group_id=group, client_id=client_id) as consumer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.stop())
        consumer.add_topic(topic)
        for message in consumer:
            try:
                count(database, message)
            except Fenced as error:
                print(error)  # what was fetched under that epoch is not handed over any more


if __name__ == "__main__":
    main(*sys.argv[1:])
