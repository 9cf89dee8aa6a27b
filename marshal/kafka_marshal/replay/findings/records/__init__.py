"""Findings about the records themselves: gaps, stamps, senders, headers."""
