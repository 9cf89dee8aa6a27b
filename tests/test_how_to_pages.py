"""Every command of these pages runs as it stands there, and prints what the page shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kafka_marshal import ClaimKey, Record
from kafka_marshal.client.consumer import Me, Mode
from kafka_marshal.client.driver import Driver, Timing
from kafka_marshal.client.effects import Send
from kafka_marshal.core.messages import Partition
from kafka_marshal.runtime.controls import ClusterClient
from kafka_marshal.runtime.settings import settings_of
from kafka_marshal.runtime.trial import Trial, create
from kafka_marshal.testing import Broker
from tests.pages import ROOT, run, steps
from tests.upgrade.versions import PRESENT, unpacked

HOW_TO = ROOT / "docs" / "how-to"
PAGES = [
    "mirrored-or-restored-cluster",
    "move-from-a-consumer-group",
    "size-and-retention",
    "upgrade-and-roll-back",
]
"""Those that type commands."""
TRIAL = re.compile(r"marshal broker --port 9092 --topic (\S+)\s--messages (\d+)`")
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
    page = (HOW_TO / f"{name}.md").read_text(encoding="utf-8")
    cluster = ClusterClient(settings_of(kafka_broker.bootstrap))
    for topic, messages in TRIAL.findall(page):
        create(cluster, Trial.parsed(topic), int(messages))
    page = page.replace("localhost:9092", kafka_broker.bootstrap)
    wanted = [step.code for step in steps(page) if step.typed and step.terminal == "1"]
    assert run(page, tmp_path) == wanted


def heartbeats(interval_ms: int, during_ms: int) -> int:
    """How many an idle owner sends in that time."""
    timing = Timing(heartbeat_every_ms=interval_ms // 2)
    driver = Driver(Me("i1", "c1", Mode.AT_LEAST_ONCE), ClaimKey("g", "t", Partition(0)), timing)
    [asked] = driver.caught_up(now_ms=0)
    assert isinstance(asked, Send)
    driver.read(Record(0, 0, 0, asked.message, asked.headers), now_ms=0)
    sent = 0
    while (at_ms := driver.next_timer_ms) is not None and at_ms <= during_ms:
        sent += len(driver.timer(at_ms))
    return sent


def test_the_table_of_sizes_follows_from_claims_and_interval() -> None:
    page = (HOW_TO / "size-and-retention.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([\d,]+) \| (\d+) s \| ([\d.]+) \| (\d+) \| ([\d,]+) \|$", page, re.MULTILINE
    )
    assert rows
    for row in rows:
        claims, interval_s, per_s, mb, in_a_week = (float(each.replace(",", "")) for each in row)
        assert heartbeats(int(interval_s * 1000), 600_000) == 600 * 2 / interval_s
        exact = claims * 2 / interval_s
        assert abs(per_s - exact) < 0.5 if exact > 10 else abs(per_s - exact) < 0.05
        assert mb == round(exact * 86_400 * 219 / 1e6)
        assert in_a_week == round(exact * 86_400 * 7)
