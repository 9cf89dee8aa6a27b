"""Marshal promises that a fold leaves Python's collector as the program had it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kafka_marshal.replay.one_process.gathering import collecting_seldom


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_was_there_before_is_not_looked_through_meanwhile() -> None:
    before = gc.get_threshold()
    with collecting_seldom():
        assert gc.get_freeze_count()
        assert gc.get_threshold() > before
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)


def test_what_a_program_froze_itself_stays_frozen() -> None:
    gc.freeze()
    with collecting_seldom(for_ever=True):
        pass
    assert gc.get_freeze_count()
