"""EverythingProcessed: after the faults, all messages are consumed within a bound."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    if not history.finished:
        positions = judged.positions()
        for topic, number in history.ends:
            if topic in judged.setting.shared:
                positions[topic, number] = judged.shared.low(topic, number)
        behind = {
            where: (positions.get(where, 0), end)
            for where, end in history.ends.items()
            if positions.get(where, 0) < end and not judged.unknown(where[0])
        }
        if behind:
            yield f"not everything was consumed in the end: {behind}"
