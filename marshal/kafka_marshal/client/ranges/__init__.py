"""Partitions that several consumers share: which ranges are ours, and what they want done."""
