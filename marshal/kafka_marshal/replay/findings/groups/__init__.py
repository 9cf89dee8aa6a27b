"""Findings about a group: its shares, intervals, pauses and administrators."""
