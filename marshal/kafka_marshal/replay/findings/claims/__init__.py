"""Findings about one claim: who acted on it, how it moved, when it was silent."""
