"""A third protocol, as small as one can be: how many records each key has in a partition."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Final

import attrs
from attrs import frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.replay.findings.records.inputs import Inputs
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.rows import Row, Table
from kafka_marshal.replay.model.tables import FINDINGS, MALFORMED, PARTITIONS, Rows, TableSet


@frozen(kw_only=True)
class KeyRow(Row):
    """Records of one key in one partition."""

    key: str
    records: int


KEYS: Final = Table("keys", KeyRow, ("log", "coordinating_partition", "key"))


class KeyFold:
    """As `PlaceFold`."""

    is_full = False

    def __init__(self, place: LogPartition) -> None:
        self._place, self._inputs = place, Inputs(None)
        self._counts: Counter[str] = Counter()
        self._ended = Rows()

    def feed(self, raw: RawRecord) -> None:
        self._inputs.observe(raw)
        self._counts[(raw.key or b"").decode()] += 1

    def settle(self) -> None:
        pass

    def forked(self, raw: RawRecord) -> None:
        self._inputs.forked(raw)

    def close(self) -> None:
        rows: list[Row] = [KeyRow(key=key, records=n) for key, n in self._counts.items()]
        rows += [*self._inputs.at_the_end(), self._inputs.partition_row()]
        self._ended = Rows(attrs.evolve(row, **attrs.asdict(self._place)) for row in rows)

    def drain(self) -> Rows:
        ended, self._ended = self._ended, Rows()
        return ended


@frozen
class KeyJudging:
    """As `Judging`."""

    tables: ClassVar[TableSet] = TableSet((KEYS, FINDINGS, MALFORMED), (PARTITIONS,))
    keys: ClassVar[bool] = True
    collapse: ClassVar[None] = None

    @property
    def options(self) -> dict[str, object]:
        return {"counts": "keys"}

    def begin(self, place: LogPartition) -> KeyFold:
        return KeyFold(place)
