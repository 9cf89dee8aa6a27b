"""The program that `make support` runs runs here, too, and the page fits the tree."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

from tools import support

from kafka_marshal.admin.trial import Trial, create
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.testing import Broker, version
from tests.client.hands import new_name

PAGE = (support.ROOT / "docs" / "support.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((support.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_message_comes_once_and_the_versions_are_printed(kafka_broker: Broker) -> None:
    topic = new_name("support")
    create(ClusterClient(settings_of(kafka_broker.bootstrap)), Trial(topic, 2), 300)
    words = [sys.executable, str(support.SMOKE), kafka_broker.bootstrap, topic, "300"]
    smoke = subprocess.run(words, capture_output=True, text=True, check=False)
    assert smoke.returncode == 0, smoke.stdout + smoke.stderr
    assert f"Python {sys.version.split()[0]}, confluent-kafka " in smoke.stdout


def test_the_page_lists_each_python_with_the_oldest_client_and_this_broker() -> None:
    rows = re.findall(r"^\| (3\.\d+)\S* \| (\S+) \| \S+ \| (.+) \|$", PAGE, re.MULTILINE)
    assert {python for python, _, _ in rows} == set(support.PYTHONS)
    ran = {python for python, _, outcome in rows if outcome == "ok"}
    assert {python for python, client, _ in rows if client == support.OLDEST} == ran
    assert f"broker Kafka {version()}:" in PAGE
    assert f"confluent-kafka>={support.OLDEST.removesuffix('.0')}" in str(PROJECT)
    classified = re.findall(r"Python :: (3\.\d+)", str(PROJECT["classifiers"]))
    assert set(classified) == ran
    assert PROJECT["requires-python"] == f">={support.PYTHONS[0]}"
