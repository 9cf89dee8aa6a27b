"""Unreadable headers that were added after the first version: they count as absent.

Older versions of ours do not look at them, so no verdict may depend on one (`AMENDMENTS`). Without
a finding nobody would notice that a client writes them wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kafka_marshal.codec import malformed_amendments
from kafka_marshal.core import wire
from kafka_marshal.core.messages import NOT_DECIMAL, ClaimingPartition
from kafka_marshal.range_codec import decode_range_headers
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.model.events import JudgedRecord
from kafka_marshal.replay.model.phrasing import clock, times, who
from kafka_marshal.replay.model.published import FindingRow


class MalformedHeaders:
    """One case for each sender and header."""

    def __init__(self) -> None:
        self._cases: dict[tuple[str, str, str, str], Case] = {}

    def observe(self, sighting: JudgedRecord) -> None:
        """See a record that has headers; each record once, whatever it reaches."""
        message, pairs = sighting.message, sighting.raw.headers
        unreadable = malformed_amendments(pairs)
        claims = isinstance(message, ClaimingPartition)
        if claims and decode_range_headers(pairs).window == NOT_DECIMAL:
            unreadable = (*unreadable, wire.RANGE_HEADERS[0].name)
        for name in unreadable:
            sender = message.instance_id, message.client_id
            case = self._cases.get((message.group_id, *sender, name))
            if case is None:
                sentence = partial(_sentence, name)
                case = Case("malformed_header", message.group_id, None, None, *sender, sentence)
                self._cases[(message.group_id, *sender, name)] = case
            case.add(sighting)

    def at_the_end(self) -> Iterator[FindingRow]:
        """The findings."""
        for case in self._cases.values():
            yield case.row()


def _sentence(name: str, case: Case) -> str:
    first = case.first_seen
    return (
        f"{who(case.instance, case.client)} of group {case.group} wrote {name} so that it cannot "
        f"be read in {times(case.count, 'record')}, the first at offset {first.offset} "
        f"({clock(first.clock_ms)}). It counts as absent, and the "
        f"{'record was' if case.count == 1 else 'records were'} judged without it."
    )
