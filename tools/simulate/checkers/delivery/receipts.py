"""At most once, receipts list every lost message whose grant is still in the log."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if judged.setting.at_least_once:
        return
    given = {(each.where, judged.generation_of(each), each.offset) for each in judged.history.given}
    for where, generation, offsets in judged.granted():
        listed = judged.listed.get(where, set())
        listed = listed | judged.lost_grants[where]
        gone = max(judged.history.gone_below(where), default=0)
        for offset in range(max(offsets.start, gone), offsets.stop):
            if (where, generation, offset) not in given and offset not in listed:
                yield f"{where} {offset} was granted, given to nobody, and no receipt lists it"
