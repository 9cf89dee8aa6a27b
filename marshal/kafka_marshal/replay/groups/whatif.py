"""`--what-if strategy=NAME`: how many moves another strategy would have saved.

The other strategy computes every target of a group again, each from the one before it. The recorded
targets are compared with each other in the same way. A partition moves if a member owned it, that
member still exists, and the target names another one.

Members join and leave as in the log. With other moves, they might have behaved differently.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from attrs import frozen

from kafka_marshal.core.groups.assignment import STRATEGIES, Strategy, Target
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.model.groups.rows import TargetRow


@frozen
class _Wants:
    """A member's wish, in the form of a strategy's input."""

    topics: frozenset[str]
    static: Mapping[tuple[str, int], int]


@frozen
class MovesOfRebalance:
    """One rebalance under both."""

    offset: int
    timestamp_ms: int
    written: int
    """Moves of the target that was written."""
    instead: int
    """Moves of the other strategy's."""


@frozen
class WhatIfStrategy:
    """One group under another strategy."""

    log: str
    group: str
    strategy: str
    """That of its last target."""
    instead: str
    rebalances: tuple[MovesOfRebalance, ...]
    largest_share: tuple[int, int]
    """The most partitions that one member ever had, as written and under the other."""

    @property
    def moves(self) -> tuple[int, int]:
        """All moves, as written and under the other strategy."""
        return (
            sum(each.written for each in self.rebalances),
            sum(each.instead for each in self.rebalances),
        )

    @property
    def saved(self) -> int:
        """Moves that the other strategy would have saved; below 0 it needs more."""
        written, instead = self.moves
        return written - instead

    @property
    def sentence(self) -> str:
        """The answer."""
        written, instead = self.moves
        return (
            f"Group {self.group}: {len(self.rebalances):,} rebalances moved {written:,} partitions "
            f"from one member to another under {self.strategy}; under {self.instead} they would "
            f"have moved {instead:,}. The largest share of a member was {self.largest_share[0]:,}, "
            f"and would have been {self.largest_share[1]:,}."
        )

    def json(self) -> dict[str, object]:
        """Its part of `summary.json`."""
        written, instead = self.moves
        return {
            "log": self.log,
            "group": self.group,
            "strategy": self.strategy,
            "instead": self.instead,
            "rebalances": len(self.rebalances),
            "moves": written,
            "moves_instead": instead,
            "moves_saved": self.saved,
            "largest_share": self.largest_share[0],
            "largest_share_instead": self.largest_share[1],
        }


def what_if(targets: Iterable[TargetRow], strategy: str) -> list[WhatIfStrategy]:
    """The result of another strategy for the rebalances of every group, by log and group.

    Raises:
        InvalidOption: there is no such strategy.
    """
    if strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise InvalidOption(f"--what-if strategy must be one of {known}, not {strategy!r}")
    by_group: dict[tuple[str, int, str], list[TargetRow]] = defaultdict(list)
    for row in targets:
        by_group[row.log, row.coordinating_partition, row.group].append(row)
    return [
        _group(sorted(rows, key=lambda row: row.offset), strategy)
        for _, rows in sorted(by_group.items())
    ]


def _group(rows: list[TargetRow], strategy: str) -> WhatIfStrategy:
    make = STRATEGIES[strategy]
    written = _Chain()
    instead = _Chain()
    found = []
    for row in rows:
        target = {(each.topic, each.partition): each.member or "" for each in row.target}
        moved = written.step(row, target)
        moved_instead = instead.step(row, _made(make, row, instead.owners(row)))
        found.append(MovesOfRebalance(row.offset, row.timestamp_ms, moved, moved_instead))
    return WhatIfStrategy(
        log=rows[0].log,
        group=rows[0].group,
        strategy=rows[-1].strategy,
        instead=strategy,
        rebalances=tuple(found),
        largest_share=(written.largest_share, instead.largest_share),
    )


def _made(make: Strategy, row: TargetRow, owners: Mapping[tuple[str, int], str]) -> Target:
    return make(_wishes(row), {each.topic: each.count for each in row.topics}, owners)


def _wishes(row: TargetRow) -> dict[str, _Wants]:
    return {
        each.member: _Wants(
            frozenset(each.topics), {(p.topic, p.partition): p.number for p in each.static}
        )
        for each in row.members
    }


class _Chain:
    """A sequence of targets, each computed from the assignment of the one before it."""

    def __init__(self) -> None:
        self._target: Target = {}
        self.largest_share = 0

    def owners(self, row: TargetRow) -> Target:
        """The assignment before a target: that of the last one, restricted to existing members.

        A member that left and joined again since then got its partitions back when it joined.
        """
        counts = {each.topic: each.count for each in row.topics}
        there = {each.member for each in row.members}
        return {
            (topic, partition): member
            for (topic, partition), member in self._target.items()
            if partition < counts.get(topic, 0) and member in there
        }

    def step(self, row: TargetRow, target: Target) -> int:
        """Add the next target; return the number of partitions that it moves."""
        moves = sum(target.get(place, owner) != owner for place, owner in self.owners(row).items())
        self._target = target
        self.largest_share = max([self.largest_share, *Counter(target.values()).values()])
        return moves
