"""A folded log whose rows this process keeps, and queries on them.

Rows beyond `ROWS_BYTES_MAX` are in files. A query reads a table batch by batch, so its memory
depends on the number of claims and not on that of records.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from kafka_marshal.replay.findings.catalogue import ERROR, WARNING
from kafka_marshal.replay.fold.jobs import check_counts
from kafka_marshal.replay.model.folded_log import (
    CLAIM,
    COUNTED,
    MEASURES,
    PROOF_COLUMN,
    ROWS_PER_FILE,
    ClaimName,
    CountedClaim,
    CountedFindings,
    DivergencesOfLog,
    FindingsAt,
    HeatSpans,
    Held,
    OwnershipDifference,
    Parting,
    in_order,
    order_in_claim,
    write_nothing,
)
from kafka_marshal.replay.model.rows import RowT, Table, arrow_rows
from kafka_marshal.replay.model.tables import (
    CLAIMS,
    DIVERGENCES,
    FINDINGS,
    LANES,
    TENURES,
    Rows,
    TableSet,
)
from kafka_marshal.replay.one_process.sorted_table import SortedTable, row_groups
from kafka_marshal.replay.one_process.sorting import (
    Sorter,
    SpillFolder,
    read_stream,
    sorted_rows,
    write_stream,
)
from kafka_marshal.replay.places import parquet_writer

ROWS_BYTES_MAX: Final = 256 << 20
"""Bytes of rows that wait in memory to be sorted, at most."""
_MOST: Final = ("records", "tenures", "takeovers", "unowned_ms")
"""The counts of a claim; with two rule sets, the larger number is used."""
_Stored: TypeAlias = dict[str, Any]
"""Columns of a row, in the form that Arrow returns."""
_Name: TypeAlias = tuple[Any, ...]
"""A claim and a rule set, which is None if the rules themselves are changed."""


class GatheredRows:
    """Rows from accounts, stored as Arrow. A context manager that removes its files."""

    def __init__(self, tables: TableSet) -> None:
        self._tables = tables
        self._folder = SpillFolder()
        self._sorters = {
            table.name: Sorter(_schema(table), table.order, self._folder) for table in tables
        }

    def __enter__(self) -> Self:
        self._folder.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.__exit__(*error)

    def add(self, drained: Rows) -> None:
        """Some more."""
        for table, rows in drained.stored(self._tables):
            self.add_stored(table.name, rows)

    def add_lines(self, lines: pa.RecordBatch) -> None:
        """The rows of a batch in the schema of the tables."""
        for table in self._tables:
            rows = lines.column(table.name).drop_null()
            if len(rows):
                self.add_stored(table.name, rows.cast(table.arrow_type))

    def add_stored(self, name: str, rows: pa.StructArray) -> None:
        """Add rows of a table, in the form that `arrow_rows` returns."""
        self._add(name, pa.RecordBatch.from_struct_array(rows))

    def add_streams(self, folder: Path) -> None:
        """Add the rows of all files that `write_streams` wrote there, and remove the files."""
        for path in sorted(folder.iterdir()):
            for batch in read_stream(path):
                self._add(path.suffix[1:], batch)

    def write_streams(self, path: Path) -> None:
        """A file for each table that has rows, named after `path` and the table."""
        for name, sorter in self._sorters.items():
            if sorter.rows:
                write_stream(path.with_name(f"{path.name}.{name}"), sorter.schema, sorter.batches())

    def _add(self, name: str, rows: pa.RecordBatch) -> None:
        self._sorters[name].add(rows)
        if self.bytes_held > ROWS_BYTES_MAX:
            max(self._sorters.values(), key=attrgetter("bytes_held")).spill()

    @property
    def bytes_held(self) -> int:
        """How much of all of them is in memory."""
        return sum(sorter.bytes_held for sorter in self._sorters.values())

    def tables(self) -> dict[str, SortedTable]:
        """All of them, by name; they are no longer here then."""
        return {
            name: SortedTable.of(sorter, self._folder) for name, sorter in self._sorters.items()
        }

    def write(self, path: Path) -> None:
        """A file in the schema of the tables."""
        schema = self._tables.schema
        with parquet_writer(path, schema) as file:
            for name, sorter in self._sorters.items():
                for rows in row_groups(sorter.batches()):
                    columns = [
                        rows.combine_chunks().to_struct_array()
                        if table.name == name
                        else pa.nulls(rows.num_rows, table.arrow_type)
                        for table in self._tables
                    ]
                    file.write_table(pa.Table.from_arrays(columns, schema=schema))


@frozen
class LocalFoldedLog:
    """As `Fold`."""

    tables: Mapping[str, SortedTable]

    @classmethod
    def of(cls, gathered: GatheredRows) -> LocalFoldedLog:
        """The folded log of these rows.

        Raises:
            UnreadableSource: no coordinating partition was folded.
        """
        fold = cls(gathered.tables())
        check_counts(fold.counts)
        return fold

    @property
    def counts(self) -> Mapping[str, int]:
        """As `Fold`."""
        return {name: rows.num_rows for name, rows in self.tables.items()}

    @property
    def findings_counted(self) -> list[CountedFindings]:
        """As `Fold`."""
        counted: Counter[_Name] = Counter(
            tuple(row.values()) for row in self._rows(FINDINGS, *COUNTED)
        )
        return in_order(
            CountedFindings(log, rules, code, severity, count)
            for (log, rules, code, severity), count in counted.items()
        )

    def collect(self, *wanted: Table[Any]) -> Rows:
        """As `Fold`."""
        return Rows(row for table in wanted for row in self.each(table))

    def collect_claims(self, wanted: Sequence[Table[Any]], names: Collection[ClaimName]) -> Rows:
        """As `Fold`."""
        return Rows(
            row
            for table in wanted
            for batch in self._of_claims(table, names)
            for row in table.rows(batch.to_pylist())
        )

    def _of_claims(
        self, table: Table[Any], names: Collection[ClaimName]
    ) -> Iterator[pa.RecordBatch]:
        """The rows about these claims, findings without proofs."""
        chosen = set(names)
        if not chosen:
            return
        left_out = PROOF_COLUMN if table is FINDINGS else None
        columns = [each.name for each in table.columns if each.name != left_out]
        of_columns = zip(CLAIM, map(set, zip(*chosen, strict=True)), strict=True)
        types = _schema(table)
        likely = {
            name: pa.array(of_claims, types.field(name).type) for name, of_claims in of_columns
        }
        for rows in self.tables[table.name].batches(columns):
            # Of a million claims, few are candidates, and each single one is checked in Python.
            found = [pc.is_in(rows.column(name), values) for name, values in likely.items()]
            batch = rows.filter(functools.reduce(pc.and_, found))
            claims = zip(*(batch.column(name).to_pylist() for name in CLAIM), strict=True)
            yield batch.filter(pa.array([claim in chosen for claim in claims], pa.bool_()))

    def first(self, table: Table[RowT], limit: int, *, worst: bool = False) -> list[RowT]:
        """As `Fold`."""
        found: list[list[_Stored]] = [[], [], []]
        for batch in self.tables[table.name].batches():
            if not worst:
                found[0] += batch.slice(0, limit - len(found[0])).to_pylist()
                if len(found[0]) == limit:
                    break
                continue
            ranks = _ranks(batch)
            for rank, rows in enumerate(found):
                if len(rows) < limit:
                    of_rank = batch.filter(pc.equal(ranks, rank))
                    rows += of_rank.slice(0, limit - len(rows)).to_pylist()
        return table.rows(itertools.islice(itertools.chain(*found), limit))

    def first_of_claims(
        self, table: Table[RowT], names: Collection[ClaimName], limit: int
    ) -> list[RowT]:
        """As `Fold`."""
        first: dict[_Name, list[tuple[int, int, int, _Stored]]] = defaultdict(list)
        place, numbers = order_in_claim(table), itertools.count()
        order = itemgetter(0, 1, 2)  # equal ones in the order of the table
        for batch in self._of_claims(table, names):
            ranks = _ranks(batch).to_pylist() if table is FINDINGS else [0] * batch.num_rows
            for rank, row, number in zip(ranks, batch.to_pylist(), numbers, strict=False):
                of_claim = first[(*_named(row), row["rules"])]
                of_claim.append((rank, -1 if row[place] is None else row[place], number, row))
                if len(of_claim) > 2 * limit:
                    of_claim.sort(key=order)
                    del of_claim[limit:]
        found = [
            each for of_claim in first.values() for each in sorted(of_claim, key=order)[:limit]
        ]
        return table.rows(row for *_, row in sorted(found, key=order))

    def each(self, table: Table[RowT]) -> Iterator[RowT]:
        """As `Fold`."""
        for batch in self.tables[table.name].batches():
            yield from table.rows(batch.to_pylist())

    def _rows(self, table: Table[Any], *columns: str) -> Iterator[_Stored]:
        """Some columns of a table."""
        for batch in self.tables[table.name].batches(columns):
            yield from batch.to_pylist()

    def _columns(self, table: Table[Any], *columns: str) -> pa.Table:
        """The same, all at once."""
        schema = pa.schema([_schema(table).field(name) for name in columns])
        return pa.Table.from_batches(self.tables[table.name].batches(columns), schema)

    def write(self, table: Table[RowT], folder: Path, extra: Sequence[RowT] = ()) -> None:
        """As `Fold`."""
        kept = self.tables[table.name]
        if not kept.num_rows and not extra:
            write_nothing(table, folder)
            return
        (folder / table.name).mkdir()
        more = sorted_rows(pa.Table.from_struct_array(arrow_rows(table, extra)), table.order)
        rows = kept.with_rows(more, table.order) if extra else kept.batches()
        paths = (folder / table.name / f"part-{n:05}.parquet" for n in itertools.count())
        file, left = None, 0
        with ExitStack() as opened:
            for group in row_groups(rows):
                while group.num_rows:
                    if file is None or not left:
                        opened.close()
                        file, left = parquet_writer(next(paths), _schema(table)), ROWS_PER_FILE
                        opened.enter_context(file)
                    file.write_table(group.slice(0, left))
                    group, left = group.slice(left), max(0, left - group.num_rows)

    def divergences_of_logs(self) -> list[DivergencesOfLog]:
        """As `Fold`."""
        claims: dict[str, Counter[_Name]] = defaultdict(Counter)
        for row in self._rows(DIVERGENCES, *CLAIM):
            claims[row["log"]][tuple(row.values())] += 1
        return [
            DivergencesOfLog(log, of_log.total(), len(of_log)) for log, of_log in claims.items()
        ]

    def findings_over_time(self, spans: HeatSpans) -> tuple[list[FindingsAt], list[FindingsAt]]:
        """As `Fold`."""
        of_log = {log: (begin_ms, step_ms) for log, begin_ms, step_ms in spans.logs}
        codes: Counter[tuple[str, str, str, int]] = Counter()
        groups: Counter[tuple[str, str, str, int]] = Counter()
        for row in self._rows(FINDINGS, "log", "code", "group", "severity", "timestamp_ms"):
            log, code, group, severity, at_ms = row.values()
            if at_ms is None or log not in of_log:
                continue
            begin_ms, step_ms = of_log[log]
            at = min(max((at_ms - begin_ms) // step_ms, 0), spans.columns - 1)
            codes[log, code, severity, at] += 1
            if group is not None and severity in (ERROR, WARNING):
                groups[log, group, severity, at] += 1
        by_code, by_group = (
            [FindingsAt(*cell, count) for cell, count in counts.items()]
            for counts in (codes, groups)
        )
        return by_code, by_group

    def claims_counted(self, ends_ms: Mapping[str, int], limit: int | None) -> list[CountedClaim]:
        """As `Fold`."""
        lanes = self._columns(LANES, *CLAIM, *_MOST, "marks", "free_since_ms")
        logs = lanes["log"].combine_chunks().dictionary_encode()
        ends = pa.array([ends_ms[log] for log in logs.dictionary.to_pylist()], pa.int64())
        free_ms = pc.subtract(ends.take(logs.indices), lanes["free_since_ms"])
        free_ms = pc.max_element_wise(pc.fill_null(free_ms, 0), 0)
        place = lanes.schema.get_field_index("unowned_ms")
        lanes = lanes.set_column(place, "unowned_ms", pc.add(lanes["unowned_ms"], free_ms))
        marks = ("marks", "sum")
        claims = lanes.group_by(CLAIM, use_threads=False).aggregate(
            [*((each, "max") for each in _MOST), marks]
        )
        found = self._columns(FINDINGS, *CLAIM, "severity")
        severities = {"errors": ERROR, "warnings": WARNING}
        for name, severity in severities.items():
            is_one = pc.equal(found["severity"], severity).cast(pa.int64())
            found = found.append_column(name, is_one)
        of_claims = found.group_by(CLAIM, use_threads=False).aggregate(
            [*((each, "sum") for each in severities), ([], "count_all")]
        )
        claims = claims.join(of_claims, CLAIM, join_type="left outer", use_threads=False)
        named = {f"{each}_max": each for each in _MOST} | {"marks_sum": "marks"}
        named |= {f"{each}_sum": each for each in severities} | {"count_all": "findings"}
        claims = claims.select([*CLAIM, *named]).rename_columns([*CLAIM, *named.values()])
        for name in (*severities, "findings"):
            place = claims.schema.get_field_index(name)
            claims = claims.set_column(place, name, pc.fill_null(claims[name], 0))
        if limit is not None:
            by_name = [(each, "ascending") for each in CLAIM]
            firsts = []
            for measure in MEASURES:
                worst = [(each, "descending") for each in dict.fromkeys((measure, "warnings"))]
                order = pc.sort_indices(claims, [*worst, *by_name], null_placement="at_end")
                firsts.append(order.slice(0, limit))
            claims = claims.take(pc.unique(pa.concat_arrays(firsts)))
        return [CountedClaim(**row) for row in claims.to_pylist()]

    def parted_from(self, after: Self, limit: int, *, same_rules: bool) -> OwnershipDifference:
        """As `Fold`."""
        edges = [fold._edges(same_rules) for fold in (self, after)]
        parted: dict[_Name, list[tuple[int, bool, bool]]] = defaultdict(list)
        for side, only in enumerate((edges[0] - edges[1], edges[1] - edges[0])):
            for name, offset, _, began in only:
                parted[name].append((offset, began and side == 0, began and side == 1))
        where = sorted(
            ((name, min(offset for offset, _, _ in of_claim)) for name, of_claim in parted.items()),
            key=lambda one: (one[0][0], one[1], *one[0][1:-1], one[0][-1] or ""),
        )
        lasting = [fold._lasting(dict(where[:limit]), same_rules) for fold in (self, after)]
        owners = [fold._owners(same_rules) for fold in (self, after)]
        return OwnershipDifference(
            claims=len(parted),
            gone=sum(gone for of_claim in parted.values() for _, gone, _ in of_claim),
            new=sum(new for of_claim in parted.values() for _, _, new in of_claim),
            owners_differ=sum(
                owner != owners[1][name] for name, owner in owners[0].items() if name in owners[1]
            ),
            first=[
                Parting.of(name[:-1], offset, name[-1], *(held.get(name) for held in lasting))
                for name, offset in where[:limit]
            ],
        )

    def _edges(self, same_rules: bool) -> set[tuple[_Name, int, object, bool]]:
        """The changes of ownership: every beginning and end of a tenure, with its owner."""
        edges = set()
        columns = (*CLAIM, "rules", "owner_instance", "from_offset", "to_offset")
        for row in self._rows(TENURES, *columns):
            name, owner = _under(row, same_rules), row["owner_instance"]
            for offset, began in ((row["from_offset"], True), (row["to_offset"], False)):
                if offset is not None:
                    edges.add((name, offset, owner, began))
        return edges

    def _lasting(self, offsets: Mapping[_Name, int], same_rules: bool) -> dict[_Name, Held]:
        """The tenure of each of these claims that lasts at its offset."""
        found = {}
        columns = ("owner_instance", "owner_client", "from_offset", "to_offset")
        for row in self._rows(TENURES, *CLAIM, "rules", *columns):
            name = _under(row, same_rules)
            begin, end = row["from_offset"], row["to_offset"]
            offset = offsets.get(name)
            if offset is not None and begin <= offset and (end is None or end > offset):
                found[name] = Held(row["owner_instance"], row["owner_client"], begin)
        return found

    def _owners(self, same_rules: bool) -> dict[_Name, object]:
        """The owner of every claim at the end."""
        rows = self._rows(CLAIMS, *CLAIM, "rules", "owner_instance")
        return {_under(row, same_rules): row["owner_instance"] for row in rows}


def _named(row: _Stored) -> _Name:
    return tuple(row[column] for column in CLAIM)


def _under(row: _Stored, same_rules: bool) -> _Name:
    return (*_named(row), row["rules"] if same_rules else None)


def _ranks(findings: pa.RecordBatch) -> pa.Array:
    """The severities as numbers, the worst first."""
    known = pa.array([ERROR, WARNING])
    return pc.index_in(findings.column("severity"), known).fill_null(len(known))


def _schema(table: Table[Any]) -> pa.Schema:
    return pa.schema(list(table.arrow_type))
