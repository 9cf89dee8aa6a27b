"""Ten million records, hostile ones among them, through a whole replay: `make fuzz-replay`.

A fleet's log in which one record in fifty is hostile; `--hostile 1` makes all of them so. There are
values that are no messages, ids of a megabyte, partition 2^31-1, HTML and control characters in
every field. Headers lie, and times are far away. Offsets are read twice. Many claims and senders
come once. The command replays it in a process of its own, under a limit of memory. Its counts, time
and peak memory are printed.

Exit code 1 if the replay does not end well, or counts other malformed records than the pure
decoder. So does a page that holds an element which came from a record.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from benchmarks import logs
from tests.kernel import hostile
from tools.fuzz import corpus
from tools.fuzz.oracle import Finding
from tools.fuzz.targets import messages
from tools.fuzz.targets.pages import HOSTILE_IDS, check_page

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord, decode
from kafka_marshal.replay.sources.columns import HEADERS
from kafka_marshal.scratch import Scratch

WIDE = pa.schema(
    [
        ("value", pa.binary()),
        *((name, pa.int64()) for name in ("partition", "offset")),
        ("timestamp", pa.timestamp("ms")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
AT_ONCE = 250_000
LONG_EVERY = 100_000
"""Of this many records one holds ids of a megabyte."""
ONCE_GROUP_RECORDS = 100_000
"""Of this many records those of claims that come once name one group."""
MEMORY_GIB = 12


def pool() -> list[RawRecord]:
    """Records to draw from."""
    found = [raw for seed in range(40) for raw in hostile.log(seed, 500)]
    for data in (*messages.seeds(), *corpus.kept("decode"), *corpus.kept("kernel")):
        found += messages.rows(data)
    for odd in HOSTILE_IDS:
        name = odd.replace("/", "\u2044").encode()
        for kind, tail in (
            (b"ClaimingPartition", b""),
            (b"Heartbeat", b"/5"),
            (b"Heartbeat", b"/"),
        ):
            value = b"%b/1/60/%b/%b/%b/%b/2147483647%b" % (kind, name, name, name, name, tail)
            pairs = ((odd, name), ("marshal-epoch", name), ("marshal-epoch", b"5"))
            found += [RawRecord(0, 0, 0, value, pairs)] * 40
    return found


def long_ids() -> RawRecord:
    """One with ids of a megabyte."""
    name = b"i" * (1 << 20)
    return RawRecord(0, 0, 0, b"Heartbeat/1/60/%b/%b/g/%b/1/5" % (name, name, name))


def written(path: Path, records: int, hostile_share: float, seed: int) -> tuple[int, int]:
    """Write the log; how many of its records are hostile, and how many malformed."""
    chance = np.random.default_rng(seed)
    raws = [*pool(), long_ids()]
    values = pa.array([raw.value for raw in raws], pa.binary())
    pairs = [[{"key": n, "value": v} for n, v in raw.headers] or None for raw in raws]
    headers = pa.array(pairs, HEADERS)
    bad = np.array([_malformed(raw.value) for raw in raws])
    fleet = logs.FleetLog(2048, False, seed)
    count = malformed = 0
    with pq.ParquetWriter(path, WIDE, compression="zstd") as file:
        for begin in range(0, records, AT_ONCE):
            ours = fleet.block(min(AT_ONCE, records - begin))
            rows = begin + np.arange(len(ours))
            odd = chance.random(len(rows)) < hostile_share
            drawn = chance.integers(0, len(raws) - 1, len(rows))
            long = rows % LONG_EVERY == LONG_EVERY - 1
            odd |= long
            drawn[long] = len(raws) - 1
            once = odd & ~long & (chance.random(len(rows)) < 0.04)
            count += int(odd.sum())
            malformed += int(bad[drawn[odd & ~once]].sum())
            cells = pc.if_else(pa.array(odd), values.take(pa.array(drawn)), ours["value"])
            far = odd & (chance.random(len(rows)) < 0.1)
            partitions = np.where(far, 2**31 - 1, ours["partition"].to_numpy())
            offsets = np.where(far, rows, ours["offset"].to_numpy())
            twice = odd & (chance.random(len(rows)) < 0.1)
            steps = chance.choice((0, 1, 60_000, -59_000, 10**9, -(10**9)), len(rows))
            stamps = ours["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
            columns = {
                "value": pc.if_else(pa.array(once), _once(rows), cells),
                "partition": pa.array(partitions, pa.int64()),
                "offset": pa.array(np.maximum(offsets - twice, 0), pa.int64()),
                "timestamp": pa.array(stamps + np.where(odd, steps, 0)).cast(pa.timestamp("ms")),
                "timestampType": pa.array(np.where(odd, drawn % 3, 1), pa.int32()),
                "headers": pc.if_else(
                    pa.array(odd), headers.take(pa.array(drawn)), ours["headers"].combine_chunks()
                ),
            }
            file.write_table(pa.table(columns, schema=WIDE))
    return count, malformed


def _once(rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """Claims and senders that nobody else names.

    Their groups do not grow with the log: one ReleaseGroup reaches every claim of its group, and
    time would be quadratic. The first of them are of the group that others release, too.
    """
    name = pa.array(rows).cast(pa.string())
    number = rows // ONCE_GROUP_RECORDS
    group = pc.if_else(pa.array(number == 0), "", pa.array(number).cast(pa.string()))
    parts = ["ClaimingPartition/1/60/i", name, "/c", name, "/g", group, "/t", name, "/0"]
    return pc.binary_join_element_wise(*parts, "").cast(pa.binary())


def _malformed(value: bytes | None) -> bool:
    try:
        decode(value)
    except MalformedRecord:
        return True
    return False


def replayed(path: Path, out: Path, engine: str) -> Iterator[str]:
    """Replay it, and what came of it; raises Finding.

    Arrow's default allocator reserves many times the memory that it uses, and the limit counts that
    as well: 10.6 GiB for 1.7 GiB. So the command uses the system's.
    """
    limit = MEMORY_GIB << 30
    command = [sys.executable, "-m", "kafka_marshal.cli", "replay", str(path), "--out", str(out)]
    began = time.monotonic()
    with (out.parent / "printed").open("wb") as printed:
        process = subprocess.Popen(
            [*command, "--rules", "both", "--engine", engine],
            env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
            stdout=printed,
            stderr=printed,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        )
        _, status, usage = os.wait4(process.pid, 0)
    text = (out.parent / "printed").read_text(encoding="utf-8", errors="replace")
    code = os.waitstatus_to_exitcode(status)
    yield (
        f"exit code {code}, {time.monotonic() - began:.0f} s, "
        f"peak memory {usage.ru_maxrss / (1 << 20):.1f} GiB"
    )
    if code not in (0, 1) or "Traceback" in text:
        raise Finding("replay", text[-2000:])


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="make fuzz-replay", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--hostile", type=float, default=0.02, help="how many of them, 0 to 1")
    parser.add_argument("--engine", default="local", choices=("local", "spark"))
    options = parser.parse_args()
    print(f"fuzz-replay: --seed {options.seed} --engine {options.engine}", flush=True)
    with Scratch("fuzz") as desk:
        path, out = desk / "hostile.parquet", desk / "out"
        odd, malformed = written(path, options.records, options.hostile, options.seed)
        size_mib = path.stat().st_size / (1 << 20)
        print(f"{options.records:,} records, {odd:,} hostile, {size_mib:,.0f} MiB", flush=True)
        try:
            for line in replayed(path, out, options.engine):
                print(line, flush=True)
            summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
            counted = summary["rows"]["malformed"]
            print(f"{summary['records']:,} records, {counted:,} malformed; tables:")
            for name, count in summary["rows"].items():
                print(f"  {name:12}{count:12,}")
            page = (out / "report.html").read_text(encoding="utf-8")
            print(f"page: {len(page) / (1 << 20):.1f} MiB")
            check_page(page)
            if summary["records"] != options.records:
                raise Finding("counts", f"{summary['records']:,} records")
            if counted != malformed:
                raise Finding("counts", f"{counted:,} malformed, by the decoder {malformed:,}")
        except Finding as finding:
            print(f"FOUND: {finding}")
            return 1
    print("fuzz-replay: all is well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
