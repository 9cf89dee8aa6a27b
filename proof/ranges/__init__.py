"""The shipped reducer of ranges, for any number of participants, ranges and records."""
