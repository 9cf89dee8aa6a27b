"""Every command of these pages runs as it stands there, and prints what the page shows."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

try:
    import yaml
except ModuleNotFoundError:  # Python 3.13 has the other one in the lock
    import yaml_ft as yaml

from kafka_marshal import ClaimKey, Record, create_coordination_topic
from kafka_marshal.admin.trial import Trial, create
from kafka_marshal.client.api.consumer import CLOSE_S
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.core.messages import Partition
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.driver import Driver, Timing
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.testing import QUICK, Broker
from kafka_marshal.testing.cluster import free_ports
from tests.docs.pages import ROOT, run, steps
from tests.upgrade.versions import PRESENT, unpacked

HOW_TO = ROOT / "docs" / "how-to"
PAGES = [
    "deploy-on-kubernetes",
    "deserializers",
    "mirrored-or-restored-cluster",
    "move-from-a-consumer-group",
    "poison-messages",
    "size-and-retention",
    "upgrade-and-roll-back",
]
"""Those that type commands."""
BY_NIGHT = {
    *("deploy-on-kubernetes", "mirrored-or-restored-cluster", "move-from-a-consumer-group"),
    *("poison-messages", "upgrade-and-roll-back"),
}
"""The dearest. By day the tests of the commands, in `tests/cli` and `tests/admin`, call what they
type."""
TRIAL = re.compile(r"marshal broker --port 9092((?:\s--topic \S+)+)\s--messages (\d+)`")
"""The broker that a page tries its commands with: here it is one for all pages."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One for all pages, and for them alone: so they need not wait for other tests of a broker."""
    with Broker(java_options=QUICK) as running:
        create_coordination_topic(running.bootstrap)
        yield running


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders that two versions are imported from."""
    return {"0.1.0": unpacked(tmp_path_factory.mktemp("version-0.1.0")), "0.2.0": PRESENT}


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.night] * (each in BY_NIGHT)) for each in PAGES],
)
def test_every_command_prints_what_the_page_shows(
    name: str, broker: Broker, versions: dict[str, Path], tmp_path: Path
) -> None:
    for version, found in versions.items():
        python = tmp_path / version / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nPYTHONPATH={found} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
    page = (HOW_TO / f"{name}.md").read_text(encoding="utf-8")
    cluster = ClusterClient(settings_of(broker.bootstrap))
    for topics, messages in TRIAL.findall(page):
        for topic in re.findall(r"--topic (\S+)", topics):
            create(cluster, Trial.parsed(topic), int(messages))
    page = page.replace("localhost:9092", broker.bootstrap)
    page = page.replace("8080", str(free_ports(1)[0]))
    wanted = [step.code for step in steps(page) if step.typed and step.terminal == "1"]
    assert run(page, tmp_path) == wanted


def test_what_a_page_tests_without_a_broker_passes(tmp_path: Path) -> None:
    page = (HOW_TO / "test-without-a-broker.md").read_text(encoding="utf-8")
    assert run(page, tmp_path) == ["0", "0"]


def test_a_recorded_storm_is_replayed_as_the_page_shows(tmp_path: Path) -> None:
    recorded = ROOT / "tests/data/captures/groups/rebalance_storm.jsonl"
    shutil.copy(recorded, tmp_path)
    page = (HOW_TO / "replay-a-group.md").read_text(encoding="utf-8")
    assert run(page, tmp_path) == ["1", "0", "1"]


def test_kubernetes_gives_the_application_what_it_asks_for() -> None:
    page = (HOW_TO / "deploy-on-kubernetes.md").read_text(encoding="utf-8")
    shown = {step.file: step.text for step in steps(page) if step.file}
    service, stateful = yaml.safe_load_all(shown["jobs.yaml"])
    assert service["metadata"]["name"] == stateful["spec"]["serviceName"]
    template = stateful["spec"]["template"]
    for selected in (service["spec"]["selector"], stateful["spec"]["selector"]["matchLabels"]):
        assert selected == template["metadata"]["labels"]
    [container] = template["spec"]["containers"]
    assert container["command"] == ["python", "app.py"]
    given = {each["name"] for each in container["env"]}
    assert given == set(re.findall(r'os\.environ\["(\w+)"\]', shown["app.py"]))
    assert template["spec"]["terminationGracePeriodSeconds"] >= 50 + CLOSE_S + 10
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    [port] = container["ports"]
    assert {probe["port"] for probe in probes} == {port["containerPort"]}


def heartbeats(interval_ms: int, during_ms: int) -> int:
    """How many an idle owner sends in that time."""
    timing = Timing(heartbeat_every_ms=interval_ms // 2)
    driver = Driver(
        InstanceConfig("i1", "c1", Mode.AT_LEAST_ONCE), ClaimKey("g", "t", Partition(0)), timing
    )
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
