"""Exports of TLC that several tests read: made once a session, in a folder of the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from model_tests import tlc_export
from model_tests.transitions.exports import Exported, export_all


def pytest_configure(config: pytest.Config) -> None:
    """By night TLC exports everything anew."""
    tlc_export.reuses = not config.getoption("all")


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Exported]:
    """Every triple of every model that exports its steps."""
    return export_all(tmp_path_factory.mktemp("edges"))


@pytest.fixture(scope="session")
def share(request: pytest.FixtureRequest) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What is tried of rows that TLC exported: with `--all` every one, else every eighth.

    The reducer is held to all of them by day, too.
    """
    step = 1 if request.config.getoption("all") else 8
    return lambda rows: rows[::step]
