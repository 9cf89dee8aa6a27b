"""Every code a finding can have: how bad it is, which property it touches, when it is told.

Codes are stable: scripts look for them. Properties have their names in the specification.
`docs/replay.md` prints this catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"


@frozen
class Kind:
    """One code of the catalogue."""

    code: str
    severity: str
    property: str | None
    rules: str
    """`fenced`, `original`, `each` (both may tell it), or `log` (a fact of the input)."""
    meaning: str


_KINDS: Final = (
    Kind(
        "late_heartbeat_stole",
        ERROR,
        "Fenced",
        "original",
        "A heartbeat made its sender the owner of a claim that a live consumer of another client "
        "owned. If the two then go on overwriting each other, that is the same finding.",
    ),
    Kind(
        "heartbeat_without_claim",
        WARNING,
        "Fenced",
        "original",
        "A heartbeat made its sender the owner of a claim that nobody owned, or whose owner was "
        "stale, without a ClaimingPartition. A new instance of the last owner's client is the "
        "original's fast reclaim and no finding.",
    ),
    Kind(
        "late_heartbeat_refused",
        WARNING,
        "Fenced",
        "fenced",
        "An instance that had owned the claim and lost it sent heartbeats or asked for messages. "
        "They were refused: this is where the original's rules let it steal. One finding per "
        "instance and epoch.",
    ),
    Kind(
        "acts_without_owning",
        WARNING,
        "Fenced",
        "fenced",
        "An instance that never owned the claim sent heartbeats or asked for messages, and was "
        "refused. A consumer of the original does so when its own rules gave it the claim.",
    ),
    Kind(
        "unowned_release",
        WARNING,
        "Fenced",
        "each",
        "A release from somebody who does not own the claim: refused, or under `original` obeyed "
        "although nobody owned. A consumer that lost the claim to a ReleaseGroup is expected to "
        "release it, which is no finding.",
    ),
    Kind(
        "forged",
        ERROR,
        "Fenced",
        "fenced",
        "A record carries the claim's epoch but comes from another instance.",
    ),
    Kind(
        "log_lost_records",
        ERROR,
        "MonotoneEpoch",
        "fenced",
        "A record carries an epoch above the claim's: the log lost the record that won it.",
    ),
    Kind(
        "header_from_the_future",
        ERROR,
        "MonotoneEpoch",
        "fenced",
        "A record refers to an offset at or after its own: the log was cut or made anew.",
    ),
    Kind(
        "header_not_decimal", WARNING, None, "fenced", "A header that the rules read is no number."
    ),
    Kind("unknown_version", WARNING, None, "fenced", "A message of a version other than 0 and 1."),
    Kind(
        "position_moved_back",
        ERROR,
        "MonotonePosition",
        "each",
        "The position fell, and it was not the admin who set it: messages are processed again.",
    ),
    Kind(
        "pause_broken",
        ERROR,
        "PauseHolds",
        "original",
        "During a pause somebody other than the pauser won a claim before the admin was done with "
        "it, took one by a heartbeat, or went on with its own for longer than a heartbeat "
        "interval.",
    ),
    Kind(
        "pause_held",
        INFO,
        "PauseHolds",
        "fenced",
        "During a pause somebody other than the pauser tried to win or keep a claim, in vain.",
    ),
    Kind(
        "set_position_half_done",
        WARNING,
        "NeverHalfSetSilently",
        "each",
        "An admin won a claim in its pause and never set its position: its tenure ended otherwise, "
        "or it fell silent. An error if it had set other positions: they are half set. Told when "
        "somebody else pauses the group, or at the end of the log.",
    ),
    Kind(
        "two_instances_of_one_client",
        ERROR,
        "Mutex",
        "log",
        "An instance spoke again after a newer one of the same client id and group had begun to. "
        "A warning if they never spoke for the same claim.",
    ),
    Kind(
        "missed_heartbeat",
        WARNING,
        None,
        "each",
        "An owner was silent for more than one and a half heartbeat intervals and then went on. "
        "Only info if it was never silent for more than two: nobody could have taken the claim.",
    ),
    Kind(
        "unowned_too_long",
        WARNING,
        None,
        "each",
        "A claim had no live owner for more than twice the heartbeat interval, counted from its "
        "release or from when its owner became stale; a pause does not count.",
    ),
    Kind(
        "group_gone",
        INFO,
        None,
        "each",
        "At the end of the log no claim of the group has had a live owner for more than twice the "
        "heartbeat interval: the whole group was stopped.",
    ),
    Kind(
        "interval_mismatch",
        WARNING,
        None,
        "each",
        "Most heartbeats come further apart than the interval given: it is probably not the one "
        "that the consumers ran with. Silences are then not told one by one.",
    ),
    Kind(
        "sender_clock_off",
        WARNING,
        None,
        "log",
        "The median of a sender's clock against the broker's is off by more than half a heartbeat "
        "interval, and more than 2 s. Only for records that the broker stamped.",
    ),
    Kind(
        "create_time",
        WARNING,
        None,
        "log",
        "Records carry their producer's time instead of the broker's: staleness is then judged by "
        "as many clocks as there are producers.",
    ),
    Kind(
        "head_missing",
        WARNING,
        None,
        "log",
        "A coordinating partition does not begin at offset 0: claims won before are not known "
        "until they are won again.",
    ),
    Kind(
        "offset_gap",
        INFO,
        None,
        "log",
        "Offsets are missing inside. Transactions and control records leave such gaps; lost "
        "records do, too.",
    ),
    Kind(
        "duplicate_record",
        INFO,
        None,
        "log",
        "The input holds the same record more than once; it was folded once.",
    ),
    Kind(
        "conflicting_duplicate",
        ERROR,
        None,
        "log",
        "The input holds different records at one offset: a forked log, or two logs taken for "
        "one. The first was folded.",
    ),
    Kind(
        "malformed_record",
        WARNING,
        None,
        "log",
        "Values that are no message; see the table `malformed`.",
    ),
    Kind(
        "wrong_coordinating_partition",
        WARNING,
        None,
        "log",
        "A topic's records lie on another partition than its name says: other consumers do not "
        "see them. Only if the coordination topic's partition count is given.",
    ),
)

CATALOGUE: Final[Mapping[str, Kind]] = {kind.code: kind for kind in _KINDS}
"""All codes, the rules' own first, the input's last."""
