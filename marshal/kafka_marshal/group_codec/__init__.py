"""Encodes and decodes the events of `__marshal_groups`: JSON, and two decimal headers."""
