"""Commands about a live log take a group's heartbeat interval from it, and say where it differs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from kafka_marshal.core.messages import ClaimingPartition, Headers, Heartbeat, Offset, Partition
from kafka_marshal.testing import Broker
from tests.admin.test_clock_ahead import Stamped
from tests.cli.run import marshal
from tests.client.hands import Hands

CONTRADICTS = (
    "marshal: --heartbeat-interval: group g says 1s in the log (client a), not 60s; leave the "
    "option out\n"
)


@pytest.fixture
def hands(kafka_broker: Broker) -> Iterator[Hands]:
    with Hands(kafka_broker) as hands:
        yield hands


def owns(hands: Hands, topic: str, partition: int, who: str, interval_ms: int) -> None:
    """It wins the claim and states its interval in a heartbeat."""
    epoch = hands.wins("g", topic, partition, who, interval_ms)
    about = (1, 0, f"{who}i", who, "g", topic, Partition(partition), Offset(0))
    hands.append(Heartbeat(*about), Headers(True, epoch=epoch, interval_ms=interval_ms))


def commands(topic: str) -> dict[str, tuple[str, ...]]:
    return {
        "ls": ("ls", "g"),
        "groups": ("groups",),
        "doctor": ("doctor",),
        "receipts": ("receipts", "g", topic),
        "set-position": ("set-position", "g", f"{topic}:0=1", "--dry-run"),
    }


@pytest.mark.parametrize("command", ["ls", "groups", "doctor", "receipts", "set-position"])
def test_an_option_that_contradicts_the_log_is_refused_and_none_is_needed(
    hands: Hands, command: str
) -> None:
    topic = hands.data(messages=2)
    owns(hands, topic, 0, "a", 1_000)
    given = (*commands(topic)[command], *hands.options)
    ran = marshal(*given, "--heartbeat-interval", "60s")
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", CONTRADICTS)
    for option in ((), ("--heartbeat-interval", "1s")):
        assert "interval" not in marshal(*given, *option).stderr


def test_ls_judges_each_group_by_its_own_interval_and_shows_it(hands: Hands) -> None:
    topic = hands.data(partitions=2)
    owns(hands, topic, 0, "a", 100)
    hands.wins("old", topic, 0, "b")
    ran = marshal("ls", "g", *hands.options)
    assert "heartbeat interval: 0.1s" in ran.stdout
    rows = [
        json.loads(line) for line in marshal("ls", "--json", *hands.options).stdout.split("\n")[:-1]
    ]
    shown = [(row["group"], row["heartbeat_interval_ms"], row["intervals_ms"]) for row in rows]
    assert shown == [("g", 100, [100]), ("old", 60_000, [])]
    assert [row["state"] for row in rows] == ["stale", "owned"], "0.2 s are over"
    table = marshal("ls", *hands.options).stdout
    assert [line.split()[-1] for line in table.splitlines()[1:]] == ["INTERVAL", "0.1s", "60s"]
    [_, heads, *lines] = marshal("groups", *hands.options).stdout.splitlines()
    assert [line[heads.index("INTERVAL") :].split()[0] for line in lines] == ["0.1s", "60s"]


@pytest.mark.parametrize("command", ["ls", "groups", "set-position", "pause"])
def test_two_intervals_of_a_group_are_said_by_every_command_that_reads_it(
    hands: Hands, command: str
) -> None:
    topic = hands.data(partitions=2, messages=2)
    owns(hands, topic, 0, "a", 60_000)
    owns(hands, topic, 1, "b", 10_000)
    given = {**commands(topic), "pause": ("pause", "g", "--for", "1s")}[command]
    ran = marshal(*given, *hands.options)
    assert (
        "Warning: group g has 2 heartbeat intervals (client b says 10 s, client a says 60 s): its "
        "consumers process messages twice; stop those that differ" in ran.stderr
    )
    if command == "ls":
        assert "heartbeat interval: 60s and 10s" in ran.stdout
    if command == "groups":
        assert "different heartbeat intervals" in ran.stdout


def test_set_position_goes_by_takeovers_after_the_log_s_interval(kafka_broker: Broker) -> None:
    """Judged by 60 s nobody had taken over, and the position was the dead owner's."""
    log = Stamped(kafka_broker)
    now_ms = time.time_ns() // 1_000_000
    about = (log.data, Partition(0))
    for who, epoch, at_ms, position in (("a", 0, now_ms - 90_000, 0), ("b", 2, now_ms - 60_000, 1)):
        asks = ClaimingPartition(1, 0, f"{who}i", who, "g", *about)
        log.append(asks, Headers(True, interval_ms=10_000), at_ms)
        beat = Heartbeat(1, 0, f"{who}i", who, "g", *about, Offset(position))
        log.append(beat, Headers(True, epoch=epoch, interval_ms=10_000), at_ms)
    assert log.owner() == "b"
    ran = marshal("set-position", "g", f"{log.data}=-1", "--json", *log.options)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert (said["position"], said["target"], said["state"]) == (1, 0, "set")
