"""What readers know who begin in the middle of the log, in worlds of `MCGroupSuffix.tla`.

A row is a reader, the records that it read, and what it knows at their end. A sample is kept as TLC
printed it (`readers.tsv.gz`), so it is held against the Python also where there is no Java.
`python -m model_tests.groups.readers` writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs

from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.groups.state import Controllership
from kafka_marshal.machines.groups.control.controlled_log import (
    ControlledLog,
    ControllerConfig,
    LogKnowledge,
)
from kafka_marshal.machines.groups.effects import AskEnd
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.scratch import Scratch
from model_tests import from_tla as words
from model_tests import tlc_export
from model_tests.groups import exports, from_tla
from model_tests.transitions.sample import covering

SAMPLE: Final = Path(__file__).parent / "readers.tsv.gz"
SOMEBODY: Final = ControllerConfig(9, "elsewhere", 9)
"""Who reads and is no controller."""


@attrs.frozen
class Reading:
    """Somebody begins to read, and comes to the end of what there is."""

    begin: int
    at_position: bool
    end: int
    """The log's end, which the broker named after the reader began."""
    records: tuple[EventRecord, ...]
    said: tuple[LogKnowledge, Controllership]
    """What the specification's reader then knows."""

    def taken(self) -> tuple[LogKnowledge, Controllership]:
        """What the Python's reader then knows, now."""
        log = ControlledLog(SOMEBODY, 0, [])
        log.begin(self.begin, at_position=self.at_position)
        log.ask(0)
        [asked] = log.out
        assert isinstance(asked, AskEnd)
        log.end_is(asked.token, self.end)
        for record in self.records:
            log.read(record, 0)
        return log.knowledge, log.view


def of_readers(model: Model) -> bool:
    """It is a world of `MCGroupSuffix.tla` that must hold."""
    return model.module.stem == "MCGroupSuffix" and not model.must_fail


def exported(model: Model, folder: Path) -> Path:
    """The export of a world, run by TLC. What it promises is `make spec`'s part."""
    cfg = folder / model.cfg.name
    kept = [
        line
        for line in model.cfg.read_text(encoding="utf-8").splitlines()
        if not line.startswith("INVARIANT")
    ]
    cfg.write_text("\n".join([*kept, "INVARIANT ExportGroupReaders", ""]), encoding="utf-8")
    target = folder / f"{model.name}.tsv"
    libraries = models.libraries()
    return tlc_export.export(
        model.module, cfg, target, check_deadlock=False, libraries=libraries
    ).path


def reading(value: Value) -> Reading:
    """One row, its columns as `ExportGroupReaders` writes them."""
    assert isinstance(value, tuple)
    records, reader = value
    assert isinstance(records, tuple)
    known: Any = words.fields(reader)
    said = LogKnowledge[known["knowledge"].upper()], from_tla.controllership(known["view"])
    given = {name: known[name] for name in ("begin", "at_position", "end")}
    return Reading(**given, records=tuple(map(from_tla.record, records)), said=said)


# --- the sample -----------------------------------------------------------------------------------


def situation(each: Reading) -> Hashable:
    """Where it began, and what it knows."""
    return each.begin == 0, each.at_position, each.said[0]


def answers(each: Reading) -> tuple[Hashable, ...]:
    """What it read first, of how many controllers, how often, and what it then knows."""
    view, first = each.said[1], each.records[0].event
    events = Counter(type(record.event).__name__ for record in each.records)
    epochs = {record.epoch for record in each.records}
    return (
        type(first).__name__,
        getattr(first, "supersedes", None) == each.begin,
        frozenset(events.items()),
        len(epochs),
        (view.epoch > each.begin, len(view.groups)),
        (each.end - each.begin, len(each.records)),
    )


def readings(path: Path) -> Iterator[tuple[str, Reading]]:
    """Each line of an export, and what it is."""
    return ((line, reading(value)) for line, value in exports.lines_of(path))


def chosen(lines: Iterable[tuple[str, Reading]]) -> list[str]:
    """Lines that together show every two answers that occur in some situation."""
    kept = covering(
        iter(lines),
        lambda each: situation(each[1]),
        lambda each: answers(each[1]),
        lambda each: each[0],
    )
    return [line for line, _ in kept]


@cache
def sample() -> tuple[Reading, ...]:
    """The rows that are kept."""
    return tuple(map(reading, exports.values_of(SAMPLE)))


def all_readings(folder: Path) -> dict[str, Reading]:
    """The rows of all worlds."""
    found: dict[str, Reading] = {}
    for model in filter(of_readers, models.read()):
        found.update(readings(exported(model, folder)))
    return found


def main() -> None:
    """Write the sample anew."""
    with Scratch("reader-edges") as folder:
        found = all_readings(folder)
    partings = [each for each in found.values() if each.taken() != each.said]
    kept = chosen(found.items())
    exports.write(kept, SAMPLE)
    print(f"{len(kept):,} of {len(found):,} rows in {SAMPLE.name}; {len(partings)} differ")


if __name__ == "__main__":
    main()
