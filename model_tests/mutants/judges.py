"""The properties of one step, as `MCRecords.tla` states them, for steps that a mutant took.

`core.claims.invariants` has those that can be judged from the claim before, the record, the claim
after and the verdict. Here are also those that need the rules, and the longer form of those that
the specification states more strictly where anybody may send anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tests import machine_samples as machines
from tests.machine_samples import Row
from tests.triples import Triple

from kafka_marshal import Accepted, ClaimingPartition, ReleaseGroup, RuleSet, step
from kafka_marshal.core.claims.invariants import Property, broken_by
from kafka_marshal.core.claims.verdicts import WINS
from model_tests.mutants.hand_made import HandMade


def is_stale(taken: Triple) -> bool:
    """Spec: Stale."""
    since = taken.before.last_heartbeat_ms
    return since is not None and taken.after.clock_ms - since > taken.rules.stale_after_ms


def fresh_owner_kept(taken: Triple) -> bool:
    """Only its own client displaces an owner that is not stale. Spec: FreshOwnerKeptStepwise."""
    claim, record = taken.before, taken.record
    message = record.message
    displaced = taken.verdict in WINS and claim.owner_instance not in (None, message.instance_id)
    if not displaced or is_stale(taken):
        return True
    names_it = isinstance(message, ClaimingPartition) and record.headers.supersedes == claim.epoch
    neither_has_headers = not record.headers.present and not claim.won_with_headers
    return message.client_id == claim.owner_client and (names_it or neither_has_headers)


def pause_begins(taken: Triple) -> bool:
    """A ReleaseGroup that has not expired pauses, not beyond P. Spec: PauseBeginsStepwise."""
    message, after = taken.record.message, taken.after
    if not isinstance(message, ReleaseGroup) or not isinstance(taken.verdict, Accepted):
        return True
    until_ms = after.paused_until_ms if after.paused_until_ms is not None else -1
    return until_ms <= after.clock_ms + taken.rules.pause_max_ms and (
        message.expires_unix_s * 1000 <= after.clock_ms or until_ms > after.clock_ms
    )


def pause_refuses(taken: Triple) -> bool:
    """In a pause only the pauser is obeyed. Spec: PauseHoldsStepwise."""
    until_ms, message = taken.before.paused_until_ms, taken.record.message
    in_pause = until_ms is not None and taken.after.clock_ms < until_ms
    allowed = isinstance(message, ReleaseGroup) or message.instance_id == taken.before.pauser
    return not in_pause or allowed or not isinstance(taken.verdict, Accepted)


def original_live_owner_kept(taken: Triple) -> bool:
    """The original's request, by its whole seconds. Spec: OriginalLiveOwnerKeptStepwise."""
    if not isinstance(taken.record.message, ClaimingPartition):
        return True
    since = taken.before.last_heartbeat_ms
    silent_s = None if since is None else taken.record.timestamp_ms // 1000 - since // 1000
    alive = silent_s is not None and 0 <= silent_s * 1000 < taken.rules.stale_after_ms
    return isinstance(taken.verdict, Accepted) is not alive


JUDGES: list[tuple[Property, Callable[[Triple], bool]]] = [
    (Property.FRESH_OWNER_KEPT, fresh_owner_kept),
    (Property.PAUSE_HOLDS, pause_begins),
    (Property.PAUSE_HOLDS, pause_refuses),
]


OF_THE_ORIGINAL: list[tuple[Property, Callable[[Triple], bool]]] = [
    (Property.ORIGINAL_LIVE_OWNER_KEPT, original_live_owner_kept),
]


def broken(taken: Triple) -> set[Property]:
    """The properties that a step breaks, by these judges and by those of the package."""
    if taken.rules.rule_set is RuleSet.ORIGINAL:
        return {prop for prop, holds in OF_THE_ORIGINAL if not holds(taken)}
    ours = {prop for prop, holds in JUDGES if not holds(taken)}
    return ours | set(broken_by(taken.before, taken.record, taken.after, taken.verdict))


def of_one_log(triples: Iterable[Triple]) -> Iterator[Triple]:
    """Those that one log can hold.

    The models identify logs that led to the same claim, so a claim's epoch may stand at or past the
    record's offset. An epoch below the log's end is all that a step needs to know of its log, and
    under the original's rules there is none.
    """
    for triple in triples:
        if triple.before.epoch is None or triple.before.epoch < triple.record.offset:
            yield triple


def taken_by_python(triple: Triple) -> Triple:
    """The same claim and record, and the step that the reducer takes now."""
    after, verdict = step(triple.before, triple.record, triple.rules)
    return Triple(triple.rules, triple.before, triple.record, after, verdict)


def broken_under(mutant: HandMade, triples: Iterable[Triple]) -> set[Property]:
    """Every property that some step breaks while the mistake is made."""
    with mutant.made():
        return {prop for t in of_one_log(triples) for prop in broken(taken_by_python(t))}


def disagrees(mutant: HandMade, triples: Iterable[Triple]) -> bool:
    """Whether the mistake takes some step otherwise than the specification."""
    with mutant.made():
        return any(taken_by_python(triple) != triple for triple in triples)


def differs(mutant: HandMade, rows: Iterable[Row]) -> set[str]:
    """The modules of the specification whose answers a reader or machine with the mistake parts."""
    with mutant.made():
        return {
            "Reader" if row.deed == "reader" else "Consumer"
            for row in rows
            if machines.python(row) != row.said
        }
