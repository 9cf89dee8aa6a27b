"""How the tests are spread over four processes: `make test` runs `pytest -n 4`, since many wait.

What is dear to start (a Spark session, a broker, what TLC exported) is started in one process only:
each file goes to one, and files that share such a thing go to the same. (`--dist loadgroup` would
do, but its marks have no effect with the pytest that is locked here.)
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parent
SHARED = {
    "exports: Mapping": "tlc",
    "spark: SparkSession": "spark",
    "kafka_cluster": "cluster",
    "kafka_broker": "kafka",
    "tests.client.crew": "kafka",
}
"""What a file says that takes such a thing."""

LONGEST = (
    "spark",
    "kafka",
    "tlc",
    "cluster",
    "model_tests/test_machines.py",
    "model_tests/test_walks.py",
    "model_tests/test_trace_spec.py",
    "model_tests/test_admin_edges.py",
    "tests/tools/test_night.py",
    "tests/cli/test_replay.py",
    "model_tests/test_models.py",
    "model_tests/test_consumer_edges.py",
    "model_tests/test_equal_graphs.py",
    "tests/broker/test_guard.py",
)
"""Groups that take longest, so they start first: at the end no process works alone."""


@functools.cache
def group_of(path: str) -> str:
    """What a file shares; the file itself, if nothing."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return next((group for said, group in SHARED.items() if said in text), path)


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Tests of one group run in one process, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])

    def _assign_work_unit(self, node: Any) -> None:
        """Give a process the next group: of `LONGEST`, or the one with most tests."""
        ranks = {group: rank for rank, group in enumerate(LONGEST)}
        longest = min(self.workqueue, key=lambda group: ranks.get(group, len(ranks)))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Spread the tests so."""
    return Together(config, log)
