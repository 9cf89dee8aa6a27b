"""Walks: random schedules over the machines and the reducer, judged by what is specified.

TLC goes through all of a small world; a walk goes far in a larger one, with many claims, several
coordinating partitions, clocks that are wrong and records from strangers. `simulation` is the
world, `properties` and `refusals` watch it, `machine` lets Hypothesis choose, `telling` prints what
it found so that it can be read, pasted and kept.
"""
