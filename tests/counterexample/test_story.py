import attrs
import pytest

from kafka_marshal.counterexample import Counterexample, Participant, Step, story_text
from tests.counterexample.sample import LATE_HEARTBEAT


def last_lines(**changes: object) -> list[str]:
    told = story_text(attrs.evolve(LATE_HEARTBEAT, **changes))  # type: ignore[arg-type]
    return [line.strip() for line in told.splitlines()[4:]]


def test_a_story_numbers_its_steps_and_ends_with_what_is_wrong() -> None:
    assert story_text(LATE_HEARTBEAT).splitlines() == [
        "1  0 s  a1 sends Heartbeat at 0",
        "2  0 s  a1 stalls",
        "4  2 s  time passes",
        "5  2 s  offset 0: a1's Heartbeat at 0: Overwritten",
        "   Fenced does not hold.",
    ]


def test_a_story_that_goes_on_for_ever_says_how() -> None:
    assert last_lines(loop_back_to=5)[0] == "From here on nothing happens any more."
    assert last_lines(loop_back_to=4)[0] == "From here on step 5 again, for ever."
    assert last_lines(loop_back_to=1)[0] == "From here on steps 2 to 5 again, for ever."


def test_a_guard_is_told_as_one_that_refused() -> None:
    assert last_lines(violated="LogLostRecords") == ["LogLostRecords refused a record."]


def test_nothing_is_said_of_a_property_that_nobody_named() -> None:
    assert last_lines(violated=None) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"steps": ()}, "numbered"),
        ({"steps": (Step(1),)}, "numbered"),
        ({"steps": (Step(0, who="c1"),)}, "does not take part"),
        ({"steps": (Step(0, target="c1"),)}, "does not take part"),
        ({"steps": (Step(0, since=0),)}, "not before"),
        ({"violated_at": 6}, "no step 6"),
        ({"loop_back_to": -1}, "no step -1"),
        ({"participants": (Participant("a1"), Participant("a1"))}, "two participants"),
    ],
)
def test_what_contradicts_itself_is_no_counterexample(
    change: dict[str, object], complaint: str
) -> None:
    fields = attrs.asdict(LATE_HEARTBEAT, recurse=False) | {"violated_at": None} | change
    with pytest.raises(ValueError, match=complaint):
        Counterexample(**fields)
