"""What must hold of every run, a room each, by the names of the specification where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tools.simulate.checkers.calls import (
    committed,
    drained,
    in_time,
    lanes,
    stops,
    turns,
    withheld,
)
from tools.simulate.checkers.delivery import (
    at_most_once,
    begins_at_position,
    in_order,
    none_skipped,
    one_process_an_epoch,
    receipts,
    released,
    reprocessing,
)
from tools.simulate.checkers.liveness import ended, group_offsets, progress
from tools.simulate.checkers.ranges import (
    range_leases,
    range_messages,
    ranges_done,
    ranges_explained,
    ranges_left,
    ranges_once,
)
from tools.simulate.checkers.reports import (
    authentic,
    bounded,
    callbacks,
    explained,
    findings,
    wedged,
)
from tools.simulate.judged.claims import Judged

CHECKERS: Final[dict[str, Callable[[Judged], Iterator[str]]]] = {
    each.__name__.rpartition(".")[2]: each.check
    for each in (
        at_most_once,
        begins_at_position,
        bounded,
        callbacks,
        ended,
        explained,
        findings,
        group_offsets,
        in_order,
        none_skipped,
        one_process_an_epoch,
        progress,
        receipts,
        released,
        reprocessing,
        committed,
        drained,
        lanes,
        stops,
        withheld,
        in_time,
        turns,
        wedged,
        authentic,
        range_leases,
        range_messages,
        ranges_done,
        ranges_explained,
        ranges_left,
        ranges_once,
    )
}


def violations(judged: Judged) -> list[str]:
    """Everything that is wrong with a run, each with its checker's name first."""
    return [f"{name}: {found}" for name, check in CHECKERS.items() for found in check(judged)]
