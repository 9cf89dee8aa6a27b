"""The columns of a table of ClaimingRanges, one per row, that `requests` reads. No numba."""

from __future__ import annotations

(OFFSET, TIMESTAMP, CLOCK, VERSION, COUNT, SEEN, EPOCH, DONE, INSTANCE, ADDRESS, ROW, FIELDS) = (
    range(12)
)
"""`CLOCK` is that of the coordinating partition, `INSTANCE` and `ADDRESS` are codes, and `ROW` is
the index of the record. A missing header is negative."""
