"""A consumer signs what it writes; one that requires it stops where a record is not authentic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_marshal import Consumer, InvalidOption, MarshalError, NotAuthentic, encode
from kafka_marshal.authentication import Authenticity, Keyring
from kafka_marshal.capture import HeaderPairs, RawRecord
from kafka_marshal.client.connect.log_filter import LogFilter
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.client.coordinate import session
from kafka_marshal.codec import encode_headers
from kafka_marshal.core.messages import (
    NO_HEADERS,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Offset,
    Partition,
    ReleaseGroup,
    ReleasingPartition,
)
from tests.authentication.signing import KEY, OTHER_KEY, OURS, THEIRS
from tests.client.connect.test_log_filter import MockMessage
from tests.client.doubles import LOG, Kafka, until

REQUIRES: dict[str, Any] = {"keyring": OURS, "require_authentic": True}
STRANGER = ClaimingPartition(1, 1, "x1", "mallory", "g", "events", Partition(0))


def in_log(kafka: Kafka) -> list[RawRecord]:
    found = kafka.topics[LOG][0].records
    return [
        RawRecord(0, offset, one.timestamp_ms, one.value, one.headers)
        for offset, one in enumerate(found)
        if one is not None
    ]


def says(
    kafka: Kafka,
    message: Message,
    keyring: Keyring | None = None,
    headers: Headers = NO_HEADERS,
    more: HeaderPairs = (),
) -> int:
    """Somebody appends this, signed with these keys."""
    value, pairs = encode(message), tuple(encode_headers(headers))
    mac = None if keyring is None else keyring.header(0, value, pairs)
    return kafka.append(LOG, 0, value, (*pairs, *([mac] if mac else []), *more))


def take(consumer: Consumer, number: int) -> list[int]:
    found: list[int] = []
    while len(found) < number and (message := consumer.poll(5.0)) is not None:
        found.append(message.offset)
        consumer.ack(message)
    return found


def stopped(kafka: Kafka, **options: Any) -> NotAuthentic:
    """What ends a consumer that requires it."""
    with kafka.consumer(**{**REQUIRES, **options}) as consumer:
        consumer.add_topic("events")
        with pytest.raises(NotAuthentic) as ended:
            take(consumer, 100)
    return ended.value


def cluster(messages: int = 4) -> Kafka:
    kafka = Kafka()
    kafka.create("events", messages=messages)
    return kafka


def test_all_that_a_consumer_writes_is_signed_with_the_key_that_signs() -> None:
    kafka = cluster()
    with kafka.consumer(keyring=OURS) as consumer:
        consumer.add_topic("events")
        assert take(consumer, 4) == [0, 1, 2, 3]
    for kind in (ClaimingPartition, Heartbeat, ReleasingPartition):
        assert kafka.said(kind)
    looked = [OURS.verify(raw) for raw in in_log(kafka)]
    assert {(one.authenticity, one.key_id) for one in looked} == {(Authenticity.AUTHENTIC, "k1")}


def test_what_an_administrator_writes_is_signed_too() -> None:
    kafka = cluster()
    settings = kafka.settings()
    with LogWriter(type(settings)(settings.values, None, settings.environment, OURS), LOG) as log:
        pause = ReleaseGroup(0, 1, "a1", "admin", "g", "", Partition(0), 99)
        log.append(0, pause, NO_HEADERS).result(5)
    [raw] = in_log(kafka)
    assert OURS.verify(raw).authenticity is Authenticity.AUTHENTIC
    assert not raw.decoded().headers.present, "a pause of ours has no header of the protocol"


def test_who_requires_it_works_with_others_who_sign_and_takes_over_from_them() -> None:
    kafka = cluster(8)
    with kafka.consumer("c1", **REQUIRES) as one:
        one.add_topic("events")
        assert take(one, 4) == [0, 1, 2, 3]
    both = Keyring({"k1": KEY, "k2": OTHER_KEY}, sign_with="k2")
    with kafka.consumer("c2", keyring=both, require_authentic=True) as other:
        other.add_topic("events")
        assert take(other, 4) == [4, 5, 6, 7]


def test_a_record_without_a_mac_stops_who_requires_it_and_nobody_else() -> None:
    kafka = cluster()
    with kafka.consumer("c1", keyring=OURS) as tolerant:
        tolerant.add_topic("events")
        assert take(tolerant, 2) == [0, 1]
        offset = says(kafka, STRANGER)
        error = stopped(kafka, client_id="c2")
        assert take(tolerant, 2) == [2, 3]
    assert isinstance(error, MarshalError)
    assert (error.partition, error.offset) == (0, offset)
    assert (error.client, error.key_id) == ("mallory", None)
    assert str(error).startswith(
        f"__marshal, partition 0, offset {offset}: the record of client 'mallory' has no MAC"
    )


def forged(kafka: Kafka) -> tuple[int, str]:
    """Under the owner's epoch, by someone who copies a MAC of another record."""
    mac = in_log(kafka)[-1].headers[-1] if in_log(kafka) else ("kafka-marshal-hmac", b"k1:")
    return says(kafka, STRANGER, more=(mac,)), "not its own"


WRONG: dict[str, Any] = {
    "a MAC that is not its own": forged,
    "a key that is not known": lambda kafka: (says(kafka, STRANGER, THEIRS), "not known here"),
    "two MACs": lambda kafka: (
        says(kafka, STRANGER, OURS, more=(("kafka-marshal-hmac", b"x"),)),
        "cannot be read",
    ),
    "a pause without one": lambda kafka: (
        says(kafka, ReleaseGroup(0, 1, "x1", "mallory", "g", "", Partition(0), 9_999_999_999)),
        "has no MAC",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_it_stops_a_running_consumer_before_the_record_is_folded(what: str) -> None:
    kafka = cluster(20)
    lost: list[object] = []
    with kafka.consumer(**REQUIRES, on_lost=lambda *of: lost.append(of)) as consumer:
        consumer.add_topic("events")
        assert take(consumer, 4) == [0, 1, 2, 3]
        until(lambda: kafka.said(Heartbeat))
        offset, why = WRONG[what](kafka)
        with pytest.raises(NotAuthentic, match=why) as ended:
            take(consumer, 100)
        assert (ended.value.offset, ended.value.client) == (offset, "mallory")
        said = len(in_log(kafka))
    assert len(in_log(kafka)) == said == offset + 1, "it sent nothing more"


def test_the_records_of_a_run_that_nobody_need_fold_are_looked_at_too() -> None:
    """Heartbeats in the middle of a run are left out by the filter of a long log."""
    kafka = cluster()
    epoch = says(kafka, STRANGER, OURS, Headers(True))
    headers = Headers(True, epoch=epoch, seen=epoch, clock=0)
    beats = [
        Heartbeat(1, 1, "x1", "mallory", "g", "events", Partition(0), Offset(position))
        for position in range(5)
    ]
    at = [says(kafka, beat, None if beat.offset == 2 else OURS, headers) for beat in beats]
    log_filter = LogFilter[MockMessage](b"g", {0})
    log_filter.add([*map(MockMessage, in_log(kafka))])
    assert at[2] not in [message.offset() for message in log_filter.given({0})]
    assert stopped(kafka).offset == at[2]


def test_other_groups_and_what_is_no_message_stop_nobody() -> None:
    kafka = cluster()
    for group in ("h", "g2", "events", ""):
        says(kafka, ClaimingPartition(1, 1, "g", "g", group, "g", Partition(0)))
    for value in (None, b"", b"Nonsense/1/1/i/c/g/events/0", b"ClaimingPartition/1/1/i/c/g/t/-1"):
        kafka.append(LOG, 0, value)
    with kafka.consumer(**REQUIRES) as consumer:
        consumer.add_topic("events")
        assert take(consumer, 4) == [0, 1, 2, 3]


def test_a_log_that_began_before_signing_is_required_from_then_on(tmp_path: Path) -> None:
    kafka = cluster()
    old = ReleaseGroup(0, 1, "a1", "admin", "g", "", Partition(0), 1)
    says(kafka, old)
    kafka.advance(1.0)
    since = Keyring({"k1": KEY}, sign_with="k1", signed_since_ms=kafka.broker_ms())
    with kafka.consumer("c1", keyring=since, require_authentic=True) as consumer:
        consumer.add_topic("events")
        assert take(consumer, 4) == [0, 1, 2, 3]
    assert stopped(kafka, client_id="c2").offset == 0
    offset = says(kafka, STRANGER)
    assert stopped(kafka, client_id="c1", keyring=since).offset == offset


def test_a_fleet_begins_to_sign_and_then_to_require_without_a_stop() -> None:
    """Some sign while nobody requires it; then all sign; then they require it, one by one."""
    kafka = cluster(12)
    with kafka.consumer("c1") as before, kafka.consumer("c2", keyring=OURS) as signs:
        before.add_topic("events")
        assert len(take(before, 1)) == 1
        signs.add_topic("events")
        assert len(take(before, 1)) == 1
    kafka.advance(1.0)
    since = Keyring({"k1": KEY}, sign_with="k1", signed_since_ms=kafka.broker_ms())
    with kafka.consumer("c1", keyring=since) as all_sign:
        all_sign.add_topic("events")
        assert len(take(all_sign, 5)) == 5
        with kafka.consumer("c2", keyring=since, require_authentic=True) as requires:
            requires.add_topic("events")
            assert len(take(all_sign, 5)) == 5
            assert requires.poll(0.2) is None


def test_what_makes_no_sense_is_refused() -> None:
    kafka = cluster()
    for options in (
        {"require_authentic": True},
        {"require_authentic": True, "keyring": Keyring({"k1": KEY})},
    ):
        with pytest.raises(InvalidOption, match="require_authentic needs a keyring that signs"):
            kafka.new_consumer(**options)


def unverified(kafka: Kafka, path: Path) -> None:
    """Leave a snapshot of a log with a stranger's record, by a consumer that requires nothing."""
    says(kafka, STRANGER)
    kafka.advance(200.0)
    with kafka.consumer(keyring=OURS, snapshot=path) as consumer:
        consumer.add_topic("events")
        assert take(consumer, 4) == [0, 1, 2, 3]


def test_a_snapshot_of_what_was_not_verified_is_not_gone_on_from(tmp_path: Path) -> None:
    """Somebody's record was folded into it; to require it means to read the log anew."""
    kafka = cluster(8)
    unverified(kafka, tmp_path / "snapshot")
    assert stopped(kafka, snapshot=tmp_path / "snapshot").offset == 0


def test_a_snapshot_that_does_not_say_what_was_verified_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_required", lambda _: "")
    kafka = cluster(8)
    unverified(kafka, tmp_path / "snapshot")
    with kafka.consumer(snapshot=tmp_path / "snapshot", **REQUIRES) as consumer:
        consumer.add_topic("events")
        assert take(consumer, 4) == [4, 5, 6, 7], "nothing stopped it"
