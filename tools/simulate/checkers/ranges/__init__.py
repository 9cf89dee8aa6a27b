"""Shared partitions: who holds which offsets, and what becomes of each of their messages."""
