"""Sends records: an outcome for each one, in bounded memory, with a fencing token."""
