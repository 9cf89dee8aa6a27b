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

reads recorded logs of a coordination topic, folds them under the rules you choose, and
writes tables, `summary.json` and `report.html` into the new folder `DIR`. It never overwrites: an
existing `DIR` is refused, and a run that fails or is interrupted leaves none. It prints how often
each finding was found, and the three worst in words; `--quiet` prints nothing but errors, `--json`
prints `summary.json` and nothing else.

`--protocol groups` reads logs of groups with a controller, `__marshal_groups`, where this page
speaks of claims. Sources, engines, `--checkpoint`, SARIF and JUnit are the same; tables, findings,
`summary.json` and the page are those of groups. `--what-if strategy=NAME` counts the moves that
another strategy would have made. Options about claims are refused, and so is a log of which no
record is of the protocol, if its first ones are all of the other. From Python: `run_groups`.

## The heartbeat interval

Each group is judged by the heartbeat interval that the log says: claims and heartbeats carry
their sender's (`marshal-interval`), since version 0.2.0. A log may hold groups of different
intervals. Where the interval of a group was changed, each record is judged by the one that held
when it was written. The new one holds from the first claim that is won under it once no owner under
the old one lives any more. Owners live for twice the larger of the two after their last record, or
until they have given everything back. Where both live at once, the one that came first holds, and
`interval_mismatch` says who differs. Each coordinating partition is judged by itself.

`--heartbeat-interval` (60 s) is for groups that say none: of version 0.1.0, and of the original.
Before its first word a group says none either: give the option where a fleet was upgraded. Where
the log says another one, the option is an error (exit code 2) that names the group; with
`--force-interval` it holds for every group, whatever the log says. `summary.json` names the
intervals by which groups were judged at the end (`heartbeat_intervals_s`), and for each group also
those that it stated before (`intervals_said_ms`). `trace`, `shrink` and `watch` have the same two
options.

## Sources

A source is a file, a folder, or a glob, of any of these formats, mixed as you like:

"""

_ONE_LOG = """
The format of each file is seen from its name and its first bytes; `--format NAME` says it instead,
for all. Texts (capture, kcat, console, dump-log, and a sink's `.json` and `.bin`) may be packed
with gzip or zstandard. A packed text is read by one task, so leave big ones plain. A record, a
record batch or a block of Avro that unpacks to more than 64 MiB is refused, with its place. So is a
row group of Parquet that unpacks to more than 64 MiB and 100 times its bytes. What a format
cannot prove is a caveat of the replay, on the terminal, in `summary.json` and in the report, if it
matters for the files at hand. For `dump-log` it names lost epochs only if records had `marshal-`
headers; for `segment` it names aborted records only if there were transactions.

A live topic is a source, too: `kafka://HOST:PORT/TOPIC`, see [watch.md](watch.md). It is put into
Parquet first, as it lies in the log, aborted transactions with it.

- **capture**: one record a line, `{"partition", "offset", "timestamp_ms", "timestamp_type",
  "value"[, "headers"]}`; `timestamp_type` as in Kafka's clients, 1 CreateTime and 2 LogAppendTime;
  headers as a map or as a list of pairs.
- **kcat**: values that are not UTF-8 come through whole, for kcat prints their bytes. By default it
  reads what is committed. Its lines that begin with `% ` are passed over.
- **console**: print it with `--property print.partition=true --property print.offset=true
  --property print.timestamp=true --property print.headers=true`. Without the first two it cannot be
  replayed. A line that begins no record goes on the value before it.
- **dump-log**: the partition is in the line `Dumping .../TOPIC-PARTITION/....log`, or in the name
  of the file's folder.
- **segment**: files of format v2, so of Kafka 0.11 or later; the folder says topic and partition.
  Copied from a running broker, the last batch may be cut: it is left out, which is a caveat. A
  wrong checksum is an error. Where you have a choice, take these.
- **connect**: a file holds values: strings or bytes; nulls are nulls. A value that is an object has
  the record's in its field `value`, and may have `offset` and `timestamp` (`InsertField` puts them
  there), which are then believed. Bytes that the sink wrote as base64 are not decoded. By default a
  sink leaves out nulls, and with them their offsets.
- **parquet**: `value` (may be null), `partition`, `offset`, `timestamp`, `timestampType`
  (0 CreateTime, 1 LogAppendTime) and, if there, `headers`, `topic` and `key`. Without `headers`
  every record is judged as if it had none, which is a caveat.

A claim's records need no keys: they are not read. Those of groups do, and a format without them is
a caveat. kcat, dump-log and segments have keys; captures and Parquet have them in `key`; a sink in
a field `key` beside `value`; the console consumer prints them with `--property print.key=true`.

A dump of several topics is refused, for their offsets mean different things: `--topic NAME` takes
the records of one. It works where a format names topics: kcat, parquet, dump-log, segment, connect.

Of a folder everything at any depth is taken whose format is known, but for `.trace.jsonl` and for
names that begin with `.` or with one `_`. What a folder holds besides is left out and listed in
`summary.json`.

**What is one log?** Records of different clusters, or of different days of a topic that was made
anew, must not be folded together.

- A capture or a text of kcat or of the console consumer is a whole recording: each file is a log
  of its own, named after the file.
- Parquet files and texts of dump-log are parts: those in one folder are one log, named after the
  folder. For a folder given as SOURCE that is all of them, at any depth. A folder within it whose
  name ends in `.parquet`, as Spark writes it, is a log of its own. A folder named `partition=N`
  stands in for that column.
- Segments in the folders `TOPIC-PARTITION` of one data folder, and the files of one sink's folder
  `topics/TOPIC`, are one log, named after the topic.
- `--one-log` takes everything for one log, for example a capture that was split.

Within a log, records come in any order and from any number of files; those of one coordinating
partition are brought together and sorted by offset. Two records at one offset are folded
once, the first in the order of the input, and are a finding.

## Logs that start in the middle

Retention cuts the head of a log: then a coordinating partition begins at an offset above 0, and who
won a claim before that is not known. Under the fenced rules nothing is reported of a claim that
nobody can know. Each is read as a late client reads it (the specification's `Reader`), until its
owner, epoch, position and clock are certain. It is reported from that record on
(`known_from_offset` in `claims`), and its owner then has a tenure that began as `became_certain`.
That takes one record in which an owner states what it saw (`marshal-seen`, `marshal-clock`), if
nothing since may have won the claim. Clients of ours state it with every heartbeat, so it is one
interval. A set position in a pause does it, too. Of a claim that is never certain `claims` holds
what is, and names what is not; its other tables are empty. The finding `head_missing` counts the
claims that became certain, with the first and the last offset at which one did, and those that
never did. It also counts the records of which nobody can know what they did (`unknowable`, for each
partition also in `summary.json`).

- What is certain equals what the whole log would say. What counts or compares over the log (shares,
  churn, failover times, lost races, two instances of one client) does so over what was read.
  Silences are measured by the clock of what was read. A finding that needs what was before, as
  `granted_twice` needs the first grant, may be missing.
- Consumers of the original never say what they saw: under the fenced rules their claims become
  certain by a set position or not at all.
- Under the original's rules nothing can be certain. The log is judged as if it began where it does,
  and divergences compare with that.
- A gap within a log (`offset_gap`) is not a missing head: transactions and control records leave
  gaps, too. What follows one is reported as if nothing were missing. Consumers begin anew
  there, and may lose what they owned.

## Time

Times are unix milliseconds. The records' timestamps decide what happened when, so the broker's
clock does if the topic says LogAppendTime. If it says CreateTime, a finding says so, and who was
stale when is then a matter of the producers' clocks. A dump without timestamps is judged by what
each message says of its own time, its sender's clock in whole seconds, which is a caveat.

## Tables

Each is a folder of Parquet files, for Spark, pandas, DuckDB or anything else. Under `--rules both`
rows of both rule sets stand in one table, told apart by the column `rules`. Text that is not UTF-8
is shown with `\\xNN`. Integers are 64 bits; what does not fit is cut to the nearest that does.
"""

_FINDINGS = """\
## Findings

`rules` says who reports it: `fenced` or `original`, *each* by itself, or *log* for a fact of the
input, which has a null there. The severity is the usual one; where a finding can be milder, its
meaning says so.
"""

_TAIL = """\
## summary.json

- Counts of records, rows and findings, and the time span.
- Of every log the coordinating partitions: first and last offset, gaps, duplicates, who stamped the
  records.
- Of every group the counts under each rule set; `unowned_longest_ms` is null when no claim was ever
  without a live owner.
- Of every sender the clock against the broker's: least, median and most of
  `unix_s * 1000 - timestamp_ms`. Messages hold whole seconds, so a perfect clock has a median near
  -500.
- Files left out, and caveats: what limits how far the rest may be believed.

It holds no time or place of the run, so two replays of one input are equal.

`what_if` and `checkpoint` are null unless they were asked for; see below.

## Going on: `--checkpoint DIR`

    marshal replay dumps/monday  --checkpoint DIR --out monday
    marshal replay dumps/tuesday --checkpoint DIR --out tuesday

The second run begins where the first ended. The sources of all runs are one open log, whatever
their names. Whatever a run finds goes into `DIR`: the rows that nothing can change any more, and
the state of every coordinating partition with the offset to go on from. What lasts (tenures, open
findings, the claims) stays open between the runs.

**Every `--out` covers all runs so far**, as if the log ended there. Nobody has to put outputs
together: the tables of the last one equal those of one run over everything, row for row. The price
is that writing takes as long as the whole account is big; reading and folding do not.

- **Records below the offset to go on from** are passed over and counted (`skipped` in
  `summary.json`, and a caveat), so a dump may overlap yesterday's. Of each partition the last
  record of the earlier runs is compared, if it is in the input again: another one there is the
  finding `conflicting_duplicate`. Nothing else that is passed over is compared. A topic that was
  made anew begins at offset 0 again and would be passed over: give it another `DIR`.
- **Offsets that are missing** between two runs are an `offset_gap`, as they are within one.
- **Exactly once.** A run counts from the moment when one file, `DIR/checkpoint.json`, is replaced.
  That happens when everything is written but for the last move, of the output to `--out`. Killed
  before it (`kill -9`, power, a full disk), a run has changed nothing; killed right after it, it
  has left no `--out`. In both cases give the same command again: in the second its records are
  passed over, and the tables are the same. A `--sarif`, `--junit` or `--perfetto` file may be there
  already then, and is to be removed first. A hidden folder `.OUT.*` beside `--out` may be left of a
  killed run.
- A task of Spark that is run again replaces its partition's state whole. Executors that outlive
  their driver write into the folder of their own run, which nobody reads. All executors must see
  `DIR` under the same path.
- **Refused**, with exit code 2 and the reason, is a `DIR` that was made with other options
  (interval, rules, longest pause, partition count, topic). So is one that was made by another
  version of this package or of Python, or by `marshal watch`, that is damaged, or that another run
  holds. `--what-if` needs the whole log, so it does not go with `--checkpoint`.

States are Python pickles. Reading one makes nothing but what accounts are made of, but trust the
folder as you trust the program.

## Signed records: `--keys FILE`

Verifies every record of the sources and reports those that are not authentic ([sign
records](how-to/sign-records.md)): `record_not_signed` and `record_not_authentic`. It is done in
this process and beside the fold, so everything else is the same as without keys. With `--what-if`
both sides have these findings.

## Which engine: `--engine auto|local|spark`

`local` folds on the machine of the command and needs no Java. `spark` folds on Spark, on the cores
of the machine, or on the cluster that `--master` names ([how](how-to/replay-on-a-cluster.md)).
Tables, `summary.json`, report, exports, `--what-if` and exit codes are the same, and either engine
takes up a `--checkpoint` of the other. Tests compare both on every capture of the repository and on
generated logs.

`auto`, the default, takes Spark if there is a `--master`, in Python a session. Else it takes Spark
only if the folder for temporary files (`TMPDIR`) has less free room than 128 bytes for each record.
It counts the rows of Parquet and of segments. Of other formats it estimates: 150 bytes a record,
and ten times as many records if they are compressed. The command prints which engine it chose, and
why.

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

`--engine local` on the same machine, with two processes and nothing else at work. Two runs of
`make bench-replay ARGS="--scale 1000000 10000000 --here"`, with 30,000,000 and 100,000,000 in the
second:

| records | wall s | records/s | CPU us a record |
|---|---|---|---|
| 1,000,000 | 1.3 | 786,000 | 1.32 |
| 10,000,000 | 3.9 | 2,573,000 | 0.69 |
| 30,000,000 | 9.3 | 3,223,000 | 0.58 |
| 100,000,000 | 30.9 | 3,236,000 | 0.58 |

No start is in these. The command `marshal replay --engine local` as a user runs it took 5.6 s for
the 10,000,000 records, and 0.9 s for the 236 of `d3_late_heartbeat_theft.jsonl`. Before runs were
joined, 10,000,000 and 30,000,000 took 8.4 and 17.0 s.

All this was before processes were copies of the command, and before commands began and ended with
less. Processor time with all processes, means of three runs before and after in turn. The load was
11 to 13, which makes it more:

| | before | now |
|---|---|---|
| the 236 records of `d3_late_heartbeat_theft.jsonl` | 1.36 s | 0.89 s |
| 1,000,000 generated records | 3.76 s | 2.87 s |
| 10,000,000 generated records | 11.35 s | 8.79 s |

Memory does not grow with the log, as far as it was looked at. Proportional set size of a command at
its peak, looked at four times a second; mapped files are code and what waits to be folded:

| records | command MB | other process MB | mapped files of these, at most |
|---|---|---|---|
| 10,000,000 | 454 | 403 | 30 |
| 100,000,000 | 552 | 466 | 55 |
| 100,000,000 with windows of 128 MB | 1,136 | 1,149 | 110 |

Runs of two million records are joined at once, where it was up to sixteen million before. While
chunks are read, memory stays the same.

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
| merely to read the columns | 0.19 | 0.16 |
| to read and to collapse, the above with it | 0.35 | 1.52 |
| to fold 46,306 rows, or 2,000,064 | 0.10 | 1.28 |

Rows are claims times chunks of 500,000 records. Before they are folded, runs that go on from chunk
to chunk are joined: 46,306 rows of ten million records become 7,400. Where a chunk holds a claim
less than eight times, its records are rows of their own. Within 128 MB of rows they are joined,
too. A claim whose records there are one win, and heartbeats of the winner, is kept in columns until
something else happens to it, or the log ends. To fold one takes some 13 microseconds. Any other
claim is an object of Python, with its tenure and its rows, which takes 130 to 160.

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
times and names as properties. `--junit FILE` writes JUnit XML: every log is a test suite, every
code of the catalogue a test case in it. A case fails if there is an error or a warning with that
code, and is skipped if the rules chosen never report it. Its output is what is only good to know.
Both are written as the folder is: an existing file is refused, a run that fails leaves none.

## Perfetto

`--perfetto FILE` writes a trace in Chrome's JSON format, for ui.perfetto.dev: a process for each
group of a log under a rule set, a thread for each claim. Each tenure is a complete event with its
owner, epoch, offsets and positions; each finding that has a time is an instant event. A tenure that
lasts when the log ends is drawn to its owner's last accepted record. If the name ends in `.gz` it
is packed; an existing file is refused.

A group with a controller is a process with a thread for each partition, one for its rebalances and
one for the times in which a rebalance was due. A partition of `__marshal_groups` is a process, too,
with its controllers. What lasts there is drawn to the end of the log.

## The report

`report.html` is one file that fetches nothing. Its title names the topic and the cluster of a live
source, else the files, and the time. The verdict comes first, with a link to the first error; then
who owned what, and the findings. Logs and groups stand the worst first, by errors and warnings.

Of each claim that several consumers share, a plot shows who held which offsets and when. What was
taken from a silent holder, or lost with it, is outlined. The plot draws the first 1,000 ranges of a
claim. It does not draw what a holder has processed of a range that it still holds. A replay with
too many claims to draw has no such plots.

One block of findings is one cause, as far as group and time show. It holds errors and warnings
about claims of one group, each within two heartbeat intervals of the one before. The block puts the
first finding of each code into a sentence; its claims and records unfold. Of a random instance id
the page shows eight digits, and the whole id on hover, as what a property promises.

Up to 200 claims, and 10,000 tenures and marks, are drawn as they are. Of more the page draws the
six worst claims. It lists those that are the worst by errors, by takeovers, or by the time in which
nobody owned them (up to 20,000). Findings over time by code and by group follow. A claim or a group
that is chosen is drawn then, from what the page holds. Within 14 MB those are the tenures, marks
and heartbeats of up to 400 claims, and the first 200 tenures of the next ones. Of the others it
holds their numbers. The page stays below 20 MB, says how many claims it holds in which way, and the
tables above have the rest. Without scripts a big replay's timelines are missing. Of findings and
divergences the 300 worst are written in full, and all are counted.

## What if

    marshal replay dump --heartbeat-interval 4 --what-if heartbeat_interval=30s --out DIR

replays the same log a second time under another setting and prints what would be different. That is
how often each code was found before and after, and how many tenures are gone or new. It is also how
many claims had other owners, on the way and in the end. For up to 20 claims it prints the record
that parted them and who owns after it. Settings are `heartbeat_interval`, `pause_max` (`500ms`,
`30s`, `5m`, `1h`) and `rules` (`fenced` or `original`; not beside `--rules both`), several with
commas between. Tables and report stay those of the first setting. The log is what it is: consumers
that had run with another interval would have written another one. So this shows how the rules would
have judged these records, and no more.

## Shrinking a finding

    marshal shrink late_heartbeat_stole@82 --from dump --heartbeat-interval 4 --out DIR

leaves out of a log whatever a finding does not need, until every single record is needed. What
stays keeps its offset and its timestamp. `CODE@OFFSET` is the finding whose first record has that
offset, `CODE` the log's first with that code (any of that code and severity will then do). `DIR`
gets `slice.jsonl`, a capture, and a pytest file that replays it and asserts the finding. It judges
the records of one coordinating partition, by both rule sets unless `--rules` says otherwise, and
needs no Spark, but holds the sources in memory.

## In a notebook

The records are a table, from files or, as a stream, from a broker; and a DataFrame of Spark's own
Kafka source can be replayed as it is:

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
([how to read it](how-to/replay-a-group.md)). `findings` and `malformed` are as above; these are
groups' own:

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
    head = "| format | what it is | seen by | what it cannot prove |\n|---|---|---|---|\n"
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
