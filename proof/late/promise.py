"""What a certificate in flight promises, and what is assumed of the record that lands.

PROMISE is of one arbitrary record that says what its sender saw. It holds when the log ends at
`seen`, and from then on, wherever the record lands, however often, or never. HONEST names the
hypotheses: only honest headers are promised to be exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from attrs import frozen

from kafka_marshal import Claim, Record
from kafka_marshal.core.claims import fenced
from kafka_marshal.core.claims.suffix_reader import EVERYTHING, Field
from kafka_marshal.core.messages import ClaimingMessages, Heartbeat, ReleasingPartition
from proof.late.relation import State, certain


@frozen(eq=False)
class Certificate:
    """A record of an owner that says what it saw."""

    instance: Any
    client: Any
    epoch: Any
    seen: Any
    clock: Any
    offset: Any
    """The message's own."""
    is_request: Any
    """A ClaimingMessages."""
    is_release: Any
    says_it_sets: Any
    """It has the header `marshal-set-position`."""

    @classmethod
    def of(cls, message: Any, headers: Any) -> Certificate:
        """What this record says."""
        return cls(
            message.instance_id,
            message.client_id,
            headers.epoch,
            headers.seen,
            headers.clock,
            message.offset,
            isinstance(message, ClaimingMessages),
            isinstance(message, ReleasingPartition),
            headers.set_position is not None,
        )


Promise: TypeAlias = Callable[[State, Certificate], Any]


def _stands(state: State, sent: Certificate) -> Any:
    """Its tenure lasts."""
    full = state.full
    return (
        full.last_heartbeat_ms is not None and full.epoch is not None and full.epoch == sent.epoch
    )


def tenure_was_its_own(state: State, sent: Certificate) -> Any:
    """Its epoch was won, and while that tenure lasts it is the sender's, won with headers."""
    full = state.full
    if full.epoch is None or full.epoch < sent.epoch:
        return False
    if not _stands(state, sent):
        return True
    return (
        full.owner_instance == sent.instance
        and full.owner_client == sent.client
        and full.won_with_headers
    )


def releases_no_negative(state: State, sent: Certificate) -> Any:
    """A release names an offset, so none is refused for what it would set."""
    return not sent.is_release or sent.offset >= 0


def clock_was_past(state: State, sent: Certificate) -> Any:
    """The clock was as it says, or has moved on since."""
    return sent.clock <= state.full.clock_ms


def _undecided_before(state: State, sent: Certificate) -> Any:
    """What the sender saw decides what the reader has not decided."""
    undecided = state.reader.undecided
    return undecided is None or undecided <= sent.seen


def _bounds(state: State, sent: Certificate) -> Any:
    """The reader knows all of the tenure that the sender had not seen."""
    if not _stands(state, sent):
        return False
    return certain(state.reader, Field.OWNER) or _undecided_before(state, sent)


def nothing_displaced_it(state: State, sent: Certificate) -> Any:
    """Where it decides what is undecided, the sender owns to this day."""
    if certain(state.reader, Field.OWNER) or not _undecided_before(state, sent):
        return True
    return _stands(state, sent)


def clock_is_said_or_read(state: State, sent: Certificate) -> Any:
    """The true clock is the one that it says, or the one that the reader has read since."""
    if not _bounds(state, sent):
        return True
    return state.full.clock_ms <= max(sent.clock, state.reader.claim.clock_ms)


def position_is_said_or_read(state: State, sent: Certificate) -> Any:
    """The position is at most the one that it says, or the one that the reader has read since."""
    if not _bounds(state, sent):
        return True
    full, reader = state.full, state.reader
    sets = sent.says_it_sets or (full.pauser is not None and full.pauser == sent.instance)
    if sent.is_release and sets:
        return True
    if full.position < sent.offset or (not sent.is_request and full.position == sent.offset):
        return True
    if certain(reader, Field.OWNER):
        return full.position <= reader.claim.position
    if reader.reached is None or reader.claim.epoch is None or reader.claim.epoch != sent.epoch:
        return False
    return full.position <= reader.reached


PROMISE: Final[Mapping[str, Promise]] = {
    "TenureWasItsOwn": tenure_was_its_own,
    "ReleasesNoNegative": releases_no_negative,
    "ClockWasPast": clock_was_past,
    "NothingDisplacedIt": nothing_displaced_it,
    "ClockIsSaidOrRead": clock_is_said_or_read,
    "PositionIsSaidOrRead": position_is_said_or_read,
}
"""Of a certificate whose `seen` the log has reached."""


def is_true_at_seen(full: Claim, sent: Certificate) -> Any:
    """What an honest sender says: all of it is so where the log ends at `seen`."""
    if full.last_heartbeat_ms is None or full.epoch is None:
        return False
    sets = sent.says_it_sets or (full.pauser is not None and full.pauser == sent.instance)
    if sent.is_release and sets:
        position = sent.offset >= 0
    else:
        position = sent.offset > full.position if sent.is_request else sent.offset >= full.position
    return (
        full.epoch == sent.epoch
        and full.owner_instance == sent.instance
        and full.owner_client == sent.client
        and full.won_with_headers
        and full.clock_ms == sent.clock
        and position
    )


def names_its_win(state: State, record: Record) -> Any:
    """An epoch in a header was won before, and while that tenure lasts it is the sender's."""
    epoch, full = record.headers.epoch, state.full
    if epoch is None:
        return True
    if full.epoch is None or full.epoch < epoch:
        return False
    own = full.owner_instance == record.message.instance_id
    return full.last_heartbeat_ms is None or full.epoch != epoch or own


def certifies_with_its_epoch(
    state: State, record: Record, promised: Mapping[str, Promise] = PROMISE
) -> Any:
    """Who says what it saw names its epoch, and keeps its promise."""
    headers = record.headers
    if headers.seen is None or headers.clock is None:
        return True
    if headers.epoch is None:
        return False
    sent = Certificate.of(record.message, headers)
    return all(promise(state, sent) for promise in promised.values())


def release_saw_no_less(state: State, record: Record, sent: Certificate) -> Any:
    """A sender's release says what it saw, if anything did under its epoch, and saw no less."""
    headers, message = record.headers, record.message
    if not isinstance(message, ReleasingPartition) or headers.epoch is None:
        return True
    if headers.epoch != sent.epoch or message.instance_id != sent.instance:
        return True
    return headers.clock is not None and headers.seen is not None and headers.seen >= sent.seen


KEEPS_ITS_PROMISE: Final = "KeepsItsPromise"
HONEST: Final[dict[str, Callable[[State, Record, Certificate], Any]]] = {
    "NamesItsWin": lambda state, record, _: (
        certain(state.reader, Field.OWNER) or names_its_win(state, record)
    ),
    KEEPS_ITS_PROMISE: lambda state, record, _: certifies_with_its_epoch(state, record),
    "ReleaseSawNoLess": release_saw_no_less,
}
"""Only honest headers are promised to be exact. Of owners' records that no guard refuses for a
header."""


def is_honest(
    of: Callable[[State, Record, Certificate], Any],
    state: State,
    record: Record,
    sent: Certificate,
) -> Any:
    """Assumed of the record that lands; of one that a header condemns nothing is."""
    message = record.message
    if not isinstance(message, Heartbeat | ClaimingMessages | ReleasingPartition):
        return True
    return fenced.has_bad_headers(record) or of(state, record, sent)


def clock_bounded(state: State, record: Record) -> Any:
    """ClockBounded: a broker's clock steps back by `clock_rewind_max_ms` at most.

    Asked once, of the first record that a reader reads.
    """
    reader = state.reader
    if reader.certain is EVERYTHING or reader.head_ms is not None:
        return True
    return state.full.clock_ms <= record.timestamp_ms + state.rules.clock_rewind_max_ms
