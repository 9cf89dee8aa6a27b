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
    """It could not be checked."""


LOUD: Final = frozenset({CheckSeverity.ERROR, CheckSeverity.WARNING})
"""The severities that cause exit code 1."""


@frozen
class CheckFinding:
    """A fact that is wrong, or could not be checked."""

    severity: CheckSeverity
    check: str
    found: str
    endangers: str
    do: str


def unchecked(check: str, reason: str, permission: str, what: str = "the topic") -> CheckFinding:
    """A check that was not possible, and the permission that it needs."""
    return not_examined(check, reason, f"examine it as a user who has {permission} on {what}")


def not_examined(check: str, reason: str, do: str) -> CheckFinding:
    """A check that was not possible, and how to make it possible."""
    return CheckFinding(
        CheckSeverity.UNCHECKED, check, reason, "what is wrong there stays unseen", do
    )


def numbers(of: Collection[int]) -> str:
    """Sorted, in words."""
    return ", ".join(map(str, sorted(of)))


def names(of: Collection[str]) -> str:
    """The first few of them."""
    shown = sorted(of)[:5]
    return ", ".join(shown) + (f" and {len(of) - 5} more" if len(of) > 5 else "")
