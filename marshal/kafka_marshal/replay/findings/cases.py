"""A case: a finding that is still open, and collects records until it is over.

This module counts and stores evidence. It does not know the meaning of any code; the observer that
opens a case also supplies the function that writes its sentence. A replay may be saved in the
middle and resumed. So that function must be picklable: a function of a module with its arguments
(`functools.partial`), never a closure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

from attrs import define, field

from kafka_marshal.core.state import ClaimKey, Rules
from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.model.events import JudgedRecord
from kafka_marshal.replay.model.published import FindingRow

PROOFS_MAX: Final = 8
"""The most records to show for one finding: the background, the first few, and the last."""


@define
class Case:
    """One open finding: its records, and the background records that explain it."""

    code: str
    group: str | None
    topic: str | None
    topic_partition: int | None
    instance: str | None
    client: str | None
    sentence: Callable[[Case], str]
    """Writes the sentence when the finding is over. It must be picklable."""
    background: list[JudgedRecord] = field(factory=list)
    severity: str | None = None
    """None: as in the catalogue."""
    count: int = 0
    first: JudgedRecord | None = None
    last: JudgedRecord | None = None
    worst_ms: int = 0
    """The longest silence, for findings about silences."""
    kinds: dict[str, int] = field(factory=dict)
    """The number of records of each type."""
    _proofs: list[JudgedRecord] = field(factory=list)

    @classmethod
    def about(
        cls,
        code: str,
        key: ClaimKey,
        sender: tuple[str, str],
        sentence: Callable[[Case], str],
        background: list[JudgedRecord],
    ) -> Case:
        """A case about one claim and one sender (instance, client)."""
        return cls(code, key.group, key.topic, key.topic_partition, *sender, sentence, background)

    def add(self, sighting: JudgedRecord) -> None:
        """Add a record to the finding."""
        self.count += 1
        self.first = self.first or sighting
        self.last = sighting
        kind = type(sighting.message).__name__
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if len(self._proofs) < PROOFS_MAX - 1:
            self._proofs.append(sighting)

    def add_many(self, count: int, sighting: Callable[[int], JudgedRecord]) -> None:
        """Add records of one type; `sighting` returns each by its number, from 0 on."""
        first = min(count - 1, max(0, PROOFS_MAX - 1 - len(self._proofs)))
        for number in range(first):
            self.add(sighting(number))
        last = sighting(count - 1)
        self.add(last)
        self.count += count - first - 1
        self.kinds[type(last.message).__name__] += count - first - 1

    @property
    def first_seen(self) -> JudgedRecord:
        """The first record of the finding."""
        assert self.first is not None
        return self.first

    @property
    def last_seen(self) -> JudgedRecord:
        """The last record of the finding."""
        assert self.last is not None
        return self.last

    def row(self) -> FindingRow:
        """The finding as a row."""
        kind = CATALOGUE[self.code]
        first, last = self.first_seen, self.last_seen
        background = self.background[: PROOFS_MAX // 2]
        shown = {s.offset: s for s in (*background, *self._proofs)}
        while len(shown) >= PROOFS_MAX and last.offset not in shown:
            shown.popitem()
        shown[last.offset] = last
        return FindingRow(
            code=self.code,
            severity=self.severity or kind.severity,
            property=kind.property,
            group=self.group,
            topic=self.topic,
            topic_partition=self.topic_partition,
            offset=first.offset,
            timestamp_ms=first.raw.timestamp_ms,
            last_offset=last.offset,
            last_timestamp_ms=last.raw.timestamp_ms,
            count=self.count,
            instance=self.instance,
            client=self.client,
            sentence=self.sentence(self),
            records=tuple(shown[offset].row() for offset in sorted(shown)),
        )


class Cases:
    """The open cases of one observer, by a name that distinguishes them."""

    def __init__(self, as_yet: Callable[[Case, Rules], FindingRow] | None = None) -> None:
        """`as_yet` returns the row of a case that is not over, if it differs from the final one."""
        self._as_yet = as_yet
        self._open: dict[Hashable, Case] = {}
        self._by_key: dict[ClaimKey, set[Hashable]] = {}
        self._ready: list[FindingRow] = []
        self._begun = 0
        """How many were opened since the last call of `begun`."""

    def add(
        self,
        name: Hashable,
        key: ClaimKey | None,
        sighting: JudgedRecord,
        opened: Callable[[], Case],
    ) -> Case:
        """Add a record to the case of that name, opening it if there is none."""
        case = self._open.get(name)
        if case is None:
            case = self._open[name] = opened()
            self._begun += 1
            if key is not None:
                self._by_key.setdefault(key, set()).add(name)
        case.add(sighting)
        return case

    def __iter__(self) -> Iterator[Case]:
        """The open cases, in the order in which they were opened."""
        return iter(self._open.values())

    def begun(self, rules: Rules) -> Iterator[FindingRow]:
        """The cases that were opened since the last call, in their current state."""
        count, self._begun = self._begun, 0
        # Asked of every observer after every record: mostly there are none.
        return self._newest(count, rules) if count else iter(())

    def _newest(self, count: int, rules: Rules) -> Iterator[FindingRow]:
        for case in list(itertools.islice(reversed(self._open.values()), count))[::-1]:
            yield case.row() if self._as_yet is None else self._as_yet(case, rules)

    def close(self, key: ClaimKey) -> None:
        """The findings about one claim are over."""
        for name in self._by_key.pop(key, ()):
            self._ready.append(self._open.pop(name).row())

    def drain(self) -> Iterable[FindingRow]:
        """The findings that are over. Called after every record; mostly there are none."""
        ready = self._ready
        if ready:
            self._ready = []
        return ready

    def at_the_end(self) -> Iterator[FindingRow]:
        """All remaining findings: the log is over."""
        yield from self.drain()
        for case in self:
            yield case.row()
        self._open.clear()
