from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Iterator

import attrs
import pytest
from confluent_kafka import Producer

from kafka_marshal import FENCED, decode
from kafka_marshal.admin.fold import ClaimsFold
from kafka_marshal.admin.view import NoSuchGroup, View
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.world import World
from kafka_marshal.core.messages import Headers, Record
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import COORDINATION_TOPIC, BrokerFailed
from kafka_marshal.testing import Broker
from kafka_marshal.testing.in_memory import InMemoryKafka
from tests.cli.run import marshal
from tests.client.hands import Hands

RULES = attrs.evolve(FENCED, heartbeat_interval_ms=60_000)


@pytest.fixture
def hands(kafka_broker: Broker) -> Iterator[Hands]:
    with Hands(kafka_broker) as hands:
        yield hands


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def look(hands: Hands, since_ms: int | None = None) -> View:
    with View(hands.settings, hands.topic, RULES, since_ms=since_ms) as view:
        return view.read()


def test_a_request_for_a_range_is_a_message_of_the_protocol(hands: Hands) -> None:
    producer = Producer({"bootstrap.servers": hands.bootstrap})
    for number in ("4", "x"):
        value = f"ClaimingRange/1/1/p/p/g/t/0/{number}".encode()
        producer.produce(hands.topic, value, partition=0)
    assert producer.flush(30) == 0
    assert look(hands).malformed == 1


def test_who_owns_what_how_far_it_is_and_when_it_was_heard_of(hands: Hands) -> None:
    topic = hands.data(partitions=3, messages=100)
    epoch = hands.wins("g", topic, 1, "east")
    hands.beats("g", topic, 1, epoch, 40, "east")
    other = hands.wins("g", topic, 2, "west")
    hands.frees("g", topic, 2, other, 7, "west")
    view = look(hands)
    owned, free = view.rows(now_ms(), "g", view.data_ends(hands.cluster))
    assert (owned.state, owned.owner_client, owned.epoch) == ("owned", "east", epoch)
    assert (owned.position, owned.end, owned.lag) == (40, 100, 60)
    assert owned.age_ms is not None
    assert owned.age_ms < 30_000
    assert (free.state, free.owner_client, free.epoch, free.position) == ("free", None, other, 7)
    [late] = view.rows(now_ms() + 120_001 + 30_000, "g")[:1]
    assert late.state == "stale"
    assert late.lag is None, "nobody asked where the topic ends"


def test_groups_are_counted_and_a_pause_and_what_was_left_are_told(hands: Hands) -> None:
    topic = hands.data(partitions=2)
    hands.wins("g", topic, 0)
    hands.pauses("g", topic, 600, "x")
    hands.wins("g", topic, 1, "x")  # an administrator that went away
    hands.wins("h", topic, 0)
    view = look(hands)
    g, h = view.group_rows(now_ms(), view.data_ends(hands.cluster))
    assert (g.group, g.claims, g.owned, g.free, g.left_undone) == ("g", 2, 1, 1, 1)
    assert g.paused_until_ms is not None
    assert (h.group, h.owned, h.owners, h.paused_until_ms) == ("h", 1, 1, None)
    assert [row.state for row in view.rows(now_ms(), "g")] == ["paused", "owned"]


def test_a_groups_lag_is_unknown_if_the_user_may_not_describe_one_of_its_topics() -> None:
    """It was the sum over the others."""
    kafka = InMemoryKafka()
    for topic in ("orders", "bills"):
        kafka.create(topic, messages=10)
        kafka.append(COORDINATION_TOPIC, 0, f"ClaimingPartition/1/0/i1/c1/g/{topic}/0".encode())
    cluster = ClusterClient(kafka.settings())

    def lag() -> tuple[int | None, tuple[str, ...]]:
        with View(kafka.settings(), COORDINATION_TOPIC, RULES) as view:
            [group] = view.read().group_rows(now_ms(), view.data_ends(cluster))
        return group.lag, group.lag_unknown

    assert lag() == (20, ())
    kafka.hidden.add("orders")
    assert lag() == (None, ("orders",))


def test_a_view_of_one_group_says_of_it_what_a_view_of_all_says(hands: Hands) -> None:
    topic = hands.data(partitions=2)
    for group in ("g", "h"):
        epochs = [hands.wins(group, topic, number, "east") for number in range(2)]
        for at in range(40):
            for number in range(2):
                hands.beats(group, topic, number, epochs[number], at, "east")
        hands.frees(group, topic, 1, epochs[1], 39, "east")
    hands.pauses("h", topic, 600)
    hands.wins("g", topic, 1, "west")
    hands.beats("h", topic, 0, 0, 7)
    changes = []
    with View(hands.settings, hands.topic, RULES, group="g") as view:
        for batch in view.changes(view.ends):
            changes += batch
    whole, at_ms = look(hands), now_ms()
    assert view.rows(at_ms) == view.rows(at_ms, "g") == whole.rows(at_ms, "g")
    assert view.group_rows(at_ms) == whole.group_rows(at_ms)[:1]
    assert (view.records, view.next, view.groups) == (whole.records, view.ends, ("g",))
    assert len(changes) == 3 + 2 * 2 + 1, "of each run of heartbeats the first and the last"
    with pytest.raises(NoSuchGroup, match="'h'; marshal groups lists"):
        view.check_group("h")


def test_a_view_of_one_group_that_is_followed_says_nothing_of_others(hands: Hands) -> None:
    topic = hands.data()
    epoch = hands.wins("g", topic, 0)
    with View(hands.settings, hands.topic, RULES, group="g") as view:
        view.read()
        hands.wins("h", topic, 0)
        last = hands.beats("g", topic, 0, epoch, 5)
        place = coordinating_partition(topic, hands.partitions)
        for _ in view.follow(lambda: view.next[place] > last):
            pass
    assert (view.groups, [row.position for row in view.rows(now_ms())]) == (("g",), [5])


def test_whoever_follows_sees_what_whoever_begins_anew_sees(hands: Hands) -> None:
    topic = hands.data()
    with View(hands.settings, hands.topic, RULES) as view:
        assert view.read().rows(now_ms()) == []
        epoch = hands.wins("g", topic, 0)
        hands.beats("g", topic, 0, epoch, 5)
        for _ in view.follow(lambda: view.records >= 2):
            pass
        at = now_ms()
        assert view.rows(at) == look(hands).rows(at)
        view.check_partitions()


def test_what_was_read_to_its_end_is_followed_from_there_and_read_again(hands: Hands) -> None:
    topic = hands.data()
    epoch = hands.wins("g", topic, 0)
    with View(hands.settings, hands.topic, RULES) as view:
        view.read()
        assert view.records == 1
        hands.beats("g", topic, 0, epoch, 5)
        for _ in view.follow(lambda: view.records >= 2):
            pass
        hands.beats("g", topic, 0, epoch, 6)
        view.ends = {number: extent.high for number, extent in view._tail.extents().items()}
        assert [row.position for row in view.read().rows(now_ms())] == [6]


def test_without_the_head_a_guess_is_called_one_and_what_an_owner_saw_is_known() -> None:
    """Offsets 0 to 6 are gone."""
    key = ClaimKey("g", "t", 0)
    fold = ClaimsFold(7)
    heartbeat = decode(b"Heartbeat/1/0/i1/c1/g/t/0/40")
    [guess] = fold.apply(Record(0, 7, 5, heartbeat, Headers(True, epoch=3)))
    assert (guess.verdict, guess.after.knowledge.value) == (None, "provisional")
    fold.apply(Record(0, 8, 6, heartbeat, Headers(True, epoch=3, seen=7, clock=5)))
    assert fold.claim(key).knowledge.value == "known"
    assert fold.claim(key).claim.position == 40


def test_a_whole_log_is_folded_as_the_world_folds_it() -> None:
    lines = [
        b"ClaimingPartition/1/0/i1/c1/g/t/0",
        b"Heartbeat/1/0/i1/c1/g/t/0/40",
        b"ReleaseGroup/0/0/x1/x/g//0/100",
        b"ClaimingPartition/1/0/x1/x/g/t/0",
        b"ReleasingPartition/1/0/x1/x/g/t/0/7",
        b"ClaimingPartition/1/0/i2/c2/g/t/1",
    ]
    fold, world = ClaimsFold(0), World()
    for offset, line in enumerate(lines):
        record = Record(0, offset, 1000 * offset, decode(line))
        outcome = world.apply(record)
        changes = fold.apply(record)
        assert [(c.key, c.after.claim) for c in changes] == [
            (t.key, t.after) for t in outcome.transitions
        ]
    assert {key: reader.claim for key, reader in fold.claims("g").items()} == world.claims
    assert fold.work("g").set == {ClaimKey("g", "t", 0)}


def test_a_part_of_the_log_is_read_where_that_is_enough(hands: Hands) -> None:
    topic = hands.data()
    for at in range(3):
        hands.wins("g", topic, 0, f"c{at}")
    later = look(hands, since_ms=now_ms() + 3_600_000)
    assert later.records == 0
    assert coordinating_partition(topic, 4) in later.headless
    assert look(hands, since_ms=now_ms() - 3_600_000).records == 3


def test_an_unknown_group_and_a_missing_topic_are_named(hands: Hands) -> None:
    hands.wins("billing", hands.data(), 0)
    with pytest.raises(NoSuchGroup, match="groups that there are: billing"):
        look(hands).check_group("audit")
    with pytest.raises(BrokerFailed, match=r"there is no topic nowhere; make it with"):
        View(hands.settings, "nowhere")


def test_the_commands_list_claims_and_groups(hands: Hands) -> None:
    topic = hands.data(partitions=2, messages=10)
    hands.beats("g", topic, 0, hands.wins("g", topic, 0, "east"), 4, "east")
    listed = marshal("ls", "g", *hands.options)
    assert listed.returncode == 0
    assert listed.stdout.startswith("1 claim: 1 owned\n")
    assert f"{topic}:0  owned  east easti" in listed.stdout
    line = json.loads(marshal("ls", *hands.options, "--json").stdout)
    assert (line["group"], line["owner_client"], line["lag"]) == ("g", "east", 6)
    hands.wins("g", "missing", 0, "east")
    counted = json.loads(marshal("groups", *hands.options, "--json").stdout)
    assert (counted["claims"], counted["owned"], counted["lag"]) == (2, 2, None)
    assert counted["lag_unknown"] == ["missing"]
    summary, _, row = marshal("groups", *hands.options).stdout.splitlines()
    assert summary == f"1 group in {hands.topic}"
    note = "the end of missing is unknown: see that each exists and the user may DESCRIBE it"
    assert re.fullmatch(rf"g +{topic}, missing +2 +2 +0 +0 +1 +\? +60s +{note}", row.strip())
    wrong = marshal("ls", "nobody", *hands.options)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.endswith("of group 'nobody'; marshal groups lists those that there are\n")


@pytest.mark.parametrize("waited_for", [False, True])
def test_a_live_view_shows_what_comes_until_ctrl_c(hands: Hands, waited_for: bool) -> None:
    """Also of a group that is not there yet."""
    topic = hands.data(partitions=2)
    steps = [(b"1 claim: 1 owned", "west", 1), (b"2 claims: 2 owned", "", 0)]
    if waited_for:
        steps.insert(0, (b"is of group g yet; waiting for the first", "east", 0))
    else:
        hands.wins("g", topic, 0, "east")
    child, terminal = pty.fork()
    if child == 0:
        arguments = ["-m", "kafka_marshal.cli", "ls", "g", *hands.options, "--watch"]
        os.execve(sys.executable, [sys.executable, *arguments], os.environ | {"TERM": "xterm"})
    shown = b""
    deadline = time.monotonic() + 60
    try:
        while steps and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.5)[0]:
                shown += os.read(terminal, 65_536)
            if steps[0][0] in b" ".join(shown.split()):
                _, who, partition = steps.pop(0)
                if who:
                    hands.wins("g", topic, partition, who)
        os.kill(child, signal.SIGINT)
        while select.select([terminal], [], [], 10)[0]:
            try:
                shown += os.read(terminal, 65_536)
            except OSError:  # the terminal's other end is closed
                break
    finally:
        _, status = os.waitpid(child, 0)
    assert not steps, shown.decode()
    assert os.waitstatus_to_exitcode(status) == 0


def on_a_terminal(*arguments: str, columns: int = 80) -> list[str]:
    ran = marshal(*arguments, COLUMNS=str(columns), FORCE_COLOR="1", TERM="xterm", cwd=None)
    assert ran.returncode == 0, ran.stderr
    return [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", ran.stdout).splitlines()]


def test_tables_fit_a_terminal_of_80_columns(hands: Hands) -> None:
    group = "billing-service-in-production"
    topics = sorted(hands.data(partitions=1, messages=10) for _ in range(3))
    for topic in topics:
        hands.beats(group, topic, 0, hands.wins(group, topic, 0, "worker-1"), 4, "worker-1")
    hands.pauses(group, topics[0], 3600)
    summary, header, row, note = on_a_terminal("groups", *hands.options)
    assert summary == f"1 group in {hands.topic}"
    assert header.split() == [
        "GROUP",
        *["TOPICS", "CLAIMS", "OWNED", "STALE", "FREE", "OWNERS", "LAG"],
    ]
    assert row.split()[:3] == [group, "3", "3"]
    assert row.split()[-1] == "18"
    assert re.fullmatch(rf"{group}: paused for 59m \d+s more", note)
    _, heading, header, *rows = on_a_terminal("ls", *hands.options)
    assert (heading, header.split()[0], header.split()[-1]) == (group, "CLAIM", "HEARD")
    assert [line.split()[0] for line in rows] == [f"{topic}:0" for topic in topics]
    assert max(map(len, [header, row, note, *rows])) <= 80
    assert "TOPICS" in on_a_terminal("groups", *hands.options, columns=200)[1]
    assert "GROUP" in on_a_terminal("ls", *hands.options, columns=200)[1]
