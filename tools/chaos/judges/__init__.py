"""Whether a chaos run went well: what consumers wrote down, the log, its replay, recordings."""
