"""Seeds of random tests: `make test` takes a few of them, `make test-all` every one.

A day's run looks for what a change broke; what many seeds find is looked for by night.
"""

from __future__ import annotations

import pytest
from _pytest.mark.structures import ParameterSet


def seeds(by_day: int, by_night: int) -> list[ParameterSet]:
    """Parameters 0 to `by_night` - 1; those from `by_day` on are run with `--all` alone."""
    assert 0 < by_day < by_night
    return [
        pytest.param(seed, id=str(seed), marks=[] if seed < by_day else [pytest.mark.night])
        for seed in range(by_night)
    ]
