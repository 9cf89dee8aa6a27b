"""The partitions of each member of a group, computed once per generation.

Owners, tenures and releases change only with the generation. Computing them for a single member of
a large group would examine every partition each time.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_marshal.core.groups.state import Group, TopicPartition
from kafka_marshal.core.values import value


@value
class Holdings:
    """By member."""

    generation: int
    rebalanced_at: int
    to_own: Mapping[str, list[TopicPartition]]
    """By member: the partitions that it owns and need not release. Spec: ToOwn."""
    owed: Mapping[str, frozenset[TopicPartition]]
    """By member: the partitions that it owns and must release."""
    concerned_at: Mapping[str, int]
    """By member: the number of the last event that changed its partitions."""

    def must_register(self, member: str, generation: int) -> bool:
        """A member that knows the group as of this generation has something to learn.

        Spec: MustRegister.
        """
        return max(self.rebalanced_at, self.concerned_at.get(member, 0)) > generation


def holdings_of(group: Group) -> Holdings:
    """Look at each partition once."""
    to_own: dict[str, list[TopicPartition]] = {}
    owed: dict[str, list[TopicPartition]] = {}
    concerned_at: dict[str, int] = {}
    for tp, each in group.partitions.items():
        if each.owner is not None:
            (owed if each.revoking else to_own).setdefault(each.owner, []).append(tp)
            at = max(each.tenure, each.revoking, concerned_at.get(each.owner, 0))
            concerned_at[each.owner] = at
    return Holdings(
        group.generation,
        group.rebalanced_at,
        to_own,
        {member: frozenset(tps) for member, tps in owed.items()},
        concerned_at,
    )
