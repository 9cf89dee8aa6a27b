"""The result of one check. It does not know what is checked."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final

from attrs import frozen


class CheckSeverity(Enum):
    """How bad a finding is. The value is the name in output."""

    ERROR = "error"
    """The guarantees do not hold."""
    WARNING = "warning"
    """They hold until something else breaks."""
    NOTE = "note"
    """Worth knowing."""
    UNCHECKED = "unchecked"
    """Nobody could look."""


LOUD: Final = frozenset({CheckSeverity.ERROR, CheckSeverity.WARNING})
"""What exit code 1 is for."""


@frozen
class CheckFinding:
    """One thing that is not as it should be, or that nobody could look at."""

    severity: CheckSeverity
    check: str
    found: str
    endangers: str
    do: str


def unchecked(check: str, reason: str, permission: str, what: str = "the topic") -> CheckFinding:
    """What could not be looked at, and the permission that it takes."""
    return CheckFinding(
        CheckSeverity.UNCHECKED,
        check,
        reason,
        "what is wrong there stays unseen",
        f"examine it as a user who has {permission} on {what}",
    )


def numbers(of: Collection[int]) -> str:
    """Sorted, in words."""
    return ", ".join(map(str, sorted(of)))


def names(of: Collection[str]) -> str:
    """The first few of them."""
    shown = sorted(of)[:5]
    return ", ".join(shown) + (f" and {len(of) - 5} more" if len(of) > 5 else "")
