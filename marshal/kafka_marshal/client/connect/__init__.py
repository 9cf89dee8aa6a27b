"""Kafka clients, clocks and threads, and everything that is read or written through them."""
