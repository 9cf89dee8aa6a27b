"""Describes a counterexample of `Marshal.tla` in the protocol's words.

One line per step: the sender and its record, its offset and effect in the log, the reader and its
progress, the processed message. The line depends on two consecutive states and the name of the
action; nothing is run. MCRecords only has records. `stories_of_admins` describes SetPosition,
`stories_of_ranges` MCRanges and MCParticipant, and `stories_of_groups` groups with a controller. A
step of any other module is described by the changed variables.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import attrs

from kafka_marshal.core import wire
from kafka_marshal.core.claims.verdicts import Accepted, Refused
from kafka_marshal.counterexample.words import phrase
from kafka_marshal.modelcheck.stories import (
    stories_of_admins,
    stories_of_groups,
    stories_of_ranges,
)
from kafka_marshal.modelcheck.stories.sentence import Sentence
from kafka_marshal.modelcheck.tlc.output import TlcState, Trace
from kafka_marshal.modelcheck.tlc.values import Function, unparse

# Values of a state, read by name. The specification's types are not Python's: every access below
# is one that Marshal.tla's Init and actions make good.
Variables: TypeAlias = Mapping[str, Any]

NONE = -1
NOBODY = "none"
START_MS = 1000
"""Marshal.tla's Start: clocks begin here, since 0 seconds means "never" to the original."""


def story_text(trace: Trace, violated: str | None = None) -> str:
    """Return a counterexample as text: a line for each step, and what is wrong at its end.

    Steps are numbered like TLC's states after the first; where time passes, so do several steps
    in one line.
    """
    width = len(str(len(trace.states) - 1))
    lines = []
    for number, sentence in sentences(trace):
        time = f"{sentence.time}  " if sentence.time else ""
        lines.append(f"{number:>{width}}  {time}{sentence.text}")
    lines += [f"{'':{width}}  {line}" for line in _ending(trace, violated)]
    return "\n".join(lines)


_Steps: TypeAlias = Callable[[Trace], Iterator[tuple[int, Sentence]]]


def sentences(trace: Trace) -> Iterator[tuple[int, Sentence]]:
    """Yield the number and the sentence of each step that has one."""
    return _steps_of(trace)(trace)


def _steps_of(trace: Trace) -> _Steps:
    """Tell modules apart by their variables: a trace does not name its module.

    Where a model adds a variable to `Marshal.tla` its actions have no names, so values are printed.
    """
    variables = trace.states[0].variables
    named = not any(state.action == "Action" for state in trace.states)
    if named and {"log", "history", "verdicts", "consumers", "outbox"} <= variables.keys():
        return _marshal_steps
    if variables.keys() >= stories_of_admins.VARIABLES:
        return partial(stories_of_admins.admin_steps, described=_described, landed=_landed)
    if variables.keys() >= stories_of_ranges.VARIABLES:
        return partial(stories_of_ranges.range_steps, landed=_landed)
    if variables.keys() >= stories_of_ranges.OF_KEYS:
        return partial(stories_of_ranges.key_steps, landed=_landed)
    if variables.keys() >= stories_of_groups.OF_EVENTS:
        return stories_of_groups.event_steps
    if variables.keys() >= stories_of_groups.OF_THE_WORLD:
        return stories_of_groups.world_steps
    return _record_steps if {"claim", "last"} <= variables.keys() else _plain_steps


def _ending(trace: Trace, violated: str | None) -> Iterator[str]:
    last = len(trace.states) - 1
    if trace.back_to == last:
        yield "From here on nothing happens any more."
    elif trace.back_to is not None:
        steps = (
            f"step {last}" if trace.back_to + 1 == last else f"steps {trace.back_to + 1} to {last}"
        )
        yield f"From here on {steps} again, for ever."
    if violated:
        yield f"{violated} does not hold."


def _plain_steps(trace: Trace) -> Iterator[tuple[int, Sentence]]:
    """Describe steps of any module: the action and the changed variables."""
    before: Variables = {}
    for number, state in enumerate(trace.states):
        changed = [
            f"{name} = {unparse(value)}"
            for name, value in state.variables.items()
            if name not in before or before[name] != value
        ]
        result = f": {', '.join(changed) or 'nothing changes'}"
        yield number, Sentence("", state.action or "at first", result)
        before = state.variables


def _record_steps(trace: Trace) -> Iterator[tuple[int, Sentence]]:
    """Describe MCRecords, which only has records and the claim."""
    for number in range(1, len(trace.states)):
        before: Variables = trace.states[number - 1].variables
        after: Variables = trace.states[number].variables
        record, verdict = after["last"]["record"], after["last"]["verdict"]
        clock = f"{(record['timestamp_ms'] - START_MS) // 1000} s"
        sentence = _landed(record, verdict, before["claim"], after["claim"])
        yield number, attrs.evolve(sentence, time=clock)


def _marshal_steps(trace: Trace) -> Iterator[tuple[int, Sentence]]:
    states: tuple[TlcState, ...] = trace.states
    timed = any(state.variables["now"] != states[0].variables["now"] for state in states)
    for number in range(1, len(states)):
        before, after = states[number - 1].variables, states[number].variables
        action = states[number].action
        if action == "Tick":
            # Of several in a row only the last has a line.
            if number + 1 == len(states) or states[number + 1].action != "Tick":
                yield number, Sentence("", "time passes", time=_clock(after))
            continue
        sentence = TOLD[action](before, after)
        yield number, attrs.evolve(sentence, time=_clock(after)) if timed else sentence


def _clock(variables: Variables) -> str:
    return f"{(variables['now'] - START_MS) // 1000} s"


def _who(variable: str, before: Variables, after: Variables) -> str:
    """Return the instance at which a function of instances changed."""
    (who,) = (i for i in after[variable] if before[variable][i] != after[variable][i])
    return str(who)


def _send(before: Variables, after: Variables) -> Sentence:
    who = _who("outbox", before, after)
    sent = after["outbox"][who][-1]
    ahead_s = sent["message"]["unix_s"] - after["now"] // 1000
    ahead = f"; its clock is {ahead_s} s ahead" if ahead_s > 0 else ""
    return Sentence(f"{who} sends ", _described(sent) + ahead)


def _lose(before: Variables, after: Variables) -> Sentence:
    who = _who("outbox", before, after)
    left = list(after["outbox"][who])
    was = list(before["outbox"][who])
    index = next((k for k, sent in enumerate(left) if sent != was[k]), len(left))
    return Sentence(f"{who}'s ", f"{_described(was[index])} is lost")


def _truncate(before: Variables, after: Variables) -> Sentence:
    return Sentence("", f"the log loses offsets {len(after['log'])} to {len(before['log']) - 1}")


def _begin(words: str) -> Callable[[Variables, Variables], Sentence]:
    def sentence(before: Variables, after: Variables) -> Sentence:
        who = _who("status", before, after)
        first = after["consumers"][who]["view"]
        since = f", and reads from offset {first}" if first else ""
        return Sentence(f"{who} ", f"starts, {words}{since}")

    return sentence


def _append(before: Variables, after: Variables) -> Sentence:
    claims = before["history"][-1], after["history"][-1]
    return _landed(after["log"][-1], after["verdicts"][-1], *claims)


def _landed(record: Any, verdict: str, before: Any, after: Any) -> Sentence:
    """The effect of a record on its claim, at its offset."""
    lead = f"offset {record['offset']}: {record['message']['instance_id']}'s "
    what = _described(record)
    if record.get("stale", False):
        what += ", the owner is stale by now"
    if record.get("pause_over", False):
        what += ", the pause is over by now"
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", verdict).upper()
    if name in Refused.__members__:
        return Sentence(lead, what, f": refused by {verdict}, {Refused[name].sentence}")
    did = f": {verdict}, {Accepted[name].sentence}{_effects(before, after)}"
    return Sentence(lead, what, did)


def _read(before: Variables, after: Variables) -> Sentence:
    who = _who("consumers", before, after)
    had, has = before["consumers"][who], after["consumers"][who]
    offset = after["log"][had["view"]]["offset"]
    was, now = had["reader"]["claim"], has["reader"]["claim"]
    line = f"reads offset {offset}"
    if _owner(was) != _owner(now) or was["epoch"] != now["epoch"]:
        owner = _owner(now)
        epoch = f", epoch {now['epoch']}" if now["epoch"] != NONE and owner != NOBODY else ""
        sees = "nobody owns" if owner == NOBODY else f"{_self(owner, who)} owns{epoch}"
        # After the same number of records, the log itself may have a different owner: fault (c).
        by_log = after["history"][has["view"]]
        line += f": {sees}" + (", by its own clock" if _owner(by_log) != owner else "")
    granted = has["granted"] - had["granted"]
    if granted:
        line += f"; granted to it: {_messages(granted)}"
    if has["stopped"] and not had["stopped"]:
        line += "; its client id is used twice, so it stops"
    if had["reader"]["certain"] != has["reader"]["certain"]:
        certain = ", ".join(sorted(has["reader"]["certain"])) or "nothing"
        line += f"; certain of {certain}"
    return Sentence(f"{who} ", line, offset=offset)


def _pass_gap(before: Variables, after: Variables) -> Sentence:
    who = _who("consumers", before, after)
    begin, end = before["consumers"][who]["view"], after["consumers"][who]["view"]
    gone = f"offset {begin} is" if end == begin + 1 else f"offsets {begin} to {end - 1} are"
    return Sentence(f"{who} ", f"finds that {gone} gone, and goes on at {end}")


def _process(before: Variables, after: Variables) -> Sentence:
    who = _who("consumers", before, after)
    counts = {
        message: count
        for message, count in _pairs(after["processed"])
        if dict(_pairs(before["processed"]))[message] != count
    }
    line = f"processes {_messages(counts)}"
    most = max(counts.values())
    if most == 1:
        return Sentence(f"{who} ", line)
    repeated = [message for message, count in counts.items() if count == most]
    which = "" if len(repeated) == len(counts) else f", {_messages(repeated)}"
    return Sentence(f"{who} ", f"{line}{which} for the {_ordinal(most)} time")


def _acts(variable: str, words: str) -> Callable[[Variables, Variables], Sentence]:
    return lambda before, after: Sentence(f"{_who(variable, before, after)} ", words)


TOLD: Mapping[str, Callable[[Variables, Variables], Sentence]] = {
    **{f"Send{layout.name}": _send for layout in wire.MESSAGES},
    "SendAnything": _send,
    **dict.fromkeys(("ResumeForAll", "ResumeClaim", "ReleaseAll", "GiveBack"), _send),
    "GiveUp": _acts("consumers", "gives up waiting for its ClaimingPartition"),
    "Append": _append,
    "AppendCopy": _append,
    "Lose": _lose,
    "Read": _read,
    "PassGap": _pass_gap,
    "Process": _process,
    "ProcessGrant": _process,
    "Crash": _acts("status", "crashes"),
    "Restart": _begin("a new instance of a crashed client"),
    "Join": _begin("a client that was not there before"),
    "Stall": _acts("status", "stalls"),
    "Resume": _acts("status", "goes on"),
    "Truncate": _truncate,
    "StepBack": lambda before, after: Sentence("", "the broker's clock steps back"),
    "Refold": _acts("consumers", "drops everything and folds the log anew"),
}
"""The sentence of each action of Marshal.tla but Tick, by the action's name."""


def _described(record: Any) -> str:
    message, written = record["message"], record["headers"]
    names = [header.field for header in wire.HEADERS if header.field in written]
    headers = {name: written[name] for name in names if written[name] != NONE}
    return phrase(message["type"], message, headers, lambda at_s: f"{at_s - START_MS // 1000} s")


def _effects(before: Any, after: Any) -> str:
    """The changes of a claim by a record, except clocks."""
    found = []
    old, new = _owner(before), _owner(after)
    if new not in (old, NOBODY):
        found.append(f"{new} owns" + (f" instead of {old}" if old != NOBODY else ""))
    if after["epoch"] != before["epoch"]:
        found.append(f"epoch {after['epoch']}")
    if after["position"] != before["position"]:
        found.append(f"position {before['position']} → {after['position']}")
    elif after["position_set"] and not before["position_set"]:
        found.append(f"position {after['position']} is set")
    until, was_until = after["paused_until_ms"], before["paused_until_ms"]
    if until != was_until:
        paused = f"paused for {after['pauser']} until {(until - START_MS) // 1000} s"
        found.append("the pause ends" if until == NONE else paused)
    return "".join(f"; {words}" for words in found)


def _owner(claim: Any) -> str:
    # The original keeps the owner's ids after a release and clears the heartbeat.
    return NOBODY if claim["last_heartbeat_ms"] == NONE else str(claim["owner_instance"])


def _self(owner: str, who: str) -> str:
    return "it" if owner == who else owner


def _messages(numbers: Any) -> str:
    listed = ", ".join(map(str, sorted(numbers)))
    return f"message{'s' if len(numbers) > 1 else ''} {listed}"


def _ordinal(count: int) -> str:
    return {2: "second", 3: "third"}.get(count, f"{count}th")


def _pairs(counted: Any) -> Iterator[tuple[int, int]]:
    """Yield message and count; the domain is 0 .. n, or 1 .. n and then a sequence."""
    if isinstance(counted, Function):
        yield from ((int(str(m)), int(str(n))) for m, n in counted.items())
    else:
        yield from enumerate(counted, start=1)
