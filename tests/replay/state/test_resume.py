"""A log replayed day by day comes to what it comes to in one run, whatever is killed on the way."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_marshal.capture import RawRecord
from kafka_marshal.replay import Change, CheckpointRefused, InvalidOption, ReplayError, Summary, run
from kafka_marshal.replay.engines.engine import EngineName
from kafka_marshal.replay.model import tables
from kafka_marshal.replay.state import checkpoint as room
from kafka_marshal.replay.state.checkpoint import Checkpoint
from kafka_marshal.scratch import Scratch
from tests.replay import dumps
from tests.replay.fleets import fleet
from tests.replay.sizes import as_a_large_log
from tests.replay.state.pieces import finish, pieces

pytestmark = pytest.mark.spark

CUTS = (0, 500, 1000, 1600, 2000)
KILLS = int(os.environ.get("MARSHAL_KILLS", "2"))
SEED = int(os.environ.get("MARSHAL_SEED", "1"))

STEPS_MAX = 12
"""Of one piece and half of the next: a run that is killed gets on, or does not."""

Tables = Mapping[str, list[str]]


def parts() -> list[list[RawRecord]]:
    raws = fleet(5, CUTS[-1])
    raws[1100] = attrs.evolve(raws[1100], value=b"nonsense")
    return [raws[a:b] for a, b in itertools.pairwise(CUTS)]


def give(folder: Path, number: int, given: list[RawRecord]) -> Path:
    path = folder / "in" / f"{number}"
    dumps.write(path / "part.parquet", dumps.table(given))
    return path


def told(out: Path) -> Tables:
    """Every row of every table, sorted."""
    return {
        table.name: sorted(map(repr, pq.read_table(out / table.name).to_pylist()))
        for table in tables.PUBLISHED
    }


def replay(spark: SparkSession | None, out: Path, *sources: Path, **options: object) -> Summary:
    given = [str(source) for source in sources]
    options = {"heartbeat_interval_s": 4, "rules": "both", "spark": spark, **options}
    return run(given, out=out, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """One run over everything, in this process."""
    folder = tmp_path_factory.mktemp("whole")
    sources = [give(folder, number, part) for number, part in enumerate(parts())]
    replay(None, folder / "out", *sources, one_log=True, engine=EngineName.local)
    found = told(folder / "out")
    assert all(found.values())  # no table is empty, so every comparison says something
    return found


@pytest.mark.parametrize(
    ("breaks_on", "sizes"),
    [
        pytest.param(EngineName.local, nullcontext, id="local"),
        pytest.param(EngineName.local, as_a_large_log, id="local-large", marks=pytest.mark.night),
        pytest.param(EngineName.spark, as_a_large_log, id="spark-large", marks=pytest.mark.night),
    ],
)
def test_a_log_replayed_in_pieces_comes_to_what_it_comes_to_in_one_run(
    breaks_on: EngineName,
    sizes: Callable[[], AbstractContextManager[None]],
    spark: SparkSession,
    whole: Tables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if a run breaks, and if what was folded is given again: it is passed over, and
    reported."""
    one, two, *others = (give(tmp_path, n, part) for n, part in enumerate(parts()))
    counts = [len(part) for part in parts()]
    folder = tmp_path / "checkpoint"

    def went(
        out: str, *sources: Path, engine: EngineName = EngineName.spark
    ) -> tuple[int, int, int]:
        session = spark if engine is EngineName.spark else None
        options = {"engine": engine, "checkpoint": folder}
        with sizes():
            found = replay(session, tmp_path / out, *sources, **options).checkpoint
        assert found is not None
        return found["run"], found["folded"], found["skipped"]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "the disk")

    assert went("out1", one) == (1, counts[0], 0)
    assert went("out2", one, two) == (2, counts[1], counts[0])
    before = (folder / "checkpoint.json").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(room.Checkpoint, "commit", full)
        with pytest.raises(ReplayError, match="the disk: cannot be written: No space left"):
            went("out3", *others, engine=breaks_on)
    # A run that breaks before its end changes nothing.
    assert (folder / "checkpoint.json").read_bytes() == before
    assert not (tmp_path / "out3").exists()
    # Killed between the commit and the last step, the same run again makes the same output.
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", full)
        with pytest.raises(ReplayError, match="cannot be written"):
            went("out3", *others, engine=breaks_on)
    assert went("out3", *others) == (4, 0, counts[2] + counts[3])
    assert told(tmp_path / "out3") == whole
    caveats = json.loads((tmp_path / "out3" / "summary.json").read_text())["caveats"]
    assert any("were passed over" in caveat for caveat in caveats)
    # What no commit speaks of is gone: one state of each partition, the rows of four runs.
    assert len(list(folder.glob("run-*/rows"))) == 4
    assert len(list(folder.glob("run-*/states/*"))) == 2


@pytest.mark.night  # By day the test before this one gives records again, too.
@pytest.mark.usefixtures("large")
def test_sources_that_overlap_are_read_record_by_record_from_where_the_last_run_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, two, *_ = parts()
    first = give(tmp_path, 0, one)
    forked = attrs.evolve(one[-1], value=b"Heartbeat/1/1/x/y/g/t9/0/1")
    second = give(tmp_path, 1, [*one[-5:-1], forked, *two])
    again = give(tmp_path, 2, two[100:200])
    options = {"checkpoint": tmp_path / "checkpoint"}
    replay(None, tmp_path / "out0", first, engine=EngineName.local, **options)
    replay(spark, tmp_path / "out1", second, again, **options)
    found, refused = (
        pq.read_table(tmp_path / "out1" / name).to_pylist() for name in ("findings", "refusals")
    )
    counts = {row["code"]: row["count"] for row in found if row["rules"] is None}
    assert counts["conflicting_duplicate"] == 1
    doubled = [row for row in refused if row["guard"] == "duplicate"]
    assert len(doubled) == 2 * 100  # under each rule set


def test_options_that_do_not_go_together_are_told(tmp_path: Path) -> None:
    source = give(tmp_path, 0, parts()[0][:50])
    folder = tmp_path / "checkpoint"
    options = {"command": "replay", "protocol": "claims", "rules": ["fenced"]}
    with closing(Checkpoint(folder, options)) as checkpoint:
        checkpoint.commit({"runs": []})
    refused: list[tuple[type[Exception], str, dict[str, object]]] = [
        (CheckpointRefused, "was made with coordination_partitions nothing, and this is 7", {}),
        (InvalidOption, "lies within the source", {"checkpoint": source / "checkpoint"}),
        (InvalidOption, "lie in each other", {"checkpoint": tmp_path / "new" / "checkpoint"}),
        (
            InvalidOption,
            "--what-if needs the whole log",
            {"what_if": Change.parsed(["heartbeat_interval=9s"])},
        ),
    ]
    for kind, sentence, given in refused:
        with pytest.raises(kind, match=sentence):
            run(
                [str(source)],
                out=tmp_path / "new",
                heartbeat_interval_s=4,
                coordination_partitions=7,
                **{"checkpoint": folder, **given},  # type: ignore[arg-type]
            )
    assert not (tmp_path / "new").exists()


class Killed:
    """The pieces in another process, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        for number, part in enumerate(parts()):
            give(folder, number, part)
        self.starts = 0

    def started(self) -> subprocess.Popen[str]:
        self.starts += 1
        size = "large" if self.starts % 2 else "small"
        command = [sys.executable, "-m", "tests.replay.state.pieces", str(self.folder), size]
        return subprocess.Popen(
            command,
            start_new_session=True,
            text=True,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "TMPDIR": str(self.temporary)},
        )

    def killed_after(self, steps: int, seconds: float) -> str:
        """Kill it, with Java and workers, `seconds` after its step `steps`; return its last line.

        By steps, because how long one takes depends on the machine.
        """
        process = self.started()
        assert process.stdout is not None
        said = [line.strip() for line in itertools.islice(process.stdout, steps)]
        with process:
            try:
                process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            said += process.stdout.read().splitlines()
        return said[-1] if said else "nothing"

    def committed(self) -> int:
        """How many runs the checkpoint speaks of."""
        manifest = self.folder / "checkpoint" / "checkpoint.json"
        return len(json.loads(manifest.read_text())["beside"]["runs"]) if manifest.exists() else 0

    def begin_anew(self) -> None:
        """All pieces once more, with another checkpoint."""
        for path in (*(out for _, out in pieces(self.folder)), self.folder / "checkpoint"):
            path.rename(path.with_name(f"done-{self.starts}-{path.name}"))


@pytest.mark.night
def test_killed_at_any_point_it_loses_nothing_and_doubles_nothing(
    spark: SparkSession, whole: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(SEED)
    killed = Killed(tmp_path)
    for _ in range(KILLS):
        steps, seconds = chance.randrange(STEPS_MAX), chance.uniform(0, 2)
        said = killed.killed_after(steps, seconds)
        outs = [out for _, out in pieces(tmp_path) if out.exists()]
        print(f"killed at {said!r}: {killed.committed()} committed, {len(outs)} placed")
        if len(outs) == len(parts()):
            assert told(outs[-1]) == whole
            killed.begin_anew()
    # A session that is warm ends it: a new one would take three times as long.
    finish(tmp_path, spark)
    assert told(pieces(tmp_path)[-1][1]) == whole
    monkeypatch.setattr("tempfile.tempdir", str(killed.temporary))
    with Scratch("next"):
        pass  # a start removes what killed processes left
    assert list(killed.temporary.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
