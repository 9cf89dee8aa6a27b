import enum
from pathlib import Path

import pytest

from kafka_marshal.core.groups.verdicts import GroupAccepted, GroupRefused, OfAPosition, OfARelease
from tests.core.groups.group_story import tell

STORIES = sorted((Path(__file__).parents[2] / "golden" / "groups").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_of_groups_still_ends_as_it_was_told(
    path: Path, request: pytest.FixtureRequest
) -> None:
    told = tell(path).text
    update = request.config.getoption("--update-golden")
    if update and path.read_text(encoding="utf-8") != told:
        path.write_text(told, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == told, "make golden rewrites it; review the diff"


@pytest.mark.parametrize("kind", [GroupAccepted, GroupRefused, OfAPosition, OfARelease])
def test_every_verdict_on_an_event_is_in_a_story(kind: type[enum.Enum]) -> None:
    told = {verdict for path in STORIES for verdict in tell(path).verdicts}
    assert {*kind} <= told
