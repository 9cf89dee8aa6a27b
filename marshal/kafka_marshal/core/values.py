"""`value`: attrs classes whose instances nobody changes, checked before the run and not in it.

attrs guards a frozen class at every construction, which takes longer than the fields themselves,
and a fold is mostly construction. To mypy a `value` is `attrs.frozen`: an assignment to one of its
fields is an error. At run time it is a class with slots and a hash. Source: "Zero-overhead frozen
attrs classes", Tin Tvrtković.

This room knows no class that is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import frozen as value
else:
    import functools

    import attrs

    value = functools.partial(attrs.define, unsafe_hash=True)

__all__ = ["value"]
