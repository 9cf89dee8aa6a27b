"""Reads a coordination topic from a live broker. The part of a replay that uses the client.

`dump` copies a range of a topic to files for a batch replay. `live_findings` reports findings when
they begin and end. `watch` folds endlessly, and `sinks` are its outputs. `on_spark` is a watch on
Spark. Only it and `stream` need pyspark here; `folding` is the work of its executors.
"""
