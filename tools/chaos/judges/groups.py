"""What came of one group: every judge is asked, and what is wrong is a list of sentences."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen
from tests.client.crew import RULES
from tools.chaos.crew import BATCH, Crew
from tools.chaos.judges.agree import Recorded, Replayed, disagreements, processed_by
from tools.chaos.judges.compare import Compared, Written, compare
from tools.chaos.load import SET
from tools.chaos.worker import WAYS

from kafka_marshal.capture import read_capture
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.claims.world import World
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.validate import read_folder, validate


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
            "receipts: may be lost": None
            if listed is None
            else sum(partition in judged for partition, _ in listed),
            "receipts: lost, not listed": None if listed is None else self.compared.unlisted,
            "replay: tenures": len(self.replayed.tenures),
            "replay: sum of positions": sum(self.replayed.positions.get(p, 0) for p in judged),
            "replay: errors": len(self.replayed.errors),
            "validate: processed": sum(processed),
            "validate: unexplained": int(self.recorded.unexplained is not None),
            "the judges disagree": len(self.apart),
            "violations": len(self.wrong),
        }


def judge(crew: Crew, log: Path, replayed: Replayed) -> Judged:
    """Ask every judge, once all processes have ended; `log` is a capture of the whole log."""
    wrong = list(crew.wrong)
    at_most_once = crew.semantics == "at_most_once"
    listed = _receipts(crew, wrong) if at_most_once else None
    ends = crew.load.judged()
    written = Written(ends, crew.handed(), crew.done(), _tenures(log, crew.group), listed)
    compared = compare(written)
    recorded = _recorded(crew, log)
    apart = disagreements(at_most_once, BATCH, ends, crew.did(), replayed, recorded)
    wrong += compared.wrong
    wrong += [f"the judges disagree: {sentence}" for sentence in apart]
    if recorded.unexplained is not None:
        wrong.append(f"unexplained: {recorded.unexplained}")
    return Judged(crew, written, compared, replayed, recorded, apart, wrong)


def _receipts(crew: Crew, wrong: list[str]) -> set[tuple[int, int]]:
    """Partition and offset of everything that may have been lost, as an operator reads it."""
    ran = crew.marshal("receipts", crew.load.topic, "--json")
    if ran.returncode not in (0, 1):
        wrong.append(f"marshal receipts: exit code {ran.returncode}, {ran.stderr.strip()}")
        return set()
    listed: set[tuple[int, int]] = set()
    for one in map(json.loads, ran.stdout.splitlines()):
        partition, start, end = one["topic_partition"], one["start"], one["end"]
        listed |= {(partition, offset) for offset in range(start or 0, end)}
        if partition != SET and (start is None or end - start > BATCH):
            wrong.append(f"partition {partition}: a receipt of {start} to {end}")
    return listed


def _recorded(crew: Crew, log: Path) -> Recorded:
    """What was recorded, and what of it the specification does not explain."""
    folder = crew.folder / "recorded"
    processed = processed_by(folder)
    shutil.copy(log, folder / "log.jsonl")
    return Recorded(processed, validate(read_folder(folder)).unexplained)


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
            [
                one.crew.processed_by(way) if way in WAYS[one.crew.semantics] else None
                for one in judged
            ],
        )
        for way in WAYS["at_least_once"]
    ]
    head = f"{'':32}" + "".join(f"{one.crew.semantics:>16}" for one in judged)
    lines = [
        f"{name:32}" + "".join(f"{'-' if n is None else f'{n:,}':>16}" for n in counts)
        for name, counts in rows
    ]
    return "\n".join([f"{sum(happened.values())} faults: {told}", "", head, *lines])
