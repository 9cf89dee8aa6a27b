"""Sessions: how long each member was silent while a controller was listening (G4).

This module decides nothing: `partition` writes the expirations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from kafka_marshal.core.groups.state import Group, TopicPartition
from kafka_marshal.machines.groups.controller import MemberKey

TICK_MS: Final = 100
"""How often a server is to be ticked."""
LATE_MS: Final = 2 * TICK_MS
"""A longer time between two ticks is a pause of the process, in milliseconds."""
SILENT, UNRELEASED = "silent", "unreleased"
"""Why a member expires, in MemberExpired. For a member that released nothing, the silence is the
time in which its requests did not count."""


@define(eq=False)
class ListeningClock:
    """Counts the milliseconds in which this process listened.

    A stalled process receives nothing, so at most two ticks count between two inputs. The clock
    never runs faster than time, so an expired member was really silent for that long.
    """

    listened_ms: int = 0
    now_ms: int = 0
    """When the last input came."""

    def passed(self, now_ms: int) -> None:
        """An input came."""
        self.listened_ms += max(0, min(now_ms - self.now_ms, LATE_MS))
        self.now_ms = max(now_ms, self.now_ms)


@define(eq=False)
class Sessions:
    """When each member of a partition's groups sent a request, and since when it owes a release."""

    clock: ListeningClock
    _heard: dict[MemberKey, int] = field(factory=dict)
    """When its last request came, in listened milliseconds."""
    _owes: dict[MemberKey, tuple[int, frozenset[TopicPartition]]] = field(factory=dict)
    """What each member must release, and since when it has released nothing."""

    def restart(self, members: Iterable[MemberKey]) -> None:
        """This process begins to listen: everybody has a whole session."""
        self._heard = dict.fromkeys(members, self.clock.listened_ms)
        self._owes = {}

    def heard(self, key: MemberKey, at_ms: int) -> None:
        """A request that came then, in listened milliseconds, prolongs the session."""
        self._heard[key] = max(at_ms, self._heard.get(key, at_ms))

    def silent_ms(self, key: MemberKey) -> int:
        """How long a member was silent while this process listened, in milliseconds."""
        return self.clock.listened_ms - self._heard.setdefault(key, self.clock.listened_ms)

    def owing(self, group: str, owed: dict[str, frozenset[TopicPartition]]) -> None:
        """Set what each member of a group must release, by the log.

        A member that releases a part has another rebalance timeout for the rest.
        """
        for key in [key for key in self._owes if key.group == group and key.member not in owed]:
            del self._owes[key]
        for member, now in owed.items():
            key = MemberKey(group, member)
            since, before = self._owes.get(key, (self.clock.listened_ms, now))
            if not before <= now:
                since = self.clock.listened_ms
            self._owes[key] = since, now

    def is_muted(self, key: MemberKey, timeout_ms: int) -> bool:
        """G10: it lives, and has let nothing go for a rebalance timeout.

        It is answered no more until it does: then it stops by its own clock, and may be given up.
        """
        since, _ = self._owes.get(key, (self.clock.listened_ms, None))
        return self.clock.listened_ms - since >= timeout_ms

    def overdue(self, name: str, group: Group) -> Iterator[tuple[str, str]]:
        """The members to give up, and why. The rebalance timeout is the session timeout."""
        timeout_ms = group.session_timeout_ms
        for member in group.members:
            key = MemberKey(name, member)
            if self.silent_ms(key) >= timeout_ms:
                yield member, UNRELEASED if self.is_muted(key, timeout_ms) else SILENT

    def forget(self, key: MemberKey) -> None:
        """It is no member any more."""
        self._heard.pop(key, None)
        self._owes.pop(key, None)
