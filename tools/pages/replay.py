"""`docs/replay.md`, printed from the tables and the catalogue.

`python -m tools.pages.replay > docs/replay.md`. The page
cannot drift: a test compares it with what this prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import attrs

from kafka_marshal.replay.findings.catalogue import CATALOGUE, FindingKind
from kafka_marshal.replay.groups.catalogue import GROUP_CATALOGUE, OF_THE_INPUT
from kafka_marshal.replay.model.groups.tables import GROUPS_PUBLISHED
from kafka_marshal.replay.model.rows import Table
from kafka_marshal.replay.model.tables import PUBLISHED
from kafka_marshal.replay.sources import FORMATS, CannotProve

_HEAD = """\
# What a replay reads and writes

<!-- Printed by `python -m tools.pages.replay`; do not edit. -->

    marshal replay SOURCE... [--heartbeat-interval 4] [--rules fenced|original|both] --out DIR

reads recorded logs of a coordination topic, folds them under the rules you choose, and writes
tables, `summary.json` and `report.html` to the new folder `DIR`. It never overwrites: an existing
`DIR` is refused, and a run that fails leaves none. Ctrl-C and SIGTERM end it with exit code 2, and
it leaves none either. It prints the number of findings by code, and the three worst in words.
`--quiet` prints only errors, and `--json` only `summary.json`.

`--protocol groups` replays logs of groups with a controller, `__marshal_groups`. Sources, engines,
`--checkpoint`, SARIF and JUnit are the same; tables, findings, `summary.json` and the page are
those of groups. `--what-if strategy=NAME` counts the moves that another strategy would have made.
Options for claims are refused. So is a log without a record of the chosen protocol, if its first
records are all of the other one. From Python, use `run_groups`.

## The heartbeat interval

Each group is judged by the heartbeat interval in its log: since version 0.2.0, claims and
heartbeats carry their sender's (`marshal-interval`). A log may contain groups with different
intervals. If the interval of a group was changed, each record is judged by the one in force when it
was written. The new one is in force from the first claim that is won under it after the last owner
under the old one is dead. Owners are alive for twice the larger interval after their last record,
or until they have released everything. If owners of both are alive at once, the earlier interval
stays in force, and the finding `interval_mismatch` names the others. Each coordinating partition is
judged separately.

`--heartbeat-interval` (60 s) applies to groups whose log states none: those of version 0.1.0, and
of the original. It also applies to the records before a group first states one, so give the option
for a fleet that was upgraded. If the log states another interval, the option is an error (exit code
2) that names the group. With `--force-interval` it applies to every group, whatever the log states.
`summary.json` lists the intervals by which groups were judged at the end (`heartbeat_intervals_s`),
and for each group also those that it stated before (`intervals_said_ms`). `trace`, `shrink` and
`watch` have the same two options.

## Sources

A source is a file, a folder, or a glob. You may mix these formats:

"""

_ONE_LOG = """
The format of each file is detected from its name and its first bytes; `--format NAME` sets it for
all files. Text files (capture, kcat, console, dump-log, and a sink's `.json` and `.bin`) may be
compressed with gzip or zstandard. A compressed text is read by one task, so do not compress large
ones. A record, a record batch or an Avro block that decompresses to more than 64 MiB is refused,
and the error names its place. So is a Parquet row group that decompresses to more than 64 MiB and
100 times its size. What a format cannot prove is reported as a caveat, on the terminal, in
`summary.json` and in the report, if it matters for these files. For `dump-log` the caveat mentions
lost epochs only if records had `marshal-` headers; for `segment` it mentions aborted records only
if there were transactions.

A live topic is a source, too: `kafka://HOST:PORT/TOPIC`, see [watch.md](watch.md). All its records,
including those of aborted transactions, are first copied to a Parquet file.

- **capture**: one record a line, `{"partition", "offset", "timestamp_ms", "timestamp_type",
  "value"[, "headers"]}`; `timestamp_type` as in Kafka's clients, 1 CreateTime and 2 LogAppendTime;
  headers as a map or as a list of pairs.
- **kcat**: values that are not UTF-8 are read correctly, since kcat prints their bytes. By default
  kcat reads only committed records. Lines that begin with `% ` are skipped.
- **console**: print it with `--property print.partition=true --property print.offset=true
  --property print.timestamp=true --property print.headers=true`. Without the first two it cannot be
  replayed. A line that does not begin a record continues the value before it.
- **dump-log**: the partition is in the line `Dumping .../TOPIC-PARTITION/....log`, or in the name
  of the file's folder.
- **segment**: files of format v2, so of Kafka 0.11 or later; the folder gives topic and partition.
  If it was copied from a running broker, the last batch may be incomplete: it is skipped, which is
  a caveat. A wrong checksum is an error. Use segments if you have the choice.
- **connect**: a file contains values: strings or bytes; nulls are nulls. If a value is an object,
  the record's value is in its field `value`. It may also have `offset` and `timestamp` (added by
  `InsertField`), which are then used. Bytes that the sink wrote as base64 are not decoded. By
  default a sink drops nulls, and with them their offsets.
- **parquet**: `value` (may be null), `partition`, `offset`, `timestamp`, `timestampType`
  (0 CreateTime, 1 LogAppendTime) and, optionally, `headers`, `topic` and `key`. Without `headers`
  every record is judged as if it had none, which is a caveat.

Records of claims need no keys: they are not read. Those of groups do, and a format without keys is
a caveat. kcat, dump-log and segments have keys; captures and Parquet have them in `key`; a sink in
a field `key` beside `value`; the console consumer prints them with `--property print.key=true`.

A dump of several topics is refused, because their offsets are unrelated; `--topic NAME` selects the
records of one topic. This works for formats that name topics: kcat, parquet, dump-log, segment,
connect.

In a folder, all files with a known format are read, at any depth, except `.trace.jsonl` and names
that begin with `.` or with one `_`. `summary.json` lists the other files of the folder as left out.

**What is one log?** Records of different clusters, or of a topic before and after it was created
anew, must not be folded together.

- A capture or a text of kcat or of the console consumer is a whole recording: each file is its own
  log, named after the file.
- Parquet files and texts of dump-log are parts: those in one folder are one log, named after the
  folder. For a folder given as SOURCE this includes all of them, at any depth. A folder within it
  whose name ends in `.parquet`, as Spark writes it, is its own log. A folder named `partition=N`
  replaces that column.
- Segments in the folders `TOPIC-PARTITION` of one data folder, and the files of one sink's folder
  `topics/TOPIC`, are one log, named after the topic.
- `--one-log` treats everything as one log, for example a capture that was split.

Within a log, records may come in any order and from any number of files; those of one coordinating
partition are collected and sorted by offset. If there are two records at one offset, the first in
the order of the input is folded, and the second is a finding.

## Logs that start in the middle

Retention deletes the head of a log. A coordinating partition then begins at an offset above 0, and
it is unknown who won a claim before that. Under the fenced rules, nothing uncertain is reported.
Each claim is read as a late client reads it (the specification's `Reader`), until its owner, epoch,
position and clock are certain. The reports on it begin with that record (`known_from_offset` in
`claims`), and its owner has a tenure that began as `became_certain`.

This needs one record in which an owner states what it has seen (`marshal-seen`, `marshal-clock`),
if no record since may have won the claim. Our clients state it in every heartbeat, so it takes one
interval. A position that is set in a pause also makes a claim certain. For a claim that never
becomes certain, `claims` holds what is certain, and names what is not; its other tables are empty.
The finding `head_missing` counts the claims that became certain, with the first and the last offset
at which one did, and those that never did. It also counts the records whose effect cannot be known
(`unknowable`, for each partition also in `summary.json`). The command prints how many of
the claims were judged. If not all were, the headline of the page gives the number, too.

- What is certain equals what the whole log would show. Findings that count or compare over the log
  (shares, churn, failover times, lost races, two instances of one client) do so over the records
  that were read. Silences are measured by the clock of those records. A finding that needs earlier
  records, as `granted_twice` needs the first grant, may be missing.
- Consumers of the original never state what they have seen: under the fenced rules their claims
  become certain by a set position or not at all.
- Under the original's rules nothing can be certain. The log is judged as if it began at its first
  record, and divergences compare with that.
- A gap within a log (`offset_gap`) is not a missing head: transactions and control records leave
  gaps, too. The records after it are reported as if nothing were missing. Consumers start over
  there, and may lose what they owned.

## Time

Times are unix milliseconds. The records' timestamps decide what happened when: the broker's clock
if the topic has LogAppendTime. If it has CreateTime, a finding reports this, because the producers'
clocks then decide when an owner was stale. A dump without timestamps is judged by the time in each
message, its sender's clock in whole seconds, which is a caveat.

## Tables

Each table is a folder of Parquet files, for Spark, pandas, DuckDB or any other tool. With `--rules
both`, each table contains the rows of both rule sets; the column `rules` distinguishes them. Text
that is not UTF-8 is shown with `\\xNN`. Integers have 64 bits; others are changed to the nearest
one that fits.
"""

_FINDINGS = """\
## Findings

`rules` names the rule set that reports a finding: `fenced`, `original`, or *each*. *log* stands for
a fact of the input, whose `rules` is null. The table shows the usual severity; if a finding can be
less severe, its meaning says so.
"""

_TAIL = """\
## summary.json

- Counts of records, rows and findings, and the time span.
- For every log, its coordinating partitions: first and last offset, gaps, duplicates, timestamp
  types.
- For every group, the counts under each rule set; `unowned_longest_ms` is null if every claim
  always had a live owner.
- For every sender, its clock relative to the broker's: minimum, median and maximum of
  `unix_s * 1000 - timestamp_ms`. Messages contain whole seconds, so a perfect clock has a median
  near -500.
- Files left out, and caveats: the limits of what the rest proves.

It contains no time or place of the run, so two replays of one input are equal.

`what_if` and `checkpoint` are null unless requested; see below.

## Resuming: `--checkpoint DIR`

    marshal replay dumps/monday  --checkpoint DIR --out monday
    marshal replay dumps/tuesday --checkpoint DIR --out tuesday

The second run begins where the first ended. The sources of all runs are one growing log, whatever
their names. A run saves its results in `DIR`: the final rows, and the state and next offset of
every coordinating partition. Everything that continues (tenures, open findings, the claims) stays
open between runs.

**Every `--out` covers all runs so far**, as if the log ended there. You need not merge outputs: the
tables of the last one equal, row for row, those of a single run over everything. The cost is that
the time to write grows with all results so far; reading and folding do not.

- **Records below the next offset** are skipped and counted (`skipped` in `summary.json`, and a
  caveat), so a dump may overlap yesterday's. For each partition, the last record of the earlier
  runs is compared if the input contains it again: a different record is the finding
  `conflicting_duplicate`. Other skipped records are not compared. A topic that was created anew
  begins at offset 0 again and would be skipped: use another `DIR` for it.
- **Missing offsets** between two runs are an `offset_gap`, as they are within one.
- **Exactly once.** A run counts from the moment when one file, `DIR/checkpoint.json`, is replaced.
  This happens when everything is written, just before the output is moved to `--out`. A run that is
  killed before that (`kill -9`, a power failure, a full disk) has changed nothing; one that is
  killed right after it has left no `--out`. In both cases run the same command again: in the second
  case its records are skipped, and the tables are the same. A `--sarif`, `--junit` or `--perfetto`
  file may exist already in that case; remove it first. A killed run may also leave a hidden folder
  `.OUT.*` beside `--out`.
- A Spark task that runs again replaces the whole state of its partition. Executors that outlive
  their driver write to the folder of their own run, which is never read. All executors must see
  `DIR` under the same path.
- **Refused**, with exit code 2 and the reason, is a `DIR` that was made with other options
  (interval, rules, longest pause, partition count, topic). So is one that another version of this
  package or of Python, or `marshal watch`, has written, or that another run is using. So is one
  that is damaged, or lacks a file of an earlier run: a job that removes old files must not touch
  `DIR`. `--what-if` needs the whole log, so it cannot be combined with `--checkpoint`.

States are Python pickles. Reading one creates only the classes that a fold consists of, but trust
the folder as you trust the program.

## Signed records: `--keys FILE`

This verifies every record of the sources and reports those that are not authentic ([sign
records](how-to/sign-records.md)): `record_not_signed` and `record_not_authentic`. It happens in
this process, separately from the fold, so everything else is the same as without keys. With
`--what-if` both sides have these findings.

## Which engine: `--engine auto|local|spark`

`local` folds on this machine and needs no Java. `spark` folds on Spark, on the cores of this
machine or on the cluster that `--master` names ([how](how-to/replay-on-a-cluster.md)). Tables,
`summary.json`, report, exports, `--what-if` and exit codes are the same, and either engine can
resume a `--checkpoint` of the other. Tests compare both on every capture of the repository and on
generated logs.

`auto`, the default, uses Spark if there is a `--master`, or in Python a session. Otherwise it uses
Spark only if the folder for temporary files (`TMPDIR`) has less free space than 128 bytes per
record. It counts the rows of Parquet and segment files. For other formats it estimates 150 bytes
per record, and ten times as many records if they are compressed. The command prints which engine it
chose, and why.

`local` has a process for each core, but no other one for fewer than 1,000,000 records. The command
copies itself (on Linux), and a program that calls `run` starts them. Each reads chunks, and then
each folds coordinating partitions, the largest first. What was read waits in
temporary files, which the system may keep in memory while there is room. A coordinating partition
is folded by one process, and a packed text is read by one. A partition that has most of the log is
folded while chunks are still read. If a process is killed, the command ends with exit code 2 and
names the signal. If the command is killed, so are its processes.

How Spark goes about it depends on the size, and the output does not:

- A log of up to 50,000 records is one task, which reads and folds it alone.
- A larger log is one job of two stages: chunks are read, and coordinating partitions folded. If all
  tables together have up to 100,000 rows, they come with the end of its tasks. The command then
  answers and writes by itself.
- Of more rows, Spark answers every question by a query, and writes the tables.
- A checkpoint of up to 4 MB is read by the command, without Spark.

Processor time of the whole command with all its processes, Java and Python, looked at ten times a
second. One run each, two cores, CPython 3.11, and a load of 14 to 18, which makes it more. In the
last column a larger log was five queries and no job of its own:

| | here | on Spark | on Spark before |
|---|---|---|---|
| the 236 records of `d3_late_heartbeat_theft.jsonl` | 0.8 s | 4.6 s | 6.1 s |
| 1,000,000 generated records | 3.9 s | 9.6 s | 17.0 s |
| 5,000,000 generated records | 7.8 s | 12.8 s | 19.8 s |

Of the 9.6 s, Spark's Java took 3.5, its Python workers 4.4, and the command the rest. In a session
that had run before, a million records took 3.3 s, five million 5.9 s, and before the change 8.2 s.

Up to 5,000 records are fed one by one, without the compiled kernel. Of more, the first run on a
machine compiles it, which takes some seconds once.

## How fast

`make bench-replay` replays 10 million generated records, with its peers on the same file. Two
cores, CPython 3.11, Spark 4.0, nothing else at work, the best of two passes in one run:

| | uniform, records/s | one claim has a fifth, records/s |
|---|---|---|
| replay on Spark: every table, summary and page written | 2,731,000 | 2,898,000 |
| the same with `--engine local` | 2,426,000 | 2,570,000 |
| polars, tenures and claims without rules | 1,307,000 | 1,407,000 |
| the same two tables under the rules, with the kernel in one process | 4,136,000 | 4,290,000 |
| kernel, one core, reading included: every verdict, every claim | 2,728,000 | 2,930,000 |
| merely to read the columns | 4,197,000 | 4,507,000 |

So a whole replay, with its verdicts, findings and page, takes half of polars' time for its two
tables. The kernel makes the same account in a third; the run checks that it is the same.
All of it after a small warm run, so no start is in it. In a run of `make bench`, with
3,000,000 records, a replay on Spark was 2.2 times as fast as DuckDB's account. Spark took 1.8 times
as long merely to split the values into columns. `make bench-replay ARGS="--scale 1000000 10000000
30000000"`, and an older run of 100,000,000 as five queries:

| records | wall s | records/s | CPU us a record | driver MB | JVM MB | largest worker MB |
|---|---|---|---|---|---|---|
| 1,000,000 | 1.7 | 603,000 | 2.35 | 532 | 497 | 397 |
| 10,000,000 | 4.9 | 2,045,000 | 0.86 | 644 | 545 | 432 |
| 30,000,000 | 11.6 | 2,594,000 | 0.70 | 700 | 589 | 497 |
| 100,000,000 | 44.8 | 2,233,000 | 0.85 | 728 | 1,555 | 493 |

From 10,000,000 to 30,000,000 that is 3.0 million records a second. Some 1.3 s are the same for
every size.

`--engine local` on the same machine, with two processes and nothing else at work: one run of
`make bench-replay ARGS="--scale 1000000 10000000 100000000 --here"`.

| records | wall s | records/s | CPU us a record | command MB | other process MB |
|---|---|---|---|---|---|
| 1,000,000 | 1.0 | 989,000 | 1.03 | 510 | |
| 10,000,000 | 3.5 | 2,843,000 | 0.62 | 540 | 373 |
| 100,000,000 | 28.3 | 3,530,000 | 0.54 | 660 | 458 |

No start is in these. The command `marshal replay` as a user runs it took 0.6 to 0.7 s for the 236
records of `d3_late_heartbeat_theft.jsonl`, and 7.2 s of processor time for the 10,000,000.
Memory hardly grows with the log: runs of at most two million records are joined at once.

One coordinating partition keeps both cores busy, too. `make bench-replay ARGS="--scale 30000000
--here --hot 1.0"` took 11.8 s. The same under `taskset -c 0`, with one process, took 21.7 s, so two
cores are 1.84 times as fast. Skew costs nothing: four fifths of 10,000,000 records in one
partition, and a fifth in one claim, took 1.07 microseconds of processor time a record. One
partition took 1.09, with a load of 25.

Where the time of `--engine local` goes, in one process: processor time of one run, nothing else at
work. `make bench-replay ARGS="--phases 10000000"`, and the same with `--phases 2000000 --claims
200000`, so that a claim has ten records. It also prints what the whole command takes:

| CPU us a record | 2,048 claims | 200,000 claims |
|---|---|---|
| merely to read the columns | 0.21 | 0.17 |
| to read and to collapse, the above with it | 0.37 | 1.24 |
| to fold 46,306 rows, or 2,000,064 | 0.10 | 1.44 |
| the whole command, start and outputs with it | 0.72 | 5.91 |

Rows are claims times chunks of 500,000 records. Before they are folded, runs that go on from chunk
to chunk are joined: 46,306 rows of ten million records become 7,400. Where a chunk holds a claim
less than eight times, its records are rows of their own. Within a coordinating partition they are
joined, too, up to 256 MB of rows. A claim whose records there are one win, and heartbeats of the
winner, is kept in columns until something else happens to it, or the log ends. To fold one takes
some 13 microseconds. Any other claim is an object of Python, with its tenure and its rows, which
takes 130 to 160.

Of 2,000,000 records of 2,048 claims, in one process and without its start, the page takes 0.7 of
1.6 s of processor time (load 5 to 10). A third of that reads its claims' rows from the tables. Of
200,000 claims, a row of a record has 308 bytes: 103 of its value, 88 of headers, and 41 of the
columns of runs, which are empty. To sort, write and read them again takes 0.56 microseconds of
processor time a record (load 3). With dictionaries and without the empty columns it takes 0.4.

A record's cost on a cluster, by `python -m benchmarks.cluster.cost`: a standalone master on this
machine, executors of one core, whose Python has no packages. Processor time is of Java and Python
together. The two cores had much other work (the column `load`), so wall time says nothing, and
processor time is more than on a quiet machine:

| records | executors | wall s | CPU s of executors | CPU s of the driver | load |
|---|---|---|---|---|---|
| 1,000,000 | 1 | 530.2 | 27.0 | 19.1 | 19.7 |
| 8,000,000 | 1 | 704.1 | 38.7 | 19.9 | 23.0 |
| 1,000,000 | 2 | 184.8 | 48.8 | 18.5 | 25.0 |
| 8,000,000 | 2 | 232.8 | 59.9 | 18.3 | 25.3 |

So a record more costs 1.67 microseconds of one executor and 1.59 of two, and at most 0.1 of the
driver. An executor more costs its start, some 20 s of processor time here.

Beyond that nothing was run. What follows is simulated: `python -m benchmarks.cluster.plan`
schedules the two stages of 10 billion records of 2,048 claims on 100 cores. To read a record takes
1.42 of the 1.67 microseconds above, which were measured before runs were joined. To fold takes 23
for a row, a claim in a chunk, and 60 for a joined run, as measured in one process. Network, store,
stragglers and driver are not in it. Medians of 100 seeds, in seconds:

| coordinating partitions | skew | reading s | folding s, median | worst | total s |
|---|---|---|---|---|---|
| 16 | none | 142 | 69 | 83 | 211 |
| 64 | none | 142 | 21 | 26 | 163 |
| 256 | none | 142 | 13 | 17 | 155 |
| 1,024 | none | 142 | 12 | 14 | 154 |
| 16 | one has 128 | 142 | 69 | 80 | 211 |
| 64 | one has 128 | 142 | 60 | 60 | 202 |
| 256 | one has 128 | 142 | 60 | 67 | 202 |
| 1,024 | one has 128 | 142 | 63 | 69 | 205 |

Skew bites in the second stage: a coordinating partition is folded by one core, whatever its size.
Those of a log are dealt out to tasks in turn. So give the coordination topic many partitions. One
with 128 of the claims takes 60 s, however many others there are. That one claim has most of the
records costs nothing more.

Of a shared claim nearly every record changes something: a range is done, and another is granted. So
none is left out. The requests between two heartbeats of its anchor are one table of numbers, which
the kernel folds request by request. Before, each was folded in Python. One run each in one process,
processor time, with much other work on the two cores:

| log of 16 shared claims with 16 participants each | before | now |
|---|---|---|
| 1,000,000 records, every hundredth a heartbeat of the anchor | 40 s | 9.3 s |
| 200,000 records, every tenth a heartbeat of the anchor | 14.9 s | 9.2 s |

The limit is what lies between the tables. A heartbeat of the anchor is folded in Python, and its
checkpoint is compared with the ranges as they stood. That takes some 0.4 ms where 16 participants
hold ranges, as long as 8 requests took before. Requests that are refused, give something back, or
find somebody silent are folded one by one, too. So are all requests of a run with `--checkpoint`.
`make bench-replay ARGS="--shared --beats-every 10"` measures such a log.

## For CI: SARIF and JUnit

`--sarif FILE` writes the findings as SARIF 2.1.0: a rule for every code, with its meaning and what
to do, and a result for every finding. A result has a sentence, a level (info is a note), a logical
location `log/coordinating partition/group/topic/partition` (each percent-encoded), and offsets,
times and names as properties. `--junit FILE` writes JUnit XML: every log is a test suite, and every
code of the catalogue a test case in it. A case fails if there is an error or a warning with that
code. Findings of severity info are its output. A case is skipped, with the reason, if nobody looked
for its findings. Then the chosen rules never report it, it needs an option that was not given, or
nothing in the log could be judged. SARIF has no results for such codes, and does not name them.
Both follow the rules of the output folder: an existing file is refused, and a run that fails leaves
none. Neither may lie within `--out` or `--checkpoint`.

## Perfetto

`--perfetto FILE` writes a trace in Chrome's JSON format, for ui.perfetto.dev: a process for each
group of a log under a rule set, and a thread for each claim. Each tenure is a complete event with
its owner, epoch, offsets and positions; each finding that has a time is an instant event. A tenure
that is still open at the end of the log is drawn to its owner's last accepted record. If the name
ends in `.gz` the file is compressed; an existing file is refused.

A group with a controller is a process with a thread for each partition, one for its rebalances and
one for the times in which a rebalance was due. A partition of `__marshal_groups` is a process, too,
with its controllers. Open intervals there are drawn to the end of the log.

## The report

`report.html` is one file that loads nothing else. Its title names the topic and the cluster of a
live source, otherwise the files, and the time. The verdict comes first, with a link to the first
error; then who owned what, and the findings. Logs and groups are sorted by errors and warnings, the
worst first.

For each claim that several consumers share, a plot shows who held which offsets and when. Ranges
that were taken from a silent holder, or lost with it, are outlined. The plot draws the first 1,000
ranges of a claim. It does not draw a holder's progress within a range that it still holds. A replay
with too many claims to draw has no such plots.

One block of findings has one cause, as far as group and time show. It contains errors and warnings
about claims of one group, each within two heartbeat intervals of the one before. The block shows a
sentence for the first finding of each code; its claims and records unfold. The page shows eight
digits of a random instance id, and the whole id on hover. Hovering also explains a property.

Up to 200 claims, and 10,000 tenures and marks, are all drawn. If there are more, the page draws the
six worst claims. It lists the worst claims by errors, by takeovers, or by the time without an owner
(up to 20,000). Findings over time by code and by group follow. The page draws a claim or a group
when you choose it, from its own data. Within 14 MB these data are the tenures, marks and heartbeats
of up to 400 claims, and the first 200 tenures of the next ones. For the others it has only counts.
The page stays below 20 MB and states how many claims it holds in which detail; the tables have the
rest. Without scripts, a large replay has no timelines. The 300 worst findings and divergences are
written in full, and all are counted.

## What if

    marshal replay dump --heartbeat-interval 4 --what-if heartbeat_interval=30s --out DIR

replays the same log a second time under another setting, and prints the differences. These are the
number of findings by code before and after, and the number of tenures that are gone or new. It also
prints how many claims had other owners, in between and at the end. For up to 20 claims it prints
the first record with a different result, and the owner after it. Settings are `heartbeat_interval`,
`pause_max` (`500ms`, `30s`, `5m`, `1h`) and `rules` (`fenced` or `original`; not with `--rules
both`), separated by commas. Tables and report stay those of the first setting. With another
interval, consumers would have written another log. So this only shows how the rules would have
judged these records.

## Shrinking a finding

    marshal shrink late_heartbeat_stole@82 --from dump --heartbeat-interval 4 --out DIR

removes records from a log until the finding needs every one that is left. Those keep their offsets
and timestamps. `CODE@OFFSET` is the finding whose first record has that offset. `CODE` is the first
finding of the log with that code; any with the same code and severity then counts. `DIR` gets
`slice.jsonl`, a capture, and a pytest file that replays it and asserts the finding. It judges the
records of one coordinating partition, by both rule sets unless you give `--rules`. It needs no
Spark, but keeps the sources in memory.

## In a notebook

The records can be read as a table, from files or, as a stream, from a broker. A DataFrame of
Spark's own Kafka source can be replayed directly:

```python
from pathlib import Path
from kafka_marshal.replay.notebook import MarshalDataSource, run_frame
spark.dataSource.register(MarshalDataSource)
spark.read.format("marshal").load("last-night/*.jsonl").where("type = 'ReleasingPartition'").show()
spark.readStream.format("marshal").options(bootstrap="localhost:9092", topic="__marshal").load()
run_frame(spark.read.parquet("dump.parquet"), out=Path("replayed"))
```

With that source a dump of a live topic is one line:

```python
spark.read.format("kafka").option("kafka.bootstrap.servers", "...").option(
    "subscribe", "__marshal").option("includeHeaders", "true").load().write.parquet("dump.parquet")
```
"""


_GROUPS = """
## Groups with a controller

`marshal replay --protocol groups` folds `__marshal_groups` with the reducer that controllers run
([how to read it](how-to/replay-a-group.md)). The tables `findings` and `malformed` are as above;
these are for groups only:

"""

_FINDINGS_OF_GROUPS = """
Findings of groups have the member's id as `instance`. Those about the input (`create_time`,
`offset_gap`, `duplicate_record`, `conflicting_duplicate`, `malformed_record`,
`wrong_coordinating_partition`, here of groups instead of topics) are as above.

"""


def manual() -> str:
    """The text of `docs/replay.md`."""
    parts = [
        _HEAD + _formats() + _ONE_LOG,
        *(_table(table) for table in PUBLISHED),
        _FINDINGS,
        _catalogue(CATALOGUE.values()),
        _GROUPS,
        *(_table(table) for table in GROUPS_PUBLISHED if table not in PUBLISHED),
        _FINDINGS_OF_GROUPS,
        _catalogue(kind for code, kind in GROUP_CATALOGUE.items() if code not in OF_THE_INPUT),
        _TAIL,
    ]
    return "\n".join(parts)


def _formats() -> str:
    rows = "".join(
        f"| `{name}` | {format_.what} | {format_.detected_by} | {_limits(format_.cannot_prove)} |\n"
        for name, format_ in FORMATS.items()
    )
    head = "| format | what it is | detected by | what it cannot prove |\n|---|---|---|---|\n"
    return head + rows


def _limits(cannot: CannotProve) -> str:
    told = attrs.asdict(cannot)
    limits = [f"*{name.replace('_', ' ')}*: {text}" for name, text in told.items() if text]
    return " ".join(limits) or "nothing: it proves what it states"


def _table(table: Table[Any]) -> str:
    rows = "".join(f"| `{c.name}` | `{c.type}` | {c.meaning} |\n" for c in table.columns)
    return (
        f"### {table.name}\n\n{table.meaning} Sorted by {', '.join(table.order)}.\n\n"
        f"| column | type | meaning |\n|---|---|---|\n{rows}"
    )


def _catalogue(kinds: Iterable[FindingKind]) -> str:
    rows = "".join(
        f"| `{kind.code}` | {kind.severity} | {kind.rules} | {kind.property or ''} "
        f"| {kind.meaning} | {kind.what_to_do} |\n"
        for kind in kinds
    )
    head = (
        "| code | severity | rules | property | meaning | what to do |\n|---|---|---|---|---|---|\n"
    )
    return head + rows


if __name__ == "__main__":
    sys.stdout.write(manual())
