"""Shared partitions: the ranges this instance holds, and the effects their machines request."""
