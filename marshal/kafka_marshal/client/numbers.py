"""Numbers that an application passes, of any type that is a number: seconds, and counts.

It does not know what they are for: the caller names the option.
"""

from __future__ import annotations

import math
import operator
from threading import TIMEOUT_MAX
from typing import SupportsFloat, SupportsIndex

from kafka_marshal.errors import InvalidOption


def number_of_seconds(option: str, given: SupportsFloat | SupportsIndex) -> float:
    """A number of seconds, which may be infinite.

    >>> from decimal import Decimal
    >>> number_of_seconds("heartbeat_interval_s", Decimal("1.5"))
    1.5

    Raises:
        InvalidOption: it is no number.
    """
    found = math.nan
    if isinstance(given, SupportsFloat | SupportsIndex):
        try:
            found = float(given)
        except OverflowError:  # an int
            found = math.inf if given > 0 else -math.inf  # type: ignore[operator]
        except (TypeError, ValueError):  # an array
            pass
    if math.isnan(found):
        raise InvalidOption(f"{option} must be a number of seconds, not {given!r:.80}")
    return found


def seconds_to_wait(option: str, given: SupportsFloat | SupportsIndex) -> float:
    """A timeout that every wait can take: centuries instead of infinity.

    >>> seconds_to_wait("timeout_s", math.inf) / (365 * 24 * 3600) > 290
    True

    Raises:
        InvalidOption: it is no number.
    """
    # First what nearly all pass: a call for each message takes one.
    if type(given) is float and given <= TIMEOUT_MAX:
        return given
    return min(number_of_seconds(option, given), TIMEOUT_MAX)


def whole_number(option: str, given: SupportsIndex, least: int = 1, most: int | None = None) -> int:
    """A whole number of any type, within these limits.

    >>> whole_number("window", 10)
    10

    Raises:
        InvalidOption: it is none, or too small or too large.
    """
    try:
        found = operator.index(given)
    except TypeError:
        found = None
    if found is None or found < least or (most is not None and found > most):
        limit = "" if most is None else f" and at most {most}"
        raise InvalidOption(
            f"{option} must be a whole number of {least} or more{limit}, not {given!r:.80}"
        )
    return found
