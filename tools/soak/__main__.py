"""An hour without a fault: `make soak ARGS="--seconds 3600 --rate 1000 --partitions 64"`.

Two groups of two processes consume one topic, one group at least once and one at most once, in ways
that the seed draws. Each process samples its memory, handles, threads, the lateness of its
heartbeats, its recording and its log. A straight line is fitted to each after the warm-up, and must
not rise by more than is allowed. Each message must be processed once by each group.

The folder of the run holds the samples. Exit code 1 if something grows.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from pathlib import Path

from tools.soak.run import Soak
from tools.soak.worker import LEAKS

from kafka_marshal.testing import Broker


def positive(text: str) -> float:
    """A number above 0."""
    if not (number := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def options(words: list[str] | None = None) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seconds", type=positive, default=3600, help="how long there is load")
    parser.add_argument("--rate", type=positive, default=1000, help="messages a second")
    parser.add_argument("--partitions", type=int, default=64, help="so many claims in each group")
    parser.add_argument("--interval", type=positive, default=10, help="of heartbeats, in seconds")
    parser.add_argument("--every", type=positive, default=5, help="seconds between two samples")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--leak", choices=sorted(LEAKS), help="plant one, to see it found")
    parser.add_argument(
        "--traced", action="store_true", help="print the lines of code that keep memory (slow)"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/soak"))
    asked = parser.parse_args(words)
    if asked.partitions < 2:
        parser.error(f"argument --partitions: 2 or more, not {asked.partitions}")
    return asked


def main() -> None:
    """Run it; exits 1 if something is wrong."""
    asked = options()
    folder = asked.folder / str(asked.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"soak: --seed {asked.seed}, in {folder}", flush=True)
    with Broker() as broker:
        wrong = Soak(broker, asked, folder).run()
    print(f"soak: --seed {asked.seed}: {'all is flat' if not wrong else f'{wrong} WRONG'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
