"""Each guard before a claim is kept in columns is needed: without it a short story ends otherwise.

A guard is taken out of the source, as text, and the function runs as plain Python. A story is then
reported otherwise than record by record, or, of what only saves time, fewer claims stay in columns.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeAlias

import pytest
from attrs import evolve

from kafka_marshal.kernel import joined_runs as kernel
from kafka_marshal.kernel.columns import NameCodes
from kafka_marshal.replay.fold import partition_fold
from kafka_marshal.replay.fold.collapsed import joined_runs as collapsed
from kafka_marshal.replay.fold.collapsed import request_runs, run_length
from kafka_marshal.replay.fold.collapsed.joined_runs import RunOfRows
from kafka_marshal.replay.fold.steady_claims import NEVER_LATE, steady_rows
from kafka_marshal.replay.model.rows import Row
from tests.replay.fold.test_run_length import Chunked, fed, judging
from tests.replay.told import INTERVAL_MS, records

WHOLE = 1_000_000
ANYWHERE = evolve(judging(), coordination_partitions=None)
Story: TypeAlias = list[str]

STEADY: list[tuple[str, str, Story]] = [
    (
        "mixed[member] = True",
        "pass",
        ["0 CP a1/A", "1 CP a2/A p=1", "2 HB a1/A 5", "3 HB a2/A 5 p=1"],
    ),
    (
        "            spoiled[group] = True\n        if said",
        "            pass\n        if said",
        ["0 RG x/X 9", "1 CP a1/A", "2 HB a1/A 5"],
    ),
    (
        "elif stated[group] != said:",
        "elif False:",
        ["0 CP a1/A interval=4000", "30 CP b1/B p=1 interval=9000", "35 CP c1/C p=2 interval=4000"],
    ),
    (
        "good[claim] = ordinary[row] and kinds[row]",
        "good[claim] = kinds[row]",
        ["0 CP a1/A v=7", "2 HB a1/A 5"],
    ),
    ("ordinary[row] and kinds[row] == CLAIMING_PARTITION", "ordinary[row]", ["0 HB a1/A 5"]),
    (
        "if not good[claim]:\n            continue",
        "if False:\n            continue",
        ["0 CP a1/A", "1 HB a1/A 5", "2 HB a1/A 6", "12 HB a1/A 7", "13 HB a1/A 8"],
    ),
    (
        "            ordinary[row]\n            and ",
        "            ",
        ["0 CP a1/A", "2 HB a1/A 5 v=7"],
    ),
    ("            and kinds[row] == HEARTBEAT\n", "", ["0 CP a1/A", "2 CP a1/A"]),
    ("            and addresses[row] == addresses[first]\n", "", ["0 CP a1/A", "2 HB b1/B 5"]),
    (
        "            and said == headers[first, _INTERVAL]\n",
        "",
        ["0 CP b1/B p=1 interval=4000", "0 CP a1/A", "2 HB a1/A 5 interval=4000 epoch=1"],
    ),
    (
        "epoch == offsets[first] or (epoch < 0 and not present[first])",
        "True",
        ["0 CP b1/B p=1", "0.5 CP a1/A", "2 HB a1/A 5 epoch=0"],
    ),
    (
        "(epoch < 0 and not present[first])",
        "epoch < 0",
        ["0 CP b1/B p=1", "0 CP a1/A seen=0", "2 HB a1/A 5"],
    ),
    (
        "(epoch < 0 and not present[first])",
        "not present[first]",
        ["0 CP b1/B p=1", "0.5 CP a1/A", "2 HB a1/A 5 epoch=0"],
    ),
    (
        "leader[row] >= 0 and ",
        "",
        ["0 CP a1/A", "1 HB a1/A 5", "12 HB a1/A 7"],
    ),
    (
        " and leader[row] == leader[before]",
        "",
        ["0 CP a1/A", "1 HB a1/A 5", "2 HB a1/A 6", "12 HB a1/A 7", "13 HB a1/A 8"],
    ),
    (
        "first_clock_ms[row] - last_clock_ms[first] <= silence_intervals * every_ms",
        "True",
        ["0 CP a1/A", "12 HB a1/A 7"],
    ),
    ("first_position[row] >= 0", "True", ["0 CP a1/A", "2 HB a1/A -5", "3 HB a1/A 8"]),
    (
        "            good[claim]\n            and not",
        "            not",
        ["0 CP a1/A", "2 HB b1/B 5"],
    ),
    ("            and not spoiled[group]\n", "", ["0 RG x/X 9", "1 CP a1/A", "2 HB a1/A 5"]),
    (
        "            and not mixed[members[row]]\n",
        "",
        ["0 CP a1/A", "1 CP a2/A p=1", "2 HB a1/A 5", "3 HB a2/A 5 p=1"],
    ),
    (
        "            and headers[row, _INTERVAL] == stated[group]\n",
        "",
        ["0 CP b1/B p=1 interval=1000", "0 CP a1/A", "2.5 HB a1/A 5"],
    ),
    (
        "if not begun[group]:",
        "if True:",
        [
            "0 HB b1/B 1 p=1",
            "7 HB b1/B 2 p=1",
            "8 CP a1/A interval=9000",
            "9 HB a1/A 2 interval=9000 epoch=2",
        ],
    ),
]
"""In the kernel: the guard, what stands in its place, and a story."""
RESTS = [
    "0 CP a1/A",
    "0.5 HB a1/A 1",
    *(f"{at} HB a1/A 1" for at in range(2, 29, 3)),
    "31 HB a1/A 9",
    "32 HB a1/A 10",
    "33 CP b1/B p=1",
]
OTHERS: list[tuple[ModuleType, str, str, str, Story]] = [
    (
        kernel,
        "steady",
        "bound &= columns.unix_s < _BOUND // 1000",
        "pass",
        ["0 CP a1/A", "1 HB a1/A 5 late=-99999999999999999"],
    ),
    (
        kernel,
        "steady",
        "bound = np.abs(rows.timestamp_ms) < _BOUND",
        "bound = np.ones(count, np.bool_)",
        [
            "-4600000000000000 CP a1/A late=-4600000000000000",
            "4700000000000000 HB a1/A 5 late=4700000000000000",
        ],
    ),
    (collapsed, "joined", "(joinable | wins) & ~alone", "~alone", ["0 CP a1/A v=7", "2 HB a1/A 5"]),
    (
        collapsed,
        "joined",
        " & ~alone & ~of_ranges",
        " & ~of_ranges",
        ["0 CP a1/A", "0 CP b1/B p=1 at=0", "2 HB a1/A 5"],
    ),
    (
        collapsed,
        "joined",
        " & ~alone & ~of_ranges",
        " & ~alone",
        ["0 CP a1/A ranges=8", "2 HB a1/A 5 epoch=0"],
    ),
    (collapsed, "_steady", ").chosen(~rests[of])", ")", RESTS),
    (
        collapsed,
        "_steady",
        "    found.leader[np.isin(found.leader, firsts[rests])] = NO_RUN\n",
        "",
        RESTS,
    ),
]
"""The same, with where it is."""
LATER = [
    "0 CP a1/A interval=4000",
    "100 CP a1/A p=1 interval=4000",
    "1 HB a1/A 5 p=1 interval=4000 epoch=1",
    "105 CP b1/B p=2 interval=9000",
]
"""The last record lies in a second window: there somebody asks when the group was last heard of."""
ONLY_SAVE = [
    (
        "        if kinds[row] < 0:\n            continue\n        group, member",
        "        group, member",
        ["0 garbage", "1 CP a1/A interval=9000", "2 HB a1/A 5 interval=9000 epoch=1"],
    ),
    (
        "begun[group] = begins_group[row] = True",
        "begun[group] = True",
        ["0 CP a1/A interval=9000", "2 HB a1/A 2 interval=9000 epoch=0"],
    ),
]
"""What is reported is the same without them."""


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many claims are in columns when the log ends; nobody's name is known when it begins."""
    counted: Counter[str] = Counter()

    def counting(place: Any, claims: Any, *rest: Any) -> Iterator[Any]:
        counted["end"] += len(claims)
        yield from steady_rows(place, claims, *rest)

    monkeypatch.setattr(partition_fold, "steady_rows", counting)
    monkeypatch.setattr(run_length._known, "names", NameCodes(), raising=False)
    return counted


def without(module: ModuleType, name: str, guard: str, instead: str) -> Callable[..., Any]:
    """A function without one of its guards."""
    function = getattr(module, name)
    source = inspect.getsource(getattr(function, "py_func", function))
    assert source.count(guard) == 1, source
    source = source.replace(guard, instead).removeprefix("@numba.njit(cache=True, nogil=True)\n")
    space = dict(vars(module))
    exec(f"from __future__ import annotations\n{source}", space)
    found: Callable[..., Any] = space[name]
    return found


def as_told(story: Story, size: int = WHOLE, window: int = WHOLE) -> Counter[Row] | str:
    """The rows from columns, or the error that kept them from being reported."""
    try:
        return Chunked(records(story), size, INTERVAL_MS, window=window).told(ANYWHERE)
    except (TypeError, IndexError) as error:
        return repr(error)


def is_needed(
    module: ModuleType, name: str, guard: str, instead: str, story: Story,
    patch: pytest.MonkeyPatch, window: int = WHOLE,
) -> None:  # fmt: skip
    """In one chunk, or where each record is one; a chunk does not begin with the offset before."""
    raws = records(story)
    plain = fed(raws, ANYWHERE)
    sizes = (WHOLE, 1) if len({raw.offset for raw in raws}) == len(raws) else (WHOLE,)
    assert all(as_told(story, size, window) == plain for size in sizes)
    broken = without(module, name, guard, instead)
    patch.setattr(request_runs if name == "joined" else module, name, broken)
    assert any(as_told(story, size, window) != plain for size in sizes)


@pytest.mark.parametrize(("guard", "instead", "story"), STEADY)
def test_without_a_guard_of_the_kernel_a_story_ends_otherwise(
    guard: str, instead: str, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_needed(kernel, "_steady", guard, instead, story, monkeypatch)


@pytest.mark.parametrize(("module", "name", "guard", "instead", "story"), OTHERS)
def test_without_a_guard_of_its_caller_a_story_ends_otherwise(
    module: ModuleType, name: str, guard: str, instead: str, story: Story,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    is_needed(module, name, guard, instead, story, monkeypatch)


def test_a_window_that_begins_within_a_chunk_knows_the_clock_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A jump of the clock lies in the chunk, and its facts in the window before."""
    others = [f"{at} HB b1/B {at} p=1" for at in range(2, 6)]
    heartbeats = [f"{7 if at == 2 else at} HB a1/A {at}" for at in range(2, 6)]
    beats = [line for pair in zip(heartbeats, others, strict=True) for line in pair]
    raws = records(["0 CP a1/A", "0 CP b1/B p=1", "1 HB a1/A 1", "1 HB b1/B 1 p=1", *beats])
    plain = fed(raws, ANYWHERE)
    assert Chunked(raws, 5, INTERVAL_MS, window=4).told(ANYWHERE) == plain
    monkeypatch.setattr(RunOfRows, "late_clock_ms", NEVER_LATE)
    assert Chunked(raws, 5, INTERVAL_MS, window=4).told(ANYWHERE) != plain


def test_a_timestamp_that_falls_behind_the_win_is_seen_by_the_next_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard = "timestamps_ms[first] <= timestamps_ms[row]"
    is_needed(kernel, "_steady", guard, "True", LATER, monkeypatch, window=4)


@pytest.mark.parametrize(("guard", "instead", "story"), ONLY_SAVE)
def test_what_is_no_record_of_a_claim_leaves_it_in_columns(
    guard: str, instead: str, story: Story, kept: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = fed(records(story), ANYWHERE)
    assert as_told(story) == plain
    assert kept.pop("end") == 2  # under each rule set one
    monkeypatch.setattr(run_length._known, "names", NameCodes())
    monkeypatch.setattr(kernel, "_steady", without(kernel, "_steady", guard, instead))
    assert as_told(story) == plain
    assert not kept


@pytest.mark.parametrize("late", [-9_999_999_999, 9_999_999_999])
def test_a_chunk_in_which_every_clock_is_far_away_is_told(late: int) -> None:
    story = ["0 CP a1/A", f"1 HB a1/A 5 late={late}"]
    chunked = Chunked(records(story), 1, INTERVAL_MS, window=WHOLE)
    assert chunked.told(ANYWHERE) == fed(records(story), ANYWHERE)
