"""Kafka's committed offsets of the group follow the positions in the log."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    if history.finished:
        positions = judged.positions()
        for where, offset in history.group_offsets.items():
            if offset != positions.get(where):
                yield f"{where}: the group's offset stayed at {offset}, not {positions.get(where)}"
