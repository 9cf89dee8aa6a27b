"""Recorded runs of shared topics are explained, or the first event that is not is named."""

from __future__ import annotations

import copy
import json
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from kafka_marshal.capture import UnreadableSource, record_of
from kafka_marshal.client.coordinate.configuration import Semantics
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from kafka_marshal.counterexample import story_text
from kafka_marshal.machines.consumer.consumer import Forbidden
from kafka_marshal.machines.ranges import participant as moves
from kafka_marshal.machines.ranges.effects import SendRecord
from kafka_marshal.machines.ranges.participant import HeldRange, ParticipantForbidden
from kafka_marshal.validate import (
    Impossible,
    Slice,
    Unexplained,
    participants,
    run_of,
    slice_of,
    story_of,
    validate_log,
)
from kafka_marshal.validate.participants import SharedPart, move_of
from kafka_marshal.validate.run import Fields
from kafka_marshal.validate.shared_log import Offsets
from tests.cli.run import marshal
from tests.validate.samples import judged, write
from tests.validate.shared_samples import (
    SEED,
    begun_after_it_was_lost,
    begun_by_another,
    changed,
    places,
    recorded,
    rows,
)

PLACES = 3
"""At how many places a recording is changed; where it is noticed, the rest is not judged."""
ALO: Semantics = "at_least_once"
AMO: Semantics = "at_most_once"
P, I = ParticipantForbidden, Impossible  # noqa: E741


def unexplained(lines: list[Fields]) -> Unexplained:
    found = judged(lines).unexplained
    assert found is not None
    return found


@pytest.mark.parametrize("semantics", [ALO, AMO])
def test_whatever_consumers_did_with_a_shared_topic_is_explained(semantics: Semantics) -> None:
    lines = rows(semantics)
    judgement = judged(lines)
    assert judgement.unexplained is None
    assert judgement.events == len(lines) - 1
    assert judgement.strangers == 0
    assert judgement.unjudged == ()
    kinds = judgement.kinds
    assert min(kinds["Shares"], kinds["Begun"], kinds["Finished"], kinds["Leaves"]) > 3
    assert semantics == ALO or min(kinds["HandedOver"], kinds["TookBack"]) > 3


def test_the_recorded_runs_do_everything() -> None:
    lines = rows(ALO) + rows(AMO)
    said = Counter(str(line.get("value", "")).split("/")[0] for line in lines)
    assert {"ClaimingRange", "ClaimingPartition", "Heartbeat", "ClaimingMessages"} <= said.keys()
    kinds = Counter(str(line.get("event")) for line in lines)
    assert {"shares", "begun", "finished", "took_back", "leaves", "gave_up"} <= kinds.keys()
    for header in ("marshal-done", "marshal-keep", "marshal-ranges-at", "marshal-start"):
        assert next(places(lines, "sent", header))


# --- recordings that were changed -----------------------------------------------------------------


def _more(field: str, by: int) -> Any:
    def change(lines: list[Fields], place: int) -> None:
        lines[place][field] = int(str(lines[place][field])) + by

    return change


def _header(name: str, by: int) -> Any:
    def change(lines: list[Fields], place: int) -> None:
        headers: dict[str, str] = dict(lines[place]["headers"])  # type: ignore[call-overload]
        headers[name] = str(max(0, int(headers[name]) + by))
        lines[place]["headers"] = headers

    return change


def _twice(lines: list[Fields], place: int) -> None:
    lines.insert(place, copy.deepcopy(lines[place]))


def _passes_over(lines: list[Fields], place: int) -> None:
    """Of what is finished the first message is left out."""
    first = int(str(lines[place]["from"])) + 1
    lines[place].update({"from": first, "to": max(first + 1, int(str(lines[place]["to"])))})


def _starts_at_0(lines: list[Fields], place: int) -> None:
    lines[place]["from"] = 0


def _drop(lines: list[Fields], place: int) -> None:
    del lines[place]


def _another_checkpoint(lines: list[Fields], place: int) -> None:
    headers: dict[str, str] = dict(lines[place]["headers"])  # type: ignore[call-overload]
    del headers["marshal-ranges-at"]
    lines[place]["headers"] = headers


def _another_offset(lines: list[Fields], place: int) -> None:
    lines[place]["value"] = f"{lines[place]['value']}1"


def _gives_up(lines: list[Fields], place: int) -> None:
    """Twice, of which the second time nothing is left to give up."""
    line = {**lines[place], "event": "gave_up", "shared": True}
    lines[place:place] = [line, line]


MUTATIONS: dict[str, tuple[str, str, Any, set[Any]]] = {
    "begun beyond its range": ("begun", "", _more("to", 10**6), {P.NOT_GRANTED}),
    "begun of another range": ("begun", "", _more("range", 1), {P.NOT_GRANTED}),
    "begun twice": ("begun", "", _twice, {P.NOT_NEXT}),
    "never begun": ("begun", "", _drop, {P.NOT_NEXT, I.NOT_WHAT_IT_SENDS, P.NOTHING_TO_GIVE_BACK}),
    "finished beyond what was begun": (
        *("finished", "", _more("to", 10**6)),
        {P.NOT_NEXT, P.NOT_GRANTED},
    ),
    "finished, and some was passed over": (
        "finished",
        "",
        _passes_over,
        {P.NOT_NEXT, P.NOT_GRANTED},
    ),
    "finished twice": ("finished", "", _twice, {P.NOT_NEXT, P.NOT_GRANTED}),
    "never finished": ("finished", "", _drop, {P.NOT_NEXT, I.NOT_WHAT_IT_SENDS}),
    "took back what is finished": ("took_back", "", _starts_at_0, {P.NOT_NEXT}),
    "took nothing back": (
        *("took_back", "", _drop),
        {I.NOT_WHAT_IT_SENDS, P.NOTHING_TO_GIVE_BACK, P.NOT_NEXT},
    ),
    "says more is done": ("sent", "marshal-done", _header("marshal-done", 1), set[Any]()),
    "says less is done": ("sent", "marshal-done", _header("marshal-done", -1), set[Any]()),
    "keeps more": ("sent", "marshal-keep", _header("marshal-keep", 1), set[Any]()),
    "keeps less": ("sent", "marshal-keep", _header("marshal-keep", -1), set[Any]()),
    "has seen more": ("sent", "ClaimingRange", _header("marshal-seen", 1), set[Any]()),
    "the anchor is elsewhere": ("sent", "Heartbeat", _another_offset, set[Any]()),
    "without its checkpoint": ("sent", "marshal-ranges-at", _another_checkpoint, set[Any]()),
    "a window that nobody has": (
        *("sent", "marshal-ranges ", _header("marshal-ranges", 1)),
        set[Any](),
    ),
    "asks twice": (
        *("sent", "ClaimingRange", _twice),
        {P.REQUEST_UNDER_WAY, P.OWES_GIVING_BACK, P.NOTHING_TO_GIVE_BACK, P.LEAVING},
    ),
    "never sent": ("sent", "ClaimingRange", _drop, {I.NOT_UNDER_WAY}),
    "read dropped": (
        *("read", "", _drop),
        {I.NOT_NEXT_RECORD, I.NOT_WHAT_IT_SENDS, P.NOT_ALONE, P.NEVER_SET},
    ),
    "shares nothing": ("shares", "", _drop, {P.NOT_SHARED}),
    "shares twice": ("shares", "", _twice, {I.STARTED_BEFORE}),
    "has read what is not there": ("shares", "", _more("view", 10**6), {I.NOT_NEXT_RECORD}),
    "leaves twice": ("leaves", "", _twice, {P.LEAVING}),
    "gives up what it never asked": ("leaves", "", _gives_up, {P.NOTHING_ASKED}),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_changed_recording_is_noticed_for_the_right_reason(name: str) -> None:
    event, holds, change, expected = MUTATIONS[name]
    guards = set[object]()
    for semantics in (ALO, AMO):
        lines = rows(semantics)
        for place in islice(places(lines, event, holds), PLACES):
            found = judged(changed(lines, place, change)).unexplained
            if found is not None:
                guards.add(found.guard)
    assert guards <= (expected or {I.NOT_WHAT_IT_SENDS})
    assert guards, "no place at which it is noticed"


def test_a_range_begun_after_it_was_lost_is_noticed() -> None:
    found = unexplained(begun_after_it_was_lost())
    assert (found.action, found.guard) == ("Begin", P.NOT_GRANTED)
    assert found.protects is Property.AT_MOST_ONCE


# --- machines that are broken ---------------------------------------------------------------------


def takes_what_others_are_granted(
    me: Any, record: Any, ranges: Ranges, verdict: Any
) -> tuple[HeldRange, ...]:
    if verdict is not RangeAccepted.RANGE_GRANTED or ranges.window != me.window:
        return ()
    new = ranges.open[-1]
    return (HeldRange(new.id, new.from_, new.to, new.from_, new.from_),)


def test_a_broken_participant_is_caught_by_its_recording() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moves, "grant_read", takes_what_others_are_granted)
        lines = recorded(AMO, SEED[AMO], 5.0)
    found = unexplained(lines)
    assert (found.action, found.guard) == ("Begin", P.NOT_GRANTED)


# --- the second net -------------------------------------------------------------------------------


def test_what_two_begin_is_noticed_whatever_made_them_begin_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = begun_by_another(rows(AMO))
    assert unexplained(lines).guard is P.NOT_GRANTED
    monkeypatch.setattr(moves, "may_begin", lambda *_: None)
    found = unexplained(lines)
    assert (found.action, found.name) == ("Begin", "AtMostOnce")


def sends_what_it_likes(self: SharedPart, did: SendRecord) -> None:
    move = move_of(did)
    assert move is not None
    _, _, after = participants._would_send(self.me, self.participant, self.key, did, move)
    self.participant = after()


def test_what_nobody_finished_is_not_done_whoever_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = rows(ALO)
    place = next(places(lines, "finished"))
    dropped = [line for n, line in enumerate(lines) if n != place]
    assert unexplained(dropped).guard is not None
    monkeypatch.setattr(SharedPart, "send", sends_what_it_likes)
    monkeypatch.setattr(SharedPart, "finish", lambda *_: None)
    found = unexplained(dropped)
    assert (found.action, found.name, found.guard) == ("Append", "NoneSkipped", None)
    assert (
        found.expected
        == f"offset {lines[place]['from']} of orders/{lines[place]['topic_partition']} not done yet"
    )


def test_a_set_of_offsets_is_one() -> None:
    chance = Random(7)
    for _ in range(200):
        offsets, naive = Offsets(), set[int]()
        for _ in range(20):
            start = chance.randrange(12)
            stop = start + chance.randrange(1, 5)
            if chance.random() < 0.6:
                offsets.add(start, stop)
                naive |= {*range(start, stop)}
            else:
                offsets.remove(start, stop)
                naive -= {*range(start, stop)}
            assert {x for a, b in offsets.intervals for x in range(a, b)} == naive
            assert all(one[1] < other[0] for one, other in pairwise(offsets.intervals))
            asked = range(start, stop)
            assert offsets.meets(start, stop) == bool(naive & {*asked})
            missing = offsets.first_missing(start, stop)
            assert missing == next((x for x in asked if x not in naive), None)


# --- what is not judged ---------------------------------------------------------------------------


def test_what_strangers_call_done_is_not_judged_and_that_is_reported(tmp_path: Path) -> None:
    header, *lines = rows(ALO)
    [*instances] = cast("list[dict[str, Any]]", header["instances"])
    worked = Counter(str(line["instance"]) for line in lines if line["event"] == "finished")
    [(gone, _)] = worked.most_common(1)
    kept = [{**header, "instances": [one for one in instances if one["instance_id"] != gone]}]
    kept += [line for line in lines if line.get("instance") != gone]
    judgement = judged(kept)
    assert judgement.unexplained is None
    assert judgement.strangers > 0
    assert any("called done by somebody who was not recorded" in one for one in judgement.unjudged)
    told = marshal("validate", write(tmp_path / "run.jsonl", kept))
    assert told.returncode == 0
    assert "not judged: orders/" in told.stdout


def taken_back_from(place: int, start: int, lines: list[Fields]) -> list[Fields]:
    """Of what was begun last, everything from there on was taken back."""
    names = ("instance", "topic", "topic_partition", "range")
    fields = {name: lines[place][name] for name in names}
    return [*lines[: place + 1], {**fields, "event": "took_back", "from": start}]


def given(run: list[Fields], *pieces: list[int]) -> list[Fields]:
    """And the application was given these."""
    line = {**run[-1], "event": "handed_over", "messages": [*pieces]}
    del line["from"]
    return [*run, line]


def test_what_was_taken_back_was_not_given_out() -> None:
    lines = rows(AMO)
    place = next(places(lines, "begun"))
    start, end = int(str(lines[place]["from"])), int(str(lines[place]["to"]))
    run = taken_back_from(place, end - 2, lines)
    judgement = judged(given(run, [start, end - 2]))
    assert (judgement.unexplained, judgement.unjudged) == (None, ())
    for pieces in (
        ([start, end - 1],),
        ([end - 1, end],),
        ([start, end - 2], [end - 3, end - 2]),
        ([end, end + 1],),
    ):
        found = unexplained(given(run, *pieces))
        assert (found.action, found.name, found.guard) == ("BeginReported", "AtMostOnce", None)
    *again, line = given(run, [start, end])
    again.append({**lines[place], "from": end - 2})  # allowed once more
    assert judged([*again, line]).unexplained is None
    with pytest.raises(UnreadableSource, match="field 'messages': "):
        judged(given(run, [3]))


def test_what_who_was_killed_took_back_is_not_judged_and_that_is_reported() -> None:
    """So it is where a recording is of a version that did not write what was given out."""
    lines = rows(AMO)
    place = next(places(lines, "begun"))
    start, end = int(str(lines[place]["from"])), int(str(lines[place]["to"]))
    run = [*taken_back_from(place, start, lines), lines[place]]
    judgement = judged(run)
    assert judgement.unexplained is None, "what was taken back may be begun once more"
    assert judgement.unjudged == (
        f"{lines[place]['topic']}/{lines[place]['topic_partition']}: {end - start:,} messages were "
        "allowed and taken back, and it is not known whether an application had begun one of them: "
        "their process was killed, ended by a failure, or records no such thing",
    )


def test_without_the_head_of_the_log_that_is_reported() -> None:
    header, *lines = rows(AMO)
    cut = [line for line in lines if line["event"] in ("started", "crashed")][:1]
    instance = cut[0]["instance"]
    first = {"event": "started", "instance": instance, "first": {"0": 10, "1": 10}}
    shares = next(line for line in lines if line.get("instance") == instance and "view" in line)
    unknown = {**shares, "view": 10, "known": False}
    appended = lines[next(places(lines, "appended", "/ranges/ranges/"))]
    late = {**appended, "offset": 10}
    run = [header, first, late, {**late, "partition": 1 - int(str(late["partition"]))}]
    judgement = judged([*run, unknown])
    assert judgement.unexplained is None
    [sentence] = judgement.unjudged
    assert "the log does not hold all records" in sentence
    assert unexplained([*run, {**unknown, "known": True}]).guard is Forbidden.CLAIM_UNKNOWN


@pytest.mark.parametrize("semantics", [ALO, AMO])
def test_the_log_alone_accuses_nobody_who_shares(semantics: Semantics) -> None:
    """Participants share one name, so what the name has read goes back, and past its records."""
    lines = [line for line in rows(semantics) if line.get("event") == "appended"]
    log = sorted((record_of(line, "log") for line in lines), key=lambda raw: raw.offset)
    judgement = validate_log(log)
    assert judgement.unexplained is None
    assert judgement.shared == sum(
        b"ClaimingRange/" in raw.value or b"/ranges/" in raw.value for raw in log if raw.value
    )
    assert judgement.malformed == 0 < judgement.judged


# --- how a fault is shown -------------------------------------------------------------------------


def test_a_part_of_the_run_shows_the_fault() -> None:
    lines = begun_after_it_was_lost()
    run = run_of(lines)
    events = list(run.events)
    found = unexplained(lines)
    part = slice_of(run.setting, events, found, effort_max=20_000)
    assert len(part.events) < len(events)
    again = unexplained([json.loads(json.dumps(row)) for row in part.rows()])
    assert again.same_fault(found)
    assert "begins messages" in story_text(story_of(part, "run"))
    whole = Slice(run.setting, tuple(events[: found.number]), found)
    text = story_text(story_of(whole, "run"))
    for words in ("sends ClaimingRange of", "it holds range", "has finished messages"):
        assert words in text
