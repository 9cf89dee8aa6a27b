"""Polls Spark for its progress while it works."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark import SparkContext

EVERY_S: Final = 0.3


@contextmanager
def tasks_reported(
    context: SparkContext, report: Callable[[int, int], None] | None
) -> Iterator[None]:
    """Report, from a thread of its own, how many tasks of the stages at work are done, of how many.

    Nothing is reported between stages. A report that fails never breaks the work.
    """
    if report is None:
        yield
        return
    over = threading.Event()

    def ask() -> None:
        tracker = context.statusTracker()
        while not over.wait(EVERY_S):
            try:
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except Exception:  # Spark is being stopped
                return
            at_work = [stage for stage in stages if stage is not None]
            if at_work:
                report(
                    sum(stage.numCompletedTasks for stage in at_work),
                    sum(stage.numTasks for stage in at_work),
                )

    asking = threading.Thread(target=ask, name="marshal-progress", daemon=True)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join(timeout=5)
