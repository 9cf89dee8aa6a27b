"""Reads a coordination topic from a live broker. The part of a replay that uses the client.

`dump` puts a range of a topic into files for a batch replay. `live_findings` tells findings as they
begin and end, `watch` folds for ever, `sinks` are where the telling goes. `on_spark` is a watch,
too: it and `stream` are all that needs pyspark in here, and `folding` is what its executors do.
"""
