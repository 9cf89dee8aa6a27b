"""Marshal promises that the bench of groups counts every moment without an owner."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.groups import protocol
from benchmarks.groups.ownership import (
    ROW,
    Kind,
    Rows,
    covered_ns,
    gaps,
    handed,
    standstill_ns,
)

A, B = 1, 2


def rows(*found: tuple[int, Kind, int, int, int]) -> Rows:
    """Time, kind, member, partition, number."""
    return np.array([*found], ROW)


def test_a_group_is_balanced_once_each_partition_has_one_owner_and_nobody_has_two_more() -> None:
    first = [(number, Kind.ASSIGNED, A, number, 0) for number in range(4)]
    assert covered_ns(rows(*first), 4, [A], evenly=True) == 3
    assert covered_ns(rows(*first), 5, [A], evenly=True) is None
    assert covered_ns(rows(*first), 4, [A, B], evenly=False) == 3
    assert covered_ns(rows(*first), 4, [A, B], evenly=True) is None
    moved = [*first, (10, Kind.REVOKED, A, 0, 0), (12, Kind.ASSIGNED, B, 0, 0)]
    assert covered_ns(rows(*moved), 4, [A, B], evenly=False) == 12
    moved += [(20, Kind.ASSIGNED, B, 1, 0), (21, Kind.REVOKED, A, 1, 0)]
    assert covered_ns(rows(*moved), 4, [A, B], evenly=True) == 21
    died = [*moved, (30, Kind.DIED, B, 0, 0)]
    assert covered_ns(rows(*died), 4, [A], evenly=False) is None


def test_each_time_without_an_owner_counts_and_each_second_owner() -> None:
    story = rows(
        (1, Kind.ASSIGNED, A, 0, 0),
        (1, Kind.ASSIGNED, A, 1, 0),
        (5, Kind.REVOKED, A, 0, 0),
        (8, Kind.ASSIGNED, B, 0, 0),
        (10, Kind.ASSIGNED, B, 1, 0),  # A has it still
        (20, Kind.DIED, A, 0, 0),
        (30, Kind.DIED, B, 0, 0),
        (37, Kind.ASSIGNED, A, 1, 0),
    )
    assert gaps(story, 0) == ([3, 7], 1, 1)
    assert gaps(story, 8).ns == [7]


def test_a_standstill_ends_with_the_longest_time_without_a_commit() -> None:
    story = rows(*((at, Kind.COMMITTED, A, 0, 0) for at in (50, 90, 101, 400, 410)))
    assert standstill_ns(story, A, 100) == 300
    assert standstill_ns(story, B, 100) is None


def test_messages_are_counted_each_time() -> None:
    story = rows(*((at, Kind.HANDED, A, 3, 7) for at in (1, 2)), (3, Kind.HANDED, B, 3, 8))
    assert handed(story) == (3, {(3, 7), (3, 8)})


@pytest.mark.night
def test_every_part_gives_a_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert protocol.main(["--quick"]) == 0
    printed = capsys.readouterr().out
    for name in protocol.ALL.keys() - {"assignment"}:
        assert f"\ngroups.{name}" in printed
