from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress

import attrs
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from kafka_marshal import FENCED
from kafka_marshal.admin.doctor import client_settings, clocks, permissions, records
from kafka_marshal.admin.doctor import topic as of_topic
from kafka_marshal.admin.doctor.broker_clocks import BrokerClock
from kafka_marshal.admin.doctor.doctor import examine
from kafka_marshal.admin.doctor.finding import CheckFinding, CheckSeverity
from kafka_marshal.admin.doctor.topic_sample import TopicSample
from kafka_marshal.authentication import Keyring
from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.client.connect.admin_client import (
    ClusterClient,
    PartitionDescription,
    TopicDescription,
)
from kafka_marshal.client.connect.coordination_topic import (
    TopicSpec,
    init,
    retention_needed_ms,
    settings_for,
)
from kafka_marshal.client.connect.reader import now_ms
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.errors import COORDINATION_TOPIC, BrokerFailed
from kafka_marshal.testing import Broker, Cluster
from kafka_marshal.testing.in_memory import InMemoryKafka
from tests.cli.run import marshal
from tests.client.hands import Hands

ALL = frozenset({"READ", "WRITE", "DESCRIBE"})
GOOD = settings_for(TopicSpec("t"), 3)


def partition(*in_sync: int, leader: int | None = 1, copies: int = 3) -> PartitionDescription:
    return PartitionDescription(leader, tuple(range(1, copies + 1)), in_sync)


def topic(
    *partitions: PartitionDescription, allowed: frozenset[str] | None = ALL
) -> TopicDescription:
    return TopicDescription("t", dict(enumerate(partitions)), allowed)


WHOLE = topic(partition(1, 2, 3), partition(1, 2, 3))


def said(*findings: CheckFinding) -> list[tuple[str, str]]:
    return [(one.severity.value, one.check) for one in findings]


def raw(
    offset: int,
    value: str,
    place: int = 0,
    at_ms: int = 0,
    stamped: TimestampType = TimestampType.LOG_APPEND_TIME,
) -> RawRecord:
    headers = (("marshal-version", b"1"),)
    return RawRecord(place, offset, at_ms, value.encode(), headers, stamped)


def claiming(data_topic: str) -> str:
    return f"ClaimingPartition/1/0/i1/c1/g/{data_topic}/0"


def test_a_topic_as_init_makes_it_is_fine() -> None:
    assert list(of_topic.of_settings(GOOD, WHOLE, FENCED)) == []
    assert list(of_topic.replication(WHOLE, brokers=3)) == []
    assert list(permissions.on_topic(WHOLE)) == []


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("message.timestamp.type", "CreateTime", "error"),
        ("cleanup.policy", "compact", "error"),
        ("retention.ms", str(retention_needed_ms() - 1), "error"),
        ("retention.bytes", "1000000", "warning"),
        ("unclean.leader.election.enable", "true", "error"),
        ("min.insync.replicas", "1", "warning"),
        ("min.insync.replicas", "3", "warning"),
        ("max.message.bytes", "500", "warning"),
        ("max.message.bytes", "16384", "note"),
        ("compression.type", "gzip", "note"),
        ("message.format.version", "0.10.2", "error"),
    ],
)
def test_each_setting_that_is_wrong_is_found(name: str, value: str, severity: str) -> None:
    found = list(of_topic.of_settings({**GOOD, name: value}, WHOLE, FENCED))
    assert said(*found) == [(severity, name)]
    assert all(one.endangers and one.do for one in found)


def test_copies_and_leaders_that_are_missing_are_found() -> None:
    behind = topic(partition(1, 2, 3), partition(1, 2))
    assert said(*of_topic.replication(behind, 3)) == [("warning", "copies")]
    assert said(*of_topic.of_settings(GOOD, behind, FENCED)) == []
    blocked = topic(partition(1))
    assert ("error", "copies") in said(*of_topic.of_settings(GOOD, blocked, FENCED))
    gone = topic(partition(1, 2, 3), partition(leader=None))
    assert ("error", "leaders") in said(*of_topic.replication(gone, 3))
    alone = topic(partition(1, copies=1))
    assert said(*of_topic.replication(alone, 3)) == [("warning", "copies")]
    assert said(*of_topic.replication(alone, 1)) == [("note", "copies")]


def test_what_is_not_allowed_is_found_and_what_is_not_told_is_said() -> None:
    reads = attrs.evolve(WHOLE, allowed=frozenset({"READ", "DESCRIBE"}))
    [finding] = permissions.on_topic(reads)
    assert finding.found == "the user of these settings may not WRITE the topic"
    silent = attrs.evolve(WHOLE, allowed=None)
    assert said(*permissions.on_topic(silent)) == [("unchecked", "permissions")]


def test_of_a_group_it_is_told_whether_its_consumers_start() -> None:
    allowed = {"a": frozenset({"READ", "DESCRIBE"}), "b": frozenset({"DESCRIBE"})}
    [lag] = permissions.on_groups(allowed)
    assert (lag.severity, lag.found.split()[-1]) == (CheckSeverity.WARNING, "b")
    [none] = permissions.on_groups({"d": frozenset()})
    assert said(none) == [("error", "group permissions")]
    assert "do not start" in none.endangers


def test_groups_whose_coordinator_does_not_answer_are_unchecked() -> None:
    """They were listed as fine."""
    kafka = InMemoryKafka()
    kafka.append(COORDINATION_TOPIC, 0, b"Heartbeat/1/0/i1/c1/g/orders/0/5")

    def answers(question: str) -> None:
        if question == "describe_consumer_groups":
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))

    assert "group permissions" in examine(kafka.settings(), COORDINATION_TOPIC).fine
    kafka.answers = answers
    examined = examine(kafka.settings(), COORDINATION_TOPIC)
    [finding] = [one for one in examined.findings if one.check == "group permissions"]
    assert (finding.severity, finding.found.split()[-1]) == (CheckSeverity.UNCHECKED, "g")
    assert "group permissions" not in examined.fine


def test_a_topic_that_has_grown_is_found_with_the_count_that_it_had() -> None:
    sample = TopicSample(12)
    names = [f"events{number}" for number in range(6)]
    moved = [n for n in names if coordinating_partition(n, 12) != coordinating_partition(n, 10)]
    assert moved
    for offset, name in enumerate(names):
        sample.add(raw(offset, claiming(name), coordinating_partition(name, 10), offset))
    assert sample.counted_before == 10
    [finding] = records.records(sample)
    assert said(finding) == [("error", "places")]
    assert "with 10 partitions they would be right" in finding.found
    assert finding.endangers.startswith("claims have moved away")
    # Somebody counts anew, and somebody else as before.
    sample.add(raw(7, claiming(moved[0]), coordinating_partition(moved[0], 12), 100))
    sample.add(raw(8, claiming(moved[0]), coordinating_partition(moved[0], 10), 101))
    [finding] = records.records(sample)
    assert finding.endangers == "two consumers own one claim, each in its own log"


def test_records_in_the_right_place_are_fine() -> None:
    sample = TopicSample(12)
    for offset in range(20):
        name = f"events{offset}"
        sample.add(raw(offset, claiming(name), coordinating_partition(name, 12), offset))
    assert list(records.records(sample)) == []


def test_foreign_records_producers_stamps_and_missing_headers_are_found() -> None:
    sample = TopicSample(1)
    sample.add(raw(0, "hello"))
    sample.add(raw(1, claiming("t"), stamped=TimestampType.CREATE_TIME))
    sample.add(attrs.evolve(raw(2, claiming("t")), headers=()))
    assert said(*records.records(sample)) == [
        ("error", "timestamps"),
        ("warning", "messages"),
        ("note", "headers"),
    ]


def test_a_request_for_a_range_is_a_message_of_the_protocol() -> None:
    sample = TopicSample(1)
    sample.add(raw(0, "ClaimingRange/1/1/p/p/g/t/0/4"))
    assert sample.malformed == 0
    sample.add(raw(1, "ClaimingRange/1/1/p/p/g/t/0/x"))
    assert sample.malformed == 1


def test_a_request_for_a_range_lies_in_a_place_as_others_do_and_no_client_stops_at_it() -> None:
    sample = TopicSample(2)
    place = coordinating_partition("t", 2)
    sample.add(raw(0, "ClaimingRange/1/1/p/p/g/t/0/4", 1 - place))
    assert [(one.topic, one.partition) for one in sample.misplaced] == [("t", 1 - place)]
    assert (sample.groups, sample.owners_records) == ({"g"}, 0)
    signed = TopicSample(2, keyring=Keyring({"k1": bytes(32)}))
    signed.add(raw(0, "ClaimingRange/1/1/p/c1/g/t/0/4"))
    assert (signed.not_signed, signed.groups) == (0, {"g"})


def shared_under(*windows: str) -> TopicSample:
    sample = TopicSample(1)
    for offset, window in enumerate(windows):
        asks = raw(offset, claiming("t"))
        sample.add(attrs.evolve(asks, headers=(("marshal-ranges", window.encode()),)))
    return sample


def test_windows_that_take_turns_are_told_and_one_that_replaced_another_is_not() -> None:
    [finding] = records.records(shared_under("60", "60", "80", "60"))
    assert (finding.severity, finding.check) == (CheckSeverity.WARNING, "ranges")
    assert "under windows that take turns: 60, 80" in finding.found
    assert said(*records.records(shared_under("60", "60", "80", "80"))) == []
    assert said(*records.records(shared_under("60", "x", "60"))) == []


def gaps_of(*offsets: int, first: int = 0, end: int) -> dict[int, tuple[int, int]]:
    sample = TopicSample(2)
    sample.begins(1, first)
    for offset in offsets:
        sample.add(raw(offset, claiming("t"), 1))
    sample.ends(1, end)
    return sample.gaps


def test_the_first_gap_of_a_partition_is_found_at_its_beginning_inside_and_at_its_end() -> None:
    assert gaps_of(0, 1, 2, end=3) == gaps_of(7, 8, first=7, end=9) == gaps_of(end=0) == {}
    assert gaps_of(2, 3, end=4) == {1: (0, 2)}
    assert gaps_of(0, 3, 5, end=6) == {1: (1, 3)}
    assert gaps_of(0, 1, end=3) == {1: (2, 3)}
    assert gaps_of(first=5, end=7) == {1: (5, 7)}


def test_a_gap_is_a_warning_that_names_partition_and_offsets_and_what_to_do() -> None:
    sample = TopicSample(3)
    sample.gaps = {2: (1_000, 1_003)}
    [finding] = records.records(sample)
    assert said(finding) == [("warning", "gaps")]
    assert finding.found.startswith("offsets 1,000 to 1,002 are missing inside of partition 2: ")
    assert "marshal set-position GROUP TOPIC=WHERE" in finding.do
    sample.gaps = {2: (1_000, 1_003), 1: (8, 9)}
    [finding] = records.records(sample)
    assert finding.found.startswith(
        "offset 8 is missing inside of partition 1; also in partition 2"
    )


def test_a_transaction_leaves_a_gap_that_the_command_warns_of(kafka_broker: Broker) -> None:
    with Hands(kafka_broker) as hands:
        data = hands.data()
        hands.wins("g", data, 0)
        place = coordinating_partition(data, hands.partitions)
        assert "gaps" in examine(hands.settings, hands.topic).fine
        producer = Producer({"bootstrap.servers": hands.bootstrap, "transactional.id": data})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(hands.topic, b"x", partition=place)
        producer.commit_transaction(30)
        ran = marshal("doctor", *hands.options)
        assert ran.returncode == 1
        assert f"warning: offset 2 is missing inside of partition {place}: " in ran.stdout


def test_records_that_were_written_to_another_log_are_found_and_who_wrote_them() -> None:
    """As a mirror copies them, whose offsets begin anew."""
    sample = TopicSample(1)
    for offset, header, value in ((0, "epoch", b"3"), (1, "seen", b"1"), (2, "epoch", b"0")):
        beat = raw(offset, f"Heartbeat/1/0/{header}1/{header}-{offset}/g/t/0/5")
        sample.add(attrs.evolve(beat, headers=((f"marshal-{header}", value),)))
    [finding] = records.records(sample)
    assert said(finding) == [("error", "offsets")]
    assert finding.found == (
        "2 of 3 owners' records refer to an offset that is not before their own: epoch-0, seen-1"
    )


def test_a_partition_of_which_less_than_a_pause_is_left_is_named() -> None:
    """Who claims there for the first time cannot know that no pause of before still holds."""
    at_ms = int(FENCED.pause_max_ms + FENCED.clock_rewind_max_ms) + 1_000
    sample = TopicSample(4)
    for number in (0, 1, 2):  # 3 begins at offset 0
        sample.begins_late(number)
    sample.add(raw(7, claiming("t"), 0, at_ms=999))
    sample.add(raw(7, claiming("t"), 1, at_ms=1_001))
    [finding] = records.heads(sample, FENCED, at_ms)
    assert said(finding) == [("note", "head")]
    assert finding.found == "the head of partition 1, 2 is gone, and less than 24 h 1 min is left"


def headless() -> InMemoryKafka:
    """A log of two partitions, each without its head, and with ten records left."""
    kafka = InMemoryKafka(2)
    kafka.broker_ms = now_ms  # the doctor compares it with its own clock
    for partition in range(2):
        for number in range(20):
            kafka.append(COORDINATION_TOPIC, partition, claiming(f"t{number}").encode())
        kafka.delete_records(COORDINATION_TOPIC, partition, 10)
    return kafka


@pytest.mark.parametrize("records_max", [3, 10, 11])
@pytest.mark.parametrize("gap", [False, True])
def test_a_missing_head_is_judged_by_the_first_record_however_few_are_read(
    records_max: int, gap: bool
) -> None:
    """With fewer than there are, it was listed as fine."""
    kafka = headless()
    log = kafka.topics[COORDINATION_TOPIC]
    if gap:
        log[0].records[10] = None
    [found] = of_head(kafka, records_max)
    assert (found.severity, "partition 0, 1" in found.found) == (CheckSeverity.NOTE, True)
    old_ms = kafka.broker_ms() - 2 * FENCED.pause_max_ms
    for partition in log:
        first = partition.records[10 + gap]
        assert first is not None
        partition.records[10 + gap] = attrs.evolve(first, timestamp_ms=int(old_ms))
        if partition is log[0]:
            [found] = of_head(kafka, records_max)
            assert "partition 1 is" in found.found
    if not gap:
        assert of_head(kafka, records_max) == []


def test_a_missing_head_is_unchecked_if_no_record_is_read() -> None:
    [found] = of_head(headless(), 0)
    assert (found.severity, found.do) == (CheckSeverity.UNCHECKED, "raise --records")
    assert of_head(InMemoryKafka(2), 0) == []


def of_head(kafka: InMemoryKafka, records_max: int) -> list[CheckFinding]:
    """The findings about heads; none if these are fine."""
    examined = examine(kafka.settings(), COORDINATION_TOPIC, records_max=records_max)
    found = [one for one in examined.findings if one.check == "head"]
    assert ("head" in examined.fine) == (not found)
    return found


def beating(offset: int, client: str, interval_s: int, at_ms: int) -> RawRecord:
    value = f"Heartbeat/1/0/{client}1/{client}/g/t/{offset}/5"
    said = (("marshal-epoch", b"0"), ("marshal-interval", b"%d" % (1000 * interval_s)))
    return attrs.evolve(raw(offset, value, at_ms=at_ms), headers=said)


def test_a_group_that_lives_under_two_intervals_is_found_and_who_says_which() -> None:
    sample = TopicSample(1)
    sample.add(beating(1, "a", 60, 0))
    sample.add(beating(2, "b", 10, 60_000))
    [finding] = records.records(sample)
    assert said(finding) == [("error", "intervals")]
    assert finding.found == (
        "group g lives under 2 heartbeat intervals: client b says 10 s, client a says 60 s"
    )
    # The others are gone.
    sample.add(beating(3, "b", 10, 130_000))
    assert list(records.records(sample)) == []


def test_time_that_steps_back_is_found_and_how_far_is_what_matters() -> None:
    for back_ms, expected in ((0, []), (500, ["note"]), (60_001, ["error"])):
        sample = TopicSample(1)
        sample.add(raw(0, claiming("t"), at_ms=100_000))
        sample.add(raw(1, claiming("t"), at_ms=100_000 - back_ms))
        found = clocks.in_log(sample, FENCED, 200_000)
        assert [one.severity.value for one in found] == expected
    ahead = TopicSample(1)
    ahead.add(raw(0, claiming("t"), at_ms=10_000))
    assert said(*clocks.in_log(ahead, FENCED, 5_000)) == [("warning", "clocks")]


def test_brokers_whose_clocks_are_apart_are_found() -> None:
    def found(*each: BrokerClock) -> list[tuple[str, str]]:
        return said(*clocks.between_brokers(list(each), FENCED))

    assert found(BrokerClock(1, 5, 2), BrokerClock(2, 900, 2)) == []
    assert found(BrokerClock(1, 0, 2), BrokerClock(2, 5_000, 2)) == [("warning", "clocks now")]
    assert found(BrokerClock(1, 0, 2), BrokerClock(2, 90_000, 2)) == [("error", "clocks now")]
    assert found(BrokerClock(1, 0, 2), BrokerClock(2, 5_000, 4_500)) == [], (
        "within what the append took"
    )
    assert found(BrokerClock(1, 0, 2), BrokerClock(2, None, 0)) == [("unchecked", "clocks now")]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("acks", "1", [("warning", "acks")]),
        ("request.required.acks", "0", [("warning", "acks")]),
        ("acks", "-1", []),
        ("acks", "all", []),
        ("enable.idempotence", "false", [("warning", "enable.idempotence")]),
        ("enable.idempotence", "true", []),
        ("linger.ms", "5", []),
    ],
)
def test_settings_by_which_a_client_would_lose_or_double_records_are_found(
    name: str, value: str, expected: list[tuple[str, str]]
) -> None:
    assert said(*client_settings.of_client({"bootstrap.servers": "b:1", name: value})) == expected


# --- on real brokers ------------------------------------------------------------------------------


def test_a_topic_with_the_wrong_settings_and_more_partitions_than_before_is_seen(
    kafka_broker: Broker,
) -> None:
    with Hands(kafka_broker, partitions=2) as hands:
        data = hands.data()
        while [n for n in range(1, 6) if coordinating_partition(data, n) == 1] != [2]:
            data = hands.data()  # only with two partitions it belongs where it lies
        hands.wins("g", data, 0)
        admin = AdminClient({"bootstrap.servers": hands.bootstrap})
        admin.create_partitions([NewPartitions(hands.topic, 5)])[hands.topic].result(30)
        deadline = time.monotonic() + 20
        while hands.cluster.topics().get(hands.topic) != 5 and time.monotonic() < deadline:
            time.sleep(0.1)
        found = examine(hands.settings, hands.topic)
        [places] = [one for one in found.findings if one.check == "places"]
        assert "with 2 partitions they would be right" in places.found
        assert found.records == 1
        printed = marshal("doctor", *hands.options)
        assert printed.returncode == 1
        assert "error: records of" in printed.stdout
        assert "never change the partition count" in printed.stdout


def test_a_topic_of_ours_is_fine_and_a_missing_one_and_a_missing_cluster_are_said(
    kafka_broker: Broker,
) -> None:
    with Hands(kafka_broker) as hands:
        hands.wins("g", hands.data(), 0)
        good = marshal("doctor", *hands.options, "--probe", "--json")
        assert good.returncode == 0
        told = json.loads(good.stdout)
        assert [one["check"] for one in told["findings"]] == ["copies"]
        assert told["findings"][0]["severity"] == "note"
        assert {"clocks now", "places", "permissions", "timestamps"} <= set(told["fine"])
        assert not [name for name in hands.cluster.topics() if name.startswith("marshal-doctor-")]
        missing = marshal("doctor", "--bootstrap", hands.bootstrap, "--topic", "nothing")
        assert missing.returncode == 1
        assert "there is no topic nothing" in missing.stdout
    nobody = marshal("doctor", "--bootstrap", "127.0.0.1:1")
    assert (nobody.returncode, nobody.stdout) == (2, "")


@pytest.mark.night
def test_three_brokers_keep_time_together_and_one_that_is_lost_is_missed(
    kafka_cluster: Cluster,
) -> None:
    settings = settings_of(kafka_cluster.bootstrap)
    name = f"marshal-{uuid.uuid4().hex[:8]}"
    made = init(ClusterClient(settings), TopicSpec(name))
    assert (made.copies, made.settings["min.insync.replicas"]) == (3, "2")
    whole = examine(settings, name, probe=True)
    assert whole.findings == ()
    assert "clocks now" in whole.fine
    assert said(*examine(settings, name).findings) == [("unchecked", "clocks now")]
    kafka_cluster.kill(3)
    try:
        found: tuple[CheckFinding, ...] = ()
        deadline = time.monotonic() + 60
        while ("warning", "copies") not in said(*found):
            assert time.monotonic() < deadline, said(*found)
            with suppress(BrokerFailed):  # it was the controller, and there is no other yet
                found = examine(settings, name).findings
        assert CheckSeverity.ERROR not in {one.severity for one in found}
    finally:
        kafka_cluster.start(3)
