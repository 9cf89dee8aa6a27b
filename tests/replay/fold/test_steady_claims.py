"""Claims that are kept in columns come to what their records come to, among any others."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, TypeAlias

import pytest
from attrs import evolve
from tools.runs.by_day import sampled, seeds

from kafka_marshal import RuleSet
from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.errors import InvalidOption
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.fold import partition_fold, steady_claims
from kafka_marshal.replay.fold.partition_fold import Expand, PartitionFold
from kafka_marshal.replay.fold.steady_claims import SteadyClaims
from kafka_marshal.replay.model.events import JudgedRecord, LogPartition
from kafka_marshal.replay.model.tables import GROUPS
from tests.replay.fold.test_run_length import Chunked, alike, fed, judging, told
from tests.replay.told import BOTH, INTERVAL_MS, beats, records

WHOLE = 1_000_000
END_MS = 1_700_000_000_000
Pairs: TypeAlias = tuple[tuple[str, bytes], ...]
ODD = (
    "released", "given up", "refused", "hungry", "silent", "rests", "falls", "other epoch",
    "restarted", "again", "taken over", "granted", "requested", "misplaced", "bad header",
    "strange header", "no claim", "no version", "negative", "released by another", "late",
)  # fmt: skip
"""What may be the matter with a claim; of most claims it is nothing."""
ENDS = ("dies", "idle", "wedged", "busy", "brief", "one", "never", "often")
"""How claims of which nothing else is the matter may differ."""


class _Log:
    """Many claims at once, each with a story of its own."""

    def __init__(self, seed: int, claims: int, odd: float = 0.4) -> None:
        self.chance = Random(seed)
        self.told: list[tuple[int, int, str, Pairs]] = []
        """Time, coordinating partition, value and headers. `EPOCH` stands for an offset."""
        self.epochs: dict[str, int] = {}
        for number in range(claims):
            what = self.chance.choice(ODD) if self.chance.random() < odd else ""
            self._claim(number, what)

    def _claim(self, number: int, what: str) -> None:
        chance = self.chance
        group = f"g{number % 6}"
        partition = number % 2
        if what != "misplaced":
            partition = coordinating_partition(topic := f"t{number % 16}", 2)
        else:
            topic = f"wrong{number % 3}"
        # Few own much in one group, and many a little in the others.
        client = f"c{min(number // 6 % 9, chance.randrange(9))}-{group}"
        if number % 29 == 0:
            client = f"H-{group}"
        instance = f"i-{client}"
        said = {1: INTERVAL_MS, 2: 2_000}.get(number % 6)
        if number % 6 == 3 and number % 5 == 0:
            said = INTERVAL_MS
        plain = number % 6 == 4
        how = chance.choice((*ENDS, "", "", "", ""))
        now_ms = 0
        mine: list[tuple[int, str, str, Pairs]] = []

        def say(
            kind: str, at_ms: int, tail: str = "", who: tuple[str, str] = (instance, client),
            headers: Mapping[str, str] | None = None,
        ) -> None:  # fmt: skip
            version = "7" if what == "no version" and kind == "Heartbeat" else "1"
            given = dict(headers or {})
            if said is not None and kind in ("ClaimingPartition", "Heartbeat") and not plain:
                given.setdefault("interval", str(said))
            if what == "strange header":
                given["rack"] = "7"
            pairs = tuple((f"marshal-{name}", text.encode()) for name, text in given.items())
            where = (*who, group, topic, str(number), *([tail] if tail else []))
            mine.append((at_ms, f"{kind}/{version}", "/".join(where), pairs))

        def beat(at_ms: int, position: int, **headers: str) -> None:
            own = {} if plain else {"epoch": f"EPOCH{number}", "seen": f"SEEN{number}"}
            say("Heartbeat", at_ms, str(position), headers={**own, **headers})

        epoch = {"epoch": f"EPOCH{number}"}
        if what != "no claim":
            more = {} if plain else {"version": "1"}
            if what == "bad header":
                more["start"] = "x"
            say("ClaimingPartition", now_ms, headers=more)
        position = chance.choice((0, 0, 1, 700))
        beats = {"busy": 40, "wedged": 30, "idle": 25, "brief": 4, "one": 1, "never": 0}
        count = beats.get(how, chance.randrange(5, 14))
        turn = chance.randrange(1, max(2, count))
        for each in range(count):
            step_ms = chance.choice((3_200, 3_900, 4_000, 4_000, 4_700))
            if how == "often":
                step_ms = chance.choice((300, 999, 1_000, 3_000))
            if what == "silent" and each == turn:
                step_ms = chance.choice((6_001, 9_000))
            if what == "rests" and each == turn:
                for _ in range(6):
                    now_ms += 3_900
                    beat(now_ms, position)
            now_ms += min(step_ms, step_ms if said is None else said + said // 3)
            if how not in ("idle", "wedged") and chance.random() < 0.8:
                position += chance.randrange(90)
            if how == "wedged" and each < 3:
                position += 40
            if what == "falls" and each == turn:
                position -= 30
            if what == "negative" and not each:
                beat(now_ms, -4)
                continue
            if what == "other epoch" and each == turn:
                beat(now_ms, position, epoch="0")
                continue
            if what == "granted" and each == turn:
                say("ClaimingMessages", now_ms, str(position + 5), headers=epoch)
            if what == "requested" and each == turn:
                say("ClaimingRange", now_ms, "5")
            if what == "again" and each == turn:
                say("ClaimingPartition", now_ms)
            if what == "refused" and each == turn:
                say("ClaimingPartition", now_ms, who=("x1", f"X-{group}"))
            if what == "hungry" and each > 1:
                say("ClaimingPartition", now_ms + 500, who=(f"i-H-{group}", f"H-{group}"))
            if what == "restarted" and each == turn:
                say("ClaimingPartition", now_ms, who=(f"{instance}.2", client))
            if what == "released by another" and each == turn:
                say("ReleasingPartition", now_ms, str(position), who=("x1", f"X-{group}"))
            beat(now_ms, position)
        if what in ("released", "given up", "late"):
            say("ReleasingPartition", now_ms + 900, str(position), headers=epoch)
        if what == "released":
            say("ClaimingPartition", now_ms + 2_000, who=("y1", f"Y-{group}"))
        if what == "late":
            beat(now_ms + 2_100, position)
        if what == "taken over":
            say("ClaimingPartition", now_ms + 9_000, who=("z1", f"Z-{group}"))
            beat(now_ms + 9_500, position)
        # Most claims live until the log ends.
        end_ms = END_MS - chance.randrange(4_000) - 20_000 * (how == "dies")
        shift_ms = end_ms - mine[-1][0] if mine else 0
        for at_ms, kind, where, pairs in mine:
            at_ms += shift_ms
            self.told.append((at_ms, partition, f"{kind}/{at_ms // 1000}/{where}", pairs))

    def pause(self, group: str, at_ms: int) -> None:
        """Somebody releases a group."""
        until_s = at_ms // 1000 + 9
        for partition in (0, 1):
            value = f"ReleaseGroup/1/{at_ms // 1000}/adm/adm/{group}//0/{until_s}"
            self.told.append((at_ms, partition, value, ()))

    def records(self) -> list[RawRecord]:
        offsets, found = [0, 0], []
        jitter = self.chance
        for at_ms, partition, value, pairs in sorted(self.told, key=lambda each: each[0]):
            offset, claim = offsets[partition], "/".join(value.split("/")[5:8])
            offsets[partition] += 1 + (jitter.random() < 0.01)
            if value.startswith("ClaimingPartition"):
                self.epochs.setdefault(claim, offset)
            epoch = str(self.epochs.get(claim, 0)).encode()
            seen = str(max(offset - 1, 0)).encode()
            headers = tuple(
                (name, epoch if text[:5] == b"EPOCH" else seen if text[:4] == b"SEEN" else text)
                for name, text in pairs
            )
            stamp = TimestampType.LOG_APPEND_TIME
            found.append(RawRecord(partition, offset, at_ms, value.encode(), headers, stamp))
        return found


def _jumping(raws: list[RawRecord], chance: Random) -> Iterator[RawRecord]:
    """The same records, as a broker stamps them whose clock jumps."""
    for raw in raws:
        ahead_ms = chance.choice((5_000, -7_000)) if chance.random() < 0.005 else 0
        yield evolve(raw, timestamp_ms=raw.timestamp_ms + ahead_ms)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many claims were in columns when they were read, and how many when the log ended."""
    counted: Counter[str] = Counter()
    make, take = steady_claims.steady_rows, partition_fold.PartitionFold._take_steady

    def counting(place: Any, claims: SteadyClaims, rules: Any, stale: Any) -> Iterator[Any]:
        counted["end"] += len(claims)
        yield from make(place, claims, rules, stale)

    def taking(self: PartitionFold, claims: SteadyClaims, expand: Expand) -> None:
        counted["read"] += len(claims)
        take(self, claims, expand)

    monkeypatch.setattr(partition_fold, "steady_rows", counting)
    monkeypatch.setattr(partition_fold.PartitionFold, "_take_steady", taking)
    return counted


@pytest.mark.parametrize(("size", "window"), sampled([(WHOLE, WHOLE), (97, WHOLE), (31, 97)], 2))
@pytest.mark.parametrize("seed", seeds(1, 12))
def test_many_claims_are_told_the_same_from_columns(
    seed: int, size: int, window: int, kept: Counter[str]
) -> None:
    """Beside others to which anything happens, also in a later window."""
    log = _Log(seed, 300 if seed else 200)
    if seed % 2 == 0:
        log.pause("g0", END_MS - 15_000)
    raws = log.records()
    if window == 97:
        raws = [*_jumping(raws, Random(seed))]
    alike(raws, judging(BOTH), size, window=window)
    assert 2 * kept["read"] >= kept["end"] > (60 if window == WHOLE else -1)
    assert kept["read"]


@pytest.mark.parametrize("interval", sampled([2_000, INTERVAL_MS], 2))
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_an_interval_that_is_forced_is_that_of_columns_too(
    seed: int, interval: int, kept: Counter[str]
) -> None:
    log = _Log(seed, 150, odd=0.2)
    how = evolve(judging(BOTH, interval), forced=True)
    alike(log.records(), how, 200, window=500 * (1 + seed % 3))
    assert kept["read"]


@pytest.mark.parametrize("rule_set", BOTH)
def test_columns_need_no_second_rule_set(rule_set: RuleSet, kept: Counter[str]) -> None:
    log = _Log(7, 120, odd=0.1)
    alike(log.records(), judging((rule_set,)), WHOLE, window=WHOLE)
    assert kept["end"] > 40


ANYWHERE = evolve(judging(), coordination_partitions=None)


def two(*later: str, tail: str = "10 epoch=0") -> list[RawRecord]:
    """A claim and a few of its owner's heartbeats, something else, and heartbeats as before."""
    lines = [*beats("a1/A", 1, 30, tail=tail), *later, *beats("a1/A", 31, 60, tail=tail)]
    return records(["0 CP a1/A set-position=1", *lines])


@pytest.mark.parametrize(
    "later",
    [
        "30.5 RG admin/ADM 10",
        "30.5 RG admin/ADM 40",
        "30.5 RG admin/ADM 40 g=other",
        "30.5 CP b1/B",
        "30.5 CP a1/A",
        "30.5 CP a2/A",
        "30.5 CP a2/A supersedes=0",
        "30.5 CP a2/A p=1",
        "30.5 HB b1/B 3",
        "30.5 HB a1/A 3 epoch=0",
        "30.5 HB a1/A 12",
        "30.5 HB a1/A 10 epoch=0 interval=1000",
        "30.5 CP c1/C p=1 interval=1000",
        "30.5 CM a1/A 20 epoch=0",
        "30.5 RP a1/A 20 epoch=0",
        "30.5 RP b1/B 20",
        "30.5 CR p1/P 5",
        "36.5 HB a1/A 10 epoch=0",
        "49.5 HB a1/A 10 epoch=0",
        "30.5 garbage",
    ],
)
@pytest.mark.parametrize(("size", "window"), sampled([(1, 11), (16, WHOLE)], 2))
def test_what_happens_to_a_claim_later_finds_it_as_it_stands(
    later: str, size: int, window: int, kept: Counter[str]
) -> None:
    """A window of 11 rows ends before it; within one window the claim is in no columns."""
    alike(two(later), ANYWHERE, size, window=window)
    assert kept["read"] or window == WHOLE


@pytest.mark.parametrize("size", [7, 32, WHOLE])
def test_an_interval_that_another_claim_states_is_that_of_those_that_state_none(size: int) -> None:
    """From there on their silences are too long, in the middle of what would be one run."""
    lines = [f"{at} HB a1/A 10" for at in range(2, 62, 2)]
    lines.insert(15, "30.5 CP c1/C p=1 interval=1000")
    alike(records(["0 CP a1/A", *lines]), ANYWHERE, size, window=WHOLE)


SLOWLY = [(p / 10, "CP", p) for p in range(3)]
SLOWLY += [(5 * turn + p / 10, "HB", p) for turn in (1, 2) for p in range(3) if turn + p < 4]
SLOWLY += [(at + p / 10, "HB", p) for at, p in ((7, 2), (12, 0), (12, 1))]
"""Of eight silences five are longer than the interval."""
HUNGRY = [
    line
    for at in range(2, 20, 2)
    for line in (f"{at} HB a1/A 3", f"{at} HB a1/A 4 p=1", f"{at + 1} CP h1/H")
]
"""One asks for what another has, who has something else, too."""


@pytest.mark.parametrize(
    "lines",
    [
        ["0 CP a1/A"],
        ["0 CP a1/A", "2 HB a1/A 5"],
        ["0 CP a1/A", "2 HB a1/A 0"],
        ["0 CP a1/A", "2 HB a1/A 0 start=0"],
        ["0 CP a1/A start=x", "2 HB a1/A 0"],
        ["0 CP a1/A", "6.1 HB a1/A 5"],
        ["0 CP a1/A", "2 HB a1/A 5", "3 CP b1/B p=1", "12 HB b1/B 4 p=1"],
        ["0 CP a1/A", "1 CP b1/B p=1", "2 HB a1/A 5", "3 HB b1/B 5 p=1 late=30"],
        ["0 CP a1/A", *(f"{at} HB a1/A 7" for at in range(1, 60))],
        ["0 CP a1/A", *(f"{at} HB a1/A {at // 30 * 9}" for at in range(1, 60))],
        ["0 CP a1/A", *(f"{at / 4} HB a1/A {at}" for at in range(1, 60))],
        ["0 CP a1/A", *(f"{at * 1.5} HB a1/A {at}" for at in range(1, 1_004))],
        ["0 CP a1/A", *(f"{at * 1.5} HB a1/A {at}" for at in range(1, 1_004)), "1600 CP b1/B p=1"],
        [f"{at} {verb} a1/A {'3' * (verb == 'HB')} p={p}" for at, verb, p in sorted(SLOWLY)],
        ["0 CP a1/A", "2 HB a1/A 5 late=-30"],
        ["1 CP a1/A", "0.5 HB a1/A 5", "2 HB a1/A 6"],
        [
            "0 CP a1/A interval=4000",
            "2 HB a1/A 5 interval=4000 epoch=0",
            "3 HB a1/A 5 interval=9000 epoch=0",
        ],
        [
            "0 CP a1/A interval=9000",
            "2 HB a1/A 5 interval=9000 epoch=0",
            "9 HB a1/A 6 interval=9000 epoch=0",
        ],
        ["0 HB b1/B 1 p=1", "0 CP a1/A interval=9000", "2 HB a1/A 5 interval=9000 epoch=1"],
        ["0 CP a1/A stamp=create", "2 HB a1/A 5 stamp=create"],
        ["0 CP a1/A v=7", "2 HB a1/A 5"],
        ["0 CP a1/A ranges=x", "2 HB a1/A 5"],
        ["0 CP a1/A ranges=8", "2 HB a1/A 5"],
        ["0 CP a1/A", "2 HB a1/A 5", "2 HB a1/A 5 at=1"],
        ["0 CP a1/A", "0 CP a1/A at=0", "2 HB a1/A 5"],
        ["0 CP a1/A at=7", "2 HB a1/A 5"],
        ["0 RG x/X 9", "1 CP a1/A", "2 HB a1/A 5"],
        ["0 CP a1/A", "0 CP a1/A p=1", *HUNGRY],
        ["0 CP a1/A", "0 CP a1/A p=1", *HUNGRY, "20 CP h1/H p=5", "21 HB h1/H 4 p=5"],
        ["0 CP a1/A", "2 HB a1/A 9000000000000000", "3 HB a1/A 9000000000000001"],
    ],
)
def test_a_short_story_is_told_the_same_from_columns(lines: list[str]) -> None:
    raws = records(lines)
    twice = len({raw.offset for raw in raws}) < len(raws)
    alike(raws, ANYWHERE, *([WHOLE] if twice else [WHOLE, 1 + len(raws) // 9]), window=WHOLE)


FIVE = [f"{at} HB a1/A {at}" for at in range(1, 6)]
"""With a win before them they fill a window, if each record is a chunk."""
SAYS = "7 HB a1/A 8 p=1 interval=3000 epoch=6"
SLOW = [f"{at} CP a1/A p={at} interval=9000" for at in (0, 1)]
SLOW += [f"{at} HB a1/A {at} interval=9000 epoch=0" for at in (5, 14, 23, 25)]
TURNS = [
    (at, f"{'ab'[at % 2]}1/{'AB'[at % 2]}", f"{'ba'[at % 2]}1/{'BA'[at % 2]}") for at in range(9)
]
HANDS = [line for at, a, b in TURNS for line in (f"{6 + at} RP {a} 9", f"{6.5 + at} CP {b}")]
"""With the first win they are enough tenures for churn."""
OTHERS = [f"{at} HB b1/B {at} g=other" for at in range(1, 6)]


@pytest.mark.parametrize(
    "lines",
    [
        ["0 CP a1/A", *FIVE, "6 CP a1/A", "7 HB a1/A 8"],
        ["0 CP a1/A", *FIVE, "15 CP a1/A", "16 HB a1/A 8"],
        ["0 CP a1/A", *FIVE, "15 CP b1/B", "16 HB b1/B 8"],
        ["0 CP a1/A", *FIVE, "6 CP b1/B", "7 HB b1/B 8"],
        ["0 RG x/X 9", *OTHERS, "6 CP a1/A", "7 HB a1/A 8"],
        ["0 RG x/X 9 v=7", *OTHERS, "6 CP a1/A", "7 HB a1/A 8"],
        ["0 CP a1/A", "0 CP a1/A p=1", *FIVE[:4], "6 CP a2/A p=1", "7 HB a1/A 8 p=3"],
        ["0 CP a1/A", *FIVE, *HANDS],
        ["0 CP a1/A", *FIVE, "6 RG x/X 20"],
        ["0 CP a1/A", *FIVE, "6 RG x/X 20", "7 HB a1/A 9"],
        ["0 CP a1/A", *FIVE[:4], "5 RG x/X 6", "9 CP a1/A p=1", "10 HB a1/A 8 p=1"],
        ["9 CP a1/A", *FIVE, "6 CP a1/A p=1", "7 HB a1/A 8 p=1", "16 HB a1/A 8 p=1"],
        ["0 CP a1/A", *FIVE, "6 CP a2/A p=1", "7 HB a2/A 8 p=1", "8 HB a1/A 9"],
        ["0 CP a1/A", *FIVE, "6 HB a2/A 6", "7 CP a1/A p=1", "8 HB a1/A 8 p=1"],
        ["0 CP a1/A interval=4000", *FIVE, "6 CP a1/A p=1", "7 HB a1/A 8 p=1"],
        ["0 CP a1/A interval=9000", *FIVE, "6 CP a1/A p=1", "7.5 HB a1/A 8 p=1", "9 HB a1/A 8 p=1"],
        ["0 CP a1/A interval=9000", *FIVE, "6 CP a1/A p=1 interval=3000", SAYS],
        ["0 CP a1/A", *FIVE, "6 CP a1/A p=1 interval=3000", SAYS],
        [*SLOW, "40 CP c1/C p=2 interval=3000", "41 HB c1/C 8 p=2 interval=3000 epoch=6"],
        [
            *SLOW,
            "26 RP a1/A 5 epoch=0",
            "27 CP c1/C p=2 interval=3000",
            "28 HB c1/C 8 p=2 interval=3000 epoch=7",
        ],
    ],
)
def test_a_second_window_knows_what_the_first_held(lines: list[str]) -> None:
    alike(records(lines), ANYWHERE, 1, window=12)


@pytest.mark.parametrize("before", [0, 3, 7, 9])
def test_a_case_takes_many_records_as_it_takes_each(before: int) -> None:
    judged = [
        JudgedRecord(raw, raw.decoded().message, Accepted.REFRESHED, raw.timestamp_ms)
        for raw in records(f"{at} HB a1/A {at}" for at in range(30))
    ]
    for count in range(1, 12):
        one, other = (Case("churn", "g", None, None, None, None, str) for _ in range(2))
        for each in judged[:before]:
            one.add(each)
            other.add(each)
        for each in judged[before : before + count]:
            one.add(each)
        other.add_many(count, judged[before:].__getitem__)
        assert (one.count, one.kinds) == (other.count, other.kinds)
        assert evolve(one.row(), sentence="") == evolve(other.row(), sentence="")


def test_a_given_interval_that_the_log_contradicts_is_refused_by_columns_too() -> None:
    raws = records([f"{at} CP a1/A interval=9000 p={at}" for at in range(4)])
    given = evolve(ANYWHERE, given=True)
    with pytest.raises(InvalidOption, match="9s in the log"):
        Chunked(raws, WHOLE, INTERVAL_MS, window=WHOLE).told(given)


def taken(raws: list[RawRecord]) -> PartitionFold:
    """The account of one coordinating partition, from one chunk and one window."""
    chunked = Chunked(raws, WHOLE, INTERVAL_MS, window=WHOLE)
    account = PartitionFold(LogPartition("log", 2), ANYWHERE)
    for _, item in chunked.items:
        account.take(item, chunked.expand)
    return account


def test_groups_stay_in_the_order_of_their_first_records() -> None:
    raws = records(["0 HB b1/B 4 g=z", "1 HB b1/B 4 g=y", "2 CP a1/A g=x", "3 CP b1/B g=y p=1"])
    account = taken(raws)
    account.close()
    assert [row.group for row in account.drain()[GROUPS]] == ["z", "y", "x"] * 2


def test_an_account_that_is_put_aside_keeps_no_columns() -> None:
    raws = two()
    account = taken(raws)
    account.settle()
    again: PartitionFold = pickle.loads(pickle.dumps(account))
    assert told([again]) == fed(raws, ANYWHERE)
