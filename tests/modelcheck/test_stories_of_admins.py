"""Marshal promises that a counterexample about administrators reads as a story."""

from __future__ import annotations

import re

import pytest

from kafka_marshal.modelcheck import models, traces
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.stories import stories
from kafka_marshal.modelcheck.stories.stories_of_admins import ENDING, SENDS

SPEC = models.spec_folder()
KEPT = [
    model
    for model in models.read()
    if model.module.stem in ("MCSetPosition", "MCEndPause") and traces.is_kept(model)
]


def story(model: Model) -> list[str]:
    trace = traces.stored(SPEC, model)
    assert trace is not None
    return [line.strip() for line in stories.story_text(trace, model.violates).split("\n")]


@pytest.mark.parametrize("model", KEPT, ids=lambda model: model.name)
def test_no_story_shows_a_value_of_the_specification(model: Model) -> None:
    lines = story(model)
    assert not [line for line in lines if "|->" in line or "<<" in line]
    assert lines[-1] == f"{model.violates} does not hold."


def test_a_story_says_who_knows_what_and_what_the_operator_hears() -> None:
    [model] = [model for model in KEPT if model.name.endswith("SaysDoneWhenSent")]
    assert story(model)[-4:-1] == [
        "9  x1 reads offset 2; it owns k2",
        "10  x1 sets a position: it sends ReleasingPartition at 1 (epoch 1, seen 2, clock 0, "
        "set-position 1) of k1",
        "11  x1 ends; it tells what is set: set k1, not set k2, in doubt nothing",
    ]


def test_every_action_of_the_environment_is_told() -> None:
    text = (SPEC / "claims" / "SetPosition.tla").read_text(encoding="utf-8")
    [following] = re.findall(r"^Next ==(.*?)^Spec ==", text, re.DOTALL | re.MULTILINE)
    told = {"Read", "StopWaiting", "JoinLate", "CallOff", "Crash", "Lose"}
    appends = {"Append", "ConsumerClaims", "ConsumerSpeaks"}
    assert set(re.findall(r"\\/ (\w+)\(", following)) == told | appends | set(SENDS) - set(ENDING)
