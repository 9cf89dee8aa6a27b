"""Writes a shrunk log as files: a capture, a test that replays it, and its story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from kafka_marshal.capture import RawRecord, capture_line
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.messages import Record, ReleaseGroup
from kafka_marshal.counterexample import Counterexample, write
from kafka_marshal.counterexample.records import from_records
from kafka_marshal.replay.exports.output import placed
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.shrink.shrinking import OF_WHOLE_LOGS, ShrunkLog

CAPTURE: Final = "slice.jsonl"
STORY: Final = "story"


def written(shrunk: ShrunkLog, out: Path) -> tuple[Path, ...]:
    """Write the new folder `out`; return the paths of the capture, the test, and the story.

    Raises:
        OutputExists: `out` exists already.
        ReplayError: it cannot be created.
    """
    name = f"test_{shrunk.finding.code}.py"
    with placed(out) as folder:
        lines = "".join(capture_line(raw) + "\n" for raw in shrunk.part.records)
        (folder / CAPTURE).write_text(lines, encoding="utf-8")
        (folder / name).write_text(pasted(shrunk), encoding="utf-8")
        story = story_of(shrunk)
        stories = [] if story is None else write(folder, STORY, story)
        told_in = [out / path.name for path in stories]
    return out / CAPTURE, out / name, *told_in


def story_of(shrunk: ShrunkLog) -> Counterexample | None:
    """The slice as a counterexample, if all of it is about one claim.

    It uses the rules of the finding, so that the original's behaviour is shown as it was.
    """
    finding = shrunk.finding
    records = [record for raw in shrunk.part.records if (record := _decoded(raw)) is not None]
    keys = {
        message.key
        for message in (record.message for record in records)
        if not isinstance(message, ReleaseGroup)
    }
    if len(keys) != 1:
        return None
    (rules,) = shrunk.judging.rules()
    return from_records(
        records,
        finding.property,
        f"{shrunk.part.log_partition.log}: {finding.code}",
        rules,
        about=finding.sentence,
        faultless_below=finding.offset or 0,
    )


def _decoded(raw: RawRecord) -> Record | None:
    try:
        return raw.decoded()
    except MalformedRecord:
        return None


def pasted(shrunk: ShrunkLog) -> str:
    """The text of the test."""
    code, at, judging = shrunk.finding.code, shrunk.part.log_partition, shrunk.judging
    (rule_set,) = judging.rule_sets
    judged = [
        f"(RuleSet.{rule_set.name},)",
        f"heartbeat_interval_ms={judging.heartbeat_interval_ms!r}",
        f"pause_max_ms={judging.pause_max_ms!r}",
        f"coordination_partitions={judging.coordination_partitions!r}",
        f"log_begins={judging.log_begins!r}",
        f"forced={judging.forced!r}",
    ]
    whole = code in OF_WHOLE_LOGS
    extra = (
        "    findings += log_findings(rows[PARTITIONS])\n"
        "    clocks, groups = merged(rows[SENDERS]), rows[GROUPS]\n"
        "    findings += clock_findings(clocks, JUDGING.heartbeat_interval_ms, groups)\n"
        if whole
        else ""
    )
    tables = "FINDINGS, GROUPS, PARTITIONS, SENDERS" if whole else "FINDINGS"
    imports = (
        "from kafka_marshal.replay.findings.records.inputs import log_findings\n"
        "from kafka_marshal.replay.findings.records.senders import clock_findings, merged\n"
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
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.tables import {tables}
{imports}
CAPTURE = Path(__file__).with_name("{CAPTURE}")
JUDGING = JudgingOptions(
    {f",{chr(10)}    ".join(judged)},
)


def test_the_log_shows_{code}() -> None:
    log_partition = LogPartition({json.dumps(at.log)}, {at.coordinating_partition})
    partition_fold = PartitionFold(log_partition, JUDGING)
    for raw in read_capture(CAPTURE):
        partition_fold.feed(raw)
    partition_fold.close()
    rows = partition_fold.drain()
    findings = rows[FINDINGS]
{extra}    assert ({json.dumps(code)}, {shrunk.finding.offset!r}) in [
        (row.code, row.offset) for row in findings
    ]
'''


def _commentable(finding: FindingRow) -> str:
    """The sentence, in lines, in a form for docstrings."""
    text = finding.sentence.encode("ascii", "backslashreplace").decode()
    words, lines = text.replace("\\", "/").replace('"', "'").split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) >= 98:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)
