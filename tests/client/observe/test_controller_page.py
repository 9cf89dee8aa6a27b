"""What the page of a controller says of its limits and metrics is what the controller does."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from kafka_marshal.client.groups.port import PortLimits
from kafka_marshal.client.observe.controller_metrics import PrometheusControllerObserver
from kafka_marshal.core.groups.state import PARTITIONS_MAX
from kafka_marshal.machines.groups.control.bodies import WISHES_MAX
from kafka_marshal.machines.groups.control.partition import MEMBERS_MAX

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "run-a-controller.md").read_text(encoding="utf-8")


def table_under(heading: str) -> dict[str, str]:
    """Of each row its first cell, and the next."""
    part = PAGE.split(f"## {heading}")[1].split("\n## ")[0]
    rows = re.findall(r"(?m)^\| (.+?) \| (.*?) \|", part)
    return dict(rows[1:])


def test_each_limit_is_what_holds() -> None:
    said, limits = table_under("Limits"), PortLimits()
    assert said["members of a group"] == f"{MEMBERS_MAX:,}"
    assert said["partitions of all topics of a group"] == f"{PARTITIONS_MAX:,}"
    [wishes] = [limit for of, limit in said.items() if of.startswith("topics, and ")]
    assert wishes == f"{WISHES_MAX:,} each"
    assert said["connections"].startswith(f"{limits.connections_max:,},")
    assert said["connections of one host without a known member"] == (f"{limits.strangers_max:,}")
    assert said["requests of a connection without an answer"] == f"{limits.unanswered_max}"
    assert said["answers that a client does not read"].startswith(
        f"{limits.unread_bytes_max // 2**20} MiB"
    )
    assert said["a request"].endswith(f"{limits.half_frame_s:g} s from its first byte to its last")


def test_every_metric_has_a_row() -> None:
    registry = CollectorRegistry()
    PrometheusControllerObserver(registry)
    known = {
        metric.name.removeprefix("marshal_controller_")
        + ("_total" if metric.type == "counter" else "")
        for metric in registry.collect()
    }
    named = {name for cell in table_under("Metrics") for name in re.findall(r"`(\w+)`", cell)}
    assert named == known
