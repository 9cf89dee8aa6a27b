"""Three judges of one run, compared: what consumers wrote down, its replay, its recordings.

The accounting knows what applications did, and not why. The replay knows the log alone, the
recordings what each consumer read, sent and processed. Each judges by code of its own, so what one
of them sees the others must not contradict. Starts nothing, waits for nothing.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from attrs import frozen
from tools.chaos.judges.compare import WINDOW, ranges

from kafka_marshal.replay import run

BY_OPERATORS: Final = frozenset({"set_position_half_done", "pause_ran_out"})
"""Findings about commands, which may fail while there are faults."""
BY_PROCESSES: Final = "two_instances_of_one_client"


@frozen
class Did:
    """What all processes under one client id wrote down; keys: partition, offset (or epoch)."""

    processes: int
    won: Set[tuple[int, int]]
    handed: Counter[tuple[int, int]]
    done: Set[tuple[int, int]]
    under: Set[tuple[int, int, int]] = frozenset()
    """Partition, offset, and the range or the epoch under which a message was handed over."""


@frozen
class Tenure:
    """A row of the replay's table, of one group."""

    partition: int
    client: str
    epoch: int
    begins: int
    """The position when it began."""
    ends: int
    """The position when it ended, or now."""


@frozen
class Found:
    """A finding of the replay that is an error."""

    code: str
    partition: int | None
    client: str | None


@frozen
class Replayed:
    """What the replay says of one group."""

    tenures: list[Tenure]
    positions: Mapping[int, int]
    errors: list[Found]


@frozen
class Recorded:
    """What the recordings of one group say."""

    processed: Set[tuple[int, int]]
    unexplained: object | None = None
    """What of the run the specification does not explain."""
    unjudged: int = 0
    """Sentences about what the validator did not judge."""


def disagreements(
    at_most_once: bool,
    batch: int,
    ends: Mapping[int, int],
    did: Mapping[str, Did],
    replayed: Replayed,
    recorded: Recorded,
) -> list[str]:
    """Sentences about what one judge says and another denies; `ends` of judged partitions."""
    return Judges(at_most_once, batch, ends, did, replayed, recorded).disagreements()


@frozen
class Judges:
    """What each judge says of one group."""

    at_most_once: bool
    batch: int
    ends: Mapping[int, int]
    did: Mapping[str, Did]
    replayed: Replayed
    recorded: Recorded

    def disagreements(self) -> list[str]:
        """What one says and another denies."""
        return [*self.owners(), *self.messages(), *self.findings(), *self.recordings()]

    def owners(self) -> list[str]:
        """A consumer that says it owned a claim did, and processed within its tenures."""
        tenures: dict[tuple[str, int], list[Tenure]] = defaultdict(list)
        for one in self.replayed.tenures:
            tenures[one.client, one.partition].append(one)
        # At least once an owner is ahead of the log by a window.
        ahead = 0 if self.at_most_once else WINDOW
        wrong = []
        for client, did in self.did.items():
            known = {(one.partition, one.epoch) for one in self.replayed.tenures}
            for partition, epoch in sorted(did.won - known):
                wrong.append(f"{client} won {partition} at {epoch}: the replay has no such tenure")
            strange: dict[int, list[int]] = defaultdict(list)
            for partition, offset in sorted(did.handed):
                owned = tenures[client, partition]
                if partition in self.ends and not any(
                    one.begins <= offset < one.ends + ahead for one in owned
                ):
                    strange[partition].append(offset)
            wrong += [
                f"{client} had messages of partition {partition} in no tenure of the replay: "
                + ranges(offsets)
                for partition, offsets in strange.items()
            ]
        return wrong

    def messages(self) -> list[str]:
        """What was lost is where the replay says that it can be; positions are where work ended."""
        done = set().union(*(one.done for one in self.did.values()))
        wrong = []
        for partition, end in self.ends.items():
            position = self.replayed.positions.get(partition, 0)
            if position != end:
                wrong.append(
                    f"partition {partition}: of {end} messages the replay ends at {position}"
                )
            if not self.at_most_once:
                continue
            last: set[int] = set()
            for one in self.replayed.tenures:
                if one.partition == partition:
                    last.update(range(max(one.begins, one.ends - self.batch), one.ends))
            lost = {offset for offset in range(end) if (partition, offset) not in done}
            if lost - last:
                where = ranges(sorted(lost - last))
                wrong.append(f"partition {partition}: lost within a tenure, by the replay: {where}")
        return wrong

    def findings(self) -> list[str]:
        """An error of the replay has a reason that the accounting knows, and the reverse."""
        twice = self._twice()
        granted = {one.partition for one in self.replayed.errors if one.code == "granted_twice"}
        wrong = [f"partition {one}: handed out twice, granted once" for one in twice - granted]
        for found in self.replayed.errors:
            known = (
                found.code in BY_OPERATORS
                or (found.code == "granted_twice" and found.partition in twice)
                or (found.code == BY_PROCESSES and self._restarted(found.client))
            )
            if not known:
                wrong.append(
                    f"only the replay finds {found.code}: {found.partition} {found.client}"
                )
        return wrong

    def _twice(self) -> set[int]:
        """At most once, partitions of which something was handed out twice."""
        handed: Counter[tuple[int, int]] = Counter()
        for one in self.did.values():
            handed.update(one.handed)
        return {
            partition
            for (partition, _), number in handed.items()
            if self.at_most_once and number > 1 and partition in self.ends
        }

    def _restarted(self, client: str | None) -> bool:
        """What a process sent may land when the next one under its client id has begun."""
        return client is not None and client in self.did and self.did[client].processes > 1

    def recordings(self) -> list[str]:
        """At least once what was recorded was done; at most once, what was handed was granted."""
        if self.at_most_once:
            less, more = (
                set().union(*(one.handed for one in self.did.values())),
                self.recorded.processed,
            )
            what = "handed out and never recorded as granted"
        else:
            less, more = (
                set(self.recorded.processed),
                set().union(*(one.done for one in self.did.values())),
            )
            what = "recorded as processed and never done"
        strange: dict[int, list[int]] = defaultdict(list)
        for partition, offset in sorted(less - more):
            if partition in self.ends:
                strange[partition].append(offset)
        return [f"partition {one}: {what}: {ranges(offsets)}" for one, offsets in strange.items()]


# --- what the judges read -------------------------------------------------------------------------


def replay(log: Path, out: Path, *topics: str) -> Mapping[str, Replayed]:
    """Replay a capture of the log; by group, each of which consumes one of the topics."""
    run([str(log)], out=out, engine="local")
    positions: dict[str, dict[int, int]] = defaultdict(dict)
    for row in pq.read_table(out / "claims").to_pylist():
        if row["topic"] in topics:
            positions[row["group"]][row["topic_partition"]] = row["position"]
    tenures: dict[str, list[Tenure]] = defaultdict(list)
    for row in pq.read_table(out / "tenures").to_pylist():
        if row["topic"] in topics:
            group, partition, end = row["group"], row["topic_partition"], row["position_to"]
            end = positions[group][partition] if end is None else end
            tenures[group].append(
                Tenure(partition, row["owner_client"], row["epoch"], row["position_from"], end)
            )
    errors: dict[str, list[Found]] = defaultdict(list)
    for row in pq.read_table(out / "findings").to_pylist():
        if row["severity"] == "error":
            found = Found(row["code"], row["topic_partition"], row["client"])
            for group in positions if row["group"] is None else [row["group"]]:
                errors[group].append(found)
    return {group: Replayed(tenures[group], positions[group], errors[group]) for group in positions}


def processed_by(folder: Path, event: str = "processed") -> set[tuple[int, int]]:
    """Partition and offset of what the recordings in a folder call processed, begun or finished."""
    found: set[tuple[int, int]] = set()
    for path in folder.glob("*.jsonl"):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if f'"{event}"' not in line or not line.endswith("\n"):
                    continue  # killed while it wrote
                fields = json.loads(line)
                if fields.get("event") == event:
                    partition = fields["topic_partition"]
                    found.update((partition, at) for at in range(fields["from"], fields["to"]))
    return found
