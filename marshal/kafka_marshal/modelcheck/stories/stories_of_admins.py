"""Describes a counterexample of `SetPosition.tla`: several claims, and the administrators.

The caller passes the words for a record and for its effect on a claim, which are the same for all
modules. So this module only knows the actions and reports of administrators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from kafka_marshal.modelcheck.stories.sentence import Sentence
from kafka_marshal.modelcheck.tlc.output import Trace

Variables: TypeAlias = Mapping[str, Any]
Described: TypeAlias = Callable[[Any], str]
Landed: TypeAlias = Callable[[Any, str, Any, Any], Sentence]

GROUP = "group"
"""The key of a ReleaseGroup (Spec: GROUP)."""

VARIABLES = {"log", "verdicts", "claims", "administrators", "outbox"}
"""By these the module is known."""


def admin_steps(
    trace: Trace, described: Described, landed: Landed
) -> Iterator[tuple[int, Sentence]]:
    """Describe every step in a line."""
    for number in range(1, len(trace.states)):
        before: Variables = trace.states[number - 1].variables
        after: Variables = trace.states[number].variables
        yield number, _step(str(trace.states[number].action), before, after, described, landed)


def _step(
    action: str, before: Variables, after: Variables, described: Described, landed: Landed
) -> Sentence:
    if len(after["log"]) > len(before["log"]):
        return _append(before, after, landed)
    if action == "Crash":
        return Sentence(f"{_who('status', before, after)} ", "crashes")
    if action == "Lose":
        who = _who("outbox", before, after)
        lost = before["outbox"][who][0]
        return Sentence(f"{who}'s ", f"{described(lost)}{_of(lost['key'])} is lost")
    if action in SENDS:
        who = _who("outbox", before, after)
        sent = after["outbox"][who][-1]
        what = f"{SENDS[action]}: it sends {described(sent)}{_of(sent['key'])}"
        return Sentence(f"{who} ", what)
    who = _who("administrators", before, after)
    had, has = before["administrators"][who], after["administrators"][who]
    first = str(sorted(has["consumers"])[0])
    if action == "Read":
        offset = had["consumers"][first]["view"]
        what = f"reads offset {offset}{_learned(who, had, has)}"
        return Sentence(f"{who} ", what, offset=offset)
    if action == "StopWaiting":
        return Sentence(f"{who} ", "no longer waits for what it sent")
    if action == "JoinLate":
        since = has["consumers"][first]["view"]
        return Sentence(f"{who} ", f"begins to read at offset {since}")
    return Sentence(f"{who} ", f"ends{_learned(who, had, has)}")


ENDING: Mapping[str, str] = {
    "EndClaim": "ends the pause of a claim",
    "GiveBack": "gives a claim back",
    "EndForAll": "ends its pause",
}
"""Those of MCEndPause."""

SENDS: Mapping[str, str] = {
    "Begin": "begins",
    "ClaimTarget": "claims",
    "HeartbeatTarget": "is still there",
    "SetTarget": "sets a position",
    "LetGo": "gives a claim back",
    **ENDING,
}
"""The actions that send something, in a word."""


def _who(variable: str, before: Variables, after: Variables) -> str:
    """Return the administrator at which a variable changed."""
    (who,) = (i for i in after[variable] if before[variable][i] != after[variable][i])
    return str(who)


def _of(key: str) -> str:
    return "" if key == GROUP else f" of {key}"


def _append(before: Variables, after: Variables, landed: Landed) -> Sentence:
    record, verdict = after["log"][-1], after["verdicts"][-1]
    key = record["key"]
    # A ReleaseGroup does the same to all.
    one = str(sorted(after["claims"])[0]) if key == GROUP else key
    sentence = landed(record, verdict, before["claims"][one], after["claims"][one])
    if key == GROUP:
        return sentence
    sender = record["message"]["instance_id"]
    # A drawing shows one claim's offset, so the claim comes first.
    return Sentence(
        "", f"{key}, offset {record['offset']}", f": {sender}'s {sentence.what}{sentence.result}"
    )


def _learned(who: str, had: Any, has: Any) -> str:
    """What an administrator has learned in this step, and what it reports."""
    found = []
    for key in sorted(has["consumers"]):
        was, now = (each["consumers"][key]["reader"]["claim"] for each in (had, has))
        if was["owner_instance"] != now["owner_instance"]:
            owner = now["owner_instance"]
            owns = "nobody owns" if owner == "none" else f"{'it' if owner == who else owner} owns"
            found.append(f"{owns} {key}")
    if had["warned"] != has["warned"]:
        work = has["warned"]
        found.append(f"it warns that {work['by']} claimed {_names(work['claimed'])}")
        found[-1] += f" and set {_names(work['set'])}"
    if had["phase"] != has["phase"]:
        found.append(TOLD.get(has["phase"], f"it is now {has['phase']}"))
        result = has["result"]
        if has["phase"] == "PartlySet":
            parts = (f"{name.replace('_', ' ')} {_names(result[name])}" for name in PARTS)
            found[-1] += f": {', '.join(parts)}"
    return "".join(f"; {words}" for words in found)


TOLD: Mapping[str, str] = {
    "Done": "it tells that all are set",
    "NoneSet": "it tells that none is set",
    "PartlySet": "it tells what is set",
}
"""The report to the operator, by phase."""

PARTS = ("set", "not_set", "in_doubt")


def _names(keys: Any) -> str:
    return " and ".join(sorted(map(str, keys))) or "nothing"
