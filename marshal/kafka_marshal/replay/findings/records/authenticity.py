"""Records that no known key signed. The fold itself does not check MACs.

They are as many as make a client stop that requires authentic records.
"""

from __future__ import annotations

from kafka_marshal.authentication import Authenticity, UnauthenticRecords
from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.model.published import FindingRow, ProofRow
from kafka_marshal.replay.model.rows import readable_bytes


def finding_of(log: str, found: UnauthenticRecords) -> FindingRow:
    """The finding about these records, as far as they were read."""
    signed = found.verification.authenticity is not Authenticity.NOT_SIGNED
    kind = CATALOGUE["record_not_authentic" if signed else "record_not_signed"]
    shown = {raw.offset: raw for raw in (*found.proofs, found.last)}.values()
    return FindingRow(
        log=log,
        code=kind.code,
        severity=kind.severity,
        property=kind.property,
        coordinating_partition=found.partition,
        group=found.group,
        instance=found.instance,
        client=found.client,
        offset=found.first.offset,
        timestamp_ms=found.first.timestamp_ms,
        last_offset=found.last.offset,
        last_timestamp_ms=found.last.timestamp_ms,
        count=found.count,
        sentence=found.sentence,
        records=tuple(
            ProofRow(
                offset=raw.offset, timestamp_ms=raw.timestamp_ms, value=readable_bytes(raw.value)
            )
            for raw in shown
        ),
    )
