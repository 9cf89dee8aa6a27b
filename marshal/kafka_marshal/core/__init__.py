"""The pure protocol: messages, the state of a claim, and the reducer that applies messages to it.

This room knows no clock, no network, no file and no thread. Time is a field of a record.
It does not know where records come from: a poll loop, a Spark partition and a TLC trace look the
same from here.
"""
