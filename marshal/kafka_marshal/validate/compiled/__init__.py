"""Judges a run in a file with the compiled judge, for as long as its events are ordinary.

`kernel.judge` processes lines while they are ordinary and explained. At the first other line, its
state becomes a `Validator`, which judges from there on. So this package decides nothing:
`validator` reports all unexplained events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from attrs import frozen

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.kernel import steps
from kafka_marshal.kernel.judge import lines
from kafka_marshal.validate.compiled.judge import CompiledJudge
from kafka_marshal.validate.reading import FileEvents, events_of_lines, line_chunks
from kafka_marshal.validate.run import Setting
from kafka_marshal.validate.validator import Judgement, Validator, first_unexplained, judgement_of

CHUNK_BYTES: Final = 1 << 22
"""The approximate size of a chunk of lines."""


def fits(setting: Setting) -> bool:
    """Whether the compiled judge can start with a run of this setting.

    Its producers must be idempotent, every name must fit into a plain line and a claim's text, and
    all numbers that the rules lead to must fit into 64 bits.
    """
    rules = setting.rules
    numbers = [rules.stale_after_ms, rules.pause_max_ms, rules.clock_rewind_max_ms]
    names = [*setting.members]
    for member in setting.members.values():
        names += [member.me.instance_id, member.me.client_id, member.group]
        numbers += [member.me.window, member.me.batch, member.me.start]
    plain = all(name.isascii() and "/" not in name for name in names)
    return setting.idempotent and rules.fenced and plain and max(numbers) <= steps.BOUND


@frozen
class JudgedFile:
    """The result of judging a run in a file."""

    judgement: Judgement
    compiled: int
    """The number of events judged by the compiled judge."""
    judge: CompiledJudge
    validator: Validator | None
    """The validator that judged the rest, if the run was not ordinary to its end."""


def validate_file(found: FileEvents, starts: Sequence[Mapping[int, int]]) -> Judgement:
    """Explain every event of a file, as `validator.validate` does.

    The setting must fit (`fits`), and no instance may share a claim. Raises the errors of reading
    events.
    """
    return judged(found, starts).judgement


def judged(
    found: FileEvents, starts: Sequence[Mapping[int, int]], chunk_bytes: int = CHUNK_BYTES
) -> JudgedFile:
    """The same, with how far the compiled judge got."""
    judge = CompiledJudge(found.setting, starts)
    chunks = line_chunks(found.path, chunk_bytes)
    for number, data in chunks:
        columns = judge.lines.columns(np.frombuffer(data, dtype=np.uint8))
        row, count = 0, len(columns.kind)
        while (row := judge.go_on(columns, row)) < count:
            begin, end = columns.line[row], columns.line[row + 1]
            line = data[begin:end]
            where = f"{found.path}:{number + row}"
            blank = columns.kind[row] == lines.ODD and not line.strip()
            started = columns.kind[row] == lines.STARTED
            if blank or (started and judge.starts(_decoded(found.path, line), where)):
                row += 1
                continue
            rest = _numbered(found.path, number + row, data[begin:], chunks)
            taken = events_of_lines(found.path, rest, found.setting)
            validator = judge.validator()
            compiled = validator.events
            judgement = judgement_of(validator, first_unexplained(validator, taken))
            return JudgedFile(judgement, compiled, judge, validator)
    judgement = judge.judgement()
    return JudgedFile(judgement, judgement.events, judge, None)


def _decoded(path: Path, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"{path}: not UTF-8 text (byte {error.start})") from None


def _numbered(
    path: Path, number: int, data: bytes, chunks: Iterator[tuple[int, bytes]]
) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank of the rest of a chunk, and of the chunks after it."""
    while True:
        for line in data.splitlines(keepends=True):
            text = _decoded(path, line)
            if not text.isspace():
                yield number, text
            number += 1
        try:
            number, data = next(chunks)
        except StopIteration:
            return
