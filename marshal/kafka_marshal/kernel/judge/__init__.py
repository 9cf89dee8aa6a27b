"""The judge of recorded runs compiled, over columns: for runs of many millions of events.

`lines` parses lines in the ordinary form. `readers` folds a record into a reader's knowledge of a
claim, and `consumers` has the machine of one instance and claim. `events` judges lines one after
the other, until one is not ordinary or cannot be explained. Only `core`, `machines` and `validate`
define what is correct: they judge that line, and tests compare.
"""
