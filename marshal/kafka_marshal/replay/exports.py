"""Findings for other tools, each into a file of its own beside the output folder.

As with the folder: a file that is there is refused, and a run that fails leaves none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final

from attrs import frozen

from kafka_marshal.replay.errors import InvalidOption, ReplayError
from kafka_marshal.replay.junit import JUnit
from kafka_marshal.replay.output import refuse_existing, umask
from kafka_marshal.replay.rows import Row
from kafka_marshal.replay.sarif import sarif


@frozen
class Exports:
    """Where the findings go besides; None: nowhere."""

    sarif: Path | None = None
    junit: Path | None = None

    @property
    def any(self) -> bool:
        """At least one is wanted."""
        return self.sarif is not None or self.junit is not None

    def check(self, out: Path) -> None:
        """Refuse what cannot be written before anything is read.

        Raises:
            OutputExists: a file is there already.
            InvalidOption: it lies in the output folder, or both are one file.
        """
        for option, path in (("--sarif", self.sarif), ("--junit", self.junit)):
            if path is None:
                continue
            refuse_existing(path, option)
            if path.resolve().is_relative_to(out.resolve()):
                raise InvalidOption(f"{option} {path} lies within --out {out}: put it elsewhere")
        if self.sarif and self.junit and self.sarif.resolve() == self.junit.resolve():
            raise InvalidOption(f"--sarif and --junit are the same file, {self.sarif}")

    @contextmanager
    def written(
        self, findings: Iterable[Row], logs: Sequence[str], rules: Sequence[str], version: str
    ) -> Iterator[None]:
        """Write them beside their places, and move them there when the block ends well."""
        with ExitStack() as files:
            gathered = JUnit() if self.junit else None
            if gathered is not None:
                findings = _passing(findings, gathered)
            if self.sarif is not None:
                to = files.enter_context(_placed_file(self.sarif, "--sarif"))
                to.writelines(sarif(findings, version))
            elif gathered is not None:
                for _ in findings:
                    pass
            if self.junit is not None and gathered is not None:
                to = files.enter_context(_placed_file(self.junit, "--junit"))
                to.write(gathered.text(logs, rules))
            yield


NO_EXPORTS: Final = Exports()
"""The tables alone."""


def _passing(findings: Iterable[Row], gathered: JUnit) -> Iterator[Row]:
    for row in findings:
        gathered.add(row)
        yield row


@contextmanager
def _placed_file(path: Path, option: str) -> Iterator[IO[str]]:
    """A file to fill; it becomes `path` when the block ends well, and is gone otherwise."""
    parent = path.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=parent, prefix=f".{path.name}.", delete=False
        ) as file:
            beside = Path(file.name)
    except OSError as error:
        raise ReplayError(f"{path}: cannot write there: {error.strerror or error}") from None
    try:
        with beside.open("w", encoding="utf-8") as file:
            yield file
        refuse_existing(path, option)
        beside.chmod(0o666 & ~umask())
        beside.rename(path)
    finally:
        beside.unlink(missing_ok=True)
