"""What the instances of a model do, as TLC exports it: the rows of `Edges.tla`, in Python's words.

Every model of `Marshal.tla` can be exported. Its module is extended by `Edges.tla` and its cfg gets
the exporting names in the place of its properties, both in a folder of the run. So no bounds are
written twice, and what is exported is what the model goes through.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs

from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model, ModelKind
from kafka_marshal.modelcheck.tlc.values import Value
from model_tests import from_tla, tlc_export
from model_tests.explorer import configuration, substitutions
from model_tests.explorer.claims import world
from model_tests.explorer.claims.instance import Instance
from model_tests.explorer.configuration import Configuration
from model_tests.explorer.free_time import Fold, Stored
from model_tests.explorer.substitutions import Replaced


class Deed(enum.StrEnum):
    """What a row is about; the specification's word."""

    SEND = "Send"
    GIVE_UP = "GiveUp"
    READ = "Read"
    GAP = "Gap"
    PROCESS = "Process"
    START = "Start"
    MAY = "May"
    READER = "Reader"


@attrs.frozen
class Row:
    """One row of `Edges.tla`; `before`, `what` and `after` are still TLA+ values."""

    deed: Deed
    who: Instance | None
    before: Value
    what: Value
    after: Value


@attrs.frozen
class Deeds:
    """Every distinct row of one model."""

    name: str
    fold: Fold
    replaced: Replaced
    rows: list[Row]
    edges: int
    """Transitions of the model, from which the rows were taken."""


def of_marshal(model: Model) -> bool:
    """A model of `Marshal.tla` that must hold, so that all of its graph is explored.

    `Edges.tla` extends `Marshal`: beside a module that does not, TLC would ask for constants that
    no cfg of that module has.
    """
    return (
        not model.must_fail
        and model.kind is not ModelKind.REACHABILITY
        and "Marshal" in extended(model.module)
        # What these add, when an instance last read something, who ends a pause and what a tenure
        # processed, no machine has.
        and model.module.stem not in ("MCLogClock", "MCResume", "MCTenure")
    )


@cache
def extended(module: Path) -> frozenset[str]:
    """The names of the modules that a module extends, and that those extend."""
    names: set[str] = set()
    for clause in re.findall(r"(?m)^EXTENDS (.+)$", module.read_text(encoding="utf-8")):
        names.update(name.strip() for name in clause.split(","))
    folders = models.libraries()
    files = [folder / f"{name}.tla" for folder in folders for name in names]
    return frozenset(names).union(*(extended(file) for file in files if file.is_file()))


def find(name: str) -> Model:
    """A model by its name."""
    return models.find(name, models.read())


def export(model: Model, folder: Path, *, readers: bool = False, short: bool = False) -> Deeds:
    """Run TLC on a model with `Edges.tla` beside it; `folder` is for what it writes.

    With `readers`, also what everybody knows who begins to read at any offset of any log. That is
    as many folds as the log is long, for each record that is appended. `short` is for a model of
    few states, as in `tlc.run`.
    """
    cfg = configuration.read(model.cfg)
    name = f"EdgesOf{model.module.stem}"
    module, target = folder / f"{name}.tla", folder / f"{model.name}.edges.tsv"
    module.write_text(f"---- MODULE {name} ----\nEXTENDS {model.module.stem}, Edges\n====\n")
    exporting = folder / f"{name}_{model.name}.cfg"
    exporting.write_text(exporting_cfg(cfg, readers=readers))
    made = tlc_export.export(
        module,
        exporting,
        target,
        check_deadlock=False,
        short=short,
        libraries=models.libraries(),
    )
    fold = world.bounds(model).fold
    rows = list(_rows(made.read(), fold))
    target.unlink()
    return Deeds(model.name, fold, substitutions.of(cfg), rows, made.result.edges)


def exporting_cfg(cfg: Configuration, *, readers: bool) -> str:
    """The cfg of the same graph, which exports what `Edges.tla` knows to export."""
    lines = ["SPECIFICATION Spec", "CONSTANTS"]
    lines += [f"  {name} = {value}" for name, value in cfg.assigned.items()]
    lines += [f"  {name} <- {operator}" for name, operator in cfg.substituted.items()]
    for section in ("CONSTRAINTS", "ACTION_CONSTRAINTS", "VIEW"):
        kept = [name for name in cfg.names(section) if name != "ExportStep"]
        lines += [f"{section} {' '.join(kept)}"] if kept else []
    lines += ["ACTION_CONSTRAINT ExportEdges" + " ExportReaders" * readers]
    lines += ["INVARIANT ExportAnswers"]
    return "\n".join(lines) + "\n"


def _rows(values: Iterator[Value], fold: Fold) -> Iterator[Row]:
    @cache
    def instance(value: Value) -> Instance:
        headerless = from_tla.fields(value)["headerless"]
        return Instance(from_tla.me(value, fold.rules), fold, headerless)

    for value in values:
        assert isinstance(value, tuple)
        deed, who, before, what, after = value
        known = Deed(str(deed))
        yield Row(known, None if known is Deed.READER else instance(who), before, what, after)


def stored(value: Value) -> Stored:
    """A record of a log, with its two judgements."""
    given = from_tla.fields(value)
    return Stored(from_tla.record(value), given["stale"], given["pause_over"])
