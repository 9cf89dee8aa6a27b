"""Callbacks come in an order that an application can rely on.

Of each tenure: claimed once, then lost at most once, then drained at most once. Of each partition:
the tenures of a process in the order of their epochs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.simulate.history import Topic
from tools.simulate.judged import Judged

ORDER: Final = ("claimed", "lost", "drained")


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    stage: dict[tuple[str, Topic, int], int] = {}
    newest: dict[tuple[str, Topic], int] = {}
    for called in judged.history.called:
        where = called.topic, called.partition
        tenure = called.process, where, called.epoch
        before, now = stage.get(tenure, -1), ORDER.index(called.kind)
        if now != before + 1:
            yield f"{called.process}: {where} epoch {called.epoch}: {called.kind} after {before}"
        stage[tenure] = now
        if called.kind == "claimed":
            if newest.get((called.process, where), -1) >= called.epoch:
                yield f"{called.process}: {where} epoch {called.epoch} was claimed too late"
            newest[called.process, where] = called.epoch
