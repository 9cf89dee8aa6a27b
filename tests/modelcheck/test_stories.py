import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.pages import models as readme

from kafka_marshal.modelcheck import models, traces
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.stories import stories
from kafka_marshal.modelcheck.tlc.output import TlcState, Trace
from kafka_marshal.modelcheck.tlc.values import Function, Value, function, parse, record

DATA = Path(__file__).parent / "data"


def document_amo() -> Trace:
    return traces.loads((DATA / "document_amo.json").read_text())


def test_a_counterexample_reads_like_a_story() -> None:
    told = stories.story_text(document_amo(), "AtMostOnce") + "\n"
    assert told == (DATA / "document_amo.txt").read_text()


CLAIM = """[owner_instance |-> "a1", owner_client |-> "a", epoch |-> 4, position |-> 2,
    last_heartbeat_ms |-> 1000, clock_ms |-> 1000, won_with_headers |-> TRUE,
    pauser |-> "none", paused_until_ms |-> -1, last_release_ms |-> -1,
    position_set |-> FALSE]"""
HEADERS = """[present |-> TRUE, epoch |-> 3, seen |-> -1, clock |-> -1, supersedes |-> -1,
    set_position |-> -1, start |-> -1]"""
CONSUMER = f"""[reader |-> [claim |-> {CLAIM}, certain |-> {{"owner", "epoch"}}], view |-> 0,
    asked |-> FALSE, stopped |-> FALSE, next |-> 0, granted |-> {{}}]"""


def with_fields(value: Value, **fields: Value) -> Value:
    assert isinstance(value, Function)
    merged: dict[Value, Value] = dict(value)
    merged.update(fields.items())
    return function(merged)


def step(action: str, changes: dict[str, Value], **first: Value) -> str:
    """Tell one step between a small state and the same with some variables changed."""
    variables: dict[str, Value] = {
        "log": (),
        "history": (parse(CLAIM),),
        "verdicts": (),
        "status": record(a1="up", b1="up"),
        "consumers": record(a1=parse(CONSUMER), b1=parse(CONSUMER)),
        "outbox": record(a1=(), b1=()),
        "mishaps": record(losses=0),
        "processed": parse("(0 :> 0 @@ 1 :> 1)"),
        "now": 1000,
        **first,
    }
    told = stories.story_text(
        Trace((TlcState("", variables), TlcState(action, variables | changes)))
    )
    return told.removeprefix("1  ")


def message(kind: str, **fields: Value) -> Value:
    text = f"""[headers |-> {HEADERS}, offset |-> 5, stale |-> FALSE, pause_over |-> FALSE,
        message |-> [type |-> "{kind}", instance_id |-> "b1", client_id |-> "b", unix_s |-> 1,
                     offset |-> 2, expires_unix_s |-> 9, version |-> 1]]"""
    return with_fields(parse(text), **fields)


@pytest.mark.parametrize(
    ("action", "kind", "line"),
    [
        ("SendHeartbeat", "Heartbeat", "b1 sends Heartbeat at 2 (epoch 3)"),
        ("SendClaimingMessages", "ClaimingMessages", "b1 sends ClaimingMessages up to 2 (epoch 3)"),
        ("SendReleaseGroup", "ReleaseGroup", "b1 sends ReleaseGroup until 8 s (epoch 3)"),
        ("SendClaimingPartition", "ClaimingPartition", "b1 sends ClaimingPartition (epoch 3)"),
    ],
)
def test_sending_names_the_sender_the_message_and_its_headers(
    action: str, kind: str, line: str
) -> None:
    assert step(action, {"outbox": record(a1=(), b1=(message(kind),))}) == line


def test_a_record_that_never_arrives_is_told_as_lost() -> None:
    sent = record(a1=(message("Heartbeat"), message("ReleasingPartition")), b1=())
    left = record(a1=(message("Heartbeat"),), b1=())
    assert step("Lose", {"outbox": left}, outbox=sent) == (
        "a1's ReleasingPartition at 2 (epoch 3) is lost"
    )


def test_a_log_that_loses_its_end_says_which_offsets() -> None:
    log = (message("Heartbeat"), message("Heartbeat"), message("Heartbeat"))
    assert step("Truncate", {"log": log[:1]}, log=log) == "the log loses offsets 1 to 2"


def test_reading_says_what_one_learns_about_oneself() -> None:
    stopped = with_fields(parse(CONSUMER), stopped=True, view=1)
    told = step("Read", {"consumers": record(a1=stopped, b1=parse(CONSUMER))}, log=(message("X"),))
    assert told == "a1 reads offset 5; its client id is used twice, so it stops"


def test_one_that_gives_up_or_folds_anew_is_named() -> None:
    changed: dict[str, Value] = {
        "consumers": record(a1=parse(CONSUMER), b1=with_fields(parse(CONSUMER), asked=True))
    }
    assert step("GiveUp", changed) == "b1 gives up waiting for its ClaimingPartition"
    assert step("Refold", changed) == "b1 drops everything and folds the log anew"


def test_one_that_finds_records_gone_says_which() -> None:
    for view, gone in ((1, "offset 0 is"), (3, "offsets 0 to 2 are")):
        anew = with_fields(parse(CONSUMER), view=view)
        told = step("PassGap", {"consumers": record(a1=parse(CONSUMER), b1=anew)})
        assert told == f"b1 finds that {gone} gone, and goes on at {view}"


def test_a_refused_record_names_the_guard_and_why() -> None:
    changes: dict[str, Value] = {
        "log": (message("Heartbeat", stale=True),),
        "verdicts": ("Superseded",),
        "history": (parse(CLAIM), parse(CLAIM)),
    }
    assert step("Append", changes) == (
        "offset 5: b1's Heartbeat at 2 (epoch 3), the owner is stale by now: "
        "refused by Superseded, its epoch is older than the claim's"
    )


def test_an_accepted_record_tells_what_it_changed() -> None:
    after = with_fields(
        parse(CLAIM), owner_instance="b1", epoch=5, position=3, paused_until_ms=4000, pauser="b1"
    )
    changes: dict[str, Value] = {
        "log": (message("ClaimingPartition", headers=parse(HEADERS.replace("3", "-1"))),),
        "verdicts": ("TookOver",),
        "history": (parse(CLAIM), after),
    }
    assert step("Append", changes) == (
        "offset 5: b1's ClaimingPartition: TookOver, the owner counts as stale; "
        "b1 owns instead of a1; epoch 5; position 2 → 3; paused for b1 until 3 s"
    )


@pytest.mark.parametrize(
    ("action", "status", "line"),
    [
        ("Crash", "crashed", "b1 crashes"),
        ("Stall", "stalled", "b1 stalls"),
        ("Restart", "again", "b1 starts, a new instance of a crashed client"),
        ("Join", "again", "b1 starts, a client that was not there before"),
        ("Resume", "again", "b1 goes on"),
    ],
)
def test_what_happens_to_an_instance_is_told(action: str, status: str, line: str) -> None:
    assert step(action, {"status": record(a1="up", b1=status)}) == line


def test_the_end_says_whether_it_goes_on_for_ever() -> None:
    trace = document_amo()
    last = len(trace.states) - 1
    stutters = stories.story_text(attrs.evolve(trace, back_to=last))
    assert stutters.splitlines()[-1].strip() == "From here on nothing happens any more."
    loops = stories.story_text(attrs.evolve(trace, back_to=2), "FreeClaimTaken").splitlines()
    assert [line.strip() for line in loops[-2:]] == [
        f"From here on steps 3 to {last} again, for ever.",
        "FreeClaimTaken does not hold.",
    ]


def test_records_without_a_world_are_told_as_what_they_did() -> None:
    landed = record(record=message("Heartbeat", timestamp_ms=4000), verdict="Refreshed")
    before: dict[str, Value] = {"claim": parse(CLAIM), "last": record(verdict="Nothing")}
    after = before | {"last": landed, "claim": with_fields(parse(CLAIM), position=3)}
    assert stories.story_text(Trace((TlcState("", before), TlcState("Next", after)))) == (
        "1  3 s  offset 5: b1's Heartbeat at 2 (epoch 3): Refreshed, the owner is alive; "
        "position 2 → 3"
    )


def test_another_modules_steps_are_told_by_their_variables() -> None:
    trace = Trace((TlcState("", {"x": 1, "y": ()}), TlcState("Up", {"x": 2, "y": ()})))
    assert stories.story_text(trace) == "0  at first: x = 1, y = <<>>\n1  Up: x = 2"


def test_every_action_can_be_told() -> None:
    text = (models.spec_folder() / "claims" / "Marshal.tla").read_text()
    (following,) = re.findall(r"(?ms)^Next ==\n(.*?)\n\n", text)
    actions = set(re.findall(r"\\/ ([A-Z]\w+)", following))
    ending_a_pause = {"ResumeForAll", "ResumeClaim", "ReleaseAll", "GiveBack"}  # of MCResume
    assert actions | ending_a_pause == set(stories.TOLD) | {"Tick"}


@st.composite
def behaviours(draw: st.DrawFn) -> Trace:
    """States that share a shape, as a specification's do, and some that do not."""
    numbers = st.integers(0, 2)
    claims = st.builds(lambda a, b: record(owner=a, at=b), st.sampled_from("ab"), numbers)
    variables: dict[str, st.SearchStrategy[Value]] = {
        "now": numbers,
        "log": st.lists(claims, max_size=3).map(tuple),
        "known": st.builds(lambda a, b: record(a1=a, b1=b), claims, claims),
        "counts": st.builds(lambda a, b: function({0: a, 5: b}), numbers, numbers),
        "odd": st.one_of(
            numbers, st.just(()), st.builds(lambda a: function({"a b": a}), numbers), claims
        ),
    }
    states = draw(st.lists(st.fixed_dictionaries(variables), min_size=1, max_size=5))
    back_to: Any = draw(st.none() | st.integers(0, len(states) - 1))
    return Trace(tuple(TlcState("Up", state) for state in states), back_to)


@given(behaviours())
def test_a_counterexample_survives_being_kept(trace: Trace) -> None:
    assert traces.loads(traces.dumps(trace)) == trace


@pytest.mark.parametrize(
    "text", ["", "{}", '{"back_to": null, "states": [{"action": "", "changes": {"a": "<<"}}]}']
)
def test_a_damaged_file_is_named(text: str) -> None:
    with pytest.raises(ModelCheckError, match=r"^X\.json: "):
        traces.loads(text, "X.json")


def test_the_page_of_the_specification_is_what_its_models_give() -> None:
    assert readme.main(["--check"]) == 0


def test_the_page_begins_with_what_to_read_first() -> None:
    folder = models.spec_folder()
    [begin, first, *_] = re.findall(r"(?m)^## (.*)", readme.section(models.read(folder), folder))
    assert [begin, first] == ["Begin here", "What holds"]
    assert (len(readme.FIRST_MODELS), len(readme.FIRST_STORIES)) == (10, 3)


def test_a_model_to_read_first_that_is_gone_is_an_error() -> None:
    folder = models.spec_folder()
    left = [model for model in models.read(folder) if model.name != "MCSuffix_Two"]
    with pytest.raises(ModelCheckError, match="MCSuffix_Two"):
        readme.section(left, folder)


def test_what_people_wrote_around_the_generated_part_stays() -> None:
    folder = models.spec_folder()
    page = f"# Mine\n\n{readme.BEGIN}\nold\n{readme.END}\n\nAlso mine.\n"
    renewed = readme.renewed(page, folder)
    assert renewed.startswith("# Mine\n\n")
    assert renewed.endswith("\n\nAlso mine.\n")
    assert "\nold\n" not in renewed
    assert readme.renewed(renewed, folder) == renewed
    with pytest.raises(ModelCheckError, match="second"):
        readme.renewed(f"# Mine\n{readme.BEGIN}\n", folder)
