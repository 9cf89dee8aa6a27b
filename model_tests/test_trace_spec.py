"""TLC and the validator in Python say the same of a recorded run: which event, and which guard."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import attrs
import pytest
from tests.validate.mutations import MUTATIONS, mutated
from tests.validate.samples import BUSY, broken, fleets, judged, rows
from tests.validate.test_validator import BROKEN, BY_HAND, INSTANCES
from tools.runs.by_day import sampled

from kafka_marshal.machines.consumer.consumer import Forbidden, Mode
from kafka_marshal.modelcheck import models, runs
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.validate import Impossible, Judgement, run_of
from kafka_marshal.validate.explain import guard_name
from kafka_marshal.validate.run import Fields

EVENTS = 250


def strings_of(module: str, operator: str) -> list[str]:
    text = (models.spec_folder() / "claims" / f"{module}.tla").read_text(encoding="utf-8")
    found = re.search(rf"^{operator} ==\s*<<(.*?)>>", text, re.DOTALL | re.MULTILINE)
    assert found
    return re.findall(r'"(\w+)"', found[1])


def test_every_guard_has_one_name() -> None:
    assert [guard_name(each) for each in Forbidden] == strings_of("Consumer", "Forbidden")
    assert [guard_name(each) for each in Impossible] == strings_of("TraceMarshal", "Impossible")


def changed(name: str) -> list[Fields]:
    mode = list(Mode)[len(name) % len(Mode)]  # either, and always the same
    lines = rows(3, EVENTS, attrs.evolve(BUSY, mode=mode))
    return next(each for each in mutated(lines, name) if not judged(each).explained)


def of_a_broken_machine(name: str) -> list[Fields]:
    fleet, attribute, instead, _ = BROKEN[name]
    with broken(attribute, instead):
        recorded = [rows(seed, 3000, fleet) for seed in range(4)]
    return next(lines for lines in recorded if not judged(lines).explained)


def by_hand(name: str) -> list[Fields]:
    events, _ = BY_HAND[name]
    return [{"run": 1, "rules": {"heartbeat_interval_s": 60}, "instances": INSTANCES}, *events]


NOT_SEEN_ABOVE = [
    name
    for name, (_, guard) in BY_HAND.items()
    if guard is None
    or (
        guard.value not in set().union(*(guards for *_, guards in MUTATIONS.values()))
        and guard not in set().union(*(guards for *_, guards in BROKEN.values()))
    )
]
FLEETS = {f"{f.mode.value}-{f.certifies}-{f.idempotent}": f for f in fleets()}
EVERY = 3
"""By day every third fleet is judged, since its run is long, and every run with a mistake."""
RECORDED: Mapping[str, Callable[[], list[Fields]]] = {
    **{name: partial(rows, 2, 2000, fleet) for name, fleet in FLEETS.items()},
    **{f"changed {name}": partial(changed, name) for name in MUTATIONS},
    **{f"broken {name}": partial(of_a_broken_machine, name) for name in BROKEN},
    **{f"by hand {name}": partial(by_hand, name) for name in NOT_SEEN_ABOVE},
}


@attrs.frozen
class BothSaid:
    """What the validator and TLC say of a run."""

    ours: Judgement
    theirs: runs.RunVerdict | ModelCheckError


@pytest.fixture(scope="module")
def said(pytestconfig: pytest.Config) -> Mapping[str, BothSaid]:
    """Of every run, by one process of TLC. A run that TLC fails at takes no other's verdict."""
    of_fleets = [*FLEETS][:: 1 if pytestconfig.getoption("all") else EVERY]
    names = [name for name in RECORDED if name not in FLEETS or name in of_fleets]
    recorded = {name: RECORDED[name]() for name in names}
    ours = {name: judged(lines) for name, lines in recorded.items()}
    asked = [(run_of(lines), ours[name].unexplained) for name, lines in recorded.items()]
    theirs: Sequence[runs.RunVerdict | ModelCheckError]
    try:
        theirs = runs.check_each(asked)
    except ModelCheckError:
        theirs = [alone(recorded[name], judgement) for name, judgement in ours.items()]
    return {name: BothSaid(ours[name], each) for name, each in zip(ours, theirs, strict=True)}


def alone(lines: list[Fields], ours: Judgement) -> runs.RunVerdict | ModelCheckError:
    try:
        return runs.check(run_of(lines), up_to=ours.unexplained)
    except ModelCheckError as failed:
        return failed


def assert_the_same(both: BothSaid, explained: bool | None = None) -> None:
    """`explained` is whether the run is, where it is known."""
    if isinstance(both.theirs, ModelCheckError):
        raise both.theirs
    guard = both.ours.unexplained.guard if both.ours.unexplained is not None else None
    assert (both.theirs.explained, both.theirs.guard) == (
        both.ours.events,
        guard_name(guard) if guard is not None else None,
    )
    if explained is not None:
        assert both.ours.explained is explained


@pytest.mark.tlc
@pytest.mark.parametrize("fleet", sampled(FLEETS, EVERY))
def test_both_explain_what_the_machines_do(said: Mapping[str, BothSaid], fleet: str) -> None:
    assert_the_same(said[fleet], explained=True)


@pytest.mark.tlc
@pytest.mark.parametrize("name", MUTATIONS)
def test_both_name_the_same_event_of_a_changed_run(said: Mapping[str, BothSaid], name: str) -> None:
    assert_the_same(said[f"changed {name}"], explained=False)


@pytest.mark.tlc
@pytest.mark.parametrize("name", BROKEN)
def test_both_catch_a_broken_machine(said: Mapping[str, BothSaid], name: str) -> None:
    assert_the_same(said[f"broken {name}"], explained=False)


@pytest.mark.tlc
@pytest.mark.parametrize("name", NOT_SEEN_ABOVE)
def test_both_judge_by_hand_alike(said: Mapping[str, BothSaid], name: str) -> None:
    assert_the_same(said[f"by hand {name}"])


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


def test_runs_of_other_durations_are_checked_apart() -> None:
    header, *events = rows(3, 100)
    other = {**header, "rules": {"heartbeat_interval_s": 7}}
    with pytest.raises(ValueError, match="the same durations"):
        runs.check_each([(run_of([one, *events]), None) for one in (header, other)])
