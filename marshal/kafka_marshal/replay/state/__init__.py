"""The state that a replay saves, and resumes from."""
