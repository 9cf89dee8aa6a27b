"""Bytes to the events of `__marshal_groups` and back: JSON, and two decimal headers."""
