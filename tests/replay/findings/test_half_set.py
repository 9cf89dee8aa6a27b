"""Marshal promises that a replay names every claim that an administrator left, and no other."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_marshal import Accepted, ClaimKey, ReleaseGroup, ReleasingPartition, Rules, World
from kafka_marshal.core.claims.verdicts import WINS
from kafka_marshal.core.state import RuleSet
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS
from tests.replay.told import BOTH, INTERVAL_MS, records, replayed

X_SET_ONE = [
    *("0 CP a1/A", "1 CP a1/A p=1", "2 HB a1/A 10"),
    *(
        "4 RG x1/X 60",
        "4 RP a1/A 10",
        "4 RP a1/A 10 p=1",
        "5 CP x1/X",
        "6 CP x1/X p=1",
        "7 RP x1/X 3",
    ),
]
"""It set events/0 to 3 and has not set events/1 yet."""

QUIET = "900 CP z1/Z g=other"
"""Nobody of the group speaks for a long time."""


def half_set(lines: list[str], rules: str = "fenced") -> list[FindingRow]:
    found = replayed(records(lines))[FINDINGS]
    code = "set_position_half_done"
    return [row for row in found if row.code == code and row.rules == rules]


@pytest.mark.parametrize("rules", [rule_set.value for rule_set in BOTH])
def test_positions_that_are_half_set_are_an_error_that_names_both(rules: str) -> None:
    (row,) = half_set([*X_SET_ONE, QUIET], rules)
    assert (row.severity, row.topic_partition, row.instance) == ("error", 1, "x1")
    assert row.sentence.endswith(
        "won events/1 of group g at offset 7, but fell silent after offset 7 and never released "
        "it, though it had set events/0 of group g: the positions are half set."
    )


def test_an_administrator_that_is_still_at_it_is_no_finding() -> None:
    assert half_set(X_SET_ONE) == []
    assert half_set([*X_SET_ONE, "8 CP z1/Z g=other"]) == []


def test_whoever_pauses_next_makes_it_one() -> None:
    (row,) = half_set([*X_SET_ONE, "8 RG y1/Y 60"])
    assert "Y (instance y1) ended its tenure at offset 9 (group released)" in row.sentence


def test_the_same_administrator_may_pause_again_and_end_it_well() -> None:
    again = [*X_SET_ONE, "8 RG x1/X 60", "9 CP x1/X p=1", "10 RP x1/X 3 p=1"]
    assert half_set([*again, "11 RG y1/Y 60", QUIET]) == []


def test_a_claim_that_was_taken_and_won_back_and_set_is_no_finding() -> None:
    lines = [*X_SET_ONE, "16 CP b1/B p=1", "26 CP x1/X p=1", "27 RP x1/X 3 p=1"]
    assert half_set([*lines, QUIET]) == []
    (row,) = half_set([*lines[:-2], QUIET])
    assert "B (instance b1) ended its tenure at offset 9 (took over)" in row.sentence


def test_a_claim_that_was_given_back_unset_is_one_only_if_others_were_set() -> None:
    ours = "epoch=5 seen=5"
    given_back = f"7.5 RP x1/X 0 p=1 {ours}"
    claims = ["5 CP x1/X seen=3", "6 CP x1/X p=1 seen=3"]
    start = [*X_SET_ONE[:4], *claims]
    let_go = ["7 RP x1/X 10 epoch=4 seen=5", given_back]
    assert half_set([*start, *let_go, QUIET]) == []
    one_set = ["7 RP x1/X 3 epoch=4 seen=5 set-position=3", given_back]
    (row,) = half_set([*start, *one_set, QUIET])
    assert "but gave it back unset at offset 7, though it had set events/0" in row.sentence


def test_an_interrupted_resume_set_nothing_and_left_nothing_half_set() -> None:
    """It wins a claim as the one that paused, under a name of its own, and gives it back."""
    paused = [*("0 CP a1/A", "1 CP a1/A p=1", "2 HB a1/A 10"), "4 RG x1/X 60"]
    given_back = "6 RP x1/R 10 epoch=4 seen=4"
    for resumed in (["5 CP x1/R"], ["5 CP x1/R", given_back, "7 CP x1/R p=1"]):
        assert half_set([*paused, *resumed, QUIET]) == []
        assert half_set([*paused, *resumed, "8 RG y1/Y 60"]) == []
    assert half_set(["0 RG x1/X 60", "1 CP a1/A", "2 CP x1/R", QUIET]) == [], "no claim was known"


def test_a_resume_makes_what_an_administrator_left_no_other_finding() -> None:
    found = half_set([*X_SET_ONE, QUIET])
    resumed = [*X_SET_ONE, "8 CP x1/R p=1 seen=7 supersedes=7", "9 HB x1/R 10"]
    (row,) = half_set([*resumed, QUIET])
    assert row.severity == found[0].severity == "error"
    assert "X (instance x1) paused group g and won events/1 of group g at offset 7" in row.sentence
    assert "R (instance x1) ended its tenure at offset 9" in row.sentence


# --- exactly --------------------------------------------------------------------------------------


def left_by_the_log(lines: list[str]) -> list[tuple[int, str]]:
    """The claims that pauses left undone, from the log alone: read as the definition reads."""
    world = World(Rules(RuleSet.FENCED, INTERVAL_MS))
    by: str | None = None
    won: dict[ClaimKey, str] = {}
    left: list[tuple[int, str]] = []

    def undone() -> list[ClaimKey]:
        others_set = "set" in won.values()
        return [k for k, was in won.items() if was == "won" or (was == "let go" and others_set)]

    for raw in records(lines):
        record = raw.decoded()
        if record.message.group_id != "g":
            continue
        outcome = world.apply(record)
        message = record.message
        if isinstance(message, ReleaseGroup):
            if message.instance_id != by:
                left += [(key.topic_partition, by or "") for key in undone()]
                won = {}
            elif not undone():
                won = {}
            by = message.instance_id
            continue
        key = outcome.transitions[0].key
        if message.instance_id != by:
            continue
        if outcome.verdict in WINS:
            won[key] = "set" if won.get(key) == "set" else "won"
        elif isinstance(message, ReleasingPartition) and isinstance(outcome.verdict, Accepted):
            says = not record.headers.present or record.headers.set_position is not None
            won[key] = "set" if says or won.get(key) == "set" else "let go"
    left += [(key.topic_partition, by or "") for key in undone()]
    return sorted(left)


DEEDS = st.tuples(
    st.sampled_from(["CP", "CP", "HB", "RP", "RP", "RG"]),
    st.sampled_from(["x1/X", "x1/X", "y1/Y", "a1/A"]),
    st.integers(0, 1),
    st.integers(1, 9),
    st.sampled_from(["", "", "set-position=3", "seen=0"]),
)


def log_of(deeds: list[tuple[str, str, int, int, str]]) -> list[str]:
    second, lines = 0, []
    for verb, sender, partition, seconds, header in deeds:
        second += seconds
        if verb == "RG":
            lines.append(f"{second} RG {sender} {second + 20}")
        else:
            tail = "" if verb == "CP" else "3"
            lines.append(f"{second} {verb} {sender} {tail} p={partition} {header}")
    return [*lines, f"{second + 900} CP z1/Z g=other"]


PAUSED_TWICE = [
    *(("RG", "x1/X", 0, 1, ""), ("CP", "x1/X", 0, 1, ""), ("RP", "x1/X", 0, 1, "")),
    *(("RG", "x1/X", 0, 1, ""), ("CP", "x1/X", 0, 1, ""), ("RG", "y1/Y", 0, 1, "")),
]
GIVEN_BACK = [
    *(("RG", "x1/X", 0, 1, ""), ("CP", "x1/X", 0, 1, ""), ("CP", "x1/X", 1, 1, "")),
    *(("RP", "x1/X", 0, 1, ""), ("RP", "x1/X", 1, 1, "seen=0"), ("RG", "y1/Y", 0, 1, "")),
]


@settings(max_examples=100, deadline=None)
@given(st.lists(DEEDS, max_size=14))
@example(PAUSED_TWICE)
@example(GIVEN_BACK)
def test_a_replay_tells_exactly_what_the_log_says(
    deeds: list[tuple[str, str, int, int, str]],
) -> None:
    lines = log_of(deeds)
    told = sorted((row.topic_partition, row.instance) for row in half_set(lines))
    assert told == left_by_the_log(lines)
