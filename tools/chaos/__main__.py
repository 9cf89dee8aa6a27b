"""Chaos on real brokers, for a while: `make chaos ARGS="--seconds 600 --brokers 3"`.

Two groups consume one topic at once, one at least once and one at most once. Each consumer is a
process; whenever one is started it takes the way of consuming that has done the least. Faults are
drawn from a seed. Consumers are killed with -9, put to sleep, ended in order and started again. One
gets a twin under its client id, or its machine's clock is set. A group is paused or released, or a
position is set. With three brokers one is killed or all stand still.

In the end it compares what consumers wrote down with what must be so:

- at least once no message is lost, and no more than a window repeated for every new owner;
- at most once no message is handed over twice;
- at most once `marshal receipts` lists every message that was not processed, and at most one batch
  for a tenure and partition;
- no consumer ended by itself, failed, or owns nothing at the end;
- the specification explains the whole run as it was recorded.

Exit code 1 if one of these is not so. The seed repeats the faults, not the machine's load.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from pathlib import Path

from tests.client.broken import MISTAKES
from tools.chaos.run import Chaos

from kafka_marshal.testing import QUICK, Cluster


def main() -> None:
    """Run it; exits 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="how long there are faults")
    parser.add_argument("--faults", type=int, default=0, help="fewer than this are a failure")
    parser.add_argument("--consumers", type=int, default=3, help="of each group")
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 3))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--outcome-ms", type=int, default=3_000, help="then it is unknown")
    parser.add_argument("--mistake", choices=sorted(MISTAKES), help="c0 is broken, to see it fail")
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"))
    options = parser.parse_args()
    folder = options.folder / str(options.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"chaos: --seed {options.seed}, recorded in {folder}", flush=True)
    with Cluster(brokers=options.brokers, java_options=QUICK) as cluster:
        wrong = Chaos(cluster, options, folder).run()
    print(f"chaos: --seed {options.seed}: {'all is well' if not wrong else f'{wrong} WRONG'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
