"""TLC and the validator in Python say the same of a recorded run: which event, and which guard."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest
from tests.validate.mutations import MUTATIONS, mutated
from tests.validate.samples import BUSY, broken, fleets, judged, rows
from tests.validate.test_validator import BROKEN, BY_HAND, INSTANCES
from tools.runs.simulate import Fleet

from kafka_marshal.machines.consumer.consumer import Forbidden, Mode
from kafka_marshal.modelcheck import models, runs
from kafka_marshal.validate import Impossible, run_of
from kafka_marshal.validate.explain import guard_name
from kafka_marshal.validate.run import Fields

EVENTS = 250


def strings_of(module: str, operator: str) -> list[str]:
    text = (models.spec_folder() / f"{module}.tla").read_text(encoding="utf-8")
    found = re.search(rf"^{operator} ==\s*<<(.*?)>>", text, re.DOTALL | re.MULTILINE)
    assert found
    return re.findall(r'"(\w+)"', found[1])


def test_every_guard_has_one_name() -> None:
    assert [guard_name(each) for each in Forbidden] == strings_of("Consumer", "Forbidden")
    assert [guard_name(each) for each in Impossible] == strings_of("TraceMarshal", "Impossible")


def assert_both_say_the_same(lines: list[Fields], said: bool | None = None) -> None:
    """`said` is whether the run is explained, where it is known."""
    ours = judged(lines)
    theirs = runs.check(run_of(lines), up_to=ours.unexplained)
    guard = ours.unexplained.guard if ours.unexplained is not None else None
    assert (theirs.explained, theirs.guard) == (
        ours.events,
        guard_name(guard) if guard is not None else None,
    )
    if said is not None:
        assert ours.explained is said


@pytest.mark.tlc
@pytest.mark.parametrize(
    "fleet", [*fleets()], ids=lambda f: f"{f.mode.value}-{f.certifies}-{f.idempotent}"
)
def test_both_explain_what_the_machines_do(fleet: Fleet) -> None:
    assert_both_say_the_same(rows(2, 2000, fleet), said=True)


@pytest.mark.tlc
@pytest.mark.parametrize("name", MUTATIONS)
def test_both_name_the_same_event_of_a_changed_run(name: str) -> None:
    mode = list(Mode)[len(name) % len(Mode)]  # either, and always the same
    lines = rows(3, EVENTS, attrs.evolve(BUSY, mode=mode))
    changed = next(each for each in mutated(lines, name) if not judged(each).explained)
    assert_both_say_the_same(changed, said=False)


@pytest.mark.tlc
@pytest.mark.parametrize("name", BROKEN)
def test_both_catch_a_broken_machine(name: str) -> None:
    fleet, attribute, instead, _ = BROKEN[name]
    with broken(attribute, instead):
        recorded = [rows(seed, 3000, fleet) for seed in range(4)]
    lines = next(lines for lines in recorded if not judged(lines).explained)
    assert_both_say_the_same(lines, said=False)


NOT_SEEN_ABOVE = {
    name: events
    for name, (events, guard) in BY_HAND.items()
    if guard is None
    or (
        guard.value not in set().union(*(guards for *_, guards in MUTATIONS.values()))
        and guard not in set().union(*(guards for *_, guards in BROKEN.values()))
    )
}


@pytest.mark.tlc
@pytest.mark.parametrize("name", NOT_SEEN_ABOVE)
def test_both_judge_by_hand_alike(name: str) -> None:
    events = NOT_SEEN_ABOVE[name]
    header: Fields = {"run": 1, "rules": {"heartbeat_interval_s": 60}, "instances": INSTANCES}
    assert_both_say_the_same([header, *events])


@pytest.mark.tlc
def test_the_data_stays_where_it_is_asked_for(tmp_path: Path) -> None:
    lines = rows(3, 100)
    runs.check(run_of(lines), data_folder=tmp_path)
    text = (tmp_path / "TraceData.tla").read_text(encoding="ascii")
    assert text.count('"read"') == sum(line.get("event") == "read" for line in lines)


def test_what_tlc_cannot_count_is_said() -> None:
    lines = rows(3, 100)
    lines.append({"event": "processed", "instance": "c0-0", "topic": "t0", "topic_partition": 0})
    lines[-1] |= {"from": 2**31, "to": 2**31 + 1}
    with pytest.raises(runs.TooMuchForTLC, match="32 bits"):
        runs.check(run_of(lines))
