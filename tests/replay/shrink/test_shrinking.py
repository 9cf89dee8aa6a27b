"""Marshal promises the smallest part of a log that still shows a finding."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.runs.by_day import sampled

from kafka_marshal.capture import (
    RawRecord,
    TimestampType,
    capture_line,
    parse_line,
    read_capture,
)
from kafka_marshal.replay.errors import InvalidOption, OutputExists
from kafka_marshal.replay.findings.catalogue import CATALOGUE, OF_ONE_RECORD
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.shrink.shrinking import (
    NoSuchFinding,
    Part,
    ShrunkLog,
    WantedFinding,
    findings_of,
    parts_of,
    shrink,
)
from kafka_marshal.replay.shrink.slices import pasted, story_of, written
from kafka_marshal.replay.sources import find
from tests.replay.findings.test_findings import STORIES
from tests.replay.told import BOTH, beats, records

D3 = (
    Path(__file__).parent.parent.parent
    / "data"
    / "captures"
    / "original"
    / "d3_late_heartbeat_theft.jsonl"
)
FOLDED = [code for code in CATALOGUE if code not in OF_ONE_RECORD]
JUDGING = JudgingOptions(BOTH, 4_000, coordination_partitions=4)


def shrunk_of(code: str, given: list[RawRecord]) -> ShrunkLog:
    return shrink([Part(LogPartition("log", 2), tuple(given))], WantedFinding(code), JUDGING)


def story(code: str) -> list[RawRecord]:
    """The code's log, with other groups' records before and after and in between."""
    _, lines, _ = STORIES[code]
    given = records(lines)
    others = records(["0 CP z1/Z g=others p=9", *beats("z1/Z", 1, 30, tail="1 g=others p=9")])
    moved = [RawRecord(2, 10_000 + r.offset, r.timestamp_ms, r.value) for r in others]
    return [*given, *moved] if code != "group_gone" else given


def test_a_finding_of_one_record_is_not_looked_for_in_a_fold() -> None:
    with pytest.raises(NoSuchFinding, match="record_not_signed is found in one record alone"):
        shrunk_of("record_not_signed", story("late_heartbeat_stole"))


@pytest.mark.parametrize("code", sampled(FOLDED, 3))
def test_every_record_that_is_left_is_needed(code: str, tmp_path: Path) -> None:
    given = story(code)
    shrunk = shrunk_of(code, given)
    kept = shrunk.part.records
    assert 0 < len(kept) <= len(given)
    assert set(kept) <= set(given)
    wanted = {name: getattr(shrunk.finding, name) for name in ("code", "severity")}
    for gone in range(len(kept)):
        part = Part(shrunk.part.log_partition, kept[:gone] + kept[gone + 1 :])
        if part.records:
            told = findings_of(part, shrunk.judging)
            assert not any(all(getattr(row, n) == v for n, v in wanted.items()) for row in told)


@pytest.mark.parametrize("code", sampled(FOLDED, 3))
def test_the_test_to_paste_passes_with_its_capture_and_fails_without_a_record(
    code: str, tmp_path: Path
) -> None:
    shrunk = shrunk_of(code, story(code))
    capture, test, *_ = written(shrunk, tmp_path / "out")
    text = test.read_text(encoding="utf-8")
    assert text == pasted(shrunk)
    space: dict[str, object] = {"__file__": str(test)}
    exec(compile(text, str(test), "exec"), space)
    run = space[f"test_the_log_shows_{code}"]
    assert callable(run)
    run()
    assert tuple(read_capture(capture)) == shrunk.part.records
    lines = capture.read_text(encoding="utf-8").splitlines()
    if len(lines) > 1:
        capture.write_text("\n".join(lines[:-1]), encoding="utf-8")
        with pytest.raises(AssertionError):
            run()


def test_the_test_to_paste_is_one_that_pytest_runs(tmp_path: Path) -> None:
    parts = parts_of(find([str(D3)]), lambda _: None)
    shrunk = shrink(
        parts, WantedFinding("late_heartbeat_refused", 176), JudgingOptions(BOTH, 4_000)
    )
    assert shrunk.finding.offset == 176
    assert shrunk.records_before == 236
    written(shrunk, tmp_path / "out")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout
    assert "1 passed" in ran.stdout


def test_its_page_marks_the_theft_and_not_the_heartbeat_of_the_owner_before_it() -> None:
    """That one's claim is left out, so under the original's rules its heartbeat takes the claim."""
    parts = parts_of(find([str(D3)]), lambda _: None)
    shrunk = shrink(parts, WantedFinding("late_heartbeat_stole", 82), JudgingOptions(BOTH, 4_000))
    told = story_of(shrunk)
    assert told is not None
    assert [step.offset for step in told.steps] == [None, 81, 82]
    assert told.violated_at == 2


def test_what_is_about_others_is_left_out_first() -> None:
    lines = ["0 CP a1/A", "1 HB a1/A 10", "10 CP b1/B", "11 HB b1/B 20", "12 HB a1/A 10 late=9"]
    noise = [f"{n / 100:.2f} HB y{n}/Y{n} 5 g=noise p={n}" for n in range(1300)]
    given = records(sorted([*lines, *noise], key=lambda line: float(line.split()[0])))
    shrunk = shrunk_of("late_heartbeat_refused", given)
    assert [raw.decoded().message.group_id for raw in shrunk.part.records] == ["g"] * 3
    assert shrunk.judged < 30


def test_requests_for_ranges_are_about_their_claim() -> None:
    lines = ["0 CP a1/ranges ranges=0", "0.1 CM a1/ranges 10 epoch=0", "0.3 CR p1/P 4"]
    noise = [f"{n / 100 + 1:.2f} HB y{n}/Y{n} 5 g=noise p={n}" for n in range(700)]
    shrunk = shrunk_of("range_lost", records([*lines, *noise, "9 CR q1/Q 4"]))
    assert len(shrunk.part.records) == 4
    assert shrunk.judged < 30


def test_the_finding_at_an_offset_stays_that_one() -> None:
    given = list(read_capture(D3))
    part = Part(LogPartition("d3", 2), tuple(given))
    for offset in (82, 176):
        shrunk = shrink(
            [part], WantedFinding("late_heartbeat_stole", offset), JudgingOptions(BOTH, 4_000)
        )
        assert (shrunk.finding.offset, shrunk.judging.rule_sets[0].value) == (offset, "original")


def test_a_finding_that_is_not_there_is_said_so() -> None:
    with pytest.raises(NoSuchFinding, match="no finding forged@3"):
        shrink(
            [Part(LogPartition("log", 2), tuple(records(["0 CP a1/A"])))],
            WantedFinding("forged", 3),
            JUDGING,
        )


@pytest.mark.parametrize("text", ["", "nonsense", "forged@", "forged@x", "forged@-1", "@3"])
def test_a_finding_that_cannot_be_is_named(text: str) -> None:
    with pytest.raises(InvalidOption):
        WantedFinding.parsed(text)


def test_an_earlier_output_is_left_whole(tmp_path: Path) -> None:
    with pytest.raises(OutputExists):
        written(shrunk_of("forged", story("forged")), tmp_path)
    assert list(tmp_path.iterdir()) == []


RAW = st.builds(
    RawRecord,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**62),
    st.integers(-(2**62), 2**62),
    st.none() | st.binary(),
    st.lists(st.tuples(st.text(), st.none() | st.binary())).map(tuple),
    st.sampled_from(TimestampType),
)


@given(RAW)
def test_a_record_that_is_written_into_a_capture_is_read_back(raw: RawRecord) -> None:
    assert parse_line(capture_line(raw), "here") == raw
