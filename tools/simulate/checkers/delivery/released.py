"""ReleaseRepeatsNothing: a release covers all that its tenure processed: no repeat, no receipt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.simulate.history import Topic
from tools.simulate.judged.claims import Judged, place

from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import ReleasingPartition


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    processed: dict[tuple[Topic, int, str], list[int]] = defaultdict(list)
    seen, history = 0, judged.history
    failed = {process for process, _, _ in history.raised} | history.interrupted
    if not judged.setting.at_least_once:  # a claim is given up with what the application has
        failed |= history.survived
    for appended, record, changes in judged.changes:
        for given in history.processed[seen : appended.processed]:
            # An application that fails, or is cut off, leaves the list in hand as not done.
            if not given.unordered and given.process not in failed:
                processed[given.where, given.epoch, given.instance].append(given.offset)
        seen = max(seen, appended.processed)
        if not isinstance(record.message, ReleasingPartition):
            continue
        for change in changes:
            before = change.before.claim
            if change.verdict is not Accepted.RELEASED or before.epoch is None:
                continue
            where, position = place(change), change.after.claim.position
            if where in judged.cut_off:  # the log may have lost the release again
                continue
            done = processed.pop((where, before.epoch, before.owner_instance or ""), [])
            if history.sought_by((where, before.epoch)):  # it may have given some of them again
                continue
            if judged.setting.at_least_once:
                wrong = [each for each in done if each >= position]
            else:
                listed = judged.listed_of.get((where, before.epoch), set())
                wrong = [each for each in done if each in listed]
            if wrong:
                yield (
                    f"{where} {wrong[0]} was processed before record {record.partition}/"
                    f"{record.offset} released its claim at {position}"
                )
