"""The columns of a table of ClaimingRanges, one per row, that `requests` reads. No numba."""

from __future__ import annotations

(OFFSET, TIMESTAMP, CLOCK, VERSION, COUNT, SEEN, EPOCH, DONE, INSTANCE, ADDRESS, ROW, FIELDS) = (
    range(12)
)
"""`CLOCK` is that of the coordinating partition, `INSTANCE` and `ADDRESS` are codes, and `ROW` is
where the record is. A header that is not there is negative."""
