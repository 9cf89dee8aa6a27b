"""Worlds of `GroupWorld.tla` by the machines of groups: the reducer, controllers and members."""
