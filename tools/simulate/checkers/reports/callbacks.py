"""Callbacks and observers are called in the documented order.

Of each tenure: claimed once, then lost at most once, then drained at most once. Of each partition:
the tenures of a process in the order of their epochs, each when the one before is lost. An
observer hears `fenced` after `lost`, and `left` where the consumer has ended with a claim.
Callbacks are what observers hear, in that order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from tools.simulate.history import Called, Topic
from tools.simulate.judged.claims import Judged

ORDER: Final = ("claimed", "lost", "drained")


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    if not history.cuts:  # else epochs begin anew
        yield from _in_order(history.called)
        yield from _in_order([one for one in history.observed if one.kind in ORDER])
    yield from _ends(history.observed)
    yield from _alike(history.called, history.observed)


def _in_order(reported: Iterable[Called]) -> Iterator[str]:
    stage: dict[tuple[str, Topic, int], int] = {}
    newest: dict[tuple[str, Topic], int] = {}
    for each in reported:
        where = each.topic, each.partition
        tenure = each.process, where, each.epoch
        before, now = stage.get(tenure, -1), ORDER.index(each.kind)
        if now != before + 1:
            yield f"{each.process}: {where} epoch {each.epoch}: {each.kind} after {before}"
        stage[tenure] = now
        if each.kind == "claimed":
            older = newest.get((each.process, where), -1)
            if older >= each.epoch:
                yield f"{each.process}: {where} epoch {each.epoch} was claimed too late"
            if stage.get((each.process, where, older), 1) < 1:
                yield f"{each.process}: {where} epoch {each.epoch} was claimed beside {older}"
            newest[each.process, where] = each.epoch


def _ends(observed: Iterable[Called]) -> Iterator[str]:
    """`fenced` follows `lost` at once, and `left` comes where nothing else follows."""
    latest: dict[tuple[str, Topic, int], str] = {}
    for each in observed:
        tenure = each.process, (each.topic, each.partition), each.epoch
        before = latest.get(tenure, "")
        if (each.kind == "fenced" and before != "lost") or before == "left":
            yield f"{tenure}: an observer heard {each.kind} after {before or 'nothing'}"
        if each.kind == "left" and before != "claimed":
            yield f"{tenure}: an observer heard left after {before or 'nothing'}"
        latest[tenure] = each.kind


def _alike(called: Iterable[Called], observed: Iterable[Called]) -> Iterator[str]:
    """Callbacks are what observers hear, in that order; a killed process is called less often."""
    heard: dict[str, list[Called]] = defaultdict(list)
    for one in observed:
        if one.kind in ORDER:
            heard[one.process].append(one)
    for one in called:
        rest = heard[one.process]
        told = rest.pop(0) if rest else None
        if told is None or (told.kind, told.topic, told.partition, told.epoch, told.reason) != (
            one.kind,
            one.topic,
            one.partition,
            one.epoch,
            one.reason,
        ):
            yield f"{one.process}: {one} was called, and an observer heard {told}"
