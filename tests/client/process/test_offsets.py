"""Out-of-order completion: how far everything is finished."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_marshal.client.process.offsets import InFlightOffsets


def test_what_is_finished_out_of_order_counts_when_the_gap_closes() -> None:
    offsets = InFlightOffsets(0)
    offsets.begun([0, 1, 2])
    assert (offsets.finished(1), offsets.ahead) == (0, 1)
    assert (offsets.finished(0), offsets.ahead) == (2, 0)
    assert offsets.finished(2) == 3
    assert offsets.in_hand == 0


def test_offsets_that_the_topic_does_not_hold_are_passed_over() -> None:
    offsets = InFlightOffsets(10)
    assert offsets.next == 10
    offsets.begun([12, 15], end=20)
    assert offsets.next == 12
    assert offsets.finished(12) == 15
    assert offsets.finished(15) == 20
    offsets.begun([], end=30)
    assert offsets.next == 30


@pytest.mark.parametrize("offset", [0, 2, 3])
def test_only_what_is_in_hand_can_be_finished_and_once(offset: int) -> None:
    offsets = InFlightOffsets(0)
    offsets.begun([0, 1, 2])
    offsets.finished(0)
    offsets.finished(2)
    with pytest.raises(ValueError, match=f"offset {offset} is not in hand"):
        offsets.finished(offset)


def test_messages_begin_in_rising_order() -> None:
    offsets = InFlightOffsets(5)
    with pytest.raises(ValueError, match="offset 4 was begun after 4"):
        offsets.begun([4])


@given(st.data(), st.lists(st.integers(0, 60), unique=True, max_size=30).map(sorted))
def test_it_is_the_newest_offset_such_that_all_before_it_are_finished(
    data: st.DataObject, begun: list[int]
) -> None:
    end = max(begun, default=-1) + 1
    offsets = InFlightOffsets(0)
    offsets.begun(begun)
    left = set(begun)
    for offset in data.draw(st.permutations(begun)):
        left.remove(offset)
        assert offsets.finished(offset) == min(left, default=end)
        assert offsets.in_hand == len(left)
