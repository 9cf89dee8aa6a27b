"""`python -m tools.pages.simulation > docs/simulation.md`: the page of the simulation.

Its tables are made of the faults and the checkers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tools.simulate import applications, checkers, faults
from tools.simulate.groups import checkers as group_checkers
from tools.simulate.groups import faults as group_faults
from tools.simulate.groups.setting import GroupsSetting
from tools.simulate.setting import Setting

PAGE = """\
# The simulation

<!-- Printed by `python -m tools.pages.simulation`; do not edit. -->

`make simulate` runs the shipped consumer with all its threads, under faults, in simulated time. A
seed decides everything: which thread runs next, what a fault hits, and when messages arrive. So a
run that breaks a promise can be repeated:

```sh
make simulate ARGS="--hours 2"
make simulate ARGS="--one 4711"
make simulate ARGS="--one 4711 --shrink"
```

The first command prints a table of what happened, and the seed of each run that broke a promise.
If there is one, its exit code is 1. The second repeats one run and prints its faults. The third
finds the fewest faults that still break the promise, and prints that run as a story. The story has
the records of the partition with their effects, callbacks, and the messages that each process got.
`--simulated-s`, `--fault-every-s`, `--heartbeat-interval-s`, `--messages-per-s`, `--clients` and
`--partitions` change the world. The default is the *reference world*: {clients} processes,
{claims} claims, a heartbeat interval of {interval_s:g} s, {messages_per_s:g} messages a second, and
a fault every {fault_every_s:g} s.

One run in three has low limits: of messages fetched ahead, of a batch, of the window, of claims and
of requests a second.

With `--share` the processes share one topic by ranges, under eight of the faults: `kill`, `close`,
`stall`, `slow`, `append`, `slow_append`, `slow_fetch` and `interrupt`. The reducer of ranges also
folds the log, and the checkers whose names begin with `range` judge the result. Half of these runs
are recorded, and compared with the specification, which takes 13 to 23 % more CPU time for such a
run.

The code above Kafka's own client is the shipped code. A scheduler provides threads, locks and
queues ([decision 017](decisions/017-threads-come-through-the-seam.md)). Kafka runs in memory, and
is compared with a real one ([what it does](reference/in-memory-kafka.md)). Half of all runs are at
most once. Of sixteen runs,

- two are recorded, and compared with the specification ([validate.md](validate.md));
- in two, some processes sign, and in two more, all sign and require it
  ([sign records](how-to/sign-records.md)); of the other processes, half have a snapshot;
- four have their logs replayed;
- in two, originals come and go. There the operator neither pauses nor sets positions, and the log
  loses nothing, as [interop.md](interop.md) requires.

A process may have an observer that raises or is slow.

## Faults

Several faults may last at the same time.

| fault | how often | what happens |
|---|---|---|
{faults}

Processes consume in one of these ways: {ways}.

## What is checked in every run

A fault may have the consequences that [safety.md](safety.md) states, and no others. If the log of
claims lost a grant, its messages may be delivered twice, and no receipt lists them. Messages that
retention removed are skipped. If retention cut the log of claims, and a consumer reports it, claims
wait. A process may end with an error that
[troubleshooting](troubleshooting.md#errors-of-a-consumer) names for this fault.

| checker | what must hold |
|---|---|
{checkers}

`tests/client/fleet/test_by_seed.py` shows that each checker finds a mistake. [Mutants in simulated
runs](reference/simulated-mutants.md) counts the runs that it takes to find each mistake. `make
reached` prints the branches of the client, the actions, verdicts and pairs of faults that runs
reach.

## Groups with a controller

`make simulate-groups` runs a world of groups. {controllers} controllers serve a group of {members}
members, which share {of_groups} topics with {each} partitions each. The session timeout is
{session_s:g} s, and there is a fault every {group_fault_s:g} s. It runs `ControllerService`
with its event loop, its threads and the claims that elect it, and `GroupConsumer` in a thread. They
talk over a network in memory
([decision 027](decisions/027-connections-come-through-the-seam.md)): bytes arrive late, in pieces,
or not at all, and connections are reset. The seed chooses the strategy, incremental or eager
rebalances, the delay of bytes, and the machines whose clocks run 3 % too fast or too slowly.

In every second world, limits are close to the members' needs: of connections, of strangers, of
members, of an event's size and of messages fetched ahead. Such a world has 2 to 12 members, perhaps
all on one host, and a session timeout of 3 to 10 s. If there is no room for all, the others must
know why they are not served. Later some members leave, or controllers with higher limits start, and
all must be served. At the end of each run a controller is killed, without any other fault.

```sh
make simulate-groups ARGS="--hours 2"
make simulate-groups ARGS="--one 4711"
make simulate-groups ARGS="--one 4711 --shrink"
```

They print the same as `make simulate` with these options. `--controllers`, `--members`,
`--partitions`, `--session-timeout-s`, `--messages-per-s`, `--simulated-s` and `--fault-every-s`
change the world.

| fault | how often | what happens |
|---|---|---|
{group_faults}

| checker | what must hold |
|---|---|
{group_checkers}

`tests/client/groups/test_groups_by_seed.py` shows that each checker finds a mistake. A simulated
second takes 30 to 60 ms of CPU time. Each controller looks at 16 partitions 20 times a second, and
renews its claims once a second.

## How fast

`make simulate` prints its speed. In the reference world a simulated second takes 8 to 15 ms of CPU
time: 67 to 121 x real time on one core, and twice that on two. At most once takes 1.5 times as long
as at least once, because it writes twice as many records. A simulated second has 6 records of the
log, 19 messages and 215 switches between threads. A night of 8 hours is 1,000 to 1,900 simulated
hours on 2 cores. These figures are of eight runs of 200 s on a busy machine.

| what takes the time | share |
|---|---|
| the client: its threads, loop, reader and fetcher | 34 % |
| its machines, the reducer and the codec | 25 % |
| the scheduler: switches, locks, the clock | 21 % |
| Kafka in memory | 10 % |
| applications and faults | 7 % |
| checkers | 3 % |

The aim was a thousand times real time, which this client cannot reach in CPython. The rest of the
time is spread evenly: each of 4 processes decodes and folds each record, renews its claims, fetches
and delivers. Reader and fetcher poll Kafka's client five times a second, because nothing wakes a
poll.
PyPy 3.11 with the same greenlets took 7 to 28 s a run where CPython took 6 to 10 s.

## What it does not do

- It switches threads only at locks, queues, waits and calls of Kafka. `make locks` interrupts them
  between any two bytecodes, in smaller worlds
  ([decision 020](decisions/020-a-seed-interrupts-threads-between-bytecodes.md)).
- Signals interrupt what takes messages, in one thread. They interrupt no `run`, `commit` or event
  loop, and no member of a group with a controller. Callbacks and observers have their own threads,
  to which no signal comes.
- In a recorded run the log loses no records, because `marshal validate` explains nothing after
  that.
- A killed process loses nothing that it wrote to a file, and no machine loses power.
- Groups have no TLS here, no log that loses records, and no controllers of different versions.
- It has no real brokers, sockets or clocks; `make chaos` has.
"""


def _first(docstring: str | None) -> str:
    assert docstring is not None
    return " ".join(docstring.strip().split("\n\n")[0].split())


def page() -> str:
    """The page as it is to be."""
    setting, of_groups = Setting(), GroupsSetting()
    rooms = {name: sys.modules[check.__module__] for name, check in checkers.CHECKERS.items()}
    return PAGE.format(
        clients=setting.clients,
        claims=len(setting.topics) * setting.partitions,
        interval_s=setting.heartbeat_interval_s,
        messages_per_s=setting.messages_per_s,
        fault_every_s=setting.fault_every_s,
        faults=_rows(
            (f"`{name}`", f"{fault.weight:g}", _first(fault.happens.__doc__))
            for name, fault in faults.FAULTS.items()
        ),
        controllers=of_groups.controllers,
        members=of_groups.members,
        of_groups=len(of_groups.topics),
        each=of_groups.partitions,
        session_s=of_groups.session_timeout_s,
        group_fault_s=of_groups.fault_every_s,
        group_faults=_rows(
            (f"`{name}`", f"{fault.weight:g}", _first(fault.happens.__doc__))
            for name, fault in group_faults.FAULTS.items()
        ),
        group_checkers=_rows(
            (f"`{name}`", _first(check.__doc__)) for name, check in group_checkers.CHECKERS.items()
        ),
        ways=", ".join(f"`{way}`" for way in applications.WAYS),
        checkers=_rows((f"`{name}`", _first(room.__doc__)) for name, room in rooms.items()),
    )


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    print(page(), end="")
