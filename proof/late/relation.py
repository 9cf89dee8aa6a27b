"""What ties a late reader to the full fold.

Code over both claims after the same record. RELATION holds when a reader begins anywhere, and after
every record that honest senders write: so all that a reader calls certain is exact, for any log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from attrs import frozen

from kafka_marshal import Claim, Rules
from kafka_marshal.core.claims.suffix_reader import EVERYTHING, Field, Reader


@frozen(eq=False)
class State:
    """The full fold and a reader, after the same records."""

    full: Claim
    reader: Reader
    rules: Rules


Conjunct: TypeAlias = Callable[[State], Any]


def certain(reader: Reader, field: Field) -> bool:
    """It is a set of symbols, or all of it is certain."""
    return field in reader.certain


def owner_exact(state: State) -> Any:
    """Who owns, and whether it won with headers."""
    full, claim = state.full, state.reader.claim
    if not certain(state.reader, Field.OWNER):
        return True
    if full.last_heartbeat_ms is None:
        return (
            claim.last_heartbeat_ms is None
            and claim.owner_instance is None
            and claim.owner_client is None
            and not claim.won_with_headers
        )
    return (
        claim.last_heartbeat_ms is not None
        and claim.owner_instance == full.owner_instance
        and claim.owner_client == full.owner_client
        and claim.won_with_headers == full.won_with_headers
    )


def epoch_exact(state: State) -> Any:
    """The epoch."""
    return not certain(state.reader, Field.EPOCH) or same(
        state.full.epoch, state.reader.claim.epoch
    )


def position_exact(state: State) -> Any:
    """The position."""
    exact = state.reader.claim.position == state.full.position
    return not certain(state.reader, Field.POSITION) or exact


def clock_exact(state: State) -> Any:
    """The clock, and the owner's last sign of life where the owner is certain."""
    full, claim = state.full, state.reader.claim
    if not certain(state.reader, Field.CLOCK):
        return True
    return claim.clock_ms == full.clock_ms and same(claim.last_heartbeat_ms, full.last_heartbeat_ms)


def pause_exact(state: State) -> Any:
    """Where the clock is certain: whether a pause is in force, and when it ends."""
    full, claim = state.full, state.reader.claim
    if not certain(state.reader, Field.CLOCK):
        return True
    if claim.paused_until_ms is None or not claim.clock_ms < claim.paused_until_ms:
        return full.paused_until_ms is None or not full.clock_ms < full.paused_until_ms
    return full.paused_until_ms is not None and full.paused_until_ms == claim.paused_until_ms


def pauser_exact(state: State) -> Any:
    """Who sent the latest ReleaseGroup."""
    return not certain(state.reader, Field.PAUSER) or same(
        state.full.pauser, state.reader.claim.pauser
    )


def position_set_exact(state: State) -> Any:
    """Whether anybody ever set the position."""
    exact = state.reader.claim.position_set == state.full.position_set
    return not certain(state.reader, Field.POSITION_SET) or exact


def same(one: Any, other: Any) -> Any:
    """Both are None, or both are equal."""
    if one is None or other is None:
        return one is None and other is None
    return one == other


def pause_is_cut(state: State) -> Any:
    """PausesEnd: no pause of the log reaches beyond the longest one from now."""
    until_ms = state.full.paused_until_ms
    return until_ms is None or until_ms <= state.full.clock_ms + state.rules.pause_max_ms


def certain_of_an_owner(state: State) -> Any:
    """Where the owner is not certain, only what lasts is."""
    reader = state.reader
    if certain(reader, Field.OWNER):
        return True
    return not any(certain(reader, each) for each in (Field.EPOCH, Field.POSITION, Field.CLOCK))


def owner_has_certain_epoch(state: State) -> Any:
    """Where somebody certainly owns, under which epoch is certain, too."""
    reader = state.reader
    if not certain(reader, Field.OWNER) or reader.claim.last_heartbeat_ms is None:
        return True
    return certain(reader, Field.EPOCH)


def position_is_below(state: State) -> Any:
    """Where the owner is certain the reader's position is a lower bound, and an offset."""
    claim = state.reader.claim
    if not certain(state.reader, Field.OWNER):
        return True
    return claim.position >= 0 and claim.position <= state.full.position


def clock_is_below(state: State) -> Any:
    """The reader's clock is never ahead of the true one."""
    return state.reader.claim.clock_ms <= state.full.clock_ms


def clock_is_bounded(state: State) -> Any:
    """ClockBounded: the true clock is at most the reader's, or at most the head's."""
    reader = state.reader
    if reader.head_ms is None:
        return True
    return state.full.clock_ms <= max(reader.claim.clock_ms, reader.head_ms)


def pauses_end(state: State) -> Any:
    """A pause ends when the reader thinks, or when one of the head does, or is over."""
    reader, until_ms = state.reader, state.full.paused_until_ms
    if until_ms is None or reader.head_ms is None:
        return True
    claim = reader.claim
    if until_ms <= reader.head_ms + state.rules.pause_max_ms or until_ms <= claim.clock_ms:
        return True
    return claim.paused_until_ms is not None and until_ms <= claim.paused_until_ms


def unpaused_is_right(state: State) -> Any:
    """Where the owner is certain and the reader has no pause, there is none in force."""
    reader, full = state.reader, state.full
    if not certain(reader, Field.OWNER) or reader.claim.paused_until_ms is not None:
        return True
    return full.paused_until_ms is None or full.paused_until_ms <= full.clock_ms


def pauser_was_read(state: State) -> Any:
    """The reader has a pauser, or a pause, only of a ReleaseGroup that it has read."""
    claim = state.reader.claim
    if claim.pauser is None:
        return claim.paused_until_ms is None
    return certain(state.reader, Field.PAUSER)


def owner_is_not_paused(state: State) -> Any:
    """Where somebody certainly owns, the pause that the reader has is over."""
    reader = state.reader
    if not certain(reader, Field.OWNER) or reader.claim.last_heartbeat_ms is None:
        return True
    until_ms = reader.claim.paused_until_ms
    return until_ms is None or until_ms <= reader.claim.clock_ms


def set_is_right(state: State) -> Any:
    """What the reader takes for set was set."""
    return not state.reader.claim.position_set or state.full.position_set


def never_set_is_of_all(state: State) -> Any:
    """Only who knows all of the log can be certain that nobody set the position."""
    reader = state.reader
    if reader.claim.position_set or not certain(reader, Field.POSITION_SET):
        return True
    return certain(reader, EVERYTHING)


def epoch_was_won(state: State) -> Any:
    """An epoch that the reader has was won, and not after the claim's."""
    epoch, won = state.reader.claim.epoch, state.full.epoch
    return epoch is None or (won is not None and epoch <= won)


def alive_is_bounded(state: State) -> Any:
    """Where the owner is not certain: it lived last when the reader thinks, or in the head."""
    reader, alive_ms = state.reader, state.full.last_heartbeat_ms
    if alive_ms is None or reader.head_ms is None or certain(reader, Field.OWNER):
        return True
    return alive_ms <= reader.head_ms or (
        reader.alive_ms is not None and alive_ms <= reader.alive_ms
    )


def reached_is_passed(state: State) -> Any:
    """Under the guessed epoch, while it lasts, the position is at least as far as was sent."""
    reader, full = state.reader, state.full
    if certain(reader, Field.OWNER) or reader.reached is None or full.last_heartbeat_ms is None:
        return True
    if reader.claim.epoch is None or full.epoch is None or reader.claim.epoch != full.epoch:
        return True
    return reader.reached <= full.position


EXACT: Final[Mapping[str, Conjunct]] = {
    "OwnerExact": owner_exact,
    "EpochExact": epoch_exact,
    "PositionExact": position_exact,
    "ClockExact": clock_exact,
    "PauseExact": pause_exact,
    "PauserExact": pauser_exact,
    "PositionSetExact": position_set_exact,
}
"""SuffixExact, field by field."""

RELATION: Final[Mapping[str, Conjunct]] = {
    **EXACT,
    "PauseIsCut": pause_is_cut,
    "CertainOfAnOwner": certain_of_an_owner,
    "OwnerHasCertainEpoch": owner_has_certain_epoch,
    "PositionIsBelow": position_is_below,
    "ClockIsBelow": clock_is_below,
    "ClockIsBounded": clock_is_bounded,
    "PausesEnd": pauses_end,
    "UnpausedIsRight": unpaused_is_right,
    "PauserWasRead": pauser_was_read,
    "OwnerIsNotPaused": owner_is_not_paused,
    "SetIsRight": set_is_right,
    "NeverSetIsOfAll": never_set_is_of_all,
    "EpochWasWon": epoch_was_won,
    "AliveIsBounded": alive_is_bounded,
    "ReachedIsPassed": reached_is_passed,
}
"""With what carries it. Assumed before a record, and proved after it."""
