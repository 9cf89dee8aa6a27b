"""Scripts that a seed has drawn: moves of a reader, a writer and a cluster's owner.

Any list of moves can be played: a move that cannot happen raises the same on both sides. So a story
is made shorter by leaving moves out. After each move the reader reads what there is. A real client
fetches ahead, and what it has fetched before a log is cut nobody can know.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from attrs import frozen
from confluent_kafka import TopicPartition

from tests.client.conformance.compare import Compared, compared
from tests.client.conformance.scripts import Script
from tests.client.conformance.side import Recorded, Side

PARTITIONS: Final = 2
LATE_S: Final = 1.2
"""How late a resumed partition gives its messages, in seconds."""
MOVES_MAX: Final = 14
OFFSETS: Final = (0, 0, 1, 3, 7, 50, -1, -2)
RESETS: Final = ("error", "error", "earliest", "latest")
WEIGHTS: Final = {
    "assign": 5,
    "unassign": 2,
    "pause": 3,
    "resume": 4,
    "append": 4,
    "produce": 3,
    "commit transaction": 2,
    "abort transaction": 3,
    "delete records": 3,
    "watermarks": 1,
    "cached end": 1,
    "time": 1,
    "commit": 1,
}
"""What may happen, and how often."""


@frozen
class Move:
    """Something that happens."""

    what: str
    partition: int
    number: int
    """An offset, a count or an amount, for moves that take one."""

    def play(self, side: Side, topic: str, reader: Recorded, writer: Recorded) -> None:
        """Let it happen."""
        at = TopicPartition(topic, self.partition, self.number)
        match self.what:
            case "assign":
                reader.incremental_assign([at])
            case "unassign":
                reader.incremental_unassign([at])
            case "pause":
                reader.pause([at])
            case "resume":
                reader.resume([at])
            case "append":
                key, headers = [(None, []), (b"k", [("h", None), ("h", b"1")])][self.number % 2]
                writer.append(topic, b"a", key, partition=self.partition, headers=headers)
                side.delivered(writer)
            case "produce":
                side.produce(topic, [{"partition": self.partition, "value": b"p"}] * self.number)
            case "commit transaction" | "abort transaction":
                values = [b"%d" % number for number in range(self.number)]
                side.transaction(topic, values, self.partition, commit=self.what[0] == "c")
            case "delete records":
                _, end = reader.get_watermark_offsets(at, timeout=10.0)
                side.delete_records(topic, self.partition, min(self.number, end))
            case "watermarks":
                reader.get_watermark_offsets(at, timeout=10.0)
            case "cached end":
                end = reader.client.get_watermark_offsets(at, cached=True)[1]
                side.note(f"cached end of {self.partition}", end)
            case "time":
                at_ms = [0, 1_000, 4_000_000_000_000][self.number % 3]
                when = TopicPartition(topic, self.partition, at_ms)
                reader.offsets_for_times([when], timeout=10.0)
            case "commit":
                reader.commit(offsets=[at], asynchronous=True)
                side.until(
                    lambda: reader.committed([at], timeout=10.0),
                    lambda found: found[0].offset == max(0, self.number),
                )
            case _:
                raise AssertionError(self.what)


def drawn(seed: int) -> tuple[Move, ...]:
    """The moves that a seed stands for; the first one begins to read."""
    chance = random.Random(seed)  # to be repeated
    count = chance.randrange(4, MOVES_MAX + 1)
    kinds = chance.choices([*WEIGHTS], [*WEIGHTS.values()], k=count)
    return tuple(_move(kind, chance) for kind in ("assign", *kinds))


def _move(kind: str, chance: random.Random) -> Move:
    number = chance.choice(OFFSETS) if kind == "assign" else chance.randrange(1, 5)
    return Move(kind, chance.randrange(PARTITIONS), number)


def script_of(moves: Sequence[Move], seed: int) -> Script:
    """The script of these moves; the seed decides how the reader reads."""
    return partial(_play, moves, seed)


def _play(moves: Sequence[Move], seed: int, side: Side) -> None:
    topic = side.topic(partitions=PARTITIONS)
    settings = {"auto_offset_reset": RESETS[seed % len(RESETS)]}
    open_reader = side.fetcher if seed // len(RESETS) % 2 else side.log_reader
    reader, writer = open_reader(**settings), side.appender()
    for move in moves:
        side.note("then", f"{move.what} {move.partition} {move.number}")
        move.play(side, topic, reader, writer)
        side.read_rest(reader)
    side.quiet(reader, LATE_S, lambda: False)


def shrunk(moves: tuple[Move, ...], seed: int, bootstrap: str) -> tuple[Move, ...]:
    """The shortest part of the moves, by leaving out one after the other, that still differs."""
    while True:
        fewer = [moves[:index] + moves[index + 1 :] for index in range(len(moves))]
        scripts = {str(index): script_of(each, seed) for index, each in enumerate(fewer)}
        found = next((each for each in compared(scripts, bootstrap) if each.difference), None)
        if found is None:
            return moves
        moves = fewer[int(found.name)]


def differing(seeds: Sequence[int], bootstrap: str) -> list[Compared]:
    """The seeds whose scripts differ, each as its shortest story."""
    scripts = {str(seed): script_of(drawn(seed), seed) for seed in seeds}
    found = []
    for each in compared(scripts, bootstrap):
        if each.difference is not None:
            seed = int(each.name)
            shorter = shrunk(drawn(seed), seed, bootstrap)
            again = next(compared({each.name: script_of(shorter, seed)}, bootstrap))
            found.append(each if again.difference is None else again)
    return found
