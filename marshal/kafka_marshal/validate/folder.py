"""A run in a folder: the log as a capture, and each instance's own record of what it did.

This room finds an order that fits all of them. It does not know what may happen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs

from kafka_marshal.capture import UnreadableSource, fields_of, record_of
from kafka_marshal.validate.reading import LOG_FILE, appended, numbered_lines, read_run
from kafka_marshal.validate.run import Appended, Content, RecordedInstance, Run, RunEvent, Sent


def read_folder(folder: Path) -> Run:
    """The events of all files in an order that fits the log.

    Instances meet only in the log, so each takes its next steps as late as the log allows: just
    before the record is appended that it sends. If any order explains the events, this one does.

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
    return Run(attrs.evolve(setting, members=members), _interleaved(log, runs))


def _interleaved(log: Path, runs: list[_PendingFile]) -> Iterator[RunEvent]:
    file_of = {name: each for each in runs for name in each.setting.members}
    for number, line in numbered_lines(log):
        where = f"{log}:{number}"
        fields = fields_of(line, where)
        landing = appended(record_of(fields, where), {"event": "appended", **fields}, where)
        if landing.record is not None:
            sender = file_of.get(landing.record.message.instance_id)
            if sender is not None:
                yield from sender.before(landing)
        yield landing
    for each in runs:
        yield from each.rest()


class _PendingFile:
    """One file, and how much of it was yielded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        run = read_run(path)
        self.setting = run.setting
        # Read twice, so that what was never sent is known without yielding all the rest for it.
        self._to_tell = Counter(event.content for event in run.events if isinstance(event, Sent))
        self._told: Counter[Content] = Counter()
        self._sent: set[Content] = set()
        """Without an idempotent producer what was sent once may land at any time, and again."""
        self._events = iter(read_run(path).events)

    def before(self, landing: Appended) -> Iterator[RunEvent]:
        """What must have happened before this record landed: all until it was sent."""
        content = landing.content
        if content in self._sent:
            return
        if self._told[content]:
            self._told[content] -= 1
        elif self._to_tell[content]:
            for event in self.rest():
                yield event
                if isinstance(event, Sent) and event.content == content:
                    self._told[content] -= 1
                    return

    def rest(self) -> Iterator[RunEvent]:
        """What was not yielded yet."""
        for event in self._events:
            if isinstance(event, Appended):
                raise UnreadableSource(f"{event.where}: what was appended belongs in {LOG_FILE}")
            if isinstance(event, Sent):
                self._to_tell[event.content] -= 1
                self._told[event.content] += 1
                if not self.setting.idempotent:
                    self._sent.add(event.content)
            yield event
