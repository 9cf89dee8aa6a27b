"""Runs the command `marshal`, as `python -m kafka_marshal.cli`."""

from kafka_marshal.cli import main

main()
