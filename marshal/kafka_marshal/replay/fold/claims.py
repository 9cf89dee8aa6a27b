"""The rows of the table `claims`: the state of each claim at the end of the log.

In a log that starts in the middle, a claim may be uncertain: then its row has the certain facts,
and names the uncertain ones. This module does not know how the state was computed.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
from attrs import define

from kafka_marshal.core.claims import original
from kafka_marshal.core.claims.suffix_reader import EVERYTHING, LASTING, Field, Reader
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.state import Claim, ClaimKey, Rules, RuleSet
from kafka_marshal.replay.model.published import FinalClaimRow

_NEEDED: Final = {
    "owner_instance": Field.OWNER,
    "owner_client": Field.OWNER,
    "epoch": Field.EPOCH,
    "position": Field.POSITION,
    "position_set": Field.POSITION_SET,
    "last_heartbeat_ms": Field.OWNER | Field.CLOCK,
    "paused_by": Field.CLOCK | Field.PAUSER,
    "paused_until_ms": Field.CLOCK,
    "stale": Field.OWNER | Field.CLOCK,
    "clock_ms": Field.CLOCK,
}
"""By column, what must be certain for it to have a value."""


@define
class ClaimCount:
    """The counts of a claim's records."""

    records: int = 0
    first_offset: int = 0
    last_offset: int = 0


def claim_row(
    rules: Rules,
    key: ClaimKey,
    claim: Claim,
    count: ClaimCount,
    *,
    stale: bool,
    known_from: int | None = None,
    ranges: Ranges | None = None,
) -> FinalClaimRow:
    """The row of a certain claim: `known_from` if it was not always, `ranges` if it is shared."""
    owned = claim.owned
    if rules.rule_set is RuleSet.ORIGINAL:
        owned = original.claimed(claim, claim.clock_ms or 0, rules)
    return FinalClaimRow(
        group=key.group,
        topic=key.topic,
        topic_partition=key.topic_partition,
        owner_instance=claim.owner_instance if owned else None,
        owner_client=claim.owner_client if owned else None,
        epoch=claim.epoch,
        position=claim.position,
        position_set=_position_set(rules, claim, known_from),
        last_heartbeat_ms=claim.last_heartbeat_ms,
        paused_by=claim.pauser if claim.paused else None,
        paused_until_ms=claim.paused_until_ms if claim.paused else None,
        last_release_ms=claim.last_release_ms,
        stale=stale,
        clock_ms=claim.clock_ms,
        records=count.records,
        first_offset=count.first_offset,
        last_offset=count.last_offset,
        known_from_offset=known_from,
        **({} if ranges is None else _ranges_columns(ranges)),
    )


def _ranges_columns(ranges: Ranges) -> dict[str, Any]:
    return {
        "ranges_window": ranges.window,
        "ranges_frontier": ranges.frontier,
        "ranges_holders": len({each.instance for each in ranges.open}),
        "ranges_open": sum(each.to - each.from_ for each in ranges.open),
        "ranges_pool": sum(each.to - each.from_ for each in ranges.pool),
    }


def _position_set(rules: Rules, claim: Claim, known_from: int | None) -> bool | None:
    if rules.rule_set is RuleSet.ORIGINAL:
        return None
    # Without the head of the log it can be certain that it was set, but never that it was not.
    return claim.position_set or (False if known_from is None else None)


def uncertain_row(
    rules: Rules, key: ClaimKey, reader: Reader, count: ClaimCount, clock_ms: int
) -> FinalClaimRow:
    """The row of a claim that is uncertain at the end of the log."""
    claim, certain = reader.claim, reader.certain
    alive_ms = claim.last_heartbeat_ms
    stale = alive_ms is not None and clock_ms - alive_ms > rules.stale_after_ms
    row = claim_row(rules, key, claim, count, stale=stale)
    unknown: dict[str, Any] = {
        name: None for name, needed in _NEEDED.items() if needed not in certain
    }
    missing = (EVERYTHING & ~LASTING) & ~certain
    return attrs.evolve(row, uncertain=", ".join(sorted(missing.names)), **unknown)
