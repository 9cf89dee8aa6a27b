"""The kernel is the reducer, over columns."""
