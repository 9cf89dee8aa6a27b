"""What is given out under an epoch is given out by the one process that won it."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    owners = {(where, epoch): who for where, epoch, who, _ in judged.wins()}
    for given in judged.history.given:
        owner = owners.get((given.where, given.epoch))
        if owner != given.instance:
            yield (
                f"{given.process}, instance {given.instance}, gave {given.where} {given.offset} "
                f"under epoch {given.epoch}, which {owner or 'nobody'} won"
            )
