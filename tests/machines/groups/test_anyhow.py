"""Marshal promises groups what their specification does, whatever happens and in any order."""

from __future__ import annotations

import pytest
from tools.runs.by_day import seeds

from tests.machines.groups.running import everything_happens


@pytest.mark.parametrize("seed", seeds(12, 400))
def test_groups_keep_their_promises(seed: int) -> None:
    everything_happens(seed)
