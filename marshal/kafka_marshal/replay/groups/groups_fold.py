"""Folds one partition of `__marshal_groups` into rows of tables.

It takes records in offset order and returns rows. The reducer decides the effect of an event
(`core.groups.reducer.step`), and observers receive it. This module does not know Spark.

A log without its head is known from a snapshot on, as for the controllers. The position of their
claim names an accepted snapshot. Without it the fold begins at the first snapshot, and its rows are
not `certain`. If events contradict the state, or a later version's event is accepted, nothing is
known until the next snapshot.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

import attrs
from attrs import field, frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.claims.world import OutOfOrder
from kafka_marshal.core.groups.events import ControllershipSnapshot, EventRecord
from kafka_marshal.core.groups.reducer import GroupOutcome, begun_at, step, stops_reader
from kafka_marshal.core.groups.state import Controllership, is_due, wanted
from kafka_marshal.core.groups.verdicts import GroupAccepted, GroupRefused
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.group_codec.records import decode_record
from kafka_marshal.replay.findings.records.inputs import Inputs, Placed
from kafka_marshal.replay.groups.controllers import Controllerships
from kafka_marshal.replay.groups.counting import GroupCounts
from kafka_marshal.replay.groups.findings import finding, of_the_input
from kafka_marshal.replay.groups.members import Expiries, rewound, snapshot_differs
from kafka_marshal.replay.groups.ownership import PartitionOwnership, WithoutOwner
from kafka_marshal.replay.groups.rebalances import Rebalances
from kafka_marshal.replay.groups.refusals import Refusals
from kafka_marshal.replay.groups.seen import SeenEvent
from kafka_marshal.replay.groups.storms import Storms
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.groups.rows import GroupsRow
from kafka_marshal.replay.model.groups.tables import OF_GROUPS
from kafka_marshal.replay.model.phrasing import clock, times
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Row, RowT
from kafka_marshal.replay.model.tables import Rows, TableSet

ROWS_WAITING_MAX: Final = 50_000
"""As for claims: one event may produce a row for every partition of a group."""
GAP_MEANS: Final = (
    "If events were lost there, those after them name numbers that are not next, and are refused."
)


PLACED: Final = Placed("group", "its members ask the controller of that one")


@frozen
class GroupsJudging:
    """The settings for folding a log of groups: a `Judging`."""

    tables: ClassVar[TableSet] = OF_GROUPS
    keys: ClassVar[bool] = True
    collapse: ClassVar[None] = None
    gauges: ClassVar[Mapping[str, str]] = {
        "groups": "Groups.",
        "members": "Members of all groups.",
        "owned_partitions": "Partitions of groups' topics with an owner.",
        "unowned_partitions": "Wanted partitions of groups' topics without an owner.",
        "rebalances_under_way": "Groups whose last target is not what is owned, or is not written.",
    }
    log_clock: ClassVar[None] = None
    outlives_gaps: ClassVar[bool] = False
    log_begins: int | None = field(default=None)
    """The offset where the log begins, if later records were left out on purpose; None: the offset
    of the first record. If it is 0, everything is known."""
    certain_from: Mapping[int, int] = field(factory=dict)
    """For partitions without their head, the offset in the controllers' claim, where an accepted
    snapshot is. For others the first snapshot is used, uncertain."""
    coordination_partitions: int | None = field(default=None)
    """Partition count of `__marshal_groups`; None: groups' placement is not judged."""

    @property
    def options(self) -> Mapping[str, object]:
        """As `Judging`, except where an account begins: a saved one has already begun."""
        return {
            "protocol": "groups",
            "log_begins": self.log_begins,
            "coordination_partitions": self.coordination_partitions,
        }

    def without_head(self, partition: int) -> str:
        """As `LiveJudging`."""
        at = self.certain_from.get(partition)
        if at is None:
            return (
                "what its groups were before is taken from the first snapshot, which the log alone "
                "does not prove"
            )
        return (
            f"what its groups were is known from offset {at} on, which the controllers' claim names"
        )

    def of_topic(self, partitions: int) -> GroupsJudging:
        """As `LiveJudging`."""
        if self.coordination_partitions is not None:
            return self
        return attrs.evolve(self, coordination_partitions=partitions)

    def begin(self, place: LogPartition) -> GroupsFold:
        """As `Judging`."""
        return GroupsFold(place, self)


class GroupsFold:
    """The books of one partition of `__marshal_groups`.

    Feed records in offset order, drain rows whenever convenient, close at the end and drain again.
    """

    def __init__(self, place: LogPartition, judging: GroupsJudging | None = None) -> None:
        self._place = place
        self._judging = judging or GroupsJudging()
        self._certain_from = self._judging.certain_from.get(place.coordinating_partition)
        self._rows = Rows()
        self._inputs = Inputs(self._judging.coordination_partitions, GAP_MEANS, PLACED)
        self._state: Controllership | None = None
        """None: not known."""
        self._certain = True
        self._unknown = 0
        """The number of events that cannot be judged."""
        self._last_offset = -1
        self._clock_ms: int | None = None
        self._first: SeenEvent | None = None
        """The event from which an incomplete log is known."""
        self._head_missing = False
        self._log_first = 0
        self._ownership = PartitionOwnership()
        self._rebalances = Rebalances()
        self._without_owner = WithoutOwner(self._rebalances.unowned)
        self._controllers = Controllerships()
        self._refusals = Refusals(self._controllers)
        self._expiries = Expiries()
        self._storms = Storms()
        self._counts = GroupCounts(self._rebalances, self._without_owner)

    @property
    def state(self) -> Controllership | None:
        """The state after the events so far; None if it cannot be known."""
        return self._state

    @property
    def is_certain(self) -> bool:
        """No event contradicts the state, and no unproved snapshot is behind it."""
        return self._state is not None and self._certain

    def feed(self, raw: RawRecord) -> None:
        """The next record.

        Raises:
            OutOfOrder: its offset is below one already fed.
        """
        if raw.offset < self._last_offset:
            raise OutOfOrder(
                f"{self._place.log}: partition {raw.partition}, offset {raw.offset} after "
                f"{self._last_offset}"
            )
        if self._clock_ms is None:
            self._begin(raw)
        self._inputs.observe(raw)
        self._clock_ms = max(raw.timestamp_ms, self._clock_ms or raw.timestamp_ms)
        if raw.offset == self._last_offset:
            return  # the input holds it twice; the first one counts
        self._last_offset = raw.offset
        try:
            record = decode_record(
                raw.partition, raw.offset, raw.timestamp_ms, raw.key, raw.value, raw.headers
            )
        except MalformedRecord as error:
            self._emit(self._inputs.malformed(raw, error))
            return
        if record.group:
            self._inputs.about(record.group, raw)
        if self._state is None:
            self._wait_for_snapshot(raw, record)
        else:
            self._judge(raw, record, self._state, self._clock_ms)

    def _begin(self, raw: RawRecord) -> None:
        begins = self._judging.log_begins
        self._log_first = raw.offset if begins is None else begins
        self._head_missing = self._log_first > 0
        if not self._head_missing:
            self._state = Controllership()

    # --- what is not known ------------------------------------------------------------------------

    def _wait_for_snapshot(self, raw: RawRecord, record: EventRecord) -> None:
        """The state is not known: it is, from the first snapshot on that may be believed."""
        event, at = record.event, self._certain_from
        believed = at is None or record.offset >= at
        fenced = NOT_DECIMAL not in (record.epoch, record.number)
        if not (isinstance(event, ControllershipSnapshot) and fenced and believed):
            self._unknown += 1
            return
        self._state = begun_at(record, event)
        self._certain = at is not None and record.offset == at
        assert self._clock_ms is not None
        outcome = GroupOutcome(self._state, GroupAccepted.SNAPSHOT_TAKEN)
        seen = SeenEvent(raw, record, self._clock_ms, Controllership(), outcome)
        self._first = self._first or seen.kept
        self._controllers.begin(self._state, seen)

    def _contradicts(self, seen: SeenEvent) -> bool:
        """Whether an event shows that an uncertain state differs from the controllers' state.

        Snapshots of all groups must follow the one of the controllership directly; and a higher
        epoch is one whose start this reader has refused.
        """
        if self._certain:
            return False
        missing = seen.refused is GroupRefused.NO_SUCH_GROUP
        return missing or seen.refused is GroupRefused.NEVER_STARTED

    def _forget(self, seen: SeenEvent) -> None:
        """Nothing is known from this event on."""
        self._state = None
        self._unknown += 1
        self._emit_all(self._ownership.forget(seen))
        self._emit_all(self._without_owner.forget(seen, seen.was.groups))
        self._emit_all(self._rebalances.forget(seen.clock_ms))
        self._emit_all(self._controllers.forget(seen))

    # --- what is known ----------------------------------------------------------------------------

    def _judge(
        self, raw: RawRecord, record: EventRecord, state: Controllership, clock_ms: int
    ) -> None:
        outcome = step(state, record)
        seen = SeenEvent(raw, record, clock_ms, state, outcome)
        if stops_reader(state, record):
            self._later_version(seen)
            self._head_missing = True
            self._forget(seen)
            return
        if self._contradicts(seen):
            self._forget(seen)
            return
        due = [*self._rebalances.due_since()] if seen.accepted is GroupAccepted.STARTED else ()
        self._emit_all(self._controllers.observe(seen, due))
        self._emit_all(self._refusals.observe(seen))
        self._emit_all(self._without_owner.observe(seen))
        self._emit_all(self._ownership.observe(seen))
        self._emit_all(self._rebalances.observe(seen))
        self._emit_all(self._storms.observe(seen))
        self._emit_all(self._expiries.observe(seen))
        self._emit_all(self._counts.observe(seen))
        for row in (rewound(seen), snapshot_differs(seen)):
            if row is not None:
                self._emit(row)
        self._state = outcome.controllership

    def _later_version(self, seen: SeenEvent) -> None:
        event = seen.record.event
        self._emit(
            finding(
                "later_version",
                f"{event.name} of version {event.version} at offset {seen.offset} "  # type: ignore[union-attr]
                f"({clock(seen.clock_ms)}) counts, and this version does not know what it does. "
                f"From there on nothing is known, up to the next snapshot.",
                [seen],
                group=seen.name or None,
            )
        )

    # --- the end ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """As `PlaceFold`: nothing waits for the next record."""

    def forked(self, raw: RawRecord) -> None:
        """As `PlaceFold`."""
        self._inputs.forked(raw)

    def close(self) -> None:
        """The log is over."""
        if self._clock_ms is None:
            return
        groups = {} if self._state is None else self._state.groups
        due = [*self._rebalances.due_since()]
        self._emit_all(self._without_owner.at_the_end(self._clock_ms, groups))
        self._emit_all(self._ownership.at_the_end())
        self._emit_all(self._rebalances.at_the_end(self._clock_ms))
        self._emit_all(self._controllers.at_the_end(self._clock_ms, due))
        self._emit_all(self._refusals.at_the_end())
        self._emit_all(self._storms.at_the_end())
        self._emit_all(self._counts.at_the_end())
        if self._head_missing:
            self._emit_all(self._not_known())
        self._emit_all(self._inputs.at_the_end())
        counted = self._inputs.partition_row()
        if counted.create_time:
            sentence = (
                f"{counted.create_time:,} of {times(counted.records, 'record')} carry CreateTime, "
                f"their controllers' clocks: how long anything took is measured by those."
            )
            self._emit(of_the_input("create_time", sentence, [], counted.create_time))
        self._emit(counted)

    def _not_known(self) -> Iterator[Row]:
        """Yield findings about unknown state: no head of the log, or events of a later version."""
        head = (
            f"Partition {self._place.coordinating_partition} of the log begins at offset "
            f"{self._log_first}. "
            if self._log_first > 0
            else ""
        )
        unknown = f"{times(self._unknown, 'event')} could not be judged. "
        if self._first is None:
            at = self._certain_from
            which = (
                "" if at is None else f" from offset {at} on, which the controllers' claim names"
            )
            told = f"No snapshot lies in it{which}, so nothing of its groups is known."
            proofs: list[SeenEvent] = []
        else:
            proofs = [self._first]
            told = (
                f"The state is taken from the snapshot at offset {self._first.offset} "
                f"({clock(self._first.clock_ms)})"
            )
            told += (
                ", which the controllers' claim names: from there on it is certain."
                if self._certain_from == self._first.offset
                else ". That it was accepted the log alone does not prove."
            )
        if self._state is None and self._first is not None:
            told += " When the log ends, nothing is known any more."
        sentence = f"{head}{unknown if self._unknown else ''}{told}"
        yield of_the_input("state_not_known", sentence, proofs, self._unknown)

    def begun(self) -> Iterator[FindingRow]:
        """Yield the findings that began since the last call, in their current state."""
        groups = {} if self._state is None else self._state.groups
        clock_ms = self._clock_ms or 0
        for row in itertools.chain(
            self._inputs.begun(),
            self._controllers.begun(),
            self._refusals.begun(),
            self._without_owner.begun(clock_ms, groups),
            self._rebalances.begun(),
            self._storms.begun(),
        ):
            yield self._placed(row)

    @property
    def waiting(self) -> int:
        """As `LiveAccount`."""
        return len(self._rows)

    def gauges(self) -> tuple[int, ...]:
        """As `LiveAccount`."""
        groups = () if self._state is None else self._state.groups.values()
        free = [sum(group.partitions[tp].owner is None for tp in wanted(group)) for group in groups]
        owned = [
            sum(each.owner is not None for each in group.partitions.values()) for group in groups
        ]
        moving = sum(
            is_due(group) or any(each.owner != each.target for each in group.partitions.values())
            for group in groups
        )
        members = sum(len(group.members) for group in groups)
        return len(groups), members, sum(owned), sum(free), moving

    @property
    def is_full(self) -> bool:
        """Whether rows should be drained before the next record: many wait."""
        return len(self._rows) > ROWS_WAITING_MAX

    def drain(self) -> Rows:
        """The rows since the last time."""
        rows, self._rows = self._rows, Rows()
        return rows

    def _emit_all(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._emit(row)

    def _emit(self, row: Row) -> None:
        self._rows.add(self._placed(row))

    def _placed(self, row: RowT) -> RowT:
        """Fill in the place of the fold. The row is new, and not used otherwise."""
        fill = object.__setattr__
        fill(row, "log", self._place.log)
        fill(row, "coordinating_partition", self._place.coordinating_partition)
        if isinstance(row, GroupsRow):
            fill(row, "certain", self._certain)
        return row
