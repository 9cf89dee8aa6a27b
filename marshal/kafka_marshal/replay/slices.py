"""A shrunk log as files: a capture, and a test to paste that replays it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from kafka_marshal.capture import capture_line
from kafka_marshal.replay.output import placed
from kafka_marshal.replay.rows import Row
from kafka_marshal.replay.shrinking import OF_WHOLE_LOGS, Shrunk

CAPTURE: Final = "slice.jsonl"


def written(shrunk: Shrunk, out: Path) -> tuple[Path, Path]:
    """Write the new folder `out`; the paths of the capture and of the test.

    Raises:
        OutputExists: `out` is there already.
        ReplayError: it cannot be made.
    """
    name = f"test_{shrunk.finding['code']}.py"
    with placed(out) as folder:
        lines = "".join(capture_line(raw) + "\n" for raw in shrunk.part.records)
        (folder / CAPTURE).write_text(lines, encoding="utf-8")
        (folder / name).write_text(pasted(shrunk), encoding="utf-8")
    return out / CAPTURE, out / name


def pasted(shrunk: Shrunk) -> str:
    """The text of the test."""
    code, place, judging = str(shrunk.finding["code"]), shrunk.part.place, shrunk.judging
    (rule_set,) = judging.rule_sets
    judged = [
        f"(RuleSet.{rule_set.name},)",
        f"heartbeat_interval_ms={judging.heartbeat_interval_ms!r}",
        f"pause_max_ms={judging.pause_max_ms!r}",
        f"coordination_partitions={judging.coordination_partitions!r}",
    ]
    whole = code in OF_WHOLE_LOGS
    extra = (
        '    told += log_findings(rows["partitions"])\n'
        '    told += clock_findings(merged(rows.get("senders", [])), '
        "JUDGING.heartbeat_interval_ms)\n"
        if whole
        else ""
    )
    imports = (
        "from kafka_marshal.replay.findings.inputs import log_findings\n"
        "from kafka_marshal.replay.findings.senders import clock_findings, merged\n"
        if whole
        else ""
    )
    some = f"{len(shrunk.part.records):,} of {shrunk.records_before:,} records"
    return f'''"""{some} that still show {code}.

{_commentable(shrunk.finding)}
"""

from pathlib import Path

from kafka_marshal import RuleSet
from kafka_marshal.capture import read_capture
from kafka_marshal.replay.account import Account, Judging
from kafka_marshal.replay.events import Place
{imports}
CAPTURE = Path(__file__).with_name("{CAPTURE}")
JUDGING = Judging(
    {f",{chr(10)}    ".join(judged)},
)


def test_the_log_shows_{code}() -> None:
    account = Account(Place({json.dumps(place.log)}, {place.coordinating_partition}), JUDGING)
    for raw in read_capture(CAPTURE):
        account.feed(raw)
    account.close()
    rows = account.drain()
    told = rows.get("findings", [])
{extra}    assert ({json.dumps(code)}, {shrunk.finding.get("offset")!r}) in [
        (row["code"], row.get("offset")) for row in told
    ]
'''


def _commentable(finding: Row) -> str:
    """The sentence, in lines, as it may stand in a docstring."""
    text = str(finding["sentence"]).encode("ascii", "backslashreplace").decode()
    words, lines = text.replace("\\", "/").replace('"', "'").split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) >= 98:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)
