"""A whole replay of a hostile log: its tables, its page and its exports.

Whatever ids, groups and topics hold, the page has the elements that we made and no others, and
each export is what its format asks for. What is no message changes nothing but what is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.replay.told import replayed
from tools.fuzz.oracle import Finding, differs, refused_by
from tools.fuzz.target import Target
from tools.fuzz.targets.sources import captures

from kafka_marshal.capture import RawRecord, UnreadableSource, capture_line, read_capture
from kafka_marshal.codec import MalformedRecord, decode
from kafka_marshal.errors import MarshalError
from kafka_marshal.replay import run
from kafka_marshal.replay.exports.files import Exports
from kafka_marshal.replay.model.rows import Table
from kafka_marshal.replay.model.tables import (
    DIVERGENCES,
    FINDINGS,
    MALFORMED,
    REFUSALS,
    TENURES,
    Rows,
)

_VOID = frozenset({"meta", "br", "hr", "input", "col", "link"})
_HARMFUL = frozenset(
    {"iframe", "object", "embed", "img", "form", "base", "video", "audio", "template"}
)
HOSTILE_IDS = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\u202etxt.exe",
    "\x1b[31m\x00\x07",
    "'\"&<!--]]>",
    "javascript:alert(1)",
    "i" * 3000,
)


class Elements(HTMLParser):
    """What a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        if self.open:
            raise Finding("page", f"never closed: {self.open}")

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Only what we make, and nothing that acts."""
        if tag in _HARMFUL:
            raise Finding("page", f"an element <{tag}>")
        if len(dict(attributes)) != len(attributes):
            raise Finding("page", f"an attribute twice in <{tag}>")
        for name, value in attributes:
            shown = value or ""
            if name.startswith("on") or name in ("src", "srcdoc", "action", "formaction"):
                raise Finding("page", f"an attribute {name} in <{tag}>")
            if name.endswith("href") and not shown.startswith("#"):
                raise Finding("page", f"a link to {shown!r:.80}")
            if not shown.isprintable() and "\n" not in shown:
                raise Finding("page", f"not printable: {name}={shown!r:.80}")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Each closes what is open."""
        if not self.open or self.open.pop() != tag:
            raise Finding("page", f"</{tag}> closes nothing")

    def handle_data(self, text: str) -> None:
        """Scripts are ours, or data."""
        if self.open and self.open[-1] == "script":
            self.scripts.append(text)
        elif not text.replace("\n", "").isprintable():
            raise Finding("page", f"not printable: {text!r:.80}")

    def handle_comment(self, text: str) -> None:
        """There are none."""
        raise Finding("page", f"a comment {text!r:.80}")


def check_page(text: str, scripts: frozenset[str] | None = None) -> None:
    """Nothing in a page came from a record but text."""
    text.encode("utf-8")
    found = Elements(text)
    for script in found.scripts:
        if script.lstrip()[:1] in "[{":
            json.loads(script)
        elif scripts is not None and script not in scripts:
            raise Finding("page", f"a script that is not ours: {script!r:.80}")


def seeds() -> Iterator[bytes]:
    """Hostile logs, and one with a hostile id in every field."""
    yield from captures()
    lines: list[str] = []
    for number, odd in enumerate(HOSTILE_IDS):
        name = odd.replace("/", "\u2044")
        for kind, tail in (("ClaimingPartition", ""), ("Heartbeat", "/5"), ("Heartbeat", "/3")):
            value = f"{kind}/1/{5 + number}/{name}/{name}/{name}/{name}/0{tail}".encode()
            headers = ((odd, odd.encode()), ("marshal-epoch", odd.encode()))
            lines.append(
                capture_line(RawRecord(0, len(lines), 5000 + 9000 * number, value, headers))
            )
    yield "".join(f"{line}\n" for line in lines).encode()


_OURS: list[frozenset[str]] = []


def _our_scripts(desk: Path) -> frozenset[str]:
    if not _OURS:
        path = desk / "ordinary.jsonl"
        path.write_text(capture_line(RawRecord(0, 0, 0, b"x")) + "\n", encoding="utf-8")
        run([str(path)], out=desk / "ordinary", engine="local")
        page = (desk / "ordinary" / "report.html").read_text(encoding="utf-8")
        _OURS.append(frozenset(Elements(page).scripts))
    return _OURS[0]


def check_replay(data: bytes, desk: Path) -> None:
    """A replay ends with tables, a page and exports, or with one sentence."""
    ours = _our_scripts(desk)
    path, out = desk / "capture.jsonl", desk / "out"
    path.write_bytes(data)
    exports = Exports(desk / "x.sarif", desk / "x.xml", desk / "x.json")
    with refused_by(MarshalError, UnreadableSource):
        run([str(path)], out=out, rules="both", exports=exports, engine="local")
        check_page((out / "report.html").read_text(encoding="utf-8"), ours)
        json.loads((out / "summary.json").read_text(encoding="utf-8"))
        json.loads((desk / "x.sarif").read_text(encoding="utf-8"))
        json.loads((desk / "x.json").read_text(encoding="utf-8"))
        ElementTree.fromstring((desk / "x.xml").read_bytes())


# --- garbage --------------------------------------------------------------------------------------

_JUDGED: tuple[Table[Any], ...] = (TENURES, REFUSALS, DIVERGENCES)


def check_garbage(data: bytes, desk: Path) -> None:
    """Malformed records change no tenure, refusal or divergence, and are counted one by one.

    Each offset of the log stays: where garbage stands, the other log has other garbage.
    """
    path = desk / "capture.jsonl"
    path.write_bytes(data)
    with refused_by(UnreadableSource, naming=str(path)):
        raws = list({(raw.partition, raw.offset): raw for raw in read_capture(path)}.values())
        with_it = replayed(raws)
        plain = [raw if _is_message(raw) else _garbage(raw) for raw in raws]
        without = replayed(plain)
        _same(with_it, without)
        count = sum(not _is_message(raw) for raw in raws)
        if len(with_it[MALFORMED]) != count:
            raise differs("malformed records", len(with_it[MALFORMED]), count)
        # The first record of a log stays: without it nobody knows what came before.
        heads = {raw.partition: raw.offset for raw in sorted(raws, key=_offset, reverse=True)}
        left_out = replayed(
            raw for raw in raws if _is_message(raw) or raw.offset == heads[raw.partition]
        )
        _same(with_it, left_out)
        if (
            {row.code for row in left_out[FINDINGS]}
            - {row.code for row in with_it[FINDINGS]}
            - {
                "offset_gap",
                "head_missing",
            }
        ):
            raise differs("findings", with_it[FINDINGS], left_out[FINDINGS])


def _same(ours: Rows, theirs: Rows) -> None:
    for table in _JUDGED:
        if ours[table] != theirs[table]:
            raise differs(table.name, ours[table], theirs[table])


def _offset(raw: RawRecord) -> int:
    return raw.offset


def _is_message(raw: RawRecord) -> bool:
    try:
        decode(raw.value)
    except MalformedRecord:
        return False
    return True


def _garbage(raw: RawRecord) -> RawRecord:
    return RawRecord(raw.partition, raw.offset, raw.timestamp_ms, b"garbage")


TARGETS = (
    Target(
        name="report",
        rooms=(
            "kafka_marshal.replay.report",
            "kafka_marshal.replay.exports",
            "kafka_marshal.markup",
        ),
        seeds=seeds,
        check=check_replay,
        words=tuple(odd.encode() for odd in HOSTILE_IDS),
        size_max=1 << 14,
    ),
    Target(
        name="garbage",
        rooms=("kafka_marshal.replay.fold", "kafka_marshal.replay.findings"),
        seeds=captures,
        check=check_garbage,
        size_max=1 << 13,
    ),
)
