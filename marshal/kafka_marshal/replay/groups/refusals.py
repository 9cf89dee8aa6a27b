"""Refused events and refused commits: whose they were, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import define, field

from kafka_marshal.core.groups.events import Reconciled
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.core.groups.verdicts import GroupRefused, OfAPosition
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.replay.groups.controllers import Controllerships
from kafka_marshal.replay.groups.findings import PROOFS_MAX, finding, member_name
from kafka_marshal.replay.groups.seen import SeenEvent
from kafka_marshal.replay.model.groups.rows import RefusedEventRow
from kafka_marshal.replay.model.phrasing import clock, times
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Row

STORIES_MAX: Final = 500
"""The most open findings. If there are more, the one that was unchanged for longest is closed."""

_ZOMBIE: Final = (OfAPosition.NOT_OWNER, OfAPosition.OTHER_TENURE)
_REFUSED_POSITIONS: Final = (*_ZOMBIE, OfAPosition.UNKNOWN_PARTITION)
_FENCES: Final = {
    GroupRefused.MALFORMED: "event_without_fence",
    GroupRefused.NEVER_STARTED: "log_lost_events",
    GroupRefused.OUT_OF_NUMBER: "out_of_number",
}
_ORDINARY: Final = (
    GroupRefused.DEPOSED,  # a finding of `controllers`
    GroupRefused.NOT_THE_EPOCH,  # of two that compete, one loses
    GroupRefused.UNKNOWN_VERSION,
)


@define
class _Story:
    """Refusals that are one finding."""

    group: str | None
    member: str | None
    client: str | None
    proofs: list[SeenEvent] = field(factory=list)
    count: int = 0
    last: SeenEvent | None = None
    first_at: tuple[TopicPartition, OfAPosition] | None = None

    def add(self, seen: SeenEvent) -> None:
        """Add one event."""
        seen = seen.kept
        self.count += 1
        self.last = seen
        if len(self.proofs) < PROOFS_MAX - 1:
            self.proofs.append(seen)

    @property
    def shown(self) -> list[SeenEvent]:
        """The first few and the last."""
        last = [] if self.last is None or self.last is self.proofs[-1] else [self.last]
        return [*self.proofs, *last]


class Refusals:
    """Refused events and positions of one partition of the log."""

    def __init__(self, controllers: Controllerships) -> None:
        self._controllers = controllers
        self._stories: dict[tuple[object, ...], _Story] = {}
        """In order of their last change."""
        self._fresh: list[tuple[object, ...]] = []
        """The names of those that began with the last event."""

    def observe(self, seen: SeenEvent) -> Iterator[Row]:
        """Yield the rows of refused events, and the findings that are over."""
        self._fresh.clear()
        if seen.refused is not None:
            yield self._row(seen)
            code = _FENCES.get(seen.refused)
            if code is not None:
                self._story((code, seen.record.epoch), seen, None).add(seen)
            elif seen.refused not in _ORDINARY:
                self._story(("controller_mistake", seen.name), seen, None).add(seen)
            yield from self._too_many()
            return
        event = seen.record.event
        if not isinstance(event, Reconciled):
            return
        for tp, verdict in seen.outcome.positions.items():
            if verdict in _REFUSED_POSITIONS:
                yield self._row(seen, tp, verdict)
            if verdict in _ZOMBIE:
                story = self._story(("zombie_commit", seen.name, event.member), seen, event.member)
                story.add(seen)
                story.first_at = story.first_at or (tp, verdict)
        yield from self._too_many()

    def _story(self, name: tuple[object, ...], seen: SeenEvent, member: str | None) -> _Story:
        story = self._stories.pop(name, None)
        if story is None:
            client = None if member is None else seen.client
            story = _Story(seen.name or None, member, client)
            self._fresh.append(name)
        self._stories[name] = story
        return story

    def _too_many(self) -> Iterator[Row]:
        while len(self._stories) > STORIES_MAX:
            name = next(iter(self._stories))
            yield _row_of(name, self._stories.pop(name))

    def begun(self) -> Iterator[FindingRow]:
        """Yield the findings that began with the last event, once."""
        fresh, self._fresh = self._fresh, []
        for name in fresh:
            if name in self._stories:
                yield _row_of(name, self._stories[name])

    def _row(
        self,
        seen: SeenEvent,
        tp: TopicPartition | None = None,
        verdict: OfAPosition | None = None,
    ) -> RefusedEventRow:
        record, event = seen.record, seen.record.event
        at = event.positions[tp] if isinstance(event, Reconciled) and tp is not None else None
        group = seen.before
        partition = None if group is None or tp is None else group.partitions.get(tp)
        return RefusedEventRow(
            group=record.group or None,
            offset=seen.offset,
            timestamp_ms=seen.clock_ms,
            type=type(event).__name__,
            verdict=(verdict or seen.verdict).value,
            epoch=None if record.epoch == NOT_DECIMAL else record.epoch,
            number=None if record.number == NOT_DECIMAL else record.number,
            controller=self._controllers.controller_of(record.epoch),
            current_epoch=seen.was.epoch,
            expected_number=seen.was.number + 1,
            member=seen.member,
            client=seen.client,
            topic=None if tp is None else tp.topic,
            topic_partition=None if tp is None else tp.partition,
            position=None if at is None else at.offset,
            tenure=None if at is None else at.tenure,
            owner=None if partition is None else partition.owner,
            owner_tenure=None if partition is None else partition.tenure,
        )

    def at_the_end(self) -> Iterator[Row]:
        """The findings."""
        for name, story in self._stories.items():
            yield _row_of(name, story)


def _row_of(name: tuple[object, ...], story: _Story) -> FindingRow:
    code = name[0]
    assert isinstance(code, str)
    return finding(
        code,
        _zombie(story) if code == "zombie_commit" else _refused(code, story),
        story.shown,
        group=story.group,
        member=story.member,
        client=story.client,
        at=story.first_at[0] if story.first_at is not None else None,
        count=story.count,
    )


def _zombie(story: _Story) -> str:
    seen = story.proofs[0]
    event, group = seen.record.event, seen.before
    assert isinstance(event, Reconciled)
    assert group is not None
    assert story.first_at is not None
    tp, verdict = story.first_at
    at, partition = event.positions[tp], group.partitions[tp]
    who = (
        "nobody"
        if partition.owner is None
        else member_name(partition.owner, seen.client_of(partition.owner))
    )
    why = (
        f"it owned it anew since, under tenure {partition.tenure}"
        if verdict is OfAPosition.OTHER_TENURE
        else f"{who} owned it"
    )
    more = (
        f" In all {times(story.count, 'position')} of it were refused." if story.count > 1 else ""
    )
    return (
        f"{member_name(story.member, story.client)} committed position {at.offset:,} of "
        f"{tp.topic}/{tp.partition} of group {story.group} under tenure {at.tenure} at offset "
        f"{seen.offset} ({clock(seen.clock_ms)}), but {why}. It was refused.{more}"
    )


def _refused(code: str, story: _Story) -> str:
    seen = story.proofs[0]
    what = (
        f"{times(story.count, 'event')} {'was' if story.count == 1 else 'were'} refused, the first "
        f"at offset {seen.offset} ({clock(seen.clock_ms)}): {type(seen.record.event).__name__}"
    )
    match code:
        case "event_without_fence":
            return f"{what} without a decimal marshal-epoch or marshal-number."
        case "log_lost_events":
            return (
                f"{what} of epoch {seen.record.epoch}, which never began here; the epoch is "
                f"{seen.was.epoch}."
            )
        case "out_of_number":
            copy = " It may be a copy." if seen.record.number <= seen.was.number else ""
            return (
                f"{what} with number {seen.record.number}, where {seen.was.number + 1} was "
                f"next.{copy}"
            )
        case _:
            guard = seen.verdict.value.replace("_", " ")
            return (
                f"{what} of group {story.group}: {guard}. Its controller was current and in turn."
            )
