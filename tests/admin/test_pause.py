"""An administrator ends its pause, and frees nobody who has won a claim since."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_marshal import FENCED
from kafka_marshal.admin import pause as pausing
from kafka_marshal.admin.position_targets import plan, wish
from kafka_marshal.admin.set_positions import SetPositionsOperation, SetPositionsResult
from kafka_marshal.admin.view import View
from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.client.connect.admin_client import ClusterClient, NotAuthorized
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.core.claims.pause_work import left_undone
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Offset,
    Partition,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import Claim, ClaimKey
from kafka_marshal.validate import validate_log
from tests.client.doubles import LANDS, LANDS_UNKNOWN, LOG, Append, Kafka

RULES = attrs.evolve(FENCED, heartbeat_interval_ms=60_000)


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("events", partitions=3, messages=10)
    for partition in range(3):
        wins(kafka, partition, at=7 if partition < 2 else None)
    return kafka


def said_of(partition: int, who: str) -> tuple[int, int, str, str, str, str, Partition]:
    return (1, 0, f"{who}i", who, "g", "events", Partition(partition))


def wins(kafka: Kafka, partition: int, who: str = "c1", at: int | None = None) -> int:
    """A consumer asks for a claim, and says how far it is."""
    epoch = kafka.says(ClaimingPartition(*said_of(partition, who)), Headers(present=True))
    if at is not None:
        beat = Heartbeat(*said_of(partition, who), Offset(at))
        kafka.says(beat, Headers(present=True, epoch=epoch))
    return epoch


def look(kafka: Kafka) -> View:
    with View(kafka.settings(), LOG, RULES) as view:
        return view.read()


def claim(kafka: Kafka, partition: int) -> Claim:
    return look(kafka).folds[0].claim(ClaimKey("g", "events", partition)).claim


def set_position(
    kafka: Kafka, *wishes: str, called_off: Callable[[], bool] = lambda: False
) -> SetPositionsResult:
    settings = kafka.settings()
    cluster = ClusterClient(settings)
    with LogWriter(settings, LOG) as log, View(settings, LOG, RULES) as view:
        operators = SetPositionsOperation(view, "g", ["events"], 60_000)
        for batch in view.changes(view.ends):
            operators.read(batch)
        planned = plan([wish(text) for text in wishes], "g", cluster, view)
        [ended] = operators.set_positions(cluster, log, planned, called_off)
    return ended


def after_it_is_set(kafka: Kafka, then: Callable[[], object]) -> None:
    """Do it between the position being set and the next record of the administrator."""
    seen: list[Message] = []

    def appends(message: Message) -> Append:
        if len(seen) < 2 and (seen or isinstance(message, ReleasingPartition)):
            seen.append(message)
            if len(seen) == 2:
                then()
        return LANDS

    kafka.appends = appends


def test_a_claim_that_was_won_as_soon_as_its_position_was_set_is_kept(kafka: Kafka) -> None:
    """The pause was ended by a second one that had expired: it freed everybody."""
    won: list[int] = []
    after_it_is_set(kafka, lambda: won.append(wins(kafka, 0, "c2")))
    ended = set_position(kafka, "events:0=5")
    assert (ended.reason, ended.still_paused) == (None, False)
    owned = claim(kafka, 0)
    assert [owned.epoch] == won
    assert (owned.owner_client, owned.position) == ("c2", 5)


def test_claims_beside_it_are_free_where_they_were_and_nothing_looks_half_set(
    kafka: Kafka,
) -> None:
    set_position(kafka, "events:0=5")
    view = look(kafka)
    beside = claim(kafka, 1)
    assert (beside.owned, beside.position, beside.paused_until_ms) == (False, 7, None)
    assert not left_undone(view.folds[0].work("g"))
    wins(kafka, 1, "c2")
    assert claim(kafka, 1).owner_client == "c2"


def test_what_nobody_ever_said_a_position_of_stays_paused_and_gets_none(kafka: Kafka) -> None:
    """Given back at 0 it would begin at 0; without a position it would look left undone."""
    ended = set_position(kafka, "events:0=5")
    unset = claim(kafka, 2)
    assert not unset.position_set
    assert unset.paused_until_ms is not None
    assert ended.new_paused_until_ms == unset.paused_until_ms


def test_a_pause_that_was_ended_is_not_brought_back_by_what_comes_next(kafka: Kafka) -> None:
    """It holds for claims that nobody knows; a second operation took it for one in force."""
    set_position(kafka, "events:0=5")
    set_position(kafka, "events:0=6")
    assert claim(kafka, 0).position == 6
    assert claim(kafka, 1).paused_until_ms is None
    wins(kafka, 0, "c2")
    with LogWriter(kafka.settings(), LOG) as log, View(kafka.settings(), LOG, RULES) as view:
        pausing.release(view.read(), log, "g", [("events", 0)])
    assert claim(kafka, 0).paused_until_ms is None


def test_a_pause_that_was_resumed_is_not_brought_back(kafka: Kafka) -> None:
    with LogWriter(kafka.settings(), LOG) as log:
        with View(kafka.settings(), LOG, RULES) as view:
            pausing.pause(view.read(), log, "g", 600_000)
        with View(kafka.settings(), LOG, RULES) as view:
            pausing.resume(view.read(), log, "g")
    set_position(kafka, "events:0=5")
    assert [claim(kafka, n).paused_until_ms for n in (0, 1)] == [None, None]


def test_a_pause_that_was_in_force_is_in_force_again(kafka: Kafka) -> None:
    with LogWriter(kafka.settings(), LOG) as log, View(kafka.settings(), LOG, RULES) as view:
        [paused] = pausing.pause(view.read(), log, "g", 600_000)
    set_position(kafka, "events:0=5")
    assert {claim(kafka, n).paused_until_ms for n in range(3)} == {paused.paused_until_ms}
    assert not any(claim(kafka, n).owned for n in range(3))


def test_what_was_in_doubt_is_settled(kafka: Kafka) -> None:
    """The write's outcome stayed unknown; it is void once its claim is won anew."""
    sent: list[Message] = []

    def appends(message: Message) -> Append:
        if isinstance(message, ReleasingPartition) and not sent:
            sent.append(message)
            return attrs.evolve(LANDS_UNKNOWN, lands=False)
        return LANDS

    kafka.appends = appends
    ended = set_position(kafka, "events:0=5", called_off=lambda: bool(sent))
    assert (ended.set, len(ended.not_set), ended.in_doubt) == ((), 1, ())
    assert (ended.still_paused, claim(kafka, 0).owned, claim(kafka, 0).position) == (
        False,
        False,
        7,
    )
    assert [each for each in kafka.said(ReleaseGroup) if each.expires_unix_s == 0] == []


def test_what_was_won_to_end_a_pause_is_given_back_also_where_the_group_was_released_meanwhile(
    kafka: Kafka,
) -> None:
    """It was given back in the name of who had released the group, and everybody refused that."""
    released: list[int] = []

    def appends(message: Message) -> Append:
        ends = isinstance(message, ClaimingPartition) and message.instance_id != message.client_id
        if ends and not released:
            by = ReleaseGroup(0, 0, "o1", "o1", "g", "", Partition(0), 0)
            released.append(kafka.says(by, Headers()))
        return LANDS

    set_position(kafka, "events:0=5")
    kafka.appends = appends
    with LogWriter(kafka.settings(), LOG) as log:
        with View(kafka.settings(), LOG, RULES) as view:
            pausing.pause(view.read(), log, "g", 600_000)
        with View(kafka.settings(), LOG, RULES) as view:
            pausing.resume(view.read(), log, "g")
    assert released
    assert [claim(kafka, n).owned for n in range(3)] == [False, False, False]


def test_the_log_alone_says_nothing_that_its_senders_could_not_have_sent(kafka: Kafka) -> None:
    """The pauser has one client id, and the administrator that ends its pause another."""
    set_position(kafka, "events:0=5")
    with LogWriter(kafka.settings(), LOG) as log:
        for _ in range(2):
            with View(kafka.settings(), LOG, RULES) as view:
                pausing.pause(view.read(), log, "g", 600_000)
            with View(kafka.settings(), LOG, RULES) as view:
                pausing.resume(view.read(), log, "g")
    set_position(kafka, "events:1=2")
    records = [
        RawRecord(
            0, offset, one.timestamp_ms, one.value, one.headers, TimestampType.LOG_APPEND_TIME
        )
        for offset, one in enumerate(kafka.records())
    ]
    judgement = validate_log(records, RULES)
    assert judgement.explained, judgement.unexplained


def test_a_topic_that_the_user_may_not_describe_is_not_called_missing(kafka: Kafka) -> None:
    kafka.hidden.add("events")
    with pytest.raises(NotAuthorized, match=r"topic events: .*; the user needs DESCRIBE on it"):
        set_position(kafka, "events=3")


# --- time ---------------------------------------------------------------------------------------


def test_a_time_is_no_end_while_the_leader_of_its_partition_moves(kafka: Kafka) -> None:
    """No answer was taken for "no record is that young": the group passed over all messages."""
    asked: list[str] = []

    def answers(question: str) -> None:
        asked.append(question)
        if question == "list_offsets" and asked.count(question) == 3:  # after its two ends
            raise KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))

    kafka.answers = answers
    set_position(kafka, "events:0=2001-01-01T00:00")
    assert claim(kafka, 0).position == 0
    set_position(kafka, "events:0=2100-01-01T00:00")
    assert claim(kafka, 0).position == 10


def an_hour_later(kafka: Kafka) -> None:
    """Nobody has written into the log meanwhile."""
    before = kafka.broker_ms
    kafka.broker_ms = lambda: before() + 3_600_000


def paused_for_s(kafka: Kafka, partition: int) -> float:
    """How long a claim is paused from the last record on, by the clock of the log."""
    until_ms = claim(kafka, partition).paused_until_ms
    assert until_ms is not None
    return (until_ms - kafka.records()[-1].timestamp_ms) / 1000


@pytest.mark.parametrize("wall_s", [-3600, 0, 3600])
@pytest.mark.parametrize("idle", [False, True])
def test_a_pause_lasts_by_the_clock_of_the_log(
    kafka: Kafka, wall_s: float, idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end was counted from the administrator's date."""
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000 * (kafka.broker_ms() + 1000 * wall_s))
    if idle:
        an_hour_later(kafka)
    with LogWriter(kafka.settings(), LOG) as log:
        with View(kafka.settings(), LOG, RULES) as view:
            pausing.pause(view.read(), log, "g", 600_000)
        assert 600 - 1 <= paused_for_s(kafka, 0) <= 600 + 2
        with View(kafka.settings(), LOG, RULES) as view:
            pausing.resume(view.read(), log, "g")
        wins(kafka, 0)
        with View(kafka.settings(), LOG, RULES) as view:
            pausing.release(view.read(), log, "g", [("events", 0)], hold_ms=60_000)
        assert 60 - 1 <= paused_for_s(kafka, 0) <= 60 + 2


@pytest.mark.parametrize("wall_s", [-3600, 3600])
@pytest.mark.parametrize("idle", [False, True])
def test_positions_are_set_whatever_the_date_of_the_machine(
    kafka: Kafka, wall_s: float, idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour behind, its pause was over before it began; an hour ahead, it lasted an hour more."""
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000 * (kafka.broker_ms() + 1000 * wall_s))
    if idle:
        an_hour_later(kafka)
    ended = set_position(kafka, "events:0=5")
    assert (ended.reason, claim(kafka, 0).position) == (None, 5)
    assert 60 - 2 <= paused_for_s(kafka, 2) <= 60 + 2
