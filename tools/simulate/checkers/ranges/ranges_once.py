"""AtMostOnce: no message of a shared partition is delivered twice.

At least once nobody processes what its holder gave back as not begun.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tools.simulate.checkers.ranges.ranges_done import failing
from tools.simulate.history import Given, Topic
from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    if not judged.setting.at_least_once:
        times = Counter((given.where, given.offset) for given in history.given_of_ranges)
        for (where, offset), count in times.items():
            if count > 1:
                yield f"{where} offset {offset} was given {count} times"
        return
    processed: dict[tuple[Topic, int], list[Given]] = defaultdict(list)
    for given in history.processed_of_ranges:
        if given.unordered:  # it may process what lies behind a message that it has not begun
            continue
        processed[given.where, given.epoch].append(given)
    failed = failing(judged)
    for each in judged.shared.changes:
        for id_, holder, offsets in each.freed:
            if holder != each.record.message.instance_id:
                continue
            for given in processed[each.where, id_]:
                if given.offset in offsets and given.process not in failed:
                    yield (
                        f"{given.process} processed {each.where} {given.offset} of range {id_}, "
                        f"and record {each.appended.partition}/{each.appended.offset} gave it back"
                    )
