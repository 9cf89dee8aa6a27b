"""A run in a folder: the log as a capture, and each instance's recording of its actions.

This module finds an order that is consistent with all of them. It does not know which events are
allowed.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path

import attrs

from kafka_marshal.capture import UnreadableSource, fields_of, record_of
from kafka_marshal.validate.reading import LOG_FILE, appended, numbered_lines, read_run
from kafka_marshal.validate.run import (
    Appended,
    Content,
    Gap,
    Read,
    RecordedInstance,
    Run,
    RunEvent,
    Sent,
)


def read_folder(folder: Path) -> Run:
    """The events of all files in an order that is consistent with the log.

    Instances interact only through the log. So each takes its next steps as late as the log allows:
    just before the record that it sends is appended. The log's order of two coordinating partitions
    only counts until an instance has read a record of them.

    Raises:
        UnreadableSource: as `read_run`; or the files contradict each other.
    """
    log = folder / LOG_FILE
    files = sorted(path for path in folder.glob("*.jsonl") if path != log)
    if not files:
        raise UnreadableSource(f"{folder}: there is no file of events beside {LOG_FILE}")
    runs = [_PendingFile(path) for path in files]
    setting = runs[0].setting
    members: dict[str, RecordedInstance] = {}
    for each in runs:
        if attrs.evolve(each.setting, members={}) != attrs.evolve(setting, members={}):
            raise UnreadableSource(f"{each.path}:1: another setting than in {files[0].name}")
        for name, member in each.setting.members.items():
            if name in members:
                raise UnreadableSource(
                    f"{each.path}:1: field 'instances': {name!r} is in two files"
                )
            members[name] = member
    return Run(attrs.evolve(setting, members=members), _Interleaving(log, runs).events())


class _Interleaving:
    """Merges the events of all files, each after all events that it needs.

    The log does not show which of two records in different coordinating partitions came first.
    Their timestamps are from clocks that may differ, and have whole milliseconds. So a record is
    yielded early if an instance has read it.
    """

    def __init__(self, log: Path, files: Sequence[_PendingFile]) -> None:
        self._files = files
        self._file_of = {name: each for each in files for name in each.setting.members}
        self._landings = (_landing(log, *line) for line in numbered_lines(log))
        self._ahead: dict[int, deque[tuple[int, Appended]]] = defaultdict(deque)
        """By partition: log records that were read ahead and not yielded, with their index in the
        log."""
        self._numbers = count()
        self._ends: dict[int, int] = {}
        """By partition: the offset of the last record that was yielded."""

    def events(self) -> Iterator[RunEvent]:
        """Yield all events."""
        while (partition := self._oldest()) is not None:
            yield from self._land(partition)
        for each in self._files:
            yield from self._after_what_they_need(each.rest())

    def _oldest(self) -> int | None:
        """The partition whose next record is the next one of the log."""
        found = [(waiting[0][0], number) for number, waiting in self._ahead.items() if waiting]
        return min(found)[1] if found else self._look_ahead()

    def _look_ahead(self) -> int | None:
        """Read one more record of the log ahead; return its partition."""
        landing = next(self._landings, None)
        if landing is None:
            return None
        self._ahead[landing.partition].append((next(self._numbers), landing))
        return landing.partition

    def _land(self, partition: int) -> Iterator[RunEvent]:
        """Yield the next record of a partition, after everything up to its being sent."""
        _, landing = self._ahead[partition].popleft()
        self._ends[partition] = landing.offset
        sender = self._file_of.get(landing.sender or "")
        if sender is None and landing.shared is not None:
            sender = self._as_anchor(landing)
        if sender is not None:
            yield from self._after_what_they_need(sender.before(landing))
        yield landing

    def _as_anchor(self, landing: Appended) -> _PendingFile | None:
        """The file whose instance may have sent it: all participants of a claim write as anchor.

        First, one that has sent it already. Next, one that sends it before it reads a record that
        has not landed. If there is none, other coordinating partitions may be further than was
        yielded.
        """
        senders = [each for each in self._files if each.sends(landing)]
        own = {landing.partition: self._ends[landing.partition]}
        can = chain(
            (each for each in senders if each.has_sent(landing)),
            (each for each in senders if each.sends_in_time(landing, self._ends, 0)),
            (each for each in senders if each.sends_in_time(landing, own, 2**63)),
        )
        return next(can, None)

    def _after_what_they_need(self, events: Iterator[RunEvent]) -> Iterator[RunEvent]:
        for event in events:
            if isinstance(event, Read | Gap):
                # For a gap, the records within it: other instances may have read them.
                end = event.offset - isinstance(event, Gap)
                while self._ends.get(event.partition, -1) < end:
                    if self._ahead[event.partition]:
                        yield from self._land(event.partition)
                    elif self._look_ahead() is None:
                        break
            yield event


def _landing(log: Path, number: int, line: str) -> Appended:
    where = f"{log}:{number}"
    fields = fields_of(line, where)
    return appended(record_of(fields, where), {"event": "appended", **fields}, where)


class _PendingFile:
    """One file, and how much of it was yielded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        run = read_run(path)
        self.setting = run.setting
        # The file is read twice, so that records that were never sent are known without yielding
        # the rest.
        self._sends_to_come = Counter(
            event.content for event in run.events if isinstance(event, Sent)
        )
        self._sends_yielded: Counter[Content] = Counter()
        self._sent: set[Content] = set()
        """Without an idempotent producer, a sent record may land at any time, and again."""
        self._ahead: deque[RunEvent] = deque()
        """Events that were read ahead and not yielded."""
        self._events = iter(read_run(path).events)
        self._busy = False
        """Whether the events before a record are being yielded."""

    def before(self, landing: Appended) -> Iterator[RunEvent]:
        """Yield the events that must precede this record: all up to its being sent."""
        content = landing.content
        if content in self._sent:
            return
        if self._sends_yielded[content]:
            self._sends_yielded[content] -= 1
        elif self._sends_to_come[content] and not self._busy:
            # If busy, it would have read a record before it sent it: the validator reports that.
            self._busy = True
            for event in self.rest():
                yield event
                if isinstance(event, Sent) and event.content == content:
                    self._sends_yielded[content] -= 1
                    break
            self._busy = False

    def sends(self, landing: Appended) -> bool:
        """Whether it sends this in any event that is not matched with a log record yet."""
        return self.has_sent(landing) or self._sends_to_come[landing.content] > 0

    def has_sent(self, landing: Appended) -> bool:
        """Whether the events yielded so far send this."""
        content = landing.content
        return content in self._sent or self._sends_yielded[content] > 0

    def sends_in_time(self, landing: Appended, ends: Mapping[int, int], otherwise: int) -> bool:
        """Whether it sends this before it reads a record that has not landed.

        `ends` are the offsets of the last landed records, including this one. A partition that is
        not among them ends at `otherwise`.
        """
        if self._busy:
            return False
        for event in self._looked_ahead():
            if isinstance(event, Sent) and event.content == landing.content:
                return True
            if isinstance(event, Read | Gap):
                end = event.offset - isinstance(event, Gap)
                own = event.partition == landing.partition
                if end > ends.get(event.partition, otherwise - 1) - own:
                    return False
        return False

    def _looked_ahead(self) -> Iterator[RunEvent]:
        yield from list(self._ahead)
        for event in self._events:
            self._ahead.append(event)
            yield event

    def _unseen(self) -> Iterator[RunEvent]:
        while event := self._ahead.popleft() if self._ahead else next(self._events, None):
            yield event

    def rest(self) -> Iterator[RunEvent]:
        """Yield the remaining events."""
        for event in self._unseen():
            if isinstance(event, Appended):
                raise UnreadableSource(f"{event.where}: what was appended belongs in {LOG_FILE}")
            if isinstance(event, Sent):
                self._sends_to_come[event.content] -= 1
                self._sends_yielded[event.content] += 1
                if not self.setting.idempotent:
                    self._sent.add(event.content)
            yield event
