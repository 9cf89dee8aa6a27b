"""The specification's environment over the Python machines: the same graph as TLC's, or a mistake.

Five environments, a room each: `claims` has `Marshal.tla`, `ranges` has `MCRanges.tla`, `admins`
has `SetPosition.tla`, `shares` has `FairShare.tla` and `intervals` has `Interval.tla`. In each,
`environment` has the actions, `parts` what a state is made of, `properties` judges what is found,
and `mistakes` breaks it on purpose. What they share is here: `explore` goes through all states and
counts them, `compare` says whether TLC found the same. Nothing here is part of the package, and all
that makes it fast (interned parts, caches) stays here.
"""
