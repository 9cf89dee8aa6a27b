"""Every command of these pages runs as it stands there, and prints what the page shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kafka_marshal.runtime.controls import ClusterClient
from kafka_marshal.runtime.settings import settings_of
from kafka_marshal.runtime.trial import Trial, create
from kafka_marshal.testing import Broker
from tests.pages import ROOT, run
from tests.upgrade.versions import PRESENT, unpacked

PAGES = ["move-from-a-consumer-group", "upgrade-and-roll-back"]
"""Those that type commands."""
TRIAL = re.compile(r"marshal broker --port 9092 --topic (\S+) --messages (\d+)`")
"""The broker that a page tries its commands with: here it is the one of all tests."""


@pytest.fixture(scope="session")
def versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders that two versions are imported from."""
    return {"0.1.0": unpacked(tmp_path_factory.mktemp("version-0.1.0")), "0.2.0": PRESENT}


@pytest.mark.parametrize("name", PAGES)
def test_every_command_prints_what_the_page_shows(
    name: str, kafka_broker: Broker, versions: dict[str, Path], tmp_path: Path
) -> None:
    for version, found in versions.items():
        python = tmp_path / version / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nPYTHONPATH={found} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
    page = (ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8")
    cluster = ClusterClient(settings_of(kafka_broker.bootstrap))
    for topic, messages in TRIAL.findall(page):
        create(cluster, Trial.parsed(topic), int(messages))
    page = page.replace("localhost:9092", kafka_broker.bootstrap)
    assert {*run(page, tmp_path)} == {"0"}
