"""What came of one group: every judge is asked, and what is wrong is a list of sentences."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen
from tests.client.crew import RULES
from tools.chaos.crew import BATCH, Crew
from tools.chaos.judges.agree import Recorded, Replayed, disagreements, processed_by
from tools.chaos.judges.compare import Compared, Written, compare
from tools.chaos.judges.shared import RangesOfLog, SharedJudges, ranges_of, replayed_ranges
from tools.chaos.load import SET
from tools.chaos.worker import WAYS

from kafka_marshal.capture import read_capture
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.claims.world import World
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.validate import read_folder, validate

WIDTH: Final = 22
"""Of a column."""


@frozen
class Judged:
    """What came of one group."""

    crew: Crew
    written: Written
    compared: Compared
    replayed: Replayed
    recorded: Recorded
    apart: list[str]
    """Where the three judges disagree."""
    wrong: list[str]
    log: RangesOfLog | None = None
    """What the log says of ranges, if the group shares its topic."""

    def rows(self) -> dict[str, int | None]:
        """Its column of the table; None where there is nothing to count."""
        listed = self.written.listed
        judged = self.written.ends
        processed = (partition in judged for partition, _ in self.recorded.processed)
        return {
            "processes of consumers": len([*self.crew.all()]),
            "  that found no broker": self.crew.could_not_start,
            "messages": sum(judged.values()),
            "accounting: handed over": sum(
                n for (p, _), n in self.written.handed.items() if p in judged
            ),
            "accounting: handed over again": self.compared.repeated,
            "accounting: lost": self.compared.lost,
            "listed: may be lost": None
            if listed is None
            else sum(offset < judged.get(partition, 0) for partition, offset in listed),
            "listed: lost, not among them": None if listed is None else self.compared.unlisted,
            "ranges granted": None if self.log is None else len(self.log.granted),
            "ranges of silent holders": None if self.log is None else len(self.log.taken),
            "ranges ended by operators": None if self.log is None else self.log.ended,
            "replay: tenures": len(self.replayed.tenures),
            "replay: sum of positions": sum(self.replayed.positions.get(p, 0) for p in judged),
            "replay: errors": len(self.replayed.errors),
            "validate: processed": sum(processed),
            "validate: unexplained": int(self.recorded.unexplained is not None),
            "validate: not judged": self.recorded.unjudged,
            "the judges disagree": len(self.apart),
            "violations": len(self.wrong),
        }


def judge(crew: Crew, log: Path, out: Path, replayed: Replayed) -> Judged:
    """Ask every judge, once all processes have ended.

    Args:
        crew: the group.
        log: a capture of the whole log.
        out: the tables that its replay wrote.
        replayed: what they say of the group.
    """
    return _judge_shared(crew, log, out, replayed) if crew.shares else _judge(crew, log, replayed)


def _judge(crew: Crew, log: Path, replayed: Replayed) -> Judged:
    wrong = list(crew.wrong)
    listed = _receipts(crew, wrong) if crew.at_most_once else None
    ends = crew.load.judged()
    written = Written(ends, crew.handed(), crew.done(), _tenures(log, crew.group), listed)
    recorded = _recorded(crew, log, "processed")
    apart = disagreements(crew.at_most_once, BATCH, ends, crew.did(), replayed, recorded)
    return _judged(crew, written, replayed, recorded, apart, wrong)


def _judge_shared(crew: Crew, log: Path, out: Path, replayed: Replayed) -> Judged:
    wrong = list(crew.wrong)
    of_log = ranges_of(log, crew.group, crew.load.topic)
    again = of_log.again
    listed = None
    if crew.at_most_once:
        listed = set(again) | of_log.silent_at_the_end()
        for partition, offset in sorted(_receipts(crew, wrong)):
            wrong.append(f"a receipt of partition {partition}, offset {offset}, which is shared")
    ends = crew.load.judged()
    written = Written(ends, crew.handed(), crew.done(), Counter(), listed, again)
    recorded = _recorded(crew, log, "begun" if crew.at_most_once else "finished")
    judges = SharedJudges(
        *(crew.at_most_once, BATCH, ends, crew.did(), replayed, recorded),
        log=of_log,
        ranges=replayed_ranges(out, crew.group, crew.load.topic),
    )
    return _judged(crew, written, replayed, recorded, judges.disagreements(), wrong, of_log)


def _judged(
    crew: Crew,
    written: Written,
    replayed: Replayed,
    recorded: Recorded,
    apart: list[str],
    wrong: list[str],
    log: RangesOfLog | None = None,
) -> Judged:
    compared = compare(written)
    wrong += compared.wrong
    wrong += [f"the judges disagree: {sentence}" for sentence in apart]
    if recorded.unexplained is not None:
        wrong.append(f"unexplained: {recorded.unexplained}")
    return Judged(crew, written, compared, replayed, recorded, apart, wrong, log)


def _receipts(crew: Crew, wrong: list[str]) -> set[tuple[int, int]]:
    """Partition and offset of everything that may have been lost, as an operator reads it."""
    ran = crew.marshal("receipts", crew.load.topic, "--json")
    not_known = crew.shares and ran.returncode == 2 and "consumers share" in ran.stderr
    if ran.returncode not in (0, 1) and not not_known:
        wrong.append(f"marshal receipts: exit code {ran.returncode}, {ran.stderr.strip()}")
        return set()
    listed: set[tuple[int, int]] = set()
    for one in map(json.loads, ran.stdout.splitlines()):
        partition, start, end = one["topic_partition"], one["start"], one["end"]
        listed |= {(partition, offset) for offset in range(start or 0, end)}
        if partition != SET and (start is None or end - start > BATCH):
            wrong.append(f"partition {partition}: a receipt of {start} to {end}")
    return listed


def _recorded(crew: Crew, log: Path, event: str) -> Recorded:
    """What was recorded, and what of it the specification does not explain."""
    folder = crew.folder / "recorded"
    processed = processed_by(folder, event)
    shutil.copy(log, folder / "log.jsonl")
    judgement = validate(read_folder(folder))
    return Recorded(processed, judgement.unexplained, len(judgement.unjudged))


def _tenures(log: Path, group: str) -> Counter[int]:
    """How often each claim of the group was won, as the log says."""
    found: Counter[int] = Counter()
    worlds: dict[int, World] = {}
    for raw in read_capture(log):
        try:
            record = raw.decoded()
        except MalformedRecord:
            continue
        world = worlds.setdefault(record.partition, World(RULES))
        message = record.message
        if isinstance(message, ReleaseGroup):
            world.apply(record)
            continue
        key = message.key
        before = world.claim(key).epoch
        world.apply(record)
        if message.group_id == group and world.claim(key).epoch != before:
            found[message.partition] += 1
    return found


def table(judged: Sequence[Judged], happened: Mapping[str, int]) -> str:
    """The table of the run, a column for each group."""
    told = ", ".join(f"{number} {what}" for what, number in happened.items())
    columns = [one.rows() for one in judged]
    rows: list[tuple[str, list[int | None]]] = [
        (name, [one[name] for one in columns]) for name in columns[0]
    ]
    rows += [
        (
            f"processed by {way}",
            [one.crew.processed_by(way) if way in one.crew.ways else None for one in judged],
        )
        for way in WAYS["at_least_once"]
    ]
    head = f"{'':32}" + "".join(f"{one.crew.name:>{WIDTH}}" for one in judged)
    lines = [
        f"{name:32}" + "".join(f"{'-' if n is None else f'{n:,}':>{WIDTH}}" for n in counts)
        for name, counts in rows
    ]
    return "\n".join([f"{sum(happened.values())} faults: {told}", "", head, *lines])
