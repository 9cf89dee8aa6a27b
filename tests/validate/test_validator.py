"""A recorded run is explained, or the first event that is not is named, with its guard."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any

import attrs
import pytest
from tools.runs.by_day import one_of_each, seeds
from tools.runs.simulate import Fleet

from kafka_marshal.core.claims import fenced
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import Forbidden, Mode
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.machines.ranges.participant import ParticipantForbidden
from kafka_marshal.validate import Impossible, Unexplained, log, validator
from kafka_marshal.validate import instances as machines
from kafka_marshal.validate.explain import WHY, Guard
from kafka_marshal.validate.run import Fields
from tests.validate.mutations import MUTATIONS, mutated
from tests.validate.samples import BUSY, broken, fleets, grants_itself_what_it_asks, judged, rows

PLACES, PLACES_BY_NIGHT = 10, 25
"""Of a run, from the last on. Ten show all guards of a change but two, which other changes show."""


@pytest.mark.parametrize(
    "fleet", list(fleets()), ids=lambda f: f"{f.mode.value}-{f.certifies}-{f.idempotent}"
)
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_whatever_the_machines_do_is_explained(fleet: Fleet, seed: int) -> None:
    judgement = judged(rows(seed, 3000, fleet))
    assert judgement.unexplained is None
    assert judgement.events == 3000


def test_the_simulated_fleets_do_everything() -> None:
    kinds: set[str] = set()
    for fleet in fleets():
        _, *lines = rows(1, 3000, fleet)
        kinds |= {str(line.get("value", "")).split("/")[0] for line in lines}
        kinds |= {str(line["event"]) for line in lines}
    assert kinds == {
        *("", "Heartbeat", "ClaimingPartition", "ReleasingPartition", "ClaimingMessages"),
        *("ReleaseGroup", "started", "crashed", "sent", "appended", "read", "processed"),
        "gave_up",
    }


@cache
def busy(mode: Mode) -> list[Fields]:
    """The run that is changed; nobody changes this list."""
    return rows(3, 700, attrs.evolve(BUSY, mode=mode))


def of_mutation(
    name: str, mode: Mode = Mode.AT_LEAST_ONCE, places: int = PLACES
) -> list[Unexplained | None]:
    changed_runs = islice(mutated(busy(mode), name), places)
    return [judged(changed).unexplained for changed in changed_runs]


IN_EACH_MODE = [
    (name, mode)
    for number, name in enumerate(MUTATIONS)
    for mode in (*list(Mode)[number % 2 :], *list(Mode)[: number % 2])
]
"""By day every second change is tried in the first mode, and the others in the other one."""


@pytest.mark.parametrize(("name", "mode"), one_of_each(IN_EACH_MODE, lambda each: each[0]))
def test_a_changed_run_is_noticed_for_the_right_reason(
    name: str, mode: Mode, pytestconfig: pytest.Config
) -> None:
    """Or the change is one that a behaviour explains: a loss, a reader that reads no further."""
    expected = MUTATIONS[name][3]
    found = of_mutation(name, mode, PLACES_BY_NIGHT if pytestconfig.getoption("all") else PLACES)
    named = {each.guard.value for each in found if each is not None and each.guard is not None}
    assert named <= expected
    assert named, "no place at which it is noticed"


def test_the_first_event_that_fails_is_the_one_that_is_named() -> None:
    lines = rows(3, 700)
    unexplained = judged(next(mutated(lines, "processed more"))).unexplained
    assert unexplained is not None
    at = lines[unexplained.number]
    assert (at["event"], at["instance"]) == ("processed", unexplained.instance)
    assert unexplained.where == f"run:{unexplained.number + 1}"
    assert unexplained.protects is Property.REPROCESSING_BOUND


# --- broken machines ------------------------------------------------------------------------------


def never(*_: object) -> bool:
    return False


def always(*_: object) -> bool:
    return True


def allows(*instead_of: Forbidden) -> Callable[..., Any]:
    """The same guard, which does not stand in the way for these reasons."""

    def wrap(right: Callable[..., Forbidden | None]) -> Callable[..., Forbidden | None]:
        def guard(*arguments: object) -> Forbidden | None:
            against = right(*arguments)
            return None if against in instead_of else against

        return guard

    return wrap


F = Forbidden
AMO = attrs.evolve(BUSY, mode=Mode.AT_MOST_ONCE)
VAGUE = attrs.evolve(BUSY, certifies=False)
BROKEN: dict[str, tuple[Fleet, str, object, set[Guard]]] = {
    "grants itself what it asks": (
        *(AMO, "after_claiming_messages", grants_itself_what_it_asks),
        {F.NOT_GRANTED},
    ),
    "acts after its release": (BUSY, "has_resigned", never, {F.RESIGNED, F.ALREADY_OWNER}),
    "no window": (BUSY, "in_window", always, {F.BEYOND_WINDOW}),
    "does not wait to read back": (
        *(BUSY, "may_claim", allows(F.AWAITS_READ_BACK)(machine.may_claim)),
        {F.AWAITS_READ_BACK},
    ),
    "administers without a pause": (
        *(BUSY, "may_claim", allows(F.NOTHING_PAUSED)(machine.may_claim)),
        {F.NOTHING_PAUSED},
    ),
    "heartbeats as anybody": (
        *(VAGUE, "may_heartbeat", allows(F.NOT_OWNER)(machine.may_heartbeat)),
        {F.NOT_OWNER},
    ),
    "says it saw what it has not": (
        *(VAGUE, "can_certify", always),
        {Impossible.NOT_WHAT_IT_SENDS},
    ),
    "supersedes nothing": (
        *(BUSY, "supersedes_of", lambda *_: None),
        {Impossible.NOT_WHAT_IT_SENDS},
    ),
    "forgets to wait": (
        *(BUSY, "after_claiming_partition", lambda me, consumer: consumer),
        {F.AWAITS_READ_BACK},
    ),
}


def recorded(name: str) -> list[Unexplained | None]:
    fleet, attribute, instead, _ = BROKEN[name]
    with broken(attribute, instead):
        runs = [rows(seed, 3000, fleet) for seed in range(4)]
    return [judged(lines).unexplained for lines in runs]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_machine_is_caught_by_its_run(name: str) -> None:
    found = [each for each in recorded(name) if each is not None]
    assert found
    assert {each.guard for each in found} <= BROKEN[name][3]


def test_processing_before_reading_the_grant_is_what_at_most_once_forbids() -> None:
    [*found] = [each for each in recorded("grants itself what it asks") if each is not None]
    assert found
    for each in found:
        assert each.guard is Forbidden.NOT_GRANTED
        assert each.protects is Property.AT_MOST_ONCE
        assert each.action == "ProcessGrant"


def test_a_reducer_that_is_not_the_specifications_breaks_a_property_of_the_log() -> None:
    def heartbeat(claim: Any, record: Any, message: Any, rules: Any) -> Any:
        after, verdict = fenced_heartbeat(claim, record, message, rules)
        return attrs.evolve(after, position=0), verdict

    fenced_heartbeat = fenced.heartbeat
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fenced, "heartbeat", heartbeat)
        lines = rows(1, 2000)
        unexplained = judged(lines).unexplained
    assert unexplained is not None
    assert unexplained.broken is Property.MONOTONE_POSITION
    assert unexplained.action == "Append"


# --- by hand --------------------------------------------------------------------------------------

INSTANCES: list[dict[str, object]] = [
    {"instance_id": "i1", "client_id": "c1", "group_id": "g", "mode": "AMO", "batch": 5},
    {"instance_id": "i2", "client_id": "c1", "group_id": "g", "mode": "AMO", "batch": 5},
    {"instance_id": "i3", "client_id": "c3", "group_id": "g", "mode": "ALO", "window": 5},
    {"instance_id": "a1", "client_id": "a", "group_id": "g", "mode": "ALO", "admin": True},
]


def told(*events: Fields, idempotent: bool = True) -> Unexplained | None:
    header: Fields = {
        "run": 1,
        "rules": {"heartbeat_interval_s": 60},
        "idempotent": idempotent,
        "instances": INSTANCES,
    }
    return judged([header, *events]).unexplained


def starts(*names: str, first: int = 0) -> list[Fields]:
    return [{"event": "started", "instance": name, "first": {"0": first}} for name in names]


def content(kind: str, who: str, tail: str = "", **headers: int) -> Fields:
    client = {"i1": "c1", "i2": "c1", "i3": "c3", "a1": "a"}[who]
    value = f"{kind}/1/0/{who}/{client}/g/t/0{tail}"
    said = {f"marshal-{name.replace('_', '-')}": str(n) for name, n in headers.items()}
    return {"value": value, "headers": said or {"marshal-version": "1"}}


def sends(who: str, kind: str, tail: str = "", **headers: int) -> Fields:
    return {"event": "sent", "instance": who, "partition": 0} | content(kind, who, tail, **headers)


def lands(offset: int, who: str, kind: str, tail: str = "", **headers: int) -> Fields:
    place: Fields = {"event": "appended", "partition": 0, "offset": offset, "timestamp_ms": 1000}
    return place | content(kind, who, tail, **headers)


def reads(who: str, *offsets: int) -> list[Fields]:
    return [
        {"event": "read", "instance": who, "partition": 0, "offset": offset} for offset in offsets
    ]


def processes(who: str, start: int, stop: int) -> Fields:
    place = {"topic": "t", "topic_partition": 0}
    return {"event": "processed", "instance": who, **place, "from": start, "to": stop}


def wins(who: str, offset: int = 0, **headers: int) -> list[Fields]:
    return [
        sends(who, "ClaimingPartition", "", **headers),
        lands(offset, who, "ClaimingPartition", "", **headers),
    ]


def guard_of(unexplained: Unexplained | None) -> Guard | None:
    return None if unexplained is None else unexplained.guard


SEEN = {"epoch": 0, "seen": 0, "clock": 1000}
AT = [*starts("i1", "i3"), *wins("i1"), *reads("i1", 0)]
ASKED = [
    *AT,
    sends("i1", "ClaimingMessages", "/4", **SEEN),
    lands(1, "i1", "ClaimingMessages", "/4", **SEEN),
]
ALO_AT = [*starts("i3"), *wins("i3"), *reads("i3", 0)]
CRASHED: Fields = {"event": "crashed", "instance": "i1"}

BY_HAND: dict[str, tuple[list[Fields], Guard | None]] = {
    "a grant is processed when it was read": (
        [*ASKED, *reads("i1", 1), processes("i1", 0, 4)],
        None,
    ),
    "a grant is processed in pieces": (
        [*ASKED, *reads("i1", 1), processes("i1", 2, 4), processes("i1", 0, 2)],
        None,
    ),
    "no message of a grant twice": (
        [*ASKED, *reads("i1", 1), processes("i1", 2, 4), processes("i1", 2, 3)],
        F.NOT_GRANTED,
    ),
    "not before it was read": ([*ASKED, processes("i1", 0, 4)], F.NOT_GRANTED),
    "not more than was granted": ([*ASKED, *reads("i1", 1), processes("i1", 0, 5)], F.NOT_GRANTED),
    "nothing behind the position": (
        [*AT, sends("i1", "ClaimingMessages", "/0", **SEEN)],
        F.NOTHING_AHEAD,
    ),
    "not more than a batch": ([*AT, sends("i1", "ClaimingMessages", "/6", **SEEN)], F.BEYOND_BATCH),
    "at least once asks for no messages": (
        [*ALO_AT, sends("i3", "ClaimingMessages", "/1", **SEEN)],
        F.NOT_AT_MOST_ONCE,
    ),
    "nobody claims what it owns": (
        [*AT, sends("i1", "ClaimingPartition", supersedes=0)],
        F.ALREADY_OWNER,
    ),
    "messages in order": ([*ALO_AT, processes("i3", 1, 2)], F.NOT_NEXT),
    "messages in the window": ([*ALO_AT, processes("i3", 0, 5)], None),
    "no message beyond the window": ([*ALO_AT, processes("i3", 0, 6)], F.BEYOND_WINDOW),
    "an administrator consumes nothing": (
        [*starts("a1"), processes("a1", 0, 1)],
        F.NOT_AT_LEAST_ONCE,
    ),
    "at most once needs to know who owns": (
        [
            lands(5, "i3", "ClaimingPartition") | {"value": "ClaimingPartition/1/0/x/x/g/t/0"},
            *starts("i1", first=5),
            sends("i1", "ClaimingPartition"),
        ],
        F.CLAIM_UNKNOWN,
    ),
    "at most once needs to know the position": (
        [
            lands(5, "a1", "ReleaseGroup")
            | {"value": "ReleaseGroup/0/0/x/x/g//0/0", "headers": {}},
            *starts("i1", first=5),
            *reads("i1", 5),
            sends("i1", "ClaimingPartition"),
        ],
        F.POSITION_UNKNOWN,
    ),
    "who lost to its own client stops": (
        [
            *AT,
            *starts("i2"),
            *reads("i2", 0),
            *wins("i2", 1, supersedes=0),
            *reads("i1", 1),
            sends("i1", "ClaimingPartition"),
        ],
        F.STOPPED,
    ),
    "who does not run does nothing": ([*AT, CRASHED, *reads("i1", 0)], Impossible.NOT_RUNNING),
    "who does not run sends nothing": (
        [*AT, CRASHED, sends("i1", "Heartbeat", "/0", **SEEN)],
        Impossible.NOT_RUNNING,
    ),
    "what it has sent may land when it is gone": (
        [
            *AT,
            sends("i1", "Heartbeat", "/0", **SEEN),
            CRASHED,
            lands(1, "i1", "Heartbeat", "/0", **SEEN),
        ],
        None,
    ),
    "what somebody never started sent": (
        [lands(0, "i1", "ClaimingPartition")],
        Impossible.NOT_UNDER_WAY,
    ),
    "not on another partition": (
        [
            *starts("i1"),
            sends("i1", "ClaimingPartition") | {"value": "ClaimingPartition/1/0/i1/c1/h/t/0"},
        ],
        Impossible.NOT_WHAT_IT_SENDS,
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str) -> None:
    events, guard = BY_HAND[name]
    assert guard_of(told(*events)) is guard


def test_without_an_idempotent_producer_records_overtake_each_other_and_land_twice() -> None:
    first = [
        sends("i1", "Heartbeat", "/0", **SEEN),
        sends("i1", "ReleasingPartition", "/0", **SEEN),
    ]
    late = [
        lands(1, "i1", "ReleasingPartition", "/0", **SEEN),
        lands(2, "i1", "Heartbeat", "/0", **SEEN),
    ]
    assert guard_of(told(*AT, *first, *late)) is Impossible.NOT_UNDER_WAY
    assert told(*AT, *first, *late, idempotent=False) is None
    copy = lands(3, "i1", "Heartbeat", "/0", **SEEN)
    assert told(*AT, *first, *late, copy, idempotent=False) is None


def test_every_guard_is_seen_to_stand_in_the_way() -> None:
    seen = {guard for _, guard in BY_HAND.values()}
    seen |= set().union(*(guards for *_, guards in BROKEN.values()))
    by_name = {guard.value: guard for guard in [*Forbidden, *Impossible]}
    seen |= {by_name[name] for *_, names in MUTATIONS.values() for name in names}
    only_of_a_log_alone = {Impossible.VIEW_GOES_BACK}
    assert seen - {None} == {*Forbidden, *Impossible} - only_of_a_log_alone


def test_every_guard_says_why() -> None:
    assert set(WHY) == {*Forbidden, *Impossible, *ParticipantForbidden}


# --- a validator that looks away ------------------------------------------------------------------


def nothing(*_: object, **__: object) -> None:
    return None


LOOKS_AWAY: dict[str, tuple[object, str, object, str]] = {
    "at guards": (machines.Instance, "_judged", staticmethod(nothing), "not more than a batch"),
    "at what is sent": (
        *(Send, "__ne__", never),
        "sent under another epoch",
    ),
    "at the outbox": (machines.Instance, "lands", nothing, "what somebody never started sent"),
    "at what is processed": (machines.Instance, "process", nothing, "not before it was read"),
    "at the window": (machine, "in_window", always, "no message beyond the window"),
    "at giving up": (machines.Instance, "give_up", nothing, "gave up what it never asked"),
    "at who runs": (validator.Validator, "_read", nothing, "who does not run does nothing"),
    "at offsets": (log.PartitionLog, "last_offset", -1, "appended twice"),
    "at beginnings": (validator.Validator, "_start", nothing, "started twice"),
}


@pytest.mark.parametrize("name", LOOKS_AWAY)
def test_a_validator_that_looks_away_says_otherwise(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check is seen to fail: without it, a test above would say something else."""
    where, attribute, instead, case = LOOKS_AWAY[name]

    def says() -> list[object]:
        if case in BY_HAND:
            return [guard_of(told(*BY_HAND[case][0]))]
        return [guard_of(each) for each in of_mutation(case)]

    right = says()
    monkeypatch.setattr(where, attribute, instead)
    try:
        wrong: list[object] | None = says()
    except (AttributeError, KeyError, IndexError):
        wrong = None
    assert wrong != right
