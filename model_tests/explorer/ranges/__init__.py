"""`MCRanges.tla` over the reducer of ranges: no consumers, any record that anybody could build.

`world` reads a model's bounds, `records` has what may land, and `environment` lets it land. `cut`,
`suffix` and `liveness` are the modules of the same names. Operators of the specification that a
configuration replaces are functions here, so that `mistakes` can replace them, too.
"""
