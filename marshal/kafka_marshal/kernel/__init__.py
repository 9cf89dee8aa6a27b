"""The reducer compiled, over columns: for logs of many millions of records.

`columns` decodes values and headers of whole Arrow batches. `fold` steps claims through them, under
either rule set. `runs` finds the heartbeats that say nothing new, and `requests` finds runs of
ClaimingRanges and folds them. What a record does is defined by `codec` and `core` alone. Tests
compare this room with them row by row, and `codec` itself decodes what is not written the ordinary
way.

Compiled by numba, which compiles plain Python loops over arrays at the first call and keeps the
result. So there is no build step and no wheel of our own, and the code reads like the reducer that
it mirrors. Loading numba takes longer than a small log, so nothing is imported here, and `silences`
and `request_table` need none.
"""
