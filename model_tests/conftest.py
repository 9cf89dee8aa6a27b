"""Exports of TLC that several tests read: made once a session, in a folder of the session."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from model_tests.transitions.exports import Exported, export_all


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Exported]:
    """Every triple of every model that exports its steps."""
    return export_all(tmp_path_factory.mktemp("edges"))
