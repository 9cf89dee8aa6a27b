from pathlib import Path

import pytest

from kafka_marshal import Accepted, ReadTwice, Refused, RuleSet
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, Unmet
from tests.golden_story import tell

GOLDEN = Path(__file__).parent / "golden"
STORIES = sorted(GOLDEN.glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_still_ends_as_it_was_told(path: Path, request: pytest.FixtureRequest) -> None:
    told = tell(path).text
    update = request.config.getoption("--update-golden")
    if update and path.read_text(encoding="utf-8") != told:
        path.write_text(told, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == told, "make golden rewrites it; review the diff"


def test_every_refusal_is_in_a_story() -> None:
    told = {verdict for path in STORIES for verdict in tell(path).verdicts}
    assert {*Refused, *ReadTwice, *RangeRefused, *Unmet} <= told


def test_everything_a_record_can_do_is_in_a_story() -> None:
    told = {verdict for path in STORIES for verdict in tell(path).verdicts}
    assert {*Accepted, *RangeAccepted} <= told


def test_both_rule_sets_have_stories() -> None:
    assert {tell(path).rules.rule_set for path in STORIES} == set(RuleSet)
