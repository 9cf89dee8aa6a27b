"""`marshal ls` shows who holds which offsets of a shared claim, not its anchor as an owner."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import attrs
import pytest

from kafka_marshal.admin.listed_ranges import ListedRanges, listed_ranges
from kafka_marshal.admin.shared_claims import FoldedSharedClaim
from kafka_marshal.admin.view import ListedClaim
from kafka_marshal.cli.cluster.shared_claims import lines_of, partition_map, shared_by
from kafka_marshal.core.ranges.state import Interval, OpenRange, Ranges, SignOfLife
from kafka_marshal.core.state import FENCED, Claim
from kafka_marshal.testing import Broker
from tests.cli.run import marshal
from tests.client.hands import Hands

OWNED = Claim(
    owner_instance="anchor", owner_client="ranges", epoch=3, position=20, last_heartbeat_ms=5
)


@pytest.fixture
def hands(kafka_broker: Broker) -> Iterator[Hands]:
    with Hands(kafka_broker) as hands:
        yield hands


def row(
    ranges: Ranges | None, end: int | None, claim: Claim = OWNED, now_ms: int = 0
) -> ListedClaim:
    shared = FoldedSharedClaim(claim, ranges, {"p": "P"})
    return ListedClaim(
        *("g", "orders", 0, 0, "known", "owned", None, None, 3, claim.position, True),
        *(end, None, None, None, None, None, 60_000, ()),
        ranges=listed_ranges(shared, end, now_ms, FENCED),
    )


def listed(one: ListedClaim) -> ListedRanges:
    assert one.ranges is not None
    return one.ranges


def drawn(
    ranges: Ranges | None, end: int | None, claim: Claim = OWNED, now_ms: int = 0
) -> list[str]:
    return [line.plain for line in lines_of(row(ranges, end, claim, now_ms), now_ms)]


def mapped(ranges: Ranges, end: int | None, width: int = 60, claim: Claim = OWNED) -> str:
    one = row(ranges, end, claim)
    letters = {"p": "A", "q": "B"}
    return partition_map(one, listed(one), letters, width)[0]


def test_the_map_shows_what_is_done_held_free_and_ahead_of_the_data() -> None:
    ranges = Ranges(
        window=30,
        frontier=40,
        open=(OpenRange(4, 20, 24, "p"), OpenRange(5, 26, 34, "q"), OpenRange(6, 38, 40, "x")),
        pool=(Interval(24, 25), Interval(36, 38)),
    )
    assert mapped(ranges, 30) == "##" + "AAAA+#BBBB" + "bbbb##--**"
    assert mapped(ranges, 30, width=11) == "#AA+BBbb#-*"
    assert mapped(ranges, 45) == "###" + "AAAA+#BBBBBBBB##++**" + "....."
    assert mapped(ranges, None) == "##" + "AAAA+#BBBBBBBB##++**"


def test_at_most_once_the_map_shows_what_is_reserved() -> None:
    ranges = Ranges(window=0, frontier=16, open=(OpenRange(4, 10, 16, "p"),))
    assert mapped(ranges, 22) == "#" + "AAAAAArrrr" + ".."
    assert mapped(ranges, 12) == "#" + "AAaaaarrrr"
    assert "# done or forgotten; r reserved; small letters" in drawn(ranges, 12)[2]


def test_a_long_backlog_is_cut_off_and_nothing_granted_is_a_map_too() -> None:
    ranges = Ranges(window=30, frontier=40, open=(OpenRange(4, 20, 40, "p"),))
    assert mapped(ranges, 10_000) == "#####" + "A" * 20 + "." * 20
    assert mapped(Ranges(window=30, frontier=0), 0, claim=attrs.evolve(OWNED, position=0)) == ""
    assert mapped(Ranges(window=30, frontier=20), 23) == "#" + "."


def test_silent_holders_and_what_becomes_of_their_offsets() -> None:
    ranges = Ranges(
        window=0,
        frontier=30,
        open=(OpenRange(4, 18, 19, "p"), OpenRange(5, 19, 25, "q")),
        alive=(SignOfLife("p", 0), SignOfLife("q", 200_000), SignOfLife("r", 0)),
    )
    headline, _, _, p, q, r = drawn(ranges, 30, attrs.evolve(OWNED, position=40), 230_000)
    assert headline == (
        "orders:0: at most once, window 0, frontier 30, 10 reserved and not granted; not done: "
        "7 messages"
    )
    assert p == (
        "  A p (P): 1 offset: 18; silent since 1970-01-01 00:00:00 UTC; below the position, nobody "
        "else gets: 1 offset"
    )
    assert q == "  B q: 6 offsets: 19 to 24; heard 30s ago"
    assert r == "    r: holds nothing; silent since 1970-01-01 00:00:00 UTC"
    low = attrs.evolve(OWNED, position=18)
    again = drawn(attrs.evolve(ranges, window=20), 30, low, now_ms=230_000)
    assert again[3].endswith("; whoever asks next gets: 1 offset")
    assert shared_by(listed(row(ranges, 30, now_ms=230_000))).plain == "shared by 3 (2 silent)"


def test_what_is_unknown_is_called_so_and_what_sleeps_too() -> None:
    [line] = drawn(None, 30)
    assert line.startswith("orders:0 is shared, or was: its ranges are unknown")
    assert shared_by(listed(row(None, 30))).plain == "shared? ranges unknown"
    asleep = Ranges(
        window=9, frontier=25, open=(OpenRange(4, 20, 25, "p"),), alive=(SignOfLife("p", 0),)
    )
    headline, *_, holder = drawn(asleep, 30, Claim(position=20), 200_000)
    assert headline.endswith("; asleep: nothing is granted until a consumer claims it for all")
    assert holder.endswith("; keeps them while ranges sleep")


def test_ls_lists_who_holds_what_and_without_the_head_nothing(hands: Hands) -> None:
    topic = hands.data(messages=100)
    epoch = hands.shares("g", topic, 0, 60)
    hands.asks_for_range("g", topic, 0, 10, "p")
    last = hands.asks_for_range("g", topic, 0, 40, "q")
    hands.asks_for_range("g", topic, 0, 0, "p", seen=last, done=7)
    hands.asks_for_range("g", topic, 0, 0, "q", seen=last, keep=45)
    hands.beats("g", topic, 0, epoch, 7, "ranges")
    shown = marshal("ls", "g", *hands.options).stdout
    assert re.search(rf"{topic}:0 +owned +shared by 2 +{epoch} +7 +100 +93", shown)
    assert f"{topic}:0: at least once, window 60, frontier 50; not done: 93 messages\n" in shown
    assert "A pi (p): 3 offsets: 7 to 9; heard " in shown
    assert "B qi (q): 35 offsets: 10 to 44; heard " in shown
    assert "+ pool: 5 offsets for whoever asks next, lowest first: 45 to 49\n" in shown
    assert "rangesi" not in shown
    line = json.loads(marshal("ls", "g", "--json", *hands.options).stdout)
    assert (line["owner_client"], line["owner_instance"]) == (None, None)
    assert line["ranges"]["anchor_instance"] == "rangesi"
    assert [one["instance"] for one in line["ranges"]["holders"]] == ["pi", "qi"]
    assert line["ranges"]["pool"] == [{"start": 45, "end": 50}]
    every = marshal("ls", *hands.options).stdout
    assert "1 claim shared by several consumers: marshal ls g shows their ranges" in every
