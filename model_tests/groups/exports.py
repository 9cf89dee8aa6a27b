"""What TLC exports of groups, line by line, and the lines that are kept of it as a sample.

A sample is kept as TLC printed it, so it is read by the same translation as an export, also where
there is no Java. This room does not know what a line says.
"""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.edges import Export
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc.output import TlcResult
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.scratch import Scratch
from model_tests import tlc_export
from model_tests.explorer import configuration

NO_BOUNDS: Mapping[str, str] = {}
_NO_RUN: TlcResult = None  # type: ignore[assignment]  # `read` asks only for the path


def of_timeless_worlds(model: Model) -> bool:
    """It is a world of `MCGroupWorld.tla` that must hold, and no time passes in it."""
    if model.module.stem != "MCGroupWorld" or model.must_fail:
        return False
    return "Timeout" not in configuration.read(model.cfg).substituted


def exported(
    whose: str,
    module: str,
    model: Model,
    folder: Path,
    bounds: Mapping[str, str] = NO_BOUNDS,
    as_defined: Collection[str] = (),
) -> Path:
    """Run TLC on a world, perhaps in other bounds; returns the export.

    `module` is `{whose}OfGroupWorld`, and its invariant `Export{whose}` exports. Operators of
    `as_defined` are not substituted. What the model promises is `make spec`'s part.
    """
    path, cfg = folder / f"{whose}OfGroupWorld.tla", folder / f"{model.name}.cfg"
    path.write_text(module, encoding="utf-8")
    told = configuration.read(model.cfg)
    lines = ["SPECIFICATION Spec", "CONSTANTS"]
    lines += [f"  {name} = {bounds.get(name, value)}" for name, value in told.assigned.items()]
    lines += [
        f"  {name} <- {bounds.get(name, by)}"
        for name, by in told.substituted.items()
        if name not in as_defined
    ]
    cfg.write_text("\n".join([*lines, f"INVARIANT Export{whose}", ""]), encoding="utf-8")
    libraries = [*models.libraries(), model.module.parent]
    target = folder / f"{model.name}.tsv"
    export = tlc_export.export(
        path, cfg, target, check_deadlock=False, short=True, libraries=libraries
    )
    return export.path


def lines_of(path: Path) -> Iterator[tuple[str, Value]]:
    """Each line of an export, and what it says."""
    values = Export(path, 0, 0, _NO_RUN).read()
    with path.open(encoding="utf-8") as lines:
        yield from zip(lines, values, strict=True)


def write(lines: Iterable[str], sample: Path) -> None:
    """Keep these lines, sorted, so that the same rows are the same bytes."""
    sample.write_bytes(gzip.compress("".join(sorted(lines)).encode("utf-8"), mtime=0))


def sample_lines(sample: Path) -> list[str]:
    """The lines that are kept, as TLC printed them."""
    return gzip.decompress(sample.read_bytes()).decode("utf-8").splitlines(keepends=True)


def values_of(sample: Path) -> Iterator[Value]:
    """What they say."""
    with Scratch("group-sample") as folder:
        path = folder / sample.stem
        path.write_text("".join(sample_lines(sample)), encoding="utf-8")
        yield from (value for _, value in lines_of(path))
