"""The controllers of a partition: deposed ones, competing ones, and times without one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from kafka_marshal.core.groups.events import ControllerStarted
from kafka_marshal.core.groups.state import Controllership
from kafka_marshal.core.groups.verdicts import GroupAccepted, GroupRefused
from kafka_marshal.replay.groups.findings import PROOFS_MAX, finding
from kafka_marshal.replay.groups.seen import SeenEvent
from kafka_marshal.replay.model.groups.rows import ControllershipRow
from kafka_marshal.replay.model.phrasing import clock, span, times
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Row

ABSENT_SESSIONS: Final = 1
"""For how many session timeouts a rebalance may be due while nothing is written."""
EPOCHS_MAX: Final = 200
"""The number of controllerships for which late events are counted; those of earlier ones are
not."""

FREE_AFTER_MS: Final = 2_000
"""The claim of a live controller is free no sooner than after two intervals of 1 s. A controller
that takes over sooner was granted the claim, or does not see it."""
RETURNS: Final = 2
"""How often in a row a controller must return that soon. A single time may be a granted claim."""


@define
class _Epoch:
    """One controllership."""

    epoch: int
    controller: int | None
    host: str | None
    port: int
    began: str
    from_offset: int
    from_ms: int
    events: int
    last_offset: int
    last_ms: int
    ended: str = "open"
    to_offset: int | None = None
    to_ms: int | None = None
    refused: int = 0
    refused_late: int = 0
    refused_last_ms: int | None = None
    late: list[SeenEvent] = field(factory=list)
    """The first events that arrived after it was deposed."""
    last_late: SeenEvent | None = None
    ended_by: SeenEvent | None = None


@define
class _Alternation:
    """Starts by other controllers, each soon after the one before."""

    by: dict[int, str]
    """The addresses of the last controllers, including the one before the first start."""
    starts: list[SeenEvent]
    """The first of them."""
    last: SeenEvent
    count: int = 1
    returns: int = 0
    """How often a controller returned."""


class _Alternations:
    """Detects controllers that take a partition from each other."""

    def __init__(self) -> None:
        self._now: _Alternation | None = None
        self._controller: tuple[int, str] | None = None
        self._fresh = False
        """It became a finding with the last event."""

    def begins(self, state: Controllership) -> tuple[int, str]:
        """A controller is known, perhaps from a snapshot: its id and its address."""
        assert state.controller_id is not None
        self._controller = state.controller_id, f"{state.host}:{state.port}"
        return self._controller

    def started(self, state: Controllership, seen: SeenEvent) -> Iterator[Row]:
        """A controller starts; the finding that is over."""
        before, here = self._controller, self.begins(state)
        self._fresh = False
        if before is not None and before[0] == here[0]:
            return  # it begins anew
        now, seen = self._now, seen.kept
        if now is None or seen.clock_ms - now.last.clock_ms >= FREE_AFTER_MS:
            yield from self.at_the_end()
            known = {} if before is None else dict([before])
            self._now = _Alternation({**known, here[0]: here[1]}, [seen], seen)
            return
        now.count, now.last = now.count + 1, seen
        if now.by.pop(here[0], None) is not None:
            now.returns += 1
            self._fresh = now.returns == RETURNS
        now.by[here[0]] = here[1]
        if len(now.by) > PROOFS_MAX:
            del now.by[next(iter(now.by))]
        if len(now.starts) < PROOFS_MAX - 1:
            now.starts.append(seen)

    def begun(self) -> Iterator[FindingRow]:
        """Yield the finding that began with the last event, once."""
        fresh, self._fresh = self._fresh, False
        if fresh:
            yield from self.at_the_end()

    def at_the_end(self) -> Iterator[FindingRow]:
        """The finding, if it is one."""
        now = self._now
        if now is None or now.returns < RETURNS:
            return
        first, last = now.starts[0], now.last
        proofs = now.starts if last in now.starts else [*now.starts, last]
        who = " and ".join(f"{number} at {where}" for number, where in now.by.items())
        yield finding(
            "controllers_alternate",
            f"Controllers {who} took the partition from each other {times(now.count, 'time')} in "
            f"{span(last.clock_ms - first.clock_ms)}, from offset {first.offset} "
            f"({clock(first.clock_ms)}) to offset {last.offset}, each within "
            f"{span(FREE_AFTER_MS)} after the one before had begun.",
            proofs,
            count=now.count,
        )


class Controllerships:
    """The epochs of one partition of the log."""

    def __init__(self) -> None:
        self._epochs: dict[int, _Epoch] = {}
        self._current: _Epoch | None = None
        self._last: SeenEvent | None = None
        """The last accepted event."""
        self._fresh: _Epoch | None = None
        """The epoch whose first late event was the last event."""
        self._alternations = _Alternations()

    def controller_of(self, epoch: int) -> int | None:
        """The controller of an epoch; None if its start was not seen."""
        known = self._epochs.get(epoch)
        return None if known is None else known.controller

    def begin(self, state: Controllership, seen: SeenEvent) -> None:
        """The state is known from a snapshot on."""
        self._begin(state, seen, "snapshot")
        self._alternations.begins(state)

    def observe(self, seen: SeenEvent, due: Iterable[tuple[str, SeenEvent]]) -> Iterator[Row]:
        """Count an event; yield the findings about a late start. `due` is the state before it."""
        self._fresh = None
        if seen.accepted is None:
            self._refused(seen)
            return
        if seen.accepted is GroupAccepted.STARTED:
            yield from self._absent(seen, due)
            self._end(seen, "deposed")
            self._begin(seen.outcome.controllership, seen, "started")
            yield from self._alternations.started(seen.outcome.controllership, seen)
            if len(self._epochs) > EPOCHS_MAX:
                yield from _rows_of(self._epochs.pop(min(self._epochs)))
        elif self._current is not None:
            self._current.events += 1
            self._current.last_offset = seen.offset
            self._current.last_ms = seen.clock_ms
        self._last = seen

    def _begin(self, state: Controllership, seen: SeenEvent, began: str) -> None:
        self._current = self._epochs[state.epoch] = _Epoch(
            epoch=state.epoch,
            controller=state.controller_id,
            host=state.host,
            port=state.port,
            began=began,
            from_offset=seen.offset,
            from_ms=seen.clock_ms,
            events=1,
            last_offset=seen.offset,
            last_ms=seen.clock_ms,
        )

    def _end(self, seen: SeenEvent | None, ended: str) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.ended, current.ended_by = ended, None if seen is None else seen.kept
            if seen is not None:
                current.to_offset, current.to_ms = seen.offset, seen.clock_ms

    def forget(self, seen: SeenEvent) -> Iterator[Row]:
        """The state is not known any more: the findings that are over."""
        self._end(seen, "unknown")
        self._last = None
        yield from self._alternations.at_the_end()
        self._alternations = _Alternations()

    def _refused(self, seen: SeenEvent) -> None:
        epoch = self._epochs.get(seen.record.epoch)
        if epoch is None or isinstance(seen.record.event, ControllerStarted):
            return
        epoch.refused += 1
        if seen.refused is GroupRefused.DEPOSED:
            seen = seen.kept
            self._fresh = None if epoch.late else epoch
            epoch.refused_late += 1
            epoch.refused_last_ms = seen.clock_ms
            epoch.last_late = seen
            if len(epoch.late) < PROOFS_MAX - 2:
                epoch.late.append(seen)

    def _absent(self, seen: SeenEvent, due: Iterable[tuple[str, SeenEvent]]) -> Iterator[Row]:
        """Groups of which a rebalance was due while nothing was written, until this start."""
        if self._last is None:
            return
        for name, since in due:
            group = seen.was.groups.get(name)
            if group is None:
                continue
            waited_ms = seen.clock_ms - self._last.clock_ms
            if waited_ms > ABSENT_SESSIONS * group.session_timeout_ms:
                yield self._absent_row(name, since, waited_ms, seen, group.session_timeout_ms)

    def _absent_row(
        self, name: str, since: SeenEvent, waited_ms: int, seen: SeenEvent | None, session_ms: int
    ) -> Row:
        last = self._last
        assert last is not None
        who = "nobody" if self._current is None else f"controller {self._current.controller}"
        until = (
            "the log ends"
            if seen is None or not isinstance(seen.record.event, ControllerStarted)
            else f"controller {seen.record.event.controller_id} started at offset {seen.offset}"
        )
        return finding(
            "controller_absent",
            f"A rebalance of group {name} was due since offset {since.offset} "
            f"({clock(since.clock_ms)}), and for {span(waited_ms)} after offset {last.offset} "
            f"nothing was written to this partition of the log, until {until}. Its controller was "
            f"{who}; a session timeout is {span(session_ms)}.",
            [
                since,
                *([last] if last.offset != since.offset else []),
                *([seen] if seen is not None else []),
            ],
            group=name,
        )

    def at_the_end(self, clock_ms: int, due: Iterable[tuple[str, SeenEvent]]) -> Iterator[Row]:
        """The rows of all epochs, and the findings about deposed and missing controllers."""
        if self._last is not None:
            groups = self._last.outcome.controllership.groups
            for name, since in due:
                waited_ms = clock_ms - self._last.clock_ms
                group = groups.get(name)
                if group is not None and waited_ms > ABSENT_SESSIONS * group.session_timeout_ms:
                    yield self._absent_row(name, since, waited_ms, None, group.session_timeout_ms)
        yield from self._alternations.at_the_end()
        for epoch in self._epochs.values():
            yield from _rows_of(epoch)

    def begun(self) -> Iterator[FindingRow]:
        """Yield the finding that began with the last event, once."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            yield _deposed(fresh)
        yield from self._alternations.begun()


def _rows_of(epoch: _Epoch) -> Iterator[Row]:
    yield ControllershipRow(
        epoch=epoch.epoch,
        controller=epoch.controller,
        host=epoch.host,
        port=epoch.port,
        began=epoch.began,
        from_offset=epoch.from_offset,
        from_ms=epoch.from_ms,
        ended=epoch.ended,
        to_offset=epoch.to_offset,
        to_ms=epoch.to_ms,
        events=epoch.events,
        last_offset=epoch.last_offset,
        last_ms=epoch.last_ms,
        refused=epoch.refused,
        refused_late=epoch.refused_late,
        refused_last_ms=epoch.refused_last_ms,
    )
    if epoch.late:
        yield _deposed(epoch)


def _deposed(epoch: _Epoch) -> FindingRow:
    first, last, by = epoch.late[0], epoch.last_late, epoch.ended_by
    assert last is not None
    proofs = [*([by] if by is not None else []), *epoch.late]
    if last is not proofs[-1]:
        proofs.append(last)
    taken = ""
    if by is not None and isinstance(by.record.event, ControllerStarted):
        taken = (
            f" after controller {by.record.event.controller_id} had taken over at offset "
            f"{by.offset} ({clock(by.clock_ms)}), the last one "
            f"{span(last.clock_ms - by.clock_ms)} later"
        )
    return finding(
        "deposed_controller",
        f"Controller {epoch.controller} at {epoch.host}:{epoch.port} wrote "
        f"{times(epoch.refused_late, 'event')} of its epoch {epoch.epoch}{taken}. "
        f"{'It was' if epoch.refused_late == 1 else 'All were'} refused.",
        proofs,
        member=str(epoch.controller),
        client=f"controller {epoch.host}:{epoch.port}",
        count=epoch.refused_late,
        place=first,
    )
