"""Within a tenure, every message is delivered once and in order, except after a seek."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.history import Topic
from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    latest: dict[tuple[str, Topic, int], int] = {}
    for given in judged.history.given:
        tenure = given.instance, given.where, given.epoch
        before = latest.get(tenure)
        if given.unordered:
            continue
        if given.offset in judged.history.gone_below(given.where) and given.offset > (before or 0):
            before = None  # what lies between is gone
        again = (given.process, given.where, before) in judged.history.raised
        if before is not None and given.offset not in (before + 1, before if again else None):
            sought = judged.history.sought_by((given.where, given.epoch))
            # A seek goes on from there, and gives again what was in hand from there on.
            if not any(to == given.offset or to <= given.offset <= before for to in sought):
                yield f"{given.process}: {given.where} {given.offset} came after {before}"
        latest[tenure] = given.offset
