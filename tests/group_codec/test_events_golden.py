"""Marshal promises how the value of each event is written, to the byte.

Logs outlive versions: what was written once is read as the same event.
"""

from __future__ import annotations

import pytest

from kafka_marshal.core.groups.events import (
    At,
    ControllershipSnapshot,
    ControllerStarted,
    Event,
    GroupCreated,
    GroupDeleted,
    GroupSnapshot,
    MemberExpired,
    MemberLeft,
    MemberRegistered,
    PartitionsCounted,
    PartitionsRewound,
    Rebalanced,
    Reconciled,
)
from kafka_marshal.core.groups.state import (
    Group,
    GroupMember,
    GroupPartition,
    Rebalance,
    TargetOf,
    Topic,
    TopicPartition,
    Wish,
)
from kafka_marshal.group_codec.events import FORMS, decode_event, encode_event

T0, U1 = TopicPartition("t", 0), TopicPartition("u", 1)
TOPICS = {"u": Topic(2, "U"), "t": Topic(1, "")}
MEMBERS = {"m2": GroupMember("c", frozenset({"u", "t"}), {U1: 5, T0: 4}, 3)}
TARGET_OF = TargetOf({"m2": Wish(frozenset({"t"}), {T0: 4})}, {"t": Topic(1, "")})
PARTS = {
    TopicPartition("u", 0): GroupPartition(position=-1),
    U1: GroupPartition("m2", 6, None, 7, 9),
    T0: GroupPartition("m2", 6, "m2", 0, 2**63 - 1),
}
A_GROUP = Group(
    session_timeout_ms=1000,
    rebalance=Rebalance.INCREMENTAL,
    strategy="range",
    ephemeral=True,
    topics=TOPICS,
    members=MEMBERS,
    generation=7,
    rebalanced_at=6,
    target_of=TARGET_OF,
    partitions=PARTS,
)
GOLDEN: dict[str, tuple[Event, str]] = {
    "ControllerStarted": (
        ControllerStarted(-1, 2**31 - 1, "h", 65_535),
        '"supersedes":-1,"controller_id":2147483647,"host":"h","port":65535',
    ),
    "ControllershipSnapshot": (
        ControllershipSnapshot(0, "", 0),
        '"controller_id":0,"host":"","port":0',
    ),
    "GroupCreated": (
        GroupCreated(1, {"t": Topic(4_000, "T")}, Rebalance.EAGER, "sticky", False),
        '"session_timeout_ms":1,"topics":{"t":{"count":4000,"topic_id":"T"}},'
        '"rebalance":"eager","strategy":"sticky","ephemeral":false',
    ),
    "GroupDeleted": (GroupDeleted(), ""),
    "GroupSnapshot": (
        GroupSnapshot(A_GROUP),
        '"state":{"session_timeout_ms":1000,"rebalance":"incremental","strategy":"range","ephemeral":true,'
        '"topics":{"t":{"count":1,"topic_id":""},"u":{"count":2,"topic_id":"U"}},'
        '"members":{"m2":{"client_id":"c","topics":["t","u"],"static":'
        '[{"topic":"t","partition":0,"number":4},{"topic":"u","partition":1,"number":5}],'
        '"joined_at":3}},"generation":7,"rebalanced_at":6,'
        '"target_of":{"members":{"m2":{"topics":["t"],"static":'
        '[{"topic":"t","partition":0,"number":4}]}},"topics":{"t":{"count":1,"topic_id":""}}},'
        '"partitions":[{"topic":"t","partition":0,"owner":"m2","tenure":6,"target":"m2",'
        '"revoking":0,"position":9223372036854775807},'
        '{"topic":"u","partition":0,"owner":null,"tenure":0,"target":null,"revoking":0,'
        '"position":-1},{"topic":"u","partition":1,"owner":"m2","tenure":6,"target":null,'
        '"revoking":7,"position":9}]}',
    ),
    "MemberRegistered": (
        MemberRegistered("m1", "c", frozenset("ba"), frozenset([U1, T0]), True),
        '"member":"m1","client_id":"c","topics":["a","b"],"static":'
        '[{"topic":"t","partition":0},{"topic":"u","partition":1}],"fresh":true',
    ),
    "MemberLeft": (MemberLeft("m1", "née"), '"member":"m1","reason":"née"'),
    "MemberExpired": (
        MemberExpired("m1", "silent", 7),
        '"member":"m1","reason":"silent","silent_ms":7',
    ),
    "PartitionsCounted": (
        PartitionsCounted("t", 0, ""),
        '"topic":"t","count":0,"topic_id":""',
    ),
    "Rebalanced": (
        Rebalanced({U1: "m2", T0: "m1"}),
        '"target":[{"topic":"t","partition":0,"member":"m1"},'
        '{"topic":"u","partition":1,"member":"m2"}]',
    ),
    "Reconciled": (
        Reconciled("m1", -1, None, {U1: At(3, 4), T0: At(0, 0)}),
        '"member":"m1","as_of":-1,"held":null,"positions":'
        '[{"topic":"t","partition":0,"tenure":0,"offset":0},'
        '{"topic":"u","partition":1,"tenure":3,"offset":4}]',
    ),
    "PartitionsRewound": (
        PartitionsRewound({T0: 0}, "b"),
        '"positions":[{"topic":"t","partition":0,"offset":0}],"by":"b"',
    ),
}
"""Every event, and its fields to the byte."""


def test_nothing_is_left_out_here() -> None:
    assert [type(event).__name__ for event, _ in GOLDEN.values()] == [*GOLDEN]
    assert {type(event) for event, _ in GOLDEN.values()} == FORMS.keys()


@pytest.mark.parametrize("name", GOLDEN)
def test_an_event_is_written_to_the_byte(name: str) -> None:
    event, fields = GOLDEN[name]
    whole = f'{{"event":"{name}","version":1{"," if fields else ""}{fields}}}'.encode()
    assert encode_event(event) == whole
    assert decode_event(whole) == event
