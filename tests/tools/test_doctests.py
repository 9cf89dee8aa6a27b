"""The examples in docstrings of tools/ and benchmarks/ print what they show.

Those of the package are collected by pytest.
"""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest
from benchmarks.suite import figures, ratios
from tools import links, prose, rooms
from tools.runs import by_day


@pytest.mark.parametrize(
    "module", [by_day, links, prose, rooms, figures, ratios], ids=lambda module: module.__name__
)
def test_every_example_prints_what_it_shows(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
