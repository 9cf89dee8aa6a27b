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

`make simulate` runs the consumer that ships, in all its threads, under faults, in simulated time.
A seed decides everything: who goes on at each point where threads meet, what a fault hits, when
messages come. So a run that breaks a promise can be repeated:

```sh
make simulate ARGS="--hours 2"
make simulate ARGS="--one 4711"
make simulate ARGS="--one 4711 --shrink"
```

The first prints a table of what happened, and the seed of each run that broke a promise; then its
exit code is 1. The second repeats one run and prints its faults. The third repeats it with as few
faults as still break the promise. Such a run is printed as a story:
records of that partition and what they did, callbacks, and what each process was given.
`--simulated-s`, `--fault-every-s`, `--heartbeat-interval-s`, `--messages-per-s`, `--clients` and
`--partitions` change the world. By default it is the
*reference world*: {clients} processes, {claims} claims, a heartbeat interval of {interval_s:g} s,
{messages_per_s:g} messages a second, one fault in {fault_every_s:g} s.

One run of three has limits that are near: of what is fetched ahead, of a batch, of the window, of
claims and of requests a second.

With `--share` the processes share one topic by ranges, under seven of the faults: `kill`, `close`,
`stall`, `slow`, `append`, `slow_append` and `slow_fetch`. The log is then folded by the reducer of
ranges, too, and the checkers whose names begin with `range` judge what it says. Half of these runs
are recorded and explained by the specification. That takes 13 to 23 % more CPU time for such a run.

What runs is the code that ships, above Kafka's own client. Threads, locks and queues are those of
a scheduler ([decision 017](decisions/017-threads-come-through-the-seam.md)); Kafka is the one in
memory, which is held to a real one ([what it does](reference/in-memory-kafka.md)). Half of all
runs are at most once. Of each sixteen two are recorded and explained by the specification
([validate.md](validate.md)); in two some processes sign, and in two all do and require it
([sign records](how-to/sign-records.md)). Half of the other processes have a snapshot. A process may
have an observer that raises, or one that takes long. The logs of four are replayed. In two
originals come and go: there the operator sets and pauses nothing, and the log loses nothing, as
[interop.md](interop.md) asks for.

## Faults

Several may last at the same time.

| fault | how often | what happens |
|---|---|---|
{faults}

Processes consume in one of these ways: {ways}.

## What is checked of every run

What a fault may lead to is what [safety.md](safety.md) says, and no more. Where the log of claims
lost a grant, its messages may be given twice, and no receipt lists them. Where retention removed
messages, they are passed over. Where it cut the log of claims, and a consumer says so, claims wait.
A process may end with the errors that
[troubleshooting](troubleshooting.md#errors-of-a-consumer) names for what happened.

| checker | what must hold |
|---|---|
{checkers}

`tests/client/fleet/test_by_seed.py` shows that each of them finds a mistake. [Mutants in simulated
runs](reference/simulated-mutants.md) counts how many runs a mistake of the client takes. `make
reached` prints which branches of the client, actions, verdicts and pairs of faults runs reach.

## Groups with a controller

`make simulate-groups` runs a world of groups. {controllers} controllers serve a group of {members}
members, which share {of_groups} topics with {each} partitions each. The session timeout is
{session_s:g} s, and there is a fault every {group_fault_s:g} s. What runs is `ControllerService`
in its event loop and threads, with the claims that it competes by, and `GroupConsumer` in a thread.
Between them is a network in memory
([decision 027](decisions/027-connections-come-through-the-seam.md)): bytes come late, in pieces, or
not at all, and connections are reset. The seed chooses the strategy, and whether rebalances are
incremental or eager. It also chooses how long bytes take, and which machines' clocks run 3 % too
fast or too slowly.

In every second world limits are near to what members need: of connections, of strangers, of
members, of an event's size and of what is fetched ahead. Such a world has 2 to 12 members, which
may all come from one host, and a session timeout of 3 to 10 s. Where there is no room for all, some
are served, and the others must know why they are not. Then there is room: some members leave, or
controllers come that allow more, and all must be served. Each run ends with a controller that is
killed while nothing else is wrong.

```sh
make simulate-groups ARGS="--hours 2"
make simulate-groups ARGS="--one 4711"
make simulate-groups ARGS="--one 4711 --shrink"
```

They print what the same options of `make simulate` do. `--controllers`, `--members`,
`--partitions`, `--session-timeout-s`, `--messages-per-s`, `--simulated-s` and `--fault-every-s`
change the world.

| fault | how often | what happens |
|---|---|---|
{group_faults}

| checker | what must hold |
|---|---|
{group_checkers}

`tests/client/groups/test_groups_by_seed.py` shows that each of them finds a mistake. A simulated
second takes 30 to 60 ms of CPU time. Each of the controllers looks at 16 partitions 20 times a
second, and renews its claims once a second.

## How fast

`make simulate` prints how fast it was. In the reference world a simulated second takes 8 to 15 ms
of CPU time: 67 to 121 x real time on one core, and twice that on two. At most once takes half as
long again as at least once, since it writes twice as many records. A simulated second has 6 records
of the log, 19 messages and 215 switches between threads. A night of 8 hours is 1,000 to 1,900
simulated hours on 2 cores. These are eight runs of 200 s, on a machine that was busy with other
work; on an idle one a core does more.

| what takes the time | share |
|---|---|
| the client: its threads, loop, reader and fetcher | 34 % |
| its machines, the reducer and the codec | 25 % |
| the scheduler: switches, locks, the clock | 21 % |
| Kafka in memory | 10 % |
| applications and faults | 7 % |
| checkers | 3 % |

A thousand times real time was the aim, and is out of reach for this client in CPython. Where
nothing has happened it does little: it looks at no claim of which nothing is in hand. What is left
is spread evenly. Each of 4 processes decodes and folds each record, renews its claims, fetches and
hands out. Reader and fetcher poll Kafka's client five times a second, since nothing wakes a poll.
PyPy 3.11 with the same greenlets took 7 to 28 s a run where CPython took 6 to 10 s.

## What it does not do

- Threads change places where they meet: at locks, queues, waits and calls of Kafka. `make
  locks` interrupts them between any two bytecodes ([decision
  020](decisions/020-a-seed-interrupts-threads-between-bytecodes.md)), in smaller worlds.
- A run that is recorded has no log that loses records: that ends what `marshal validate` explains.
- A process that is killed loses nothing that it has written to a file, and a machine never
  loses power.
- Groups have no TLS here, no log that loses records, and no controller of another version.
- Real brokers, sockets and clocks: that is `make chaos`.
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
