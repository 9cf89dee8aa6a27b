"""What consumers wrote down, compared with what must be so. Starts nothing, waits for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import Final

from attrs import frozen

WINDOW: Final = 100
"""The most messages that a consumer has in hand, and that are repeated, at least once."""


@frozen
class Written:
    """What the consumers of a group wrote down, and what the log says; keys: partition, offset."""

    ends: Mapping[int, int]
    """How many messages each judged partition has."""
    handed: Counter[tuple[int, int]]
    done: Set[tuple[int, int]]
    tenures: Counter[int]
    listed: Set[tuple[int, int]] | None
    """What `marshal receipts` lists, or the log has as lost with its holder; None at least once."""
    again: Counter[tuple[int, int]] | None = None
    """Of a topic that is shared by ranges: how often each message may come again."""

    def lost(self, partition: int) -> list[int]:
        """Offsets that nobody processed."""
        return [at for at in range(self.ends[partition]) if (partition, at) not in self.done]


@frozen
class Compared:
    """What came of the messages of a group."""

    lost: int
    unlisted: int
    repeated: int
    wrong: list[str]


def compare(written: Written) -> Compared:
    """Compare what was written down with what must be so."""
    lost_in_all = unlisted_in_all = repeated_in_all = 0
    wrong: list[str] = []
    for partition, end in written.ends.items():
        offsets = range(end)
        lost = written.lost(partition)
        times = {offset: written.handed[partition, offset] for offset in offsets}
        repeated = sum(number - 1 for number in times.values() if number)
        lost_in_all, repeated_in_all = lost_in_all + len(lost), repeated_in_all + repeated
        if written.listed is None:
            if lost:
                wrong.append(f"partition {partition}: lost {len(lost)}: {ranges(lost)}")
            wrong += _too_often(written, partition, times)
            continue
        if twice := [offset for offset, number in times.items() if number > 1]:
            wrong.append(f"partition {partition}: twice {len(twice)}: {ranges(twice)}")
        unlisted = [offset for offset in lost if (partition, offset) not in written.listed]
        unlisted_in_all += len(unlisted)
        if unlisted:
            where = "receipt" if written.again is None else "range whose holder was silent"
            what = f"{len(unlisted)} of {len(lost)} lost are in no {where}"
            wrong.append(f"partition {partition}: {what}: {ranges(unlisted)}")
    return Compared(lost_in_all, unlisted_in_all, repeated_in_all, wrong)


def _too_often(written: Written, partition: int, times: Mapping[int, int]) -> Iterator[str]:
    """At least once, what was handed over more often than it may be."""
    if written.again is None:
        repeated = sum(number - 1 for number in times.values() if number)
        most = WINDOW * max(0, written.tenures[partition] - 1)
        if repeated > most:
            yield f"partition {partition}: {repeated} repeated, {most} allowed"
        return
    again = written.again
    often = [offset for offset, number in times.items() if number - 1 > again[partition, offset]]
    if often:
        what = f"{len(often)} came again, and no holder was silent"
        yield f"partition {partition}: {what}: {ranges(often)}"


def ranges(offsets: list[int]) -> str:
    """The first few of them, as ranges.

    >>> ranges([1, 2, 3, 7, 9, 10])
    '1..3, 7, 9..10'
    """
    found: list[list[int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset - 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    told = [f"{first}..{last}" if first != last else f"{first}" for first, last in found[:5]]
    return ", ".join(told) + (" ..." if found[5:] else "")
