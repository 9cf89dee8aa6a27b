"""A replay of `__marshal_groups`: one partition of the log, folded into rows. Knows no engine."""
