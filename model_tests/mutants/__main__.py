"""`make mutants`: run everything that kills mutants and print one table.

Exit code 1 if a mutant survives that should not, or a room is below 95 %. A hand-made one must be
noticed by its property, and a generated one that survives is explained in `survivors.toml`.
"""

from __future__ import annotations

import argparse
import sys
import time

from model_tests.mutants import generated, table


def main() -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--hand-made", action="store_true", help="leave generated ones out")
    parser.add_argument("--named", metavar="NAME", help="one hand-made mutant alone")
    parser.add_argument("--children", type=int, help="mutants at a time (default: every core)")
    parser.add_argument("only", nargs="*", help="functions: 'core.claims.fenced.*'")
    asked = parser.parse_args()

    rows, wrong = table.of_the_specification(), []
    if asked.named and not any(
        mutant.name == asked.named for made in table.HAND_MADE.values() for mutant in made
    ):
        parser.error(f"there is no hand-made mutant {asked.named!r}")
    for where, mutants in table.HAND_MADE.items():
        chosen = [mutant for mutant in mutants if asked.named in (None, mutant.name)]
        more, faults = table.of_hand_made(where, chosen)
        rows += more
        wrong += faults
    print("\n".join(table.laid_out(rows)))

    if not asked.hand_made and not asked.named:
        began = time.monotonic()
        made = generated.run(asked.only, asked.children)
        functions = {mutant.change.function for mutant in made}
        listed = [
            survivor
            for survivor in generated.survivors()
            if not asked.only or survivor.change.function in functions
        ]
        lines, faults = table.of_generated(made, listed)
        wrong += faults
        print(f"\nGenerated, {time.monotonic() - began:.0f} s:\n")
        print("\n".join(lines))

    print()
    for sentence in wrong:
        print(f"WRONG {sentence}")
    if not wrong:
        print(
            "Each is killed by what must kill it. Models of the specification run in `make spec`."
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
