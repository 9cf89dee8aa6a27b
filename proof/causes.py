"""What each verdict names is so: a refusal's cause, and how a claim was won.

A property of fields may hold although a record is refused for another reason than the verdict says.
Operators and findings go by the verdict, so a wrong one misleads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.triples import Triple

from kafka_marshal.core.claims.verdicts import Accepted, Refused, Verdict
from kafka_marshal.core.messages import NOT_DECIMAL

DECIMAL: Final = ("epoch", "seen", "clock", "supersedes", "set_position")
"""Headers that refuse a record where they are no number."""


def _epoch(taken: Triple) -> Any:
    headers = taken.record.headers
    return headers.epoch if headers.present else None


def _offset(taken: Triple) -> Any:
    message: Any = taken.record.message
    return message.offset


def _is_silent(taken: Triple) -> Any:
    """Its owner was silent for more than two intervals."""
    since_ms = taken.before.last_heartbeat_ms
    return since_ms is not None and taken.after.clock_ms - since_ms > taken.rules.stale_after_ms


def _is_its_instance(taken: Triple) -> Any:
    return taken.before.owner_instance == taken.record.message.instance_id


def _is_its_client(taken: Triple) -> Any:
    return taken.before.owner_client == taken.record.message.client_id


def live_owner(taken: Triple) -> Any:
    """Another client owns, and was heard of in time."""
    return taken.before.owned and not _is_silent(taken) and not _is_its_client(taken)


def does_not_supersede(taken: Triple) -> Any:
    """Another instance of the same client owns, and was heard of in time."""
    kept = taken.before.owned and not _is_silent(taken) and not _is_its_instance(taken)
    return kept and _is_its_client(taken)


def is_paused(taken: Triple) -> Any:
    """Another instance's pause is not over."""
    until_ms = taken.before.paused_until_ms
    if until_ms is None or not taken.after.clock_ms < until_ms:
        return False
    return taken.record.message.instance_id != taken.before.pauser


def nobody_owns(taken: Triple) -> Any:
    """Nobody owns."""
    return not taken.before.owned


def epoch_missing(taken: Triple) -> Any:
    """The claim was won with headers, and the record names no epoch."""
    return taken.before.won_with_headers and _epoch(taken) is None


def not_owner(taken: Triple) -> Any:
    """The claim was won without headers, by another instance, and the record names no epoch."""
    bare = taken.before.owned and not taken.before.won_with_headers and _epoch(taken) is None
    return bare and not _is_its_instance(taken)


def forged(taken: Triple) -> Any:
    """The record names the owner's epoch, and another instance."""
    epoch = _epoch(taken)
    return epoch is not None and epoch == taken.before.epoch and not _is_its_instance(taken)


def superseded(taken: Triple) -> Any:
    """The record names an epoch before the current one."""
    epoch = _epoch(taken)
    return epoch is not None and taken.before.epoch is not None and epoch < taken.before.epoch


def log_lost_records(taken: Triple) -> Any:
    """The record names an epoch after the current one."""
    epoch = _epoch(taken)
    return epoch is not None and (taken.before.epoch is None or epoch > taken.before.epoch)


def unknown_version(taken: Triple) -> Any:
    """Its version is neither 0 nor 1."""
    return taken.record.message.version not in (0, 1)


def not_ahead(taken: Triple) -> Any:
    """It asks for nothing beyond the position."""
    return _offset(taken) <= taken.before.position


def negative_position(taken: Triple) -> Any:
    """The position that it sets is below 0."""
    return _offset(taken) < 0


def claimed(taken: Triple) -> Any:
    """Nobody owned."""
    return not taken.before.owned


def reclaimed(taken: Triple) -> Any:
    """The sender owned."""
    return taken.before.owned and _is_its_instance(taken)


def restarted(taken: Triple) -> Any:
    """Another instance of the sender's client owned."""
    return taken.before.owned and not _is_its_instance(taken) and _is_its_client(taken)


def took_over(taken: Triple) -> Any:
    """Another instance owned, and was silent for too long."""
    return not _is_its_instance(taken) and _is_silent(taken)


def fast_reclaimed(taken: Triple) -> Any:
    """Another instance of the sender's client owned, and neither side had headers."""
    bare = not taken.record.headers.present and not taken.before.won_with_headers
    return bare and restarted(taken)


def header_not_decimal(taken: Triple) -> Any:
    """A header that counts is no number."""
    headers = taken.record.headers
    return any(getattr(headers, name) == NOT_DECIMAL for name in DECIMAL)


def header_from_the_future(taken: Triple) -> Any:
    """It names an epoch, or a last record seen, that the log has not reached."""
    headers, offset = taken.record.headers, taken.record.offset
    named = [each for each in (headers.epoch, headers.seen) if each is not None]
    return any(each >= offset for each in named)


def position_set(taken: Triple) -> Any:
    """The owner is the pauser, or the record has the header."""
    pauser = taken.before.owner_instance == taken.before.pauser
    return pauser or taken.record.headers.set_position is not None


def released(taken: Triple) -> Any:
    """Neither is so."""
    return not position_set(taken)


def granted(taken: Triple) -> Any:
    """It asks for more than the position."""
    return _offset(taken) > taken.before.position


CAUSES: Final[Mapping[Verdict, Callable[[Triple], Any]]] = {
    Refused.LIVE_OWNER: live_owner,
    Refused.DOES_NOT_SUPERSEDE: does_not_supersede,
    Refused.IS_PAUSED: is_paused,
    Refused.NOBODY_OWNS: nobody_owns,
    Refused.EPOCH_MISSING: epoch_missing,
    Refused.NOT_OWNER: not_owner,
    Refused.FORGED: forged,
    Refused.SUPERSEDED: superseded,
    Refused.LOG_LOST_RECORDS: log_lost_records,
    Refused.UNKNOWN_VERSION: unknown_version,
    Refused.NOT_AHEAD: not_ahead,
    Refused.NEGATIVE_POSITION: negative_position,
    Accepted.CLAIMED: claimed,
    Accepted.RECLAIMED: reclaimed,
    Accepted.RESTARTED: restarted,
    Accepted.TOOK_OVER: took_over,
    Accepted.FAST_RECLAIMED: fast_reclaimed,
    Refused.HEADER_NOT_DECIMAL: header_not_decimal,
    Refused.HEADER_FROM_THE_FUTURE: header_from_the_future,
    Accepted.GRANTED: granted,
    Accepted.POSITION_SET: position_set,
    Accepted.RELEASED: released,
}
"""What is so where a record gets this verdict."""


def verdict_names_cause(taken: Triple) -> Any:
    """The verdict's cause is there."""
    cause = CAUSES.get(taken.verdict)
    return cause is None or cause(taken)
