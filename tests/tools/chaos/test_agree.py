"""Marshal promises that three judges of a chaos run agree, or that the run is wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import pytest
from tools.chaos.judges.agree import (
    Did,
    Found,
    Recorded,
    Replayed,
    Tenure,
    disagreements,
    processed_by,
    replay,
)

from kafka_marshal import Consumer
from kafka_marshal.capture import RawRecord, capture_line
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler

ALL = {(1, offset) for offset in range(10)}
FIRST, SECOND = {(1, at) for at in range(6)}, {(1, at) for at in range(6, 10)}
"""Of two owners."""
DID = {
    "a": Did(1, {(1, 100)}, Counter(FIRST), FIRST),
    "b": Did(2, {(1, 200)}, Counter(SECOND), SECOND),
}
REPLAYED = Replayed([Tenure(1, "a", 100, 0, 6), Tenure(1, "b", 200, 6, 10)], {1: 10}, [])


def judged(
    at_most_once: bool = True,
    did: dict[str, Did] = DID,
    replayed: Replayed = REPLAYED,
    processed: set[tuple[int, int]] = ALL,
) -> list[str]:
    return disagreements(at_most_once, 2, {1: 10}, did, replayed, Recorded(processed))


@pytest.mark.parametrize("at_most_once", [True, False])
def test_a_run_without_fault_is_one_to_all_judges(at_most_once: bool) -> None:
    assert judged(at_most_once) == []


def test_a_win_that_the_log_does_not_have_is_seen() -> None:
    did = {**DID, "b": attrs.evolve(DID["b"], won={(1, 200), (1, 300)})}
    assert judged(did=did) == ["b won 1 at 300: the replay has no such tenure"]


def test_messages_that_came_to_somebody_who_did_not_own_them_are_seen() -> None:
    did = {**DID, "a": attrs.evolve(DID["a"], handed=Counter({*FIRST, (1, 6)}))}
    assert judged(did=did)[0] == "a had messages of partition 1 in no tenure of the replay: 6"
    assert judged(at_most_once=False, did=did) == [], "a window ahead of the log"


def test_a_loss_where_the_replay_sees_none_is_seen() -> None:
    """The last batch of a tenure may be lost, and nothing before it."""
    lost = attrs.evolve(DID["a"], done=FIRST - {(1, 5), (1, 4)})
    assert judged(did={**DID, "a": lost}) == []
    lost = attrs.evolve(DID["a"], done=FIRST - {(1, 3)})
    assert judged(did={**DID, "a": lost}) == ["partition 1: lost within a tenure, by the replay: 3"]


def test_a_position_that_is_not_where_the_work_ended_is_seen() -> None:
    behind = attrs.evolve(REPLAYED, positions={1: 8})
    assert judged(at_most_once=False, replayed=behind) == [
        "partition 1: of 10 messages the replay ends at 8"
    ]


@pytest.mark.parametrize(
    ("code", "client", "agrees"),
    [
        ("log_lost_records", "b", False),
        ("granted_twice", "b", False),
        ("two_instances_of_one_client", "b", True),
        ("two_instances_of_one_client", "a", False),
        ("set_position_half_done", "admin", True),
    ],
)
def test_an_error_that_only_the_replay_finds_is_seen(code: str, client: str, agrees: bool) -> None:
    replayed = attrs.evolve(REPLAYED, errors=[Found(code, 1, client)])
    assert (judged(replayed=replayed) == []) == agrees


def test_a_message_that_is_handed_out_twice_must_be_a_finding_of_the_replay() -> None:
    did = {**DID, "b": attrs.evolve(DID["b"], handed=Counter(SECOND) + Counter([(1, 7)]))}
    assert judged(did=did) == ["partition 1: handed out twice, granted once"]
    both = attrs.evolve(REPLAYED, errors=[Found("granted_twice", 1, None)])
    assert judged(did=did, replayed=both) == []


def test_what_only_the_recordings_know_is_seen() -> None:
    assert judged(processed=ALL - {(1, 2)}) == [
        "partition 1: handed out and never recorded as granted: 2"
    ]
    did = {**DID, "a": attrs.evolve(DID["a"], done=FIRST - {(1, 0)})}
    assert judged(at_most_once=False, did=did) == [
        "partition 1: recorded as processed and never done: 0"
    ]


def test_judges_read_what_a_consumer_recorded_and_what_the_log_says(tmp_path: Path) -> None:
    """The shipped consumer, on a Kafka in memory."""
    scheduler = Scheduler(seed=1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders", messages=10)
    handed: list[tuple[int, int]] = []
    won: list[tuple[int, int]] = []
    with Consumer(
        settings=kafka.settings(),
        group_id="g",
        client_id="a",
        semantics="at_most_once",
        record_to=tmp_path / "recorded",
        on_claimed=lambda claim: won.append((claim.partition, claim.epoch)),
    ) as consumer:
        consumer.add_topic("orders")
        for _ in range(10):
            message = consumer.poll(60.0)
            assert message is not None
            handed.append((message.partition, message.offset))
        consumer.ack()
    number = coordinating_partition("orders", 1)
    lines = [
        capture_line(RawRecord(number, offset, one.timestamp_ms, one.value, one.headers))
        for offset, one in enumerate(kafka.records(number))
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{line}\n" for line in lines))
    replayed = replay(log, tmp_path / "replay", "orders")["g"]
    recorded = Recorded(processed_by(tmp_path / "recorded"))
    did = {"a": Did(1, set(won), Counter(handed), set(handed))}
    assert len(handed) == 10
    assert disagreements(True, 2, {0: 10}, did, replayed, recorded) == []
    for wrong in (
        {"a": attrs.evolve(did["a"], won={(0, 999)})},
        {"a": attrs.evolve(did["a"], handed=Counter([*handed, handed[0]]))},
        {"a": attrs.evolve(did["a"], done=set(handed[1:]))},
    ):
        assert disagreements(True, 2, {0: 10}, wrong, replayed, recorded) != []
