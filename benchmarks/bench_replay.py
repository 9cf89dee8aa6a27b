"""How fast logs are replayed, beside what else could read them: `make bench-replay`.

Input: generated logs (`logs.py`) in Spark's Kafka schema, `--records` of them (10 M), once with
2,048 claims that take turns, once with one claim that has a fifth of everything. There are 16
coordinating partitions, and headers as our clients write them. Everything runs on the cores that
there are; each line is the best of `--passes`, wall clock, after one small warm run. Peers get the
same file:

- columns alone: what it takes to read the columns that a fold needs, on one core: the floor.
- Spark's split: what Spark needs merely to split the value into its columns, and drop them.
- polars, DuckDB: the same account as far as SQL goes on a log without faults: tenures and the last
  state of every claim, from window functions, written as Parquet. No guards, no verdicts, no
  findings.
- attrs fold: `World` on decoded records, one core (a tenth of the records, scaled).

Ours are

- kernel: read, decode and fold with `kernel`, one process, one core: every verdict, every claim.
- account: the peers' two tables, but under the rules, with `kernel` in one process (`account.py`).
- spark: all of a replay on Spark: every table, summary and report written.
- here: the same without Spark, `--engine local`.

Of a million records both engines are checked to write the same.

`--scale` measures the replay alone, at several sizes, each in processes of its own after one small
warm run. It prints time and CPU a record, and the most memory that the driver (Python), its Java,
and the Python workers held. A log is on disk only while it is replayed. `--here` takes `--engine
local` instead of Spark. `--hot 0.8` puts that part of the claims into one coordinating partition,
`--skewed` gives a fifth of the records to one claim, and
`--claims` says how many claims there are. Under `taskset -c 0` one process does all.

`--phases` prints where the processor time of `--engine local` goes, in one process: what it takes
merely to read the columns, what to read and collapse, and what to fold. It also prints how many
rows are folded. Then it runs the command itself, with all its processes, on a short log and on the
same one. Of the short one nearly all is the start, with the kernel, and the outputs.

`--shared` replays a log of claims that 16 participants share (`ranges/shared_logs.py`), beside a
log of heartbeats of the same length, in this process. It prints CPU time a record. Of the first the
requests between two heartbeats of an anchor are folded in one step, each by itself; of the second
most records are folded in runs. It also prints the rate of the first, and the most memory that the
process held. `--beats-every` is how many records of the first are one of the anchor.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import resource
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from benchmarks import logs
from benchmarks.account import Kernel
from benchmarks.meter import DRIVER, JVM, WORKER, WORKERS, Meter
from benchmarks.ranges import shared_logs
from benchmarks.suite.figures import Better, Report, Target
from benchmarks.written import written

from kafka_marshal import World
from kafka_marshal.replay import run
from kafka_marshal.replay.engines.by_partition import ReadAndFold
from kafka_marshal.replay.engines.stretches import Stretch
from kafka_marshal.replay.fold.jobs import WholeLog
from kafka_marshal.replay.fold.reading import read_chunk, read_lean, records_of
from kafka_marshal.replay.options import judging_of
from kafka_marshal.replay.own_process import prepare
from kafka_marshal.replay.sources import find
from kafka_marshal.replay.spark.session import opened_session
from kafka_marshal.scratch import Scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_S = 60.0
WARM = 200_000
"""Records of the warm run."""
SHORT = 20_000
"""Records of a log that is just long enough for the kernel."""
ENGINES_CHECKED = 1_000_000
SCALES = (1_000_000, 10_000_000, 30_000_000)
SHARED, SHARED_WARM = (1_000_000,), 5_000
PEERS = ("polars", "DuckDB", "Spark's split", "attrs fold", "columns alone")
OURS = {
    "kernel": None,
    "account": None,
    "spark": Target(2.0, "polars"),
    "here": Target(10_000_000 / 3.0),
}
"""By name, with their targets."""
FIELDS = ("type", "version", "unix_s", "instance", "client", "grp", "topic", "part", "number")


def spark_split(spark: SparkSession, path: Path, out: Path) -> None:
    """The value in its nine columns, and nothing else."""
    from pyspark.sql import functions as sf

    rows = spark.read.parquet(str(path))
    parts = sf.split(rows["value"].cast("string"), "/")
    columns = [sf.get(parts, sf.lit(number)).alias(name) for number, name in enumerate(FIELDS)]
    rows.select("partition", "offset", "timestamp", *columns).write.format("noop").mode(
        "overwrite"
    ).save()


def polars_account(path: Path, out: Path) -> None:
    """Tenures and claims by window functions."""
    import polars as pl

    parts = pl.col("value").cast(pl.String).str.split_exact("/", 8)
    rows = (
        pl.scan_parquet(path)
        .select("partition", "offset", pl.col("timestamp").dt.epoch("ms").alias("ms"), parts)
        .unnest("value")
        .rename({f"field_{number}": name for number, name in enumerate(FIELDS)})
        .with_columns(
            pl.col("part", "number").cast(pl.Int64),
        )
        .sort("partition", "offset")
        .collect()
    )
    key = ["partition", "grp", "topic", "part"]
    wins = pl.col("type") == "ClaimingPartition"
    gone = (pl.col("type") == "ReleasingPartition").shift(1, fill_value=False)
    rows = rows.with_columns(
        (wins | gone).cum_sum().over(key).alias("tenure"),
        (pl.col("ms") - pl.col("ms").shift(1)).over(key).alias("silence"),
    )
    tenures = rows.group_by([*key, "tenure"], maintain_order=True).agg(
        pl.col("instance", "client", "ms").first(),
        pl.col("offset").first().alias("from_offset"),
        pl.col("offset").last().alias("last_offset"),
        pl.col("ms").last().alias("last_ms"),
        pl.col("number").max().alias("position"),
        pl.len().alias("records"),
        pl.col("silence").max().alias("longest_silence_ms"),
    )
    claims = rows.group_by(key, maintain_order=True).agg(
        pl.col("type", "instance", "client", "number", "ms", "offset").last(), pl.len()
    )
    out.mkdir()
    tenures.write_parquet(out / "tenures.parquet")
    claims.write_parquet(out / "claims.parquet")


def duckdb_account(path: Path, out: Path) -> None:
    """The same in SQL."""
    import duckdb

    out.mkdir()
    parts = ", ".join(f"p[{number + 1}] AS {name}" for number, name in enumerate(FIELDS))
    key = "partition, grp, topic, part"
    connection = duckdb.connect()
    connection.execute(
        f"""
        CREATE TEMP TABLE told AS
        WITH split AS (
          SELECT partition, "offset" AS pos, epoch_ms("timestamp") AS ms,
                 string_split(decode(value), '/') AS p FROM read_parquet('{path}')),
        parsed AS (SELECT partition, pos, ms, {parts} FROM split),
        marked AS (
          SELECT *, ms - lag(ms) OVER w AS silence,
                 CASE WHEN type = 'ClaimingPartition' OR lag(type) OVER w = 'ReleasingPartition'
                 THEN 1 ELSE 0 END AS begins
          FROM parsed WINDOW w AS (PARTITION BY {key} ORDER BY pos))
        SELECT *, sum(begins) OVER (PARTITION BY {key} ORDER BY pos) AS tenure FROM marked
        """
    )
    connection.execute(
        f"""
        COPY (SELECT {key}, tenure, arg_min(instance, pos), arg_min(client, pos),
              min(pos) AS from_offset, min(ms), max(pos) AS last_offset, max(ms),
              max(number::BIGINT) AS position, count(*) AS records,
              max(silence) AS longest_silence_ms
              FROM told GROUP BY {key}, tenure) TO '{out}/tenures.parquet'
        """
    )
    connection.execute(
        f"""
        COPY (SELECT {key}, arg_max(type, pos), arg_max(instance, pos), arg_max(client, pos),
              arg_max(number, pos), max(ms), max(pos), count(*)
              FROM told GROUP BY {key}) TO '{out}/claims.parquet'
        """
    )
    connection.close()


def kernel_fold(path: Path, out: Path) -> None:
    """Every verdict and every claim, in one process, on one core."""
    kernel = Kernel(tenures=False)
    kernel.fold(path)
    for fold in kernel.folds.values():
        fold.claims()


def kernel_account(path: Path, out: Path) -> None:
    """The peers' account, under the rules, in one process that reads ahead."""
    kernel = Kernel(tenures=True)
    kernel.fold(path, ahead=True)
    kernel.write(out)


def attrs_fold(path: Path, out: Path) -> None:
    """A tenth of the records, by the definition itself."""
    chunks = find([str(path)]).chunks
    worlds: dict[int, World] = {}
    for number, chunk in enumerate(chunks[: max(1, len(chunks) // 10)]):
        for batch in read_chunk(number, chunk):
            for _, raw in records_of(batch):
                worlds.setdefault(raw.partition, World()).apply(raw.decoded())


def replay(spark: SparkSession, path: Path, out: Path) -> None:
    """The whole of it."""
    run([str(path)], out=out, heartbeat_interval_s=INTERVAL_S, spark=spark)


def replay_here(path: Path, out: Path) -> None:
    """The whole of it, without Spark."""
    run([str(path)], out=out, heartbeat_interval_s=INTERVAL_S, engine="local")


def columns_alone(path: Path, out: Path) -> None:
    """Read what a fold needs, and drop it."""
    for number, chunk in enumerate(find([str(path)]).chunks):
        for _ in read_lean(number, chunk):
            pass


def measured(work: Callable[[Path, Path], None], path: Path, desk: Path, passes: int) -> float:
    """Seconds of the best pass."""
    best = float("inf")
    for _ in range(passes):
        out = desk / "out"
        began = time.perf_counter()
        work(path, out)
        best = min(best, time.perf_counter() - began)
        shutil.rmtree(out, ignore_errors=True)
    return best


def check_accounts(path: Path, desk: Path) -> None:
    """Check that both found the same tenures, or the comparison would be of different things."""
    told = {}
    for work in (polars_account, duckdb_account, kernel_account):
        work(path, desk / "checked")
        columns = ["from_offset", "last_offset", "position", "records", "longest_silence_ms"]
        table = pq.read_table(desk / "checked" / "tenures.parquet", columns=columns)
        told[work.__name__] = sorted(zip(*(map(str, table[name]) for name in columns), strict=True))
        shutil.rmtree(desk / "checked")
    first, *others = told.values()
    if not all(other == first for other in others):
        counted = {name: len(rows) for name, rows in told.items()}
        sys.exit(f"bench-replay: the accounts differ; tenures: {counted}")


def check_engines(spark: SparkSession, desk: Path) -> None:
    """Both engines write the same of a million records, every file of it."""
    path, here, on_spark = desk / "million.parquet", desk / "here", desk / "on_spark"
    logs.write(path, ENGINES_CHECKED)
    replay_here(path, here)
    replay(spark, path, on_spark)
    told, other = written(here), written(on_spark)
    if told != other:
        differ = sorted(name for name in {*told, *other} if told.get(name) != other.get(name))
        sys.exit(f"bench-replay: the engines differ: {', '.join(differ)}")
    for one in (here, on_spark):
        shutil.rmtree(one)
    path.unlink()


def scaled(path: Path, warm: Path, here: bool) -> tuple[float, float, dict[str, int]]:
    """Replay a log after a warm run of another: wall seconds, CPU seconds, peaks of memory."""
    prepare()
    with Scratch("desk") as desk, ExitStack() as opened:
        work = replay_here if here else partial(replay, opened.enter_context(opened_session()))
        work(warm, desk / "warm")
        began = time.perf_counter()
        with Meter() as meter:
            work(path, desk / "out")
        return time.perf_counter() - began, meter.cpu_s, dict(meter.peaks)


def phases(count: int, claims: int) -> None:
    """Print what a record costs in each phase of a replay in one process."""
    with Scratch("desk") as desk:
        path, read_folder, folder = desk / "uniform.parquet", desk / "read", desk / "folded"
        for each in (read_folder, folder):
            each.mkdir()
        logs.write(path, count, claims=claims)
        chunks = find([str(path)]).chunks
        job = WholeLog(chunks, judging_of("fenced", INTERVAL_S, 3_600.0, None), collapsing=True)
        work = ReadAndFold(job, read_folder, folder)
        work.read(0)  # compiles, or loads what was compiled
        stretches: dict[tuple[str, int], list[Stretch]] = defaultdict(list)
        began = [time.process_time()]
        for number, chunk in enumerate(chunks):
            for _ in read_lean(number, chunk):
                pass
        began.append(time.process_time())
        for number in range(len(chunks)):
            for place, stretch in work.read(number).items():
                stretches[place].append(stretch)
        began.append(time.process_time())
        for number, of_place in enumerate(stretches.values()):
            work.fold(number, of_place)
        began.append(time.process_time())
        columns, read, fold = (after - before for before, after in pairwise(began))
        rows = sum(stretch.rows for of_place in stretches.values() for stretch in of_place)
        short = desk / "short.parquet"
        logs.write(short, SHORT)
        started, whole = command_s(short, desk / "short"), command_s(path, desk / "whole")
    for words, seconds in (
        ("merely to read the columns", columns),
        ("to read and to collapse", read),
        (f"to fold {rows:,} rows", fold),
        (f"the command, {SHORT:,} records", started),
        ("the command, all records", whole),
    ):
        print(f"{words:32}{seconds:9.2f} s of CPU{1e6 * seconds / count:9.2f} us a record")


def command_s(path: Path, out: Path) -> float:
    """CPU seconds of `marshal replay --engine local`, with its start and all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "kafka_marshal.cli", "replay", str(path)]
    subprocess.run([*command, "--engine", "local", "--quiet", "--out", str(out)], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def scale(sizes: Sequence[int], here: bool, hot: float, skewed: bool, claims: int) -> None:
    """Print what a record costs, and what is held at once, by the size of the log."""
    kinds = {DRIVER: "driver", JVM: "JVM", WORKERS: "workers", WORKER: "a worker"}
    head = "".join(f"{title + ' MB':>13}" for title in kinds.values())
    print(f"{'records':>12}{'wall s':>9}{'records/s':>12}{'wall us':>9}{'CPU us':>9}{head}")
    prepare()  # as the command does; the environment is theirs, too
    # Who made a log has memory that is left from it, and who began Spark is no process to fork.
    new_process = multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1)
    with Scratch("logs") as desk, new_process as pool:
        warm, path = desk / "warm.parquet", desk / "uniform.parquet"
        pool.apply(logs.write, (warm, WARM))
        how = {"hot": hot, "skewed": skewed, "claims": claims}
        for count in sizes:
            pool.apply(logs.write, (path, count), how)
            wall_s, cpu_s, peaks = pool.apply(scaled, (path, warm, here))
            told = "".join(f"{peaks.get(kind, 0) / 1e6:13,.0f}" for kind in kinds)
            each = f"{1e6 * wall_s / count:9.2f}{1e6 * cpu_s / count:9.2f}"
            print(f"{count:12,}{wall_s:9.1f}{count / wall_s:12,.0f}{each}{told}", flush=True)


def shared(sizes: Sequence[int], beats_every: int) -> None:
    """Print what a record of a shared claim costs, and one of a log without any."""
    print(
        f"{'records':>12}{'heartbeats: CPU us':>20}{'shared: CPU us':>20}{'records/s of CPU':>20}"
        f"{'peak MB':>10}"
    )
    with Scratch("desk") as desk:
        warm = desk / "warm.parquet"
        shared_logs.write(warm, SHARED_WARM)
        replay_here(warm, desk / "warm")
        for count in sizes:
            costs_us, peak_mb = [], 0.0
            for write in (logs.write, partial(shared_logs.write, beats_every=beats_every)):
                write(desk / "log.parquet", count)
                with Meter() as meter:
                    replay_here(desk / "log.parquet", desk / "out")
                costs_us.append(1e6 * meter.cpu_s / count)
                peak_mb = meter.peaks[DRIVER] / 1e6
                shutil.rmtree(desk / "out")
            told = "".join(f"{cost_us:20.1f}" for cost_us in costs_us)
            print(f"{count:12,}{told}{1e6 / costs_us[-1]:20,.0f}{peak_mb:10,.0f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Report a figure for each of ours and each kind of log."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--only", nargs="*", metavar="WAY", help="what to measure")
    parser.add_argument(
        "--scale",
        nargs="*",
        type=int,
        metavar="RECORDS",
        help="the replay alone at these sizes, or at 1, 10 and 30 million records",
    )
    parser.add_argument("--here", action="store_true", help="--scale without Spark")
    parser.add_argument(
        "--hot", type=float, default=0.0, help="--scale: so much of it in one partition"
    )
    parser.add_argument("--skewed", action="store_true", help="--scale: a fifth is one claim's")
    parser.add_argument(
        "--claims", type=int, default=logs.CLAIMS, help="--scale, --phases: how many there are"
    )
    parser.add_argument("--phases", type=int, metavar="RECORDS", help="where the time goes")
    parser.add_argument(
        "--shared",
        nargs="*",
        type=int,
        metavar="RECORDS",
        help="claims that several share, at these sizes, or at a million records",
    )
    Report.add_option(parser)
    parser.add_argument("--beats-every", type=int, default=shared_logs.BEATS_EVERY)
    asked = parser.parse_args(arguments)
    if asked.shared is not None:
        shared(asked.shared or SHARED, asked.beats_every)
        return 0
    if asked.scale is not None:
        scale(asked.scale or SCALES, asked.here, asked.hot, asked.skewed, asked.claims)
        return 0
    if asked.phases is not None:
        prepare()
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(phases, (asked.phases, asked.claims))
        return 0
    with Scratch("desk") as desk, ExitStack() as opened:

        @functools.cache
        def spark() -> SparkSession:
            return opened.enter_context(opened_session())

        warm = desk / "warm.parquet"
        logs.write(warm, min(WARM, asked.records))
        ways: dict[str, Callable[[Path, Path], None]] = {
            "Spark's split": lambda path, out: spark_split(spark(), path, out),
            "polars": polars_account,
            "DuckDB": duckdb_account,
            "attrs fold": attrs_fold,
            "columns alone": columns_alone,
            "kernel": kernel_fold,
            "account": kernel_account,
            "spark": lambda path, out: replay(spark(), path, out),
            "here": replay_here,
        }
        if unknown := {*(asked.only or ())} - {*ways}:
            parser.error(f"no such way: {', '.join(unknown)}; there are {', '.join(ways)}")
        chosen = {name: work for name, work in ways.items() if name in (asked.only or ways)}
        for work in chosen.values():
            measured(work, warm, desk, 1)
        check_accounts(warm, desk)
        if {"spark", "here"} <= chosen.keys():
            check_engines(spark(), desk)
        report = Report(asked.figures)
        for kind in ("uniform", "skewed"):
            path = desk / f"{kind}.parquet"
            logs.write(path, asked.records, skewed=kind == "skewed")
            rows = pq.ParquetFile(path).metadata
            megabytes = path.stat().st_size / 1e6
            given = f"{kind}: {rows.num_rows:,} records, {megabytes:,.0f} MB, wall clock"
            per_s: dict[str, float] = {}
            for name, work in chosen.items():
                counted = rows.num_rows
                if name == "attrs fold":
                    tenth = max(1, rows.num_row_groups // 10)
                    counted = sum(rows.row_group(each).num_rows for each in range(tenth))
                per_s[name] = counted / measured(work, path, desk, asked.passes)
            for name, target in OURS.items():
                if name in per_s:
                    peers = {peer: per_s.get(peer) for peer in PEERS}
                    report.add(
                        f"replay.{kind}.{name}",
                        "records/s",
                        Better.HIGHER,
                        per_s[name],
                        f"{given}, best of {asked.passes}",
                        peers,
                        target,
                    )
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
