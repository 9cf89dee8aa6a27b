"""The reducer compiled, over columns: for logs of many millions of records.

`columns` decodes values and headers of whole Arrow batches. `fold` steps claims through them, under
either rule set. `runs` finds redundant heartbeats, and `requests` finds and folds runs of
ClaimingRanges. Only `codec` and `core` define the effect of a record. Tests compare this package
with them row by row, and `codec` itself decodes records that are not in the ordinary form.

numba compiles plain Python loops over arrays at the first call and caches the result. So there is
no build step and no wheel of our own, and the code reads like the reducer that it mirrors. Loading
numba takes longer than replaying a small log, so nothing is imported here, and `silences` and
`request_table` need no numba.
"""
