"""Findings about the records themselves: gaps, timestamps, senders, headers."""
