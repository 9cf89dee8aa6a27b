"""Chaos on real brokers, for a while: `make chaos ARGS="--seconds 600 --seed 1"`.

Two groups consume one topic at once, one at least once and one at most once. Two more share another
topic by ranges, with more consumers than it has partitions. Each consumer is a process; whenever
one is started it takes the way of consuming that has done the least. Consumers and brokers reach
brokers only through a proxy of our own. Faults are drawn from a seed:

- consumers are killed with -9, put to sleep, ended in order and started again. One gets a twin
  under its client id, or its machine's clock is set;
- links between one consumer, one broker or all and one broker or all are cut in one direction or
  both, late, slow, or reset;
- with three brokers one is killed, stands still, or can write no more; all stand still; leaders
  move; the clock of one is up to three intervals ahead or behind;
- operators pause or release a group, or set a position.

In the end it compares what consumers wrote down with what must be so:

- at least once no message is lost, and no more than a window repeated for every new owner;
- at most once no message is handed over twice;
- at most once `marshal receipts` lists every message that was not processed, and at most one batch
  for a tenure and partition;
- of ranges, at least once a message is handed over once more for each holder that fell silent with
  it, by the log, and not more often. At most once what was not processed was held by one of these.
  Either may happen to what `set-position` ended with all ranges of its group;
- nobody is given a message of a range that the log did not grant to it, and in the end the log has
  every message as done;
- no consumer ended by itself, failed, or owns nothing at the end; but while there are faults, one
  that starts may find no broker;
- the specification explains the whole run as it was recorded;
- the replay of the log names the same owners, ranges, positions and losses, and no error that
  nobody saw.

Exit code 1 if one of these is not so. The seed repeats the faults, not the machine's load.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from pathlib import Path
from typing import Final

from tests.client.broken import MISTAKES, RANGE_MISTAKES
from tools.chaos.clocks import Clocks
from tools.chaos.proxy import Proxy
from tools.chaos.run import Chaos

from kafka_marshal.testing import QUICK, Cluster

NIGHT_FAULTS: Final = 1_000
SETTINGS: Final = {"replica.lag.time.max.ms": "4000"}
"""A broker that is cut off leaves the replicas in sync sooner than after 30 s."""


def main() -> None:
    """Run it; exits 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long there are faults")
    parser.add_argument("--faults", type=int, default=0, help="go on until there were that many")
    parser.add_argument("--night", action="store_true", help=f"--faults {NIGHT_FAULTS}")
    parser.add_argument("--consumers", type=int, default=6, help="of each group; 0: no such group")
    parser.add_argument(
        "--sharing", type=int, default=4, help="of each that shares by ranges; or 0"
    )
    parser.add_argument("--brokers", type=int, default=3, choices=(1, 3))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--outcome-ms", type=int, default=3_000, help="then it is unknown")
    mistakes = sorted({**MISTAKES, **RANGE_MISTAKES})
    parser.add_argument("--mistake", choices=mistakes, help="c0 is broken, to see it fail")
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"))
    options = parser.parse_args()
    folder = options.folder / str(options.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"chaos: --seed {options.seed}, recorded in {folder}", flush=True)
    if options.night:
        options.faults = max(options.faults, NIGHT_FAULTS)
    pids: dict[str, int] = {}
    clocks = Clocks(folder / "clocks")
    with Proxy(range(1, options.brokers + 1), lambda number: cluster.port(number), pids) as proxy:
        cluster = Cluster(
            brokers=options.brokers,
            java_options=(*QUICK, *clocks.java_options),
            classes=clocks.classes,
            settings=SETTINGS,
            advertised=proxy.ports,
        )
        with cluster:
            wrong = Chaos(cluster, proxy, pids, options, folder, clocks).run()
    print(f"chaos: --seed {options.seed}: {'all is well' if not wrong else f'{wrong} WRONG'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
