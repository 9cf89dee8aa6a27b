"""Marshal promises that the tests that take longest start first, and that no verdict is of time."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from conftest import LONGEST, ROOT, SHARED, Together
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling


def test_no_example_of_hypothesis_has_a_deadline() -> None:
    """A machine that stood still for 0.2 s failed a test."""
    assert settings.default is not None
    assert settings.default.deadline is None


def test_every_group_that_takes_long_is_there() -> None:
    for group in LONGEST:
        assert group in SHARED.values() or (ROOT / group).is_file(), group


def test_a_process_gets_what_takes_longest_and_then_what_has_most_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many, few, *long = "tests/many.py", "tests/few.py", *reversed(LONGEST)
    spread = object.__new__(Together)
    spread.workqueue = OrderedDict.fromkeys([many, *long, few])
    given: list[str] = []

    def assigned(self: Together, node: object) -> None:
        given.append(self.workqueue.popitem(last=False)[0])

    monkeypatch.setattr(LoadScopeScheduling, "_assign_work_unit", assigned)
    while spread.workqueue:
        spread._assign_work_unit("node")
    assert given == [*LONGEST, many, few]
