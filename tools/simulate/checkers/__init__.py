"""What must hold of every run, a room each, by the names of the specification where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tools.simulate.checkers import (
    at_most_once,
    begins_at_position,
    bounded,
    callbacks,
    ended,
    explained,
    group_offsets,
    in_order,
    none_skipped,
    one_process_an_epoch,
    progress,
    receipts,
)
from tools.simulate.checkers.calls import committed, drained, lanes, stops, withheld
from tools.simulate.judged import Judged

CHECKERS: Final[dict[str, Callable[[Judged], Iterator[str]]]] = {
    each.__name__.rpartition(".")[2]: each.check
    for each in (
        at_most_once,
        begins_at_position,
        bounded,
        callbacks,
        ended,
        explained,
        group_offsets,
        in_order,
        none_skipped,
        one_process_an_epoch,
        progress,
        receipts,
        committed,
        drained,
        lanes,
        stops,
        withheld,
    )
}


def violations(judged: Judged) -> list[str]:
    """Everything that is wrong with a run, each with its checker's name first."""
    return [f"{name}: {found}" for name, check in CHECKERS.items() for found in check(judged)]
