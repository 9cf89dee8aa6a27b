"""Scripts on both sides for a while: `make conformance ARGS="--seconds 600"`.

First the written ones, then others that seeds draw. A script that differs is made as short as it
gets, and printed. Exit code 1 if one differs.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time

from kafka_marshal.testing import QUICK, Broker
from tests.client.conformance.compare import AT_ONCE, compared, compared_alone
from tests.client.conformance.generated import differing
from tests.client.conformance.scripts import ALONE, SCRIPTS


def main() -> None:
    """Run them; exits 1 if one differs."""
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to draw scripts")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--list", action="store_true", help="print the scripts, and run none")
    options = parser.parse_args()
    if options.list:
        print("\n".join([*SCRIPTS, *ALONE]))
        return
    print(f"conformance: --seed {options.seed}", flush=True)
    wrong = played = 0
    with Broker(java_options=QUICK) as broker:
        written = compared(SCRIPTS, broker.bootstrap), compared_alone(ALONE, broker)
        for each in itertools.chain(*written):
            if each.difference is not None:
                wrong += 1
                print(f"{each.name}\n{each.difference}", flush=True)
        until_s = time.monotonic() + options.seconds
        while time.monotonic() < until_s:
            seeds = range(options.seed + played, options.seed + played + AT_ONCE)
            played += len(seeds)
            for each in differing(seeds, broker.bootstrap):
                wrong += 1
                print(f"--seed {each.name}\n{each.difference}", flush=True)
    counted = f"{len(SCRIPTS) + len(ALONE)} scripts, and {played} that seeds drew"
    print(f"conformance: {counted}: {wrong or 'none'} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
