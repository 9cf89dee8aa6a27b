"""`python -m tools.setup.kernel`: let numba keep what it compiles of the kernel.

Small logs go through every part of it. Otherwise several processes of the tests would compile the
same functions at the same time; nothing needs it.
"""

from tests.kernel import hostile, test_fold
from tests.replay.fleets import fleet
from tests.replay.fold import test_request_runs, test_run_length
from tests.replay.live import test_watched_claims
from tests.replay.told import INTERVAL_MS


def main() -> None:
    """Compile, or find what was compiled."""
    judging = test_run_length.judging()
    raws = list(hostile.log(0, 200))
    test_fold.alike(raws, test_fold.RULES)
    test_watched_claims.alike(raws, judging)
    at_work = test_request_runs.at_work(0, 300)
    for given, size in ((at_work, 1_000), (test_run_length.in_order(fleet(1, 200)), 50)):
        test_run_length.Chunked(given, size, INTERVAL_MS).told(judging)
    print("setup: the kernel is compiled")


if __name__ == "__main__":
    main()
