"""BeginsWhereTheLogSays: a tenure begins at the position that its claim has in the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.simulate.history import Topic
from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    positions: dict[tuple[Topic, int], list[int]] = defaultdict(list)
    for where, epoch, _, position in judged.wins():
        positions[where, epoch].append(position)  # several only where the log lost records
    begun: set[tuple[Topic, int, str]] = set()
    for given in judged.history.given:
        where, tenure = given.where, (given.where, given.epoch, given.instance)
        if tenure in begun or given.unordered:
            continue
        begun.add(tenure)
        found = positions[where, given.epoch] + judged.history.sought_by((where, given.epoch))
        if given.offset in found:
            continue
        # What lies before is gone, or the log has forgotten the position.
        later = given.offset in judged.history.gone_below(where) or where in judged.forgotten
        if not later or given.offset < min(found, default=0):
            yield (
                f"{given.process}: {where} epoch {given.epoch} began with {given.offset}, "
                f"and its position was {found}"
            )
