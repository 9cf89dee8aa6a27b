"""Clients of Kafka, clocks and threads, and what is read, written and asked through them."""
