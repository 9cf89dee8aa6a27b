"""Findings about one claim: who acted on it, how its position moved, when its owner was silent."""
