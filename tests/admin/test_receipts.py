from __future__ import annotations

import json
from collections.abc import Iterator

import attrs
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_marshal import FENCED, decode
from kafka_marshal.admin.fold import ClaimsFold
from kafka_marshal.admin.receipts import Receipt, Receipts
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import Headers, Record
from kafka_marshal.testing import Broker
from tests.cli.run import marshal
from tests.client.hands import Hands
from tests.memory_log import MemoryLog

RULES = attrs.evolve(FENCED, heartbeat_interval_ms=10_000)


class Log:
    """Records of a claim of (g, t, 0), a second apart; offset and epoch are the record's number."""

    def __init__(self, first: int = 0, interval_ms: int | None = 10_000) -> None:
        self._interval_ms = interval_ms
        self.receipts = Receipts("g", "t")
        self._log, self._fold, self.now_ms = MemoryLog(first=first), ClaimsFold(first, RULES), 0

    def say(
        self,
        kind: str,
        who: str,
        tail: str = "",
        epoch: int | None = None,
        wait: int = 1,
        done: int | None = None,
        seen: int | None = None,
    ) -> int:
        self.now_ms += wait * 1000
        place = "g//0" if kind == "ReleaseGroup" else "g/t/0"
        message = decode(f"{kind}/1/0/{who}i/{who}/{place}{tail}".encode())
        interval_ms = self._interval_ms if kind == "ClaimingPartition" else None
        clock = None if seen is None else self.now_ms - 500
        headers = Headers(True, epoch, seen=seen, clock=clock, interval_ms=interval_ms, done=done)
        record = self._log.append(message, headers, at_ms=self.now_ms)
        self.receipts.read(record, self._fold.apply(record))
        return record.offset

    def found(self, later_ms: int = 0) -> list[Receipt]:
        return self.receipts.receipts(self.now_ms + later_ms, RULES.stale_after_ms)


def test_a_consumer_that_died_leaves_a_receipt_for_its_last_range() -> None:
    log = Log()
    epoch = log.say("ClaimingPartition", "c1")
    log.say("ClaimingMessages", "c1", "/10", epoch)
    log.say("ClaimingMessages", "c1", "/25", epoch)
    assert log.found() == [], "it lives"
    [silent] = log.found(later_ms=20_001)
    assert (silent.start, silent.end, silent.ended_by, silent.ended_ms) == (10, 25, "silent", None)
    log.say("ClaimingPartition", "c2", wait=21)
    [receipt] = log.found()
    assert (receipt.start, receipt.end, receipt.epoch) == (10, 25, epoch)
    assert (receipt.instance, receipt.client, receipt.ended_by) == ("c1i", "c1", "took_over")
    assert (receipt.granted_ms, receipt.ended_ms) == (3_000, 24_000)
    assert not receipt.heard_later
    log.say("Heartbeat", "c1", "/25", epoch)  # late, and refused; but it lives
    [receipt] = log.found()
    assert receipt.heard_later


def test_a_release_that_says_that_all_is_processed_leaves_none() -> None:
    log = Log()
    epoch = log.say("ClaimingPartition", "c1")
    log.say("ClaimingMessages", "c1", "/10", epoch)
    log.say("ReleasingPartition", "c1", "/10", epoch, done=10)
    log.say("ClaimingPartition", "c2")
    assert log.found(later_ms=1_000_000) == []
    assert (log.receipts.grants, log.receipts.in_hand) == (1, 0)


def test_a_release_says_from_where_on_a_range_was_not_processed() -> None:
    log = Log()
    epoch = log.say("ClaimingPartition", "c1")
    log.say("ClaimingMessages", "c1", "/10", epoch)
    log.say("ClaimingMessages", "c1", "/25", epoch)
    log.say("ReleasingPartition", "c1", "/25", epoch, done=12)
    [receipt] = log.found()
    assert (receipt.start, receipt.end, receipt.ended_by) == (12, 25, "released")
    log.say("ClaimingPartition", "c1")
    [receipt] = log.found()
    assert not receipt.heard_later, "it said itself what it did not process"


def test_a_release_of_an_older_version_does_not_say_what_was_processed() -> None:
    log = Log(interval_ms=None)
    epoch = log.say("ClaimingPartition", "c1")
    log.say("ClaimingMessages", "c1", "/10", epoch)
    log.say("ReleasingPartition", "c1", "/10", epoch)
    [receipt] = log.found()
    assert (receipt.start, receipt.end, receipt.ended_by) == (0, 10, "released_unsaid")


def test_of_an_older_version_the_last_two_ranges_may_be_in_hand() -> None:
    log = Log(interval_ms=None)
    epoch = log.say("ClaimingPartition", "c1")
    for end in (10, 25, 30):
        log.say("ClaimingMessages", "c1", f"/{end}", epoch)
    log.say("ReleaseGroup", "x", "/0")
    [receipt] = log.found()
    assert (receipt.start, receipt.end) == (10, 30)


def test_what_a_living_owner_has_in_hand_is_counted_apart() -> None:
    log = Log()
    epoch = log.say("ClaimingPartition", "c1")
    log.say("ClaimingMessages", "c1", "/10", epoch)
    assert log.found() == []
    assert log.receipts.in_hand == 1


def test_a_tenure_without_a_grant_leaves_none() -> None:
    log = Log()
    epoch = log.say("ClaimingPartition", "c1")
    log.say("Heartbeat", "c1", "/10", epoch)
    log.say("ClaimingPartition", "c2", wait=30)
    assert log.found() == []


def test_a_request_that_was_refused_was_not_granted() -> None:
    log = Log()
    epoch = log.say("ClaimingPartition", "c1")
    log.say("ClaimingMessages", "c1", "/10", epoch)
    log.say("ClaimingMessages", "c1", "/7", epoch)
    log.say("ClaimingMessages", "c2", "/90", epoch)
    log.say("ReleaseGroup", "x", "/0")
    [receipt] = log.found()
    assert (receipt.start, receipt.end, receipt.ended_by) == (0, 10, "group_released")


def test_whoever_claims_anew_after_its_release_was_lost_is_alive() -> None:
    log = Log()
    epoch = log.say("ClaimingPartition", "c1")
    log.say("ClaimingMessages", "c1", "/10", epoch)
    log.say("ClaimingPartition", "c1")
    [receipt] = log.found()
    assert (receipt.ended_by, receipt.heard_later) == ("reclaimed", True)


def test_where_the_head_is_gone_a_range_may_have_no_known_beginning() -> None:
    """The owner is certain, since somebody paused the group; the position is not."""
    log = Log(first=100)
    log.say("ReleaseGroup", "x", "/0")
    epoch = log.say("ClaimingPartition", "c1")
    log.say("ClaimingMessages", "c1", "/10", epoch)
    log.say("ReleaseGroup", "x", "/0")
    [receipt] = log.found()
    assert (receipt.start, receipt.end) == (None, 10)


def test_where_the_head_is_gone_a_request_that_nobody_can_judge_may_have_been_granted() -> None:
    """The command printed that nothing may have been lost, though its consumer had died."""
    log = Log(first=100)
    log.say("ClaimingMessages", "c0", "/8", 4)
    log.say("ClaimingMessages", "c1", "/10", 5)
    log.say("ClaimingMessages", "c0", "/9", 4)  # of somebody who was replaced
    log.say("ClaimingMessages", "c1", "/20", 5)
    assert log.receipts.grants == 3
    assert [(one.start, one.end, one.ended_by) for one in log.found(20_001)] == [
        (None, 8, "not_known"),
        (None, 20, "silent"),
    ]
    log.say("ReleaseGroup", "x", "/0")
    _, receipt = log.found()
    assert (receipt.start, receipt.end, receipt.epoch) == (None, 20, 5)
    assert receipt.ended_by == "group_released"


def test_where_the_head_is_gone_an_owner_that_says_what_it_did_leaves_no_receipt() -> None:
    log = Log(first=100)
    log.say("ClaimingMessages", "c1", "/10", 5)
    log.say("ReleasingPartition", "c1", "/10", 5, done=10)
    assert log.found(later_ms=1_000_000) == []


def test_the_first_request_that_is_left_may_have_been_granted_though_its_owner_is_certain() -> None:
    log = Log(first=100)
    log.say("ClaimingMessages", "c1", "/10", 5, seen=99)
    [receipt] = log.found(later_ms=20_001)
    assert (receipt.start, receipt.end, receipt.ended_by) == (None, 10, "silent")
    log.say("ClaimingMessages", "c1", "/15", 5, seen=100)
    [receipt] = log.found(later_ms=20_001)
    assert (receipt.start, receipt.end) == (None, 15)


def test_a_record_on_another_coordinating_partition_ends_no_tenure() -> None:
    """It says nothing of the claim; a living owner was listed, as if nobody owned it."""
    log = Log()
    epoch = log.say("ClaimingPartition", "c1")
    log.say("ClaimingMessages", "c1", "/10", epoch)
    message = decode(b"Heartbeat/1/0/xi/x/g/t/0/7")
    elsewhere = Record(1, 0, 3_000, message, Headers())
    log.receipts.read(elsewhere, ClaimsFold(0, RULES).apply(elsewhere))
    assert log.found() == []
    assert log.receipts.in_hand == 1


@pytest.fixture
def hands(kafka_broker: Broker) -> Iterator[Hands]:
    with Hands(kafka_broker) as hands:
        yield hands


def test_the_command_prints_receipts_from_the_log(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    whole = hands.wins("g", topic, 1)
    hands.asks("g", topic, 1, whole, 3)
    hands.frees("g", topic, 1, whole, 3, done=3)
    nothing = marshal("receipts", "g", topic, *hands.options)
    assert nothing.returncode == 0
    assert nothing.stdout == "nothing may have been lost of 1 grants\n"
    epoch = hands.wins("g", topic, 0, interval_ms=60_000)
    hands.asks("g", topic, 0, epoch, 3)
    last = hands.asks("g", topic, 0, epoch, 7)
    hands.pauses("g", topic, 600)
    told = marshal("receipts", "g", topic, *hands.options)
    assert told.returncode == 1
    assert told.stdout.startswith("1 of 3 grants may have been lost, 4 messages\n")
    assert "an administrator released the group" in told.stdout
    line = json.loads(marshal("receipts", "g", topic, *hands.options, "--json").stdout)
    assert (line["topic_partition"], line["start"], line["end"]) == (0, 3, 7)
    assert (line["epoch"], line["instance"]) == (epoch, "c1i")
    home = TopicPartition(hands.topic, coordinating_partition(topic, hands.partitions), last)
    admin = AdminClient({"bootstrap.servers": hands.bootstrap})
    admin.delete_records([home])[home].result(30)
    headless = marshal("receipts", "g", topic, *hands.options)
    assert "0 messages, and those of 1 whose beginning is not known\n" in headless.stdout
    wrong = marshal("receipts", "g", "nothing", *hands.options)
    assert wrong.returncode == 2
    assert wrong.stderr == f"marshal: group g has no claim of nothing; it has claims of: {topic}\n"
