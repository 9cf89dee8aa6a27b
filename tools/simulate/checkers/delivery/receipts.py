"""At most once, receipts list every message that was lost."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if judged.setting.at_least_once:
        return
    given = {
        (each.where, judged.generation(each.where, each.epoch), each.offset)
        for each in judged.history.given
    }
    for where, epoch, offsets in judged.granted():
        generation, listed = judged.generation(where, epoch), judged.listed.get(where, set())
        for offset in offsets:
            if (where, generation, offset) not in given and offset not in listed:
                yield f"{where} {offset} was granted, given to nobody, and no receipt lists it"
