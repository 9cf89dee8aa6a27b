"""A fetch result, split into one piece per partition without inspecting each message.

It uses only the topic, partition and offset of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, cast

from confluent_kafka import Message as Fetched

offset_of: Final = cast("Callable[[Fetched], int]", Fetched.offset)
_topic_of: Final = cast("Callable[[Fetched], str]", Fetched.topic)
_partition_of: Final = cast("Callable[[Fetched], int]", Fetched.partition)


def partition_of(message: Fetched) -> tuple[str, int]:
    """Topic and partition."""
    return _topic_of(message), _partition_of(message)


def runs_of(batch: list[Fetched], *, of_one_topic: bool = False) -> Iterator[list[Fetched]]:
    """The batch in pieces of one partition each, as long as possible.

    Every message's partition is read, but not its topic if all are `of_one_topic`. The offsets of
    the first and the last message are not enough: where offsets are missing, a message of another
    partition may lie between.
    """
    if not batch:
        return
    if len(set(map(_partition_of, batch))) == 1 and (
        of_one_topic or len(set(map(_topic_of, batch))) == 1
    ):
        yield batch  # nearly always what was fetched together is of one partition
        return
    partitions = [*map(partition_of, batch)]
    begin = 0
    for index, partition in enumerate(partitions):
        if partition != partitions[begin]:
            yield batch[begin:index]
            begin = index
    yield batch[begin:]
