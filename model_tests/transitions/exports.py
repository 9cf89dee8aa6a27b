"""What TLC goes through in the models that export their steps, in Python's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
from tests.triples import Triple

from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.tlc.values import Value
from model_tests import from_tla, tlc_export
from model_tests.explorer import configuration


@attrs.frozen
class Exported:
    """Every distinct triple of one concrete model."""

    name: str
    triples: list[Triple]
    edges: int
    """Transitions that TLC took, and that these triples were taken from."""


def export_all(folder: Path, only: Sequence[str] | None = None) -> Mapping[str, Exported]:
    """Run every model that exports its steps, or `only` some; `folder` is for what TLC writes."""
    made = {}
    for model in models.read():
        asked = only is None or model.name in only
        if asked and not model.must_fail and "ExportStep" in model.cfg.read_text(encoding="utf-8"):
            cfg = folder / f"{model.name}.cfg"
            cfg.write_text(configuration.without_promises(model.cfg), encoding="utf-8")
            export = tlc_export.export(
                model.module,
                cfg,
                folder / f"{model.name}.tsv",
                workers=2,
                check_deadlock=model.deadlock_check,
                short=True,
                libraries=models.libraries(),
            )
            triples = [_triple(row) for row in export.read()]
            made[model.name] = Exported(model.name, triples, export.calls)
    assert made or only, "no model in spec/models.toml exports its steps"
    return made


def _triple(row: Value) -> Triple:
    """One row, its columns as `ExportStep` in `MCRecords.tla` writes them."""
    assert isinstance(row, tuple)
    rules, heartbeat_interval_ms, pause_max_ms, before, record, after, verdict = row
    return Triple(
        from_tla.rules(rules, heartbeat_interval_ms, pause_max_ms),
        from_tla.claim(before),
        from_tla.record(record),
        from_tla.claim(after),
        from_tla.verdict(verdict),
    )
