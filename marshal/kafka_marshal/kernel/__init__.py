"""The reducer once more, compiled, over columns: for logs of many millions of records.

`columns` decodes values and headers of whole Arrow batches; `fold` steps claims through them, under
either rule set; `runs` finds the heartbeats that say nothing new. What a record does is defined by
`codec` and `core`, and nowhere here: tests hold this room to them row by row, and what is not
written the ordinary way is decoded by `codec` itself.

Compiled by numba, for it compiles plain Python loops over arrays at the first call and keeps the
result: no build step, no wheel of our own, and the code reads like the reducer that it mirrors.
Loading numba takes longer than a small log, so nothing is imported here, and `silences` needs none.
"""
