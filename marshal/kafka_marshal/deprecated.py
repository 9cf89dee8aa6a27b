"""The methods, properties and options of 0.1.0 that have been renamed since.

Each warns, and the next release drops it.

Modules and classes that have other names are in `runtime`.
"""

import warnings
from collections.abc import Callable
from functools import update_wrapper, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def old_method(old: str, method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """A method under its old name; where a subclass overrides the method, it calls that one."""
    new = method.__name__

    def called(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        _warn(old, new)
        found: T = getattr(self, new)(*args, **options)
        return found

    return update_wrapper(called, method)


def old_property(old: str, new: str) -> property:
    """A property under its old name."""

    def read(self: Any) -> Any:
        _warn(old, new)
        return getattr(self, new)

    return property(read)


def old_option(old: str, given: T | None, new: str, value: T) -> T:
    """The value of an option that can be given under its old name."""
    if given is None:
        return value
    _warn(old, new, stacklevel=4)
    return given


def old_field(old: str, new: str) -> Callable[[type[S]], type[S]]:
    """Decorate a class of attrs: it is made and read under the old name of a field, too."""

    def decorated(cls: type[S]) -> type[S]:
        init = cls.__init__

        @wraps(init)
        def renaming(self: S, *args: Any, **options: Any) -> None:
            if old in options:
                _warn(old, new)
                options[new] = options.pop(old)
            init(self, *args, **options)

        cls.__init__ = renaming  # type: ignore[method-assign, assignment]
        setattr(cls, old, old_property(old, new))
        return cls

    return decorated


def _warn(old: str, new: str, stacklevel: int = 3) -> None:
    warnings.warn(f"{old} is called {new} now", DeprecationWarning, stacklevel=stacklevel)
