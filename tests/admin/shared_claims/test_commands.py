"""What administrators' commands say of a shared claim: when its ranges sleep, and when they end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_marshal.admin import pause as pausing
from kafka_marshal.admin.pause import FreedClaim
from kafka_marshal.admin.position_targets import plan, wish
from kafka_marshal.admin.set_positions import ranges_that_end
from kafka_marshal.admin.view import View
from kafka_marshal.cli.cluster.pause import _print_freed
from kafka_marshal.cli.cluster.shared_claims import have_ended, will_end
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    ClaimingRange,
    Headers,
    Heartbeat,
    Offset,
    Partition,
)
from kafka_marshal.core.ranges.messages import RangeHeaders
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.range_codec import encode_range, encode_range_headers
from kafka_marshal.testing import Broker
from tests.admin.test_pause import RULES, look, set_position, wins
from tests.cli.run import marshal
from tests.client.doubles import LOG, Kafka
from tests.client.hands import Hands

ANCHOR = "ranges"
SHARED, ALONE = ClaimKey("g", "events", 0), ClaimKey("g", "events", 1)


def anchors(kafka: Kafka, window: int, partition: int = 0) -> int:
    """An anchor claims a partition of events."""
    headers = encode_range_headers(Headers(present=True), RangeHeaders(window=window))
    says = (1, 0, f"{ANCHOR}i", ANCHOR, "g", "events", Partition(partition))
    return kafka.append(LOG, 0, encode_range(ClaimingPartition(*says)), tuple(headers))


def shares(kafka: Kafka, window: int, position: int = 7, partition: int = 0) -> None:
    """An anchor wins a partition of events, and two consumers hold ranges of it."""
    says = (1, 0, f"{ANCHOR}i", ANCHOR, "g", "events", Partition(partition))
    epoch = anchors(kafka, window, partition)
    kafka.says(Heartbeat(*says, Offset(position)), Headers(present=True, epoch=epoch))
    if window == 0:
        kafka.says(ClaimingMessages(*says, Offset(30)), Headers(present=True, epoch=epoch))
    for who, count in (("p", 4), ("q", 9)):
        asks = ClaimingRange(1, 0, f"{who}i", who, "g", "events", Partition(partition), count)
        kafka.append(LOG, 0, encode_range(asks), ())


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("events", partitions=2, messages=10)
    wins(kafka, 1, at=7)
    return kafka


def test_a_view_of_one_group_knows_the_same_ranges_as_a_view_of_all(kafka: Kafka) -> None:
    """It passes over heartbeats that add nothing; a request needs the last one before it."""
    shares(kafka, 60)
    says = (1, 0, f"{ANCHOR}i", ANCHOR, "g", "events", Partition(0))
    for at in range(40):
        kafka.broker_clock.advance(at)
        if at == 30:
            for count in (1, 1, 500):
                asks = ClaimingRange(1, 0, "ri", "r", "g", "events", Partition(0), count)
                kafka.append(LOG, 0, encode_range(asks), ())
        kafka.says(Heartbeat(*says, Offset(10 + at)), Headers(present=True, epoch=2))
    whole = look(kafka)
    with View(kafka.settings(), LOG, RULES, group="g") as view:
        view.read()
    [shared, _] = view.rows(0)
    assert shared.ranges is not None
    assert [one.instance for one in shared.ranges.holders] == ["ri"], "the others were silent"
    assert shared.ranges.frontier == 39 + 60
    assert view.rows(0) == whole.rows(0)
    known = [fold.folds[0].shared(SHARED) for fold in (view, whole)]
    assert known[0] == known[1]


def test_what_is_not_known_to_be_shared_is_called_so(
    kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    anchor = FreedClaim(SHARED, ANCHOR, f"{ANCHOR}i", ())
    freed = (anchor, FreedClaim(SHARED, "c1", "c1i"), FreedClaim(SHARED, ANCHOR, "x", ("pi",)))
    _print_freed([pausing.GroupRelease(0, freed, None, 0)])
    assert capsys.readouterr().out.splitlines() == [
        "  events:0 was owned by ranges (rangesi), perhaps for others that share it",
        "  events:0 was owned by c1 (c1i)",
        "  events:0 was shared by pi; its ranges sleep",
    ]


def resumed(kafka: Kafka) -> None:
    with View(kafka.settings(), LOG, RULES) as view, LogWriter(kafka.settings(), LOG) as log:
        pausing.resume(view.read(), log, "g")


def paused(kafka: Kafka) -> list[FreedClaim]:
    with View(kafka.settings(), LOG, RULES) as view, LogWriter(kafka.settings(), LOG) as log:
        [one] = pausing.pause(view.read(), log, "g", 600_000)
    return sorted(one.freed, key=lambda freed: freed.key)


def test_a_pause_names_those_that_share_and_lets_ranges_sleep(kafka: Kafka) -> None:
    shares(kafka, 60)
    shared, alone = paused(kafka)
    assert (shared.key, shared.shared_by) == (SHARED, ("pi", "qi"))
    assert (alone.key, alone.shared_by, alone.owner_client) == (ALONE, None, "c1")
    slept = pausing.shared_of(look(kafka), "g")
    assert [*slept] == [SHARED]
    assert (slept[SHARED].held, slept[SHARED].skipped) == (13, 0)


def test_a_resume_ends_ranges_and_says_what_nobody_gets(kafka: Kafka) -> None:
    shares(kafka, 0, position=3)
    paused(kafka)
    before = pausing.shared_of(look(kafka), "g")
    resumed(kafka)
    assert pausing.shared_of(look(kafka), "g") == {}
    assert have_ended(SHARED, before[SHARED]) == (
        "events:0 was shared by pi, qi: their ranges have ended; at most once, nobody gets 17 "
        "offsets that nobody held; ranges begin anew at position 30"
    )


def ends(kafka: Kafka, *wishes: str) -> list[ClaimKey]:
    cluster, view = ClusterClient(kafka.settings()), look(kafka)
    planned = plan([wish(text) for text in wishes], "g", cluster, view)
    return sorted(ranges_that_end(view, planned))


def test_a_set_position_ends_ranges_also_of_claims_beside_it(kafka: Kafka) -> None:
    assert ends(kafka, "events:1=5") == []
    shares(kafka, 60)
    assert ends(kafka, "events:0=5") == ends(kafka, "events:1=5") == [SHARED]
    paused(kafka)
    assert ends(kafka, "events:0=5") == [SHARED]
    assert ends(kafka, "events:1=5") == [], "the group is paused again, and ranges sleep"


def ranges_of(kafka: Kafka) -> tuple[object, ...]:
    ranges = pausing.shared_of(look(kafka), "g")[ALONE].ranges
    assert ranges is not None
    return ranges.window, ranges.frontier, ranges.open, ranges.pool


@pytest.mark.parametrize("window", [0, 60])
def test_ranges_beside_a_shared_claim_that_is_set_sleep_and_go_on(window: int) -> None:
    kafka = Kafka()
    kafka.create("events", partitions=2, messages=10)
    for partition in range(2):
        shares(kafka, window, partition=partition)
    assert ends(kafka, "events:0=5") == [SHARED]
    before = ranges_of(kafka)
    ended = set_position(kafka, "events:0=5")
    assert (ended.set, ended.still_paused, ended.new_paused_until_ms) == ((SHARED,), False, None)
    slept = pausing.shared_of(look(kafka), "g")
    assert [*slept] == [ALONE]
    assert not slept[ALONE].claim.owned
    assert ranges_of(kafka) == before
    anchors(kafka, window, 1)
    assert pausing.shared_of(look(kafka), "g")[ALONE].claim.owned, "the pause is over"
    assert ranges_of(kafka) == before


def test_sentences_before_positions_are_set(kafka: Kafka) -> None:
    shares(kafka, 0, position=3)
    shared = pausing.shared_of(look(kafka), "g")[SHARED]
    assert will_end(SHARED, shared, named=True) == (
        "events:0 is shared by pi, qi: setting its position ends their ranges. What they have in "
        "hand of 13 offsets they may still process."
    )
    assert will_end(SHARED, shared, named=False).endswith(
        "At most once, nobody gets 17 offsets that nobody holds."
    )


@pytest.fixture
def hands(kafka_broker: Broker) -> Iterator[Hands]:
    with Hands(kafka_broker) as hands:
        yield hands


def test_the_commands_say_when_ranges_sleep_and_when_they_end(hands: Hands) -> None:
    topic = hands.data(messages=10)
    epoch = hands.shares("g", topic, 0, 0)
    hands.asks("g", topic, 0, epoch, 30, ANCHOR)
    hands.asks_for_range("g", topic, 0, 4, "p")
    would = marshal("release", "g", topic, "--dry-run", *hands.options)
    assert would.stdout == f"  {topic}:0 is shared by pi; its ranges would sleep\n"
    planned = marshal("set-position", "g", f"{topic}:0=5", "--dry-run", *hands.options)
    assert f"Note: {topic}:0 is shared by pi: setting its position ends" in planned.stderr
    # It printed that nothing may have been lost, though what the consumers hold is not listed.
    for interval_s in ("0.01", "3600"):  # after its anchor, and while that lives
        lost = marshal("receipts", "g", topic, "--heartbeat-interval", interval_s, *hands.options)
        assert lost.returncode == 2
        assert lost.stdout.startswith("not known: some of 1 grants are of shared partitions\n")
        assert f"Note: consumers share {topic}:0, or did" in " ".join(lost.stderr.split())
    paused = marshal("pause", "g", "--for", "10m", *hands.options).stdout
    assert f"  {topic}:0 was shared by pi; its ranges sleep\n" in paused
    assert "ranges sleep until the pause has run out; marshal resume would end them" in paused
    resumed = marshal("resume", "g", *hands.options).stdout
    assert f"  {topic}:0 was shared by pi: their ranges have ended; at most once" in resumed
