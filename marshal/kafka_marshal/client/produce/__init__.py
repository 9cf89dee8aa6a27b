"""Sending records to topics: what became of each, in bounded memory, with a fencing token."""
