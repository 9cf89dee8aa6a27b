"""BeginsWhereTheLogSays: a tenure begins at the position that its claim has in the log."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.history import Topic
from tools.simulate.judged import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    positions = {(where, epoch): (at, who) for where, epoch, who, at in judged.wins()}
    begun: set[tuple[Topic, int, str]] = set()
    for given in judged.history.given:
        tenure = given.where, given.epoch, given.instance
        if tenure in begun or given.unordered:
            continue
        begun.add(tenure)
        position, _ = positions.get((given.where, given.epoch), (None, ""))
        if position != given.offset:
            yield (
                f"{given.process}: {given.where} epoch {given.epoch} began with {given.offset}, "
                f"and its position was {position}"
            )
