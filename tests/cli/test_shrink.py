"""`marshal shrink` as a user has it. It needs no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run import CAPTURES, marshal

THEFT = CAPTURES / "d3_late_heartbeat_theft.jsonl"


def test_a_theft_is_shrunk_to_what_it_needs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = marshal(
        "shrink", "late_heartbeat_stole@82", "--from", THEFT, "--heartbeat-interval", "4",
        "--rules", "original", "--out", out,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr.strip()) == (0, "")
    assert "2 of 236 records" in ran.stdout
    assert sorted(path.name for path in out.iterdir()) == [
        "slice.jsonl",
        "story.html",
        "story.itf.json",
        "story.txt",
        "test_late_heartbeat_stole.py",
    ]
    assert "Heartbeat" in (out / "story.txt").read_text()


@pytest.mark.parametrize(
    ("finding", "source", "complaint"),
    [
        ("late_heartbeat_stole@83", str(THEFT), "no finding late_heartbeat_stole@83"),
        ("nonsense", str(THEFT), "there is no finding 'nonsense'"),
        ("forged", "nowhere.jsonl", "nowhere.jsonl"),
        ("rebalance_storm", str(THEFT), "rebalance_storm is about groups with a controller"),
    ],
)
def test_what_cannot_be_shrunk_says_why_and_leaves_nothing(
    tmp_path: Path, finding: str, source: str, complaint: str
) -> None:
    out = tmp_path / "out"
    ran = marshal("shrink", finding, "--from", source, "--heartbeat-interval", "4", "--out", out)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert complaint in ran.stderr
    assert "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []
