"""Values and headers: the pure decoder, and the kernel's columns held against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
from tests.kernel import hostile
from tests.kernel.kernel import arrays
from tools.fuzz.oracle import Finding, differs, refused_by
from tools.fuzz.target import Target

from kafka_marshal import FENCED, ORIGINAL, World
from kafka_marshal.capture import HeaderPairs, RawRecord, capture_line, parse_line
from kafka_marshal.codec import (
    MalformedRecord,
    UnsendableMessage,
    decode,
    decode_headers,
    encode,
    encode_headers,
    malformed_amendments,
)
from kafka_marshal.core import wire
from kafka_marshal.core.claims.verdicts import ReadTwice
from kafka_marshal.kernel import steps
from kafka_marshal.kernel.columns import MALFORMED, NameCodes, header_row
from kafka_marshal.kernel.fold import BeyondKernel, KernelFold

WORDS = (
    *(f"{layout.name}/".encode() for layout in wire.MESSAGES),
    *(header.name.encode() for header in wire.HEADERS),
    *(b"marshal-", b"/", b"//", b"Heartbeat/1/5/i/c/g/t/0/4", b"\tmarshal-epoch=7"),
)
RULES = [
    attrs.evolve(rules, heartbeat_interval_ms=4000, pause_max_ms=30_000)
    for rules in (FENCED, ORIGINAL)
]


def rows(data: bytes) -> list[RawRecord]:
    """Records, a line each: the value, then `name=value` after tabs; no value is null.

    The offset counts lines. A line that begins with `@N ` sets time forward by N ms.
    """
    found, now_ms = [], 50_000
    for offset, line in enumerate(data.split(b"\n")):
        if line.startswith(b"@"):
            step, _, line = line[1:].partition(b" ")
            if step.removeprefix(b"-").isdigit() and len(step) < 17:
                now_ms = max(-(2**62), min(2**62, now_ms + int(step)))
        value, *cells = line.split(b"\t")
        found.append(RawRecord(0, offset, now_ms, value or None, tuple(_pairs(cells))))
    return found


def _pairs(cells: list[bytes]) -> Iterator[tuple[str, bytes | None]]:
    for cell in cells:
        name, equals, value = cell.partition(b"=")
        yield name.decode("utf-8", "replace"), value if equals else None


def line_of(raw: RawRecord, step_ms: int) -> bytes:
    """A record as a line of `rows`."""
    cells = [name.encode() + (b"" if v is None else b"=" + v) for name, v in raw.headers]
    return b"@%d " % step_ms + b"\t".join([raw.value or b"", *cells])


def seeds() -> Iterator[bytes]:
    """Hostile logs, of which some lines are no lines here."""
    for seed in range(6):
        log = list(hostile.log(seed, 9))
        times = [50_000, *(raw.timestamp_ms for raw in log)]
        yield b"\n".join(
            line_of(raw, raw.timestamp_ms - before) for raw, before in zip(log, times, strict=False)
        )
    yield b"Heartbeat/1/1700000000/i1/c1/g/events/3/500"
    yield b"ReleaseGroup/1/5/i/c/g//0/4\tmarshal-epoch=7\tmarshal-seen=x"


def check_decoder(data: bytes, _: Path) -> None:
    """Every value is a message or malformed; what is a message survives a round trip."""
    for raw in rows(data):
        with refused_by(MalformedRecord, naming="malformed "):
            message = decode(raw.value)
            with refused_by(UnsendableMessage, naming="cannot encode "):
                again = encode(message)
                if decode(again) != message or encode(decode(again)) != again:
                    raise differs("a round trip", again, message)
        headers = decode_headers(raw.headers)
        bad = malformed_amendments(raw.headers)
        if list(bad) != sorted(set(bad)):
            raise Finding("differs", f"amendments: {bad}")
        with refused_by(UnsendableMessage, naming="cannot encode "):
            if (
                decode_headers(encode_headers(headers)) != headers
                and max(_numbers(headers)) < 2**63
            ):
                raise differs("headers", encode_headers(headers), headers)
        line = capture_line(raw)
        if parse_line(line, "x:1") != raw:
            raise differs("a capture's line", parse_line(line, "x:1"), raw)


def _numbers(headers: object) -> list[int]:
    return [n for n in attrs.astuple(headers) if isinstance(n, int)] or [0]  # type: ignore[arg-type]


def check_kernel(data: bytes, _: Path) -> None:
    """The kernel decodes every row as the codec does, and folds every record as the reducer."""
    raws = rows(data)
    names = NameCodes()
    columns = names.decoded(*arrays(raws))
    instances, clients, groups = (
        texts.names() for texts in (names.instances, names.clients, names.groups)
    )
    claims = names.claim_keys()
    for row, raw in enumerate(raws):
        _check_headers(columns.headers[row].tolist(), bool(columns.present[row]), raw.headers)
        if bool(columns.amended_badly[row]) != bool(malformed_amendments(raw.headers)):
            raise differs(f"amendments of row {row}", columns.amended_badly[row], raw.headers)
        try:
            message = decode(raw.value)
        except MalformedRecord:
            if columns.kind[row] != MALFORMED:
                raise differs(f"row {row}", columns.kind[row], "malformed") from None
            continue
        if columns.kind[row] == MALFORMED:
            raise differs(f"row {row}", "malformed", message)
        layout = wire.MESSAGES[columns.kind[row]]
        instance, client, group, claim = names.table[columns.address[row]]
        ours = (
            *(layout.message, int(columns.version[row]), int(columns.unix_s[row])),
            *(instances[instance], clients[client], groups[group]),
            int(columns.number[row]) if layout.number else None,
        )
        theirs = (
            *(type(message), message.version, message.unix_s),
            *(message.instance_id, message.client_id, message.group_id),
            getattr(message, layout.number) if layout.number else None,
        )
        if ours != theirs:
            raise differs(f"row {row}", ours, theirs)
        if layout.keyed and claims[claim] != message.key:  # type: ignore[union-attr]
            raise differs(f"claim of row {row}", claims[claim], message)
    _check_folds(raws)


def _check_headers(ours: list[int], present: bool, pairs: HeaderPairs) -> None:
    said = decode_headers(pairs)
    if (present, ours) != (said.present, header_row(said)):
        raise differs("headers", (present, ours), said)


def _check_folds(raws: list[RawRecord]) -> None:
    offsets = np.array([raw.offset for raw in raws], np.int64)
    timestamps_ms = np.array([raw.timestamp_ms for raw in raws], np.int64)
    words = {steps.NO_MESSAGE: "malformed", steps.READ_TWICE: "read twice"}
    for rules in RULES:
        folded, world = KernelFold(rules), World(rules)
        columns = folded.names.decoded(*arrays(raws))
        try:
            verdicts = folded.apply(offsets, timestamps_ms, columns).tolist()
        except BeyondKernel:
            continue
        for raw, number in zip(raws, verdicts, strict=True):
            try:
                verdict: object = world.apply(raw.decoded()).verdict
            except MalformedRecord:
                verdict = "malformed"
            told = "read twice" if isinstance(verdict, ReadTwice) else verdict
            if (words.get(number) or steps.VERDICTS[number]) != told:
                raise differs(f"offset {raw.offset}", number, told)
        if folded.claims() != world.claims:
            raise differs("claims", folded.claims(), world.claims)


TARGETS = (
    Target(
        name="decode",
        rooms=("kafka_marshal.codec", "kafka_marshal.capture"),
        seeds=seeds,
        check=check_decoder,
        words=WORDS,
    ),
    Target(
        name="kernel",
        rooms=("kafka_marshal.codec", "kafka_marshal.kernel", "kafka_marshal.core"),
        seeds=seeds,
        check=check_kernel,
        words=WORDS,
        size_max=1 << 14,
    ),
)
