"""The tables of a replay of `__marshal_groups`: groups with a controller."""
