"""A commit that returned is in the log; one that failed reports what is known.

The position of its claim is beyond each message that it names, or that was given out before it.
`OutcomeUnknown` comes before its time only where nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.simulate.history import Appended, Topic
from tools.simulate.judged.claims import Judged, place

KNOWN: Final = frozenset({"taken", "paused"})
"""Why a claim is lost of which the log says how far it was."""
UNKNOWN: Final = frozenset({"log_lost_records", "uncertain"})
EARLY_S: Final = 2.5
"""Below this no commit has waited for its whole time, whatever its clock."""


def _changes(judged: Judged) -> dict[Topic, list[tuple[Appended, int]]]:
    """Of each claim every record that did something to it, and its position after that."""
    found: dict[Topic, list[tuple[Appended, int]]] = {}
    for appended, _, changes in judged.changes:
        for change in changes:
            found.setdefault(place(change), []).append((appended, change.after.claim.position))
    return found


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    committed = judged.history.committed
    changes = _changes(judged) if committed else {}
    for commit in committed:
        if judged.history.sought_by((commit.where, commit.epoch)):  # which takes back what was done
            continue
        if not any(
            position > commit.offset
            for appended, position in changes.get(commit.where, ())
            if appended.at_s <= commit.at_s and appended.offset >= commit.epoch
        ):
            yield (
                f"{commit.process}: {commit.where} {commit.offset}, epoch {commit.epoch}: its "
                f"commit has returned, and the log did not have it"
            )
    for failed in judged.history.not_committed:
        if failed.error != "OutcomeUnknown":
            continue
        known = failed.lost in KNOWN and failed.took_s < EARLY_S
        if known or (failed.calm and failed.lost not in UNKNOWN):
            yield (
                f"{failed.process}: the outcome of the commit of {failed.message} was unknown "
                f"after {failed.took_s:.1f} s, though its claim was {failed.lost or 'kept'}"
            )
