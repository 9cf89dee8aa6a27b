"""The judge of recorded runs compiled, over columns: for runs of many millions of events.

`lines` takes apart lines that are written the ordinary way. `readers` folds a record into what a
reader knows of a claim, and `consumers` has the machine of one instance and claim. `events` judges
lines one after the other, until one is not ordinary or nothing explains it. What is right is
defined by `core`, `machines` and `validate` alone: they judge that line, and tests compare.
"""
