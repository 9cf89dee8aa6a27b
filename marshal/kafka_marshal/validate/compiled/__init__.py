"""Judges a run in a file with the compiled judge, for as long as its events are ordinary.

`kernel.judge` takes lines as long as they are ordinary and explained. At the first line that is
not, what it knows becomes a `Validator`, which judges from there on. So this room decides nothing:
what is not explained, `validator` says.
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
"""Lines are taken apart in chunks of about this size."""


def fits(setting: Setting) -> bool:
    """Whether the compiled judge may begin with a run of this setting.

    Its producers are idempotent, every name is one that a plain line can hold and a claim's text,
    and 64 bits hold every number that the rules lead to.
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
    """What became of a run in a file."""

    judgement: Judgement
    compiled: int
    """How many of its events were judged compiled."""
    judge: CompiledJudge
    validator: Validator | None
    """Who judged from there on, if the run was not ordinary to its end."""


def validate_file(found: FileEvents, starts: Sequence[Mapping[int, int]]) -> Judgement:
    """Explain every event of a file, as `validator.validate` does.

    The setting `fits`, and nobody shares. Raises what reading the events raises.
    """
    return judged(found, starts).judgement


def judged(
    found: FileEvents, starts: Sequence[Mapping[int, int]], chunk_bytes: int = CHUNK_BYTES
) -> JudgedFile:
    """The same, and how far the compiled judge took it."""
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
    """The lines of what is left of a chunk, and of those behind it, that are not blank."""
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
