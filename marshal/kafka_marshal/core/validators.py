"""What a number or a name may be: validators of attrs fields, each with one message.

This room does not know what the numbers count.

>>> @attrs.frozen
... class Patience:
...     pause_ms: int = attrs.field(validator=positive)
>>> Patience(0)
Traceback (most recent call last):
ValueError: pause_ms must be greater than 0, not 0
"""

from __future__ import annotations

import math
from typing import Any

import attrs


def positive(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """More than nothing. Raises ValueError."""
    if value <= 0:
        raise ValueError(f"{attribute.name} must be greater than 0, not {value!r}")


def positive_finite(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """More than nothing, and an end to it. Raises ValueError, also for what is not a number."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{attribute.name} must be a finite number greater than 0, not {value!r}")


def not_negative(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Nothing, or more. Raises ValueError."""
    if value < 0:
        raise ValueError(f"{attribute.name} must be at least 0, not {value!r}")


def is_text(name: str) -> bool:
    r"""Whether it has no lone surrogates, which no bytes of UTF-8 stand for.

    >>> is_text("caf\u00e9"), is_text(b"caf\xe9".decode("utf-8", "surrogateescape"))
    (True, False)
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
