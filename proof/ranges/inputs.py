"""Every claim, its ranges, and a record, as symbols.

Ids of instances are plain text here: of two ranges there are five ways to have holders. A case is a
message, what a claim's owner is, and which of the two elements are open and whose.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from kafka_marshal import Accepted, Claim, Refused, Rules, Verdict
from kafka_marshal.core.messages import (
    ClaimingPartition,
    ClaimingRange,
    Heartbeat,
)
from kafka_marshal.core.ranges.messages import RangeHeaders, RangesRecord
from kafka_marshal.core.ranges.state import Interval, Limits, OpenRange, Ranges, SignOfLife
from proof.inputs import HEADERS, Inputs, SymbolicHeaders, cases, symbolic_header
from proof.prove import unchecked
from proof.ranges.others import Others
from proof.smt.solver import Smt
from proof.symbols import Explorer, Id, Number, Truth

SENDER: Final = "sender"
OTHER: Final = "another"
THIRD: Final = "third"
IDLE: Final = "idle"
"""Somebody who holds none of what is looked at."""
RANGE_HEADERS: Final = ("window", "done", "keep")
INTERVAL: Final = "interval_ms"
"""No rule of a claim asks for this header, but a ClaimingRange is refused if it is no number."""
OWNER: Final = frozenset({"owner_instance", "owner_client", "epoch", "last_heartbeat_ms"})
FREE: Final = tuple(
    dict.fromkeys(each.known for each in cases() if not each.known & OWNER - {"epoch"})
)
"""Which fields of a claim are known that nobody owns. Of an owned one it is always the owner."""
HOLDERS: Final = (
    *((), (SENDER,), (OTHER,)),
    *((SENDER, SENDER), (SENDER, OTHER), (OTHER, SENDER), (OTHER, OTHER), (OTHER, THIRD)),
)
"""Of the open ranges that are looked at, by id."""


@frozen
class RangesCase:
    """A message, and what is looked at."""

    message: type
    known: frozenset[str]
    """The claim's fields that are not None."""
    begun: bool
    open: tuple[str, ...] = ()
    """Holders."""
    pool: int = 0
    verdict: Verdict | None = None
    """Of one of the five old messages: what the claim says."""

    @property
    def size(self) -> int:
        """How many elements are looked at."""
        return len(self.open) + self.pool

    def __str__(self) -> str:
        said = self.verdict.value if self.verdict else (", ".join(sorted(self.known)) or "new")
        held = f"{', '.join(self.open) or 'none'} open, {self.pool} pooled"
        return f"{self.message.__name__} {said}: {held if self.begun else 'no ranges'}"


def shapes(size: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Open ranges and intervals of the pool, as many at most."""
    for holders, pool in product(HOLDERS, range(3)):
        if len(holders) + pool <= size:
            yield holders, pool


def requests() -> list[RangesCase]:
    """Of a ClaimingRange, the longest first. Of a claim that nobody owns it asks if it is new."""
    made = [RangesCase(ClaimingRange, OWNER, True, *shape) for shape in shapes(2)]
    for known in (frozenset[str](), frozenset({"epoch"})):
        made += [RangesCase(ClaimingRange, known, True, *shape) for shape in shapes(1)]
    made += [RangesCase(ClaimingRange, known, begun=False) for known in (OWNER, *FREE)]
    return sorted(made, key=lambda each: (-len(set(each.open)), -each.size, str(each)))


def records() -> list[RangesCase]:
    """Of the five old messages, by what the claim says: two stand for all."""
    kinds: tuple[type, ...] = (ClaimingPartition, Heartbeat)
    return [
        RangesCase(message, OWNER, begun, *shape, verdict=verdict)
        for message, begun, verdict in product(kinds, (True, False), (*Accepted, *Refused))
        for shape in shapes(1 if begun else 0)
    ]


class SymbolicRangeHeaders(RangeHeaders):
    """Headers whose absence is asked when they are read."""

    def __init__(self, fields: dict[str, tuple[Truth, Number]]) -> None:
        self.__dict__["_fields"] = fields


for _name in RANGE_HEADERS:
    setattr(SymbolicRangeHeaders, _name, symbolic_header(_name))


@define(eq=False)
class RangesInputs(Inputs):
    """The symbols of one case."""

    ranges: Ranges = field(init=False)
    asked: RangesRecord = field(init=False)
    """The record."""
    limits: Limits = field(init=False)
    others: Others = field(init=False)
    others_before: Any = field(init=False)
    claim_after: Claim = field(init=False)
    """What one of the five old messages makes of the claim: anything, until it is assumed."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        case = self.looked_at
        fields = {name: self.header(name) for name in RANGE_HEADERS}
        record: Any = self.record
        self.asked = RangesRecord(
            record.partition, record.offset, record.timestamp_ms, record.message, record.headers,
            SymbolicRangeHeaders(fields),
        )  # fmt: skip
        limits = [self.number(each.name) for each in attrs.fields(Limits)]
        self.assumed += [(each > 0).formula for each in limits]
        with unchecked():
            self.limits = Limits(*limits)
        holders = [
            OpenRange(self.number(f"id {n}"), *self._interval(f"open {n}"), holder)
            for n, holder in enumerate(case.open)
        ]
        names = sorted({SENDER, *case.open, *(() if case.size else (IDLE,))} if case.begun else ())
        self.ranges = Ranges(
            window=self.number("window") if case.begun else None,
            frontier=self.number("frontier"),
            open=tuple(holders),
            pool=tuple(Interval(*self._interval(f"pool {n}")) for n in range(case.pool)),
            alive=tuple(SignOfLife(each, self.number(f"heard {each}")) for each in names),
            clock_ms=self.number("ranges' clock_ms"),
        )
        self.others_before = self._count("others")
        self.others = Others(
            [self._count(f"others {when}") for when in ("told", "asked")],
            [self._count(f"others of the sender {when}") for when in ("told", "asked")],
        )
        self.claim_after = attrs.evolve(self.claim, position=self.number("position after"))

    @classmethod
    def of(cls, smt: Smt, case: Any) -> RangesInputs:
        """Those of a case, which has what a claim's case has."""
        return cls(smt, case)

    @property
    def looked_at(self) -> RangesCase:
        """The case."""
        case: Any = self.case
        return case  # type: ignore[no-any-return]

    def _message(self) -> Any:
        if self.case.message is not ClaimingRange:
            message: Any = super()._message()
            return attrs.evolve(message, instance_id=SENDER)
        like = attrs.asdict(self._like(), recurse=False)
        return ClaimingRange(**{**like, "instance_id": SENDER}, count=self.number("count"))

    def _headers(self) -> SymbolicHeaders:
        """Of a ClaimingRange all: no older version reads it, so every header is looked at."""
        if self.case.message is not ClaimingRange:
            return super()._headers()
        present = self.truth("present")
        fields = {name: self.header(name, present) for name in (INTERVAL, *HEADERS)}
        return SymbolicHeaders(present, fields)

    def _like(self) -> Any:
        """Fields that every message has."""
        case = self.case
        self.case = attrs.evolve(case, message=ClaimingPartition)
        try:
            return super()._message()
        finally:
            self.case = case

    def _interval(self, name: str) -> tuple[Any, Any]:
        return self.number(f"{name} from"), self.number(f"{name} to")

    def _count(self, name: str) -> Any:
        found = self.number(name)
        self.assumed.append((found >= 0).formula)
        return found

    def said(self, name: str) -> tuple[Any, Any]:
        """Whether a header is there, and its value: of ranges, or of every record."""
        own = self.asked.range_headers.__dict__["_fields"]
        found = own[name] if name in own else self.record.headers.__dict__["_fields"][name]
        return found[0], found[1]

    def plain(self, found: Any, explorer: Explorer) -> Any:
        """The same in Python's own values, in a model of all that is assumed."""
        if isinstance(found, tuple):
            return tuple(self.plain(each, explorer) for each in found)
        if isinstance(found, Ranges | OpenRange | Interval | SignOfLife | Limits):
            fields = [each.name for each in attrs.fields(type(found))]
            return type(found)(
                **{name: self.plain(getattr(found, name), explorer) for name in fields}
            )
        if isinstance(found, Number | Truth | Id | Claim):
            return self.valued(found, explorer)
        return found

    def taken(self, explorer: Explorer) -> tuple[Ranges, Claim, RangesRecord, Rules, Limits]:
        """Values for which everything is true that is assumed now."""
        claim, record, rules = self.concrete(explorer)
        headers: dict[str, Any] = {
            name: explorer.value(value.formula)
            for name, (there, value) in self.asked.range_headers.__dict__["_fields"].items()
            if explorer.value(there.formula)
        }
        asked = RangesRecord(
            0, record.offset, record.timestamp_ms, record.message, record.headers,
            RangeHeaders(**headers),
        )  # fmt: skip
        ranges, limits = self.plain(self.ranges, explorer), self.plain(self.limits, explorer)
        return ranges, claim, asked, rules, limits

    def plain_others(self, explorer: Explorer) -> Others:
        """How many others there are, in numbers."""
        found = self.others
        return Others(
            [explorer.value(each.formula) for each in found.intervals],
            [explorer.value(each.formula) for each in found.open_of],
        )
