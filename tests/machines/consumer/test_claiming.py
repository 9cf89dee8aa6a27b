"""When a claim is falling behind its topic."""

from __future__ import annotations

import pytest

from kafka_marshal.machines.consumer.claiming import Velocity


@pytest.mark.parametrize(
    ("beats", "behind"),
    [
        ([(100, 200), (101, 210), (102, 220), (103, 230), (104, 240)], [0, 0, 0, 1, 1]),
        ([(100, 200), (101, 210), (102, 220), (120, 220), (121, 230)], [0, 0, 0, 0, 0]),
        ([(0, 100), (1, 101), (2, 102), (3, 103), (4, 104)], [0, 0, 0, 0, 0]),
        ([(5, 3), (6, 6), (7, 7), (8, 8), (9, 9)], [0, 0, 0, 0, 0]),
    ],
    ids=["slower", "not in a row", "late but as fast", "at the end"],
)
def test_a_claim_is_behind_that_is_slower_for_three_beats(
    beats: list[tuple[int, int]], behind: list[int]
) -> None:
    velocity = Velocity()
    assert [velocity.beat(position, end) for position, end in beats] == list(map(bool, behind))
