"""Only the process that won an epoch delivers messages under it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.simulate.history import Topic
from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    owners: dict[tuple[Topic, int], list[str]] = defaultdict(list)
    for where, epoch, who, _ in judged.wins():
        owners[where, epoch].append(who)  # several only where the log lost records
    for given in judged.history.given:
        owner = owners[given.where, given.epoch]
        if given.instance not in owner:
            yield (
                f"{given.process}, instance {given.instance}, gave {given.where} {given.offset} "
                f"under epoch {given.epoch}, which {', '.join(owner) or 'nobody'} won"
            )
