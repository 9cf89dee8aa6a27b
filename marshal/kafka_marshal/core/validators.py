"""Validators for attrs fields that hold numbers or names, each with one message.

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


def is_positive(value: Any) -> bool:
    """Whether it is a number greater than 0.

    >>> [is_positive(value) for value in (0.1, 0, float("nan"), "1")]
    [True, False, False, False]
    """
    try:
        return bool(value > 0)
    except TypeError:
        return False


def positive(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Greater than 0. Raises ValueError, also for NaN and for what is no number."""
    if not is_positive(value):
        raise ValueError(f"{attribute.name} must be greater than 0, not {value!r}")


def positive_finite(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Greater than 0 and finite. Raises ValueError, also for NaN."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{attribute.name} must be a finite number greater than 0, not {value!r}")


def not_negative(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """0 or greater. Raises ValueError."""
    if value < 0:
        raise ValueError(f"{attribute.name} must be at least 0, not {value!r}")


def is_text(name: str) -> bool:
    r"""Whether a string can be encoded as UTF-8: it has no lone surrogates.

    >>> is_text("caf\u00e9"), is_text(b"caf\xe9".decode("utf-8", "surrogateescape"))
    (True, False)
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
