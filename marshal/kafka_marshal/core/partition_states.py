"""The states of one coordinating partition, by group and key, and a group's initial state.

A record about one key changes that key's state. A record about a group changes every state of the
group, and the newborn: the initial state of the group's later keys. This module knows which states
a record reaches. It knows neither records nor states, nor the effect of a record on a state: it
stores claims, readers' knowledge of claims and instances' machines alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic, Protocol, Self, TypeVar, TypeVarTuple

from kafka_marshal.core.values import value


class Key(Protocol):
    """The key of a state."""

    @property
    def group(self) -> str:
        """The group that the key belongs to."""


K = TypeVar("K", bound=Key)
S = TypeVar("S")
V = TypeVar("V")
Given = TypeVarTuple("Given")


@value
class Stepped(Generic[K, S, V]):
    """One state before and after a record, and the verdict."""

    key: K
    before: S
    after: S
    verdict: V


class PartitionStates(Generic[K, S]):
    """A map from key to state. A state is never None.

    >>> from kafka_marshal import ClaimKey
    >>> states = PartitionStates[ClaimKey, int](0)
    >>> states.put(ClaimKey("g", "t", 0), 5)
    >>> newborn, [stepped] = states.step_group("g", lambda state: (state + 1, "more"))
    >>> newborn, stepped.before, stepped.after
    ('more', 5, 6)
    >>> states[ClaimKey("g", "t", 1)]
    1
    """

    # Without slots `PartitionStates[K, S](...)` keeps its type arguments, and a pickle of it, too.
    __slots__ = ("_groups", "_newborn", "beginning")

    def __init__(self, beginning: S) -> None:
        """Begin with no keys.

        Args:
            beginning: the state of a key before any record about it or its group.
        """
        self.beginning = beginning
        self._groups: dict[str, dict[K, S]] = {}
        self._newborn: dict[str, S] = {}

    def __getitem__(self, key: K) -> S:
        """The state of a key; before its first record, its group's newborn."""
        name = key.group
        group = self._groups.get(name)
        state = None if group is None else group.get(key)
        return self._newborn.get(name, self.beginning) if state is None else state

    def newborn(self, group: str) -> S:
        """The state of a key of this group without records of its own."""
        return self._newborn.get(group, self.beginning)

    def group(self, group: str) -> Mapping[K, S]:
        """The states of one group's keys, in order of first sight."""
        return MappingProxyType(self._groups.get(group, {}))

    def all(self) -> dict[K, S]:
        """The states of every key, in order of first sight within its group."""
        return {key: state for group in self._groups.values() for key, state in group.items()}

    def put(self, key: K, state: S) -> None:
        """Set the state of a key that is known from elsewhere."""
        group = self._groups.get(key.group)
        if group is None:
            group = self._groups[key.group] = {}
        group[key] = state

    def put_newborn(self, group: str, state: S) -> None:
        """Set the initial state of the later keys of a group."""
        self._newborn[group] = state

    def copy(self) -> Self:
        """An independent copy of these states."""
        copied = type(self)(self.beginning)
        copied._groups = {name: dict(group) for name, group in self._groups.items()}
        copied._newborn = dict(self._newborn)
        return copied

    def begun_anew(self, beginning: S, after: Callable[[S], S]) -> Self:
        """The states after a loss of records: `after(state)` is each key's state.

        Every group begins again: the effects of records about a single group are forgotten.
        """
        anew = type(self)(beginning)
        anew._groups = {
            name: {key: after(state) for key, state in group.items()}
            for name, group in self._groups.items()
        }
        return anew

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionStates):
            return NotImplemented
        mine = self.all(), self._newborn, self.beginning
        return mine == (other.all(), other._newborn, other.beginning)

    def forget(self, key: K) -> None:
        """Remove a key.

        Raises:
            KeyError: it had no record of its own.
        """
        del self._groups[key.group][key]

    def step(
        self, key: K, step: Callable[[S, *Given], tuple[S, V]], *given: *Given
    ) -> tuple[S, S, V]:
        """Apply a record about one key: `step(state, *given)` judges it.

        Returns:
            The state before, the state after, and the verdict.
        """
        # Every record of a log comes here, so nothing is asked twice.
        name = key.group
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = {}
        before = group.get(key)
        if before is None:
            before = self._newborn.get(name, self.beginning)
        after, verdict = step(before, *given)
        group[key] = after
        return before, after, verdict

    def step_group(
        self, group: str, step: Callable[[S, *Given], tuple[S, V]], *given: *Given
    ) -> tuple[V, list[Stepped[K, S, V]]]:
        """Apply a record about a whole group: `step(state, *given)` judges it for each state.

        Returns:
            The verdict on the newborn, and the effect of the record on every known key.
        """
        self._newborn[group], verdict = step(self.newborn(group), *given)
        states, stepped = self._groups.get(group, {}), []
        for key, before in states.items():
            states[key], of_key = step(before, *given)
            stepped.append(Stepped(key, before, states[key], of_key))
        return verdict, stepped
