"""Describes a counterexample of ranges: the effect of each record on a claim and its ranges.

For `MCParticipant.tla` a line also describes a participant's steps without a record.

The caller passes the words for a record's effect on a claim, which are the same for all modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from attrs import evolve

from kafka_marshal.modelcheck.stories.sentence import Sentence
from kafka_marshal.modelcheck.tlc.output import Trace

Variables: TypeAlias = Mapping[str, Any]
Landed: TypeAlias = Callable[[Any, str, Any, Any], Sentence]

VARIABLES: Final = {"history", "leases", "said", "passed", "repeatable", "last"}
"""By these the module is known."""

OF_KEYS: Final = {"appended", "folds", "last"}
"""By these `MCRangesKeys.tla` is known."""

VERDICTS: Final = {
    "RangeGranted": "the sender holds one more range",
    "RangeRefreshed": "the sender is alive, and nothing is granted",
    "NoRangeTenure": "refused: nobody owns, or the owner does not share",
    "SeenMissing": "refused: it does not say what its sender had read",
    "NegativeCount": "refused: it asks for less than nothing",
}
"""The effect of a ClaimingRange, by the names of `Ranges.tla`."""

_NONE: Final = -1


def range_steps(trace: Trace, landed: Landed) -> Iterator[tuple[int, Sentence]]:
    """Describe every step in a line."""
    for number in range(1, len(trace.states)):
        was: Variables = trace.states[number - 1].variables
        now: Variables = trace.states[number].variables
        if len(now["history"]) == len(was["history"]):
            yield number, _own_step(was, now)
            continue
        before, after, last = was["history"][-1], now["history"][-1], now["last"]
        if last["verdict"] == "LogTruncated":
            lost = f"offset {len(now['history']) - 1}"
            yield number, Sentence("The log loses its end: ", "everything", f" from {lost} on")
        else:
            yield number, _told(last["record"], last["verdict"], before, after, landed)


def key_steps(trace: Trace, landed: Landed) -> Iterator[tuple[int, Sentence]]:
    """Describe every step of `MCRangesKeys.tla`: the effect of a record on each of its keys."""
    for number in range(1, len(trace.states)):
        before: Variables = trace.states[number - 1].variables
        after: Variables = trace.states[number].variables
        was, now, last = before["folds"], after["folds"], after["last"]
        told = {
            key: _told(last["record"], verdict, was[key], now[key], landed)
            for key, verdict in sorted(last["verdicts"].items())
            if verdict != "Skipped"
        }
        first = next(iter(told.values()))
        result = "".join(f"; of {key}{each.result}" for key, each in told.items())
        yield number, evolve(first, result=result.removeprefix(";"))


def _told(record: Any, verdict: str, before: Any, after: Any, landed: Landed) -> Sentence:
    """The effect of a record on a claim and its ranges."""
    if record["message"]["type"] == "ClaimingRange":
        lead = f"offset {record['offset']}: {record['message']['instance_id']}'s "
        sentence = Sentence(lead, _described(record), f": {verdict}, {VERDICTS[verdict]}")
    else:
        sentence = landed(record, verdict, before["claim"], after["claim"])
        sentence = evolve(sentence, what=sentence.what + _window(record))
    changed = _changed(before["ranges"], after["ranges"])
    return evolve(sentence, result=sentence.result + changed)


def _own_step(was: Variables, now: Variables) -> Sentence:
    """A participant's step without a landing record."""
    for sent in now["sent"] - was["sent"]:
        record = sent["record"]
        message = record["message"]
        if message["type"] == "ClaimingRange":
            return Sentence(f"{message['instance_id']} sends ", _described(record), "")
        offset = "" if message["offset"] == _NONE else f" {message['offset']}"
        what = f"{message['type']}{offset}{_window(record)}"
        return Sentence("a participant sends ", what, " for the anchor")
    for one in now["begun"] - was["begun"]:
        return Sentence(
            f"{one['instance']} begins ", f"message {one['offset']}", f" of {one['id']}"
        )
    [who] = [each for each in now["participants"] if _differs(each, was, now)]
    before, after = was["participants"][who], now["participants"][who]
    if after["view"] != before["view"]:
        return Sentence(f"{who} reads ", f"offset {before['view']}", "")
    if after["leaving"] != before["leaving"]:
        return Sentence(f"{who} leaves", "", "")
    if after["held"] == before["held"]:
        return Sentence(f"{who} gives up waiting", "", "")
    [held] = after["held"] - before["held"]
    [older] = [each for each in before["held"] if each["id"] == held["id"]]
    if held["begun"] > older["begun"]:
        return Sentence(
            f"{who} reports messages below ", f"{held['begun']}", f" of {held['id']} as begun"
        )
    if held["begun"] < older["begun"]:
        return Sentence(
            f"{who} takes back messages from ", f"{held['begun']}", f" of {held['id']} on"
        )
    return Sentence(f"{who} has finished ", f"message {held['done'] - 1}", f" of {held['id']}")


def _differs(who: Any, was: Variables, now: Variables) -> bool:
    return bool(was["participants"][who] != now["participants"][who])


def _described(record: Any) -> str:
    headers = record["range_headers"]
    said = [f"{name} {headers[name]}" for name in ("done", "keep") if headers[name] != _NONE]
    if said:
        said.append(f"seen {record['headers']['seen']}")
    silent = [f"{each} is silent by now" for each in sorted(record["silent"])]
    words = f"ClaimingRange for {record['message']['count']}"
    words += f" ({', '.join(said)})" if said else ""
    return ", ".join([words, *silent])


def _window(record: Any) -> str:
    window = record["range_headers"]["window"]
    return "" if window == _NONE else f" (ranges {window})"


def _changed(before: Any, after: Any) -> str:
    """The changes of the ranges, except clocks."""
    if after["window"] != _NONE and before["window"] == _NONE:
        return f"; ranges begin at {after['frontier']}"
    if after["window"] == _NONE and before["window"] != _NONE:
        return "; its ranges are void"
    if after["window"] != before["window"] and after["frontier"] < before["frontier"]:
        return f"; its ranges are void, and begin at {after['frontier']}"
    held = [
        f"; {each['instance']} holds [{each['from']}, {each['to']}) as {each['id']}"
        for each in sorted(after["open"] - before["open"], key=lambda one: int(one["id"]))
    ]
    pooled = [
        f"; [{each['from']}, {each['to']}) is free again"
        for each in sorted(after["pool"] - before["pool"], key=lambda one: int(one["from"]))
    ]
    ids = {each["id"] for each in after["open"]}
    ended = [
        f"; {each['instance']}'s range {each['id']} ends"
        for each in sorted(before["open"], key=lambda one: int(one["id"]))
        if each["id"] not in ids
    ]
    return "".join(ended + pooled + held)
