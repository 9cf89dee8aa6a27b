"""What real consumers did on a real broker is explained by the specification, to the last event."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools.runs.by_day import sampled

from kafka_marshal.admin import set_positions as administer
from kafka_marshal.admin.position_targets import plan, wish
from kafka_marshal.admin.view import View
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.client.coordinate.recording import RecordedMember, write_log
from kafka_marshal.machines.consumer.consumer import Forbidden
from kafka_marshal.machines.consumer.member import ClaimEffect, Member
from kafka_marshal.testing import Broker
from kafka_marshal.validate import Judgement, read_folder, validate
from kafka_marshal.validate.explain import Guard
from tests.cli.run import marshal
from tests.client.crew import INTERVAL_S, RULES, Process, Stage, twice, until

PARTITIONS = 4
WINDOW = 100


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


def set_position(stage: Stage, text: str) -> None:
    """As `marshal set-position` does it."""
    settings = stage.cluster.settings
    with View(settings, stage.coordination, RULES) as view:
        wished = wish(text)
        operators = administer.SetPositionsOperation(view, stage.group, [wished.topic], 60_000)
        for batch in view.changes(view.ends):
            operators.read(batch)
        wanted = plan([wished], stage.group, stage.cluster, view)
        with LogWriter(settings, stage.coordination) as log:
            [ended] = operators.set_positions(stage.cluster, log, wanted)
    assert ended.reason is None


def recorded(stage: Stage, folder: Path) -> Judgement:
    write_log(stage.cluster.settings, stage.coordination, folder)
    return validate(read_folder(folder))


def broken_by(stage: Stage, folder: Path) -> Guard | None:
    """The guard that an instance has broken, as far as it is recorded."""
    found = recorded(stage, folder).unexplained
    return None if found is None or found.instance is None else found.guard


def got(crew: list[Process]) -> set[int]:
    return {number for each in crew for number in each.got}


def an_eventful_run(
    stage: Stage, folder: Path, between: Callable[[str, list[Process]], None], **options: Any
) -> tuple[str, list[Process]]:
    """One is killed and restarted under its id, one sleeps for too long; in between something.

    Its topic's messages 0 to 2,999; and the consumers in the order of their starts.
    """
    topic = stage.topic(PARTITIONS, 1_000)
    options = {"pause_s": 0.001, "record_to": str(folder), **options}
    crew = [stage.process(f"w{number}", topic, **options) for number in range(3)]
    try:
        until(lambda: all(each.told("claimed") for each in crew))
        until(lambda: len(got(crew)) > 900)
        stage.produce(topic, PARTITIONS, range(1_000, 2_000))
        crew[0].kill()
        crew[1].send(signal.SIGSTOP)
        time.sleep(3 * INTERVAL_S)  # an owner is stale after two
        crew[1].send(signal.SIGCONT)
        crew.append(stage.process("w0", topic, **options))
        until(lambda: crew[3].told("claimed"))
        between(topic, crew)
        stage.produce(topic, PARTITIONS, range(2_000, 3_000))
        last = set(range(3_000 - PARTITIONS, 3_000))
        until(lambda: last <= got(crew))
        for each in crew[1:3]:
            each.send(signal.SIGTERM)
            assert each.ended(20)
    finally:
        for each in crew:
            each.__exit__()
    return topic, crew


def test_whatever_makes_a_member_send_is_recorded() -> None:
    """A method that is forgotten sends records of which the recording knows nothing."""
    sends = {
        method.__name__  # an old name calls what is recorded
        for name, method in vars(Member).items()
        if not name.startswith("_")
        and f"list[{ClaimEffect.__name__}]" in str(getattr(method, "__annotations__", ""))
    }
    assert {"add_topic", "commit", "done", "outcome_unknown", "timer"} <= sends
    assert sends <= vars(RecordedMember).keys()


def test_at_least_once_a_behaviour_explains_everything_that_happened(
    stage: Stage, tmp_path: Path
) -> None:
    def back(topic: str, crew: list[Process]) -> None:
        before = sum(map(len, (each.got for each in crew)))
        set_position(stage, f"{topic}:1=20")
        until(lambda: sum(map(len, (each.got for each in crew))) > before + 50)

    _, crew = an_eventful_run(stage, tmp_path, back, window=WINDOW)
    judgement = recorded(stage, tmp_path)
    assert judgement.unexplained is None, judgement.unexplained
    assert got(crew) == set(range(3_000))
    kinds = judgement.kinds
    assert kinds["Started"] == 4
    assert min(kinds["Read"], kinds["Sent"], kinds["Processed"], kinds["Appended"]) > 20
    assert judgement.strangers >= 4, "the administrator's records"
    told = marshal("validate", tmp_path)
    assert told.returncode == 0, told.stdout


@pytest.mark.night  # By day the run above, and simulated ones that are recorded at most once.
def test_at_most_once_a_behaviour_explains_everything_and_nothing_came_twice(
    stage: Stage, tmp_path: Path
) -> None:
    def forward(topic: str, crew: list[Process]) -> None:
        set_position(stage, f"{topic}:1=450")

    batch = 50
    _, crew = an_eventful_run(stage, tmp_path, forward, semantics="at_most_once", batch=batch)
    judgement = recorded(stage, tmp_path)
    assert judgement.unexplained is None, judgement.unexplained
    assert judgement.kinds["Processed"] > 20
    # Partition 1 is left out: its position was set by hand.
    kept = [[number for number in each.got if number % PARTITIONS != 1] for each in crew]
    assert twice(*kept) == 0


# By day one mistake of a process is caught; `tests/validate` shows every guard without a broker.
@pytest.mark.parametrize(
    ("mistake", "options", "guard"),
    sampled(
        [
            ("grants_itself", {"semantics": "at_most_once", "batch": 50}, Forbidden.NOT_GRANTED),
            ("runs_ahead", {"window": 20, "pause_s": 0.002}, Forbidden.BEYOND_WINDOW),
            ("asks_twice", {}, Forbidden.AWAITS_READ_BACK),
        ],
        3,
    ),
)
def test_a_consumer_that_is_broken_is_caught_by_the_guard_that_it_breaks(
    mistake: str, options: dict[str, Any], guard: Forbidden, stage: Stage, tmp_path: Path
) -> None:
    topic = stage.topic(1, 300)
    with stage.process("w", topic, mistake=mistake, record_to=str(tmp_path), **options) as broken:
        until(lambda: len(broken.got) >= 100)
        until(lambda: broken_by(stage, tmp_path) is guard)
    assert broken_by(stage, tmp_path) is guard


@pytest.mark.night
def test_who_acts_after_its_release_is_caught(stage: Stage, tmp_path: Path) -> None:
    topic = stage.topic(2, 100)
    told = {"mistake": "forgets_its_release", "record_to": str(tmp_path)}
    with stage.process("w", topic, **told) as broken:
        until(lambda: len(broken.got) == 100)
        with stage.worker("poor", topic):  # asks for a share, so that something is given back
            until(lambda: broken.told("lost"))
    found = recorded(stage, tmp_path).unexplained
    assert found is not None
    assert found.guard is Forbidden.RESIGNED


@pytest.mark.night
def test_who_does_not_hear_that_another_took_over_is_caught(stage: Stage, tmp_path: Path) -> None:
    topic = stage.topic(1, 100)
    told = {"mistake": "deaf", "record_to": str(tmp_path)}
    with stage.process("deaf", topic, **told) as broken:
        until(lambda: len(broken.got) == 100)
        broken.send(signal.SIGSTOP)
        with stage.worker("heir", topic) as heir:
            until(lambda: len(heir.consumer.claims) == 1)
            broken.send(signal.SIGCONT)
            time.sleep(2 * INTERVAL_S)
    found = recorded(stage, tmp_path).unexplained
    assert found is not None
    assert found.guard is Forbidden.NOT_OWNER
