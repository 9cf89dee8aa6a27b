"""Compressed input within limits: what unpacks to too much is refused, before it takes memory."""
