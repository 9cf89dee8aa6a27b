"""A fetch cut into pieces of one partition each, at the cost of a few looks.

It knows of a message where it lies, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, cast

from confluent_kafka import Message as Fetched

offset_of: Final = cast("Callable[[Fetched], int]", Fetched.offset)


def place_of(message: Fetched) -> tuple[str, int]:
    """Topic and partition."""
    return cast("tuple[str, int]", (message.topic(), message.partition()))


def runs_of(batch: list[Fetched]) -> Iterator[list[Fetched]]:
    """The batch in pieces of one partition each, without looking at every message.

    Within a partition offsets only rise. So where the last of a piece lies as far behind the first
    as the piece is long, and in the same partition, all of it is of that partition. Where offsets
    are missing the pieces are shorter than they might be.
    """
    begin, total = 0, len(batch)
    while begin < total:
        place, first = place_of(batch[begin]), offset_of(batch[begin])
        good, bad = begin, total
        # Nearly always what was fetched together is of one partition.
        probe = total - 1
        while good < probe:
            message = batch[probe]
            if place_of(message) == place and offset_of(message) - first == probe - begin:
                good = probe
            else:
                bad = probe
            probe = (good + bad) // 2
        yield batch[begin : good + 1] if begin or good + 1 < total else batch
        begin = good + 1
