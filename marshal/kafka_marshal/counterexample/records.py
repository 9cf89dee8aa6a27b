"""A counterexample made of records, if only the log is known: replays, walks, runs.

The states are those of the specification's MCRecords, with the same names: the claim, and the last
record with its verdict. The claim before that record is added, since evidence may leave out records
in between. Facts that MCRecords does not have are added too, such as a record's group. "Nothing" is
written as in the specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from kafka_marshal.core.claims.invariants import broken_by
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.verdicts import Verdict
from kafka_marshal.core.messages import UNSPECIFIED, Record
from kafka_marshal.core.state import FENCED, Claim, Rules
from kafka_marshal.counterexample import words
from kafka_marshal.counterexample.itf import integer
from kafka_marshal.counterexample.model import (
    LOG,
    Counterexample,
    Expression,
    Participant,
    Step,
    StepKind,
    spec_name,
)
from kafka_marshal.markup import name as visible_name

NONE: Final = -1
"""Represents nothing for a number. Spec: NONE."""
NOBODY: Final = "none"
"""Represents nothing for an id. Spec: NOBODY."""
LATE_S: Final = 1
"""Senders write whole seconds: a record is known to be late from here on."""


@attrs.frozen
class RecordOutcome:
    """One record of the claim's log, and its effect."""

    record: Record
    before: Claim
    after: Claim
    verdict: Verdict


def judge(
    records: Iterable[Record], rules: Rules = FENCED, claim: Claim | None = None
) -> tuple[RecordOutcome, ...]:
    """Fold the records of one claim, in the given order."""
    judged = []
    before = Claim() if claim is None else claim
    for record in records:
        after, verdict = step(before, record, rules)
        judged.append(RecordOutcome(record, before, after, verdict))
        before = after
    return tuple(judged)


def from_records(
    records: Iterable[Record],
    violated: str | None,
    source: str,
    rules: Rules = FENCED,
    claim: Claim | None = None,
    about: str = "",
    faultless_below: int = 0,
) -> Counterexample:
    """Fold records of one claim, starting from `claim`, and describe the steps.

    Raises ValueError if there is no record.
    """
    judged = judge(records, rules, claim)
    return from_judged(judged, violated, source, about, faultless_below)


def from_judged(
    judged: Iterable[RecordOutcome],
    violated: str | None,
    source: str,
    about: str = "",
    faultless_below: int = 0,
) -> Counterexample:
    """Describe records that were judged already; records between them may be left out.

    The step at fault is the first that violates the property, or that the guard refused; the last
    one if none does by itself. It is no record below the offset `faultless_below`: part of a log
    may begin with a heartbeat whose claim was removed, which violates `Fenced`, too. Raises
    ValueError if there is no record.
    """
    evidence = tuple(judged)
    if not evidence:
        raise ValueError("a counterexample without a record")
    instances = _participants(evidence)
    days = {words.day(one.record.timestamp_ms) for one in evidence}
    first = evidence[0].before
    date = f"{min(days)}, UTC" if len(days) == 1 else "times in UTC"
    beginning = Step(
        number=0,
        sentence=f"{date}: {words.standing(first)}",
        label=words.standing(first),
        state={
            "before": claim_expression(first),
            "claim": claim_expression(first),
            "last": {"record": NONE, "verdict": "Nothing"},
        },
    )
    steps = [beginning]
    for number, one in enumerate(evidence, start=1):
        steps.append(_step(number, one, evidence, instances, with_day=len(days) > 1))
    return Counterexample(
        violated=violated,
        source=source,
        participants=(*instances.values(), Participant(LOG)),
        steps=tuple(steps),
        violated_at=_at_fault(evidence, violated, faultless_below),
        about=about,
    )


def _participants(evidence: tuple[RecordOutcome, ...]) -> dict[str, Participant]:
    """Every sender, by instance id; its name is the id, unless the log itself has that name."""
    found: dict[str, Participant] = {}
    for one in evidence:
        message = one.record.message
        if message.instance_id not in found:
            name = message.instance_id
            while name == LOG or any(name == other.name for other in found.values()):
                name += " (an instance)"
            found[message.instance_id] = Participant(
                name, f"client {visible_name(message.client_id)}"
            )
    return found


def _step(
    number: int,
    one: RecordOutcome,
    evidence: tuple[RecordOutcome, ...],
    instances: Mapping[str, Participant],
    with_day: bool,
) -> Step:
    record = one.record
    sentence = words.landed(record, one.verdict, one.before, one.after)
    since = _set_out_after(number, evidence)
    if since is not None:
        late_s = record.timestamp_ms // 1000 - record.message.unix_s
        sentence += f"; by its sender's clock it was written {late_s} s before"
    sender = instances[record.message.instance_id].name
    time = words.clock(record.timestamp_ms)
    return Step(
        number=number,
        action="Append",
        kind=StepKind.APPENDED,
        sentence=sentence,
        who=sender,
        source=sender,
        target=LOG,
        since=since,
        offset=record.offset,
        label=words.described(record),
        verdict=spec_name(one.verdict),
        time=f"{words.day(record.timestamp_ms)} {time}" if with_day else time,
        state={
            "before": claim_expression(one.before),
            "claim": claim_expression(one.after),
            "last": {"record": record_expression(record), "verdict": spec_name(one.verdict)},
        },
    )


def _set_out_after(number: int, evidence: tuple[RecordOutcome, ...]) -> int | None:
    """The step that the record was under way at: another landed when it had been written.

    Only its sender's clock shows this, so records count as overtaking only if they did so by more
    than the second to which that clock is written.
    """
    written_ms = (evidence[number - 1].record.message.unix_s + LATE_S) * 1000
    for earlier in range(1, number):
        if evidence[earlier - 1].record.timestamp_ms >= written_ms:
            return earlier - 1
    return None


def _at_fault(
    evidence: tuple[RecordOutcome, ...], violated: str | None, faultless_below: int
) -> int:
    for number, one in enumerate(evidence, start=1):
        if one.record.offset < faultless_below:
            continue
        broken = broken_by(one.before, one.record, one.after, one.verdict)
        if violated in (spec_name(one.verdict), *(prop.value for prop in broken)):
            return number
    return len(evidence)


_IDS = frozenset({"owner_instance", "owner_client", "pauser"})


def claim_expression(claim: Claim) -> Expression:
    """A claim as the specification's record of the same fields."""
    return {
        field: _nothing_is(NOBODY if field in _IDS else NONE, value)
        for field, value in attrs.asdict(claim).items()
    }


def record_expression(record: Record) -> Expression:
    """A record in the specification's form, and the key's fields, which that form leaves out."""
    message = attrs.asdict(record.message)
    return {
        "offset": integer(record.offset),
        "timestamp_ms": integer(record.timestamp_ms),
        "partition": integer(record.partition),
        "headers": {
            name: _nothing_is(NONE, value)
            for name, value in attrs.asdict(record.headers).items()
            if name not in UNSPECIFIED
        },
        "message": {
            "type": type(record.message).__name__,
            **{name: _nothing_is(NONE, value) for name, value in message.items()},
            "offset": _nothing_is(NONE, message.get("offset")),
            "expires_unix_s": _nothing_is(NONE, message.get("expires_unix_s")),
        },
    }


def _nothing_is(nothing: Expression, value: Any) -> Expression:
    if value is None:
        return nothing
    return integer(value) if type(value) is int else value
