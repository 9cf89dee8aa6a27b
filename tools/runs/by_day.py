"""Which parameters of a test `make test` takes; `make test-all`, so `make night`, takes every one.

A day's run looks for what a change broke, and finds each kind of fault. Many parameters find the
same: seeds of one world, mistakes that one check notices, hostile values that one reader refuses.
By day some of them are run. A mistake in the code breaks the others with them, and what breaks one
of them alone is found by night.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

T = TypeVar("T")


def seeds(by_day: int, by_night: int) -> list[ParameterSet]:
    """Parameters 0 to `by_night` - 1; those from `by_day` on are run with `--all` alone."""
    assert 0 < by_day < by_night
    return [_param(seed, seed < by_day, id=str(seed)) for seed in range(by_night)]


def sampled(family: Iterable[Any], step: int) -> list[ParameterSet]:
    """By day the first of a family, and every `step`-th after it. A tuple is several arguments.

    >>> [of.values for of in sampled([("a", 1), ("b", 2), ("c", 3)], 2) if not of.marks]
    [('a', 1), ('c', 3)]
    """
    return [_param(each, number % step == 0) for number, each in enumerate(family)]


def one_of_each(family: Iterable[T], kind: Callable[[T], Hashable]) -> list[ParameterSet]:
    """By day the first of each kind: by what notices a mistake, or by where it is made.

    >>> [bool(of.marks) for of in one_of_each(["ab", "ac", "b"], lambda name: name[0])]
    [False, True, False]
    """
    seen = set[Hashable]()
    found = []
    for each in family:
        found.append(_param(each, kind(each) not in seen))
        seen.add(kind(each))
    return found


def _param(values: Any, by_day: bool, **of: Any) -> ParameterSet:
    marks = () if by_day else pytest.mark.night
    return pytest.param(*(values if type(values) is tuple else (values,)), marks=marks, **of)
