"""Handling messages: order, retries, dead letters, threads."""
