"""The two walks of ARCHITECTURE.md are the calls that are made, in that order."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pyarrow.parquet as pq
import pytest

from kafka_marshal import Consumer
from kafka_marshal.replay import api
from kafka_marshal.testing.in_memory import InMemoryKafka

ROOT = Path(__file__).parent.parent.parent
CAPTURES = ROOT / "tests" / "data" / "captures" / "original"
LISTS = re.findall(
    r"(?m)((?:^\d\. .*\n(?:   .*\n)*)+)",
    (ROOT / "ARCHITECTURE.md").read_text("utf-8").split("## Two walks")[1].split("\n## ")[0],
)
MESSAGE, RECORD = (re.findall(r"(?m)^\d\. `(kafka_marshal[\w.]+)`", each) for each in LISTS)


@contextmanager
def called(names: Collection[str]) -> Iterator[list[str]]:
    """Which of these functions are called, by whichever thread starts in here, in order."""
    calls: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        name = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"
        if event == "call" and name in names:
            calls.append(name)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def first_in_order(names: Collection[str], calls: Collection[str]) -> list[str]:
    """Those that are called, each after the one before; up to the first that is not."""
    rest = iter(calls)
    return [name for name in names if name in rest]


def test_a_message_walks_from_the_broker_to_its_position_as_the_page_lists() -> None:
    kafka = InMemoryKafka()
    kafka.create("orders")
    kafka.produce("orders", [b"tea"])
    with (
        called(MESSAGE) as calls,
        Consumer(settings=kafka.settings(), group_id="billing", client_id="c1") as consumer,
    ):
        consumer.add_topic("orders")
        assert consumer.poll(10.0) is not None
        consumer.commit()
        assert consumer.committed("orders", 0) == 1
    assert len(MESSAGE) > 6
    assert first_in_order(MESSAGE, calls) == MESSAGE


def test_a_record_walks_from_a_file_to_a_finding_as_the_page_lists(tmp_path: Path) -> None:
    theft = CAPTURES / "d3_late_heartbeat_theft.jsonl"
    with called(RECORD) as calls:
        api.run([str(theft)], out=tmp_path / "out", engine="local", heartbeat_interval_s=10.0)
    [table] = (tmp_path / "out" / "findings").glob("*.parquet")
    assert "acts_without_owning" in pq.read_table(table).column("code").to_pylist()
    assert len(RECORD) > 6
    assert first_in_order(RECORD, calls) == RECORD


@pytest.mark.parametrize("walk", [MESSAGE, RECORD], ids=["message", "record"])
def test_a_walk_in_another_order_is_noticed(walk: list[str]) -> None:
    assert first_in_order(walk, walk) == walk
    assert first_in_order(walk, [*walk[1:], walk[0]]) != walk
    assert first_in_order(walk, walk[:-1]) != walk
