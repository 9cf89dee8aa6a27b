"""`python -m kafka_marshal.cli` is the command `marshal`."""

from kafka_marshal.cli import main

main()
