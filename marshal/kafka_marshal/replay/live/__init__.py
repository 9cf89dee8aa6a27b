"""A coordination topic read from a live broker: the one room of a replay that knows a client.

`settings` says how to connect, `tail` reads a topic, `dump` puts a range of it into files for a
batch replay. `stories` tells findings as they begin and end, `watch` folds for ever, `sinks` are
where the telling goes.
"""
