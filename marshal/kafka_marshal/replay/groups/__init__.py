"""Replays `__marshal_groups`: folds one partition of the log into rows. Knows no engine."""
