"""Records of the log `kafka_marshal`."""

from __future__ import annotations

import json
import logging

import pytest

from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health import ClaimProgress, Wedged, WedgedCause
from kafka_marshal.client.observe.logging_observer import (
    FIELDS,
    ConsumerIdentity,
    JsonFormatter,
    LoggingObserver,
)
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.effects import Lost

CLAIM = Claim(ClaimKey("g", "events", 3), "events", 3, 17, 40)


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> LoggingObserver:
    caplog.set_level(logging.INFO, "kafka_marshal")
    return LoggingObserver(lambda: ConsumerIdentity("g", "c1", "i1"))


def test_a_record_has_the_protocols_words_as_fields(
    logs: LoggingObserver, caplog: pytest.LogCaptureFixture
) -> None:
    logs.claimed(CLAIM)
    logs.lost(CLAIM, Lost.PAUSED)
    claimed, lost = caplog.records
    assert claimed.getMessage() == "events/3 (epoch 17): claimed"
    of = {name: getattr(claimed, name) for name in FIELDS if hasattr(claimed, name)}
    assert of == {
        "event": "claimed",
        "group": "g",
        "client_id": "c1",
        "instance_id": "i1",
        "topic": "events",
        "partition": 3,
        "epoch": 17,
        "position": 40,
    }
    assert vars(lost)["reason"] == "paused"


def test_the_formatter_writes_one_json_object_a_line(
    logs: LoggingObserver, caplog: pytest.LogCaptureFixture
) -> None:
    logs.lost(CLAIM, Lost.PAUSED)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("kafka_marshal").exception("broken")
    lost, broken = (JsonFormatter().format(record) for record in caplog.records)
    assert "\n" not in lost + broken
    read = json.loads(lost)
    assert (read["event"], read["reason"], read["partition"]) == ("lost", "paused", 3)
    assert read["time"].endswith("+00:00")
    assert "ValueError: two\nlines" in json.loads(broken)["exception"]


def test_what_lasts_is_said_more_and_more_rarely(
    logs: LoggingObserver, caplog: pytest.LogCaptureFixture
) -> None:
    for beats in range(3, 100):
        logs.wedged(CLAIM, Wedged(WedgedCause.IN_HAND, beats, 3, ClaimProgress(5, 9, 1)))
    said = [record.getMessage().split()[4] for record in caplog.records]
    assert said == ["3", "6", "12", "24", "48", "96"]


def test_what_a_client_says_many_times_is_written_when_it_begins_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 100.0
    logs = LoggingObserver(lambda: ConsumerIdentity("g", "c1", "i1"), lambda: now_s)
    for number in range(50):
        logs.note(f"broker/1: Connection refused (after {number} ms)")
        logs.note(f"broker/{number}: Disconnected")
        now_s += 1
        logs.look()
    logs.note("there is something else")
    now_s += 28.5
    logs.look()
    begun = ["broker/1: Connection refused (after 0 ms)", "there is something else"]
    assert [record.getMessage() for record in caplog.records] == begun
    now_s += 2
    logs.look()
    assert [record.getMessage() for record in caplog.records[2:]] == [
        "over, logged 100 times within 49.0 s: broker/1: Connection refused (after 0 ms)"
    ]
    logs.note("broker/1: Connection refused (after 7 ms)")
    assert len(caplog.records) == 4


def test_what_differs_by_a_number_within_a_name_is_written_for_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = LoggingObserver(lambda: ConsumerIdentity("g", "c1", "i1"), lambda: 100.0)
    for topic in ("orders-1", "orders-2", "v2.orders", "v3.orders"):
        for position in (7, 8):
            logs.note(f"{topic}/0: the position is {position}, after 3.{position} s")
    assert len(caplog.records) == 4
    for topic in ("orders/0", "orders/0", "timed out/1", "orders/1"):
        for end in (49, 59):
            logs.note(f"{topic}: messages 0 to {end} are gone", distinct=True)
    assert len(caplog.records) == 4 + 6
