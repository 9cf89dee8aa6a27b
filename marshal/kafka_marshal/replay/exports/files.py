"""Writes findings and tenures for other tools, each to its own file besides the output folder.

As for the folder: an existing file is refused, and a run that fails leaves none.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, Final, Self

from attrs import frozen

from kafka_marshal.errors import naming
from kafka_marshal.replay.errors import InvalidOption, ReplayError
from kafka_marshal.replay.exports.junit import LOOKED_AT_ALL, JUnit
from kafka_marshal.replay.exports.output import refuse_existing, umask
from kafka_marshal.replay.exports.perfetto import NO_ENDS, Perfetto, SpanRow, packed
from kafka_marshal.replay.exports.sarif import sarif
from kafka_marshal.replay.findings.catalogue import CATALOGUE, FindingKind
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.places import UriPath, place_of
from kafka_marshal.scratch import Scratch


@frozen
class Exports:
    """Further files for the findings, and for Perfetto the tenures; None: no file."""

    sarif: Path | None = None
    junit: Path | None = None
    perfetto: Path | None = None
    """Packed with gzip if its name ends in `.gz`."""

    @property
    def any(self) -> bool:
        """At least one is wanted."""
        return any(path is not None for _, path in self._paths)

    @property
    def _paths(self) -> tuple[tuple[str, Path | None], ...]:
        return (("--sarif", self.sarif), ("--junit", self.junit), ("--perfetto", self.perfetto))

    def check(self, out: Path, checkpoint: Path | None = None) -> None:
        """Refuse outputs that cannot be written, before anything is read.

        Raises:
            OutputExists: a file exists already.
            InvalidOption: it is in the output folder or the checkpoint, or two are the same file.
        """
        taken: dict[Path, str] = {}
        for option, path in self._paths:
            if path is None:
                continue
            if isinstance(place_of(path, option), UriPath):
                raise InvalidOption(f"{option} {path}: it is written on this machine; give a path")
            refuse_existing(path, option)
            for name, folder in (("--out", out), ("--checkpoint", checkpoint)):
                if folder is not None and path.resolve().is_relative_to(folder.resolve()):
                    raise InvalidOption(
                        f"{option} {path} lies within {name} {folder}: put it elsewhere"
                    )
            if other := taken.get(path.resolve()):
                raise InvalidOption(f"{other} and {option} are the same file, {path}")
            taken[path.resolve()] = option

    @contextmanager
    def written(
        self,
        findings: Iterable[FindingRow],
        logs: Sequence[str],
        rules: Sequence[str],
        version: str,
        spans: Iterable[SpanRow] = (),
        catalogue: Mapping[str, FindingKind] = CATALOGUE,
        ends_ms: Mapping[tuple[str, int], int] = NO_ENDS,
        not_looked_at: Mapping[str, Mapping[str, str]] = LOOKED_AT_ALL,
        placed: PlacedFiles | None = None,
    ) -> Iterator[None]:
        """Write the files next to their places, and move them there at the end of the block.

        Either all are moved or none. `spans` and `ends_ms` are for Perfetto, `not_looked_at` is for
        JUnit. `placed` also removes the files if something fails later; None: they stay.

        Raises:
            OutputExists: a file exists by now.
            OSError: a file cannot be written; it is named.
        """
        with ExitStack() as desks:
            written: list[_Written] = []
            with ExitStack() as files:

                def opened(path: Path, option: str) -> IO[str]:
                    new = _Written(desks.enter_context(_desk(path)) / path.name, path, option)
                    written.append(new)
                    return files.enter_context(new.open())

                trace = None
                if self.perfetto is not None:
                    to = opened(self.perfetto, "--perfetto")
                    if self.perfetto.name.endswith(".gz"):
                        to = files.enter_context(packed(to))
                    trace = Perfetto(to, rules[0] if rules else "", ends_ms)
                    for row in spans:
                        trace.span(row)
                    findings = _passing(findings, trace.finding)
                gathered = None
                if self.junit is not None:
                    gathered = JUnit(catalogue)
                    findings = _passing(findings, gathered.add)
                if self.sarif is not None:
                    to = opened(self.sarif, "--sarif")
                    to.writelines(sarif(findings, version, catalogue))
                elif self.any:
                    for _ in findings:
                        pass
                if self.junit is not None and gathered is not None:
                    opened(self.junit, "--junit").write(gathered.text(logs, rules, not_looked_at))
                if trace is not None:
                    trace.end()
            yield
            for each in written:
                refuse_existing(each.path, each.option)
            with PlacedFiles() if placed is None else nullcontext(placed) as moved:
                for each in written:
                    moved.move(each.beside, each.path)


class PlacedFiles:
    """Files in their places. A context manager that removes them if its block fails."""

    def __init__(self) -> None:
        self._paths: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for path in self._paths if kind is not None else ():
            with suppress(OSError):
                path.unlink()

    def move(self, beside: Path, path: Path) -> None:
        """Move a file to its place.

        Raises:
            OSError: it cannot be moved; its place is named.
        """
        with naming(path, beside):
            beside.chmod(0o666 & ~umask())
            beside.rename(path)
        self._paths.append(path)


@frozen
class _Written:
    """A file next to its place."""

    beside: Path
    path: Path
    option: str

    def open(self) -> IO[str]:
        raw = _NamedFile(self.beside, self.path)
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")


NO_EXPORTS: Final = Exports()
"""The tables alone."""


def _passing(
    findings: Iterable[FindingRow], count: Callable[[FindingRow], None]
) -> Iterator[FindingRow]:
    for row in findings:
        count(row)
        yield row


def _desk(path: Path) -> Scratch:
    """A temporary folder next to a file."""
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        return Scratch("export", beside=path)
    except OSError as error:
        raise ReplayError(f"{path}: cannot write there: {error.strerror or error}") from None


class _NamedFile(io.FileIO):
    """A new file; errors of writing have the name of its final place."""

    def __init__(self, beside: Path, path: Path) -> None:
        self._path = path
        with naming(path, beside):
            super().__init__(beside, "w")

    def write(self, data: Any, /) -> int:
        with naming(self._path):
            return super().write(data)
