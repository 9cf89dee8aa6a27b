"""Marshal promises that a watch of groups says at once what a replay finds in the end."""

from __future__ import annotations

import json
import pickle
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_marshal.capture import RawRecord
from kafka_marshal.core.groups.events import (
    GroupCreated,
    GroupDeleted,
    MemberLeft,
    PartitionsRewound,
)
from kafka_marshal.core.groups.state import Rebalance, Topic
from kafka_marshal.replay.groups import controllers, counting, members, refusals, storms
from kafka_marshal.replay.groups.catalogue import GROUP_CATALOGUE
from kafka_marshal.replay.groups.groups_fold import GroupsFold, GroupsJudging
from kafka_marshal.replay.live.live_findings import BEGUN, OVER, WHOLE, LiveEvent, LiveFold
from kafka_marshal.replay.live.metrics import Metrics
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS
from kafka_marshal.testing import Broker
from kafka_marshal.testing.cluster import free_ports
from tests.cli.run import marshal
from tests.replay.groups.logs import raw_of
from tests.replay.groups.stories import GroupLog, shared, tp
from tests.replay.groups.storm import storm
from tests.replay.groups.test_findings_of_groups import STORIES
from tests.replay.live.feeding import append, make_topic
from tests.replay.live.test_stories import lists_in
from tests.replay.live.test_watch import watched
from tests.replay.told import records as told_records

PLACE = LogPartition("log", 0)
LISTS = lists_in("\nFindings of groups, and when they are reported:")
NAMED_BY = ("code", "group", "topic", "topic_partition", "offset", "instance")


def told(log: GroupLog) -> list[LiveEvent]:
    fold = LiveFold(PLACE, GroupsJudging())
    return [event for record in log.records for event in fold.fold(raw_of(record))]


def named(row: FindingRow) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in NAMED_BY)


def test_every_code_of_groups_is_in_one_of_the_lists() -> None:
    listed = Counter(code for codes in LISTS.values() for code in codes)
    assert listed == Counter({*GROUP_CATALOGUE} - {"malformed"})


@pytest.mark.parametrize("code", STORIES)
def test_a_story_is_told_when_the_page_says_and_is_what_a_replay_finds(code: str) -> None:
    log = STORIES[code][0]()
    in_the_end = {named(row) for row in log.rows()[FINDINGS]}
    told_now = [(one.state, one.row) for one in told(log) if isinstance(one.row, FindingRow)]
    begins = code in LISTS["both"] | LISTS["begun"]
    expected = {code in LISTS["never"]: [], begins: [BEGUN], code in LISTS["whole"]: [WHOLE]}[True]
    states = [state for state, row in told_now if row.code == code]
    # An event may end a story that nothing else showed to have begun.
    assert states in (expected, [WHOLE]) if code in LISTS["both"] else states == expected
    assert {named(row) for _, row in told_now} <= in_the_end


def findings(log: GroupLog, code: str) -> list[tuple[str, FindingRow]]:
    rows = [(one.state, one.row) for one in told(log) if isinstance(one.row, FindingRow)]
    return [(state, row) for state, row in rows if row.code == code]


def test_partitions_without_an_owner_are_told_with_the_first_event_after_a_session() -> None:
    log = shared().at(10).leaves("m2").at(20.1).commits("m1", 0, 5)
    [(state, row)] = findings(log, "without_owner")
    assert state == BEGUN
    assert "2 partitions of group g had no owner for 10.1 s" in row.sentence
    [(_, begun), (state, over)] = findings(log.at(21).target(*["m1"] * 4), "without_owner")
    assert state == OVER
    assert named(begun) == named(over)
    assert "for 11.0 s" in over.sentence


def test_a_group_on_another_partition_than_its_own_is_told_once() -> None:
    log = shared().writes(GroupCreated(9_000, {}, Rebalance.EAGER, "sticky", False), "elsewhere")
    fold = LiveFold(PLACE, GroupsJudging().of_topic(7))
    rows = [one for record in log.records for one in fold.fold(raw_of(record))]
    found = [(one.state, one.row) for one in rows if isinstance(one.row, FindingRow)]
    [(state, row)] = found
    assert (state, row.code, row.group) == (BEGUN, "wrong_coordinating_partition", "elsewhere")


def test_partitions_that_get_an_owner_one_after_the_other_are_one_finding() -> None:
    log = shared().at(10).leaves("m2").at(21).writes(PartitionsRewound({tp(2): 5}, "admin"))
    log.joins("m3", static=frozenset({tp(2)})).at(22)
    log.target("m1", "m1", "m3", "m1")
    [(_, begun), (_, over)] = findings(log, "without_owner")
    assert (begun.count, over.count) == (2, 2)


def test_a_storm_is_told_by_the_rebalance_that_makes_it_one() -> None:
    raws = storm()
    fold = LiveFold(PLACE, GroupsJudging())
    by_offset = [
        (raw.offset, one.state)
        for raw in raws
        for one in fold.fold(raw)
        if isinstance(one.row, FindingRow) and one.row.code == "rebalance_storm"
    ]
    assert by_offset[0] == (21, BEGUN)


def test_to_ask_what_began_changes_nothing() -> None:
    asked, never = GroupsFold(PLACE), GroupsFold(PLACE)
    begun = 0
    for raw in storm():
        never.feed(raw)
        asked.feed(raw)
        begun += len(list(asked.begun()))
        assert list(asked.begun()) == []
    for fold in (asked, never):
        fold.close()
    assert begun
    assert asked.drain() == never.drain()


# --- memory -------------------------------------------------------------------------------------


def ever_new(log: GroupLog, number: int) -> None:
    """Everything that a watch remembers of what is gone, by names that nothing had before."""
    member, group = f"m{number}", f"g{number}"
    log.at(100.0 * number).joins(member).target(*[member] * 4)
    log.commits(member, 0, 5, tenure=1)
    epoch = log.now.epoch
    log.at(100.0 * number + 20).expires(member).starts(number)
    log.writes(MemberLeft(member, ""), epoch=epoch)
    log.writes(MemberLeft(member, ""), epoch=log.now.epoch + 1_000_000 + number)
    log.writes(GroupCreated(10_000, {"t": Topic(1, "id")}, Rebalance.EAGER, "range", False), group)
    log.writes(GroupDeleted(), group)


def test_what_is_remembered_does_not_grow_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    for room, name in (
        (controllers, "EPOCHS_MAX"),
        (counting, "GONE_MAX"),
        (members, "EXPIRED_MAX"),
        (refusals, "STORIES_MAX"),
        (storms, "LATELY_MAX"),
    ):
        monkeypatch.setattr(room, name, 5)
    log = GroupLog()
    fold = LiveFold(PLACE, GroupsJudging())
    sizes, fed = [], 0
    for number in range(1, 61):
        ever_new(log, number)
        for record in log.records[fed:]:
            fold.fold(raw_of(record))
        fed = len(log.records)
        if number % 20 == 0:
            sizes.append(len(pickle.dumps(fold, protocol=5)))
    assert max(sizes) < 1.05 * min(sizes)


# --- on a broker --------------------------------------------------------------------------------


def records() -> Iterator[RawRecord]:
    for raw in storm():
        yield attrs.evolve(raw, partition=3)


@pytest.fixture(scope="module")
def topic(kafka_broker: Broker) -> str:
    make_topic(kafka_broker, "storm", 16)
    append(kafka_broker, "storm", list(records()))
    return "storm"


def test_a_watch_that_is_stopped_and_goes_on_tells_everything_once(
    kafka_broker: Broker, topic: str, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    watched(kafka_broker, topic, judging=GroupsJudging(), out=whole)
    for batches in (1, 0, None, None):
        watched(
            kafka_broker,
            topic,
            stop_after=batches,
            judging=GroupsJudging(),
            out=parts,
            checkpoint=tmp_path / "checkpoint",
        )
    lines = whole.read_text().splitlines()
    assert parts.read_text().splitlines() == lines
    events = Counter(json.loads(line)["event"] for line in lines)
    assert min(events["finding"], events["tenure"], events["rebalance"]) > 5


def test_metrics_say_what_there_is_and_count_rebalances(kafka_broker: Broker, topic: str) -> None:
    [port] = free_ports(1)
    metrics = Metrics(GroupsJudging.gauges)
    metrics.serve(str(port))
    watched(kafka_broker, topic, judging=GroupsJudging(), metrics=metrics)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        text = page.read().decode()
    place = 'coordinating_partition="3"'
    for name, number in (
        ("groups", 1),
        ("members", 5),
        ("owned_partitions", 12),
        ("unowned_partitions", 0),
        ("rebalances_under_way", 0),
    ):
        assert f"marshal_watch_{name}{{{place}}} {float(number)}" in text
    assert 'marshal_watch_rebalances_total{group="g"} 20.0' in text
    assert 'marshal_watch_takeovers_total{group="g",rules="log"}' in text


def test_a_user_reads_who_held_up_what_and_who_owns_what(kafka_broker: Broker, topic: str) -> None:
    asked = ("watch", "--protocol", "groups", "--topic", topic, "--until-end", "--owners")
    ran = marshal(*asked, "--bootstrap", kafka_broker.bootstrap)
    assert ran.returncode == 1
    assert ran.stderr == "129 records, 12 errors and warnings\n"
    lines = [line.rstrip() for line in ran.stdout.splitlines()]
    assert any(" warning rebalance_held_up: client-m3 (member m3) held up" in at for at in lines)
    assert (
        "2026-11-20 23:58:55 info    rebalance: Group g, target at offset 10 (client-m2 joined): "
        "9 of 12 partitions moved, settled after 0.6s; client-m3 let go last, after 1.4s."
    ) in lines
    assert lines[-5:] == [
        "g      stable  client-m0 (m0)  t: 3, 7, 11",
        "               client-m1 (m1)  t: 4, 8, 10",
        "               client-m2 (m2)  t: 0-1",
        "               client-m3 (m3)  t: 5-6",
        "               client-m4 (m4)  t: 2, 9",
    ]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--rules", "both"), "--rules is for claims, not for --protocol groups"),
        (("--spark",), "--spark is for claims: leave it out, and this process folds all groups"),
        (("--owners", "--json"), "--owners cannot be combined with --json"),
        (("--protocol", "claims", "--owners"), "--owners is for groups; marshal ls"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(given: tuple[str, ...], why: str) -> None:
    ran = marshal("watch", "--topic", "__marshal_groups", "--bootstrap", "localhost:1", *given)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert why in ran.stderr
    assert ran.stderr.count("\n") == 1


# --- a log whose head is missing ------------------------------------------------------------------


@pytest.fixture(scope="module")
def cut(kafka_broker: Broker) -> tuple[str, int]:
    """A topic of which retention left the snapshots and what follows, and where they begin."""
    log, topic = shared(), "cut"
    first = len(log.records)
    log.snapshots().at(40).expires("m2").target(*["m1"] * 4)
    make_topic(kafka_broker, topic, 2)
    append(kafka_broker, topic, [raw_of(record) for record in log.records])
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, first - 1)]).values():
        future.result(30)
    claims = f"g=__marshal_controllers topic={topic} p=0"
    make_topic(kafka_broker, "cut-claims", 3)
    said = told_records([f"0 CP a1/A {claims}", f"1 HB a1/A {first} epoch=0 {claims}"])
    append(kafka_broker, "cut-claims", said)
    return topic, first


@pytest.mark.night
def test_a_live_log_without_its_head_is_certain_from_the_controllers_claim_on(
    kafka_broker: Broker, cut: tuple[str, int], tmp_path: Path
) -> None:
    topic, first = cut
    of = ("--protocol", "groups", "--topic", topic, "--bootstrap", kafka_broker.bootstrap)
    claims = ("--coordination-topic", "cut-claims")
    ran = marshal("watch", *of, *claims, "--until-end", "--owners")
    known = f"what its groups were is known from offset {first} on, which the controllers' claim"
    assert f"Note: partition 0 begins at offset {first - 1}: {known} names\n" in ran.stderr
    assert "client-m1 (m1)  orders: 0-3" in ran.stdout
    for name, options, certain in (
        ("claims", claims, True),
        ("nowhere", ("--coordination-topic", "nowhere"), False),
        ("given", ("--certain-from", f"0:{first}", "--coordination-topic", "nowhere"), True),
    ):
        ran = marshal("replay", *of, *options, "--out", tmp_path / name)
        rows = pq.read_table(tmp_path / name / "partition_tenures").to_pylist()
        assert {row["certain"] for row in rows} == {certain}
        assert ("from there on it is certain" in ran.stdout) is certain
        no_claims = "Note: from where on cut is certain is not known: "
        assert ran.stderr.startswith(no_claims) is (name == "nowhere")


@pytest.mark.parametrize("command", [("replay", "x.jsonl", "--out", "out"), ("watch",)])
@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--protocol", "groups", "--certain-from", "3"), "--certain-from is PARTITION:OFFSET"),
        (("--certain-from", "3:4"), "--certain-from is for groups: add --protocol groups"),
    ],
)
def test_where_a_log_is_certain_is_refused_if_it_makes_no_sense(
    command: tuple[str, ...], given: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    ran = marshal(*command, *given, MARSHAL_BOOTSTRAP="localhost:1", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert why in ran.stderr
