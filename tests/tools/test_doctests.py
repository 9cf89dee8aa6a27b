"""The examples in docstrings of tools/ print what they show; pytest collects the package's."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest
from tools import links, prose, rooms


@pytest.mark.parametrize("module", [links, prose, rooms], ids=lambda module: module.__name__)
def test_every_example_prints_what_it_shows(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
