"""Findings about a group: its shares, its intervals, its pauses and administrators."""
