"""What the tests of this room share: 0.1.0, unpacked, and folds under both versions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.upgrade.versions import PRESENT, Folds, folds, unpacked


@pytest.fixture(scope="session")
def old_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that 0.1.0 is imported from."""
    return unpacked(tmp_path_factory.mktemp("version-0.1.0"))


@pytest.fixture(scope="session")
def old_folds(old_version: Path) -> Iterator[Folds]:
    with folds(old_version) as running:
        yield running


@pytest.fixture(scope="session")
def new_folds() -> Iterator[Folds]:
    with folds(PRESENT) as running:
        yield running
