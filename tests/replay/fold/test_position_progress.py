"""Marshal promises that a run of heartbeats comes to the same as its records one by one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from kafka_marshal.replay.model.position_progress import PositionProgress, PositionReport

REST_MS = 50

WORDS = st.lists(
    st.tuples(st.integers(1, 70), st.sampled_from([0, 0, 1, 5])), min_size=1, max_size=30
)
"""How long after the last word, and by how much the position moves."""


def words_of(deeds: list[tuple[int, int]]) -> list[PositionReport]:
    clock_ms, position, words = 1000, 0, []
    for offset, (waited_ms, step) in enumerate(deeds):
        clock_ms, position = clock_ms + waited_ms, position + step
        words.append(PositionReport(position, clock_ms, offset))
    return words


def one_by_one(pace: PositionProgress, words: list[PositionReport]) -> PositionProgress:
    last_ms = 1000
    for word in words:
        pace.word(word.position, last_ms, word.clock_ms, word.offset)
        last_ms = word.clock_ms
    return pace


def in_runs(
    pace: PositionProgress, words: list[PositionReport], cuts: set[int]
) -> PositionProgress:
    """Runs are cut at `cuts`, and where a run would hold a rest."""
    changes: list[tuple[int, PositionReport]] = []  # the word before, and the change
    position = None if pace.moved is None else pace.moved.position
    last_ms = 1000

    def flush() -> None:
        if changes:
            pace.run(changes[0][0], changes[0][1], changes[-1][1])
            changes.clear()

    for place, word in enumerate(words):
        if word.position != position:
            if changes and last_ms - changes[-1][1].clock_ms >= REST_MS:
                flush()
            changes.append((last_ms, word))
            position = word.position
        last_ms = word.clock_ms
        if place in cuts:
            flush()
    flush()
    return pace


def begun(said: bool) -> PositionProgress:
    return PositionProgress.of_win(REST_MS, PositionReport(0, 1000, 0), said)


@given(WORDS, st.sets(st.integers(0, 30)), st.booleans())
@example([(60, 0), (60, 1), (60, 0), (60, 1), (10, 1)], set(), True)
def test_a_run_comes_to_the_same_as_its_records(
    deeds: list[tuple[int, int]], cuts: set[int], said: bool
) -> None:
    words = words_of(deeds)
    assert in_runs(begun(said), words, cuts) == one_by_one(begun(said), words)


@given(WORDS)
def test_the_longest_rest_is_the_longest_stretch_on_one_position(
    deeds: list[tuple[int, int]],
) -> None:
    words = [PositionReport(0, 1000, 0), *words_of(deeds)]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for word in words:
        first.setdefault(word.position, word.clock_ms)
        last[word.position] = word.clock_ms
    longest = max(last[position] - first[position] for position in first)
    rest = one_by_one(begun(True), words[1:]).rest_at(words[-1].clock_ms)
    assert (rest.lasted_ms if rest else 0) == (longest if longest >= REST_MS else 0)


@given(WORDS)
def test_a_brisk_stretch_holds_no_rest(deeds: list[tuple[int, int]]) -> None:
    words = [PositionReport(0, 1000, 0), *words_of(deeds)]
    changes = [words[0], *(b for a, b in pairwise(words) if a.position != b.position)]
    clocks = [word.clock_ms for word in words]
    for begin, end in one_by_one(begun(True), words[1:]).brisk():
        inside = [word for word in changes if begin <= word.clock_ms <= end]
        for change, after in pairwise(inside):
            spoke_ms = max(c for c in clocks if c < after.clock_ms)
            assert spoke_ms - change.clock_ms < REST_MS
