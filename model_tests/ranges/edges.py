"""Every step that TLC takes in `MCRanges.tla`, in Python's words, and whether Python takes it.

Rows are distinct: many edges differ only in how the log came to its end. What is held against
TLC's figures is how many edges they were taken from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs

from kafka_marshal import Claim
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.scratch import Scratch
from model_tests import from_tla, tlc_export
from model_tests.explorer import configuration
from model_tests.ranges import from_tla as ranges_from_tla
from model_tests.ranges.free_time import Storeys
from model_tests.ranges.from_tla import Landed

MODULE = Path(__file__).parent / "RangesEdges.tla"


@attrs.frozen
class Row:
    """One step of `MCRanges.tla`."""

    storeys: Storeys
    claim: Claim
    ranges: Ranges
    landed: Landed
    claim_after: Claim
    outcome: RangeOutcome

    @property
    def said(self) -> tuple[Claim, RangeOutcome]:
        """What the specification makes of it."""
        return self.claim_after, self.outcome

    def taken(self) -> tuple[Claim, RangeOutcome]:
        """What the Python makes of it, now."""
        return self.storeys.step(self.claim, self.ranges, self.landed)

    @property
    def kind(self) -> str:
        """The verdict, and why nothing was granted."""
        guard = self.outcome.guard
        return str(self.outcome.verdict.value) + (f" ({guard.value})" if guard else "")


@attrs.frozen
class Held:
    """What came of one model's rows."""

    name: str
    edges: int
    """Transitions that TLC took."""
    rows: int
    partings: int
    """Rows that the Python takes otherwise."""
    first: str
    kinds: Counter[str]
    in_one_pass: int
    """Rows that are ordinary requests; one that is folded otherwise in one pass is a parting."""


def of_ranges(model: Model) -> bool:
    """It is a world of `MCRanges.tla` that must hold."""
    return model.module.stem == "MCRanges" and not model.must_fail


def exported(model: Model, folder: Path, log_max: int | None = None) -> tuple[int, Iterator[Row]]:
    """Run TLC; the number of edges, and the rows.

    With `log_max` the log is shorter than the model's.
    """
    cfg = folder / f"{model.name}.cfg"
    text = configuration.without_promises(model.cfg)
    if log_max is not None:
        text = re.sub(r"LogMax = \d+", f"LogMax = {log_max}", text)
    cfg.write_text(f"{text}ACTION_CONSTRAINT ExportRanges\n", encoding="utf-8")
    export = tlc_export.export(
        MODULE,
        cfg,
        folder / f"{model.name}.tsv",
        workers=2,
        check_deadlock=model.deadlock_check,
        short=True,
        libraries=models.libraries(),
    )
    free = "RecordSaysSilent" in configuration.read(model.cfg).substituted["IsSilent"]
    return export.calls, (_row(value, free) for value in export.read())


def _row(value: Value, time_is_free: bool) -> Row:
    """One row, its columns as `RangesEdges.tla` writes them."""
    assert isinstance(value, tuple)
    bounds, claim, ranges, record, claim_after, ranges_after, verdict, guard = value
    assert isinstance(bounds, tuple)
    heartbeat_interval_ms, pause_max_ms, *limits = bounds
    rules = from_tla.rules("fenced", heartbeat_interval_ms, pause_max_ms)
    landed = ranges_from_tla.landed(record)
    of_a_range = isinstance(landed.record.message, ClaimingRange)
    outcome = RangeOutcome(
        ranges_from_tla.ranges(ranges_after),
        ranges_from_tla.verdict(verdict, of_a_range),
        ranges_from_tla.unmet(guard),
    )
    storeys = Storeys(rules, ranges_from_tla.limits(*limits), time_is_free)  # type: ignore[arg-type]
    before = from_tla.claim(claim), ranges_from_tla.ranges(ranges)
    return Row(storeys, *before, landed, from_tla.claim(claim_after), outcome)


def held(model: Model, log_max: int | None = None) -> Held:
    """Every row of one model against the Python."""
    with Scratch("ranges-edges") as folder:
        calls, rows = exported(model, folder, log_max)
        kinds: Counter[str] = Counter()
        partings, first, ordinary = 0, "", 0
        for row in rows:
            kinds[row.kind] += 1
            agree = row.storeys.agree_in_one_pass(row.claim, row.ranges, row.landed)
            ordinary += agree is not None
            if row.taken() != row.said or agree is False:
                partings += 1
                first = first or f"{row}\n  Python: {row.taken()}"
        return Held(model.name, calls, sum(kinds.values()), partings, first, kinds, ordinary)
