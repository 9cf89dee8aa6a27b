"""Describes a counterexample of groups: the effect of each event, requests, answers and reads.

`MCGroupEvents.tla` only has events; `GroupWorld.tla` also has the steps of controllers and members.
It only uses the variables of two consecutive states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from kafka_marshal.modelcheck.stories.sentence import Sentence
from kafka_marshal.modelcheck.tlc.output import Trace

Variables: TypeAlias = Mapping[str, Any]

OF_EVENTS: Final = {"controllership", "length", "last"}
"""By these `MCGroupEvents.tla` is known."""

OF_THE_WORLD: Final = {
    "appended",
    "sending",
    "controllers",
    "members",
    "requests",
    "answers",
    "spent",
}
"""By these `GroupWorld.tla` is known."""

_NONE: Final = -1


def event_steps(trace: Trace) -> Iterator[tuple[int, Sentence]]:
    """Describe the initial state, and the effect of each event."""
    yield 0, Sentence("at first", "", _state(trace.states[0].variables["controllership"]))
    for number in range(1, len(trace.states)):
        before = trace.states[number - 1].variables["controllership"]
        last: Any = trace.states[number].variables["last"]
        outcome = last["outcome"]
        yield number, _landed(last["record"], outcome["verdict"], before, outcome["controllership"])


def world_steps(trace: Trace) -> Iterator[tuple[int, Sentence]]:
    """Describe the initial state, and each step: a landed event, or the step of a process."""
    first: Variables = trace.states[0].variables
    yield 0, Sentence("at first", "", _state(first["appended"][-1]["after"]))
    for number in range(1, len(trace.states)):
        was: Variables = trace.states[number - 1].variables
        now: Variables = trace.states[number].variables
        if len(now["appended"]) > len(was["appended"]):
            entry = now["appended"][-1]
            before = was["appended"][-1]["after"]
            yield number, _landed(entry["record"], entry["verdict"], before, entry["after"])
        else:
            yield number, _own_step(was, now)


# --- events ---------------------------------------------------------------------------------------


def _landed(record: Any, verdict: str, before: Any, after: Any) -> Sentence:
    """A landed event, and its changes."""
    lead = f"offset {record['offset']}: "
    return Sentence(lead, _described(record), f": {verdict}{_changed(before, after)}")


def _described(record: Any) -> str:
    """An event with its content and its headers."""
    event = record["event"]
    said = [str(event["member"])] if "member" in event else []
    if "supersedes" in event:
        said.append(f"of controller {event['controller_id']}, supersedes {event['supersedes']}")
    if "count" in event:
        said.append(f"{event['topic']}: {event['count']}")
    if "target" in event:
        said.append(_list(event["target"], lambda tp, member: f"{_tp(tp)} to {member}"))
    if event["type"] == "Reconciled":
        said.append(_reconciled(event))
    elif "positions" in event:
        said.append(_list(event["positions"], lambda tp, offset: f"{_tp(tp)} to {offset}"))
    headers = (
        f" (epoch {record['epoch']}, number {record['number']})" if record["epoch"] >= 0 else ""
    )
    return f"{event['type']} {', '.join(part for part in said if part)}".rstrip() + headers


def _reconciled(event: Any) -> str:
    held = ", ".join(sorted(map(_tp, event["held"]))) or "nothing"
    holds = "" if event["commits_only"] else f"holds {held} as of {event['as_of']}"
    at = _list(
        event["positions"],
        lambda tp, at: f"{_tp(tp)} at {at['offset']} (tenure {at['tenure']})",
    )
    return ", ".join(part for part in (holds, at) if part)


def _state(controllership: Any) -> str:
    """The initial state of a log, in short."""
    groups = _mapping(controllership["groups"])
    if not groups:
        return f": epoch {controllership['epoch']}, no group"
    told = []
    for group in groups.values():
        members = ", ".join(_mapping(group["members"])) or "nobody"
        told.append(f"; generation {group['generation']}; members: {members}")
        partitions = {_tp(tp): one for tp, one in _mapping(group["partitions"]).items()}
        told += [
            f"; {tp}: {_owner(one)}, position {one['position']}"
            for tp, one in sorted(partitions.items())
        ]
    return f": epoch {controllership['epoch']}{''.join(told)}"


def _owner(partition: Any) -> str:
    must = f", must let it go since {partition['revoking']}" if partition["revoking"] else ""
    return f"{partition['owner']} owns it (tenure {partition['tenure']}){must}"


def _changed(before: Any, after: Any) -> str:
    """The changes by an event, field by field; empty if it was refused."""
    told = _fields("", before, after, ("epoch",))
    was, now = _mapping(before["groups"]), _mapping(after["groups"])
    told += [f"group {name} is gone" for name in was.keys() - now.keys()]
    told += [f"group {name} is new" for name in now.keys() - was.keys()]
    for name in sorted(was.keys() & now.keys()):
        told += _fields("", was[name], now[name], ("generation",))
        told += _partitions(_mapping(was[name]["partitions"]), _mapping(now[name]["partitions"]))
    return "".join(f"; {each}" for each in told)


def _partitions(was: Mapping[Any, Any], now: Mapping[Any, Any]) -> list[str]:
    told = [f"{_tp(tp)} is gone" for tp in was.keys() - now.keys()]
    told += [f"{_tp(tp)} is new" for tp in now.keys() - was.keys()]
    for tp in was.keys() & now.keys():
        fields = ("owner", "tenure", "revoking", "position")
        told += _fields(f"{_tp(tp)}: ", was[tp], now[tp], fields)
    return sorted(told)


def _fields(of: str, before: Any, after: Any, names: tuple[str, ...]) -> list[str]:
    return [
        f"{of}{name} {before[name]} → {after[name]}"
        for name in names
        if before[name] != after[name]
    ]


# --- what happens between them --------------------------------------------------------------------


def _own_step(was: Variables, now: Variables) -> Sentence:
    """A step of a controller or a member without a landing event."""
    for ended, does in (("dead", "dies"), ("gone", "crashes")):  # of `MCGroupLiveness.tla`
        for who in now.get(ended, frozenset()) - was.get(ended, frozenset()):
            return Sentence(f"{who} " if ended == "dead" else f"controller {who} ", does)
    if now["members"] != was["members"]:
        return _of_a_member(was, now)
    if now["controllers"] == was["controllers"]:
        return _under_way(was, now)
    who, before, after = _differing(was["controllers"], now["controllers"])
    sent = _mapping(now["sending"])[who][len(_mapping(was["sending"])[who]) :]
    sends = "".join(f"; sends {_described(record)}" for record in sent)
    return Sentence(f"controller {who} ", _done(was, now, before, after) + sends)


def _under_way(was: Variables, now: Variables) -> Sentence:
    """The changes of requests, answers and records while no process's state changes."""
    for asked in now["requests"] - was["requests"]:
        return Sentence(f"{asked['member']} asks", f": {_asked(asked)}")
    for answer in was["answers"] - now["answers"]:
        return Sentence(f"an answer to {answer['member']} ", "changes nothing, or is lost")
    for asked in was["requests"] - now["requests"]:
        return Sentence(f"a request of {asked['member']} ", "is lost")
    return Sentence("a record is lost", "")


def _of_a_member(was: Variables, now: Variables) -> Sentence:
    who, before, after = _differing(was["members"], now["members"])
    if after["connection"] != before["connection"]:
        [asked] = now["requests"] - was["requests"] or [None]
        return Sentence(f"{who} asks", f": {_asked(asked)}" if asked else " the same again")
    if (after["generation"], after["holds"]) == (before["generation"], before["holds"]) and (
        _mapping(after["at"]).keys() == _mapping(before["at"]).keys()
    ):
        return Sentence(f"{who} ", "processes a message")
    holds = ", ".join(sorted(map(_tp, after["holds"]))) or "nothing"
    return Sentence(f"{who} hears of ", f"generation {after['generation']}", f": holds {holds}")


def _done(was: Variables, now: Variables, before: Any, after: Any) -> str:
    if after["starts"] and not before["starts"]:
        return "competes"
    if after["read"] > before["read"]:
        return f"reads offset {before['read']}"
    if after["waiting"] - before["waiting"]:
        return "takes a request"
    if before["waiting"] - after["waiting"]:
        for answer in now["answers"] - was["answers"]:
            own = ", ".join(sorted(map(_tp, _mapping(answer["own"])))) or "nothing"
            owns = "is no member" if answer["unknown"] else f"owns {own}"
            return f"answers: as of {answer['generation']} {answer['member']} {owns}"
        return "answers as before"
    return "decides"


def _asked(request: Any) -> str:
    if request["as_of"] == _NONE:
        return f"it remembers nothing, over connection {request['connection']}"
    held = ", ".join(sorted(map(_tp, request["held"]))) or "nothing"
    return f"it holds {held} as of {request['as_of']}"


def _differing(was: Any, now: Any) -> tuple[Any, Any, Any]:
    """The key of the only changed value, its old and its new value."""
    before = _mapping(was)
    [changed] = [
        (who, before[who], one) for who, one in _mapping(now).items() if before[who] != one
    ]
    return changed


def _mapping(value: Any) -> Mapping[Any, Any]:
    """A function of TLA+: one without arguments, or of 1, 2, ..., is read as a tuple."""
    return dict(enumerate(value, 1)) if isinstance(value, tuple) else value


def _list(function: Any, said: Any) -> str:
    return ", ".join(sorted(said(tp, value) for tp, value in _mapping(function).items()))


def _tp(tp: Any) -> str:
    return f"{tp['topic']}-{tp['partition']}"
